"""Why the prompt of one call is no prefix of the next one's: causes found by taking each away.

Takes two request bodies that follow one another, gives the same two without one difference. What a cause takes away and
the prompts then agree for longer, that it was. Each row is one cause; its words are what `contextkit template check`
prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from contextkit.canonical import Json
from contextkit.prompt.normal_form import normal
from contextkit.providers.templates.seen import REASONING

_KWARGS = ("chat_template", "chat_template_kwargs", "reasoning_effort", "documents")
_THOUGHT = re.compile(r"<think>.*?</think>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two calls that follow one another."""

    turn: int
    """Index of the earlier one."""
    before: Mapping[str, Json]
    """Its body."""
    after: Mapping[str, Json]
    """The body of the later one."""

    @property
    def reply(self) -> Json:
        """What the model answered the earlier call with, as the later one says it; None where that is not there."""
        said, n = self.after["messages"], len(self.before["messages"])
        return said[n] if len(said) > n and said[n].get("role") == "assistant" else None

    def each(self, change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Pair:
        """Both bodies changed alike."""
        return replace(self, before=change(self.before), after=change(self.after))


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause."""

    name: str
    """As a finding names it."""
    why: str
    """What happens."""
    without: Callable[[Pair], Pair]
    """The pair without it."""
    advice: str
    """What the caller can do; empty where only an option or the template can help."""


def _same(*names: str) -> Callable[[Pair], Pair]:
    """The later body with the earlier one's fields."""

    def equal(pair: Pair) -> Pair:
        kept = {name: value for name, value in pair.after.items() if name not in names}
        return replace(pair, after={**kept, **{name: pair.before[name] for name in names if name in pair.before}})

    return equal


def _same_history(pair: Pair) -> Pair:
    said, n = pair.before["messages"], len(pair.before["messages"])
    return replace(pair, after={**pair.after, "messages": [*said, *pair.after["messages"][n:]]})


def _thoughtless(body: Mapping[str, Json]) -> Mapping[str, Json]:
    return {**body, "messages": [_unthought(message) for message in body["messages"]]}


def _unthought(message: Mapping[str, Json]) -> Json:
    kept = {name: value for name, value in message.items() if name not in REASONING}
    text = kept.get("content")
    return (
        {**kept, "content": _THOUGHT.sub("", text)}
        if isinstance(text, str) and message.get("role") == "assistant"
        else kept
    )


def _stripped(body: Mapping[str, Json]) -> Mapping[str, Json]:
    return {**body, "messages": [_map_texts(message, str.strip) for message in body["messages"]]}


def _map_texts(message: Mapping[str, Json], change: Callable[[str], str]) -> Json:
    content: Any = message.get("content")
    if isinstance(content, list):
        content = [{**part, "text": change(part["text"])} if "text" in part else part for part in content]
    return {**message, "content": change(content) if isinstance(content, str) else content}


def _headless(body: Mapping[str, Json]) -> Mapping[str, Json]:
    return {
        **body,
        "messages": [message for message in body["messages"] if message.get("role") not in ("system", "developer")],
    }


def _toolless(body: Mapping[str, Json]) -> Mapping[str, Json]:
    return {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}


CAUSES: tuple[Cause, ...] = (
    Cause(
        "kwargs",
        "the request's own template variables changed between the calls",
        _same(*_KWARGS),
        "keep chat_template_kwargs, reasoning_effort and documents the same for a whole conversation",
    ),
    Cause(
        "tools",
        "the tools changed, or came in another order, and they are printed first",
        _same("tools"),
        "send the same tools in the same order at every call; forbid some of them with phases, which move no byte",
    ),
    Cause(
        "tool_choice",
        "the template prints tool_choice into the prompt, and it changed",
        _same("tool_choice"),
        "leave tool_choice as it is: phases with call_format=… hold a model by a grammar instead",
    ),
    Cause(
        "history",
        "a message that was sent before was sent otherwise, or is missing",
        _same_history,
        "send what was sent: contextkit's log only grows",
    ),
    Cause(
        "thinking",
        "reasoning of earlier turns leaves the prompt, or was not sent back",
        lambda pair: pair.each(_thoughtless),
        "",
    ),
    Cause(
        "whitespace",
        "blanks around a message are trimmed in one place and not in another",
        lambda pair: pair.each(_stripped),
        "strip what you send before it is sent",
    ),
    Cause(
        "tools_float",
        "the tools are printed with the last user message and move on with it",
        lambda pair: pair.each(_toolless),
        "",
    ),
    Cause(
        "system_float",
        "the system message is printed with the last user message and moves on with it",
        lambda pair: pair.each(_headless),
        "",
    ),
)
"""What is tried, in this order."""
GENERATION = Cause(
    "generation_prompt",
    "the beginning of a reply is written otherwise than the same reply in the history",
    lambda pair: pair,
    "",
)
THINKING = next(row for row in CAUSES if row.name == "thinking")
TEMPLATE = Cause(
    "template", "the template writes a message otherwise once it is no longer among the last", lambda pair: pair, ""
)
DATE = Cause(
    "date",
    "the template prints the date, so the prompt changes from its beginning when the day does",
    lambda pair: pair,
    "",
)
PRINTED_CHOICE = Cause(
    "tool_choice",
    "the template prints tool_choice into the prompt: a call with another one loses what stands behind it",
    lambda pair: pair,
    "leave tool_choice as it is: phases with call_format=… hold a model by a grammar instead",
)


def is_same_history(pair: Pair) -> bool:
    """Whether the later call begins with the messages of the earlier one."""
    n = len(pair.before["messages"])
    return bool(normal(pair.after["messages"][:n]) == normal(pair.before["messages"]))
