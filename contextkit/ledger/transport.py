"""Watched transports: wrappers around the transports of an HTTP client.

Takes a client of httpx2 (or httpx, which OpenAI's SDK still accepts) and a guard. Proxies, limits, mounts, retries and
streams work as before: every byte passes unchanged and without delay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from contextkit.ledger.budget import may_be_billed
from contextkit.ledger.failure_names import ABORTED, broken_off, unanswered
from contextkit.providers.client_names import NO_NAMES, ClientNames, names_in_headers
from contextkit.redact import credentials_of, register_credentials

_LIBRARIES = ("httpx2", "httpx")
_SDK_ERRORS = {"anthropic": "AnthropicError", "openai": "OpenAIError"}
"""SDK → its root error. The SDK takes any other exception of a transport for a lost connection, wraps it and retries
(anthropic/_base_client.py, `_attempt_request`)."""


class Call(Protocol):
    """A request under way."""

    body: bytes
    """Body to send."""

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """Start the response."""
        ...

    def feed(self, chunk: bytes) -> None:
        """Read a chunk of the response, as received."""
        ...

    def ended(self, *, is_whole: bool, error: str = "", was_sent: bool = True) -> None:
        """End the response; only the first call counts. `error` is a name of `ledger.failure_names`.

        `was_sent`: the request may have reached the provider.
        """
        ...


class Watcher(Protocol):
    """Observer of requests."""

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """Observe a request before it is sent; `names` are the session and agent named in its headers.

        `body` is None where it is read only once, while it is sent. None where it is not a model call. Raising prevents
        sending.
        """
        ...

    def close(self) -> None:
        """Release resources when the client is closed."""
        ...


def library_of(http: object) -> str:
    """Name of the library that made this client, `httpx2` or `httpx`; empty for anything else."""
    made_by = [kind.__module__.partition(".")[0] for kind in type(http).__mro__]
    return next((name for name in made_by if name in _LIBRARIES), "")


def attach(http: Any, watcher: Watcher) -> None:
    """Watch the main transport of `http` and every mounted one."""
    sync_kind, async_kind = _kinds(library_of(http))
    kind = async_kind if hasattr(http, "aclose") else sync_kind
    http._transport = kind(http._transport, watcher)
    http._mounts = {key: mount and kind(mount, watcher) for key, mount in http._mounts.items()}


def cloned(http: Any) -> Any:
    """Make a second client over the same connections, so that watching it does not affect the first.

    The first lives as long as the second and alone closes the connections: the SDKs' clients close them when they are
    collected, which a copy must not do to shared connections.
    """
    kind = next(kind for kind in type(http).__mro__ if "__del__" not in vars(kind))
    clone: Any = object.__new__(kind)
    clone.__dict__.update(http.__dict__)
    clone._watched_original = http
    return clone


def observed(client: Any, watcher: Watcher) -> Any | None:
    """Copy a client of one of the SDKs, over the same connections, so that `watcher` sees every attempt; the client is
    not changed.

    None for anything else, and for a class of the user's own, which may not be copied by its constructor's arguments.
    """
    http, made_by = getattr(client, "_client", None), type(client).__module__.partition(".")[0]
    if made_by not in _SDK_ERRORS or not library_of(http):
        return None
    http = cloned(http)
    attach(http, watcher)
    return client.copy(http_client=http)


@cache
def sdk_error_class(kind: type[Any], sdk: str) -> type[Any]:
    """Subclass `kind` as an error of the SDK, so that the SDK lets it pass; `kind` itself for any other package."""
    if sdk not in _SDK_ERRORS:
        return kind
    root = getattr(import_module(sdk), _SDK_ERRORS[sdk])
    plain = {
        "__doc__": kind.__doc__,
        "__module__": kind.__module__,
        "__reduce__": lambda self: (kind, self.args, self.__dict__),
    }
    return type(kind.__name__, (kind, root), plain)


def as_sdk_error(error: Exception, sdk: str) -> Exception:
    """Return the same error as one of the SDK: of any other an SDK makes a connection error, and retries."""
    own: Any = type(error)
    kind: Any = sdk_error_class(own, sdk)
    other: Exception = kind.__new__(kind)
    other.args = error.args
    other.__dict__.update(error.__dict__)
    return other


class _Around:
    """What both kinds of transport share."""

    def __init__(self, inner: Any, watcher: Watcher) -> None:
        self._inner, self._watcher = inner, watcher

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def _start(self, request: Any) -> tuple[Any, Call | None]:
        """The request to send, and its call; a body that is read only once, while it is sent, is not looked at."""
        body = getattr(request, "_content", None)
        register_credentials(credentials_of(request.headers.raw, request.url.raw_path))
        names = names_in_headers(request.headers.items(), request.url.netloc.decode("ascii"))
        call = self._watcher.start(request.method, request.url.path, body, names)
        return (request, call) if call is None or call.body is body else (_with_body(request, call.body), call)


def _with_body(request: Any, body: bytes) -> Any:
    """The same request with another body."""
    headers = [(name, value) for name, value in request.headers.multi_items() if name.lower() != "content-length"]
    return type(request)(request.method, request.url, headers=headers, content=body, extensions=request.extensions)


def _came(response: Any, call: Call, passing: Any) -> Any:
    """Look at a response while its bytes pass; one that is in memory already is looked at now."""
    if response.is_stream_consumed:
        call.began(response.status_code, {**response.headers, "content-encoding": ""})
        call.feed(response.content)
        call.ended(is_whole=True)
    else:
        call.began(response.status_code, response.headers)
        response.stream = passing(response.stream, call)
    return response


class _Sync(_Around):
    def handle_request(self, request: Any) -> Any:
        request, call = self._start(request)
        if call is None:
            return self._inner.handle_request(request)
        try:
            response = self._inner.handle_request(request)
        except BaseException as error:
            call.ended(is_whole=False, error=unanswered(error), was_sent=may_be_billed(error))
            raise
        return _came(response, call, self._passing)

    def __enter__(self) -> Any:
        self._inner.__enter__()
        return self

    def __exit__(self, *what: object) -> None:
        self._watcher.close()
        self._inner.__exit__(*what)

    def close(self) -> None:
        self._watcher.close()
        self._inner.close()


class _Async(_Around):
    async def handle_async_request(self, request: Any) -> Any:
        request, call = self._start(request)
        if call is None:
            return await self._inner.handle_async_request(request)
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            call.ended(is_whole=False, error=unanswered(error), was_sent=may_be_billed(error))
            raise
        return _came(response, call, self._passing)

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *what: object) -> None:
        self._watcher.close()
        await self._inner.__aexit__(*what)

    async def aclose(self) -> None:
        self._watcher.close()
        await self._inner.aclose()


class _Passing:
    """A response body that is read by a watched call while it passes."""

    def __init__(self, inner: Any, call: Call) -> None:
        self._inner, self._call = inner, call


class _SyncPassing(_Passing):
    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._inner:
                self._call.feed(chunk)
                yield chunk
        except BaseException as error:
            self._call.ended(is_whole=False, error=broken_off(error))
            raise
        self._call.ended(is_whole=True)

    def close(self) -> None:
        self._inner.close()
        self._call.ended(is_whole=False, error=ABORTED)


class _AsyncPassing(_Passing):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                self._call.feed(chunk)
                yield chunk
        except BaseException as error:
            self._call.ended(is_whole=False, error=broken_off(error))
            raise
        self._call.ended(is_whole=True)

    async def aclose(self) -> None:
        await self._inner.aclose()
        self._call.ended(is_whole=False, error=ABORTED)


@cache
def _kinds(library: str) -> tuple[Any, Any]:
    """Transports as subclasses of the library's own classes, which it checks."""
    http = import_module(library)
    sync_body = type("PassingStream", (_SyncPassing, http.SyncByteStream), {})
    async_body = type("AsyncPassingStream", (_AsyncPassing, http.AsyncByteStream), {})
    return (
        type("WatchedTransport", (_Sync, http.BaseTransport), {"_passing": sync_body}),
        type("AsyncWatchedTransport", (_Async, http.AsyncBaseTransport), {"_passing": async_body}),
    )
