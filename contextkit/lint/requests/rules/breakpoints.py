"""Request rules on cache breakpoints (`CKB…`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from contextkit.ledger.parsed_call import ParsedCall
from contextkit.ledger.verdict import Verdict, is_shortfall
from contextkit.lint.requests.breakpoints import (
    LOOKBACK,
    MAX_BREAKPOINTS,
    SentBreakpoint,
    breakpoints_of,
    can_hold_breakpoint,
    distance,
    estimated,
    has_breakpoints,
    in_messages,
    is_within_lookback,
    n_bytes,
    n_head,
    n_shared,
    n_tokens,
    readable_of,
    was_breakpoint,
)
from contextkit.lint.requests.history import has_thinking, is_still_sent
from contextkit.lint.requests.rule import Calls, Change, Evidence, RequestRule, Step
from contextkit.lint.requests.usage import has_no_cache_usage, n_common_blocks, read_tokens, written_tokens
from contextkit.prompt.diff import common_bytes

# CKB01 no-breakpoint
# ---------------------------------------------------------------------------------------------------------------------

_CLAUDE_WIRES = ("anthropic_messages", "bedrock_converse")
"""Wires on which nobody adds markers behind the recording."""

_ABOVE_MINIMUM = 1.2


def _no_breakpoint(step: Step) -> Evidence | None:
    sent = step.after
    if not has_breakpoints(sent) or breakpoints_of(sent) or breakpoints_of(step.before):
        return None
    if sent.endpoint not in _CLAUDE_WIRES and (sent.usage is None or not has_no_cache_usage(sent)):
        return None
    shared = estimated(sent, 0, n_shared(step))
    if shared < _ABOVE_MINIMUM * sent.row.min_tokens:
        return None
    if sent.usage is not None and step.verdict is not None and not _is_paid_for(step.verdict):
        return None
    return Evidence(
        f"no block is marked for caching: about {shared:,} tokens that the call before sent too are new input again",
        path="cache_control",
    )


def _is_paid_for(verdict: Verdict) -> bool:
    """Return whether the lack of a breakpoint has lost more than noise."""
    lost = sum(gap.tokens for gap in verdict.gaps if gap.cause == "no_breakpoint" and gap.is_avoidable)
    return is_shortfall(max(verdict.similar or 0, lost), max(verdict.similar or 0, lost) - lost)


# CKB02 marker-on-varying-block
# ---------------------------------------------------------------------------------------------------------------------


def _marker_on_varying_block(step: Step) -> Evidence | None:
    change = next((change for change in step.changes if change.is_first), None)
    if change is None or not has_breakpoints(step.before) or not _varies_under_breakpoint(step.before, change):
        return None
    stable = estimated(step.after, 0, change.at)
    if stable + estimated(step.before, change.at, change.at + 1) < step.after.row.min_tokens:
        return None
    if not stable:  # no marker could stand in front of it: that it varies is the hazard
        return None
    if not (_varied_before(step, change) or _writes_only(step.before, step.after)):
        return None
    path = breakpoints_of(step.before)[0].path
    return Evidence(
        f"the first marker stands on a block that differs in every call, so nothing written there is ever read; about "
        f"{stable:,} stable tokens before it carry none",
        path=path,
    )


def _varies_under_breakpoint(before: ParsedCall, change: Change) -> bool:
    """Return whether no marker stands before the change, and one on it."""
    marks = breakpoints_of(before)
    return bool(marks) and change.at <= marks[0].index < change.at + len(change.was)


def _varied_before(step: Step, change: Change) -> bool:
    """Return whether the block was another one in the call before that, and another than it is now, marked each
    time.
    """
    if len(step.earlier) < 2 or not change.now:
        return False
    older, at = step.earlier[-2], breakpoints_of(step.before)[0].index
    marks = breakpoints_of(older)
    if not marks or marks[0].index != at or at >= len(step.after.blocks):
        return False
    versions = {sent.blocks[at].body for sent in (older, step.before, step.after)}
    return len(versions) == 3 and _is_same_up_to(older, step.before, change.at)


def _is_same_up_to(one: ParsedCall, other: ParsedCall, end: int) -> bool:
    return all(a.body == b.body for a, b in zip(one.blocks[:end], other.blocks[:end], strict=True))


def _writes_only(*calls: ParsedCall) -> bool:
    return all(written_tokens(sent) > 0 and read_tokens(sent) == 0 for sent in calls)


# CKB03 lookback-exceeded
# ---------------------------------------------------------------------------------------------------------------------

_MIN_LOST_TOKENS = 100


def _lookback_exceeded(step: Step) -> Evidence | None:
    if not has_breakpoints(step.after):
        return None
    readable = readable_of(step)
    marks = [mark for mark in breakpoints_of(step.after) if mark.index >= readable.last]
    if (
        readable.last < 0
        or readable.best >= readable.last
        or not marks
        or any(is_within_lookback(step.after, mark.index, readable.last) for mark in marks)
    ):
        return None
    lost = n_tokens(step.after, readable.best + 1, readable.last + 1)
    if lost < _MIN_LOST_TOKENS or n_tokens(step.after, 0, readable.last + 1) < step.after.row.min_tokens:
        return None
    near = marks[0]
    away = distance(step.after, readable.last, near.index)
    return Evidence(
        f"the nearest marker stands {away} positions behind what the call before wrote, a lookup visits {LOOKBACK}: {lost:,} tokens out of "
        "reach",
        path=near.path,
        was=step.after.blocks[readable.last].path,
        now=step.after.blocks[near.index].path,
    )


# CKB04 markers-frozen-at-cap
# ---------------------------------------------------------------------------------------------------------------------

_MIN_TURNS_FROZEN, _MIN_TOKENS_FROZEN = 2, 50

_MODEL_ROLES = frozenset({"assistant", "model"})


def _markers_frozen_at_cap(step: Step) -> Evidence | None:
    if not has_breakpoints(step.after):
        return None
    before, after = breakpoints_of(step.before), breakpoints_of(step.after)
    if not before or not after or before[-1].index != after[-1].index or not in_messages(step.after, after[-1]):
        return None
    last, readable = after[-1], readable_of(step)
    turns, left_out = _turns_behind(step.after, last.index), n_tokens(step.after, last.index + 1)
    if (
        readable.shared <= last.index
        or turns < _MIN_TURNS_FROZEN
        or left_out < _MIN_TOKENS_FROZEN
        or len(step.after.blocks) <= len(step.before.blocks)
    ):
        return None
    return Evidence(
        f"the last marker stays where it was while {turns} turns follow it: {left_out:,} tokens are new input each time",
        path=last.path,
    )


def _turns_behind(sent: ParsedCall, index: int) -> int:
    """Messages of the model behind a block."""
    return len({block.message for block in sent.blocks[index + 1 :] if block.role in _MODEL_ROLES})


# CKB05 moving-mid-anchor
# ---------------------------------------------------------------------------------------------------------------------


def _moving_mid_anchor(step: Step) -> Evidence | None:
    if not has_breakpoints(step.after) or (step.after.row.strips_thinking and has_thinking(step.before)):
        return None  # blocks behind thoughts that were taken out are others now
    old = [mark for mark in breakpoints_of(step.before) if in_messages(step.before, mark)]
    if not all(is_still_sent(step, step.before.blocks[mark.index]) for mark in old):
        return None  # the markers follow the ends of messages, and one of those ends has left
    readable = readable_of(step)
    inside = [
        mark for mark in breakpoints_of(step.after) if in_messages(step.after, mark) and mark.index < readable.shared
    ]
    moved = next((mark for mark in inside if not was_breakpoint(step, mark.index)), None)
    if not old or moved is None or n_tokens(step.after, 0, moved.index + 1) < step.after.row.min_tokens:
        return None
    if (
        n_tokens(step.after, readable.best + 1, max(mark.index for mark in old) + 1) < _MIN_LOST_TOKENS
        and readable.best >= moved.index
    ):
        return None
    return Evidence(
        "the marker moved to a block inside the history that no call before had marked: nothing written before is found there",
        path=moved.path,
        was=old[-1].path,
        now=moved.path,
    )


# CKB06 single-tail-marker
# ---------------------------------------------------------------------------------------------------------------------

_MIN_TOKENS_TAIL = 1000

_TOLERANCE = 1.2


def _single_tail_marker(step: Step) -> Evidence | None:
    change = next((change for change in step.changes if change.is_first), None)
    if change is None or change.level != "messages" or not change.is_cached or not has_breakpoints(step.after):
        return None
    if _n_in_messages(step.before) != 1 or _n_in_messages(step.after) > 1:
        return None
    head, readable = n_head(step.before), readable_of(step)
    unchanged_tokens = n_tokens(step.after, head, change.at)
    if readable.best >= head or unchanged_tokens < _MIN_TOKENS_TAIL or not _reads_head_only(step.after, head):
        return None
    return Evidence(
        f"{unchanged_tokens:,} tokens of the messages did not change, but the only marker behind the head stood after the change: they are "
        "billed again",
        path=step.after.blocks[change.at - 1].path,
    )


def _n_in_messages(sent: ParsedCall) -> int:
    return sum(in_messages(sent, mark) for mark in breakpoints_of(sent))


def _reads_head_only(sent: ParsedCall, head: int) -> bool:
    got = read_tokens(sent)
    return got is None or got <= _TOLERANCE * n_tokens(sent, 0, head)


# CKB07 marker-budget-conflict
# ---------------------------------------------------------------------------------------------------------------------


def _marker_budget_conflict(step: Step) -> Evidence | None:
    if not has_breakpoints(step.after):
        return None
    marks, head = breakpoints_of(step.after), n_head(step.after)
    shared = n_shared(step)
    if len(marks) < MAX_BREAKPOINTS or any(in_messages(step.after, mark) for mark in marks) or shared <= head:
        return None
    again = n_tokens(step.after, head, shared)
    if again < _MIN_LOST_TOKENS:
        return None
    return Evidence(
        f"all {len(marks)} markers stand on tools and system text, none is left for the messages: {again:,} tokens said before "
        "are new input again",
        path=marks[-1].path,
    )


# CKB08 too-many-markers
# ---------------------------------------------------------------------------------------------------------------------


def _too_many_markers(sent: ParsedCall) -> Evidence | None:
    if not has_breakpoints(sent) or len(marks := breakpoints_of(sent)) <= MAX_BREAKPOINTS:
        return None
    return Evidence(
        f"{len(marks)} markers in one request, which takes {MAX_BREAKPOINTS}: it is refused, or one is dropped on the way",
        path=marks[MAX_BREAKPOINTS].path,
    )


# CKB09 ttl-order-violation
# ---------------------------------------------------------------------------------------------------------------------


def _ttl_order_violation(sent: ParsedCall) -> Evidence | None:
    if not has_breakpoints(sent):
        return None
    late = next((pair for pair in pairwise(breakpoints_of(sent)) if pair[0].ttl_seconds < pair[1].ttl_seconds), None)
    if late is None:
        return None
    one, other = late
    return Evidence(
        f"a marker of {other.ttl_seconds:,} s follows one of {one.ttl_seconds:,} s; longer lifetimes have to come first",
        path=other.path,
        was=one.path,
        now=other.path,
    )


# CKB10 marker-lost-in-translation
# ---------------------------------------------------------------------------------------------------------------------


def _marker_lost_in_translation(step: Step) -> Evidence | None:
    if not has_breakpoints(step.after):
        return None
    before, after = breakpoints_of(step.before), breakpoints_of(step.after)
    if not before or estimated(step.after) < 1.2 * step.after.row.min_tokens:
        return None
    if not after:
        return _lost_breakpoint(f"the call before carried {len(before)} markers, this one carries none", before[-1])
    readable, had = readable_of(step), [mark for mark in before if in_messages(step.before, mark)]
    if not had or any(in_messages(step.after, mark) for mark in after) or readable.best >= readable.last:
        return None
    lost = n_tokens(step.after, readable.best + 1, readable.last + 1)
    return (
        _lost_breakpoint(f"the markers of the messages are gone: {lost:,} tokens cannot be read", had[-1])
        if lost >= _MIN_LOST_TOKENS
        else None
    )


def _lost_breakpoint(message: str, mark: SentBreakpoint) -> Evidence:
    return Evidence(message, path=mark.path, was=mark.path)


# CKB11 below-minimum
# ---------------------------------------------------------------------------------------------------------------------

_WELL_BELOW = 0.8
"""Share of the minimum below which an estimate by size leaves no doubt."""

_MIN_CALLS = 3


def _below_minimum(calls: Sequence[ParsedCall]) -> Iterator[Evidence]:
    """Calls that share a marked beginning, all of them below the minimum, and together far above it."""
    groups: dict[tuple[str, bytes], list[ParsedCall]] = {}
    for sent in calls:
        if has_breakpoints(sent) and (marks := breakpoints_of(sent)):
            groups.setdefault(
                (sent.row.name, b"".join(block.body for block in sent.blocks[: marks[0].index + 1])), []
            ).append(sent)
    for mine in groups.values():
        sizes = [estimated(sent, 0, breakpoints_of(sent)[-1].index + 1) for sent in mine]
        least = mine[0].row.min_tokens
        if (
            len(mine) >= _MIN_CALLS
            and max(sizes) < _WELL_BELOW * least <= sum(sizes)
            and all(map(has_no_cache_usage, mine))
        ):
            yield Evidence(
                f"{len(mine)} calls mark about {max(sizes):,} tokens, and {mine[0].row.name} caches nothing below {least:,}",
                path=breakpoints_of(mine[-1])[-1].path,
                sent=mine[-1],
            )


# CKB12 unmarkable-block
# ---------------------------------------------------------------------------------------------------------------------


def _unmarkable_block(sent: ParsedCall) -> Evidence | None:
    if not has_breakpoints(sent):
        return None
    block = next((block for block in sent.blocks if block.marker is not None and not can_hold_breakpoint(block)), None)
    if block is None:
        return None
    what = "a thinking block" if block.type == "thinking" else "an empty text"
    return Evidence(
        f"{what} carries a marker: the request is refused, or nothing is written there",
        path=f"{block.path}.cache_control",
    )


# CKB13 exact-breakpoint-families
# ---------------------------------------------------------------------------------------------------------------------

_WELL_ABOVE, _MISSED_SHARE = 1.2, 0.5


def _exact_breakpoint_families(calls: Calls) -> Iterator[Evidence]:
    """First calls of conversations that begin with the same head, and whose only breakpoint is the one at their own
    end.
    """
    earlier: set[tuple[str, object, bytes]] = set()
    for first in sorted((mine[0] for mine in calls.conversations.values()), key=lambda sent: sent.index):
        head = n_head(first)
        if first.row.provider != "openai" or first.row.cache != "breakpoints" or _has_head_breakpoint(first, head):
            continue
        key = (
            first.row.name,
            first.params.get("prompt_cache_key"),
            b"".join(block.body for block in first.blocks[:head]),
        )
        size = n_tokens(first, 0, head)
        if (
            key in earlier
            and estimated(first, 0, head) >= _WELL_ABOVE * first.row.min_tokens
            and (read_tokens(first) or 0) < _MISSED_SHARE * size
        ):
            yield Evidence(
                f"another conversation began with the same {size:,} tokens, and no breakpoint stands at their end: they are "
                "written again",
                path=first.blocks[head - 1].path,
                sent=first,
            )
        earlier.add(key)


def _has_head_breakpoint(sent: ParsedCall, head: int) -> bool:
    """Return whether an explicit breakpoint stands in tools or system text."""
    return not head or any(block.marker is not None for block in sent.blocks[:head])


# CKB14 fan-out-breakpoint-upstream
# ---------------------------------------------------------------------------------------------------------------------

_MIN_TOKENS_FAN_OUT = 2000


def _fan_out_breakpoint_upstream(calls: Calls) -> Iterator[Evidence]:
    """First calls of a session's conversations that begin alike far beyond the last marker they have in common."""
    firsts: dict[str, list[ParsedCall]] = {}
    for sent in sorted((mine[0] for mine in calls.conversations.values()), key=lambda sent: sent.index):
        if has_breakpoints(sent) and breakpoints_of(sent):
            firsts.setdefault(sent.call.session, []).append(sent)
    for mine in firsts.values():
        for leader, sibling in pairwise(mine):
            if (
                sibling.row.name == leader.row.name
                and (evidence := _shared_behind_breakpoint(leader, sibling)) is not None
            ):
                yield evidence


