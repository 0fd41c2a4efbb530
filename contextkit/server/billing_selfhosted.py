"""Usage as a self-hosted engine reports it: one engine, one cache over the tokens of the rendered request, any model
name.

Takes requests of the OpenAI-compatible endpoints, gives usage in the engine's own tokens. Field names are those of vLLM
0.30 (`vllm/entrypoints/openai/chat_completion/protocol.py`), SGLang 0.5.23
(`sglang/srt/entrypoints/openai/protocol.py`) and llama.cpp's `tools/server/README.md`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from contextkit.analysis.engines import Engine
from contextkit.analysis.token_lanes import TokenLanes, token_prompt
from contextkit.cache.block.ids import TokenIds
from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.ledger.calls import Tokens
from contextkit.models import Model, model_named
from contextkit.providers import PARSERS
from contextkit.providers.codec import Codec
from contextkit.providers.openai import chat_rendering as openai_chat
from contextkit.providers.openai import responses_rendering as openai_responses
from contextkit.providers.openai.engines import CHOICES, engine_usage
from contextkit.providers.openai.validation import chat_shape, invalid, one_choice, responses_shape, stream_options
from contextkit.providers.provider import Parsed
from contextkit.providers.scripted import Part
from contextkit.providers.validation import ParsedRequest, ReceivedRequest, Refusal, RequestCheck
from contextkit.server.billing import ReplySize, prompt_ids, reply_ids, text_ids

_STAND_IN = "gpt-4o"
"""Row of the model table that parses a body: the endpoint's rules without those of a provider."""
_MAX_SALT = 128
"""Maximum length of vLLM's `cache_salt`; it may contain none of `_NO_SALT`."""
_NO_SALT = frozenset("@/\\\0")


@dataclass(frozen=True, slots=True)
class _EngineRules:
    """Differences of one engine in requests and responses."""

    salts: tuple[str, ...]
    """Fields that separate cache namespaces."""
    is_read_skipped: Callable[[Mapping[str, Json]], bool]
    """Whether a body disables cache reads."""
    has_timings: bool = False
    """Whether it reports cached and computed tokens beside the usage."""
    is_salt_checked: bool = False
    """Whether a salt must have vLLM's form."""
    tools: Callable[[Mapping[str, Json]], Json] = lambda body: body.get("tools")
    """The tools a chat request's prompt is rendered with."""


def _chosen_tools(body: Mapping[str, Json]) -> Json:
    """SGLang renders no tool under `tool_choice: none`, and one under a named choice (0.5.23 serving_chat.py)."""
    choice, tools = body.get("tool_choice"), body.get("tools") or []
    named = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    return None if choice == "none" else [tool for tool in tools if named in (None, tool["function"]["name"])] or None


def _wants_logprobs(body: Mapping[str, Json]) -> bool:
    return body.get("prompt_logprobs") is not None


_RULES: Mapping[str, _EngineRules] = {
    "vllm": _EngineRules(("cache_salt",), _wants_logprobs, is_salt_checked=True),
    "sglang": _EngineRules(("extra_key", "cache_salt"), lambda body: False, tools=_chosen_tools),
    "llamacpp": _EngineRules((), lambda body: body.get("cache_prompt") is False, has_timings=True),
    "tiered": _EngineRules(("cache_salt",), _wants_logprobs, is_salt_checked=True),
}
"""Engine → its rules; `tiered` is vLLM with LMCache."""


