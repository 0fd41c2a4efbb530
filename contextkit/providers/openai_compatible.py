"""`POST /chat/completions` of engines and hosts other than OpenAI: `OpenAIChat`, and one row of `HOSTS` for each host.

A difference between hosts is a cell of its row, its source included. How each of them caches is a row of
`cache/hosted/rules.py`, or, for engines, the block size of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from contextkit.cache.hosted.rules import HOSTED, Rule
from contextkit.cache.usage import Usage, served
from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.models import MODELS, Model, model_named, register
from contextkit.providers.call_formats import format_named
from contextkit.providers.engine_masks import GRAMMARS, Decoding
from contextkit.providers.masking import Endpoint
from contextkit.providers.openai import chat
from contextkit.providers.openai.chat import ANSWERING, FORMAT, REASONING_FIELDS, WIRE, render_reply
from contextkit.providers.openai.shared import OpenAIAdapter, object_arguments
from contextkit.providers.parameters import apart
from contextkit.providers.provider import Reply
from contextkit.providers.reply_form import FIELD
from contextkit.providers.reply_json import plain
from contextkit.providers.routing_key import AUTO, CacheKey
from contextkit.providers.usage import OPENAI_CHAT, UsageFields, counters_in, read_usage

Path = tuple[str, ...]
"""Path of a counter in a response."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host, or one self-hosted engine."""

    name: str
    """As `OpenAICompatible(host=…)` names it."""
    title: str
    """Its display name."""
    base_url: str
    """What `openai.OpenAI(base_url=…)` takes, a hint."""
    source: str
    """Where the row comes from."""
    models: str = ""
    """Provider in the model table whose models it serves under their own names; its own besides."""
    rule: str = ""
    """Its row of `cache/hosted/rules.py`; none for an engine."""
    engine: str = ""
    """Its column of `masking.ROWS`; none for a host that does not publish how it decodes."""
    block_tokens: int = 1
    """An engine's block or page: a read is rounded down to a multiple."""
    affinity: Path = ()
    """Field that keeps a conversation on one server: `body` or `header`, and its name; none where there is no such
    field."""
    is_number: bool = False
    """Whether that field is a whole number."""
    needs_affinity: bool = False
    """Whether only what carries that field is cached."""
    salt: str = ""
    """Field that keeps prefixes of different tenants apart."""
    read: tuple[Path, ...] = (("usage", "prompt_tokens_details", "cached_tokens"),)
    """Paths of the cached tokens; the first that is present counts."""
    written: Path = ()
    """Path of the written tokens, for hosts that bill them."""
    needs: str = ""
    """Option that makes an engine report cached tokens."""
    thought: str = ""
    """Field in which reasoning comes and is sent back; none where it is dropped."""
    also: tuple[str, ...] = ()
    """More fields of reasoning that are sent back unchanged."""
    replay: str = "dropped: the endpoint knows no such field"
    """Description of when reasoning is sent back."""
    prefix: Mapping[str, Json] = field(default_factory=dict)
    """Fields of an assistant message that the model continues."""
    goes_on: Mapping[str, Json] = field(default_factory=dict)
    """Fields of the body for the same; neither where `takes_prefill` is false."""
    takes_prefill: bool = False
    """Whether a reply can be begun for the model."""
    constraints: tuple[str, ...] = ()
    """Fields that constrain a reply, besides `tool_choice`."""
    role: str = "system"
    """Role of the system prompt."""
    most: str = "max_tokens"
    """Field for the maximum output tokens."""


_KEY = ("body", "prompt_cache_key")
_VLLM = "vLLM 0.33 vllm/entrypoints/openai/chat_completion/protocol.py"
_SGLANG = "SGLang 0.5.23 sglang/srt/entrypoints/openai/protocol.py"
_SENT = "sent back as it came"
_PARTIAL: Mapping[str, Json] = {"partial": True}
_PREFIX: Mapping[str, Json] = {"prefix": True}
_TEMPLATE = f"{_SENT}; which of it is rendered is the template's business (`contextkit template check`)"

