"""`POST /chat/completions` as engines and hosts speak it that are not OpenAI: `OpenAIChat`, and what a row of
`hosts.py` says otherwise.

Takes log entries, gives pieces, prompts and parameters, and the same from a request body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from contextkit.cache.hosted.rules import HOSTED, Rule
from contextkit.cache.usage import Usage, served
from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.models import MODELS, Model, model_named, register
from contextkit.providers.masking.engines import GRAMMARS, Decoding
from contextkit.providers.masking.formats import format_named
from contextkit.providers.masking.mechanisms import Endpoint
from contextkit.providers.openai import chat_reply as answers
from contextkit.providers.openai.chat import ANSWERING, WORDS
from contextkit.providers.openai.chat_messages import THOUGHTS, WIRE, replied
from contextkit.providers.openai.spellings import object_arguments
from contextkit.providers.openai.wording import Speaker
from contextkit.providers.openai_compatible.hosts import HOSTS, Host, Path
from contextkit.providers.plain import plain
from contextkit.providers.provider import Reply
from contextkit.providers.settings.affinity import AUTO, CacheKey
from contextkit.providers.settings.given import apart
from contextkit.providers.settings.output import FIELD

_RESIDENT_SECONDS = 3600
"""How long what an engine cached is taken to live: it goes when its memory is full, whenever that is."""
_WINDOW_TOKENS = 131_072
"""What a model nobody has a row for is taken to read."""


class OpenAICompatible(Speaker):
    """A model behind vLLM, SGLang, llama.cpp, Ollama, or a host that speaks as OpenAI does: `host` is a row of
    `docs/openai-compatible.md`.

    `session` keeps a conversation on the server that has its prefix (`"auto"`, or a `CacheKey`, derives it), `salt`
    keeps tenants apart, each in the field its host has for it. `call_format` is how the model writes a call
    (`masking/formats.py`): with it, phases are enforced by the engine's own grammar. A model without a row gets one:
    give `window_tokens` and `block_tokens`, or a whole `model_row`. Everything else is a parameter.

    >>> provider = OpenAICompatible("Qwen/Qwen3-8B", host="vllm", session="run-7", salt="tenant-1", max_tokens=512)
    >>> provider.base_url, {name: value for name, value in provider.params.items() if name != "model"}
    ('http://localhost:8000/v1', {'session_id': 'run-7', 'max_completion_tokens': 512, 'cache_salt': 'tenant-1'})
    """

    words, answering = WORDS, ANSWERING
    least_output = -1  # engines take it for: as many as fit
    wire = WIRE
    path = "/chat/completions"
    grammar = WORDS.grammar

    def __init__(
        self,
        model: str,
        *,
        host: str,
        session: str | int | CacheKey | None = None,
        salt: str | None = None,
        max_tokens: int | None = None,
        call_format: str | None = None,
        model_row: Model | None = None,
        window_tokens: int | None = None,
        block_tokens: int | None = None,
        system_role: str | None = None,
        ttl: str = "30m",
        **params: Json,
    ) -> None:
        """Raises `UsageError` for a host, a format or a field there is not."""
        if not isinstance(model, str) or not model:
            raise UsageError(f"model={model!r}: the name the host knows it by")
        if not isinstance(host, str) or host not in HOSTS:
            raise UsageError(
                f"no host {host!r}: use one of {', '.join(HOSTS)}, the one that speaks like yours; the URL is your client's"
            )
        self.host = row = HOSTS[host]
        self.base_url, self.name, self.system_role = row.base_url, _biller(row), system_role or row.role
        said = {row.most: max_tokens, **_salted(row, salt)}
        plain, extra, _ = apart(params)
        fields, self.headers = _placed(row, session, {**plain, **extra})
        fields |= {name: value for name, value in said.items() if value is not None} | params
        form = format_named(call_format) if call_format else None
        self.decoding = (
            Decoding(row.engine, form, not (fields.keys() | extra).isdisjoint((FIELD, *GRAMMARS)))
            if row.engine
            else None
        )
        made = replace(model_row, name=model) if model_row else _row(model, row, window_tokens, block_tokens)
        register(made)
        super().__init__(Endpoint(WIRE, made, decoding=self.decoding), ttl, fields)
        self._read = {name: row.thought for name in ("reasoning_content", "reasoning") if row.thought} | {
            name: name for name in row.also
        }
        self._kinds = {
            **self._kinds,
            "assistant": lambda body: list(map(_with_object_arguments, replied(body, self._read))),
        }

    def reply(self, response: Any) -> Reply:
        """A `ChatCompletion` or its dict, with what the model thought where the host takes it back."""
        return replace(answers.reply(response, frozenset(self._read) & THOUGHTS), usage=self.usage(plain(response)))

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """What a response says it is billed, wherever its host says it; unknown where it does not."""
        counters = response.get("usage") or {}
        prompt, output = counters.get("prompt_tokens"), counters.get("completion_tokens")
        read = next((found for path in self.host.read if (found := _at(response, path)) is not None), None)
        said = _at(response, self.host.written) if self.host.written else None
        written = 0 if said is None and self.model.cache != "billed" else said
        if prompt is None or read is None:
            return served(Usage(output=output), response)
        fresh = None if written is None else prompt - read - written
        return served(Usage(fresh, read, written, 0 if written is not None else None, output), response)

    def prefilled(self, text: str) -> tuple[Json, dict[str, Json]]:
        """The assistant message that begins the next reply with `text`, and the fields that make the host go on with
        it.

        The reply comes without that beginning. Raises `UsageError` where a host takes none.
        """
        if not self.host.takes_prefill:
            raise UsageError(f"{self.host.title} goes on with no reply that was begun for its model: ask in words")
        return {"role": "assistant", "content": text, **self.host.prefix}, dict(self.host.goes_on)


def _with_object_arguments(message: Mapping[str, Json]) -> Json:
    """A message whose calls have arguments that every engine reads again; the log keeps what the model wrote."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_with_object_call(call) for call in calls]}


