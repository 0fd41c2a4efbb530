"""Conversations to send, hazards to find, and a callable that keeps what it is told."""

from __future__ import annotations

from typing import Any

from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step

CLAUDE, GPT = "claude-sonnet-5-5", "gpt-6.1-sol"
HEAD = "You are careful. " * 400
"""Long enough to be cached by every model used here."""
MARK = {"type": "ephemeral"}


def _rewritten(step: Step, change: Change) -> Evidence | None:
    return Evidence("system text changed") if change.level == "system" else None


def _chosen(step: Step) -> Evidence | None:
    was, now = step.before.params.get("tool_choice"), step.after.params.get("tool_choice")
    return None if was == now else Evidence("tool_choice changed", path="tool_choice", was=str(was), now=str(now))


HAZARDS = (
    Hazard(
        "CKS10",
        "system-prompt-rebuilt",
        "A",
        "error",
        requests=(RequestRule("change", _rewritten),),
        confirmed_by=("system_changed",),
    ),
    Hazard("CKP04", "tool-choice-change", "D", "warning", requests=(RequestRule("step", _chosen),)),
)
"""Two hazards of our own: what the guard does with rules is tested here, the rules are tested elsewhere."""


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
