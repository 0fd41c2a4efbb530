"""The one table of models: cache rules, minima and what each model accepts.

Takes a model name, gives its row. A difference between models is a cell here, never a branch elsewhere. Each row
carries its source. A name without a row gets the rules of its nearest relative, graded `ASSUMED`. Knows nothing of
prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from contextkit.errors import UnknownModel, UsageError
from contextkit.facts import load
from contextkit.facts.load import FactRow


class AssumedModelWarning(UserWarning):
    """The model table has no row for this model, so the rules of its nearest relative are assumed.

    The text says which and what to do.
    """


@dataclass(frozen=True, slots=True)
class Model:
    """What is true of one model."""

    name: str
    """As sent in requests."""
    provider: str
    """`anthropic`, `openai`, `google`, `aws`, `deepseek`, …: the id prices are looked up under."""
    cache: str
    """`breakpoints` (writes at marks: Anthropic, OpenAI ≥5.6), `implicit` (any prefix, rounded down: OpenAI ≤5.5,
    Gemini), `billed` (that, with writes that cost: Kimi) or `units` (whole persisted prefixes: DeepSeek)."""
    min_tokens: int
    """Shorter prefixes are never cached."""
    granularity_tokens: int
    """A read is rounded down to a multiple of this; 1 for breakpoint caches, and where any prefix is read."""
    ttls_seconds: tuple[int, ...]
    """Lifetimes that can be asked for, shortest first; the first is the default unless `default_ttl_seconds` says
    otherwise."""
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
    """`DOC`, `SDK` or `ISSUE`; `UNSURE` where a cell of the row is inferred: the comment behind the row says which;
    `ASSUMED` where the whole row is that of another model, which `source` names."""
    source: str
    """Where the row comes from: keys of `SOURCES`, divided by blanks, or the user's own words."""
    accepts_message_effort: bool = False
    """Whether a system message between turns may set the effort from there on (MIDSYS)."""
    accepts_custom_tools: bool = False
    """Whether a tool may be called with free text, or text of a grammar (CUSTOM)."""
    accepts_tool_search: bool = False
    """Whether the model can ask the caller for tools (SEARCH)."""
    retired_on: str = ""
    """ISO date on which its provider retires it, as announced; may lie ahead. Empty where none is announced (RETIRE).
    """

    @property
    def is_assumed(self) -> bool:
        """Whether the table has no row for this name, so that the rules are those of its nearest relative.

        `source` names it.
        """
        return self.confidence == "ASSUMED"


SOURCES: Mapping[str, str] = MappingProxyType(
    {
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
        "SDKA": "anthropic 2.13.0, anthropic/_data/deprecated_models.py, anthropic/types/model.py",
        "SDKO": "openai 3.57.0, openai/types/shared/chat_model.py, responses_model.py",
        "GNEW": "https://ai.google.dev/gemini-api/docs/pricing, read 2026-11-24",
        "RETIRE": "https://platform.claude.com/docs/en/about-claude/model-deprecations, https://developers.openai.com/api/docs/deprecations",
        "PC25": "https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching, read 2025-10: models of 2024 and 2025",
        "QWEN": "https://www.alibabacloud.com/help/en/model-studio/context-cache",
    }
)
"""What the short keys in `Model.source` stand for."""

Y, N = True, False
OLD = 3.28
"""UTF-8 bytes a token, Claude up to 4.6. Least squares over one real coding session with claude-opus-4-5: growth of the
billed prompt between 443 consecutive calls (433,276 tokens) against the text added; R² 0.998, half of the calls within
7 %, 90 % within 20 %."""
NEW = round(OLD / 1.3, 2)
"""From 4.7 on the tokenizer yields about 30 % more tokens (TC)."""
M1, K1050 = 1_000_000, 1_050_000

