"""Claude Code's billing header: a system block that is no part of the prompt, which is an assumption.

Claude Code opens its system prompt with a text block of its own, `x-anthropic-billing-header: cc_version=2.1.197.996;
cc_entrypoint=cli;`. The last part of the version is a hash that differs after `/compact`, in sub-agents and between
sessions. Public evidence on what the API makes of it conflicts: some reports say that it is taken out before the prompt
is cached, others that it ends the cached prefix. Assumed here: it is taken out (`neutral`), so the block enters no
cache key and counts no tokens. `significant` treats it as any other text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from contextkit.canonical import Json

BillingHeader = Literal["neutral", "significant"]
"""What the cache makes of the block."""
_PREFIX = "x-anthropic-billing-header:"


def is_billing_header(block: Json) -> bool:
    """Whether a system block holds the header, and nothing else.

    >>> is_billing_header({"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.996; cc_entrypoint=cli;"})
    True
    >>> is_billing_header({"type": "text", "text": "x-anthropic-billing-header: a\\nYou are Claude Code."})
    False
    """
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return isinstance(text, str) and text.startswith(_PREFIX) and "\n" not in text.strip()
