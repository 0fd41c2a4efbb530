"""Conversations of a given length, as an agent has them: it reads, it is told, it reads on."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from contextkit import Context
from contextkit.providers.provider import Provider

SYSTEM = "You are a careful researcher. " * 100
TOOLS = [
    {
        "name": "read",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
]
_WORDS = [
    "cache",
    "prefix",
    "agent",
    "naïve",
    '"quoted"',
    "line\n",
    "token",
    "42",
    "→",
    "for i in range(10):",
    "é",
    "path/to/file.py",
    "\\d+",
]


def replies(index: int, call_id: str, text: str) -> Mapping[str, Mapping[str, Any]]:
    """Wire → a reply that says `text` and calls a tool."""
    path = f"src/module_{index}.py"
    block = {"type": "tool_use", "id": call_id, "name": "read", "input": {"path": path}}
    function = {"name": "read", "arguments": f'{{"path":"{path}"}}'}
    called = {"id": call_id, "type": "function", "function": function}
    said = {"role": "assistant", "content": text, "tool_calls": [called]}
    spoken = {"type": "output_text", "text": text, "annotations": []}
    items = [
        {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "completed", "content": [spoken]},
        {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "status": "completed", **function},
    ]
    return {
        "anthropic_messages": {
            "id": f"msg_{index}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "stop_reason": "tool_use",
            "content": [{"type": "text", "text": text}, block],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
        "openai_chat": {
            "id": f"chatcmpl-{index}",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-6.1-sol",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": said}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        },
        "openai_responses": {
            "id": f"resp_{index}",
            "object": "response",
            "created_at": 1,
            "model": "gpt-6.1-sol",
            "status": "completed",
            "output": items,
            "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        },
    }


class Talk:
    """A conversation that goes on for as long as it is asked to.

    Two messages a turn (reply, result). Another `seed`, other words.
    """

    def __init__(self, provider: Provider, n_letters: int = 2000, seed: int = 0) -> None:
        self.context = Context(provider, system=SYSTEM, tools=TOOLS, clock=lambda: 1000.0)
        self.n_letters, self.seed, self.turn = n_letters, seed, 0
        self._random = random.Random(seed)
        self.context.user("Find out why the build is slow.")

    @property
    def call_id(self) -> str:
        """Of this turn's call."""
        return f"call_{self.seed:03}_{self.turn:06}"

    def text(self) -> str:
        """`n_letters` of it, never the same twice."""
        words = self._random.choices(_WORDS, k=self.n_letters // 8)
        return f"{self.call_id} {' '.join(words)}"[: self.n_letters].ljust(self.n_letters, ".")

    def reply(self) -> None:
        """Ask, be answered."""
        request = self.context.request()
        self.context.receive(replies(self.turn, self.call_id, self.text())[request.wire], request)

    def result(self) -> None:
        """Answer the open call."""
        self.context.result(self.call_id, self.text())
        self.turn += 1

    def until(self, turn: int) -> Context:
        """The conversation after that many turns, ready for the next request."""
        while self.turn < turn:
            self.reply()
            self.result()
        return self.context
