"""Requests of the OpenAI-compatible endpoints as self-hosted engines take them, and the usage they report.

Field names are those of vLLM 0.30 (`vllm/entrypoints/openai/chat_completion/protocol.py`), SGLang 0.5.23
(`sglang/srt/entrypoints/openai/protocol.py`), llama.cpp's `tools/server/README.md` and transformers 5.19.0
(`cli/serving/`). The engines' refusals of `tool_choice` are in `engine_choices.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from contextkit.canonical import Json, canonical
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.openai.chat import WIRE as CHAT_WIRE
from contextkit.providers.openai.responses import WIRE as RESPONSES_WIRE
from contextkit.providers.provider import Parsed
from contextkit.server.endpoints import openai_chat_rendering as openai_chat
from contextkit.server.endpoints import openai_responses_rendering as openai_responses
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.engine_choices import CHOICES, engine_usage
from contextkit.server.endpoints.openai_validation import (
    chat_shape,
    invalid,
    message_shape,
    one_choice,
    stream_options,
)
from contextkit.server.endpoints.validation import ReceivedRequest, Refusal, RequestCheck

if TYPE_CHECKING:
    from contextkit.server.scripted import Part

MODEL_ROW = "gpt-4o"
"""Row of the model table that bodies are parsed by: the endpoint's rules without those of a provider."""
_MAX_SALT_CHARACTERS = 128
"""Maximum length of vLLM's `cache_salt`; it may contain none of `_NOT_IN_SALT`."""
_NOT_IN_SALT = frozenset("@/\\\0")


def _chosen_tools(body: Mapping[str, Json]) -> Json:
    """SGLang renders no tool under `tool_choice: none`, and one under a named choice (0.5.23 serving_chat.py)."""
    choice, tools = body.get("tool_choice"), body.get("tools") or []
    if choice == "none":
        return None
    name = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    return [tool for tool in tools if name in (None, tool["function"]["name"])] or None


@dataclass(frozen=True, slots=True)
class EngineRequests:
    """How one engine differs from OpenAI in requests and responses."""

    engine: str
    """Key in `ENGINE_REQUESTS`."""
    salts: tuple[str, ...] = ()
    """Fields that separate cache namespaces."""
    is_read_skipped: Callable[[Mapping[str, Json]], bool] = lambda body: False
    """Whether a body disables cache reads."""
    has_timings: bool = False
    """Whether it reports cached and computed tokens beside the usage."""
    is_salt_checked: bool = False
    """Whether a salt must have vLLM's form."""
    tools: Callable[[Mapping[str, Json]], Json] = lambda body: body.get("tools")
    """The tools that the prompt of a Chat request is rendered with."""

    def adapted(self, codec: Codec) -> Codec:
        """The codec with an engine's checks: any key, any model and any field are accepted; no diagnosis."""
        return replace(
            codec,
            request_checks=(*_CHECKS[codec.name], *CHOICES[self.engine][codec.name], self._check_salts),
            prompt_checks=(),
            declared_fields=None,
            diagnose=lambda previous, now, read: None,
            is_comparable=lambda body: False,
        )

    def parse(self, codec: Codec, body: Mapping[str, Json]) -> tuple[str, Parsed]:
        """The name of the model, any, and the parsed body."""
        name = body[codec.model_field]
        fields = {**body, codec.model_field: MODEL_ROW}
        if codec.name == CHAT_WIRE:
            fields["tools"] = self.tools(body)
        parsed = PARSERS[codec.name](fields)
        return name, replace(parsed, model=name, params={**parsed.params, codec.model_field: name})

    def cache_space(self, body: Mapping[str, Json]) -> str:
        """Digest of the salts in a body; empty where it has none."""
        salts = {name: body[name] for name in self.salts if body.get(name) is not None}
        return blake2b(canonical(salts, sort=True), digest_size=8).hexdigest() if salts else ""

    def render_usage(self, usage: Json, n_cached: int, n_prompt: int) -> dict[str, Json]:
        """OpenAI's usage as fields of the engine's response."""
        fields: dict[str, Json] = {"usage": engine_usage(usage, n_cached)}
        if self.has_timings:
            fields["timings"] = {"cache_n": n_cached, "prompt_n": n_prompt - n_cached}
        return fields

    def _check_salts(self, received: ReceivedRequest) -> Iterator[Refusal]:
        for name in self.salts:
            salt = received.body.get(name)
            if salt is None:
                continue
            if not isinstance(salt, str):
                yield invalid(f"Invalid type for '{name}': expected a valid string.", name, "invalid_type")
            elif self.is_salt_checked and (not 0 < len(salt) <= _MAX_SALT_CHARACTERS or _NOT_IN_SALT & set(salt)):
                yield invalid(
                    f"Invalid value for '{name}': 1 to {_MAX_SALT_CHARACTERS} characters, none of @ / \\ NUL.",
                    name,
                    "invalid_value",
                )


_VLLM = EngineRequests(
    "vllm", ("cache_salt",), lambda body: body.get("prompt_logprobs") is not None, is_salt_checked=True
)
ENGINE_REQUESTS: Mapping[str, EngineRequests] = {
    rules.engine: rules
    for rules in (
        _VLLM,
        EngineRequests("sglang", ("extra_key", "cache_salt"), tools=_chosen_tools),
        EngineRequests("llamacpp", (), lambda body: body.get("cache_prompt") is False, has_timings=True),
        EngineRequests("transformers"),
        replace(_VLLM, engine="tiered"),
    )
}
"""Engine → its requests; `tiered` is vLLM with LMCache. `transformers serve` itself reports no cached tokens on Chat and
0 on Responses whatever it reads (source, 5.19.0); here usage says what was read, or nobody could see it."""


def reply_layout(codec: Codec, parts: tuple[Part, ...]) -> PromptLayout:
    """A reply as it stands in the next request."""
    if codec.name == CHAT_WIRE:
        fields: dict[str, Json] = {"messages": [openai_chat.message(parts)]}
    else:
        fields = {"input": list(openai_responses.items(parts, ""))}
    return PARSERS[codec.name]({codec.model_field: MODEL_ROW, **fields}).layout


def returns_thinking(codec: Codec) -> bool:
    """Return whether a reply's thinking is part of the next request: Chat does not return it."""
    return codec.name != CHAT_WIRE


def _without_field_checks(check: RequestCheck) -> RequestCheck:
    """The check without refusals of unknown fields and reply formats, since each engine has many of its own."""

    def lenient(received: ReceivedRequest) -> Iterator[Refusal]:
        for refusal in check(received):
            if refusal.code != "unknown_parameter" and not str(refusal.param).startswith("response_format."):
                yield refusal

    return lenient


_CHECKS: Mapping[str, tuple[RequestCheck, ...]] = {
    wire: (lambda received: iter(()), _without_field_checks(shape), one_choice, stream_options)
    for wire, shape in ((CHAT_WIRE, chat_shape), (RESPONSES_WIRE, message_shape))
}
"""Endpoint → checks of its bodies, posted or sent over a WebSocket; the first, of a key, accepts every request."""
