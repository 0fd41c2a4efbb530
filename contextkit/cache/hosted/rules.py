"""How hosted providers cache, one row each.

Takes nothing, gives `HOSTED`; the classes that follow a row are chosen in `hosted_cache`. Knows nothing of models or
prices.

A cell that no documentation states is named in `unsure`; it is then a stated default, to be replaced with
`dataclasses.replace`. Where a lifetime is unpublished the shortest one any provider publishes stands in, so that a
prediction errs towards a miss; where a granularity is, any prefix is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from contextkit.cache.breakpoint_cache import Moment, Renewal

Kind = Literal["implicit", "breakpoints", "units"]
"""Any prefix that was sent; prefixes up to marks; whole persisted units."""

UNPUBLISHED_SECONDS = 300
"""Stands in for a lifetime nobody published."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How one provider caches."""

    kind: Kind
    """Which class follows it."""
    min_tokens: int = 0
    """Shorter prefixes are not cached."""
    granularity_tokens: int = 1
    """A read is rounded down to a multiple; for `units` the distance at which long inputs are cut, 0 for never."""
    ttl_seconds: int = UNPUBLISHED_SECONDS
    """Lifetime where a request asks for none."""
    ttls_seconds: tuple[int, ...] = ()
    """Lifetimes a mark may ask for; empty for any, or none."""
    visible_at: Moment = "publish"
    """When what a request writes becomes readable."""
    renewal: Renewal = "entry"
    """Whose lifetime a read gives again."""
    bills_writes: bool = False
    """Whether writing has a counter of its own."""
    is_opt_in: bool = False
    """Whether only requests that ask are cached: those whose prompt carries a breakpoint."""
    max_marks: int = 0
    """Marks of a request that count, the last ones."""
    lookback: int = 0
    """Blocks a lookup visits from a mark, 0 for what the mark says."""
    n_servers: int = 1
    """Servers that each have a cache of their own."""
    per_minute: int = 0
    """Requests a minute of one key beyond which another server answers, 0 for never."""
    sticky_seconds: float = 0
    """How long a key stays with its server while idle, 0 for ever."""
    provider: str = ""
    """The id prices are looked up under, empty where there are none."""
    unsure: frozenset[str] = frozenset()
    """Cells that no documentation states."""
    source: str = ""
    """Where the row comes from."""


def _unsure(*names: str) -> frozenset[str]:
    return frozenset(names)


_OPENAI = "https://developers.openai.com/api/docs/guides/prompt-caching"
_GEMINI = "https://ai.google.dev/gemini-api/docs/caching"
_QWEN = "https://www.alibabacloud.com/help/en/model-studio/context-cache"
_BEDROCK = "https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html"

_MARKED = Rule(
    "breakpoints",
    1024,
    ttl_seconds=1800,
    ttls_seconds=(1800, 43200),
    bills_writes=True,
    per_minute=15,
    provider="openai",
    unsure=_unsure("visible_at", "n_servers"),
    source=_OPENAI,
)
_IMPLICIT = Rule(
    "implicit",
    1024,
    128,
    86400,
    per_minute=15,
    provider="openai",
    unsure=_unsure("visible_at", "n_servers"),
    source=_OPENAI,
)
_QWEN3 = Rule(
    "breakpoints",
    1024,
    ttl_seconds=300,
    ttls_seconds=(300,),
    visible_at="end",
    bills_writes=True,
    max_marks=4,
    lookback=20,
    unsure=_unsure("max_marks"),
    source=_QWEN,
)
_CLAUDE_ON_BEDROCK = Rule(
    "breakpoints",
    512,
    ttl_seconds=300,
    ttls_seconds=(300, 3600),
    bills_writes=True,
    max_marks=4,
    lookback=20,
    provider="aws",
    unsure=_unsure("max_marks"),
    source=_BEDROCK,
)

