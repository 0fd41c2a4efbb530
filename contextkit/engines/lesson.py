"""One conversation on a running llama.cpp server: a turn is appended, a clock is edited, a tool is moved.

Each request is timed to its first token, and stands beside what the reference cache predicts it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from contextkit.engines.agreement import Exchange, predict
from contextkit.engines.prompt_stream import StreamedPrompt
from contextkit.engines.running import LlamaCpp
from contextkit.errors import UsageError

_TOOLS = tuple(
    f"tool {name}({argument}: string): {what} It returns text. Call it once for each {argument}, never twice for the same "
    f"one, and say in a sentence why before you do. Where it fails, read its message and change the {argument}.\n"
    for name, argument, what in (
        ("read", "path", "Reads a file of the project."),
        ("search", "query", "Finds lines of the project that hold the words."),
        ("run", "command", "Runs a command in the project's folder."),
    )
)
_SYSTEM = (
    "system: You work on a program that prices graphics cards. Keep answers short, name files and lines, and change as "
    "little as you can. Prices are in dollars, without tax. It is {clock}.\n"
)
_TURNS = tuple(
    f"user: What does the price of card {number} come from?\n"
    f"assistant: I read prices/card{number}.csv: its last row is of this week, {number}19 dollars, from the maker's own list. "
    f"The shop's price in prices/shop{number}.csv is older, so the page shows the maker's. To show the newer of both, change "
    f"line {number}4 of page.py, where the list is taken first.\n"
    for number in range(1, 13)
)
_ASKED = "user: And card 13?\nassistant:"
_APPENDED = " The same: its list is newer than the shop's price.\nuser: Then change page.py.\nassistant:"
_CLOCK, _LATER = "14:02", "14:03"


@dataclass(frozen=True, slots=True)
class Step:
    """One request of the lesson."""

    name: str
    """What was done to the conversation."""
    n_tokens: int
    """Tokens of the prompt."""
    n_read: int
    """Tokens the server read from its cache."""
    n_predicted: int
    """Tokens the reference cache predicted."""
    seconds: float
    """Time to the first token, as the client sees it."""


def lesson(server: LlamaCpp, cache: Any, session: str) -> Iterator[Step]:
    """Send the five requests of the lesson, and yield each once it is answered.

    `cache` is the server's reference cache; `session` stands in front of every prompt, so that no other run shares one.
    Raises `UsageError` where a slot is too short, `ProviderError` as the server does.
    """
    moved = (_TOOLS[0], _TOOLS[2], _TOOLS[1])
    for name, tools, clock, appended in (
        ("the conversation", _TOOLS, _CLOCK, ""),
        ("a turn appended", _TOOLS, _CLOCK, _APPENDED),
        ("a later clock", _TOOLS, _LATER, _APPENDED),
        ("the clock as before", _TOOLS, _CLOCK, _APPENDED),
        ("tools in another order", moved, _CLOCK, _APPENDED),
    ):
        head = f"session {session}\n{''.join(tools)}{_SYSTEM.format(clock=clock)}"
        exchange, seconds = _sent(server, head + "".join(_TURNS) + _ASKED + appended)
        predicted, reply = predict(cache, exchange, 0.0), exchange.reply
        yield Step(name, len(exchange.prompt.tokens), reply.read_tokens, predicted.read_tokens, seconds)


def _sent(server: LlamaCpp, text: str) -> tuple[Exchange, float]:
    """Send a text, and measure the time to its first token."""
    prompt = StreamedPrompt("lesson", server.tokens_of(text), 1)
    start = perf_counter()
    reply = server.complete(prompt)
    seconds = perf_counter() - start
    if reply.refusal is not None:
        raise UsageError(
            f"the lesson has {len(prompt.tokens):,} tokens, more than a slot holds: start the server with a larger --ctx-size "
            "(it is divided by --parallel, unless the slots share one memory)"
        )
    return Exchange(prompt, reply), seconds
