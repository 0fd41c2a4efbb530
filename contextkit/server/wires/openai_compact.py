"""`POST /v1/responses/compact` as OpenAI answers it: the user's messages, and one item that stands for the rest.

Field names are those of `openai.types.responses.CompactedResponse` 3.52. Assumed: it is billed as the prompt it was
given, which has no tools.
"""

from __future__ import annotations

from dataclasses import replace

from contextkit.canonical import Json
from contextkit.server.refusals.openai import COMPACT_EARLY
from contextkit.server.refusals.openai_shape import COMPACT
from contextkit.server.stored.compacting import compaction
from contextkit.server.wires.openai_responses import WIRE as RESPONSES
from contextkit.server.wires.openai_responses import items, usage
from contextkit.server.wires.wire import Answer


def whole(answer: Answer) -> Json:
    """A `CompactedResponse`."""
    given = answer.body["input"]
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    users = [item for item in listed if item.get("type", "message") == "message" and item["role"] == "user"]
    shown = [
        {
            "type": "message",
            "id": f"msg_{answer.number}_{place}",
            "status": "completed",
            **item,
            "content": _parts(item["content"]),
        }
        for place, item in enumerate(users)
    ]
    name = str(answer.number)
    return {
        "id": answer.id,
        "object": "response.compaction",
        "created_at": answer.at,
        "output": [*shown, compaction(items(answer.parts, name), name)],
        **answer.billed(usage(answer.usage, answer.thinking_tokens)),
    }


def _parts(content: Json) -> list[Json]:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


WIRE = replace(
    RESPONSES,
    early=COMPACT_EARLY,
    whole=whole,
    told=lambda asked: {},
    kept=lambda stored, asked, answer: None,
    fields=frozenset(COMPACT),
)
