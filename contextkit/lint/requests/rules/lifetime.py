"""Request rules on cache lifetimes and concurrent calls (`CKL…`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from contextkit.lint.requests.breakpoints import (
    breakpoints_of,
    estimated,
    has_breakpoints,
    in_messages,
    is_within_lookback,
    n_head,
    n_shared,
    n_tokens,
    readable_of,
)
from contextkit.lint.requests.history import has_thinking, is_image_toggled
from contextkit.lint.requests.lifetimes import expired, finds_entry_of, has_related_head
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.requests.usage import (
    answer_began_at,
    by_session,
    generates_nothing,
    is_continuation,
    limit_path,
    n_common_blocks,
    read_tokens,
    tokens_left_cached,
    uses_server_tools,
    written_tokens,
)

# CKL01 ttl-gap
# ---------------------------------------------------------------------------------------------------------------------


def _ttl_gap(step: Step) -> Evidence | None:
    lost = expired(step)
    if lost is None or lost.is_in_time_from_end or generates_nothing(step.after):
        return None
    return Evidence(
        f"{step.gap_seconds:,.0f} s after the call before, whose entry lived {lost.ttl_seconds:,} s: {lost.tokens:,} tokens "
        "are gone",
        path=lost.path,
    )


# CKL02 ttl-counts-from-start
# ---------------------------------------------------------------------------------------------------------------------


def _ttl_counts_from_start(step: Step) -> Evidence | None:
    lost = expired(step)
    if lost is None or not lost.is_in_time_from_end:
        return None
    return Evidence(
        f"within {lost.ttl_seconds:,} s of the end of the answer, but {step.gap_seconds:,.0f} s after its start, from which it "
        f"runs: {lost.tokens:,} tokens are gone",
        path=lost.path,
    )


# CKL03 cold-fan-out
# ---------------------------------------------------------------------------------------------------------------------

_READ_SHARE = 0.5


def _cold_fan_out(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    for mine in by_session(calls).values():
        flying: list[RecordedCall] = []
        landed: list[RecordedCall] = []
        for sent in mine:
            landed += [one for one in flying if (answer_began_at(one) or 0.0) <= sent.call.at]
            flying = [one for one in flying if (answer_began_at(one) or 0.0) > sent.call.at]
            if flying and (evidence := _cold_sibling(sent, flying, landed)) is not None:
                yield evidence
            if sent.row.cache == "breakpoints" and answer_began_at(sent) is not None and not sent.call.error:
                flying.append(sent)


def _cold_sibling(
    sent: RecordedCall, flying: Sequence[RecordedCall], landed: Sequence[RecordedCall]
) -> Evidence | None:
    """The longest entry that a call under way is only about to write, and that nobody wrote before."""
    ends = {_entry_end(one, sent): one for one in flying}
    end = max(ends)
    if (
        end <= 0
        or estimated(sent, 0, end) < sent.row.min_tokens
        or max((_live_entry_end(one, sent) for one in landed), default=0) >= end
    ):
        return None
    size = n_tokens(sent, 0, end)
    if (read_tokens(sent) or 0) >= _READ_SHARE * size:
        return None
    return Evidence(
        f"sent while a call with the same first {size:,} tokens had not begun to answer: both write them",
        path=sent.blocks[end - 1].path,
        sent=sent,
    )


def _entry_end(one: RecordedCall, other: RecordedCall) -> int:
    """Blocks up to the last marker of `one` that `other` begins with and looks up."""
    if one.row.name != other.row.name:
        return 0
    shared = n_common_blocks(one.blocks, other.blocks)
    ends = [mark.index for mark in breakpoints_of(one) if mark.index < shared]
    mine = breakpoints_of(other)
    return max((end + 1 for end in ends if any(is_within_lookback(other, mark.index, end) for mark in mine)), default=0)


def _live_entry_end(one: RecordedCall, other: RecordedCall) -> int:
    is_alive = other.call.at - one.call.at <= one.row.default_ttl_seconds
    return _entry_end(one, other) if is_alive else 0


# CKL04 read-after-write-lag
# ---------------------------------------------------------------------------------------------------------------------

_LAG_SECONDS = 5.0

_MIN_TOKENS = 500

_NEARLY_NOTHING = 0.1


def _read_after_write_lag(step: Step) -> Evidence | None:
    got, there, start = read_tokens(step.after), written_tokens(step.before), answer_began_at(step.before)
    if (
        got is None
        or start is None
        or there < _MIN_TOKENS
        or not has_breakpoints(step.after)
        or not is_continuation(step)
    ):
        return None
    waited = step.after.call.at - start
    readable = readable_of(step)
    is_found = readable.last >= 0 and readable.best >= readable.last
    if (
        not 0 <= waited <= _LAG_SECONDS
        or not is_found
        or got > _NEARLY_NOTHING * there
        or step.before.usage == step.after.usage
    ):
        return None
    return Evidence(
        f"{waited:.1f} s after the answer to the call before began, and {there:,} tokens that it wrote were not read: they "
        "were not there yet",
        path=step.before.blocks[readable.last].path,
    )


# CKL05 early-eviction
# ---------------------------------------------------------------------------------------------------------------------

_MIN_TOKENS_EVICTED = 2000

_TOLERANCE = 1.2


def _early_eviction(step: Step) -> Evidence | None:
    got, there, start = read_tokens(step.after), _left_cached(step), answer_began_at(step.before)
    if (
        got is None
        or start is None
        or not has_breakpoints(step.after)
        or there - got < _MIN_TOKENS_EVICTED
        or not is_continuation(step)
    ):
        return None
    readable, lasts = readable_of(step), {mark.index: mark.ttl_seconds for mark in breakpoints_of(step.before)}
    is_found = readable.last >= 0 and readable.best >= readable.last
    if not is_found or step.after.call.at - start <= _LAG_SECONDS or step.gap_seconds >= lasts[readable.last]:
        return None
    if got > _TOLERANCE * n_tokens(step.after, 0, n_head(step.after)) or _is_edited_by_provider(step):
        return None
    return Evidence(
        f"{step.gap_seconds:,.0f} s after the call before, within the lifetime and with the same bytes, {there - got:,} tokens "
        "were not there any more",
        path=step.before.blocks[readable.last].path,
    )


def _left_cached(step: Step) -> int:
    """What the call before left: no more than its prompt, of which a server tool's bill adds up several readings."""
    return min(tokens_left_cached(step.before), n_tokens(step.after, 0, len(step.before.blocks)))


