"""The local provider as an ASGI application.

Takes HTTP, gives HTTP: routes, bodies, broken connections. What is answered is decided in `answer.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from contextkit.canonical import Json, canonical
from contextkit.content_encoding import MOST_BYTES, Decoder, OverLimit, UndecodableBody, codings_of, decoded
from contextkit.errors import ContextKitError, MissingExtra
from contextkit.models import MODELS
from contextkit.server import addressed, files, stored_requests
from contextkit.server.answer import Call, Outcome, admit, answered, count_tokens, missing_key, refused
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.model_list import render_model, render_models
from contextkit.server.endpoints.table import (
    CHAT,
    COMPACT,
    CONVERSE,
    COUNT,
    GENERATE,
    INPUT_TOKENS,
    INVOKE,
    MESSAGES,
    PREDICT,
    RESPONSES,
)
from contextkit.server.endpoints.validation import Refusal
from contextkit.server.http import control
from contextkit.server.http.hosts import Hosts, Refused
from contextkit.server.http.outcomes import Receive, Send, Written, outcome_of
from contextkit.server.http.responses_socket import ResponsesSocket
from contextkit.server.state import State
from contextkit.server.stored_requests import ROUTES as STORED_ROUTES
from contextkit.server.stored_requests import StoredAnswer, StoredRequest
from contextkit.terminal import printable

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import HTTPConnection, Request

Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
_POSTS = (
    ("/v1/messages", MESSAGES, admit),
    ("/v1/messages/count_tokens", COUNT, count_tokens),
    ("/anthropic/v1/messages", MESSAGES, addressed.below),
    ("/anthropic/v1/messages/count_tokens", COUNT, addressed.counted_below),
    ("/v1/chat/completions", CHAT, admit),
    ("/v1/responses", RESPONSES, admit),
    ("/v1/responses/compact", COMPACT, admit),
    ("/v1/responses/input_tokens", INPUT_TOKENS, count_tokens),
)
_SOCKETS = tuple(path for path, codec, _ in _POSTS if codec is RESPONSES)
"""Paths that take the same requests over a WebSocket."""
_PUBLISHED = "/v1/projects/{project}/locations/{region}/publishers/anthropic/models/{model}"
_ADDRESSED = (
    ("/model/{model:path}/converse", addressed.converse, False),
    ("/model/{model:path}/converse-stream", addressed.converse, True),
    ("/model/{model:path}/invoke", addressed.invoke, False),
    ("/model/{model:path}/invoke-with-response-stream", addressed.invoke, True),
    (f"{_PUBLISHED}:rawPredict", addressed.predict, False),
    (f"{_PUBLISHED}:streamRawPredict", addressed.predict, True),
    *((f"/{version}/models/{{model}}:generateContent", addressed.generate, False) for version in ("v1", "v1beta")),
    *((f"/{version}/models/{{model}}:streamGenerateContent", addressed.generate, True) for version in ("v1", "v1beta")),
)
"""Endpoints that name the model in their path, and whether they stream."""


def app(state: State, hosts: Hosts | None = None) -> Starlette:
    """The application over `state`, for any ASGI server.

    It answers to the names of `hosts`, by default those of loopback.

    Raises `MissingExtra` without starlette.
    """
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
        from starlette.routing import Route, WebSocketRoute
    except ImportError:
        raise MissingExtra("the local server", "server") from None
    routes: list[Route] = []

    def add(path: str, methods: Iterable[str], endpoint: Callable[..., Awaitable[Written]], *bound: Any) -> None:
        routes.append(Route(path, partial(endpoint, state, *bound), methods=list(methods)))

    for path, codec, act in _POSTS:
        add(path, ("POST",), _posted, codec, act)
    for path, act_on_model, is_stream in _ADDRESSED:
        add(path, ("POST",), _addressed, act_on_model, is_stream)
    for path, methods, act_on_stored in STORED_ROUTES:
        add(path, methods, _stored, act_on_stored)
    for version in ("v1", "v1beta"):
        add(f"/{version}/cachedContents", ("POST",), _creating)
        add(f"/{version}/cachedContents/{{name}}", ("GET", "PATCH", "DELETE"), _content)
    add("/v1/models", ("GET",), _listing)
    add("/v1/models/{name:path}", ("GET",), _listing)
    add("/_contextkit/ledger", ("GET",), _ledger)
    add("/_contextkit/findings", ("GET",), _findings)
    for name, steer in control.ROUTES.items():
        add(f"/_contextkit/{name}", ("POST",), _control, steer)
    for method, path, act_on_file in files.ROUTES:
        add(path, (method,), _filed, act_on_file)
    guard = Middleware(_Guarded, state=state, hosts=hosts or Hosts())
    sockets = [WebSocketRoute(path, ResponsesSocket(state)) for path in _SOCKETS]
    return Starlette(
        routes=[*routes, *sockets], exception_handlers={HTTPException: partial(_lost, state)}, middleware=[guard]
    )


class _Guarded:
    """Refuses requests of other sites before a route is looked up or a byte of a body is read."""

    def __init__(self, inner: Application, state: State, hosts: Hosts) -> None:
        self._inner, self._state, self._hosts = inner, state, hosts

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with the refusal."""
        why = None
        if scope["type"] in ("http", "websocket"):
            is_json_only = scope["type"] == "http" and not _is_upload(scope)
            why = self._hosts.refusal(scope["headers"], is_json_only=is_json_only) or _upgrade(scope)
        await (self._inner if why is None else self._answer(scope, why))(scope, receive, send)

    def _answer(self, scope: MutableMapping[str, Any], why: Refused) -> Written:
        if scope["path"].startswith("/_contextkit/"):
            return _plain(why.status, {"error": why.text})
        from starlette.requests import HTTPConnection

        codec = _codec_of(HTTPConnection(scope))
        return Written(refused(self._state, codec, codec.error(why.status, why.text)))


