"""Reads model calls out of a tree of spans: the lane of each, as the tree records it, and which of several records of
one call counts.

Takes spans as they come, children before parents or after, gives calls with their remarks, trace by trace. Knows no
format.

* A call inside an agent that another agent called has a lane of its own, one for each time it was called; all others
  are `main`, or the
  agent's name where one conversation is held by several agents in turn.
* A call inside another call is the same one recorded twice, by a framework and by the client it uses: the inner one
  counts.
  So are calls with
  one response id: the one that has most fields counts.

`counted_usage` makes a `Usage` of the counts that a gateway or a tracer wrote down, whose prompt may or may not include
the cached tokens; counts that contradict each other are a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Literal

from contextkit.cache.usage import Usage
from contextkit.importers.read_once import ReadOnce
from contextkit.importers.source import Source
from contextkit.ledger.calls import ModelCall, Record, Remark, RemarkKind

Reading = Literal["inclusive", "exclusive", "unsaid"]
"""Whether the prompt's count holds what was read and written, leaves it out, or nobody says."""
IMPOSSIBLE = "more read and written than was sent; its bill is unknown"
UNTOLD = "nothing tells whether its input holds the cached tokens or leaves them out; what was neither is unknown"


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of one call as they were written down; None where nobody says."""

    prompt: int | None = None
    """Input, with or without what was cached."""
    read: int | None = None
    """Read from the cache."""
    write: int | None = None
    """Written to it, whatever the lifetime."""
    output: int | None = None
    """Generated."""
    total: int | None = None
    """All of it."""
    write_5m: int | None = None
    """Of what was written, with the short lifetime."""
    write_1h: int | None = None
    """Of what was written, with the long lifetime."""

    @property
    def cached(self) -> int:
        """Tokens read and written, as far as they are known."""
        return (self.read or 0) + (self.write or 0)


def reading_by_total(counts: Counts) -> Reading:
    """The reading that agrees with the total; `unsaid` where both or neither do.

    >>> reading_by_total(Counts(100, 90, 0, 5, total=105)), reading_by_total(Counts(10, 90, 0, 5, total=105))
    ('inclusive', 'exclusive')
    >>> reading_by_total(Counts(10, 90, 0, 5))
    'unsaid'
    """
    if counts.total is None or counts.prompt is None or not counts.cached:
        return "unsaid"
    rest = counts.total - (counts.output or 0) - counts.prompt
    readings: dict[int, Reading] = {0: "inclusive", counts.cached: "exclusive"}
    return readings.get(rest, "unsaid")


def counted_usage(source: Source, line: int, counts: Counts, reading: Reading) -> Usage | None:
    """What a call was billed.

    None where nothing is known, where all is 0, as no call costs nothing, and where it contradicts itself.
    """
    counts = _split(source, line, counts)
    if counts.prompt is None or (counts.read is None and counts.write is None):
        known = Usage(None, counts.read, counts.write_5m, counts.write_1h, counts.output)
        return known if counts.cached or counts.output else None
    if reading == "unsaid" and (counts.cached > counts.prompt or not counts.cached):
        reading = "exclusive"
    elif reading == "unsaid":
        source.fault(line, UNTOLD)
    if reading == "inclusive" and counts.cached > counts.prompt:
        source.fault(line, IMPOSSIBLE)
        return None
    fresh = {"inclusive": counts.prompt - counts.cached, "exclusive": counts.prompt, "unsaid": None}[reading]
    usage = Usage(fresh, counts.read, counts.write_5m, counts.write_1h, counts.output)
    return usage if fresh is None or fresh or counts.cached or counts.output else None


def _split(source: Source, line: int, counts: Counts) -> Counts:
    """With the two lifetimes of what was written: the short one where nobody says, as it is what is asked for by
    default.
    """
    short, long = counts.write_5m, counts.write_1h
    if short is None and long is None:
        return replace(counts, write_5m=counts.write, write_1h=None if counts.write is None else 0)
    both = (short or 0) + (long or 0)
    if counts.write is not None and counts.write != both:
        if not both:
            return replace(counts, write_5m=counts.write, write_1h=0)
        source.fault(line, "the writes of both lifetimes are not their sum; the lifetimes stand")
    return replace(counts, write=both, write_5m=short or 0, write_1h=long or 0)


MAIN = "main"
OPEN = 20_000
"""Spans held until their trace is told; a longer trace is told in parts."""


@dataclass(slots=True)
class Span:
    """What counts of one span."""

    id: str
    """Unique in its trace."""
    parent: str
    """The span around it, empty for none."""
    trace: str
    """What its spans belong to."""
    agent: str
    """Name of the agent whose work it is, empty where it does not say."""
    is_agent: bool
    """Whether it stands for the work of an agent as a whole."""
    session: str
    """The conversation, empty where it does not say."""
    project: str
    """Where that was held, empty where it does not say."""
    call: ModelCall | None
    """The model call it is, its session and lane still open."""
    remarks: tuple[tuple[RemarkKind, str], ...] = ()
    """What it says of its call."""


class Traces(ReadOnce):
    """Holds spans until their trees can be read."""

    def __init__(self, source: Source, program: str, what: str) -> None:
        super().__init__(source, program, what)
        self.traces: dict[str, list[Span]] = {}
        self.n_held = self.n_twice = self.n_calls = 0
        self.mains: dict[str, str] = {}

    def put(self, span: Span) -> Iterator[Record]:
        """One more span; gives the calls of the oldest traces where too many are held."""
        self.traces.setdefault(span.trace, []).append(span)
        self.n_held += 1
        while self.n_held > OPEN:
            yield from self._emitted(self.traces.pop(next(iter(self.traces))))

    def copied(self) -> Traces:
        """The same, for calls to be taken of it that count for nothing yet."""
        ahead = copy(self)
        ahead.traces, ahead.mains, ahead.remarked = dict(self.traces), dict(self.mains), set(self.remarked)
        return ahead

    def rest(self) -> Iterator[Record]:
        """The calls of all traces still held, the earliest trace first, and what is to be said of all."""
        waiting = sorted(self.traces.values(), key=_start)
        self.traces = {}
        for spans in waiting:
            yield from self._emitted(spans)
        if self.n_twice:
            self.source.fault(
                0, f"{self.n_twice:,} of its spans tell of calls that other spans tell of too; counted once"
            )
        if not self.n_calls and not self.n_known:
            self.source.fault(0, "no model call in it")

    def _emitted(self, spans: list[Span]) -> Iterator[Record]:
        self.n_held -= len(spans)
        by_id = {span.id: span for span in spans}
        for span in sorted(self._counted(spans, by_id), key=_at):
            yield from self._call(span, _ancestors(span, by_id))

    def _counted(self, spans: list[Span], by_id: dict[str, Span]) -> list[Span]:
        """The spans whose calls count."""
        calls = [span for span in spans if span.call]
        outer = {around.id for span in calls for around in _ancestors(span, by_id) if around.call}
        kept: dict[str, Span] = {}
        for span in calls:
            if span.id not in outer:
                name = span.call.id if span.call else ""
                kept[name] = max(kept[name], span, key=_n_counters) if name in kept else span
        self.n_twice += len(calls) - len(kept)
        return list(kept.values())

    def _call(self, span: Span, around: list[Span]) -> Iterator[Record]:
        if span.call is None:
            return
        chain = [span, *around]
        session = next((one.session for one in chain if one.session), span.trace)
        project = next((one.project for one in chain if one.project), "")
        agents = [one for one in chain if one.is_agent]
        name = next((one.agent for one in chain if one.agent), "")
        lane = agents[0].id if len(agents) > 1 else self._top(session, name)
        self.n_calls += 1
        yield from self.remark("project", session, project)
        yield from self.remark("agent", f"{session}/{lane}", name if name != lane else "")
        yield from (Remark(kind, span.call.id, text) for kind, text in span.remarks)
        yield _placed(span.call, session, lane)

    def _top(self, session: str, name: str) -> str:
        return MAIN if not name or self.mains.setdefault(session, name) == name else name


def _placed(call: ModelCall, session: str, lane: str) -> ModelCall:
    """As `dataclasses.replace` does, in a third of the time."""
    return ModelCall(
        id=call.id,
        session=session,
        lane=lane,
        at=call.at,
        first_byte_at=call.first_byte_at,
        ended_at=call.ended_at,
        provider=call.provider,
        model=call.model,
        prompt=call.prompt,
        usage=call.usage,
        predicted=call.predicted,
        error=call.error,
        billed_usd=call.billed_usd,
        output_estimate=call.output_estimate,
    )


def _ancestors(span: Span, by_id: dict[str, Span]) -> list[Span]:
    """From the nearest to the outermost; a circle ends where it closes."""
    found, seen = list[Span](), {span.id}
    while span.parent and span.parent not in seen and span.parent in by_id:
        span = by_id[span.parent]
        seen.add(span.id)
        found.append(span)
    return found


def _at(span: Span) -> float:
    return span.call.at if span.call else 0.0


def _start(spans: list[Span]) -> float:
    return min((span.call.at for span in spans if span.call), default=0.0)


def _n_counters(span: Span) -> int:
    usage = span.call.usage if span.call else None
    counts = (usage.fresh, usage.read, usage.write_5m, usage.write_1h, usage.output) if usage else ()
    return sum(count is not None for count in counts)
