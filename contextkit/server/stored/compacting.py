"""Compaction as OpenAI does it: a call of its own, an item that asks for it, a threshold that brings it about.

Takes request bodies and what the script says, gives output items. What is said in answer to the first two is the
summary, encrypted to nobody: its text in base64. Field names are those of `openai.types.responses` 3.52
(compacted_response.py, response_compaction_item.py).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

from contextkit.canonical import Json, canonical

TRIGGER = "compaction_trigger"


def compaction(said: Iterable[Json], name: str) -> dict[str, Json]:
    """The item that stands for everything before it; `said` is what it holds."""
    return {
        "id": f"cmp_{name}",
        "type": "compaction",
        "encrypted_content": base64.b64encode(canonical(list(said))).decode(),
    }


def compacted(body: Mapping[str, Json], said: list[dict[str, Json]], n_tokens: int, name: str) -> list[dict[str, Json]]:
    """What is said in answer to `body`, a prompt of `n_tokens`, with the summary it asks for."""
    given = body.get("input")
    if isinstance(given, list) and given and given[-1].get("type") == TRIGGER:
        return [compaction(said, name)]
    rules = [rule for rule in body.get("context_management") or () if rule.get("type") == "compaction"]
    is_due = any(n_tokens >= (rule.get("compact_threshold") or n_tokens + 1) for rule in rules)
    return [compaction((), name), *said] if is_due else said
