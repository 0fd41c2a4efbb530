"""Outcomes on their way out: when a response begins, and its bytes as an ASGI server sends them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from contextkit.server.answer import Call, Outcome, failed, serve
from contextkit.server.endpoints.codec import Codec
from contextkit.server.state import State

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def outcome_of(
    state: State, codec: Codec, act: Callable[[], Outcome | Call], is_gone: Callable[[float], Awaitable[bool]]
) -> Outcome:
    """The response, once it begins; `is_gone` waits that many seconds and returns whether the client left meanwhile.

    A client that left before then gets none, and nothing of its request becomes readable.
    """
    try:
        call = act()
        if isinstance(call, Outcome):
            return call
        return serve(call, is_gone=bool(call.wait_seconds) and await is_gone(call.wait_seconds))
    except Exception as fault:  # noqa: BLE001  # a user's callable may raise anything; its trace is logged, the client gets a 500
        return failed(state, codec, fault)


class Written:
    """An outcome as the response to a request, or to the handshake of a WebSocket that is refused."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Send it, and close the connection where it is not whole."""
        outcome, kind = self._outcome, "websocket.http" if scope["type"] == "websocket" else "http"
        if outcome.status:
            length = () if outcome.length is None else (("content-length", str(outcome.length)),)
            close = (("connection", "close"),) if kind != "http" else ()  # which uvicorn does, and does not say
            headers = [(name.encode(), value.encode()) for name, value in (*outcome.headers, *length, *close)]
            await send({"type": f"{kind}.response.start", "status": outcome.status, "headers": headers})
        for chunk in outcome.chunks:
            await send({"type": f"{kind}.response.body", "body": chunk, "more_body": True})
        if outcome.is_whole:
            await send({"type": f"{kind}.response.body", "body": b"", "more_body": False})
            return
        hang_up(receive)
        while (await receive())["type"] != "http.disconnect":
            pass


def hang_up(receive: Receive) -> None:
    """Close the connection behind what was written: ASGI has no word for it, so uvicorn's transport is asked."""
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    if transport is None:
        raise ConnectionAbortedError(
            "a scripted fault closes the connection; under this ASGI server only an exception can"
        )
    transport.close()
