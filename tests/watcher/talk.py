"""Conversations to send, hazards to find, and a callable that keeps what it is told."""

from __future__ import annotations

from typing import Any

from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard

CLAUDE, GPT = "claude-sonnet-5-5", "gpt-6.1-sol"
HEAD = "You are careful. " * 400
"""Long enough to be cached by every model used here."""
MARK = {"type": "ephemeral"}


SYSTEM_KINDS = (
    *("system_rebuilt", "system_changed", "clock", "date", "id", "environment", "recall", "plan", "instruction_file"),
    *("volatile_end", "identity", "reminder_in_system"),
)
HAZARDS = (
    Hazard("CKS10", "system-prompt-changed", "A", "error", requests=SYSTEM_KINDS, confirmed_by=("system_changed",)),
    Hazard("CKM22", "earlier-message-changed", "A", "error", requests=("message_edited", "first_messages", "window")),
    Hazard("CKP02", "thinking-or-effort-change", "A", "error", requests=("effort",)),
    Hazard("CKP04", "tool-choice-change", "D", "warning", requests=("tool_choice",)),
    Hazard("CKL05", "unexplained-miss", "A", "note", requests=("unknown", "unknown_best_effort")),
    Hazard("CKB01", "no-breakpoint", "A", "warning", requests=("no_breakpoint",)),
)
"""A few codes: which kind a change is, is tested elsewhere."""


class Told(list[Finding]):
    """Findings, as a callable that keeps them."""

    def __call__(self, finding: Finding) -> None:
        self.append(finding)


class Talk:
    """The arguments of one conversation's calls on each endpoint; `say` goes on."""

    def __init__(self, first: str = "hello", head: str = HEAD) -> None:
        self.head = head
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": first}]}]

    def say(self, text: str = "and now?", reply: str = "I see.") -> Talk:
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": reply}]})
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
        return self

    def claude(self, **more: Any) -> dict[str, Any]:
        """Marked at the end of the system text and on the last message, as most agents do."""
        *before, last = self.messages
        block = {**last["content"][-1], "cache_control": MARK}
        marked = [*before, {**last, "content": [*last["content"][:-1], block]}]
        system = [{"type": "text", "text": self.head, "cache_control": MARK}]
        return {"model": CLAUDE, "max_tokens": 100, "system": system, "messages": marked, **more}

    def chat(self, **more: Any) -> dict[str, Any]:
        said = [{"role": one["role"], "content": one["content"][0]["text"]} for one in self.messages]
        return {"model": GPT, "messages": [{"role": "system", "content": self.head}, *said], **more}

    def responses(self, **more: Any) -> dict[str, Any]:
        said = [{"role": one["role"], "content": one["content"][0]["text"]} for one in self.messages]
        return {"model": GPT, "instructions": self.head, "input": said, **more}
