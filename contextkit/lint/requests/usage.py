"""Reads the usage and the generation parameters of recorded calls: tokens read and written, requests that generate nothing.

Takes calls and steps, returns figures; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.lint.requests.breakpoints import n_bytes, n_tokens
from contextkit.lint.requests.rule import RecordedCall, Step
from contextkit.prompt.block import Block

_INERT = frozenset(
    {
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "stop_sequences",
        "stop",
        "metadata",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "top_k",
        "store",
        "user",
        "diagnostics",
        "cache_control",
        "prompt_cache_options",
        "n",
        "seed",
        "safety_identifier",
        "prewarm",
        "inferenceConfig",
    }
)
"""Fields that are not rendered into the prompt (prompt-caching documentation of Anthropic and OpenAI); of Converse the
one that holds them."""

_CONFIGS = ("inferenceConfig", "generationConfig", "generation_config")
"""Fields of Converse and Gemini that hold settings."""

_INERT_SETTINGS = frozenset(
    {
        "maxOutputTokens",
        "max_output_tokens",
        "temperature",
        "topP",
        "top_p",
        "topK",
        "top_k",
        "stopSequences",
        "stop_sequences",
        "seed",
        "candidateCount",
        "candidate_count",
    }
)

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxTokens", "maxOutputTokens")

_SERVER_TOOL_PREFIXES = (
    "web_search",
    "web_fetch",
    "code_execution",
    "bash_code_execution",
    "text_editor_code_execution",
    "tool_search",
    "mcp_",
)
"""Beginnings of the names of tools that run at the provider, several calls of the model behind one bill."""


def read_tokens(sent: RecordedCall) -> int | None:
    """Tokens read, None where nobody said."""
    return sent.usage.read if sent.usage else None


def written_tokens(sent: RecordedCall) -> int:
    """Tokens written, as far as they were told."""
    return (sent.usage.write_5m or 0) + (sent.usage.write_1h or 0) if sent.usage else 0


def input_tokens(usage: Usage) -> int:
    """All input tokens that were told."""
    return (usage.fresh or 0) + (usage.read or 0) + (usage.write_5m or 0) + (usage.write_1h or 0)


def tokens_left_cached(sent: RecordedCall) -> int:
    """Tokens that a call is known to have left in the cache: what it read and what it wrote."""
    return (read_tokens(sent) or 0) + written_tokens(sent)


def answer_began_at(sent: RecordedCall) -> float | None:
    """When the answer began, None where nobody said."""
    times = (sent.call.first_byte_at, sent.call.ended_at)
    return next((at for at in times if at is not None), None)


def is_same_request(step: Step) -> bool:
    """Return whether nothing that keys a prompt differs but text: who is called, the model, the parameters.

    And no call failed.
    """
    was, now = step.before.call, step.after.call
    if was.error or now.error or step.after.rerouted or (was.provider, was.model) != (now.provider, now.model):
        return False
    return cache_key_parameters(step.before) == cache_key_parameters(step.after)


def cache_key_parameters(sent: RecordedCall) -> dict[str, Json]:
    """The parameters that may be part of what is cached."""
    return {
        name: _settings(value) if name in _CONFIGS else value
        for name, value in sent.params.items()
        if name not in _INERT
    }


def _settings(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    return {name: setting for name, setting in value.items() if name not in _INERT_SETTINGS}


def is_continuation(step: Step) -> bool:
    """Return whether the later call only goes on, with the same parameters."""
    return not step.changes and is_same_request(step)


def is_self_hosted(sent: RecordedCall) -> bool:
    """Return whether the model is one that the table does not know, asked in OpenAI's words: an engine somebody
    runs.
    """
    is_in_table = bool(sent.row.provider) and not sent.row.is_assumed
    return not is_in_table and sent.wire in ("openai_chat", "openai_responses")


def has_no_cache_usage(sent: RecordedCall) -> bool:
    """Return whether the bill says, or does not deny, that nothing was read and nothing written."""
    return not read_tokens(sent) and not written_tokens(sent)


def read_and_shared_tokens(step: Step, shared: int) -> tuple[int, int] | None:
    """Tokens read and tokens that both calls begin with; None where the bill does not say."""
    got = read_tokens(step.after)
    return None if got is None else (got, n_tokens(step.after, 0, shared))


def generates_nothing(sent: RecordedCall) -> bool:
    """Return whether the call generates nothing: it warms a cache or keeps it warm."""
    return bool(limit_path(sent))


def limit_path(sent: RecordedCall) -> str:
    """The parameter that says so, in the words of its wire; empty where none does."""
    if sent.params.get("prewarm") is True:
        return "prewarm"
    held = [
        ("", sent.params),
        *((f"{name}.", value) for name in _CONFIGS if isinstance(value := sent.params.get(name), Mapping)),
    ]
    limits = ((f"{front}{name}", settings.get(name)) for front, settings in held for name in _LIMITS)
    return next((path for path, limit in limits if limit in (0, 1) and not isinstance(limit, bool)), "")


def uses_server_tools(sent: RecordedCall) -> bool:
    """Return whether a tool that runs at the provider is offered or was used."""
    return any(
        _is_server_tool(block) for block in sent.blocks if block.level == "tools" or block.type in ("call", "result")
    )


def _is_server_tool(block: Block) -> bool:
    kind = block.value.get("type") if isinstance(block.value, dict) else None
    return isinstance(kind, str) and (kind == "server_tool_use" or kind.startswith(_SERVER_TOOL_PREFIXES))


def n_common_blocks(one: Sequence[Block], other: Sequence[Block]) -> int:
    """Leading blocks that are the same."""
    most = min(len(one), len(other))
    return next(
        (
            i
            for i in range(most)
            if one[i] is not other[i] and (one[i].body, one[i].level) != (other[i].body, other[i].level)
        ),
        most,
    )


def by_session(calls: Sequence[RecordedCall]) -> Mapping[str, list[RecordedCall]]:
    """Session → its calls, in order of their starts.

    Where nobody named sessions, all calls of one file, or of one run, are one.
    """
    sessions: dict[str, list[RecordedCall]] = {}
    for sent in calls:
        sessions.setdefault(_NUMBER.sub("", sent.call.session), []).append(sent)
    return {name: sorted(mine, key=lambda sent: (sent.call.at, sent.index)) for name, mine in sessions.items()}


_NUMBER = re.compile(r"#\d+$|(?<=^watch-[0-9a-f]{8})-\d+$|(?<=^proxy-[0-9a-f]{8})-(?:[a-z]+-)?\d+$")
"""What readers (`calls.jsonl#2`), `watch` (`watch-1a2b3c4d-2`) and the proxy put behind a name for each conversation
they tell apart."""


def bytes_a_token(calls: Sequence[RecordedCall]) -> float | None:
    """Bytes a token in this conversation, from a call that read nothing, so that every way of counting agrees on it."""
    for sent in calls:
        if sent.usage and sent.usage.read == 0 and input_tokens(sent.usage) > 0:
            return n_bytes(sent.blocks) / input_tokens(sent.usage)
    return None


def repeated_tool_calls(blocks: Sequence[Block]) -> Iterator[tuple[Block, Block]]:
    """Calls of a tool that say the same as an earlier one, each with the one before it."""
    by_call: dict[bytes, list[Block]] = {}
    for block in blocks:
        if block.type == "call":
            by_call.setdefault(_name_and_arguments(block), []).append(block)
    for same in by_call.values():
        yield from pairwise(same)


def _name_and_arguments(block: Block) -> bytes:
    """Name and arguments, the id left out."""
    value = block.value if isinstance(block.value, dict) else {}
    inner = value.get("function", value)
    inside = inner if isinstance(inner, dict) else {}
    return repr((inside.get("name"), inside.get("arguments", inside.get("input")))).encode("utf-8", "replace")
