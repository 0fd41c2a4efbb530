"""Recorded prompts with one thing changed that needs no text: other breakpoints, a leader that goes first.

Takes calls with their outlines in the order they were recorded, gives as many. Knows nothing of bills.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from contextkit.cache.prompt import Breakpoint, Prompt, common
from contextkit.ledger.calls import ModelCall, Outline
from contextkit.ledger.prompts import prompts_of
from contextkit.models import model_named
from contextkit.prompt.breakpoints import MAX_BREAKPOINTS
from contextkit.whatif.fix import Edited, Outlined


@dataclass(frozen=True, slots=True)
class _End:
    """Where the request before in a conversation ended."""

    segment: int
    key: tuple[bytes, bytes]


def marked(outlined: Outlined) -> Edited:
    """Mark the end of the system prompt, of the request before and of this one, unless the request does so itself.

    The end of a conversation's last request stays unmarked: nothing reads it.
    """
    n_left = Counter((call.session, call.lane) for call in outlined.calls)
    ends: dict[tuple[str, str], _End] = {}
    edited, n_changed = [], 0
    for call, prompt in prompts_of(outlined.calls):
        edited.append(call)
        lane, row = (call.session, call.lane), model_named(call.model, call.provider)
        n_left[lane] -= 1
        if prompt is None or not prompt.n or not isinstance(call.prompt, Outline) or row.cache != "breakpoints":
            continue
        marks = _with(prompt, _unmarked(prompt, ends.get(lane), is_last=not n_left[lane]), row.default_ttl_seconds)
        if marks != prompt.breakpoints:
            edited[-1] = replace(call, prompt=replace(call.prompt, breakpoints=marks))
            n_changed += 1
        written = [mark.segment for mark in marks if mark.is_written]
        if written:
            ends[lane] = _End(written[-1], prompt.key(written[-1]))
    return Edited(edited, n_changed)


def _unmarked(prompt: Prompt, end: _End | None, *, is_last: bool) -> list[int]:
    """Return the segments that should end an entry, or be looked up, and do not."""
    own, head = prompt.breakpoints, prompt.level_ends[1] - 1
    wanted = [head] if head >= 0 and all(mark.segment != head for mark in own) else []
    if not is_last and all(mark.segment <= head for mark in own):
        wanted.append(prompt.n - 1)
    if end is not None and end.segment < prompt.n and prompt.key(end.segment) == end.key:
        marks = [*own, *(Breakpoint(segment, 0) for segment in wanted)]
        wanted += [] if any(_reaches(prompt, mark, end.segment) for mark in marks) else [end.segment]
    return wanted


def _with(prompt: Prompt, wanted: Sequence[int], default_ttl: int) -> tuple[Breakpoint, ...]:
    """Add breakpoints to those of a prompt; of more than a request may carry, its own go first, but not the first one.

    Lifetimes must not grow towards the end, so an added breakpoint gets the longest of those behind it.
    """
    marks = list(prompt.breakpoints)
    for segment in sorted(wanted, reverse=True):
        ttl = max((mark.ttl_seconds for mark in marks if mark.segment > segment), default=0)
        before = [mark.ttl_seconds for mark in marks if mark.segment < segment]
        marks.append(Breakpoint(segment, ttl or (before[-1] if before else default_ttl)))
        marks.sort(key=lambda mark: mark.segment)
        if len(marks) > MAX_BREAKPOINTS:
            marks.remove(next((mark for mark in marks[1:] if mark.segment not in wanted), marks[1]))
    return tuple(marks)


def _reaches(prompt: Prompt, mark: Breakpoint, segment: int) -> bool:
    return mark.segment >= segment and prompt.positions[mark.segment] - prompt.positions[segment] < mark.lookback


# Leader first
# -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Leader:
    """A call whose response has not begun."""

    lane: tuple[str, str]
    model: str
    at: float
    begins_at: float
    prompt: Prompt


def leader_first(outlined: Outlined) -> Edited:
    """Calls that started before the one they share a prefix with began to answer start when it has.

    Their lane goes on that much later.
    """
    prompts = _overlapping(outlined.calls)
    late: defaultdict[tuple[str, str], float] = defaultdict(float)
    flying: list[_Leader] = []
    edited, waits = list(outlined.calls), []
    for place in sorted(range(len(edited)), key=lambda place: outlined.calls[place].at):
        call = outlined.calls[place]
        lane, prompt = (call.session, call.lane), prompts.get(place)
        if prompt is not None:
            at = call.at + late[lane]
            flying = [leader for leader in flying if leader.begins_at > at]
            leader = _best([one for one in flying if one.at <= at], call, prompt, outlined.reads[place])
            waits += [leader.begins_at - at] if leader else []
            late[lane] += leader.begins_at - at if leader else 0.0
        edited[place] = _later(call, late[lane])
        if prompt is not None:
            flying.append(_Leader(lane, call.model, edited[place].at, _begins(edited[place]), prompt))
    return Edited(edited, len(waits), f"{len(waits)} calls wait, {max(waits):.1f} s at most" if waits else "")


def _begins(call: ModelCall) -> float:
    return call.at if call.first_byte_at is None else call.first_byte_at


def _overlapping(calls: Sequence[ModelCall]) -> dict[int, Prompt]:
    """Place → prompt, of calls that were under way beside one of another lane."""
    beside: set[int] = set()
    flying: list[int] = []
    for place in sorted(range(len(calls)), key=lambda place: calls[place].at):
        now = calls[place]
        flying = [other for other in flying if _begins(calls[other]) > now.at]
        siblings = [other for other in flying if (calls[other].session, calls[other].lane) != (now.session, now.lane)]
        beside.update(siblings, [place] if siblings else [])
        flying.append(place)
    rows = enumerate(prompts_of(calls))
    return {place: _copied(prompt) for place, (_, prompt) in rows if prompt is not None and place in beside}


def _copied(prompt: Prompt) -> Prompt:
    return replace(prompt, digests=prompt.digests[:], ends_tokens=prompt.ends_tokens[:], positions=prompt.positions[:])


def _best(leaders: Sequence[_Leader], call: ModelCall, prompt: Prompt, read: int) -> _Leader | None:
    """Of those under way the one that lets most be read, of equals the first to begin.

    None where none lets more be read than was.
    """
    others = [one for one in leaders if one.lane != (call.session, call.lane) and one.model == call.model]
    worth = [(shared, -one.begins_at, one) for one in others if (shared := _shared(one, call, prompt)) > read]
    return max(worth, key=lambda row: row[:2])[2] if worth else None


def _shared(leader: _Leader, call: ModelCall, prompt: Prompt) -> int:
    """Tokens of `prompt` that can be read once `leader` has begun to answer."""
    row, n = model_named(call.model, call.provider), common(leader.prompt, prompt)
    if row.cache == "breakpoints":
        within = (mark.segment for mark in leader.prompt.breakpoints if mark.is_written and mark.segment < n)
        ends = [segment for segment in within if any(_reaches(prompt, mark, segment) for mark in prompt.breakpoints)]
    else:
        ends = [n - 1] if n else []
    shared = max((prompt.ends_tokens[segment] for segment in ends), default=0)
    return shared - shared % row.granularity_tokens if shared >= row.min_tokens else 0


def _later(call: ModelCall, seconds: float) -> ModelCall:
    if not seconds:
        return call
    first, ended = call.first_byte_at, call.ended_at
    return replace(
        call,
        at=call.at + seconds,
        first_byte_at=None if first is None else first + seconds,
        ended_at=None if ended is None else ended + seconds,
    )
