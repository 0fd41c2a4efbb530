"""The WebSocket at `/v1/responses`: its handshake, its messages, and responses that are under way at the same time.

What a message means is decided in `server/message_lanes.py`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from contextkit.server.answer import missing_key, refused
from contextkit.server.endpoints.table import RESPONSES
from contextkit.server.http.outcomes import Receive, Send, Written, hang_up, outcome_of
from contextkit.server.message_lanes import MOST_UNDER_WAY, Connection, MessageLane, Turn
from contextkit.server.state import State

_MOST_WAITING = 256
"""Requests of a connection that wait or are under way; no further message is read meanwhile."""
_GOING_AWAY = 1001
"""Close code (RFC 6455, 7.4.1) at which clients connect again."""


class ResponsesSocket:
    """The endpoint as an ASGI application."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer the messages of one client; without a key the handshake is refused."""
        from starlette.datastructures import Headers

        await receive()  # websocket.connect
        headers = Headers(scope=scope)
        codec = self._state.books(RESPONSES).adapted(RESPONSES)
        if refusal := missing_key(codec, headers):
            await Written(refused(self._state, codec, refusal))(scope, receive, send)
            return
        await send({"type": "websocket.accept"})
        await _Socket(self._state, headers, receive, send).run()


class _Socket:
    """One open WebSocket."""

    def __init__(self, state: State, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        self._state, self._receive, self._send = state, receive, send
        self._connection = Connection(state, headers)
        self._order: defaultdict[MessageLane, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._room, self._under_way = asyncio.Semaphore(_MOST_WAITING), asyncio.Semaphore(MOST_UNDER_WAY)
        self._gone = asyncio.Event()

    async def run(self) -> None:
        """Answer messages until the client leaves or the connection is too old."""
        last: list[str] = []
        async with asyncio.TaskGroup() as turns:
            while not last and (message := await self._receive())["type"] != "websocket.disconnect":
                last = self._connection.expired()
                turn = last or self._connection.read(message.get("text"))
                if isinstance(turn, Turn):
                    await self._room.acquire()
                    turns.create_task(self._answer(turn))
                else:
                    await self._say(turn)
            if not last:
                self._gone.set()
        if last and not self._gone.is_set():
            await self._send({"type": "websocket.close", "code": _GOING_AWAY})

    async def _answer(self, turn: Turn) -> None:
        """Answer a request behind those of its lane; one whose turn never came when the client left is not recorded."""
        async with self._order[turn.lane], self._under_way:
            if not self._gone.is_set():
                outcome = await outcome_of(self._state, turn.lane.codec, turn.begin, self._is_gone)
                await self._say(turn.end(outcome))
                if not outcome.is_whole:
                    hang_up(self._receive)
        self._room.release()

    async def _is_gone(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), seconds)
        return self._gone.is_set()

    async def _say(self, messages: Iterable[str]) -> None:
        try:
            for text in messages:
                await self._send({"type": "websocket.send", "text": text})
        except (OSError, RuntimeError):  # the client left, or sent a message over the limit, which closes the socket
            self._gone.set()
