"""Bills as hosted providers make them: a reference cache for each model in each workspace, sizes as the model's counter
counts them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.errors import UnknownModel
from contextkit.ledger.calls import Outline
from contextkit.ledger.prompts import outline
from contextkit.models import Model, model_named
from contextkit.prompt.tokens import counter_for
from contextkit.providers.anthropic import messages
from contextkit.providers.anthropic.blocks import BillingHeader
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.provider import Parsed
from contextkit.server.billing import ReplySize
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.table import MESSAGES
from contextkit.server.endpoints.validation import ParsedRequest, ReceivedRequest
from contextkit.server.scripted import Part

_FAMILIES = frozenset({"anthropic", "openai", "google", "aws"})
"""Providers with endpoints of their own here; every other one speaks OpenAI's."""


def _row(name: str, family: str) -> Model:
    """The row of a model.

    What an assumed row does not accept is not known either, so nothing is refused on its account.
    """
    row = model_named(name, family)
    if not row.is_assumed:
        return row
    return replace(row, accepts_prefill=True, accepts_forced_choice=True, accepts_mid_system=True, binds_thinking=False)


class Hosted:
    """The providers of the model table; satisfies `Books`. `billing_header` as in `providers/anthropic/blocks.py`,
    `mixed_lifetimes` as in `reference_cache`.
    """

    def __init__(
        self,
        billing_header: BillingHeader = "neutral",
        *,
        is_strict: bool = False,
        mixed_lifetimes: bool | None = None,
    ) -> None:
        self._is_strict = is_strict
        self._mixed_lifetimes = mixed_lifetimes
        claude = partial(messages.parse, billing_header=billing_header)
        self._parsers: dict[str, Callable[[Json], Parsed]] = {**PARSERS, "anthropic_messages": claude}
        self.reset()

    def reset(self) -> None:
        """Forget caches and conversations."""
        self._lanes: dict[str, Prompt] = {}
        self._caches: dict[tuple[str, str, str], PrefixCache[Prompt]] = {}

    def adapted(self, codec: Codec) -> Codec:
        """Return the codec unchanged."""
        return codec

    def provider(self, codec: Codec, model: Model) -> str:
        """The model's, which at OpenAI's endpoints may be a compatible host's."""
        return model.provider

    def parse_request(self, codec: Codec, received: ReceivedRequest) -> tuple[Model, Parsed]:
        """A body that asks a model of this provider, or one that no table knows, whose rules are assumed."""
        name, parser = received.body[codec.model_field], self._parsers[codec.name]
        model = _row(name, codec.provider)
        if model.provider != codec.provider and not (model.provider not in _FAMILIES and codec.provider == "openai"):
            raise UnknownModel(f"{model.name} is not a model of {codec.provider}")
        if self._is_strict and model.is_assumed:
            raise UnknownModel(f"{name} is not in the model table")
        return model, parser(received.body)

    def cache_prompt(self, codec: Codec, request: ParsedRequest) -> Prompt:
        """Digests, sizes and marks."""
        return request.parsed.prompt

    def cache(self, codec: Codec, request: ParsedRequest) -> PrefixCache[Any]:
        """The cache of one model in one workspace."""
        key = codec.provider, request.model.name, request.received.headers.get(codec.workspace_header, "")
        if key not in self._caches:
            self._caches[key] = reference_cache(request.model, mixed_lifetimes=self._mixed_lifetimes)
        return self._caches[key]

    def reply_size(self, codec: Codec, request: ParsedRequest, parts: tuple[Part, ...]) -> ReplySize:
        """Counted like a prompt."""
        counter = counter_for(request.model)
        sizes = [
            (part.type, counter.count(block)) for part, block in zip(parts, MESSAGES.render_content(parts), strict=True)
        ]
        return ReplySize(
            sum(size for _, size in sizes), sum(size for kind, size in sizes if kind == "thinking"), array("i")
        )

    def ended(self, cache: PrefixCache[Any], lease: Lease, reply_size: ReplySize, output: int, now: float) -> Usage:
        """The whole bill."""
        return cache.end(lease, output, now)

    def dropped(self, cache: PrefixCache[Any], lease: Lease, now: float) -> Usage:
        """Billed all the same; nothing becomes readable."""
        return lease.usage

    def recorded(
        self, session: str, request: ParsedRequest, cache_prompt: Prompt, reply_size: ReplySize | None
    ) -> Outline:
        """The difference to the conversation's last prompt."""
        before, self._lanes[session] = self._lanes.get(session), cache_prompt
        return outline(before, cache_prompt, request.parsed.layout.columns.entries, 0)

    def billed(self, lease: Lease) -> Callable[[Json], dict[str, Json]]:
        """Return the renderer of the counters, with OpenAI's names."""
        return lambda usage: {"usage": usage}
