"""One request, ready to leave: a mapping for the SDK's typed method, and prepared bytes.

The typed method gets `**request`; `.send` passes the same bytes to the SDK's own `client.post(content=…)`, with its
auth, retries, time-outs and typed result, and skips its walk over the whole conversation. boto3 and google-genai take no
prepared bytes: they get keyword arguments that mean the same as `request.body`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import UsageError
from contextkit.models import Model
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.keyed_blocks import RAW, unpacked
from contextkit.providers.masking import Lowered
from contextkit.providers.parameters import output_tokens
from contextkit.providers.sdk_endpoints import ENDPOINTS, load, method_fields
from contextkit.providers.server_state import Continued
from contextkit.sequence_view import SequenceView

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SDKMethod:
    """The typed methods of one SDK."""

    client: str
    """As it is made, for errors."""
    keywords: Callable[[Fields, Mapping[str, str]], Fields]
    """(body, extra headers) → keyword arguments."""
    method: Callable[[Any], Any]
    """Client → the method, None for what is no client."""
    amethod: Callable[[Any], Any]
    """The same for `await`; None where the SDK has none, and a thread makes the call."""
    streaming: Callable[[Any], Any]
    """Client → the method that streams."""
    events: Callable[[Any], Any]
    """What that method returned → its events."""


def _converse(body: Fields, headers: Mapping[str, str]) -> Fields:
    if headers:
        raise UsageError(
            "boto3 takes no headers for one call: leave extra_headers out, or register a handler of its events"
        )
    keywords: Fields = unpacked(body, RAW["bedrock_converse"])
    return keywords


def _generate(body: Fields, headers: Mapping[str, str]) -> Fields:
    given: Fields = unpacked(body, RAW["gemini"])
    beside = {name: value for name, value in given.items() if name not in ("model", "contents", "generationConfig")}
    options = {"httpOptions": {"headers": dict(headers)}} if headers else {}
    return {
        "model": given["model"],
        "contents": given["contents"],
        "config": {**beside, **given.get("generationConfig", {}), **options},
    }


def _at(*path: str) -> Callable[[Any], Any]:
    def find(client: Any) -> Any:
        for name in path:
            client = getattr(client, name, None)
        return client

    return find


SDK_METHODS: Mapping[str, SDKMethod] = {
    "bedrock_converse": SDKMethod(
        'boto3.client("bedrock-runtime")',
        _converse,
        _at("converse"),
        lambda client: None,
        _at("converse_stream"),
        lambda response: response["stream"],
    ),
    "gemini": SDKMethod(
        "genai.Client()",
        _generate,
        _at("models", "generate_content"),
        _at("aio", "models", "generate_content"),
        _at("models", "generate_content_stream"),
        lambda response: response,
    ),
}
"""Wire → its road; every other wire takes prepared bytes (`providers/request.py`)."""


def called(find: Callable[[Any], Any], sdk_method: SDKMethod, client: Any) -> Callable[..., Any]:
    """The method of `client`; raises `UsageError` for what is no client of this SDK."""
    method = find(client)
    if not callable(method):
        raise UsageError(f"{type(client).__name__} is no client for this request: pass {sdk_method.client}")
    found: Callable[..., Any] = method
    return found


@dataclass(frozen=True, slots=True)
class Overflow:
    """A request that does not fit its model's window."""

    n_tokens: int
    """Predicted prompt tokens."""
    window_tokens: int
    """What the model takes, output included."""

    def __str__(self) -> str:
        return (
            f"{self.n_tokens:,} prompt tokens (estimated) do not fit a window of {self.window_tokens:,} with the output asked for: "
            "lower max_tokens, context.compact(summary), or use a model with a larger window"
        )


SDK_RETRIES: Mapping[str, int] = {"bedrock_converse": 4, "gemini": 0}
"""Endpoint → how often its SDK tries again where nothing else is said (botocore 1.44, `legacy`; google-genai 3.6.1); the
other SDKs say it themselves."""


