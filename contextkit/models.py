"""The one table of models: cache rules, minima and what each model accepts.

Takes a model name, gives its row. A difference between models is a cell here, never a branch elsewhere. Each row carries its source.
Knows nothing of prices.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from contextkit.errors import UnknownModel


@dataclass(frozen=True, slots=True)
class Model:
    """What is true of one model."""

    name: str
    """As sent in requests; a dated alias (`claude-opus-4-5-20251101`) has a row of its own."""
    provider: str
    """`anthropic`, `openai`, `google`, `aws`, `deepseek`, …: the id prices are looked up under."""
    cache: str
    """`breakpoints` (writes at marks: Anthropic, OpenAI ≥5.6), `implicit` (any prefix, rounded down: OpenAI ≤5.5, Gemini), `billed`
    (that, with writes that cost: Kimi) or `units` (whole persisted prefixes: DeepSeek)."""
    min_tokens: int
    """Shorter prefixes are never cached."""
    granularity_tokens: int
    """A read is rounded down to a multiple of this; 1 for breakpoint caches, and where any prefix is read."""
    ttls_seconds: tuple[int, ...]
    """Lifetimes that can be asked for, shortest first; the first is the default unless `default_ttl_seconds` says otherwise."""
    default_ttl_seconds: int
    """Lifetime when none is asked for."""
    window_tokens: int
    """Largest prompt plus output."""
    tokenizer: str
    """`o200k_base`, or `bytes` for an estimate by size."""
    bytes_per_token: float
    """Average for `bytes`, in UTF-8 bytes of text; an estimate."""
    accepts_prefill: bool
    """Whether the messages may end with an assistant turn."""
    accepts_forced_choice: bool
    """Whether `tool_choice` any/tool (required/function) is accepted."""
    accepts_mid_system: bool
    """Whether a system message may stand between messages."""
    strips_thinking: bool
    """Whether earlier thinking leaves the prompt when a new user turn arrives."""
    binds_thinking: bool
    """Whether returned thinking is checked against the conversation before it."""
    confidence: str
    """`DOC`, `SDK` or `ISSUE`; `UNSURE` where a cell of the row is inferred: the comment behind the row says which."""
    source: str
    """Where the row comes from: keys of `SOURCES`, divided by blanks, or the user's own words."""
    accepts_message_effort: bool = False
    """Whether a system message between turns may set the effort from there on (MIDSYS)."""
    accepts_custom_tools: bool = False
    """Whether a tool may be called with free text, or text of a grammar (CUSTOM)."""
    accepts_tool_search: bool = False
    """Whether the model can ask the caller for tools (SEARCH)."""


SOURCES: Mapping[str, str] = MappingProxyType({
    "PC": "https://platform.claude.com/docs/en/build-with-claude/prompt-caching",
    "THINK": "https://platform.claude.com/docs/en/build-with-claude/extended-thinking",
    "ERR": "https://platform.claude.com/docs/en/api/errors#prefill-not-supported",
    "TOOLS": "https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools",
    "MIDSYS": "https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages",
    "WINDOW": "https://platform.claude.com/docs/en/build-with-claude/context-windows",
    "TC": "https://platform.claude.com/docs/en/build-with-claude/token-counting",
    "H55": "https://platform.claude.com/docs/en/models/haiku-5-5/migration-guide",
    "F52": "https://platform.claude.com/docs/en/models/fable-5-2/overview",
    "OPC": "https://developers.openai.com/api/docs/guides/prompt-caching",
    "CUSTOM": "https://cookbook.openai.com/examples/gpt-5/gpt-5_new_params_and_tools",
    "SEARCH": "https://developers.openai.com/api/docs/guides/tools-tool-search",
    "OPT": "openai 3.52.0, openai/types/responses/response_create_params.py:425-460",
    "GEM": "https://ai.google.dev/gemini-api/docs/caching",
    "BED": "https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html",
    "PROF": "https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html",
    "DS": "https://api-docs.deepseek.com/guides/kv_cache",
    "KIMI": "https://forum.moonshot.ai/t/context-caching-upgrade-5-min-1-hour-ttl-options/613",
    "XAI": "https://docs.x.ai/developers/advanced-api-usage/prompt-caching",
    "GROQ": "https://console.groq.com/docs/prompt-caching",
    "MIS": "https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching",
    "ZAI": "https://docs.z.ai/guides/capabilities/cache",
    "FW": "https://docs.fireworks.ai/guides/prompt-caching.md",
    "LL": "PyPI litellm 1.109.1, litellm/model_prices_and_context_window_backup.json",
    "GP": "PyPI genai-prices 0.2.3, genai_prices/data.py",
})
"""What the short keys in `Model.source` stand for."""

