"""Captured calls for the tests of the request detector: a small conversation on each wire, and what can be asked of it."""

from __future__ import annotations

import json
from typing import Any

from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.parsed_call import ParsedCall, parse_call

Json = Any
WORDS = "You are a careful researcher; you say where a number comes from. " * 120
MODELS = {
    "anthropic_messages": ("anthropic", "claude-sonnet-4-6"),
    "openai_chat": ("openai", "gpt-4o"),
    "openai_responses": ("openai", "gpt-5.1"),
    "gemini": ("google", "gemini-2.5-pro"),
    "bedrock_converse": ("aws", "anthropic.claude-opus-4-7"),
}
SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}}


def spelled(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def call(
    body: Json, number: int = 0, wire: str = "anthropic_messages", *, session: str = "s", lane: str = "main"
) -> ModelCall:
    provider, model = MODELS[wire]
    raw = body if isinstance(body, bytes) else spelled(body)
    at = 1_760_000_000.0 + 10 * number
    return ModelCall(f"r{number}", session, lane, at, at + 1, at + 2, provider, model, Bodies(raw), None, None, None)


def sent(body: Json, wire: str = "anthropic_messages", before: ParsedCall | None = None) -> ParsedCall:
    made = parse_call(call(body, wire=wire), before)
    assert made is not None
    return made


def anthropic(*messages: Json, system: Json = WORDS, tools: Json = (), mark: bool = True, **params: Json) -> Json:
    """A request whose last block is marked."""
    said = [dict(message) for message in messages]
    if mark:
        blocks = [dict(block) for block in said[-1]["content"]]
        blocks[-1]["cache_control"] = {"type": "ephemeral"}
        said[-1]["content"] = blocks
    return {
        "model": "claude-sonnet-4-6",
        "max_tokens": 9,
        "tools": list(tools),
        "system": system,
        "messages": said,
        **params,
    }


def user(*texts: str) -> Json:
    return {"role": "user", "content": [text(one) for one in texts]}


def assistant(*texts: str) -> Json:
    return {"role": "assistant", "content": [text(one) for one in texts]}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def tool(name: str, description: str = "does it") -> Json:
    return {"name": name, "description": description, "input_schema": SCHEMA}


def paths(blocks: Any) -> list[str]:
    return [block.path for block in blocks]
