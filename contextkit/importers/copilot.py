"""Event logs of the Copilot CLI (`~/.copilot/session-state/<session>/events.jsonl`): their bills.

Takes a source, gives calls. Prompts are not given: what the CLI sends around the messages is in no event.

* The log says no bill per call. `session.shutdown` has `modelMetrics`: for each model the sum of a stretch, from where
  the session was started or resumed. Each is one row that is marked as a sum, on a lane named after the model; where
  the stretch had one call of that model, the sum is the bill of that call.
* `assistant.message` says `outputTokens` of one call (`apiCallId`). Such calls are rows of their own only where no
  shutdown adds them up, as in a session that is open or was left by `/new`: their input is unknown.
* `assistant.usage`, of the stream that the SDK and `--output-format json` give and in no file of the CLI, is the bill
  of one call. What the sums say beyond these events is a row that is marked as a sum.
* `session.title_changed`, which some streams hold, names the session.
* Input holds what was read and written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.importers.field_maps import FieldMap, text_at, value_at
from contextkit.importers.format import first_line
from contextkit.importers.rows import table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import Source
from contextkit.importers.transcript import EARLIEST, parsed, plausible, recorded_id
from contextkit.ledger.calls import ModelCall, Record, Remark

PROVIDER = "github-copilot"
FIELDS = FieldMap(
    prompt="inputTokens",
    read="cacheReadTokens",
    write="cacheWriteTokens",
    output="outputTokens",
    reading="inclusive",
)
ADDED_UP = "all calls of this model up to a session.shutdown"
_EVENT = re.compile(rb'"type"\s*:\s*"(?:session|assistant|user|tool|hook|system|subagent)\.\w+"')
_PUT = ("user.message", "tool.execution_complete", "session.compaction_complete")


def is_copilot(head: bytes) -> bool:
    """Return whether a file that starts like this is such a log.

    >>> is_copilot(b'{"type":"session.start","data":{"sessionId":"a"},"id":"e"}'), is_copilot(b'{"type":"session"}')
    (True, False)
    """
    line = first_line(head)
    return line.startswith(b"{") and b'"data"' in line and _EVENT.search(line) is not None


@dataclass(slots=True)
class _Call:
    """A call of which only the output is known."""

    line: int
    identity: str
    model: str
    lane: str
    at: float | None
    ended: float | None
    usage: Usage | None


def read(source: Source) -> Iterator[Record]:
    """The calls and sums of a log, in its order."""
    log = _Log(source)
    for number, line in source.lines():
        event = parsed(source, number, line)
        if event is None:
            continue
        data = event.get("data")
        if isinstance(event.get("type"), str) and isinstance(data, dict):
            yield from log.hear(number, str(event["type"]), event, data)
        else:
            source.fault(number, "no event of the Copilot CLI; passed over")
    yield from log.finish()


class _Log:
    """Where a log stands."""

    def __init__(self, source: Source) -> None:
        self.source, self.calls = source, SessionCalls(source, "copilot")
        self.session, self.project, self.started = source.label, "", 0.0
        self.held: dict[str, _Call] = {}
        self.billed: dict[str, Usage] = {}
        """Model → what `assistant.usage` events of this stretch said."""
        self.added: dict[str, float] = {}
        """Model → when the latest shutdown added up its calls."""
        self.n_late = 0

    def hear(self, number: int, kind: str, event: dict[str, Any], data: dict[str, Any]) -> Iterator[Record]:
        """The next event."""
        now = plausible(event.get("timestamp"))
        if kind in ("session.start", "session.resume"):
            self._start(data, now)
        elif kind == "assistant.message":
            self._message(number, event, data, now)
        elif kind == "assistant.usage":
            yield from self._billed(number, event, data, now)
        elif kind == "session.shutdown":
            yield from self._shutdown(number, event, data, now)
        elif kind == "session.title_changed" and isinstance(data.get("title"), str):
            yield Remark("title", self.session, data["title"])
        if kind == "session.compaction_complete":
            self.calls.remark_next("compaction", "Copilot compacted the history")
        if kind in _PUT:
            self.calls.put(now)

    def _start(self, data: dict[str, Any], now: float | None) -> None:
        self.session = text_at(data, "sessionId") or self.session
        self.project = text_at(data, "context.cwd") or self.project
        self.started = now or self.started

    def _message(self, number: int, event: dict[str, Any], data: dict[str, Any], now: float | None) -> None:
        """Hold a call back: the sum that it is part of may come."""
        ids = (
            *(data.get(name) for name in ("apiCallId", "requestId", "messageId")),
            event.get("id"),
            f"{self.source.name}:{number}",
        )
        name = next(filter(None, map(recorded_id, ids)))
        output = self.source.count(number, data.get("outputTokens")) or None
        held = self.held.get(name)
        if held is not None:  # one reply may be several messages, each with the output of all
            held.ended = now or held.ended
            most = max(output or 0, (held.usage and held.usage.output) or 0)
            held.usage = Usage(output=most) if most else None
        elif self.calls.is_new(name):
            usage = None if output is None else Usage(output=output)
            lane = text_at(event, "agentId") or "main"
            model = text_at(data, "model") or "unknown"
            self.held[name] = _Call(number, name, model, lane, self.calls.asked, now, usage)
            self.calls.asked = None

    def _billed(self, number: int, event: dict[str, Any], data: dict[str, Any], now: float | None) -> Iterator[Record]:
        """One call with its bill."""
        ids = data.get("apiCallId"), data.get("providerCallId"), event.get("id"), f"{self.source.name}:{number}"
        name = next(filter(None, map(recorded_id, ids)))
        held = self.held.pop(name, None)
        if not self.calls.is_new(f"usage {name}"):
            return
        model = text_at(data, "model") or "unknown"
        if now is not None and now <= self.added.get(model, 0.0):
            self.n_late += 1
            return
        usage = FIELDS.usage(self.source, number, data, PROVIDER)
        if usage is not None:
            self.billed[model] = self.billed[model] + usage if model in self.billed else usage
        lane, at = text_at(event, "agentId") or "main", (held.at if held else None) or 0.0
        yield from self._row(number, id=name, model=model, usage=usage, ended_at=now, at=at, lane=lane)

    def _shutdown(
        self, number: int, event: dict[str, Any], data: dict[str, Any], now: float | None
    ) -> Iterator[Record]:
        """The sums of a stretch."""
        metrics = data.get("modelMetrics")
        if not isinstance(metrics, dict) or not self.calls.is_new(f"shutdown {recorded_id(event.get('id')) or now}"):
            return
        for model, said in metrics.items():
            usage = FIELDS.usage(self.source, number, table(value_at(said, "usage")), PROVIDER)
            count = self.source.count(number, value_at(said, "requests.count"))
            mine = self._take(model, now)
            if model in self.billed:
                yield from self._rest(number, model, usage, self.billed.pop(model), now)
            elif count == 1 and len(mine) == 1:
                mine[0].usage = usage
                yield from self._held(mine[0])
            elif usage is not None or count:
                yield from self._sum(
                    number, model, usage, min((one.at or now or 0.0 for one in mine), default=0.0), now
                )
        self.billed.clear()

    def _take(self, model: str, now: float | None) -> list[_Call]:
        """The calls of a model that a shutdown adds up."""
        self.added[model] = max(self.added.get(model, 0.0), now or 0.0)
        held = [call for call in self.held.values() if call.model == model]
        mine = [call for call in held if call.ended is None or now is None or call.ended <= now]
        for call in mine:
            del self.held[call.identity]
        return mine

    def _rest(self, number: int, model: str, added: Usage | None, billed: Usage, now: float | None) -> Iterator[Record]:
        """What a sum says beyond the calls that were billed one by one."""
        rest = None if added is None else _less(added, billed)
        if rest is None:
            self.source.fault(number, "the sums of session.shutdown are below its assistant.usage events; these stand")
        elif rest.prompt or rest.output:
            yield from self._sum(number, model, rest, 0.0, now)

    def _sum(self, number: int, model: str, usage: Usage | None, at: float, now: float | None) -> Iterator[Record]:
        yield from self.calls.remark("sum", f"{self.session}/{model}", ADDED_UP)
        at, ended = at or self.started, now or self.started or EARLIEST
        name = f"{self.session}/{model}/{number}"
        yield from self._row(number, id=name, model=model, usage=usage, ended_at=ended, at=min(at, ended), lane=model)

    def _held(self, call: _Call) -> Iterator[Record]:
        yield from self._row(
            call.line,
            id=call.identity,
            model=call.model,
            usage=call.usage,
            ended_at=call.ended,
            at=call.at or 0.0,
            lane=call.lane,
        )

    def _row(self, number: int, **fields: Any) -> Iterator[Record]:
        yield from self.calls.remark("project", self.session, self.project)
        yield from self.calls.call(number, ModelCall(session=self.session, provider=PROVIDER, **fields))

    def finish(self) -> Iterator[Record]:
        """What no shutdown added up."""
        n_open = 0
        for call in self.held.values():
            if call.ended is not None and call.ended <= self.added.get(call.model, 0.0):
                self.n_late += 1
            else:
                n_open += 1
                yield from self._held(call)
        if self.n_late:
            self.source.fault(
                0, f"{self.n_late:,} calls stand behind the session.shutdown that adds them up; not counted again"
            )
        if n_open:
            self.source.fault(0, f"no session.shutdown adds up {n_open:,} of its calls: their input is unknown")
        self.calls.finish()


def _less(added: Usage, billed: Usage) -> Usage | None:
    """What is left of a sum; None where it is less than its parts."""
    parts = [(added.fresh, billed.fresh), (added.read, billed.read), (added.written, billed.written)]
    rest = [(whole or 0) - (part or 0) for whole, part in (*parts, (added.output, billed.output))]
    return None if min(rest) < 0 else Usage(rest[0], rest[1], rest[2], 0, rest[3])
