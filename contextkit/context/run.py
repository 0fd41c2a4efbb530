"""The built-in loop: ask the model, run the calls of its reply, until it has nothing left to do.

`run` and `arun` are the loop of `docs/guides/agents.md`, with what a long-running agent needs: compaction where it is due, side
calls that read large results, approvals, streaming, a limit of steps. They keep no state of their own. Everything is in
the context's log when it happens, so a loop that was left by `break`, an exception, Ctrl-C or a crash goes on by calling
`run` again.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, parse
from contextkit.errors import UsageError
from contextkit.log.entry import Entry
from contextkit.providers.request import Request
from contextkit.terminal import sanitize
from contextkit.tools.tool import Call

Context = Any
"""A `Context`, whose module imports this one."""
Approval = bool | str
"""True to run a call; False, or a reason in words for the model, to refuse it."""
_UNREAD = "a result of {!r} was not read by a side call ({}), so it lives in the window as it would without one"
MOST_SIDE_REQUESTS = 2
"""Requests of one side call, until its result lives in another way."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a loop: what was sent, what came back, and the calls that were answered since."""

    number: int
    """Counted from 1."""
    request: Request
    """What was sent."""
    reply: Entry | None
    """The reply as it is in the log; None where it was empty, or a compaction of the provider's own."""
    calls: tuple[Call, ...]
    """Calls of the reply that were open; one that the phase refuses is answered at once and is in `results` only."""
    results: tuple[Entry, ...]
    """Results of all its calls, in the order in which they were written."""
    usage: Usage | None
    """What the request was billed; None where the provider did not say."""
    cost_usd: float | None
    """The same in dollars; None where the model has no price."""

    @property
    def text(self) -> str:
        """What the model said, without thinking."""
        return "" if self.reply is None else str(parse(self.reply.body)["text"])


Bill = Callable[[Request], tuple[Usage | None, float | None]]
"""A request that was answered → its usage, and the dollars it cost."""


def run(
    context: Context,
    client: Any,
    bill: Bill,
    *,
    max_steps: int | None = None,
    approve: Callable[[Call], Approval] | None = None,
    on_event: Callable[[Any], object] | None = None,
    tries: int = 1,
    overrides: dict[str, Json] | None = None,
) -> Iterator[Step]:
    """Yield a `Step` for each request, until the model is finished or `max_steps` were made; see `Context.run`."""
    check_begun(context)
    _answer_open(context, client, approve, tries)
    number = 0
    while not context.finished and (max_steps is None or number < max_steps):
        number += 1
        context.compact_if_due(client)
        request = context.request(**(overrides or {}))
        first = len(context.log)
        if on_event is None:
            reply = context.receive(request.send(client), request)
        else:
            for event in context.stream(request.stream(client), request):
                on_event(event)
            reply = _reply_since(context, first)
        calls = tuple(context.calls)
        _answer_open(context, client, approve, tries)
        yield _step(context, number, request, reply, calls, first, bill)


async def arun(
    context: Context,
    client: Any,
    bill: Bill,
    *,
    max_steps: int | None = None,
    approve: Callable[[Call], Approval | Awaitable[Approval]] | None = None,
    on_event: Callable[[Any], object] | None = None,
    tries: int = 1,
    limit: int = 8,
    overrides: dict[str, Json] | None = None,
) -> AsyncIterator[Step]:
    """`run` for async clients and tools; calls of one reply run together, at most `limit` at a time."""
    check_begun(context)
    await _aanswer_open(context, client, approve, tries, limit)
    number = 0
    while not context.finished and (max_steps is None or number < max_steps):
        number += 1
        await context.acompact_if_due(client)
        request = await asyncio.to_thread(lambda: context.request(**(overrides or {})))
        first = len(context.log)
        if on_event is None:
            response = await request.asend(client)
            reply = await asyncio.to_thread(context.receive, response, request)
        else:
            async for event in context.stream(await request.stream(client), request):
                seen = on_event(event)
                if isawaitable(seen):
                    await seen
            reply = _reply_since(context, first)
        calls = tuple(context.calls)
        await _aanswer_open(context, client, approve, tries, limit)
        yield _step(context, number, request, reply, calls, first, bill)


