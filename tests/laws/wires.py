"""The endpoints as the laws see them: a provider, what its model answers, and a local provider that bills like the real
one."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from contextkit import AnthropicMessages, OpenAIChat, OpenAIResponses
from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.models import model_named
from contextkit.providers import BedrockConverse, Gemini
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.openai_compatible import OpenAICompatible
from contextkit.providers.provider import Provider
from tests.scale import cases

Json = Any

PROVIDERS: dict[str, Callable[[], Provider]] = {
    "anthropic": lambda: AnthropicMessages("claude-sonnet-5-5", max_tokens=1024),
    "anthropic-1h": lambda: AnthropicMessages("claude-opus-4-8", max_tokens=1024, ttl="5m", head_ttl="1h"),
    "anthropic-strips": lambda: AnthropicMessages("claude-sonnet-4-5", max_tokens=1024),
    "chat": lambda: OpenAIChat("gpt-6.1-sol", max_tokens=1024),
    "chat-implicit": lambda: OpenAIChat("gpt-5.4-mini", prompt_cache_key="k", system_role="system"),
    "compatible-vllm": lambda: OpenAICompatible(
        "Qwen/Qwen3-8B", host="vllm", session="s", salt="t", call_format="qwen"
    ),
    "compatible-kimi": lambda: OpenAICompatible("kimi-k3", host="kimi", session="s", max_tokens=1024),
    "responses": lambda: OpenAIResponses("gpt-6.1-sol", max_output_tokens=1024, ttl="12h"),
    "responses-explicit": lambda: OpenAIResponses("gpt-6-sol", prompt_cache_options={"mode": "explicit"}),
    "bedrock": lambda: BedrockConverse("anthropic.claude-sonnet-5-5", max_tokens=1024, head_ttl="1h"),
    "gemini": lambda: Gemini("gemini-2.5-pro", max_tokens=1024),
}
"""Name → a provider as a user makes it."""
RULE_CLASSES = ["anthropic", "anthropic-strips", "chat", "compatible-vllm", "responses", "bedrock", "gemini"]
"""One of each format and way of writing a prompt. The others differ in lifetimes, keys and cache modes: they bill otherwise."""
TRIED = cases(RULE_CLASSES, PROVIDERS)


@dataclass
class Server:
    """A provider that sees nothing but bodies, and bills by the reference cache."""

    caches: dict[str, PrefixCache[Prompt]] = field(default_factory=dict)

    def bill(self, wire: str, body: bytes, at: float) -> Usage:
        """What the request `body` costs."""
        parsed = PARSERS[wire](parse(body))
        cache = self.caches.setdefault(parsed.model, reference_cache(model_named(parsed.model)))
        lease = cache.begin(parsed.prompt, at)
        cache.publish(lease, at)
        return lease.usage


def answer(wire: str, name: str, said: list[Json], usage: Usage, stop: str | None = None) -> Json:
    """A response that says `said`: ("text", t) | ("thinking", t, signature) | ("call", id, name, arguments)."""
    return _ANSWERS[wire](name, said, usage, stop)


def _anthropic(name: str, said: list[Json], usage: Usage, stop: str | None) -> Json:
    blocks: list[Json] = []
    for kind, *rest in said:
        if kind == "text":
            blocks.append({"citations": None, "text": rest[0], "type": "text"})
        elif kind == "thinking":
            blocks.append({"type": "thinking", "thinking": rest[0], "signature": rest[1]})
        else:
            blocks.append({"type": "tool_use", "id": rest[0], "name": rest[1], "input": rest[2]})
    counters = {
        "input_tokens": usage.fresh,
        "cache_read_input_tokens": usage.read,
        "output_tokens": 7,
        "cache_creation_input_tokens": (usage.write_5m or 0) + (usage.write_1h or 0),
        "cache_creation": {"ephemeral_5m_input_tokens": usage.write_5m, "ephemeral_1h_input_tokens": usage.write_1h},
    }
    reason = stop or ("tool_use" if any(kind == "call" for kind, *_ in said) else "end_turn")
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": counters,
    }


def _written(arguments: Json) -> str:
    """As a model writes them: not in our spelling."""
    return json.dumps(arguments, ensure_ascii=True)


def _chat(name: str, said: list[Json], usage: Usage, stop: str | None) -> Json:
    text = "".join(rest[0] for kind, *rest in said if kind == "text")
    calls = [
        {"id": rest[0], "type": "function", "function": {"name": rest[1], "arguments": _written(rest[2])}}
        for kind, *rest in said
        if kind == "call"
    ]
    message = {
        "role": "assistant",
        "content": text or None,
        "refusal": None,
        **({"tool_calls": calls} if calls else {}),
    }
    return {
        "id": name,
        "object": "chat.completion",
        "model": "gpt",
        "created": 1,
        "usage": {
            "prompt_tokens": usage.prompt,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": usage.read, "cache_write_tokens": usage.write_5m},
        },
        "choices": [
            {
                "index": 0,
                "finish_reason": stop or ("tool_calls" if calls else "stop"),
                "logprobs": None,
                "message": message,
            }
        ],
    }


def _responses(name: str, said: list[Json], usage: Usage, stop: str | None) -> Json:
    items: list[Json] = []
    for index, (kind, *rest) in enumerate(said):
        if kind == "text":
            content = [{"type": "output_text", "text": rest[0], "annotations": [], "logprobs": []}]
            items.append(
                {
                    "type": "message",
                    "id": f"msg_{name}_{index}",
                    "role": "assistant",
                    "status": "completed",
                    "content": content,
                }
            )
        elif kind == "thinking":
            items.append({"type": "reasoning", "id": f"rs_{name}_{index}", "summary": [], "encrypted_content": rest[1]})
        else:
            items.append(
                {
                    "type": "function_call",
                    "id": f"fc_{name}_{index}",
                    "call_id": rest[0],
                    "name": rest[1],
                    "arguments": _written(rest[2]),
                    "status": "completed",
                }
            )
    written = (usage.write_5m or 0) + (usage.write_1h or 0)
    return {
        "id": name,
        "object": "response",
        "model": "gpt",
        "status": "completed",
        "output": items,
        "usage": {
            "input_tokens": usage.prompt,
            "output_tokens": 7,
            "input_tokens_details": {
                "cached_tokens": usage.read,
                "cache_write_tokens": written,
                "cache_write_tokens_details": {"ttl_12h_tokens": usage.write_1h},
            },
        },
    }


def _bedrock(name: str, said: list[Json], usage: Usage, stop: str | None) -> Json:
    blocks: list[Json] = []
    for kind, *rest in said:
        if kind == "text":
            blocks.append({"text": rest[0]})
        elif kind == "thinking":
            blocks.append({"reasoningContent": {"reasoningText": {"text": rest[0], "signature": rest[1]}}})
        else:
            blocks.append({"toolUse": {"toolUseId": rest[0], "name": rest[1], "input": rest[2]}})
    counters = {
        "inputTokens": usage.fresh,
        "outputTokens": 7,
        "totalTokens": (usage.prompt or 0) + 7,
        "cacheReadInputTokens": usage.read,
        "cacheWriteInputTokens": (usage.write_5m or 0) + (usage.write_1h or 0),
        "cacheDetails": [{"ttl": "1h", "inputTokens": usage.write_1h}, {"ttl": "5m", "inputTokens": usage.write_5m}],
    }
    return {
        "ResponseMetadata": {"RequestId": name},
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": stop or ("tool_use" if any(kind == "call" for kind, *_ in said) else "end_turn"),
        "usage": counters,
        "metrics": {"latencyMs": 1},
    }


def _gemini(name: str, said: list[Json], usage: Usage, stop: str | None) -> Json:
    parts: list[Json] = []
    for kind, *rest in said:
        if kind == "text":
            parts.append({"text": rest[0]})
        elif kind == "thinking":
            parts.append({"text": rest[0], "thought": True, "thoughtSignature": rest[1]})
        else:
            parts.append({"functionCall": {"id": rest[0], "name": rest[1], "args": rest[2]}})
    return {
        "responseId": name,
        "modelVersion": "gemini",
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": stop or "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": usage.prompt,
            "cachedContentTokenCount": usage.read,
            "candidatesTokenCount": 7,
        },
    }


_ANSWERS = {
    "anthropic_messages": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "bedrock_converse": _bedrock,
    "gemini": _gemini,
}


def body_of(wire: str, keywords: Json) -> Json:
    """The body that a typed method's keyword arguments stand for, written apart from the package."""
    fields = {**keywords, **keywords.get("extra_body", {})}
    fields.pop("extra_body", None)
    if wire == "gemini":
        config = fields.pop("config", {})
        names = {"maxOutputTokens", "temperature", "thinkingConfig"}
        generation = {name: value for name, value in config.items() if name in names}
        rest = {name: value for name, value in config.items() if name not in names}
        fields |= {**rest, **({"generationConfig": generation} if generation else {})}
    return json.loads(json.dumps(fields, default=lambda raw: base64.b64encode(raw).decode()))


