"""Checks of one request and its bill, whatever came before it: markers a provider refuses, counters that cannot be right.

A failed check is a gap of no tokens, whose kind is the name of the check: what it costs, if anything, is in no bill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from contextkit.cache.usage import Usage
from contextkit.ledger.parsed_call import ParsedCall
from contextkit.ledger.verdict import Cause, Gap
from contextkit.prompt.block import Block
from contextkit.prompt.breakpoints import MAX_BREAKPOINTS
from contextkit.redact import redact_text

Check = Callable[[ParsedCall], Gap | None]


def _failure(text: str, path: str, was: str = "", now: str = "") -> Gap:
    """Make the gap of a failed check: one sentence with the figures, where, what was asked for, what stands there or was
    billed.
    """
    return Gap("nobody", "rules", 0, path, text, was=redact_text(was), now=redact_text(now))


_LIFETIMES: Mapping[str, int] = {"5m": 300, "30m": 1800, "1h": 3600, "12h": 43200, "24h": 86400}
_CLAUDE_ENDPOINTS = ("anthropic_messages", "bedrock_converse")
_MEDIA = frozenset({"image", "document", "video"})
"""Types of blocks whose tokens do not follow from their bytes."""
_SERVER_TOOLS = (
    *("web_search", "web_fetch", "code_execution", "bash_code_execution", "text_editor_code_execution"),
    *("tool_search", "mcp_"),
)
"""Beginnings of the names of tools that run at the provider, several calls of the model behind one bill."""


# Markers
# ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Marker:
    """One marker of a request."""

    ttl_seconds: int
    path: str


def _takes_markers(sent: ParsedCall) -> bool:
    """Return whether the model caches at markers, and a request may carry four of them: Claude and Nova, not OpenAI."""
    return sent.row.cache == "breakpoints" and sent.row.provider in ("anthropic", "aws")


def _markers(sent: ParsedCall) -> list[_Marker]:
    """Return the markers of a request in cache order, with the one that the provider sets on the last block by itself."""
    key = "cachePoint" if sent.endpoint == "bedrock_converse" else "cache_control"
    marks = [
        _Marker(_ttl_seconds(sent, block.marker), f"{block.path}.{key}")
        for block in sent.blocks
        if block.marker is not None
    ]
    automatic = sent.params.get("cache_control")
    if automatic is None:
        return marks
    last = next((block for block in reversed(sent.blocks) if _can_be_marked(block)), None)
    is_marked = last is not None and last.marker is not None
    return (
        marks
        if is_marked
        else [*marks, _Marker(_ttl_seconds(sent, automatic if isinstance(automatic, dict) else {}), "cache_control")]
    )


def _ttl_seconds(sent: ParsedCall, marker: Mapping[str, object]) -> int:
    return _LIFETIMES.get(str(marker.get("ttl")), sent.row.default_ttl_seconds)


def _can_be_marked(block: Block) -> bool:
    return block.type != "thinking" and not _is_empty_text(block)


def _is_empty_text(block: Block) -> bool:
    text = block.value.get("text", "-") if isinstance(block.value, dict) else block.value
    return block.type == "text" and text == ""


def _too_many_markers(sent: ParsedCall) -> Gap | None:
    if not _takes_markers(sent) or len(marks := _markers(sent)) <= MAX_BREAKPOINTS:
        return None
    return _failure(
        f"{len(marks)} markers in one request, which takes {MAX_BREAKPOINTS}: it is refused, or one is dropped on the way",
        marks[MAX_BREAKPOINTS].path,
    )


def _lifetimes_out_of_order(sent: ParsedCall) -> Gap | None:
    if not _takes_markers(sent):
        return None
    for one, other in pairwise(_markers(sent)):
        if one.ttl_seconds < other.ttl_seconds:
            text = f"a marker of {other.ttl_seconds:,} s follows one of {one.ttl_seconds:,} s; longer lifetimes have to come first"
            return _failure(text, other.path, one.path, other.path)
    return None


def _unmarkable_block(sent: ParsedCall) -> Gap | None:
    if not _takes_markers(sent):
        return None
    block = next((block for block in sent.blocks if block.marker is not None and not _can_be_marked(block)), None)
    if block is None:
        return None
    what = "a thinking block" if block.type == "thinking" else "an empty text"
    text = f"{what} carries a marker: the request is refused, or nothing is written there"
    return _failure(text, f"{block.path}.cache_control")


def _lifetime_downgraded(sent: ParsedCall) -> Gap | None:
    """Find a write of five minutes that was billed where everything was marked for an hour."""
    usage = sent.usage
    if not _takes_markers(sent) or usage is None or not usage.write_5m or usage.write_1h:
        return None
    marks = _markers(sent)
    is_long = bool(marks) and all(mark.ttl_seconds == _LIFETIMES["1h"] for mark in marks)
    if not is_long or usage.write_5m < _MIN_TOKENS or _uses_server_tools(sent):
        return None
    text = f"every marker asks for an hour, and {usage.write_5m:,} tokens were billed as written for five minutes"
    return _failure(text, marks[0].path, "1h", "5m")


def _clearing_without_floor(sent: ParsedCall) -> Gap | None:
    configured = sent.params.get("context_management")
    edits = configured.get("edits") if isinstance(configured, dict) else None
    for index, edit in enumerate(edits if isinstance(edits, list) else ()):
        is_clearing = isinstance(edit, dict) and str(edit.get("type")).startswith("clear_tool_uses")
        if is_clearing and edit.get("clear_at_least") is None:
            text = (
                "tool results are cleared by the server with no least amount, so that a few tokens may cost the cache"
            )
            return _failure(text, f"context_management.edits[{index}]")
    return None


# Bills
# ----------------------------------------------------------------------------------------------------------------------

_MIN_TOKENS = 500
"""Counters below it are not looked at."""
_IMAGE_TOKENS = 1_500
_DOUBLED, _TOLERANCE, _EQUAL = 1.5, 0.3, 0.9
"""What a bill exceeds its prompt by, at least, if a part is counted twice; error of an estimate; least share of the input
that the part is, where the input holds it."""
_MIN_TOKENS_DROPPED, _DROPPED_SHARE = 4_000, 0.3
_MIN_TOKENS_SUMMED, _SUMMED = 2_000, 1.8


def _estimated(sent: ParsedCall) -> int:
    """Estimate the tokens of a request by its bytes, an image counted as what it is billed."""
    sizes = (
        len(block.body) if block.type not in _MEDIA else min(len(block.body), _IMAGE_TOKENS * 4)
        for block in sent.blocks
    )
    return int(sum(sizes) / sent.row.bytes_per_token)


def _all_tokens(usage: Usage) -> int:
    return (usage.fresh or 0) + (usage.read or 0) + _written(usage)


def _written(usage: Usage) -> int:
    return sum(tokens or 0 for _, tokens in usage.writes or ())


def _uses_server_tools(sent: ParsedCall) -> bool:
    """Return whether a tool that runs at the provider is offered or was used."""
    blocks = (block for block in sent.blocks if block.level == "tools" or block.type in ("call", "result"))
    kinds = (block.value.get("type") for block in blocks if isinstance(block.value, dict))
    return any(
        isinstance(kind, str) and (kind == "server_tool_use" or kind.startswith(_SERVER_TOOLS)) for kind in kinds
    )


def _has_media(sent: ParsedCall) -> bool:
    return any(block.type in _MEDIA for block in sent.blocks)


def _counted_twice(sent: ParsedCall) -> Gap | None:
    """Find a counter below zero, or an input that holds what is counted as read or written once more."""
    usage = sent.usage
    if usage is None:
        return None
    now = f"fresh {usage.fresh}, read {usage.read}, written {_written(usage)}"
    if any((count or 0) < 0 for count in (usage.fresh, usage.read, *(tokens for _, tokens in usage.writes or ()))):
        text = "a counter of the bill is below zero: cached tokens were taken off a count that never held them"
        return _failure(text, "usage", now=now)
    if sent.endpoint not in _CLAUDE_ENDPOINTS or not usage.fresh or _uses_server_tools(sent) or _has_media(sent):
        return None
    expected, cached = _estimated(sent), (usage.read or 0) + _written(usage)
    is_whole = abs(usage.fresh - expected) <= _TOLERANCE * expected and _EQUAL * usage.fresh <= cached <= usage.fresh
    if cached < _MIN_TOKENS or not is_whole or _all_tokens(usage) < _DOUBLED * expected:
        return None
    what = "writes" if _written(usage) > (usage.read or 0) else "reads"
    text = f"the bill adds up to {_all_tokens(usage):,} tokens for a prompt of about {expected:,}: {what} are counted twice"
    return _failure(text, "usage", now=now)


def _cached_counters_missing(sent: ParsedCall) -> Gap | None:
    """Find a long prompt with few input tokens and no cached ones: Anthropic's and Bedrock's input leaves out what was
    cached.
    """
    usage = sent.usage
    if usage is None or sent.endpoint not in _CLAUDE_ENDPOINTS or sent.call.error or _has_media(sent):
        return None
    expected = _estimated(sent)
    is_short = expected >= _MIN_TOKENS_DROPPED and 0 < _all_tokens(usage) < _DROPPED_SHARE * expected
    if usage.read or _written(usage) or not is_short:
        return None
    claim = "nothing of the cache" if usage.read is None else "that nothing was cached"
    text = f"the bill names {_all_tokens(usage):,} tokens for a prompt of about {expected:,} and says {claim}"
    return _failure(f"{text}: the cached counters were lost on the way", "usage")


def _summed_calls(sent: ParsedCall) -> Gap | None:
    usage = sent.usage
    if usage is None or (usage.read or 0) < _MIN_TOKENS_SUMMED or not _uses_server_tools(sent):
        return None
    expected = _estimated(sent)
    if (usage.read or 0) <= _SUMMED * expected:
        return None
    text = f"{usage.read:,} tokens were read for a prompt of about {expected:,}: the bill ({_all_tokens(usage):,} in all) sums"
    return _failure(f"{text} several calls that a server tool made", "usage")


CHECKS: Mapping[str, Check] = {
    "too_many_markers": _too_many_markers,
    "lifetimes_out_of_order": _lifetimes_out_of_order,
    "unmarkable_block": _unmarkable_block,
    "lifetime_downgraded": _lifetime_downgraded,
    "clearing_without_floor": _clearing_without_floor,
    "counted_twice": _counted_twice,
    "cached_counters_missing": _cached_counters_missing,
    "summed_calls": _summed_calls,
}
"""Name, as in `hazards.toml` → check."""
CHECKS_BEFORE_SENDING = ("too_many_markers", "lifetimes_out_of_order", "unmarkable_block")
"""Checks that need no bill, and whose requests a provider refuses."""
CAUSES_BEFORE_SENDING: tuple[Cause, ...] = ("params_changed", "model_changed", "account_changed", "breakpoint_place")
"""Causes that a request shows before it leaves, beside changes of its text."""


def failed_checks(sent: ParsedCall, names: Sequence[str] = (*CHECKS,)) -> list[Gap]:
    """Return a gap of no tokens for each check that a request fails, of the kind that the check is called."""
    failures = {name: CHECKS[name](sent) for name in names}
    return [replace(gap, kind=name) for name, gap in failures.items() if gap is not None]