_ROWS = (
    Host(
        "vllm",
        "vLLM",
        "http://localhost:8000/v1",
        _VLLM,
        engine="vllm",
        block_tokens=16,
        affinity=("body", "session_id"),
        salt="cache_salt",
        needs="`--enable-prompt-tokens-details`",
        thought="reasoning",
        replay=_TEMPLATE,
        goes_on={"continue_final_message": True, "add_generation_prompt": False},
        takes_prefill=True,
        constraints=("structured_outputs", "response_format"),
        most="max_completion_tokens",
    ),
    Host(
        "sglang",
        "SGLang",
        "http://localhost:30000/v1",
        _SGLANG,
        engine="sglang",
        affinity=("body", "session_id"),
        salt="cache_salt",
        needs="`--enable-cache-report`",
        thought="reasoning_content",
        replay=_TEMPLATE,
        goes_on={"continue_final_message": True},
        takes_prefill=True,
        constraints=("regex", "ebnf", "response_format"),
        most="max_completion_tokens",
    ),
    Host(
        "llamacpp",
        "llama.cpp",
        "http://localhost:8080/v1",
        "llama.cpp tools/server/README.md",
        engine="llamacpp",
        affinity=("body", "id_slot"),
        is_number=True,
        thought="reasoning_content",
        replay=_TEMPLATE,
        takes_prefill=True,
        read=(("timings", "cache_n"), ("usage", "prompt_tokens_details", "cached_tokens")),
        constraints=("grammar", "json_schema"),
    ),
    Host(
        "ollama",
        "Ollama",
        "http://localhost:11434/v1",
        "https://docs.ollama.com/api/openai-compatibility; llama.cpp below it",
        thought="reasoning",
        replay=_TEMPLATE,
        constraints=("response_format",),
    ),
    Host(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com",
        "https://api-docs.deepseek.com/guides/kv_cache, /guides/thinking_mode, /guides/chat_prefix_completion",
        rule="deepseek",
        read=(("usage", "prompt_cache_hit_tokens"), ("usage", "prompt_tokens_details", "cached_tokens")),
        thought="reasoning_content",
        replay=f"{_SENT}: with tools in the request every turn's must come back, without them it is ignored",
        prefix=_PREFIX,
        takes_prefill=True,
        constraints=("response_format",),
    ),
    Host(
        "kimi",
        "Moonshot Kimi",
        "https://api.moonshot.ai/v1",
        "https://forum.moonshot.ai/t/context-caching-upgrade-5-min-1-hour-ttl-options/613; "
        "https://platform.kimi.ai/docs/guide/use-partial-mode-feature-of-kimi-api",
        rule="kimi",
        affinity=_KEY,
        read=(("usage", "prompt_tokens_details", "cached_tokens"), ("usage", "cached_tokens")),
        written=("usage", "prompt_tokens_details", "cache_write_tokens"),
        thought="reasoning_content",
        replay=f"{_SENT}, in every turn",
        prefix=_PARTIAL,
        takes_prefill=True,
        constraints=("response_format",),
    ),
    Host(
        "qwen",
        "Qwen (Model Studio)",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        "https://www.alibabacloud.com/help/en/model-studio/context-cache, /partial-mode",
        rule="qwen-implicit",
        thought="reasoning_content",
        replay=f"{_SENT}; rendered with `preserve_thinking`",
        prefix=_PARTIAL,
        takes_prefill=True,
        constraints=("response_format",),
    ),
    Host(
        "zai",
        "Z.ai",
        "https://api.z.ai/api/paas/v4",
        "https://docs.z.ai/guides/capabilities/cache, /thinking-mode",
        rule="zai",
        thought="reasoning_content",
        replay=f'{_SENT}; kept by `thinking={{"type": "enabled", "clear_thinking": False}}`',
        constraints=("response_format",),
    ),
    Host(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        "https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching; https://docs.mistral.ai/api",
        rule="mistral",
        affinity=_KEY,
        needs_affinity=True,
        prefix=_PREFIX,
        takes_prefill=True,
        constraints=("response_format",),
        read=(("usage", "prompt_tokens_details", "cached_tokens"), ("usage", "num_cached_tokens")),
        replay="inside `content`, as `thinking` parts, as they came",
    ),
    Host(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        "https://console.groq.com/docs/prompt-caching, /docs/reasoning",
        rule="groq",
        thought="reasoning",
        replay=_SENT,
        constraints=("response_format",),
        most="max_completion_tokens",
    ),
    Host(
        "fireworks",
        "Fireworks",
        "https://api.fireworks.ai/inference/v1",
        "https://docs.fireworks.ai/guides/prompt-caching.md",
        rule="fireworks",
        affinity=("header", "x-session-affinity"),
        salt="prompt_cache_isolation_key",
        thought="reasoning_content",
        replay=_SENT,
        constraints=("response_format",),
    ),
    Host(
        "xai",
        "xAI",
        "https://api.x.ai/v1",
        "https://docs.x.ai/developers/advanced-api-usage/prompt-caching",
        rule="xai",
        affinity=("header", "x-grok-conv-id"),
        thought="reasoning_content",
        replay=f"{_SENT}: without it the prefix ends there",
        constraints=("response_format",),
        most="max_completion_tokens",
    ),
    Host(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        "https://openrouter.ai/docs/guides/best-practices/prompt-caching, /docs/guides/best-practices/reasoning-tokens",
        rule="openrouter",
        affinity=("body", "session_id"),
        written=("usage", "prompt_tokens_details", "cache_write_tokens"),
        thought="reasoning",
        also=("reasoning_details",),
        replay=_SENT,
        constraints=("response_format",),
    ),
    Host(
        "azure",
        "Azure OpenAI",
        "https://{resource}.openai.azure.com/openai/v1",
        "https://learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching",
        models="openai",
        rule="azure-openai",
        affinity=_KEY,
        written=("usage", "prompt_tokens_details", "cache_write_tokens"),
        constraints=("response_format",),
        role="developer",
        most="max_completion_tokens",
    ),
)
HOSTS: Mapping[str, Host] = MappingProxyType({row.name: row for row in _ROWS})
"""Name → row."""


