"""The one object a user holds: a log, a toolbox, a provider, its tracks and a ledger, joined.

It has no rule of its own: order and open calls are `log/turns.py`, bytes are `providers/`, bills are `ledger/`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any, Self

from contextkit.canonical import Json
from contextkit.errors import HeadChanged, InvalidCall
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import Summary, summarise
from contextkit.log.content import content_parts, said_text
from contextkit.log.entry import Entry, Kind
from contextkit.log.log import Log
from contextkit.log.storage import folder_at
from contextkit.log.turns import OpenCall, Turns
from contextkit.providers.adoption import adopt, check_fresh, check_head, check_provider, lane_of, opening, renewed
from contextkit.providers.parameters import parameters
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request
from contextkit.providers.tracks import Tracks
from contextkit.simulator.account import Account
from contextkit.simulator.receiving import take
from contextkit.simulator.streaming import Passing
from contextkit.tools.adopt import adopted
from contextkit.tools.call import Call, run_all
from contextkit.tools.render import answer
from contextkit.tools.toolbox import Toolbox

_ENDED = frozenset({"done", "truncated", "refused", "overflow"})


class Context:
    """A conversation that only grows, and the requests it makes.

    >>> from contextkit import AnthropicMessages, Context
    >>> context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system="You are terse.")
    >>> context.user("Hello").kind
    'user'
    >>> context.request()["messages"]
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hello'}]}]
    """

    def __init__(
        self, provider: Provider, *, system: Any = None, tools: Iterable[Any] | None = None, log: Log | None = None,
        ledger: Ledger | None = None, clock: Callable[[], float] = time.time, lane: str | None = None, allow_new_head: bool = False,
    ) -> None:  # fmt: skip
        """A conversation in memory, or over the log and ledger given. Raises `HeadChanged` when they were begun with another head."""
        check_provider(provider, log)
        self.provider = provider
        self.toolbox = Toolbox(() if tools is None else tools)
        self.log = Log(clock=clock) if log is None else log
        self.ledger = Ledger() if ledger is None else ledger
        self._clock, self._lock, self._tracks, self._turns = clock, Lock(), Tracks(), Turns.over(self.log)
        parts = None if system is None else content_parts(system)
        definitions = None if tools is None else self.toolbox.definitions()
        if not len(self.log):
            self._append("opened", opening(provider, parts or [], definitions or []))
        self._account = Account(self.ledger, self.log[0].digest.hex(), lane or lane_of(self.log), clock)
        try:
            check_head(self.log, self._turns, provider, parts, definitions)
        except HeadChanged:
            if not allow_new_head:
                raise
            self._renew("head", parts, definitions)

    @classmethod
    def open(cls, folder: str | Path, provider: Provider, **options: Any) -> Self:
        """The conversation kept in `folder` (`log.jsonl`, `ledger.jsonl`), begun when it is not there.

        Raises `LogLocked` while another process holds it, `LogCorrupt` when a line was changed, `HeadChanged` as above.
        """
        check_provider(provider)
        root = folder_at(folder)
        with ExitStack() as opened:
            log = opened.enter_context(Log.open(root / "log.jsonl", **({"clock": options["clock"]} if "clock" in options else {})))
            ledger = opened.enter_context(Ledger.open(root / "ledger.jsonl"))
            context = cls(provider, log=log, ledger=ledger, **options)
            opened.pop_all()
        return context

    @classmethod
    async def aopen(cls, folder: str | Path, provider: Provider, **options: Any) -> Self:
        """`open`, off the event loop."""
        return await asyncio.to_thread(cls.open, folder, provider, **options)

    @classmethod
    def from_messages(
        cls, provider: Provider, body: Json, *, tools: Iterable[Any] | None = None, folder: str | Path | None = None, **options: Any
    ) -> Self:
        """Adopt the request body a loop has built so far; `tools` gives the functions that run what it declares."""
        system, definitions, turns = adopt(provider, body)
        given = {"system": system or None, "tools": adopted(definitions, () if tools is None else tools), **options}
        context = cls(provider, **given) if folder is None else cls.open(folder, provider, **given)
        with ExitStack() as opened:
            opened.callback(context.close)
            check_fresh(context.log)
            for turn in turns:
                context._append(turn.kind, turn.body)
            opened.pop_all()
        return context

    def user(self, content: Any) -> Entry:
        """Something the user says: text, a part, or a list of them. Durable when this returns; waits behind open calls."""
        return self._append("user", {"content": content_parts(content)})

    def notice(self, text: str) -> Entry:
        """Something the program says, in band: history stays as it is."""
        return self._append("notice", {"text": said_text(text)})

    def request(self, **overrides: Json) -> Request:
        """The next request. Pure: two calls, same bytes. `overrides` are the endpoint's parameters, for this call only (None: left out)."""
        if n := len(self._turns.open_calls):
            raise InvalidCall(f"{n} calls are unanswered: context.result(call, …) for each of context.calls, or context.interrupt(…)")
        params, headers = parameters(self.provider, overrides)
        layout = self._tracks.layout(self.log, self._turns, self.provider)
        return self._account.request(self.provider, layout, params, headers, len(self.log) - 1, self._turns.epoch)

    def receive(self, reply: Any, request: Request | None = None) -> Entry:
        """Keep the model's turn as received: the SDK's typed response or its dict. `request`: what it answers, else the last built."""
        return self._receive(reply, request or self._account.last(self.request), None)

    def stream(self, events: Any, request: Request | None = None) -> Any:
        """Pass a stream's events through (sync or async), keep the turn at its end. A cut stream is in the ledger and never kept."""
        return Passing(self.provider, request or self._account.last(self.request), self._account, self._receive).through(events)

    def failed(self, error: BaseException | str, request: Request | None = None, *, has_begun: bool = False) -> None:
        """Note in the ledger that the last request came to nothing; `request.send` and `stream` do this themselves.

        `has_begun`: its response had begun, so it was billed and has warmed the cache.
        """
        self._account.failed(request or self._account.last(self.request), error, None, self._clock() if has_begun else None)

    @property
    def calls(self) -> list[Call]:
        """Every unanswered call, in order, also after a crash."""
        return [self._call(call) for call in self._turns.open_calls]

    def result(self, call: Call | str, value: object, *, is_error: bool = False) -> Entry:
        """Answer a call with a value, or with an exception (kept for good, as an error the model can read)."""
        call_id = call if isinstance(call, str) else str(getattr(call, "id", call))
        name = next((open_call.name for open_call in self._turns.open_calls if open_call.call_id == call_id), "")
        return self._append("result", {"call_id": call_id, "name": name, **answer(value, is_error)})

    async def run_calls(self, limit: int = 8) -> list[Entry]:
        """Run every open call, at most `limit` at a time; each result is kept as it comes and rendered in call order."""
        return await run_all(self.calls, self.result, limit)

    def interrupt(self, reason: str) -> list[Entry]:
        """Answer every open call with an error that says why nobody ran it."""
        return [self.result(call, InvalidCall(f"interrupted: {reason}")) for call in self.calls]

    @property
    def stop(self) -> str | None:
        """Why the last reply ended: done, calls, truncated, paused, refused, overflow; None before the first."""
        return self._turns.last_stop

    @property
    def finished(self) -> bool:
        """Whether the model has had its last word: nothing said since, no call open."""
        return self.stop in _ENDED and not self._turns.has_pending_user and not self._turns.open_calls

    def compact(self, summary: Any, keep_from: Entry | int | None = None) -> Entry:
        """Open a new epoch that starts from `summary` and the entries from `keep_from` on. The next request pays for the whole prompt."""
        kept = None if keep_from is None else self.log.find(keep_from).sequence
        return self._epoch("compaction", content_parts(summary), kept)

    def retool(self, tools: Iterable[Any]) -> Entry:
        """Open a new epoch with another tool set; everything said stays, and is paid for once more."""
        toolbox = Toolbox(tools)
        entry = self._renew("retool", None, toolbox.definitions())
        self.toolbox = toolbox
        return entry

    def resystem(self, system: Any) -> Entry:
        """Open a new epoch with another system prompt; everything said stays, and is paid for once more."""
        return self._renew("resystem", content_parts(system), None)

    def fork(self, at: Entry | int | None = None, folder: str | Path | None = None) -> Context:
        """A branch that shares everything up to `at` (undo, edit, regenerate): same bytes, so the shared prefix is read from cache."""
        root = None if folder is None else folder_at(folder)
        with ExitStack() as opened:
            log = opened.enter_context(self.log.fork(-1 if at is None else at, None if root is None else root / "log.jsonl"))
            ledger = opened.enter_context(Ledger() if root is None else Ledger.open(root / "ledger.jsonl"))
            other = Context(self.provider, log=log, ledger=ledger, clock=self._clock)
            opened.pop_all()
        other.toolbox = self.toolbox
        other._account.share(self._account)
        return other

    def summary(self) -> Summary:
        """What was read from cache, what it cost, and why each miss happened."""
        return summarise(self.ledger)

    def close(self) -> None:
        """Let another process open the folder."""
        self.log.close()
        self.ledger.close()

    def _append(self, kind: Kind, body: Json) -> Entry:
        with self._lock:
            self._turns.check(kind, body)
            entry = self.log.append(kind, body)
            self._turns.feed(entry)
        return entry

    def _receive(self, response: Any, request: Request, first_byte_at: float | None) -> Entry:
        return self._append("assistant", take(response, request, self.provider, self._account, self._turns.check, first_byte_at))

    def _call(self, call: OpenCall) -> Call:
        tool = self.toolbox[call.name] if call.name in self.toolbox else None  # noqa: SIM401 - a Toolbox has no get
        return Call(call.call_id, call.name, call.arguments, call.was_started, call.is_cut, tool, self._append, self.result)

    def _epoch(self, reason: str, summary: Json, keep_from: int | None, **head: Json) -> Entry:
        layout = self._tracks.layout(self.log, self._turns, self.provider)
        price = layout.track.ends_tokens[layout.n - 1] if layout.n else 0
        body = {"reason": reason, "summary": summary, "keep_from": keep_from, "rewrites_tokens": price, **head}
        return self._append("epoch", {**body, "templates": {self.provider.wire: self.provider.template}})

    def _renew(self, reason: str, system: Json | None, tools: Json | None) -> Entry:
        return self._epoch(reason, [], 0, **renewed(self.provider, system, tools))