def sdk_retries(wire: str, client: Any = None) -> int:
    """Return how often the SDK retries a request: with this client, or, if none is given, with its default settings.

    Retries of botocore and google-genai are read from the client's settings.
    """
    own = getattr(client, "max_retries", None)
    if wire == "bedrock_converse" and client is not None:
        retries = getattr(getattr(getattr(client, "meta", None), "config", None), "retries", None) or {}
        own = (retries.get("total_max_attempts") or (5 if retries.get("mode", "legacy") == "legacy" else 3)) - 1
    elif wire == "gemini" and client is not None:
        options = getattr(getattr(client, "_api_client", None), "_http_options", None)
        given = getattr(options, "retry_options", None)
        own = None if given is None else (given.attempts or 5) - 1
    if type(own) is int:
        return max(own, 0)
    return SDK_RETRIES[wire] if wire in SDK_RETRIES else int(load(f"{ENDPOINTS[wire].sdk}:DEFAULT_MAX_RETRIES"))


class Reserved(Protocol):
    """What is set aside for one call in the budgets that limit it (`ledger/budget.py`)."""

    def covering(self) -> AbstractContextManager[None]:
        """While the block runs, nobody else sets anything aside for the call."""


class Request(Mapping[str, Json]):
    """What one call sends.

    `**request` feeds the stock typed method; `.body` is exactly what `.send` puts on the wire. Where a budget limits it,
    unpacking it (`**request`, `dict(request)`) sets aside what sending it may cost, each time anew; `request["messages"]`
    and `.body` are for looking and set nothing aside.
    """

    __slots__ = (
        "_asending",
        "_fields",
        "_observe",
        "_observing",
        "_prompt",
        "_reserve",
        "_sending",
        "after",
        "at",
        "continued",
        "epoch",
        "headers",
        "hold",
        "layout",
        "mask",
        "model",
        "params",
        "path",
        "predicted",
        "provider",
        "wire",
    )

    def __init__(
        self,
        layout: PromptLayout,
        path: str,
        params: Mapping[str, Json],
        headers: Mapping[str, str],
        predicted: Usage,
        *,
        wire: str,
        provider: str,
        model: Model,
        prompt: Prompt,
        after: int,
        epoch: int,
        at: float,
        mask: Lowered,
        observe: Callable[[Request, BaseException], object] | None = None,
        reserve: Callable[[Request, int], Reserved] | None = None,
        observing: Callable[[Request, Any], Any | None] | None = None,
        continued: Continued | None = None,
        sending: Callable[[Request], AbstractContextManager[None]] | None = None,
        asending: Callable[[Request], AbstractAsyncContextManager[None]] | None = None,
    ) -> None:
        self.layout = layout
        """The segments and marks of its prompt; all of them leave unless `continued` says where the body begins."""
        self.path = path
        """Where it goes, below the client's base URL."""
        self.params = params
        """Top-level fields that are not segments."""
        self.headers = headers
        """Extra headers, beside those of the client."""
        self.predicted = predicted
        """What the reference cache expects to be billed; an estimate."""
        self.wire = wire
        self.provider = provider
        self.model = model
        self._prompt = prompt
        self.epoch = epoch
        """Declared breaks before it."""
        self.after = after
        """Sequence of the last log entry it includes."""
        self.mask = mask
        """What may be called, what carries it (`.mechanism`), and what the change into it cost (`.cost_tokens`)."""
        self.at = at
        """When it was built, seconds since 1970."""
        self.continued = continued
        """How it goes on from what the server keeps; None for an adapter that does not ask for that."""
        self.hold: Reserved | None = None
        """What is set aside for it in a budget while it is in flight."""
        self._observe, self._reserve, self._observing = observe, reserve, observing
        self._sending, self._asending = sending, asending
        self._fields: dict[str, Json] | None = None

    @property
    def prompt(self) -> Prompt:
        """What the cache sees of it, to read."""
        sent = self._prompt
        return replace(
            sent,
            digests=SequenceView(sent.digests),
            ends_tokens=SequenceView(sent.ends_tokens),
            positions=SequenceView(sent.positions),
        )

    @property
    def body(self) -> bytes:
        """The exact bytes `.send` puts on the wire; joined anew at each call, one copy of what is sent."""
        return self._written({})

    def _written(self, more: Mapping[str, Json]) -> bytes:
        params = {**self.params, **more}
        if self.continued is not None:
            return self.continued.body(self.layout, params)
        return self.layout.body(canonical(params))

    @property
    def overflow(self) -> Overflow | None:
        """None while prompt and output fit the model's window; otherwise by how much, and what can be done."""
        asked = output_tokens(self.params)
        n_tokens, window = self.predicted.prompt or 0, self.model.window_tokens
        return Overflow(n_tokens, window) if n_tokens + asked > window else None

    def send(self, client: Any) -> Any:
        """Post it through `client` (`anthropic.Anthropic()` or `openai.OpenAI()`) and return the SDK's typed reply.

        boto3 and google-genai take no prepared bytes: there it is their typed method, called with `**request`. Raises
        `BudgetExceeded` where it could cost more than a budget has left; nothing is sent then.
        """
        if sdk_method := SDK_METHODS.get(self.wire):
            return self._typed(called(sdk_method.method, sdk_method, client), client)
        _check(client, ENDPOINTS[self.wire].sdk, is_async=False)
        options = self._options(client)
        return self._sent(client, lambda client: client.post(self.path, content=self.body, **options))

    async def asend(self, client: Any) -> Any:
        """`send` for `AsyncAnthropic` and `AsyncOpenAI`; the bytes are joined off the event loop."""
        if sdk_method := SDK_METHODS.get(self.wire):
            method = sdk_method.amethod(client)
            return await (
                asyncio.to_thread(self._typed, called(sdk_method.method, sdk_method, client), client)
                if method is None
                else self._asent(client, lambda client: method(**self._mapping()))
            )
        _check(client, ENDPOINTS[self.wire].sdk, is_async=True)
        return await self._aposted(client, {}, self._options(client))

    def stream(self, client: Any) -> Any:
        """The SDK's stream of events (a coroutine of one, for an async client); iterate it through `context.stream(…)`."""
        if sdk_method := SDK_METHODS.get(self.wire):
            return sdk_method.events(self._typed(called(sdk_method.streaming, sdk_method, client), client))
        endpoint = ENDPOINTS[self.wire]
        _check(client, endpoint.sdk, is_async=None)
        is_async = inspect.iscoroutinefunction(client.post)
        decoder = _stream_class(endpoint.sdk, endpoint.event, is_async)
        options = {"cast_to": load(endpoint.result), "stream": True, "stream_cls": decoder, "options": self._headers()}
        if is_async:
            return self._aposted(client, endpoint.streaming, options)
        return self._sent(
            client, lambda client: client.post(self.path, content=self._written(endpoint.streaming), **options)
        )

    def reserve(self) -> None:
        """Set aside what the call may cost, where the caller sends `body` by itself. Raises `BudgetExceeded`."""
        self._reserved(1)

    def _reserved(self, n_attempts: int) -> AbstractContextManager[None]:
        """Set aside what so many attempts may cost, in every budget. Raises `BudgetExceeded`."""
        return nullcontext() if self._reserve is None else self._reserve(self, n_attempts).covering()

    def _leaving(self, client: Any) -> tuple[Any, AbstractContextManager[None]]:
        """The client to send it through, and what is set aside: for one attempt where each is seen as it leaves, else for
        all that the client may make. Raises `BudgetExceeded`.
        """
        n_retries = 0 if self._reserve is None else sdk_retries(self.wire, client)
        seen = self._observing(self, client) if n_retries and self._observing is not None else None
        return (client, self._reserved(1 + n_retries)) if seen is None else (seen, self._reserved(1))

    def _turn(self) -> AbstractContextManager[None]:
        """Wait while another call writes what this one could read; the block ends when the response has begun."""
        return nullcontext() if self._sending is None else self._sending(self)

    def _aturn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._asending is None else self._asending(self)

    def _typed(self, method: Callable[..., Any], client: Any) -> Any:
        return self._sent(client, lambda client: method(**self._mapping()))

    async def _aposted(self, client: Any, more: Mapping[str, Json], options: dict[str, Any]) -> Any:
        async def post(client: Any) -> Any:
            return await client.post(self.path, content=await asyncio.to_thread(self._written, more), **options)

        return await self._asent(client, post)

    def _sent(self, client: Any, call: Callable[[Any], Any]) -> Any:
        with self._turn():
            client, reserved = self._leaving(client)
            try:
                with reserved:
                    return call(client)
            except BaseException as error:
                self._failed(error)
                raise

    async def _asent(self, client: Any, call: Callable[[Any], Any]) -> Any:
        async with self._aturn():
            client, reserved = self._leaving(client)
            try:
                with reserved:
                    return await call(client)
            except BaseException as error:
                self._failed(error)
                raise

    def _options(self, client: Any) -> dict[str, Any]:
        endpoint = ENDPOINTS[self.wire]
        if self.params.get("stream"):
            raise UsageError("this request asks for a stream: leave stream out and use request.stream(client)")
        limit, asked = endpoint.untimed_tokens, self.params.get("max_tokens")
        if (
            limit is not None
            and asked is not None
            and asked > limit
            and client.timeout == _default_timeout(endpoint.sdk)
        ):
            raise UsageError(
                f"max_tokens={asked:,} may take longer than ten minutes: use request.stream(client), or give the client a timeout"
            )
        return {"cast_to": load(endpoint.result), "options": self._headers()}

    def _headers(self) -> dict[str, Any]:
        return {"headers": dict(self.headers)} if self.headers else {}

    def _failed(self, error: BaseException) -> None:
        if getattr(error, "status_code", None) in _TOO_LARGE and (overflow := self.overflow) is not None:
            error.add_note(str(overflow))
        if self._observe is not None:
            self._observe(self, error)

    def cap_output(self, params: Mapping[str, Json]) -> None:
        """Take parameters that differ in the output they allow: a budget has room for less."""
        self.params, self._fields = params, None

    def _mapping(self) -> dict[str, Json]:
        if self._fields is None and (sdk_method := SDK_METHODS.get(self.wire)):
            self._fields = sdk_method.keywords(parse(self.body), self.headers)
        if self._fields is None:
            body = parse(self.body)
            known = method_fields(self.wire)
            extra = {name: value for name, value in body.items() if name not in known}
            headers = {"extra_headers": dict(self.headers)} if self.headers else {}
            self._fields = {
                **{name: value for name, value in body.items() if name in known},
                **({"extra_body": extra} if extra else {}),
                **headers,
            }
        return self._fields

    def __getitem__(self, name: str) -> Json:
        return (self._fields or self._mapping())[name]

    def __iter__(self) -> Iterator[str]:
        if self._reserve is not None:
            self._reserved(1 + sdk_retries(self.wire))  # whoever unpacks it with ** is about to send it
        return iter(self._mapping())

    def __len__(self) -> int:
        return len(self._mapping())

    def __bool__(self) -> bool:
        # Never empty: without this, `request or …` would ask for the length, and so parse the whole body.
        return True

    def __repr__(self) -> str:
        layout = self.layout
        return f"<Request {self.path} {self.model.name}: {layout.n} segments, {layout.n_bytes:,} bytes, {len(layout.breakpoints)} marks>"


