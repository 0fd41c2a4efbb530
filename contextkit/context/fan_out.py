"""Branches of one conversation, asked at once: the first writes the shared prefix, the others start when its response
begins.

Takes contexts that share their bytes, gives their replies. An entry is readable from the moment the response that wrote
it begins, so waiting for more would be lost time, and not waiting would write the prefix once for each
(`economics/fanout.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from contextkit.errors import UsageError

_WARM = 0.9
"""From this share of its prompt on a branch reads what there is to share: then nobody waits."""


class FanOut(Sequence[Any]):
    """Branches that share their bytes."""

    __slots__ = ("_branches",)

    def __init__(self, branches: Sequence[Any]) -> None:
        """`branches` are contexts: those of `fan_out`, or sub-agents that share a head. Raises `UsageError` for none."""
        if not branches:
            raise UsageError("a fan-out of no branches: give at least one task, or a number from 1")
        self._branches = tuple(branches)

    def __len__(self) -> int:
        return len(self._branches)

    def __getitem__(self, index: Any) -> Any:
        return self._branches[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._branches)

    @property
    def is_warm(self) -> bool:
        """Return whether the shared prefix is cached already, so that nobody has to wait."""
        usage = self._branches[0].request().predicted
        return (usage.read or 0) >= _WARM * (usage.prompt or 1)

    def send(self, client: Any, limit: int = 16) -> list[Any]:
        """Ask all of them, at most `limit` at a time.

        In order, the entry that keeps what each said, or the error that stopped it.

        A leader that fails before its response begins leaves the lead to the next.
        """
        led: list[Any] = []
        with ThreadPoolExecutor(_checked(limit)) as pool:
            is_led = self.is_warm
            while not is_led and len(led) < len(self):
                begun = Event()
                led.append(pool.submit(_ask, self[len(led)], client, begun))
                led[-1].add_done_callback(lambda _, begun=begun: begun.set())
                begun.wait()
                is_led = not (led[-1].done() and isinstance(led[-1].result(), Exception))
            led += [pool.submit(_ask, branch, client, Event()) for branch in self[len(led) :]]
        return [one.result() for one in led]

    async def asend(self, client: Any, limit: int = 16) -> list[Any]:
        """`send` for an async client."""
        gate, led = asyncio.Semaphore(_checked(limit)), list[Any]()
        is_led = self.is_warm
        while not is_led and len(led) < len(self):
            begun = asyncio.Event()
            led.append(asyncio.ensure_future(_aask(self[len(led)], client, begun, gate)))
            led[-1].add_done_callback(lambda _, begun=begun: begun.set())
            await begun.wait()
            is_led = not (led[-1].done() and isinstance(led[-1].result(), Exception))
        led += [asyncio.ensure_future(_aask(branch, client, asyncio.Event(), gate)) for branch in self[len(led) :]]
        return list(await asyncio.gather(*led))


def _checked(limit: int) -> int:
    if type(limit) is not int or limit < 1:
        raise UsageError(f"limit={limit!r}: how many branches are asked at a time, 1 or more")
    return limit


def _ask(branch: Any, client: Any, begun: Event) -> Any:
    """What a branch keeps of its reply, or the error that stopped it, which its ledger has noted.

    `begun` is set with the first event.
    """
    try:
        request = branch.request()
        for _ in branch.stream(request.stream(client), request):
            begun.set()
    except Exception as error:  # noqa: BLE001 - the caller gets it
        return error
    return _last_reply(branch)


async def _aask(branch: Any, client: Any, begun: asyncio.Event, gate: asyncio.Semaphore) -> Any:
    try:
        async with gate:
            request = branch.request()
            async for _ in branch.stream(await request.stream(client), request):
                begun.set()
    except Exception as error:  # noqa: BLE001 - the caller gets it
        return error
    return _last_reply(branch)


def _last_reply(branch: Any) -> Any:
    return next(entry for entry in reversed(branch.log) if entry.kind == "assistant")