def _is_edited_by_provider(step: Step) -> bool:
    """Whether the provider takes something out of the prompt by itself, or drops messages for an image that came or
    went.
    """
    is_stripped = step.after.row.strips_thinking and any(has_thinking(sent) for sent in (step.before, step.after))
    return is_stripped or "context_management" in step.after.params or is_image_toggled(step)


# CKL06 ttl-silently-downgraded
# ---------------------------------------------------------------------------------------------------------------------

_HOUR = 3600

_RETENTION = "prompt_cache_retention"


def _ttl_downgraded_in_request(step: Step) -> Evidence | None:
    """A level that was marked for an hour is marked for five minutes."""
    if step.before.params.get(_RETENTION) == "24h" and step.after.params.get(_RETENTION) in (
        None,
        "in_memory",
        "in-memory",
    ):
        return Evidence(
            "the long retention asked for before is not asked for any more",
            path=_RETENTION,
            was="24h",
            now=str(step.after.params.get(_RETENTION)),
        )
    for is_message in (False, True):
        before, after = _longest(step.before, is_message), _longest(step.after, is_message)
        if before and after and after[0] < before[0]:
            return Evidence(
                f"marked for {after[0]:,} s where the call before asked for {before[0]:,} s",
                path=after[1],
                was=str(before[0]),
                now=str(after[0]),
            )
    return None


def _longest(sent: RecordedCall, is_message: bool) -> tuple[int, str] | None:
    marks = [(mark.ttl_seconds, mark.path) for mark in breakpoints_of(sent) if in_messages(sent, mark) == is_message]
    return max(marks, default=None)


def _ttl_downgraded_in_usage(sent: RecordedCall) -> Evidence | None:
    """Everything was marked for an hour, and a write of five minutes was billed."""
    if not has_breakpoints(sent) or sent.usage is None or not sent.usage.write_5m or sent.usage.write_1h:
        return None
    marks = breakpoints_of(sent)
    is_long = bool(marks) and all(mark.ttl_seconds == _HOUR for mark in marks)
    if not is_long or sent.usage.write_5m < _MIN_TOKENS or uses_server_tools(sent):
        return None
    return Evidence(
        f"every marker asks for an hour, and {sent.usage.write_5m:,} tokens were billed as written for five minutes",
        path=marks[0].path,
        was="1h",
        now="5m",
    )


