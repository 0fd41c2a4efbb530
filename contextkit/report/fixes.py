"""What to do about a miss: one fix for each cause, and how the provider's own verdict compares with our cause.

Takes a cause or a verdict, gives words. Knows nothing of terminals or pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from contextkit.ledger.misses import Miss
from contextkit.report.contents import Loss


@dataclass(frozen=True, slots=True)
class Fix:
    """What ends the misses of one cause."""

    short: str
    """In a few words, for the cell of a table."""
    text: str
    """In a sentence or two."""
    saves: bool = True
    """Whether it ends the misses, so that what they cost can be saved; a step to find the cause saves nothing yet."""


FIXES: Mapping[str, Fix] = MappingProxyType(
    {
        "below_minimum": Fix(
            "none needed",
            "The prompt is shorter than the model caches; short prompts are cheap.",
        ),
        "first_write": Fix(
            "none needed",
            "Nothing of this conversation was cached before; the first write loses nothing.",
        ),
        "model_changed": Fix(
            "one model a conversation",
            "Caches are kept per model: keep one model for a conversation, and start a new conversation for another.",
        ),
        "account_changed": Fix(
            "one account a conversation",
            "Caches are kept per account and host: send a conversation with one API key to one host.",
        ),
        "compaction": Fix(
            "compact less often",
            "Compact rarer and by more at once, best at a moment when the cache has run out anyway.",
        ),
        "params_changed": Fix(
            "freeze the setting",
            "A setting that keys the cache (thinking, effort, tool choice, speed) is best held for a conversation.",
        ),
        "tools_changed": Fix(
            "freeze the tools",
            "Send the same tools in the same order in every call; mask those that may not be used now.",
        ),
        "system_changed": Fix(
            "freeze the system prompt",
            "Move what changes (clock, memory, plan, directory listing) to the end of the conversation.",
        ),
        "messages_changed": Fix(
            "append only",
            "Never edit, prune or re-render what was sent: append, and compact in one declared step.",
        ),
        "ttl_expired": Fix(
            "longer lifetime",
            "Ask for the longer lifetime in this conversation, or compact before the pause.",
        ),
        "cold_start": Fix(
            "compact before leaving",
            "The pause was longer than every lifetime that is sold: compact or end the session before such a pause.",
            saves=False,
        ),
        "rules": Fix(
            "none needed",
            "Reads are rounded down, and part of a block is not read: nothing in the program changes that.",
            saves=False,
        ),
        "no_breakpoint": Fix(
            "mark the prompt",
            "No block is marked, so nothing is cached: set `cache_control` (Converse: `cachePoint`) on the last block.",
        ),
        "breakpoint_place": Fix(
            "move the breakpoint",
            "Place a breakpoint at the end of what stays the same, in front of what changes with each call.",
        ),
        "cold_fan_out": Fix(
            "leader first",
            "Let one call begin to answer before the others that share its prefix start.",
        ),
        "out_of_reach": Fix(
            "a breakpoint in between",
            "Place a further breakpoint: a lookup goes only so many blocks back from one. `Context` places it.",
        ),
        "aborted": Fix(
            "let it begin",
            "A call that ended before its reply began left nothing to read: cancel later, or retry sooner.",
        ),
        "reasoning_stripped": Fix(
            "keep the reasoning",
            "Earlier reasoning leaves the prompt at each user turn: ask to keep it (`reasoning.context` all_turns, gpt-5.6 and later "
            "do), or give several wishes in one turn.",
        ),
        "session_resumed": Fix(
            "resume sooner, or start anew",
            "A resumed session is sent in other words behind its system prompt: compact before you leave it, or start a new one.",
        ),
        "other_server": Fix(
            "one routing key each",
            "The provider answered from a server that had not seen the newer calls. Keep one `prompt_cache_key` a conversation, and fewer "
            "than about 15 requests a minute on one prefix.",
        ),
        "unknown": Fix(
            "record the requests",
            "Nothing recorded explains it: `contextkit proxy --record` or `contextkit.watch` keeps what the next report needs.",
            saves=False,
        ),
    }
)
"""Cause → its fix."""
_UNNAMED = Fix("see docs", "docs/explanation/judge.md names the causes.", saves=False)


_UNROUTED = Fix(
    "nothing in the prompt",
    "The provider answered from a server that had not seen the newer calls, and takes no key that keeps a conversation on one server.",
    saves=False,
)


def fix_of(miss: Miss | Loss) -> Fix:
    """Return the fix for a miss or for all misses of a cause; a pointer to the page for a cause without one."""
    if miss.cause == "other_server" and not miss.takes_routing_key:
        return _UNROUTED
    return FIXES.get(miss.cause, _UNNAMED)


_MEANS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "model_changed": ("model_changed",),
        "system_changed": ("system_changed",),
        "tools_changed": ("tools_changed",),
        "messages_changed": ("messages_changed", "compaction"),
        "input_changed": ("messages_changed", "compaction"),
        "service_tier_changed": ("params_changed",),
        "prompt_cache_key_changed": ("params_changed",),
    }
)
"""A provider's verdict → the causes of ours that say the same: Anthropic's `cache_miss_reason`, OpenAI's
`prompt_cache_diagnostics`. A compaction is a changed history to a provider, who is not told that it was meant."""
_SILENT = frozenset({"unavailable", "previous_message_not_found", "comparison_response_not_found", "cache_hit", ""})
"""Verdicts that name no cause."""


def is_agreed(cause: str, verdict: str) -> bool | None:
    """Return whether the provider's verdict says the same as our cause; None if it says nothing that can be compared.

    >>> is_agreed("compaction", "messages_changed"), is_agreed("ttl_expired", "system_changed"), is_agreed("unknown", "unavailable")
    (True, False, None)
    """
    return None if verdict in _SILENT else cause in _MEANS.get(verdict, (verdict,))


def provider_says(cause: str, verdict: str) -> str:
    """Format the verdict beside our cause in a word or two; empty where there is none.

    >>> provider_says("tools_changed", "tools_changed"), provider_says("unknown", "system_changed"), provider_says("unknown", "")
    ('agrees', 'says system_changed', '')
    """
    return {True: "agrees", False: f"says {verdict}", None: verdict and f"({verdict})"}[is_agreed(cause, verdict)]