class SelfHosted:
    """One engine; satisfies `Books`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rules = _RULES[engine.name]
        self._lanes = TokenLanes()

    def reset(self) -> None:
        """Clear the cache and the conversations."""
        self._engine.cache.reset()
        self._lanes = TokenLanes()

    def adapted(self, codec: Codec) -> Codec:
        """The codec with an engine's checks: any key, any model and any field are accepted; no diagnosis."""
        checks = (*_REQUEST_CHECKS[codec.name], *CHOICES[self._engine.name][codec.name], self._check_salts)
        return replace(
            codec,
            request_checks=checks,
            prompt_checks=(),
            declared_fields=None,
            diagnose=lambda previous, now, read: None,
            is_comparable=lambda body: False,
        )

    def provider(self, codec: Codec, model: Model) -> str:
        """The engine's name, which has no prices."""
        return self._engine.name

    def parse_request(self, codec: Codec, received: ReceivedRequest) -> tuple[Model, Parsed]:
        """Parse a body for a model of any name."""
        name = received.body["model"]
        tools = {"tools": self._rules.tools(received.body)} if codec.name == openai_chat.CODEC.name else {}
        parsed = PARSERS[codec.name]({**received.body, "model": _STAND_IN, **tools})
        model = replace(model_named(_STAND_IN), name=name, provider=self._engine.name)
        return model, replace(parsed, model=name, params={**parsed.params, "model": name})

    def cache_prompt(self, codec: Codec, request: ParsedRequest) -> TokenIds:
        """The tokens of a request and its cache namespace."""
        body, ids = request.received.body, prompt_ids(request.parsed.layout, request.received.body)
        return token_prompt(
            request.model.name, ids, self._cache_space(body), is_read_skipped=self._rules.is_read_skipped(body)
        )

    def cache(self, codec: Codec, request: ParsedRequest) -> PrefixCache[Any]:
        """The engine's one cache."""
        return self._engine.cache

    def reply_size(self, codec: Codec, request: ParsedRequest, parts: tuple[Part, ...]) -> ReplySize:
        """The tokens of this reply in a later request.

        Thinking, which Chat does not return, comes before them.
        """
        thinking = [text_ids(getattr(part, "thinking", "")) for part in parts]
        reply = PARSERS[codec.name]({"model": _STAND_IN, **_REPLIES[codec.name](parts)}).layout
        hidden = sum(thinking, array("i")) if codec.name == openai_chat.CODEC.name else array("i")
        ids = hidden + reply_ids(reply)[1:]
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
        """The usage as the engine reports it, with llama.cpp's timings."""
        hit, prompt = lease.hit, lease.usage.prompt or 0
        cached = hit.read_tokens + hit.approximate_tokens
        timings = {"timings": {"cache_n": cached, "prompt_n": prompt - cached}} if self._rules.has_timings else {}
        return lambda usage: {"usage": engine_usage(usage), **timings}

    def _cache_space(self, body: Mapping[str, Json]) -> str:
        named = {name: body[name] for name in self._rules.salts if body.get(name) is not None}
        return blake2b(canonical(named, sort=True), digest_size=8).hexdigest() if named else ""

    def _check_salts(self, received: ReceivedRequest) -> Iterator[Refusal]:
        """Validate the salts."""
        for name in self._rules.salts:
            salt = received.body.get(name)
            if salt is not None and not isinstance(salt, str):
                yield invalid(f"Invalid type for '{name}': expected a valid string.", name, "invalid_type")
            elif (
                salt is not None
                and self._rules.is_salt_checked
                and (not 0 < len(salt) <= _MAX_SALT or _NO_SALT & set(salt))
            ):
                yield invalid(
                    f"Invalid value for '{name}': 1 to {_MAX_SALT} characters, none of @ / \\ NUL.",
                    name,
                    "invalid_value",
                )


def _no_authentication(received: ReceivedRequest) -> Iterator[Refusal]:
    """Accept every request without a key."""
    return iter(())


def _without_field_checks(check: RequestCheck) -> RequestCheck:
    """The check without refusals of unknown fields and reply formats, since each engine has many of its own."""
    return lambda received: (
        refusal
        for refusal in check(received)
        if refusal.code != "unknown_parameter" and not str(refusal.param).startswith("response_format.")
    )


_REQUEST_CHECKS: Mapping[str, tuple[RequestCheck, ...]] = {
    openai_chat.CODEC.name: (_no_authentication, _without_field_checks(chat_shape), one_choice, stream_options),
    openai_responses.CODEC.name: (
        _no_authentication,
        _without_field_checks(responses_shape),
        one_choice,
        stream_options,
    ),
}
"""Endpoint → checks of its bodies."""
_REPLIES: Mapping[str, Callable[[tuple[Part, ...]], dict[str, Json]]] = {
    openai_chat.CODEC.name: lambda parts: {"messages": [openai_chat.message(parts)]},
    openai_responses.CODEC.name: lambda parts: {"input": list(openai_responses.items(parts, ""))},
}
"""Endpoint → renderer of a reply as it stands in the next request."""