Y, N = True, False
OLD = 3.28
"""UTF-8 bytes a token, Claude up to 4.6. Least squares over one real coding session with claude-opus-4-5: growth of the billed prompt
between 443 consecutive calls (433,276 tokens) against the text added; R² 0.998, half of the calls within 7 %, 90 % within 20 %."""
NEW = round(OLD / 1.3, 2)
"""From 4.7 on the tokenizer yields about 30 % more tokens (TC)."""
M1, K1050 = 1_000_000, 1_050_000

# Prefill: ERR. Forced choice: TOOLS. Mid-conversation system: MIDSYS. Stripping: PC, LL. Binding: THINK, H55. Window: GP, WINDOW.
_CLAUDE_COLUMNS = (
    "name", "min_tokens", "window_tokens", "bytes_per_token", "accepts_prefill", "accepts_forced_choice", "accepts_mid_system",
    "strips_thinking", "binds_thinking", "confidence", "source",
)  # fmt: skip
_CLAUDE_ALL: dict[str, Any] = {
    "provider": "anthropic", "cache": "breakpoints", "granularity_tokens": 1, "ttls_seconds": (300, 3600), "default_ttl_seconds": 300,
    "tokenizer": "bytes",
}  # fmt: skip
_CLAUDE: tuple[tuple[Any, ...], ...] = (
    # name                       min   window   bytes pre frc mid strip bind  sure      source
    ("claude-fable-5-2",           512, M1,      NEW, N, N, N, N, Y, "UNSURE", "GP F52"),  # minimum as 5.1; forced, mid: not published
    ("claude-mythos-5-2",          512, M1,      NEW, N, N, N, N, Y, "UNSURE", "GP F52"),  # as fable-5-2
    ("claude-fable-5-1",           512, M1,      NEW, N, N, Y, N, Y, "DOC", "LL PC GP"),
    ("claude-mythos-5-1",          512, M1,      NEW, N, N, Y, N, Y, "DOC", "LL PC WINDOW"),
    ("claude-fable-5",             512, M1,      NEW, N, Y, Y, N, N, "DOC", "LL PC GP"),
    ("claude-mythos-5",            512, M1,      NEW, N, Y, Y, N, N, "DOC", "LL PC WINDOW"),
    ("claude-opus-5-5",            512, M1,      NEW, N, N, Y, N, Y, "DOC", "LL PC GP"),
    ("claude-opus-5",              512, M1,      NEW, N, Y, Y, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-8",           1024, M1,      NEW, N, Y, Y, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-7",           2048, M1,      NEW, N, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-6",           4096, M1,      OLD, N, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-5",           4096, 200_000, OLD, Y, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-5-20251101",  4096, 200_000, OLD, Y, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-sonnet-5-5",          512, M1,      NEW, N, N, Y, N, Y, "DOC", "LL PC GP"),
    ("claude-sonnet-5",           1024, M1,      NEW, N, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-sonnet-4-6",         1024, M1,      OLD, N, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-sonnet-4-5",         1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "LL PC GP"),
    ("claude-sonnet-4-5-20250929", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "LL PC GP"),
    ("claude-haiku-5-5",           512, M1,      NEW, N, N, N, N, Y, "UNSURE", "LL PC H55 GP"),  # forced, mid: not published
    ("claude-haiku-4-5",          4096, 200_000, OLD, Y, Y, N, Y, N, "DOC", "LL PC GP"),
    ("claude-haiku-4-5-20251001", 4096, 200_000, OLD, Y, Y, N, Y, N, "DOC", "LL PC GP"),
    ("claude-mythos-preview",     2048, M1,      NEW, N, N, N, N, N, "UNSURE", "LL PC"),  # minimum: PC 2048, LL 512; window assumed
)  # fmt: skip