def _with_object_call(call: Mapping[str, Json]) -> Json:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    return {**call, "function": {**function, "arguments": object_arguments(function["arguments"])}}


def _biller(row: Host) -> str:
    return (HOSTED[row.rule].provider if row.rule else "") or row.name


def _salted(row: Host, salt: str | None) -> dict[str, Json]:
    if salt is not None and not row.salt:
        raise UsageError(
            f"{row.title} has no field that keeps tenants apart: give each its own key or server, and leave salt out"
        )
    return {row.salt: salt} if salt is not None else {}


def _placed(
    row: Host, session: str | int | CacheKey | None, params: Mapping[str, Json]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The field or header that keeps a conversation on one server."""
    if row.needs_affinity and session is None and row.affinity[1] not in params:
        raise UsageError(
            f"{row.title} caches only what carries a {row.affinity[1]}: give session=…, the same for a whole conversation"
        )
    if session is None:
        return {}, {}
    if not row.affinity or isinstance(session, int) != row.is_number:
        kind = "a whole number" if row.is_number else "a text"
        wanted = f"takes {kind} for {row.affinity[1]}" if row.affinity else "has no field that chooses a server"
        raise UsageError(f"session={session!r}: {row.title} {wanted}")
    where, name = row.affinity
    session = CacheKey() if session == AUTO else session
    return ({name: session}, {}) if where == "body" else ({}, {name: session})


def _row(model: str, row: Host, window_tokens: int | None, block_tokens: int | None) -> Model:
    """The row of a model: the table's where it has one of this host, else one by the host's rule."""
    known = MODELS.get(model)
    is_own = known is not None and known.provider in (_biller(row), row.models) and known.source != row.source
    made = known if known is not None and is_own else _made(model, row, HOSTED[row.rule] if row.rule else None)
    window, block = window_tokens or made.window_tokens, block_tokens or made.granularity_tokens
    return replace(made, window_tokens=window, granularity_tokens=block)


def _made(model: str, row: Host, rule: Rule | None) -> Model:
    kind = "billed" if rule and rule.kind == "implicit" and rule.bills_writes else rule.kind if rule else "implicit"
    granularity, ttl = (
        (rule.granularity_tokens or 1, rule.ttl_seconds) if rule else (row.block_tokens, _RESIDENT_SECONDS)
    )
    return replace(
        model_named("gpt-4o"),
        name=model,
        provider=_biller(row),
        cache=kind,
        min_tokens=rule.min_tokens if rule else 0,
        granularity_tokens=granularity,
        ttls_seconds=(rule.ttls_seconds if rule else ()) or (ttl,),
        default_ttl_seconds=ttl,
        window_tokens=_WINDOW_TOKENS,
        tokenizer="bytes",
        accepts_prefill=row.takes_prefill,
        confidence="UNSURE",
        source=row.source,
    )


def _at(response: Mapping[str, Json], path: Path) -> Json:
    found: Json = response
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if type(found) is int else None