def _shared_behind_breakpoint(leader: ParsedCall, sibling: ParsedCall) -> Evidence | None:
    shared = n_common_blocks(leader.blocks, sibling.blocks)
    marked = max((mark.index + 1 for mark in breakpoints_of(leader) if mark.index < shared), default=0)
    missed = n_tokens(sibling, marked, shared) + _shared_in_first_difference(leader, sibling, shared)
    if missed < max(_MIN_TOKENS_FAN_OUT, sibling.row.min_tokens) or shared >= len(sibling.blocks):
        return None
    if (read_tokens(sibling) or 0) > n_tokens(sibling, 0, marked) + missed / 2:
        return None
    return Evidence(
        f"siblings share {missed:,} tokens behind the last marker they have in common: each of them pays for these anew",
        path=sibling.blocks[shared].path,
        sent=sibling,
    )


def _shared_in_first_difference(leader: ParsedCall, sibling: ParsedCall, shared: int) -> int:
    """Tokens that the first block which differs begins with on both sides."""
    if shared >= min(len(leader.blocks), len(sibling.blocks)):
        return 0
    one, other = leader.blocks[shared], sibling.blocks[shared]
    alike = (
        common_bytes(one.body, other.body)
        if one.type == other.type == "text" and one.level == other.level == "messages"
        else 0
    )
    whole = n_bytes(sibling.blocks[shared : shared + 1])
    return int(n_tokens(sibling, shared, shared + 1) * alike / whole) if whole else 0


RULES: Mapping[str, tuple[RequestRule, ...]] = {
    "CKB01": (RequestRule("step", _no_breakpoint),),
    "CKB02": (RequestRule("step", _marker_on_varying_block),),
    "CKB03": (RequestRule("step", _lookback_exceeded),),
    "CKB04": (RequestRule("step", _markers_frozen_at_cap),),
    "CKB05": (RequestRule("step", _moving_mid_anchor),),
    "CKB06": (RequestRule("step", _single_tail_marker),),
    "CKB07": (RequestRule("step", _marker_budget_conflict),),
    "CKB08": (RequestRule("call", _too_many_markers),),
    "CKB09": (RequestRule("call", _ttl_order_violation),),
    "CKB10": (RequestRule("step", _marker_lost_in_translation),),
    "CKB11": (RequestRule("session", _below_minimum),),
    "CKB12": (RequestRule("call", _unmarkable_block),),
    "CKB13": (RequestRule("session", _exact_breakpoint_families),),
    "CKB14": (RequestRule("session", _fan_out_breakpoint_upstream),),
}
"""Code → its rules."""
