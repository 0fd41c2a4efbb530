"""Parses responses of Gemini, and joins the chunks of a stream into one.

Field names are those of `google.genai.types` 3.4: GenerateContentResponse, UsageMetadata, FinishReason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.errors import UnreadableReply
from contextkit.providers.gemini.parts import camel_cased
from contextkit.providers.keyed_blocks import KeyedFormat, packed, parse_blocks
from contextkit.providers.provider import Reply
from contextkit.providers.reply_json import plain, read_object
from contextkit.providers.usage import endpoint_usage

STOPS = {"STOP": "done", "MAX_TOKENS": "truncated", "FINISH_REASON_UNSPECIFIED": "done", "CONTINUATION": "paused"}
"""`finishReason` → next step of the loop; every other is a refusal, of the prompt or of the reply."""


def reply(format: KeyedFormat, response: Any) -> Reply:
    """Parse a `GenerateContentResponse`, its dict, or a joined stream."""
    answer: dict[str, Any] = camel_cased(plain(packed(response)))
    candidates = answer.get("candidates") or []
    if not candidates and "promptFeedback" not in answer and "usageMetadata" not in answer:
        raise UnreadableReply(
            "not an answer of Gemini (no candidates): pass what client.models.generate_content returned"
        )
    first: dict[str, Any] = candidates[0] if candidates else {"finishReason": "SAFETY"}
    parts = [
        _with_object(part) for part in (first.get("content") or {}).get("parts") or [] if part not in ({"text": ""}, {})
    ]
    native, text, calls = parse_blocks(format, parts, answer.get("modelVersion", ""))
    stop = STOPS.get(first.get("finishReason", "STOP"), "refused")
    name = (
        answer.get("responseId")
        or f"gemini-{blake2b(canonical([parts, answer.get('usageMetadata')]), digest_size=8).hexdigest()}"
    )
    return Reply(
        name,
        native,
        text,
        calls,
        "calls" if calls and stop == "done" else stop,
        endpoint_usage(format.wire, answer.get("usageMetadata")),
    )


def _with_object(part: Mapping[str, Json]) -> Mapping[str, Json]:
    """A part whose arguments are an object, as requests require."""
    call = part.get("functionCall")
    if not isinstance(call, Mapping) or call.get("args") is None:
        return part
    return {**part, "functionCall": {**call, "args": read_object(call["args"])}}


def is_complete(response: Mapping[str, Json]) -> bool:
    """Return whether a finish reason came, or none will."""
    return bool("promptFeedback" in response or response["candidates"][0].get("finishReason"))


def joined(events: Iterable[Any]) -> Mapping[str, Json]:
    """Join chunks into a response; a truncated stream gives the part that arrived."""
    answer: dict[str, Json] = {}
    parts: list[dict[str, Json]] = []
    for event in (camel_cased(plain(packed(event))) for event in events):
        first = (event.pop("candidates", None) or [{}])[0]
        for part in (first.get("content") or {}).get("parts") or []:
            _grow(parts, part)
        ended = {"finishReason": first["finishReason"]} if "finishReason" in first else {}
        answer = {**answer, **event, "candidates": [{**(answer.get("candidates") or [{}])[0], **ended}]}
    if not answer:
        raise UnreadableReply("the stream ended before its first chunk: nothing was said")
    answer["candidates"][0]["content"] = {"role": "model", "parts": parts}
    return answer


def _grow(parts: list[dict[str, Json]], part: dict[str, Json]) -> None:
    """Append a part; text continues the part before it where both are text, or both thoughts, and neither is signed."""
    last = parts[-1] if parts else {}
    if "text" in part and part.keys() == last.keys() and part.keys() <= {"text", "thought"}:
        last["text"] += part["text"]
    else:
        parts.append(dict(part))
