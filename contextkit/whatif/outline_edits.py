"""Recorded prompts with one thing changed that needs no text: a marker where the last request ended, a leader that goes
first.

Takes calls with their outlines in the order they were recorded, gives as many. Knows nothing of bills.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from contextkit.analysis.counterfactual.fix import Edited, Outlined
from contextkit.cache.prompt import Breakpoint, Prompt, common
from contextkit.ledger.calls import Exchange, Outline
from contextkit.ledger.prompts import prompts_of
from contextkit.models import model_named

MOST_MARKS = 4
"""Breakpoints a request may carry (https://platform.claude.com/docs/en/build-with-claude/prompt-caching)."""


# Bridging marker
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _End:
    """The last mark of the call before in its lane."""

    segment: int
    key: tuple[bytes, bytes]
    ttl_seconds: int


def bridged(outlined: Outlined) -> Edited:
    """A mark where the last mark of the request before stood, in every request whose own marks do not look back that
    far.
    """
    ends: dict[tuple[str, str], _End] = {}
    edited, n_changed, n_full = [], 0, 0
    for exchange, prompt in prompts_of(outlined.exchanges):
        edited.append(exchange)
        if prompt is None or not isinstance(exchange.prompt, Outline):
            continue
        lane = exchange.session, exchange.lane
        end = ends.get(lane)
        if end and _is_needed(prompt, end):
            marks = _with(prompt.breakpoints, Breakpoint(end.segment, end.ttl_seconds, prompt.breakpoints[-1].lookback))
            n_full += len(prompt.breakpoints) >= MOST_MARKS
            edited[-1] = replace(exchange, prompt=replace(exchange.prompt, breakpoints=marks))
            n_changed += 1
        written = [mark for mark in prompt.breakpoints if mark.is_written]
        if written:
            last = written[-1]
            ends[lane] = _End(last.segment, prompt.key(last.segment), last.ttl_seconds)
    return Edited(
        edited, n_changed, f"{n_full} requests had no marker left and gave up one of theirs" if n_full else ""
    )


def _is_needed(prompt: Prompt, end: _End) -> bool:
    """Whether that place is still in the prompt, and no mark looks at it."""
    if not prompt.breakpoints or prompt.n <= end.segment or prompt.key(end.segment) != end.key:
        return False
    return not any(_reaches(prompt, mark, end.segment) for mark in prompt.breakpoints)


def _reaches(prompt: Prompt, mark: Breakpoint, segment: int) -> bool:
    return mark.segment >= segment and prompt.positions[mark.segment] - prompt.positions[segment] < mark.lookback


def _with(marks: Sequence[Breakpoint], new: Breakpoint) -> tuple[Breakpoint, ...]:
    """One more mark, in its place and with a lifetime that keeps the longer ones first.

    Of a full set the second goes, not the head.
    """
    remaining = [mark for number, mark in enumerate(marks) if len(marks) < MOST_MARKS or number != 1]
    later = max((mark.ttl_seconds for mark in remaining if mark.segment > new.segment), default=0)
    return tuple(
        sorted([*remaining, replace(new, ttl_seconds=max(new.ttl_seconds, later))], key=lambda mark: mark.segment)
    )


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
    prompts = _overlapping(outlined.exchanges)
    late: defaultdict[tuple[str, str], float] = defaultdict(float)
    flying: list[_Leader] = []
    edited, waits = list(outlined.exchanges), []
    for place in sorted(range(len(edited)), key=lambda place: outlined.exchanges[place].at):
        exchange = outlined.exchanges[place]
        lane, prompt = (exchange.session, exchange.lane), prompts.get(place)
        if prompt is not None:
            at = exchange.at + late[lane]
            flying = [leader for leader in flying if leader.begins_at > at]
            leader = _best([one for one in flying if one.at <= at], exchange, prompt, outlined.reads[place])
            waits += [leader.begins_at - at] if leader else []
            late[lane] += leader.begins_at - at if leader else 0.0
        edited[place] = _later(exchange, late[lane])
        if prompt is not None:
            flying.append(_Leader(lane, exchange.model, edited[place].at, _begins(edited[place]), prompt))
    return Edited(edited, len(waits), f"{len(waits)} calls wait, {max(waits):.1f} s at most" if waits else "")


def _begins(exchange: Exchange) -> float:
    return exchange.at if exchange.first_byte_at is None else exchange.first_byte_at


def _overlapping(exchanges: Sequence[Exchange]) -> dict[int, Prompt]:
    """Place → prompt, of calls that were under way beside one of another lane."""
    beside: set[int] = set()
    flying: list[int] = []
    for place in sorted(range(len(exchanges)), key=lambda place: exchanges[place].at):
        now = exchanges[place]
        flying = [other for other in flying if _begins(exchanges[other]) > now.at]
        siblings = [
            other for other in flying if (exchanges[other].session, exchanges[other].lane) != (now.session, now.lane)
        ]
        beside.update(siblings, [place] if siblings else [])
        flying.append(place)
    rows = enumerate(prompts_of(exchanges))
    return {place: _copied(prompt) for place, (_, prompt) in rows if prompt is not None and place in beside}


def _copied(prompt: Prompt) -> Prompt:
    return replace(prompt, digests=prompt.digests[:], ends_tokens=prompt.ends_tokens[:], positions=prompt.positions[:])


def _best(leaders: Sequence[_Leader], exchange: Exchange, prompt: Prompt, read: int) -> _Leader | None:
    """Of those under way the one that lets most be read, of equals the first to begin.

    None where none lets more be read than was.
    """
    others = [one for one in leaders if one.lane != (exchange.session, exchange.lane) and one.model == exchange.model]
    worth = [(shared, -one.begins_at, one) for one in others if (shared := _shared(one, exchange, prompt)) > read]
    return max(worth, key=lambda row: row[:2])[2] if worth else None


def _shared(leader: _Leader, exchange: Exchange, prompt: Prompt) -> int:
    """Tokens of `prompt` that can be read once `leader` has begun to answer."""
    row, n = model_named(exchange.model, exchange.provider), common(leader.prompt, prompt)
    if row.cache == "breakpoints":
        within = (mark.segment for mark in leader.prompt.breakpoints if mark.is_written and mark.segment < n)
        ends = [segment for segment in within if any(_reaches(prompt, mark, segment) for mark in prompt.breakpoints)]
    else:
        ends = [n - 1] if n else []
    shared = max((prompt.ends_tokens[segment] for segment in ends), default=0)
    return shared - shared % row.granularity_tokens if shared >= row.min_tokens else 0


def _later(exchange: Exchange, seconds: float) -> Exchange:
    if not seconds:
        return exchange
    first, ended = exchange.first_byte_at, exchange.ended_at
    return replace(
        exchange,
        at=exchange.at + seconds,
        first_byte_at=None if first is None else first + seconds,
        ended_at=None if ended is None else ended + seconds,
    )
