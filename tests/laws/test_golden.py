"""The exact bytes of one conversation that says everything there is to say, per wire and version of its templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.cache.usage import ZERO
from contextkit.providers import BedrockConverse, Gemini
from contextkit.providers.provider import Provider
from tests.laws.conversations import PNG
from tests.laws.wires import answer

FOLDER = Path(__file__).resolve().parents[1] / "golden"
PROVIDERS: list[Provider] = [
    AnthropicMessages("claude-sonnet-5-5", max_tokens=1024, thinking={"type": "adaptive"}, ttl="5m", head_ttl="1h"),
    OpenAIChat("gpt-6.1-sol", max_tokens=1024, reasoning_effort="low"),
    OpenAIResponses("gpt-6.1-sol", max_output_tokens=1024, ttl="12h", reasoning={"effort": "low"}),
]
KEYED: list[Provider] = [
    BedrockConverse("anthropic.claude-sonnet-5-5", max_tokens=1024, head_ttl="1h"),
    Gemini("gemini-2.5-pro", max_tokens=1024),
]
"""Wires whose blocks are named by a key; not among those whose replies the others are shown."""
SYSTEM = ["You are careful. Grüße 👩‍👩‍👧 \u2028 \x7f </s> " * 60, "Second block."]
TOOLS: list[Any] = [
    {
        "name": "search",
        "description": "Search the web.",
        "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"enum": [1, 1.0, None]}}},
    },
    {"name": "now", "description": "", "parameters": {"type": "object"}},
]
PARTS: list[Any] = [
    'quo"te\\ \n\t/',
    {"type": "image", "media_type": "image/png", "data": PNG},
    {"type": "image", "url": "https://example.com/cat.png?a=1&b=<2>"},
    {"type": "document", "media_type": "application/pdf", "data": "JVBERi0="},
    {"type": "document", "media_type": "application/pdf", "data": "JVBERi0=", "title": "r.pdf"},
    {"type": "document", "media_type": "text/plain", "data": "plain words"},
    {"type": "document", "url": "https://example.com/report.pdf"},
    {
        "type": "native",
        "wire": "anthropic_messages",
        "block": {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "found"}]},
    },
    {
        "type": "native",
        "wire": "openai_chat",
        "block": {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    },
    {"type": "native", "wire": "openai_responses", "block": {"type": "input_file", "file_id": "file_1"}},
]
ARGUMENTS = {"z": "é\u0000", "a": [None, True, 1, 1.0, 1e-7, 1e22, 10**20, -0.0, 0.1], "m": {"b": {}, "a": []}}


def told(provider: Provider) -> list[bytes]:
    """Request bodies at three moments: with everything said, in the next epoch, and after a reply of each other wire."""
    context = Context(provider, system=SYSTEM, tools=TOOLS, clock=lambda: 0.0)
    context.user("Hello.")
    context.user(PARTS)
    said = [
        ("thinking", "Let me see.", "c2ln"),
        ("text", "I look."),
        ("call", "c1", "search", ARGUMENTS),
        ("call", "c2", "now", {}),
        ("call", "c3", "now", {}),
    ]
    request = context.request()
    context.user("Said under way.")
    context.receive(answer(provider.wire, "r1", said, ZERO), request)
    context.calls[1].begin()
    context.notice("Said while calls are open.")
    context.result("c3", ValueError("no such clock"))
    context.result("c1", [{"type": "text", "text": "one"}, {"type": "image", "media_type": "image/png", "data": PNG}])
    context.result("c2", None)
    bodies = [context.request().body]
    kept = context.receive(answer(provider.wire, "r2", [("thinking", "Hm.", "c2ln"), ("text", "Kept.")], ZERO))
    context.user([f"line {number}" for number in range(25)])
    context.compact(["So far: ", PARTS[1]], kept)
    bodies.append(context.request().body)
    for number, other in enumerate(PROVIDERS):
        context.switch(other)
        context.user("And you?")
        calls = [
            ("text", f"I am {other.wire}."),
            ("thinking", "I think.", "c2ln"),
            ("call", f"x{number}", "search", {"z": 1}),
        ]
        context.receive(answer(other.wire, f"o{number}", calls, ZERO), context.request())
        context.result(context.calls[0], {"found": 3})
    context.switch(provider)
    context.resystem("Now in French.")
    return [*bodies, context.request(extra_body={"stop": ["x"]}).body]


@pytest.mark.parametrize("provider", [*PROVIDERS, *KEYED], ids=lambda provider: provider.wire)
def test_bytes_never_move_under_one_template_version(provider: Provider) -> None:
    """A difference here re-bills every stored conversation: raise `template` of the adapter, and keep the templates of
    the old version."""
    expected = (FOLDER / f"{provider.wire}_v{provider.template}.jsonl").read_bytes().splitlines()
    for place, (given, kept) in enumerate(zip(told(provider), expected, strict=True)):
        assert given == kept, f"body {place} of {provider.wire} moved"


def write() -> None:
    """Write the files anew, for a new version of a template only."""
    for provider in [*PROVIDERS, *KEYED]:
        (FOLDER / f"{provider.wire}_v{provider.template}.jsonl").write_bytes(
            b"".join(body + b"\n" for body in told(provider))
        )