_RESIDENT_SECONDS = 3600
"""Assumed lifetime of an engine's cache entry: it is evicted when memory is full, at an unknown time."""
_WINDOW_TOKENS = 131_072
"""Assumed context window of a model without a row."""


class OpenAICompatible(OpenAIAdapter):
    """A model behind vLLM, SGLang, llama.cpp, Ollama, or an OpenAI-compatible host: `host` is a row of
    `docs/reference/providers.md`.

    `session` keeps a conversation on the server that has its prefix (`"auto"`, or a `CacheKey`, derives it), `salt`
    keeps tenants apart, each in the field its host has for it. `call_format` is how the model writes a call
    (`masking.FORMATS`): with it, phases are enforced by the engine's own grammar. A model without a row gets one:
    give `window_tokens` and `block_tokens`, or a whole `model_row`. Everything else is a parameter.

    >>> provider = OpenAICompatible("Qwen/Qwen3-8B", host="vllm", session="run-7", salt="tenant-1", max_tokens=512)
    >>> provider.base_url, {name: value for name, value in provider.params.items() if name != "model"}
    ('http://localhost:8000/v1', {'session_id': 'run-7', 'max_completion_tokens': 512, 'cache_salt': 'tenant-1'})
    """

    format, answering = FORMAT, ANSWERING
    takes_own_fields = True
    least_output = -1  # engines take it for: as many as fit
    wire = WIRE
    path = "/chat/completions"
    grammar = FORMAT.grammar

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
        """Raises `UsageError` for a host, a format or a field that does not exist."""
        if not isinstance(model, str) or not model:
            raise UsageError(f"model={model!r}: the name the host knows it by")
        if not isinstance(host, str) or host not in HOSTS:
            raise UsageError(
                f"no host {host!r}: use one of {', '.join(HOSTS)}, the one that speaks like yours; the URL is your client's"
            )
        self.host = row = HOSTS[host]
        self.base_url, self.name, self.system_role = row.base_url, _biller(row), system_role or row.role
        if salt is not None and not row.salt:
            raise UsageError(
                f"{row.title} has no field that keeps tenants apart: give each its own key or server, and leave salt out"
            )
        options: dict[str, Json] = {row.most: max_tokens, row.salt: salt}
        plain, extra, _ = apart(params)
        fields, self.headers = _placed(row, session, {**plain, **extra})
        fields |= {name: value for name, value in options.items() if value is not None} | params
        form = format_named(call_format) if call_format else None
        self.decoding = (
            Decoding(row.engine, form, not (fields.keys() | extra).isdisjoint((FIELD, *GRAMMARS)))
            if row.engine
            else None
        )
        made = replace(model_row, name=model) if model_row else _row(model, row, window_tokens, block_tokens)
        register(made)
        super().__init__(Endpoint(WIRE, made, decoding=self.decoding), ttl, fields)
        self.output_field = row.most
        self._usage_fields = _usage_fields(row, made)
        self._read = {name: row.thought for name in ("reasoning_content", "reasoning") if row.thought} | {
            name: name for name in row.also
        }
        self._kinds = {
            **self._kinds,
            "assistant": lambda body: list(map(_with_object_arguments, render_reply(body, self._read))),
        }

    def reply(self, response: Any) -> Reply:
        """Parse a `ChatCompletion` or its dict, with the reasoning where the host takes it back."""
        return replace(
            chat.reply(response, frozenset(self._read) & REASONING_FIELDS), usage=self.usage(plain(response))
        )

    def usage(self, response: Mapping[str, Json]) -> Usage:
        """The usage of a response, from the fields of its host; unknown where they are absent."""
        counters = {**counters_in(response.get("usage")), "timings": response.get("timings")}
        usage = read_usage(self._usage_fields, counters) or Usage()
        if usage.writes is None:
            usage = replace(usage, fresh=None)
        return served(usage, response)

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
    if not isinstance(message.get("tool_calls"), list):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call.get("function")
        is_written = isinstance(function, Mapping) and isinstance(function.get("arguments"), str)
        written = {"function": {**function, "arguments": object_arguments(function["arguments"])}} if is_written else {}
        calls.append({**call, **written})
    return {**message, "tool_calls": calls}


def _biller(row: Host) -> str:
    return (HOSTED[row.rule].provider if row.rule else "") or row.name


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
    declared = MODELS.get(model)
    is_own = declared is not None and declared.provider in (_biller(row), row.models) and declared.source != row.source
    made = declared if declared is not None and is_own else _made(model, row, HOSTED[row.rule] if row.rule else None)
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


def _usage_fields(row: Host, model: Model) -> UsageFields:
    """Return the names of a host's counters; llama.cpp's `timings` stand beside its usage."""
    read = tuple(".".join(path).removeprefix("usage.") for path in row.read)
    written = (".".join(row.written).removeprefix("usage."),) if row.written else ()
    return replace(
        OPENAI_CHAT,
        read=read,
        write=written,
        write_short=(),
        write_long=(),
        omits_zero_writes=model.cache != "billed",
        ttls_seconds=(model.ttls_seconds[0], 2 * model.ttls_seconds[0]),
    )