_GPT_COLUMNS = ("name", "cache", "granularity_tokens", "ttls_seconds", "default_ttl_seconds", "window_tokens", "confidence", "source")
# Reasoning whose prefix changed is dropped and reported, never a 400: nothing here binds or strips. A prefix needs 1,024 visible tokens
# (OPC; before 5.6 model-dependent, 1,024 typical). 12h lifetimes exist in the Responses API only.
_GPT_ALL: dict[str, Any] = {
    "provider": "openai", "min_tokens": 1024, "tokenizer": "o200k_base", "bytes_per_token": 4.0, "accepts_prefill": N,
    "accepts_forced_choice": Y, "accepts_mid_system": Y, "strips_thinking": N, "binds_thinking": N,
}  # fmt: skip
_MARKS = ("breakpoints", 1, (1800, 43200), 1800)
_GPT55 = ("implicit", 2048, (86400,), 86400)
_OLDER = ("implicit", 128, (600, 86400), 86400)
_GPT: tuple[tuple[Any, ...], ...] = (
    ("gpt-6.1-sol", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6.1-terra", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6-astra", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6-sol", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6-luna", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6-rosalind", *_MARKS, K1050, "UNSURE", "LL OPC OPT"),  # window assumed from its family
    ("gpt-5.6-sol", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-5.6-terra", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-5.6-luna", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-5.6-cyber", *_MARKS, K1050, "UNSURE", "LL OPC OPT"),  # window assumed from its family
    ("gpt-5.5", *_GPT55, M1, "DOC", "LL OPC GP"),
    ("gpt-5.4", *_OLDER, K1050, "DOC", "LL OPC GP"),
    ("gpt-5.4-mini", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5.4-nano", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5.2", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5.1", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5-mini", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5-nano", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-4.1", *_OLDER, M1, "DOC", "LL OPC GP"),
    ("gpt-4.1-mini", *_OLDER, M1, "DOC", "LL OPC GP"),
    ("gpt-4o", *_OLDER, 128_000, "DOC", "LL OPC GP"),
    ("gpt-4o-mini", *_OLDER, 128_000, "DOC", "LL OPC GP"),
    ("o3", *_OLDER, 200_000, "DOC", "LL OPC GP"),
    ("o4-mini", *_OLDER, 200_000, "DOC", "LL OPC GP"),
)

_GEMINI_COLUMNS = ("name", "min_tokens", "window_tokens")
# The minimum is documented (GEM). Granularity and lifetime of what is cached unasked are unpublished: any prefix, and the shortest
# lifetime any provider publishes. Contents made by a call of their own (any lifetime, 1 h by default) are `cache.hosted.content_cache`.
_GEMINI_ALL: dict[str, Any] = {
    "provider": "google", "cache": "implicit", "granularity_tokens": 1, "ttls_seconds": (300,), "default_ttl_seconds": 300,
    "tokenizer": "bytes", "bytes_per_token": 4.0, "accepts_prefill": N, "accepts_forced_choice": Y, "accepts_mid_system": N,
    "strips_thinking": N, "binds_thinking": N, "confidence": "UNSURE", "source": "GEM LL GP",
}  # fmt: skip
_GEMINI: tuple[tuple[Any, ...], ...] = (
    ("gemini-4-argon", 4096, 1_048_576),
    ("gemini-3.8-flash", 4096, M1),
    ("gemini-3.7-flash", 4096, M1),
    ("gemini-3.6-flash", 4096, M1),
    ("gemini-3.5-flash", 4096, M1),
    ("gemini-3.1-pro-preview", 4096, 1_048_576),
    ("gemini-2.5-pro", 2048, 1_048_576),
    ("gemini-2.5-flash", 2048, 1_048_576),
)

_NOVA_COLUMNS = ("name", "window_tokens")
# Marks as Claude's; the minimum was 1,000 to 1,024 in tables of 2025; what a request may hold is not in the sources at hand.
_NOVA_ALL: dict[str, Any] = {
    "provider": "aws", "cache": "breakpoints", "min_tokens": 1024, "granularity_tokens": 1, "ttls_seconds": (300,),
    "default_ttl_seconds": 300, "tokenizer": "bytes", "bytes_per_token": 4.0, "accepts_prefill": N, "accepts_forced_choice": Y,
    "accepts_mid_system": N, "strips_thinking": N, "binds_thinking": N, "confidence": "UNSURE", "source": "BED LL GP",
}  # fmt: skip
_NOVA: tuple[tuple[Any, ...], ...] = (
    ("amazon.nova-pro-v1:0", 300_000), ("amazon.nova-lite-v1:0", 300_000), ("amazon.nova-micro-v1:0", 128_000),
)  # fmt: skip
_OTHER_COLUMNS = (
    "name", "provider", "cache", "min_tokens", "granularity_tokens", "ttls_seconds", "default_ttl_seconds", "window_tokens", "source",
)  # fmt: skip
# None of these hosts publishes a minimum, so every row is `UNSURE`: 0 where nothing is known, one step of what others observed for Kimi
# (256) and xAI (128). Lifetimes: documented for Kimi and Groq; DeepSeek says hours to days, the least of which is taken; of the others the
# shortest lifetime any host publishes. Mistral caches only calls with a `prompt_cache_key`. What a request may hold: assumed as OpenAI's.
_OTHER_ALL: dict[str, Any] = {
    "tokenizer": "bytes", "bytes_per_token": 4.0, "accepts_prefill": N, "accepts_forced_choice": Y, "accepts_mid_system": Y,
    "strips_thinking": N, "binds_thinking": N, "confidence": "UNSURE",
}  # fmt: skip
_BILLED, _XAI, _HOUR = ("billed", 256, 256, (300, 3600), 300), ("implicit", 128, 128, (300,), 300), ("units", 0, 1, (3600,), 3600)
_ANY, _GROQ = ("implicit", 0, 1, (300,), 300), ("implicit", 0, 1, (7200,), 7200)
_OTHERS: tuple[tuple[Any, ...], ...] = (
    ("deepseek-flash", "deepseek", *_HOUR, M1, "DS GP"),
    ("deepseek-v4-pro", "deepseek", *_HOUR, M1, "DS GP"),
    ("kimi-k3", "moonshotai", *_BILLED, 1_048_576, "KIMI GP"),
    ("kimi-k3.1-pro", "moonshotai", *_BILLED, 1_048_576, "KIMI GP"),
    ("kimi-k2.7-code", "moonshotai", "implicit", 256, 256, (300,), 300, 262_144, "KIMI GP"),
    ("grok-4.7", "x-ai", *_XAI, 500_000, "XAI GP"),
    ("grok-4.6", "x-ai", *_XAI, 500_000, "XAI GP"),
    ("grok-4.5", "x-ai", *_XAI, 500_000, "XAI GP"),
    ("grok-4.3", "x-ai", *_XAI, M1, "XAI GP"),
    ("openai/gpt-oss-120b", "groq", *_GROQ, 131_072, "GROQ GP"),
    ("openai/gpt-oss-20b", "groq", *_GROQ, 131_072, "GROQ GP"),
    ("mistral-large-4", "mistral", *_ANY, 1_048_576, "MIS GP"),
    ("mistral-medium-3-5", "mistral", *_ANY, 262_144, "MIS GP"),
    ("GLM-5.3", "zai", *_ANY, M1, "ZAI GP"),
    ("GLM-5.3-Flash", "zai", *_ANY, M1, "ZAI GP"),
    ("accounts/fireworks/models/deepseek-v4p1-flash", "fireworks", *_ANY, M1, "FW GP"),  # window of DeepSeek's own
    ("accounts/fireworks/models/kimi-k2p7-code", "fireworks", *_ANY, 262_144, "FW GP"),
    ("accounts/fireworks/models/glm-5p3", "fireworks", *_ANY, M1, "FW GP"),  # window of Z.ai's own
)
_MESSAGE_EFFORT = ("claude-fable-5-1", "claude-mythos-5-1", "claude-opus-5", "claude-opus-5-5", "claude-sonnet-5-5")
"""Claude models that take an effort from one message on (MIDSYS)."""
_CUSTOM_TOOLS = tuple(row[0] for row in _GPT if row[0].startswith(("gpt-5", "gpt-6")))
"""OpenAI's models that know custom tools: GPT-5 and later (CUSTOM)."""
_TOOL_SEARCH = tuple(name for name in _CUSTOM_TOOLS if name.startswith(("gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6")))
"""OpenAI's models that know tool search: GPT-5.4 and later (SEARCH)."""
_CLAUDE_ON_BEDROCK = (
    "claude-opus-5-5", "claude-opus-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-1", "claude-opus-4-8", "claude-opus-4-7",
)
"""Claude models that Bedrock serves with the rules of their own rows, as `anthropic.` and the name (BED)."""


def _rows(columns: tuple[str, ...], shared: dict[str, Any], rows: tuple[tuple[Any, ...], ...]) -> dict[str, Model]:
    return {row[0]: Model(**shared, **dict(zip(columns, row, strict=True))) for row in rows}


_MODELS = (
    _rows(_CLAUDE_COLUMNS, _CLAUDE_ALL, _CLAUDE)
    | _rows(_GPT_COLUMNS, _GPT_ALL, _GPT)
    | _rows(_GEMINI_COLUMNS, _GEMINI_ALL, _GEMINI)
    | _rows(_NOVA_COLUMNS, _NOVA_ALL, _NOVA)
    | _rows(_OTHER_COLUMNS, _OTHER_ALL, _OTHERS)
)
_MODELS |= {name: replace(_MODELS[name], accepts_message_effort=True) for name in _MESSAGE_EFFORT}
_MODELS |= {name: replace(_MODELS[name], accepts_custom_tools=True) for name in _CUSTOM_TOOLS}
_MODELS |= {name: replace(_MODELS[name], accepts_tool_search=True) for name in _TOOL_SEARCH}
_MODELS |= {
    f"anthropic.{name}": replace(_MODELS[name], name=f"anthropic.{name}", provider="aws", source=f"{_MODELS[name].source} BED")
    for name in _CLAUDE_ON_BEDROCK
}
_PROFILES = ("us", "eu", "apac", "global")
"""Regions that an inference profile of Bedrock routes to; its name stands before the model's, whose rules it has (PROF)."""
_MODELS |= {
    f"{profile}.{row.name}": replace(row, name=f"{profile}.{row.name}", source=f"{row.source} PROF")
    for row in list(_MODELS.values()) if row.provider == "aws" for profile in _PROFILES
}  # fmt: skip

KNOWN: tuple[Model, ...] = tuple(_MODELS.values())
"""The rows that come with the package, whatever was registered since."""
MODELS: Mapping[str, Model] = MappingProxyType(_MODELS)
"""Every known model by its name, registered ones included."""


def is_of_another(name: str, model: Model) -> bool:
    """Whether a reply was written by another model, so that its thinking does not hold here: it is bound to its model (THINK).

    A dated alias is the same model; a name without a row is taken for it.

    >>> [is_of_another(name, model_named("claude-opus-4-5")) for name in ("claude-opus-4-5-20251101", "claude-sonnet-4-5", "any")]
    [False, True, False]
    """
    plain = _DATED.sub("", name)
    return plain in MODELS and plain != _DATED.sub("", model.name)


_DATED = re.compile(r"-20\d{6}$|-20\d\d-\d\d-\d\d$")
"""How a snapshot is told from its model: `-20251101` (Anthropic), `-2026-03-05` (OpenAI)."""


def model_named(name: str) -> Model:
    """The row of `name`, exactly as sent in requests.

    Raises `UnknownModel`, naming the closest rows and how to add one.

    >>> model_named("claude-opus-4-7").min_tokens
    2048
    """
    if not isinstance(name, str):
        raise UnknownModel(f"a model is named by a string, not {type(name).__name__}")
    if name in MODELS:
        return MODELS[name]
    close = difflib.get_close_matches(name, MODELS, n=3, cutoff=0.4)
    near = f"; close to {', '.join(close)}" if close else ""
    example = close[0] if close else next(iter(MODELS))
    raise UnknownModel(
        f"no row for model {name!r} in contextkit.models{near}: add one with register(Model(...)), or, where it has the rules of a known "
        f"model, register(dataclasses.replace(model_named({example!r}), name={name!r}))"
    )


def register(model: Model) -> None:
    """Put the user's own row into `MODELS`; one of the same name is replaced.

    >>> from dataclasses import replace
    >>> register(replace(model_named("gpt-4o"), name="our-gpt-4o", source="https://platform.openai.com/docs/models"))
    >>> model_named("our-gpt-4o").granularity_tokens
    128
    """
    _MODELS[model.name] = model
