"""Usage as a self-hosted engine reports it: one engine, one cache over the tokens of the rendered request, any model
name.

Takes requests of the OpenAI-compatible endpoints, gives usage in the engine's own tokens. What the engines' requests and
responses hold is in `server/endpoints/engine_requests.py`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.engines.registry import Engine
from contextkit.engines.token_ids import TokenIds
from contextkit.engines.token_lanes import TokenLanes, token_prompt
from contextkit.ledger.calls import Tokens
from contextkit.models import Model, model_named
from contextkit.providers.provider import Parsed
from contextkit.server.billing import ReplySize
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.engine_requests import ENGINE_REQUESTS, MODEL_ROW, reply_layout, returns_thinking
from contextkit.server.endpoints.validation import ParsedRequest, ReceivedRequest
from contextkit.server.engine_tokens import prompt_ids, reply_ids, text_ids
from contextkit.server.scripted import Part


class SelfHosted:
    """One engine; satisfies `Books`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._requests = ENGINE_REQUESTS[engine.name]
        self._lanes = TokenLanes()

    def reset(self) -> None:
        """Clear the cache and the conversations."""
        self._engine.cache.reset()
        self._lanes = TokenLanes()

    def adapted(self, codec: Codec) -> Codec:
        """The codec with an engine's checks."""
        return self._requests.adapted(codec)

    def provider(self, codec: Codec, model: Model) -> str:
        """The engine's name, which has no prices."""
        return self._engine.name

    def parse_request(self, codec: Codec, received: ReceivedRequest) -> tuple[Model, Parsed]:
        """Parse a body for a model of any name."""
        name, parsed = self._requests.parse(codec, received.body)
        return replace(model_named(MODEL_ROW), name=name, provider=self._engine.name), parsed

    def cache_prompt(self, codec: Codec, request: ParsedRequest) -> TokenIds:
        """The tokens of a request and its cache namespace."""
        body = request.received.body
        return token_prompt(
            request.model.name,
            prompt_ids(request.parsed.layout, body),
            self._requests.cache_space(body),
            is_read_skipped=self._requests.is_read_skipped(body),
        )

    def cache(self, codec: Codec, request: ParsedRequest) -> PrefixCache[Any]:
        """The engine's one cache."""
        return self._engine.cache

    def reply_size(self, codec: Codec, request: ParsedRequest, parts: tuple[Part, ...]) -> ReplySize:
        """The tokens of this reply in a later request; thinking that is not returned comes before them."""
        thinking = [text_ids(getattr(part, "thinking", "")) for part in parts]
        hidden = array("i") if returns_thinking(codec) else sum(thinking, array("i"))
        ids = hidden + reply_ids(reply_layout(codec, parts))[1:]
        return ReplySize(len(ids), sum(map(len, thinking)), ids)

    def ended(self, cache: PrefixCache[Any], lease: Lease, reply_size: ReplySize, output: int, now: float) -> Usage:
        """The final usage; the generated tokens stay in the engine's cache."""
        generate = getattr(cache, "generate", None)
        if generate and reply_size.ids:
            generate(lease, reply_size.ids)
        return cache.end(lease, output, now)

    def dropped(self, cache: PrefixCache[Any], lease: Lease, now: float) -> Usage:
        """The usage of a request that ends early. Assumed: its cached tokens stay."""
        return cache.end(lease, 0, now)

    def recorded(
        self, session: str, request: ParsedRequest, cache_prompt: TokenIds, reply_size: ReplySize | None
    ) -> Tokens:
        """Its tokens, as a difference to those of the conversation's last call."""
        return self._lanes.write((session, "main"), cache_prompt, reply_size.ids if reply_size else ())

    def billed(self, lease: Lease) -> Callable[[Json], dict[str, Json]]:
        """The usage as the engine reports it."""
        hit, n_prompt = lease.hit, lease.usage.prompt or 0
        n_cached = hit.read_tokens + hit.approximate_tokens
        return lambda usage: self._requests.render_usage(usage, n_cached, n_prompt)
