"""The one object a user holds: what is said, sent, received and run.

It has no rule of its own: order and open calls are `log/turns.py`, bytes are `providers/`, bills are `ledger/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from contextkit.canonical import Json, parse
from contextkit.context.remembering import Remembering
from contextkit.errors import InvalidCall, InvalidContent, MemoryRefused, StorageError, UsageError
from contextkit.ledger.receiving import Passing, take
from contextkit.ledger.summary import Summary, summarise
from contextkit.log.content import binary_part, check_result_parts, content_parts, said_text
from contextkit.log.entry import Change, Entry
from contextkit.log.turns import OpenCall
from contextkit.providers.adoption import check_provider
from contextkit.providers.request import Request
from contextkit.providers.server_state import summed_up
from contextkit.providers.settings import is_prewarm, parameters, prewarming, routing
from contextkit.tools.phases import Phases
from contextkit.tools.render import answer, unrenderable
from contextkit.tools.tool import Call, run_all
from contextkit.tools.toolbox import Toolbox


def _event(lasts: dict[str, Json]) -> dict[str, Json]:
    """Words that are to leave the prompt are told as events are: behind what the user says, by the program."""
    return {"event": {"type": "words"}, **lasts} if lasts else {}


_ENDED = frozenset({"done", "truncated", "refused", "overflow"})


class Context(Remembering):
    """A conversation that only grows, and the requests it makes.

    >>> from contextkit import AnthropicMessages, Context
    >>> context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system="You are terse.")
    >>> context.user("Hello").kind
    'user'
    >>> context.request()["messages"]
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hello'}]}]
    """

    def user(self, content: Any) -> Entry:
        """Something the user says: text, a part, or a list of them. Durable when this returns; waits behind open calls."""
        return self._append("user", {"content": content_parts(content)})

    def notice(self, news: str | Change, *, until_user: bool = False) -> Entry:
        """Something the program says, in band: history stays as it is.

        A change that the prompt says already is not said twice.

        `until_user`: it matters for the user turn it follows only; where the model takes it, it costs nothing from the
        next one on.
        """
        lasts = {"until": "user"} if until_user else {}
        return (
            self._notice(news, lasts)
            if isinstance(news, Change)
            else self._append("notice", {"text": said_text(news), **_event(lasts)})
        )

    def request(self, **overrides: Json) -> Request:
        """The next request.

        Pure: two calls, same bytes. `overrides` are the endpoint's parameters, for this call only (None: left out).
        """
        check_provider(self.provider)
        with self._lock:  # a columns grows here: one thread at a time, and none appends between the layout and what it says it includes
            self._settle()
            if n := len(self._turns.open_calls):
                raise InvalidCall(
                    f"{n} calls are unanswered: context.result(call, …) for each of context.calls, or context.interrupt(…)"
                )
            layout, after, epoch = self._laid_out(), len(self.log) - 1, self._turns.epoch
            mask = self._permission.lowered(self.provider, overrides)
            route = routing(self.provider, layout, self._root)
            params, headers = parameters(self.provider, overrides, {**route.fields, **mask.fields}, route.headers)
            continued = self._continuity.request(self.provider, self._turns, layout, params, is_prewarm(params))
        return self._account.request(self.provider, layout, params, headers, after, epoch, mask, continued)

    def prewarm(self, **overrides: Json) -> Request:
        """A request that writes what the next one will read and is answered with nothing.

        `receive` bills its reply and keeps none.

        Raises `UsageError` where the endpoint has no such request.
        """
        return self.request(**{**prewarming(self.provider), **overrides})

    def receive(self, reply: Any, request: Request | None = None) -> Entry | None:
        """Keep the model's turn as received: the SDK's typed response or its dict.

        `request`: what it answers, else the last built.

        When it raises `OSError` or `StorageError`, as on a full disk, give it the same response again: it is billed and
        kept once. A provider's own compaction opens a new epoch that begins with it. None for the reply to a `prewarm`:
        it is billed, and nothing was said.
        """
        return self._receive(reply, self._asked(request), None)

    def stream(self, events: Any, request: Request | None = None) -> Any:
        """Pass a stream's events through (sync or async), keep the turn at its end.

        A cut stream is in the ledger and never kept.
        """
        return Passing(self.provider, self._asked(request), self._account, self._receive).through(events)

    def failed(self, error: BaseException | str, request: Request | None = None, *, has_begun: bool = False) -> None:
        """Note in the ledger that the last request came to nothing; `request.send` and `stream` do this themselves.

        `has_begun`: its response had begun, so it was billed and has warmed the cache.
        """
        self._account.failed(self._asked(request), error, None, self._clock() if has_begun else None)

    @property
    def calls(self) -> list[Call]:
        """Every unanswered call, in order, also after a crash."""
        with self._lock, suppress(OSError, StorageError, MemoryRefused):  # a refusal that could not be written yet
            self._settle()
        return [self._call(call) for call in self._turns.open_calls]

    def result(self, call: Call | str, value: object, *, is_error: bool = False, source: str | None = None) -> Entry:
        """Answer a call with a value, or with an exception (kept for good, as an error the model can read).

        Whatever the value is, it answers the call: bytes are text, a picture, a PDF, or a file in the memory; NaN and
        lone surrogates are written as text; for a value that has no form, and for parts no provider takes, the answer
        is an error that says so.

        With a memory, what is large is stored and shown as a reference; `source` is the URL or path it came from.
        Raises `InvalidCall` for a call that is not open.
        """
        call_id = call if isinstance(call, str) else str(getattr(call, "id", call))
        with self._lock:
            self._settle()
        if call_id in self._refused_late:
            return self._refused_late[call_id]
        name = next((open_call.name for open_call in self._turns.open_calls if open_call.call_id == call_id), "")
        said = answer(value, is_error, binary_part)
        try:
            check_result_parts(said["content"])
        except InvalidContent as fault:
            said = unrenderable(fault)
        return self._append("result", self._keeping.written({"call_id": call_id, "name": name, **said}, source))

    async def run_calls(self, limit: int = 8, tries: int = 1) -> list[Entry]:
        """Run every open call, at most `limit` at a time; each result is kept as it comes and rendered in call order.

        A call that fails is made again, up to `tries` times; its failures are kept in its result.
        """
        return await run_all(self.calls, self.result, limit, tries)

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

    def retool(self, tools: Iterable[Any], phases: Phases | None = None) -> Entry:
        """Open a new epoch with another tool set, and another table of phases if need be.

        Everything said is paid for once more.
        """
        toolbox = self._keeping.joined(Toolbox(tools))
        self._permission.renew(phases, toolbox, self._limits())
        entry = self._renew("retool", None, toolbox.definitions())
        self.toolbox = toolbox
        return entry

    def late_tools(self, tools: Iterable[Any], *, allow_epoch: bool = False) -> Entry:
        """Tools that have come since the conversation began join behind the prompt.

        The head stays as it is (`docs/late-tools.md`).

        Tools announced before are bound anew, which is what a resumed conversation needs. Where the model takes none in
        band: raises `UsageError`, or, with `allow_epoch`, opens a new epoch with a larger head, whose price is in the
        entry.
        """
        if allow_epoch and not self._can_join():
            return self.retool([*self.toolbox, *Toolbox(tools)])
        return self._join(tools)

    def resystem(self, system: Any) -> Entry:
        """Open a new epoch with another system prompt; everything said stays, and is paid for once more."""
        return self._renew("resystem", content_parts(system), None)

    @property
    def phase(self) -> str | None:
        """The phase the conversation is in; None without phases."""
        return self._permission.phase

    def enter(self, phase: str) -> Entry:
        """Enter a phase by hand; durable, and told to the model behind what is said before it speaks next."""
        return self._enter(phase)

    def summary(self) -> Summary:
        """What was read from cache, what it cost, and why each miss happened."""
        return summarise(self.ledger)

    def _receive(self, response: Any, request: Request, first_byte_at: float | None) -> Entry | None:
        try:
            body = take(
                response, request, self.provider, self._account, self._turns.check, self._is_kept, first_byte_at
            )
            if not isinstance(body, dict):
                return self._last_reply() if body else None
            return (
                self._append("assistant", body)
                if (summary := summed_up(body)) is None
                else self._compacted(body, *summary)
            )
        except (OSError, StorageError) as fault:
            self._account.settled(request, fault)  # the response is there to be received again: the call has not failed
            raise

    def _last_reply(self) -> Entry | None:
        return None if self._turns.last_assistant is None else self.log[self._turns.last_assistant]

    def _is_kept(self, body: Json) -> bool:
        """Whether the log ends with this reply: it was kept, and whoever received it did not learn of that."""
        last = self._last_reply()
        if last is None or self._turns.has_pending_user or self.stop not in _ENDED | {"calls"}:
            return False
        said = parse(last.body)
        return all(said.get(name) == body.get(name) for name in ("native", "text", "calls", "stop"))

    def _asked(self, request: Request | None) -> Request:
        """What is answered: the request given, else the last built."""
        if not isinstance(request, Request | None):
            raise UsageError(f"request is what context.request() gave, not {type(request).__name__}")
        return request or self._account.last(self.request)

    def _call(self, call: OpenCall) -> Call:
        tool = self._late.answering(call.name, call.arguments, self.toolbox)
        given = call.call_id, call.name, call.arguments, call.was_started, call.is_cut, tool
        return Call(*given, self._append, self.result, lambda name: self._permission.refusal(name, call.arguments))
