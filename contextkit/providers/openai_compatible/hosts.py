"""Who speaks Chat Completions like OpenAI, one row each: what is said otherwise, and where the bill stands.

Takes nothing, gives `HOSTS`. A difference between hosts is a cell here. How each of them caches is a row of
`cache/hosted/rules.py`, or, for engines, the block of the row; sources stand in each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contextkit.canonical import Json

Path = tuple[str, ...]
"""Where a counter stands in a response."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host, or one self-hosted engine."""

    name: str
    """As `OpenAICompatible(host=…)` names it."""
    title: str
    """Its name in words."""
    base_url: str
    """What `openai.OpenAI(base_url=…)` takes, a hint."""
    source: str
    """Where the row comes from."""
    models: str = ""
    """Provider in the model table whose models it serves under their own names; its own besides."""
    rule: str = ""
    """Its row of `cache/hosted/rules.py`; none for an engine."""
    engine: str = ""
    """Its column of `masking/engines.py`; none for a host that tells nobody how it decodes."""
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
    """Where cached tokens stand, the first that is there."""
    written: Path = ()
    """Where tokens written stand, for whoever bills them."""
    needs: str = ""
    """What makes an engine tell cached tokens."""
    thought: str = ""
    """Field in which reasoning comes and is sent back; none where it is dropped."""
    also: tuple[str, ...] = ()
    """More fields of reasoning that are sent back as they came."""
    replay: str = "dropped: the endpoint knows no such field"
    """When reasoning is sent back, in words."""
    prefix: Mapping[str, Json] = field(default_factory=dict)
    """What an assistant message that is to be gone on with says of itself."""
    goes_on: Mapping[str, Json] = field(default_factory=dict)
    """What the body says for the same; neither where `takes_prefill` is false."""
    takes_prefill: bool = False
    """Whether a reply can be begun for the model."""
    constraints: tuple[str, ...] = ()
    """Fields that constrain a reply, besides `tool_choice`."""
    role: str = "system"
    """Who says the system prompt."""
    most: str = "max_tokens"
    """Field for the most a reply may say."""


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
