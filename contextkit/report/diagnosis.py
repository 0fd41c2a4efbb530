"""How the provider's own verdict on a miss compares with our cause."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_MEANS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "model_changed": ("model_changed",),
        "system_changed": ("system_changed",),
        "tools_changed": ("tools_changed",),
        "messages_changed": ("messages_changed", "compaction"),
        "input_changed": ("messages_changed", "compaction"),
        "service_tier_changed": ("params_changed",),
        "prompt_cache_key_changed": ("params_changed",),
    }
)
"""A provider's verdict → the causes of ours that say the same: Anthropic's `cache_miss_reason`, OpenAI's
`prompt_cache_diagnostics`. A compaction is a changed history to a provider, who is not told that it was meant."""
_SILENT = frozenset({"unavailable", "previous_message_not_found", "comparison_response_not_found", "cache_hit", ""})
"""Verdicts that name no cause."""


def is_agreed(cause: str, verdict: str) -> bool | None:
    """Return whether the provider's verdict says the same as our cause; None if it says nothing that can be compared.

    >>> is_agreed("compaction", "messages_changed"), is_agreed("ttl_expired", "system_changed"), is_agreed("unknown", "unavailable")
    (True, False, None)
    """
    return None if verdict in _SILENT else cause in _MEANS.get(verdict, (verdict,))


def provider_says(cause: str, verdict: str) -> str:
    """Format the verdict beside our cause in a word or two; empty where there is none.

    >>> provider_says("tools_changed", "tools_changed"), provider_says("unknown", "system_changed"), provider_says("unknown", "")
    ('agrees', 'says system_changed', '')
    """
    return {True: "agrees", False: f"says {verdict}", None: verdict and f"({verdict})"}[is_agreed(cause, verdict)]