def atoms(wire: str, body: bytes) -> list[bytes]:
    """The blocks of a body in the order a model reads them, without markers, each with its level and speaker.

    Written apart from the package, as its oracle; neighbouring messages of one role are one on Anthropic's wire.
    """
    fields = json.loads(body)
    if wire in ("bedrock_converse", "gemini"):
        return _keyed_atoms(fields)
    found = [("tools", "", tool) for tool in fields.get("tools") or []]
    found += [("system", "", block) for block in fields.get("system") or []]
    speaker = ""
    for message in fields.get("messages") or fields.get("input") or []:
        inside = (
            message.get("content")
            if isinstance(message.get("content"), list) and message.get("role") in ("user", "system", "developer")
            else None
        )
        if wire == "anthropic_messages":
            inside = message["content"]
        if inside is None:
            found.append(("message", "whole", message))
            continue
        for index, block in enumerate(inside):
            is_opening = index == 0 and not (wire == "anthropic_messages" and message["role"] == speaker)
            found.append(("message", message["role"] if is_opening else "", block))
        speaker = message["role"]
    return [json.dumps([level, role, unmarked(block)]).encode() for level, role, block in found]


def _keyed_atoms(fields: Json) -> list[bytes]:
    """The same for wires whose blocks are named by a key; a cachePoint is a block of its own, and none that is read."""
    tools = (fields.get("toolConfig") or {}).get("tools") or [
        one for t in fields.get("tools", []) for one in t["functionDeclarations"]
    ]
    system = fields.get("system") or (fields.get("systemInstruction") or {}).get("parts") or []
    found = [("tools", "", tool) for tool in tools] + [("system", "", block) for block in system]
    speaker = ""
    for message in fields.get("messages") or fields.get("contents") or []:
        for block in message.get("content") or message.get("parts"):
            found.append(("message", "" if message["role"] == speaker else message["role"], block))
            speaker = message["role"]
    return [json.dumps([level, role, block]).encode() for level, role, block in found if "cachePoint" not in block]


def unmarked(value: Json) -> Json:
    """`value` without cache markers."""
    if isinstance(value, dict):
        return {
            key: unmarked(item)
            for key, item in value.items()
            if key not in ("cache_control", "prompt_cache_breakpoint")
        }
    return [unmarked(item) for item in value] if isinstance(value, list) else value


def common(one: list[bytes], other: list[bytes]) -> int:
    """How many leading atoms are equal, counted one by one."""
    n = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        n += 1
    return n
