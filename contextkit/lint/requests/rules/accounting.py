"""Request rules on usage accounting (`CKA…`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from contextkit.ledger.parsed_call import ParsedCall
from contextkit.lint.requests.breakpoints import estimated, n_bytes, readable_of
from contextkit.lint.requests.lifetimes import expired
from contextkit.lint.requests.parameters import CLAUDE_WIRES
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.requests.usage import (
    bytes_a_token,
    input_tokens,
    read_tokens,
    uses_server_tools,
    written_tokens,
)

# CKA01 usage-semantics-mixed
# ---------------------------------------------------------------------------------------------------------------------

_DOUBLED, _TOLERANCE = 1.5, 0.3

_MIN_TOKENS_DOUBLED = 500

_MEDIA = frozenset({"image", "document", "video"})
"""Types of blocks whose tokens do not follow from their bytes."""


def _usage_semantics_mixed(step: Step) -> Evidence | None:
    usage, sent = step.after.usage, step.after
    if usage is None:
        return None
    if _has_negative_counter(sent):
        return _usage_evidence(
            sent, "a counter of the bill is below zero: cached tokens were taken off a count that never held them"
        )
    a_token = bytes_a_token(step.earlier)
    if (
        a_token is None
        or not usage.read
        or not usage.fresh
        or uses_server_tools(sent)
        or usage.read < _MIN_TOKENS_DOUBLED
    ):
        return None
    expected = n_bytes(sent.blocks) / a_token
    is_whole = abs(usage.fresh - expected) <= _TOLERANCE * expected and usage.read <= usage.fresh
    if not is_whole or input_tokens(usage) < _DOUBLED * expected:
        return None
    return _usage_evidence(
        sent,
        f"the bill adds up to {input_tokens(usage):,} tokens for a prompt of about {expected:,.0f}: reads are counted twice",
    )


_EQUAL = 0.9
"""Least share of the input that was written, for the input to be the whole prompt with its writes."""


def _writes_counted_twice(sent: ParsedCall) -> Evidence | None:
    """An endpoint that counts writes apart bills nearly as many as its input, and the input alone is the prompt.

    Judged without an earlier call: only where both are nearly equal, as where the breakpoint stands at the end.
    """
    usage = sent.usage
    if (
        usage is None
        or usage.read
        or not usage.fresh
        or sent.endpoint not in CLAUDE_WIRES
        or uses_server_tools(sent)
        or any(block.type in _MEDIA for block in sent.blocks)
    ):
        return None
    written, expected = written_tokens(sent), estimated(sent)
    if written < _MIN_TOKENS_DOUBLED or not _EQUAL * usage.fresh <= written <= usage.fresh:
        return None
    is_whole = abs(usage.fresh - expected) <= _TOLERANCE * expected
    if not is_whole or input_tokens(usage) < _DOUBLED * expected:
        return None
    return _usage_evidence(
        sent,
        f"the bill adds up to {input_tokens(usage):,} tokens for a prompt of about {expected:,}: writes are counted twice",
    )


def _has_negative_counter(sent: ParsedCall) -> bool:
    usage = sent.usage
    return usage is not None and any(
        (count or 0) < 0 for count in (usage.fresh, usage.read, usage.write_5m, usage.write_1h)
    )


def _usage_evidence(sent: ParsedCall, message: str) -> Evidence:
    usage = sent.usage
    now = f"fresh {usage.fresh}, read {usage.read}, written {written_tokens(sent)}" if usage else ""
    return Evidence(message, path="usage", now=now)


# CKA02 duplicate-usage-lines
# ---------------------------------------------------------------------------------------------------------------------


def _duplicate_usage_lines_by_usage(step: Step) -> Evidence | None:
    """The same prompt with the same bill, writes and output included: a second call would have read what the first
    wrote.
    """
    usage = step.after.usage
    if usage is None or usage != step.before.usage or not usage.output or input_tokens(usage) == 0 or step.changes:
        return None
    if expired(step):
        return None  # what the first wrote was over: a second call wrote it again
    is_same = len(step.after.blocks) == len(step.before.blocks) == readable_of(step).shared
    has_written = bool(usage.write_5m or usage.write_1h)
    if not is_same or not (has_written or step.gap_seconds == 0):
        return None
    return Evidence("the same prompt stands here again with the same bill: one call, recorded twice", path="usage")


def _duplicate_usage_lines_by_id(calls: Sequence[ParsedCall]) -> Iterator[Evidence]:
    earlier: set[str] = set()
    for sent in calls:
        if sent.call.id and sent.call.id in earlier and sent.usage is not None and input_tokens(sent.usage):
            yield Evidence("a call of this id was billed before: one call, recorded twice", path="usage", sent=sent)
        earlier.add(sent.call.id)


# CKA03 cached-field-dropped
# ---------------------------------------------------------------------------------------------------------------------

_MIN_TOKENS_DROPPED = 4000

_DROPPED_SHARE = 0.3


def _cached_field_dropped(sent: ParsedCall) -> Evidence | None:
    """Anthropic's and Bedrock's input leaves out what was cached: a long prompt with few input tokens and no cached
    ones has lost them.
    """
    usage = sent.usage
    if (
        usage is None
        or sent.endpoint not in CLAUDE_WIRES
        or usage.read
        or usage.write_5m
        or usage.write_1h
        or sent.call.error
    ):
        return None
    if any(block.type in _MEDIA for block in sent.blocks):
        return None
    expected = estimated(sent)
    if expected < _MIN_TOKENS_DROPPED or not 0 < input_tokens(usage) < _DROPPED_SHARE * expected:
        return None
    claim = "nothing of the cache" if usage.read is None else "that nothing was cached"
    return Evidence(
        f"the bill names {input_tokens(usage):,} tokens for a prompt of about {expected:,} and says {claim}: "
        "the cached counters were lost on the way",
        path="usage",
    )


# CKA04 server-tool-inflation
# ---------------------------------------------------------------------------------------------------------------------

_INFLATION = 1.8

_MIN_TOKENS_INFLATED = 2000


def _server_tool_inflation(sent: ParsedCall) -> Evidence | None:
    got = read_tokens(sent)
    if not got or got < _MIN_TOKENS_INFLATED or sent.usage is None or not uses_server_tools(sent):
        return None
    expected = estimated(sent)
    if got <= _INFLATION * expected:
        return None
    return Evidence(
        f"{got:,} tokens were read for a prompt of about {expected:,}: the bill ({input_tokens(sent.usage):,} in all) sums several "
        "calls that a server tool made",
        path="usage",
    )


RULES: Mapping[str, tuple[RequestRule, ...]] = {
    "CKA01": (RequestRule("step", _usage_semantics_mixed), RequestRule("call", _writes_counted_twice)),
    "CKA02": (
        RequestRule("step", _duplicate_usage_lines_by_usage),
        RequestRule("session", _duplicate_usage_lines_by_id),
    ),
    "CKA03": (RequestRule("call", _cached_field_dropped),),
    "CKA04": (RequestRule("call", _server_tool_inflation),),
}
"""Code → its rules."""