def check_begun(context: Context) -> None:
    """Raises `UsageError` where there is nothing the model could answer: a request without a message would be sent."""
    if all(entry.kind in ("opened", "phase", "begun") for entry in context.log):
        raise UsageError("nothing was said yet: context.user(…) first")


def check_steps(max_steps: int | None, limit: int = 1) -> None:
    """Raises `UsageError` for what is no number of steps, or of calls that run together."""
    if max_steps is not None and (type(max_steps) is not int or max_steps < 1):
        raise UsageError(f"max_steps={max_steps!r}: how many requests are sent at most, 1 or more, or None")
    if type(limit) is not int or limit < 1:
        raise UsageError(f"limit={limit!r}: how many calls run at a time, 1 or more")


def _step(
    context: Context,
    number: int,
    request: Request,
    reply: Entry | None,
    calls: tuple[Call, ...],
    first: int,
    bill: Bill,
) -> Step:
    results = tuple(entry for entry in context.log[first:] if entry.kind == "result")
    usage, cost = bill(request)
    return Step(number, request, reply, calls, results, usage, cost)


def _reply_since(context: Context, before: int) -> Entry | None:
    return next((entry for entry in context.log[before:] if entry.kind == "assistant"), None)


def _refusal(approval: Approval) -> str:
    if approval is True:
        return ""
    return "the call was not approved" if approval is False else str(approval)


def _answer_open(context: Context, client: Any, approve: Callable[[Call], Approval] | None, tries: int) -> None:
    for call in context.calls:
        why = "" if call.was_started else call.refusal or ""
        if not why and approve is not None and not call.is_cut and not call.was_started:
            why = _refusal(approve(call))
        if why:
            call.deny(why)
            continue
        value = call.run(tries)
        context.result(call, _read_by_side_call(context, client, call, value) or value)


async def _aanswer_open(
    context: Context,
    client: Any,
    approve: Callable[[Call], Approval | Awaitable[Approval]] | None,
    tries: int,
    limit: int,
) -> None:
    gate = asyncio.Semaphore(limit)

    async def answer(call: Call) -> None:
        async with gate:
            why = "" if call.was_started else call.refusal or ""
            if not why and approve is not None and not call.is_cut and not call.was_started:
                approval = approve(call)
                why = _refusal(await approval if isawaitable(approval) else approval)
            if why:
                await asyncio.to_thread(call.deny, why)
                return
            value = await call.arun(tries)
            side = await _aread_by_side_call(context, client, call, value)
        await asyncio.to_thread(context.result, call, side or value)

    outcomes = await asyncio.gather(*map(answer, context.calls), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def _read_by_side_call(context: Context, client: Any, call: Call, value: object) -> Context | None:
    """The branch that read a result, where its residency is *delegate*; None where it lives otherwise.

    A side call that fails is no reason to lose the result: it then lives as the policy chooses without one.
    """
    if context.residency(call, value) != "delegate":
        return None
    side = context.delegate(call, value)
    for _ in range(MOST_SIDE_REQUESTS):
        request = side.request()
        try:
            side.receive(request.send(client), request)
        except Exception as error:  # noqa: BLE001 - the ledger has it, and the result is at hand
            warnings.warn(sanitize(_UNREAD.format(call.name, type(error).__name__)), stacklevel=2)
            return None
        if side.finished and side.stop == "done":
            return side
        side.interrupt("answer with the extract alone")
    return None


async def _aread_by_side_call(context: Context, client: Any, call: Call, value: object) -> Context | None:
    if await asyncio.to_thread(context.residency, call, value) != "delegate":
        return None
    side = await asyncio.to_thread(context.delegate, call, value)
    for _ in range(MOST_SIDE_REQUESTS):
        request = side.request()
        try:
            response = await request.asend(client)
            await asyncio.to_thread(side.receive, response, request)
        except Exception as error:  # noqa: BLE001 - the ledger has it, and the result is at hand
            warnings.warn(sanitize(_UNREAD.format(call.name, type(error).__name__)), stacklevel=2)
            return None
        if side.finished and side.stop == "done":
            return side
        side.interrupt("answer with the extract alone")
    return None