HOSTED: Mapping[str, Rule] = MappingProxyType(
    {
        "openai": _MARKED,
        "openai-5.5": replace(_IMPLICIT, granularity_tokens=2048),
        "openai-older": _IMPLICIT,
        "openai-in-memory": replace(_IMPLICIT, ttl_seconds=300),
        "azure-openai": replace(
            _MARKED,
            ttls_seconds=(1800,),
            provider="azure",
            source="https://learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching",
        ),
        "gemini": Rule(
            "implicit",
            4096,
            provider="google",
            unsure=_unsure("granularity_tokens", "ttl_seconds", "visible_at"),
            source=_GEMINI,
        ),
        "deepseek": Rule(
            "units",
            0,
            0,
            10_800,
            provider="deepseek",
            unsure=_unsure("granularity_tokens", "ttl_seconds", "visible_at"),
            source="https://api-docs.deepseek.com/guides/kv_cache",
        ),
        "kimi": Rule(
            "implicit",
            256,
            256,
            300,
            (300, 3600),
            bills_writes=True,
            provider="moonshotai",
            unsure=_unsure("min_tokens", "granularity_tokens", "visible_at"),
            source="https://forum.moonshot.ai/t/context-caching-upgrade-5-min-1-hour-ttl-options/613",
        ),
        "qwen-explicit": _QWEN3,
        "qwen-implicit": Rule(
            "implicit",
            256,
            unsure=_unsure("min_tokens", "granularity_tokens", "ttl_seconds", "visible_at"),
            source=_QWEN,
        ),
        "qwen4": replace(
            _QWEN3,
            ttls_seconds=(300, 3600),
            renewal="request",
            unsure=_unsure("max_marks", "visible_at"),
            source="https://www.alibabacloud.com/help/en/model-studio/explicit-cache-qwen4",
        ),
        "bedrock-claude": _CLAUDE_ON_BEDROCK,
        "bedrock-nova": replace(
            _CLAUDE_ON_BEDROCK,
            min_tokens=1024,
            ttls_seconds=(300,),
            unsure=_unsure("min_tokens", "max_marks", "lookback"),
        ),
        "xai": Rule(
            "implicit",
            128,
            128,
            n_servers=8,
            provider="x-ai",
            unsure=_unsure("min_tokens", "granularity_tokens", "ttl_seconds", "n_servers"),
            source="https://docs.x.ai/developers/advanced-api-usage/prompt-caching",
        ),
        "groq": Rule(
            "implicit",
            ttl_seconds=7200,
            provider="groq",
            unsure=_unsure("min_tokens", "granularity_tokens", "visible_at"),
            source="https://console.groq.com/docs/prompt-caching",
        ),
        "mistral": Rule(
            "implicit",
            is_opt_in=True,
            provider="mistral",
            unsure=_unsure("min_tokens", "granularity_tokens", "ttl_seconds", "visible_at"),
            source="https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching",
        ),
        "zai": Rule(
            "implicit",
            provider="zai",
            unsure=_unsure("min_tokens", "granularity_tokens", "ttl_seconds", "visible_at"),
            source="https://docs.z.ai/guides/capabilities/cache",
        ),
        "fireworks": Rule(
            "implicit",
            n_servers=8,
            provider="fireworks",
            unsure=_unsure("min_tokens", "granularity_tokens", "ttl_seconds", "visible_at", "n_servers"),
            source="https://docs.fireworks.ai/guides/prompt-caching.md",
        ),
        "openrouter": Rule(
            "implicit",
            n_servers=8,
            sticky_seconds=600,
            provider="openrouter",
            unsure=_unsure("n_servers"),
            source="https://openrouter.ai/docs/guides/best-practices/prompt-caching",
        ),
        "openrouter-gemini": Rule(
            "breakpoints",
            4096,
            ttls_seconds=(300,),
            renewal="never",
            max_marks=1,
            n_servers=8,
            sticky_seconds=600,
            provider="openrouter",
            unsure=_unsure("n_servers", "visible_at"),
            source="https://openrouter.ai/docs/guides/best-practices/prompt-caching",
        ),
    }
)
"""Provider, and mode where it has several → its rule."""
