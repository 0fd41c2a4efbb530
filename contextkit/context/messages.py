"""Conversations as the message lists of other programs.

`message_fields` gives what a request holds of the conversation, as `Context.messages` returns it.
"""

from __future__ import annotations

from typing import Any

from contextkit.canonical import Json, parse
from contextkit.prompt.prompt import PromptLayout
from contextkit.providers.keyed_blocks import RAW, unpacked


def message_fields(wire: str, layout: PromptLayout) -> dict[str, Any]:
    """The fields of a request body that hold the prompt, without breakpoints; `bytes` where the SDK takes them."""
    fields: dict[str, Json] = parse(PromptLayout(layout.columns, layout.n).body(b"{}"))
    raw = RAW.get(wire)
    return fields if raw is None else unpacked(fields, raw)