# CKL07 keepalive-misfire
# ---------------------------------------------------------------------------------------------------------------------


def _keepalive_misfire(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    """Calls that generate nothing, after a real one of their session, and that find nothing of it."""
    for mine in by_session(calls).values():
        last: RecordedCall | None = None
        for sent in mine:
            if not generates_nothing(sent):
                last = sent
            elif last is not None and has_breakpoints(sent) and has_related_head(last, sent):
                evidence = _misfire(last, sent)
                yield from (evidence,) if evidence else ()
                last = last if evidence else sent


def _misfire(last: RecordedCall, sent: RecordedCall) -> Evidence | None:
    marks, gap = breakpoints_of(last), sent.call.at - last.call.at
    at_stake = n_tokens(last, 0, marks[-1].index + 1) if marks else 0
    if at_stake < max(_MIN_TOKENS, last.row.min_tokens) or (read_tokens(sent) or 0) >= 0.5 * (
        tokens_left_cached(last) or at_stake
    ):
        return None
    ttl = max(mark.ttl_seconds for mark in marks)
    if gap > ttl:
        why = f"{gap:,.0f} s after the last call, whose entry lived {ttl:,} s"
    elif not finds_entry_of(last, sent):
        why = "its body is not the one of the conversation"
    else:
        return None
    return Evidence(
        f"a call that should keep {at_stake:,} tokens warm writes instead of reading: {why}",
        path=limit_path(sent),
        sent=sent,
    )


# CKL08 best-effort-implicit
# ---------------------------------------------------------------------------------------------------------------------

_MOST_SECONDS = 300.0

_MIN_TOKENS_IMPLICIT = 1024

_ON_REQUEST = frozenset({"mistral"})
"""Providers that cache only calls with a `prompt_cache_key`."""


def _best_effort_implicit(step: Step) -> Evidence | None:
    row = step.after.row
    if row.cache == "breakpoints" or not row.provider or read_tokens(step.after) != 0 or not is_continuation(step):
        return None
    if not 0 < step.gap_seconds <= min(_MOST_SECONDS, row.default_ttl_seconds):
        return None
    shared, least = (
        n_tokens(step.after, 0, n_shared(step)),
        2 * max(row.min_tokens, _MIN_TOKENS_IMPLICIT, row.granularity_tokens),
    )
    if shared < least or (row.provider in _ON_REQUEST and not step.after.params.get("prompt_cache_key")):
        return None
    return Evidence(
        f"{shared:,} tokens were sent {step.gap_seconds:,.0f} s before and none was read: this cache promises nothing",
        path=step.after.blocks[0].path,
    )


# CKL09 prewarm-mismatch
# ---------------------------------------------------------------------------------------------------------------------


def _prewarm_mismatch(calls: Sequence[RecordedCall]) -> Iterator[Evidence]:
    """The first real call of a session after a call that generated nothing, and whose entry it does not find."""
    for mine in by_session(calls).values():
        first = next((sent for sent in mine if not generates_nothing(sent)), None)
        warm = [
            sent for sent in mine if first is not None and generates_nothing(sent) and sent.call.at <= first.call.at
        ]
        if first is None or not warm or not has_breakpoints(first) or not has_related_head(warm[-1], first):
            continue
        head = n_tokens(first, 0, n_head(first))
        is_read = (read_tokens(first) or 0) >= 0.5 * head or any(finds_entry_of(one, first) for one in warm)
        if head >= max(_MIN_TOKENS, first.row.min_tokens) and not is_read:
            yield Evidence(
                f"the call before it was to warm {head:,} tokens and is another request: they are written again",
                path=first.blocks[0].path,
                sent=first,
            )


RULES: Mapping[str, tuple[RequestRule, ...]] = {
    "CKL01": (RequestRule("step", _ttl_gap),),
    "CKL02": (RequestRule("step", _ttl_counts_from_start),),
    "CKL03": (RequestRule("session", _cold_fan_out),),
    "CKL04": (RequestRule("step", _read_after_write_lag),),
    "CKL05": (RequestRule("step", _early_eviction),),
    "CKL06": (
        RequestRule("step", _ttl_downgraded_in_request),
        RequestRule("call", _ttl_downgraded_in_usage),
    ),
    "CKL07": (RequestRule("session", _keepalive_misfire),),
    "CKL08": (RequestRule("step", _best_effort_implicit),),
    "CKL09": (RequestRule("session", _prewarm_mismatch),),
}
"""Code → its rules."""