def _is_upload(scope: MutableMapping[str, Any]) -> bool:
    """Return whether a request uploads a file with a key: a page of another site can send a form, but not a key
    with it.
    """
    names = {name for name, _ in scope["headers"]}
    return scope["path"] == files.PATH and not names.isdisjoint((b"authorization", b"x-api-key"))


def _upgrade(scope: MutableMapping[str, Any]) -> Refused | None:
    """426 for a WebSocket that is not answered: the status at which Codex goes on over HTTP, where any other makes it
    retry.
    """
    if scope["type"] == "websocket":
        is_asked = scope["path"] not in _SOCKETS
    else:  # no handshake, or an ASGI server without WebSockets
        is_asked = any(name == b"upgrade" and value.strip().lower() == b"websocket" for name, value in scope["headers"])
    text = (
        f"WebSockets are answered at {' and '.join(_SOCKETS)} alone, and there is no Realtime API: "
        "send the same request as POST over HTTP, with stream: true for events"
    )
    return Refused(426, text) if is_asked else None


async def _body_of(request: Request) -> bytes:
    """The body of a request, decoded. Raises `HTTPException`: 415 for a coding that is unknown or whose extra is missing,
    413 beyond the limit, 400 for one that is corrupt.
    """
    from starlette.exceptions import HTTPException

    raw, encoding = await request.body(), request.headers.get("content-encoding", "")
    try:
        if not codings_of(encoding):
            return raw
        Decoder(encoding, 0)
    except UndecodableBody as fault:
        text = f"Content-Encoding {printable(encoding)!r}: {fault}; gzip, deflate, br and zstd are read"
        raise HTTPException(415, text) from None
    try:
        return decoded(raw, encoding, MOST_BYTES)
    except OverLimit as fault:
        raise HTTPException(413, f"The request body is {fault}") from None
    except UndecodableBody as fault:
        raise HTTPException(400, f"The request body cannot be decoded as {printable(encoding)!r} ({fault})") from None


async def _posted(
    state: State,
    codec: Codec,
    act: Callable[[State, Codec, Mapping[str, str], bytes], Outcome | Call],
    request: Request,
) -> Written:
    raw = await _body_of(request)
    return await _answered(state, codec, request, lambda: act(state, codec, request.headers, raw))