_TOO_LARGE = (400, 413)
"""Statuses by which providers refuse a prompt that is longer than the window."""
_REWRITING = ("anthropic.lib.bedrock._client", "anthropic.lib.vertex.", "openai.lib.")
"""Where the SDKs keep clients that move fields between body, path and headers; Foundry's, Mantle's, AWS's and Google
Cloud's send what they are given."""


def _check(client: Any, sdk: str, *, is_async: bool | None) -> None:
    """Raises `UsageError` before anything is sent with what is no client, one of another SDK, or one of the other kind
    (None: any).
    """
    post = getattr(client, "post", None)
    if not callable(post):
        raise UsageError(
            f"{type(client).__name__} is no client: pass anthropic.Anthropic(), openai.OpenAI() or their async twins"
        )
    if type(client).__module__.startswith(_REWRITING):
        name = type(client).__name__
        raise UsageError(
            f"{name} rewrites bodies on their way and takes no prepared bytes: use its typed method with **request"
        )
    made_by = {kind.__module__.partition(".")[0] for kind in type(client).__mro__} & {
        endpoint.sdk for endpoint in ENDPOINTS.values()
    }
    if made_by and sdk not in made_by:
        raise UsageError(f"this request is for a client of {sdk}, not of {', '.join(made_by)}: nothing was sent")
    if is_async is not None and inspect.iscoroutinefunction(post) != is_async:
        raise UsageError(
            "this client is not async: request.send(client), or context.run(client)"
            if is_async
            else "an async client: await request.asend(client), or context.arun(client)"
        )


@cache
def _stream_class(sdk: str, event: str, is_async: bool) -> Any:
    return load(f"{sdk}:{'AsyncStream' if is_async else 'Stream'}")[load(event)]


@cache
def _default_timeout(sdk: str) -> Any:
    return load(f"{sdk}:DEFAULT_TIMEOUT")