# Prefill: ERR. Forced choice: TOOLS. Mid-conversation system: MIDSYS. Stripping: PC, LL. Binding: THINK, H55. Window:
# GP, WINDOW.
_CLAUDE_COLUMNS = (
    "name",
    "min_tokens",
    "window_tokens",
    "bytes_per_token",
    "accepts_prefill",
    "accepts_forced_choice",
    "accepts_mid_system",
    "strips_thinking",
    "binds_thinking",
    "confidence",
    "source",
)
_CLAUDE_ALL: dict[str, Any] = {
    "provider": "anthropic",
    "cache": "breakpoints",
    "granularity_tokens": 1,
    "ttls_seconds": (300, 3600),
    "default_ttl_seconds": 300,
    "tokenizer": "bytes",
}
_CLAUDE: tuple[tuple[Any, ...], ...] = (
    # name                       min   window   bytes pre frc mid strip bind  sure      source
    ("claude-fable-5-2", 512, M1, NEW, N, N, N, N, Y, "UNSURE", "GP F52"),  # minimum as 5.1; forced, mid: not published
    ("claude-mythos-5-2", 512, M1, NEW, N, N, N, N, Y, "UNSURE", "GP F52"),  # as fable-5-2
    ("claude-fable-5-1", 512, M1, NEW, N, N, Y, N, Y, "DOC", "LL PC GP"),
    ("claude-mythos-5-1", 512, M1, NEW, N, N, Y, N, Y, "DOC", "LL PC WINDOW"),
    ("claude-fable-5", 512, M1, NEW, N, Y, Y, N, N, "DOC", "LL PC GP"),
    ("claude-mythos-5", 512, M1, NEW, N, Y, Y, N, N, "DOC", "LL PC WINDOW"),
    ("claude-opus-5-5", 512, M1, NEW, N, N, Y, N, Y, "DOC", "LL PC GP"),
    ("claude-opus-5", 512, M1, NEW, N, Y, Y, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-8", 1024, M1, NEW, N, Y, Y, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-7", 2048, M1, NEW, N, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-6", 4096, M1, OLD, N, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-5", 4096, 200_000, OLD, Y, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-opus-4-5-20251101", 4096, 200_000, OLD, Y, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-sonnet-5-5", 512, M1, NEW, N, N, Y, N, Y, "DOC", "LL PC GP"),
    ("claude-sonnet-5", 1024, M1, NEW, N, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-sonnet-4-6", 1024, M1, OLD, N, Y, N, N, N, "DOC", "LL PC GP"),
    ("claude-sonnet-4-5", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "LL PC GP"),
    ("claude-sonnet-4-5-20250929", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "LL PC GP"),
    ("claude-haiku-5-5", 512, M1, NEW, N, N, N, N, Y, "UNSURE", "LL PC H55 GP"),  # forced, mid: not published
    ("claude-haiku-4-5", 4096, 200_000, OLD, Y, Y, N, Y, N, "DOC", "LL PC GP"),
    ("claude-haiku-4-5-20251001", 4096, 200_000, OLD, Y, Y, N, Y, N, "DOC", "LL PC GP"),
    (
        "claude-mythos-preview",
        2048,
        M1,
        NEW,
        N,
        N,
        N,
        N,
        N,
        "UNSURE",
        "LL PC",
    ),  # minimum: PC 2048, LL 512; window assumed
    ("claude-opus-4-1", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-opus-4-0", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-opus-4", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-sonnet-4-0", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-sonnet-4", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-3-7-sonnet", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-3-5-sonnet", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-3-5-haiku", 2048, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-3-opus", 1024, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
    ("claude-3-haiku", 2048, 200_000, OLD, Y, Y, N, Y, N, "DOC", "PC25 GP"),
)

_GPT_COLUMNS = (
    "name",
    "cache",
    "granularity_tokens",
    "ttls_seconds",
    "default_ttl_seconds",
    "window_tokens",
    "confidence",
    "source",
)
# Reasoning whose prefix changed is dropped and reported, never a 400: nothing here binds or strips. A prefix needs
# 1,024 visible tokens
# (OPC; before 5.6 model-dependent, 1,024 typical). 12h lifetimes exist in the Responses API only.
_GPT_ALL: dict[str, Any] = {
    "provider": "openai",
    "min_tokens": 1024,
    "tokenizer": "o200k_base",
    "bytes_per_token": 4.0,
    "accepts_prefill": N,
    "accepts_forced_choice": Y,
    "accepts_mid_system": Y,
    "strips_thinking": N,
    "binds_thinking": N,
}
_MARKS = ("breakpoints", 1, (1800, 43200), 1800)
_GPT55 = ("implicit", 2048, (86400,), 86400)
_OLDER = ("implicit", 128, (600, 86400), 86400)
_NEVER = ("implicit", 1, (600,), 600)
"""Models of OpenAI that cache nothing: their minimum is what no prompt reaches."""
_GPT: tuple[tuple[Any, ...], ...] = (
    ("gpt-6.2-sol", *_MARKS, K1050, "UNSURE", "OPC SDKO"),  # window assumed from its family, here and in the two below
    ("gpt-6.2-astra", *_MARKS, K1050, "UNSURE", "OPC SDKO"),
    ("gpt-6.2-astra-law", *_MARKS, K1050, "UNSURE", "OPC SDKO"),
    ("gpt-6.1-sol", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6.1-terra", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6-astra", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6-sol", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6-luna", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-6-rosalind", *_MARKS, K1050, "UNSURE", "LL OPC OPT"),  # window assumed from its family
    ("gpt-6-cyber", *_MARKS, K1050, "UNSURE", "OPC SDKO GP"),  # window assumed from its family
    ("gpt-5.6-sol", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-5.6-terra", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-5.6-luna", *_MARKS, K1050, "DOC", "LL OPC OPT GP"),
    ("gpt-5.6-cyber", *_MARKS, K1050, "UNSURE", "LL OPC OPT"),  # window assumed from its family
    ("gpt-5.5", *_GPT55, M1, "DOC", "LL OPC GP"),
    ("gpt-5.5-pro", *_GPT55, M1, "DOC", "OPC GP SDKO"),
    ("gpt-5.4", *_OLDER, K1050, "DOC", "LL OPC GP"),
    ("gpt-5.4-mini", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5.4-nano", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5.4-pro", *_OLDER, K1050, "DOC", "OPC GP"),
    ("gpt-5.3-codex", *_OLDER, 400_000, "DOC", "OPC GP"),
    ("gpt-5.3-codex-spark", *_OLDER, 128_000, "UNSURE", "OPC"),  # window assumed; seen in Codex rollouts only
    ("gpt-5.3-chat-latest", *_OLDER, 128_000, "DOC", "OPC GP SDKO"),
    ("gpt-5.2", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5.2-pro", *_OLDER, 400_000, "DOC", "OPC GP SDKO"),
    ("gpt-5.2-chat-latest", *_OLDER, 400_000, "DOC", "OPC GP SDKO"),
    ("gpt-5.1", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5.1-codex", *_OLDER, 400_000, "DOC", "OPC GP SDKO"),
    ("gpt-5.1-codex-max", *_OLDER, 400_000, "DOC", "OPC GP SDKO"),
    ("gpt-5.1-codex-mini", *_OLDER, 400_000, "DOC", "OPC GP"),
    ("gpt-5.1-chat-latest", *_OLDER, 400_000, "DOC", "OPC GP SDKO"),
    ("gpt-5", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5-codex", *_OLDER, 400_000, "DOC", "OPC GP SDKO"),
    ("gpt-5-pro", *_OLDER, 400_000, "DOC", "OPC GP SDKO"),
    ("gpt-5-chat-latest", *_OLDER, 400_000, "DOC", "OPC GP SDKO"),
    ("gpt-5-mini", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-5-nano", *_OLDER, 400_000, "DOC", "LL OPC GP"),
    ("gpt-4.1", *_OLDER, M1, "DOC", "LL OPC GP"),
    ("gpt-4.1-mini", *_OLDER, M1, "DOC", "LL OPC GP"),
    ("gpt-4.1-nano", *_OLDER, M1, "DOC", "OPC GP SDKO"),
    ("gpt-4o", *_OLDER, 128_000, "DOC", "LL OPC GP"),
    ("gpt-4o-2024-05-13", *_OLDER, 128_000, "DOC", "OPC GP SDKO"),
    ("gpt-4o-mini", *_OLDER, 128_000, "DOC", "LL OPC GP"),
    ("o3", *_OLDER, 200_000, "DOC", "LL OPC GP"),
    ("o4-mini", *_OLDER, 200_000, "DOC", "LL OPC GP"),
    ("o3-mini", *_OLDER, 200_000, "DOC", "OPC GP SDKO"),
    ("o1", *_OLDER, 200_000, "DOC", "OPC GP SDKO"),
    ("codex-mini-latest", *_OLDER, 200_000, "DOC", "OPC GP SDKO"),
    ("chatgpt-4o-latest", *_OLDER, 128_000, "DOC", "OPC GP SDKO"),
    ("gpt-4-turbo", *_NEVER, 128_000, "DOC", "OPC GP SDKO"),
    ("gpt-4-1106-preview", *_NEVER, 128_000, "DOC", "OPC GP SDKO"),
    ("gpt-4-0125-preview", *_NEVER, 128_000, "DOC", "OPC GP SDKO"),
    ("gpt-4-vision-preview", *_NEVER, 128_000, "UNSURE", "OPC GP"),  # window as gpt-4-1106-preview
    ("gpt-4-32k", *_NEVER, 32_000, "UNSURE", "GP SDKO"),  # window as the price data has it
    ("gpt-4", *_NEVER, 8_192, "DOC", "OPC GP SDKO"),
    ("gpt-3.5-turbo", *_NEVER, 16_385, "DOC", "OPC GP SDKO"),
)

_GEMINI_COLUMNS = ("name", "min_tokens", "window_tokens")
# The minimum is documented (GEM). Granularity and lifetime of what is cached unasked are unpublished: any prefix, and
# the shortest
# lifetime any provider publishes. Contents made by a call of their own (any lifetime, 1 h by default) are
# `cache.hosted.content_cache`.
_GEMINI_ALL: dict[str, Any] = {
    "provider": "google",
    "cache": "implicit",
    "granularity_tokens": 1,
    "ttls_seconds": (300,),
    "default_ttl_seconds": 300,
    "tokenizer": "bytes",
    "bytes_per_token": 4.0,
    "accepts_prefill": N,
    "accepts_forced_choice": Y,
    "accepts_mid_system": N,
    "strips_thinking": N,
    "binds_thinking": N,
    "confidence": "UNSURE",
    "source": "GEM LL GP GNEW",
}
_GEMINI: tuple[tuple[Any, ...], ...] = (
    ("gemini-4-argon", 4096, 1_048_576),
    ("gemini-4-neon", 4096, 1_048_576),  # minimum and window assumed from its family
    ("gemini-4-carbon", 4096, 1_048_576),  # window assumed from its family, as the next one's
    ("gemini-4-hydrogen", 4096, 1_048_576),
    ("gemini-3.8-flash", 4096, M1),
    ("gemini-3.7-flash", 4096, M1),
    ("gemini-3.6-flash", 4096, M1),
    ("gemini-3.5-flash", 4096, M1),
    ("gemini-3.5-flash-lite", 4096, M1),  # minimum assumed from 3.5-flash
    ("gemini-3.1-pro-preview", 4096, 1_048_576),
    ("gemini-2.5-pro", 2048, 1_048_576),
    ("gemini-2.5-flash", 2048, 1_048_576),
    ("gemini-2.5-flash-lite", 2048, M1),
)

_NOVA_COLUMNS = ("name", "window_tokens")
# Marks as Claude's; the minimum was 1,000 to 1,024 in tables of 2025; what a request may hold is not in the sources at
# hand.
_NOVA_ALL: dict[str, Any] = {
    "provider": "aws",
    "cache": "breakpoints",
    "min_tokens": 1024,
    "granularity_tokens": 1,
    "ttls_seconds": (300,),
    "default_ttl_seconds": 300,
    "tokenizer": "bytes",
    "bytes_per_token": 4.0,
    "accepts_prefill": N,
    "accepts_forced_choice": Y,
    "accepts_mid_system": N,
    "strips_thinking": N,
    "binds_thinking": N,
    "confidence": "UNSURE",
    "source": "BED LL GP",
}
_NOVA: tuple[tuple[Any, ...], ...] = (
    ("amazon.nova-pro-v1:0", 300_000),
    ("amazon.nova-lite-v1:0", 300_000),
    ("amazon.nova-micro-v1:0", 128_000),
)
_OTHER_COLUMNS = (
    "name",
    "provider",
    "cache",
    "min_tokens",
    "granularity_tokens",
    "ttls_seconds",
    "default_ttl_seconds",
    "window_tokens",
    "source",
)
# None of these hosts publishes a minimum, so every row is `UNSURE`: 0 where nothing is known, one step of what others
# observed for Kimi
# (256) and xAI (128). Lifetimes: documented for Kimi and Groq; DeepSeek says hours to days, the least of which is
# taken; of the others the
# shortest lifetime any host publishes. Mistral caches only calls with a `prompt_cache_key`. What a request may hold:
# assumed as OpenAI's.
_OTHER_ALL: dict[str, Any] = {
    "tokenizer": "bytes",
    "bytes_per_token": 4.0,
    "accepts_prefill": N,
    "accepts_forced_choice": Y,
    "accepts_mid_system": Y,
    "strips_thinking": N,
    "binds_thinking": N,
    "confidence": "UNSURE",
}
_BILLED, _XAI, _HOUR = (
    ("billed", 256, 256, (300, 3600), 300),
    ("implicit", 128, 128, (300,), 300),
    ("units", 0, 1, (3600,), 3600),
)
_ANY, _GROQ = ("implicit", 0, 1, (300,), 300), ("implicit", 0, 1, (7200,), 7200)
_QWEN = ("implicit", 1024, 1, (300,), 300)
"""What is cached unasked; marks are written by another kind of request, which has no row."""
_OTHERS: tuple[tuple[Any, ...], ...] = (
    ("deepseek-flash", "deepseek", *_HOUR, M1, "DS GP"),
    ("deepseek-v4-pro", "deepseek", *_HOUR, M1, "DS GP"),
    ("kimi-k3", "moonshotai", *_BILLED, 1_048_576, "KIMI GP"),
    ("kimi-k3.1-pro", "moonshotai", *_BILLED, 1_048_576, "KIMI GP"),
    ("kimi-k2.7-code", "moonshotai", "implicit", 256, 256, (300,), 300, 262_144, "KIMI GP"),
    ("kimi-k2.6", "moonshotai", "implicit", 256, 256, (300,), 300, 262_144, "KIMI GP"),
    ("grok-4.7", "x-ai", *_XAI, 500_000, "XAI GP"),
    ("grok-4.6", "x-ai", *_XAI, 500_000, "XAI GP"),
    ("grok-4.5", "x-ai", *_XAI, 500_000, "XAI GP"),
    ("grok-4.3", "x-ai", *_XAI, M1, "XAI GP"),
    ("openai/gpt-oss-120b", "groq", *_GROQ, 131_072, "GROQ GP"),
    ("openai/gpt-oss-20b", "groq", *_GROQ, 131_072, "GROQ GP"),
    ("mistral-large-4", "mistral", *_ANY, 1_048_576, "MIS GP"),
    ("mistral-medium-3-5", "mistral", *_ANY, 262_144, "MIS GP"),
    ("mistral-small-latest", "mistral", *_ANY, 131_072, "MIS GP"),  # window assumed
    ("GLM-5.3", "zai", *_ANY, M1, "ZAI GP"),
    ("GLM-5.3-Flash", "zai", *_ANY, M1, "ZAI GP"),
    ("GLM-5.2", "zai", *_ANY, M1, "ZAI GP"),
    ("qwen3.8-max", "dashscope", *_QWEN, M1, "QWEN LL"),  # windows assumed
    ("qwen3.8-flash", "dashscope", *_QWEN, M1, "QWEN LL"),
    ("qwen3.7-max", "dashscope", *_QWEN, M1, "QWEN LL"),
    ("accounts/fireworks/models/deepseek-v4p1-flash", "fireworks", *_ANY, M1, "FW GP"),  # window of DeepSeek's own
    ("accounts/fireworks/models/kimi-k2p7-code", "fireworks", *_ANY, 262_144, "FW GP"),
    ("accounts/fireworks/models/glm-5p3", "fireworks", *_ANY, M1, "FW GP"),  # window of Z.ai's own
    ("accounts/fireworks/models/deepseek-v4-flash", "fireworks", *_ANY, 1_040_000, "FW GP"),
    ("accounts/fireworks/models/glm-5p2", "fireworks", *_ANY, 1_040_000, "FW GP"),
    ("accounts/fireworks/models/gpt-oss-120b", "fireworks", *_ANY, 131_072, "FW GP"),
)
_MESSAGE_EFFORT = ("claude-fable-5-1", "claude-mythos-5-1", "claude-opus-5", "claude-opus-5-5", "claude-sonnet-5-5")
"""Claude models that take an effort from one message on (MIDSYS)."""
_CUSTOM_TOOLS = tuple(row[0] for row in _GPT if row[0].startswith(("gpt-5", "gpt-6")))
"""OpenAI's models that know custom tools: GPT-5 and later (CUSTOM)."""
_TOOL_SEARCH = tuple(name for name in _CUSTOM_TOOLS if name.startswith(("gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6")))
"""OpenAI's models that know tool search: GPT-5.4 and later (SEARCH)."""
_CLAUDE_ON_BEDROCK = (
    "claude-opus-5-5",
    "claude-opus-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5-1",
    "claude-opus-4-8",
    "claude-opus-4-7",
)
"""Claude models that Bedrock serves with the rules of their own rows, as `anthropic.` and the name (BED)."""
_RETIRED = {
    "2025-10-28": ("claude-3-5-sonnet",),
    "2026-02-12": ("codex-mini-latest",),
    "2026-02-17": ("chatgpt-4o-latest",),
    "2026-02-19": ("claude-3-7-sonnet", "claude-3-5-haiku"),
    "2026-06-15": ("claude-opus-4", "claude-opus-4-0", "claude-sonnet-4", "claude-sonnet-4-0"),
    "2026-06-30": ("claude-mythos-preview",),
    "2026-07-23": ("gpt-5.1-codex", "gpt-5.1-chat-latest", "gpt-5-chat-latest"),
    "2026-08-10": ("gpt-5.3-chat-latest", "gpt-5.2-chat-latest"),
    "2026-10-23": (
        "gpt-4.1-nano",
        "o4-mini",
        "o3-mini",
        "o1",
        "gpt-4o-2024-05-13",
        "gpt-4-turbo",
        "gpt-4",
        "gpt-3.5-turbo",
    ),
    "2026-11-30": ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
    "2026-12-11": ("gpt-5", "gpt-5-mini", "gpt-5-nano", "o3"),
    "2027-01-14": ("gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini"),
    "2027-01-22": ("claude-opus-4-5", "claude-opus-4-5-20251101"),
    "2027-04-01": ("gpt-5.4-nano", "gpt-5.1"),
}
"""Date of retirement → models (SDKA, SDKO, RETIRE)."""


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
_MODELS |= {row[0]: replace(_MODELS[row[0]], min_tokens=row[5] - 1) for row in _GPT if row[1:5] == _NEVER}
_MODELS |= {name: replace(_MODELS[name], retired_on=date) for date, names in _RETIRED.items() for name in names}
_MODELS |= {
    f"anthropic.{name}": replace(
        _MODELS[name], name=f"anthropic.{name}", provider="aws", source=f"{_MODELS[name].source} BED"
    )
    for name in _CLAUDE_ON_BEDROCK
}
_PROFILES = ("us", "eu", "apac", "global")
"""Regions that an inference profile of Bedrock routes to; its name stands before the model's, whose rules it has
(PROF)."""
_MODELS |= {
    f"{profile}.{row.name}": replace(row, name=f"{profile}.{row.name}", source=f"{row.source} PROF")
    for row in list(_MODELS.values())
    if row.provider == "aws"
    for profile in _PROFILES
}

KNOWN: tuple[Model, ...] = tuple(_MODELS.values())
"""The rows that come with the package, whatever was registered since."""


_KNOWN_NAMES = frozenset(model.name for model in KNOWN)
"""Names of the rows that come with the package."""


class _Table(Mapping[str, Model]):
    """Every known model, those of the user's files read before the first is looked up."""

    def __getitem__(self, name: str) -> Model:
        _read_user_rows()
        return _MODELS[name]

    def __iter__(self) -> Iterator[str]:
        _read_user_rows()
        return iter(tuple(_MODELS))

    def __len__(self) -> int:
        _read_user_rows()
        return len(_MODELS)


MODELS: Mapping[str, Model] = _Table()
"""Every known model by its name: built-in rows, those of the user's files, and registered ones."""


def is_of_another(name: str, model: Model) -> bool:
    """Whether a reply was written by another model, so that its thinking does not hold here: it is bound to its model
    (THINK).

    A dated alias is the same model; a name without a row is taken for it.

    >>> [is_of_another(name, model_named("claude-opus-4-5")) for name in ("claude-opus-4-5-20251101", "claude-sonnet-4-5", "any")]
    [False, True, False]
    """
    row = find_model(name)
    return row is not None and _undated(row.name) != _undated((find_model(model.name) or model).name)


def model_named(name: str, provider: str = "") -> Model:
    """Return the row of a model, or one made after its nearest relative; raises for no string.

    In this order: the row of this name; the row of this name in another spelling (case, vendor's prefix, date,
    `-latest`, release of a host); the row that shares the most leading parts of the name, the newest of equals; the
    newest row of the vendor; the newest row of `provider`, an id as in `Model.provider`; a row of cautious rules. The
    last four are graded `ASSUMED`, and their `source` names the row they were made after. The row has the name asked
    for. Raises `UnknownModel` for what is no string.

    >>> model_named("claude-opus-4-7").min_tokens, model_named("us.anthropic.claude-opus-4-7-v1:0").confidence
    (2048, 'DOC')
    >>> model_named("claude-opus-5-9").source
    'assumed after claude-opus-5-5: no row for this name'
    """
    if not isinstance(name, str):
        raise UnknownModel(f"a model is named by a string, not {type(name).__name__}")
    _read_user_rows()
    known = _MODELS.get(name)
    if known is not None:
        return known
    if len(name) > _LONGEST_NAME:  # never cached: the name itself is what would fill memory
        return replace(_resolved(name[:_LONGEST_NAME], provider, _state()), name=name)
    return _resolved(name, provider, _state())


def find_model(name: str) -> Model | None:
    """Return the table's own row of a model under any spelling of its name, None where there is none and rules would be
    assumed.

    The row has the name it has in the table, so that two spellings of one model can be compared.

    >>> find_model("anthropic/claude-opus-4.5").name, find_model("gpt-7-foo")
    ('claude-opus-4-5', None)
    """
    return MODELS.get(name) or (_found(name, _state()) if len(name) <= _LONGEST_NAME else None)


def assumption(model: Model, way: str = "") -> str:
    """Say, for an assumed row, what was assumed and how to register the model's own rules: `way`, or what a program can
    do.

    >>> assumption(model_named("claude-opus-5-9"))[:77]
    "no rules are known for model 'claude-opus-5-9': assumed after claude-opus-5-5"
    """
    name = model.name if len(model.name) <= 80 else f"{model.name[:77]}..."
    after = model.source.removeprefix("assumed").partition(":")[0].strip() or "cautious rules"
    return f"no rules are known for model {name!r}: assumed {after}. {way or _REGISTERING}"


_REGISTERING = (
    "To give its own, add a [[models]] row to a TOML file and name the file with contextkit.register_models(path), in the environment "
    'variable CONTEXTKIT_MODELS, or in pyproject.toml: [tool.contextkit] models = "models.toml"'
)


def register(model: Model) -> None:
    """Put the user's own row into `MODELS`; one of the same name is replaced.

    >>> from dataclasses import replace
    >>> register(replace(model_named("gpt-4o"), name="our-gpt-4o", source="https://platform.openai.com/docs/models"))
    >>> model_named("our-gpt-4o").granularity_tokens
    128
    """
    _MODELS[model.name] = _PUT[model.name] = model
    _REGISTERED[0] += 1


def register_rows(rows: Iterable[FactRow]) -> None:
    """Register `[[models]]` rows of a file of facts.

    Raises `UsageError` that names the row and the key for one that makes no model.
    """
    for model in [_model_of(row, _MODELS) for row in rows]:
        register(model)


# The user's files
# ------------------------------------------------------------------------------------------------------------

_PUT: dict[str, Model] = {}
"""What a program registered: it comes before every file."""
_READ: list[Any] = [None]
"""`facts.load.state()` of what was read last."""
_COLUMNS = tuple(Model.__dataclass_fields__)
_OPTIONAL = tuple(name for name, column in Model.__dataclass_fields__.items() if column.default is not MISSING)


def read_user_rows() -> None:
    """Read the user's files of facts now instead of at the first look-up.

    Raises `UsageError` for what is wrong in one of them.
    """
    _read_user_rows()


def _read_user_rows() -> None:
    state = load.state()
    if _READ[0] == state:
        return
    table = {model.name: model for model in KNOWN}
    for facts in load.user_facts():
        for row in facts.models:
            model = _model_of(row, table)
            table[model.name] = model
    table |= _PUT
    for name in _MODELS.keys() - table.keys():
        del _MODELS[name]
    _MODELS.update(table)
    _READ[0] = state
    _REGISTERED[0] += 1


def _model_of(row: FactRow, table: Mapping[str, Model]) -> Model:
    """The model a row describes; with `like` it begins as another row of the table."""
    given = {key: value for key, value in row.fields.items() if key in _COLUMNS}
    source = row.fields.get("source") or f"registered by the user in {row.where}"
    origin = {
        "source": source,
        "confidence": row.fields.get("confidence") or ("DOC" if row.fields.get("source") else "UNSURE"),
    }
    like = row.fields.get("like")
    if like is None:
        missing = [name for name in _COLUMNS if name not in given and name not in (*_OPTIONAL, *origin)]
        if missing:
            raise UsageError(
                f'{row.where}: {missing[0]!r} is missing; give it, or begin with another row\'s columns: like = "gpt-5.5"'
            )
        model = Model(**{**given, **origin})
    else:
        start = table.get(like) or next((table[name] for name in _spellings(like) if name in table), None)
        if start is None:
            import difflib

            close = difflib.get_close_matches(like, table, n=3, cutoff=0.4)
            near = f"; close to it are {', '.join(close)}" if close else ""
            raise UsageError(f"{row.where}: like: the table has no model {like!r}{near}")
        model = replace(start, **{"retired_on": "", **given, **origin})
    if "ttls_seconds" in given and "default_ttl_seconds" not in given:
        model = replace(model, default_ttl_seconds=model.ttls_seconds[0])
    if model.default_ttl_seconds not in model.ttls_seconds:
        raise UsageError(f"{row.where}: default_ttl_seconds must be one of ttls_seconds, {list(model.ttls_seconds)}")
    return model


# Names
# ---------------------------------------------------------------------------------------------------------------------

_LONGEST_NAME = 256
"""Characters of a name that are compared; no provider has longer ones."""
_REGISTERED = [0]
"""How often a row was registered: what was looked up before may be another row now."""
_ON_BEDROCK = re.compile(
    r"^(?:(?:us|eu|apac|global|us-gov|au|ca|jp|regional)\.)?"
    r"(?:anthropic|amazon|meta|mistral|openai|deepseek|qwen|moonshotai|moonshot|zai|google|cohere|ai21|writer|nvidia|minimax)\."
)
"""How Bedrock names a model: region of the profile, vendor, name (PROF)."""
_DATE = re.compile(
    r"(?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d|\d\d-\d\d|\d\d-20\d\d|\d{4}|00\d|default))?"
    r"(?:[-@](?:latest|preview))?(?:[-@]v\d+)?(?::\d+)?$"
)
"""A snapshot or release behind a name: `-20251101`, `@20251101`, `-2026-04-23`, `-0613`, `-latest`, `-v1:0`, `-001`;
not `-6`."""
_TAG = re.compile(r"(?::[a-z][a-z-]*|\[\w+\])$")
"""What a router or a client puts behind a name: `:free`, `:nitro`, `[1m]`."""
_FINE_TUNED = re.compile(r"^ft:([^:]+)(?::.*)?$")
"""`ft:gpt-4o-mini-2024-07-18:organisation::id`."""
_VERSION_FIRST = re.compile(r"^claude-(\d(?:-\d)?)-(opus|sonnet|haiku)$")
"""`claude-4.6-sonnet` for `claude-sonnet-4-6` (OpenRouter)."""
_ALIASES = {
    "gpt-5-6": "gpt-5.6-sol",  # GP
    "gpt-35-turbo": "gpt-3.5-turbo",  # Azure's spelling
    "gemini-pro": "gemini-3.1-pro-preview",  # with -latest, as the two below: GP
    "gemini-flash": "gemini-3.8-flash",
    "gemini-flash-lite": "gemini-3.5-flash-lite",
}
"""Other names of a model, spelled as `_spellings` ends."""
_SYNONYMS = {
    "chatgpt": "gpt",
    "davinci": "gpt",
    "moonshot": "kimi",
    "mixtral": "mistral",
    "magistral": "mistral",
    "codestral": "mistral",
    "ministral": "mistral",
    "devstral": "mistral",
    "pixtral": "mistral",
    "voxtral": "mistral",
}
"""Part of a name → the vendor's word that rows have."""
_VENDORS = {
    "claude": "anthropic",
    "opus": "anthropic",
    "sonnet": "anthropic",
    "haiku": "anthropic",
    "fable": "anthropic",
    "mythos": "anthropic",
    "gpt": "openai",
    "codex": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "gemini": "google",
    "nova": "aws",
    "deepseek": "deepseek",
    "kimi": "moonshotai",
    "grok": "x-ai",
    "mistral": "mistral",
    "glm": "zai",
    "qwen": "dashscope",
}
"""Where a name begins to say what model it is → whose it is; what stands before is a deployment's own words."""
_HOSTS = {"azure": "openai", "azure-openai": "openai", "bedrock": "aws", "vertex": "google", "vertex_ai": "google"}
"""Other names for a provider, as logs have them."""
_CAUTIOUS = Model(
    name="",
    provider="",
    cache="implicit",
    min_tokens=1024,
    granularity_tokens=128,
    ttls_seconds=(300,),
    default_ttl_seconds=300,
    window_tokens=128_000,
    tokenizer="bytes",
    bytes_per_token=4.0,
    accepts_prefill=N,
    accepts_forced_choice=Y,
    accepts_mid_system=N,
    strips_thinking=N,
    binds_thinking=N,
    confidence="ASSUMED",
    source="assumed: no row for this name, and none that is near it",
)
"""Rules of a model of which nothing is known: cached unasked, as at most hosts, for the shortest lifetime any of them
publishes."""


def _state() -> tuple[int, int]:
    return _REGISTERED[0], len(_MODELS)


@lru_cache(maxsize=1024)
def _resolved(name: str, provider: str, state: tuple[int, int]) -> Model:
    """The row behind a name that has none; `state` changes with the table."""
    is_bedrock = bool(_ON_BEDROCK.match(name.lower())) or name.startswith("arn:aws")
    row = _found(name, state)
    if row is not None:
        return replace(row, name=name, provider="aws" if is_bedrock else row.provider)
    owner = "aws" if is_bedrock else _HOSTS.get(provider, provider)
    near = _nearest(name, state) or (_newest(owner, state) if owner != "openai" else None)
    if (
        near is None
    ):  # many hosts speak OpenAI's formats: a model unlike any of its own is not sent the fields of its newest
        return replace(_CAUTIOUS, name=name, provider=owner if owner in ("aws", "openai") else "")
    source = f"assumed after {near.name}: no row for this name"
    return replace(
        near,
        name=name,
        provider="aws" if is_bedrock else near.provider,
        confidence="ASSUMED",
        source=source,
        retired_on="",
    )


@lru_cache(maxsize=1024)
def _found(name: str, state: tuple[int, int]) -> Model | None:
    index = _index(state)
    return next((index[spelling] for spelling in _spellings(name) if spelling in index), None)


@lru_cache(maxsize=2)
def _index(state: tuple[int, int]) -> dict[str, Model]:
    """Every row by its spelling; a vendor's own row before that of a host."""
    rows = sorted(_MODELS.values(), key=lambda row: bool(_ON_BEDROCK.match(row.name)))
    index: dict[str, Model] = {}
    for row in rows:
        index.setdefault(_key(row.name), row)
        if "/" not in row.name:  # a host's own row, `openai/gpt-oss-120b`, says nothing of the same model elsewhere
            index.setdefault(_key(_bare(row.name)), row)
    return index


def _key(name: str) -> str:
    return re.sub(r"[._ ]", "-", name.lower())


def _bare(name: str) -> str:
    """A name without what a host, a router or a client puts around it, in lower case."""
    bare = name.strip().lower().rsplit("/", 1)[-1].lstrip("~")
    bare = _FINE_TUNED.sub(r"\1", bare)
    return _TAG.sub("", _TAG.sub("", _ON_BEDROCK.sub("", bare)))


def _undated(name: str) -> str:
    return _DATE.sub("", name)


def _spellings(name: str) -> Iterator[str]:
    """The names a row may have for it, the most exact first."""
    bare = _bare(name)
    yield _key(name)
    yield _key(_undated(name.lower()))
    yield _key(bare)
    undated = _key(_undated(bare))
    yield undated
    if "latest" in bare or undated == _key(bare):
        alias = _ALIASES.get(undated)
        if alias and ("latest" in bare or not alias.startswith("gemini")):
            yield _key(alias)
    yield _VERSION_FIRST.sub(r"claude-\2-\1", undated)


def _nearest(name: str, state: tuple[int, int]) -> Model | None:
    """The row with the most leading parts in common.

    Of equals one of the same release, one that is all in the name, the first.
    """
    asked = next(_from_anchor(name), None)
    if asked is None:
        return None
    best = max(_anchored(state), key=lambda pair: _likeness(asked, pair[0]), default=None)
    if best is not None and _likeness(asked, best[0])[0]:
        return best[1]
    return _newest(_VENDORS.get(asked[0], "openai"), state)


def _likeness(asked: tuple[str, ...], parts: tuple[str, ...]) -> tuple[int, bool, bool]:
    n = 0
    while n < min(len(asked), len(parts)) and asked[n] == parts[n]:
        n += 1
    if n < 2:  # one word, such as `claude`, says nothing of the release
        return n, False, False
    goes_on = [rest[n].isdigit() for rest in (asked, parts) if len(rest) > n]
    is_same_release = len(set(goes_on)) < 2 and not (len(goes_on) == 1 and goes_on[0])
    return n, is_same_release, n == len(parts) and not any(goes_on)


@lru_cache(maxsize=2)
def _anchored(state: tuple[int, int]) -> tuple[tuple[tuple[str, ...], Model], ...]:
    """Every row's parts, from each word on that a name may begin with; a vendor's own rows before those of hosts.

    Without rows that a program registered: an adapter of a host registers each model it is given, and what is assumed
    of a name must not depend on which came before.
    """
    relatives = [row for row in tuple(_MODELS.values()) if row.name in _KNOWN_NAMES or row.name not in _PUT]
    rows = sorted(relatives, key=lambda row: "/" in row.name or bool(_ON_BEDROCK.match(row.name)))
    return tuple((parts, row) for row in rows for parts in _from_anchor(row.name))


def _from_anchor(name: str) -> Iterator[tuple[str, ...]]:
    """The parts of a name from each word on that says what model it is."""
    words = re.split(r"[^a-z0-9]+|(?<=[a-z]{3})(?=\d)", _undated(_bare(name)))
    parts = [_SYNONYMS.get(word, word) for word in words if word]
    for at, part in enumerate(parts):
        if part in _VENDORS or re.fullmatch(r"o\d", part):
            yield tuple(parts[at:])


def _newest(provider: str, state: tuple[int, int]) -> Model | None:
    """The first row of a provider: each provider's rows stand newest first."""
    return next((row for _, row in _anchored(state) if row.provider == provider), None)