async def _addressed(state: State, act: Callable[..., Outcome | Call], is_stream: bool, request: Request) -> Written:
    raw, model = await _body_of(request), request.path_params["model"]
    call = partial(act, state, request.headers, raw, model, is_stream=is_stream)
    return await _answered(state, _SPOKEN[act], request, call)


async def _answered(state: State, codec: Codec, request: Request, act: Callable[[], Outcome | Call]) -> Written:
    async def is_gone(seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return await request.is_disconnected()

    return Written(await outcome_of(state, codec, act, is_gone))


_SPOKEN: Mapping[Callable[..., Outcome | Call], Codec] = {
    addressed.converse: CONVERSE,
    addressed.generate: GENERATE,
    addressed.invoke: INVOKE,
    addressed.predict: PREDICT,
}
"""What answers → whose words a fault of ours is told in."""


async def _stored(state: State, act: Callable[[StoredRequest], StoredAnswer], request: Request) -> Written:
    raw, names, query = await _body_of(request), request.path_params, request.query_params
    return Written(stored_requests.handle(state, request.headers, act, request.method, names, query, raw))


async def _creating(state: State, request: Request) -> Written:
    return Written(addressed.create_content(state, request.headers, await _body_of(request)))


async def _content(state: State, request: Request) -> Written:
    name, raw = f"cachedContents/{request.path_params['name']}", await _body_of(request)
    return Written(addressed.content(state, request.method, name, raw))


async def _filed(state: State, act: Callable[[files.FileRequest], files.FileAnswer], request: Request) -> Written:
    codec, raw = _codec_of(request), await _body_of(request)
    name = request.path_params.get("name", "")
    return Written(files.handle(state, codec, act, request.headers, name, request.query_params, raw))


def _codec_of(request: HTTPConnection) -> Codec:
    """Choose the provider format for an error outside the endpoints: Anthropic's client sends its version on every
    call.
    """
    begins = next((codec for path, codec in _BEGINS.items() if request.url.path.startswith(path)), CHAT)
    return MESSAGES if "anthropic-version" in request.headers else begins


_BEGINS = {"/v1/messages": MESSAGES, "/model/": CONVERSE, "/v1beta/": GENERATE}
"""How a path begins → whose it is."""


async def _listing(state: State, request: Request) -> Written:
    codec, name = _codec_of(request), request.path_params.get("name")
    refusal = missing_key(codec, request.headers)
    models = [model for model in MODELS.values() if model.provider == codec.provider and name in (None, model.name)]
    if name is not None and not models:
        refusal = refusal or Refusal(404, codec.error(404, None).type, f"model: {name}", None, "model_not_found")
    if refusal:
        return Written(refused(state, codec, refusal))
    if name is None:
        return Written(answered(state, codec, render_models(codec.provider, models)))
    return Written(answered(state, codec, render_model(codec.provider, models[0])))


async def _ledger(state: State, request: Request) -> Written:
    lines = control.ledger_lines(state)
    return Written(Outcome(200, (("content-type", "application/x-ndjson"),), (lines,), len(lines), True))


async def _findings(state: State, request: Request) -> Written:
    return _plain(200, {"findings": [notice.json() for notice in state.notices.all()]})


async def _control(state: State, act: Callable[[State, bytes], Json], request: Request) -> Written:
    raw = await _body_of(request)
    try:
        with state.lock:
            return _plain(200, act(state, raw))
    except ContextKitError as fault:
        return _plain(400, {"error": str(fault)})


def _plain(status: int, value: Json) -> Written:
    body = canonical(value)
    return Written(Outcome(status, (("content-type", "application/json"),), (body,), len(body), True))


async def _lost(state: State, request: Request, fault: Any) -> Any:
    """Refuse the `HTTPException` of a path or method nobody answers."""
    path = request.url.path
    if path.startswith("/_contextkit/"):
        text = f"{fault.detail}: see contextkit/server/http/control.py for what there is"
        return _plain(fault.status_code, {"error": text})
    codec, what = _codec_of(request), f"{fault.detail}: {request.method} {path}"
    if any(f"/v1{path}" == posted for posted, _, _ in _POSTS):  # OpenAI's client, given the address alone
        what += f"; there is /v1{path}: end the client's base_url with /v1"
    return Written(refused(state, codec, codec.error(fault.status_code, what)))
