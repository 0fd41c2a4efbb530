"""Whether the prompt of each call is a prefix of the next one's, where it is not and why, and what was found to help.

Takes a template and a conversation as it was or will be sent; gives findings. What an engine has cached after a call is
its prompt and what it generated: both are rendered and compared with the next prompt, character by character.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from contextkit.canonical import Json, parse
from contextkit.errors import UsageError
from contextkit.providers.templates.causes import (
    CAUSES,
    DATE,
    GENERATION,
    PRINTED_CHOICE,
    TEMPLATE,
    THINKING,
    Cause,
    Pair,
    is_same_history,
)
from contextkit.providers.templates.places import owner
from contextkit.providers.templates.remedies import Kept, Remedy, by_edit, by_option
from contextkit.providers.templates.seen import REASONING
from contextkit.providers.templates.template import Template

_WINDOW = 32
_TRIED_PAIRS = 6
"""Pairs a remedy is tried on, the latest of those that break."""
_CHOSEN = ("auto", "required")


@dataclass(frozen=True, slots=True)
class Instability:
    """One cause, where it shows first, and what helps."""

    cause: str
    """A row of `causes.py`: kwargs, tools, tool_choice, history, thinking, whitespace, tools_float, system_float,
    generation_prompt, template or date."""
    why: str
    """What happens."""
    turns: tuple[int, ...]
    """Calls whose prompt is not gone on with, the first being 0; none where it waits to happen."""
    message: int
    """Message of the first of them at which the prompts part, -1 for what stands before the first."""
    offset: int
    """Characters of its prompt that are still good."""
    lost_chars: int
    """Characters of prompt and reply behind them."""
    lost_tokens: int | None
    """The same in tokens, where the template has a tokenizer."""
    was: str
    """What stood there."""
    now: str
    """What stands there in the next prompt."""
    remedies: tuple[Remedy, ...]
    """What was found to help, or the caller can do."""


@dataclass(slots=True)
class _Break:
    """Where two prompts part."""

    pair: Pair
    was: str
    now: str
    offset: int
    gone: str
    is_generation: bool

    @property
    def lost(self) -> int:
        return len(self.gone)

    @property
    def place(self) -> list[str]:
        """What stands on both sides, blanks aside: by it a place is known again in other prompts."""
        return ["".join(side.split())[:12] for side in self.windows]

    @property
    def windows(self) -> tuple[str, str]:
        return self.was[self.offset : self.offset + _WINDOW], self.now[self.offset : self.offset + _WINDOW]


@dataclass(slots=True)
class _Found:
    cause: Cause
    breaks: list[_Break] = field(default_factory=list)


def check_prefix_stable(template: Template, conversation: Any, *, at: datetime | None = None) -> list[Instability]:
    """What keeps prompts of `conversation` from being prefixes of the next; nothing, where every one is gone on with.

    `conversation`: request bodies in order, one body (cut at each reply), or a `Context`; `at`: the moment they are
    rendered at. Raises `UsageError` where the template refuses them.
    """
    bodies, moment = calls_of(conversation), at or datetime.now(UTC)
    check = _Check(template, moment, bodies)
    found: dict[str, _Found] = {}
    for index, (before, after) in enumerate(pairwise(bodies)):
        for cause, broken in check.causes(Pair(index, before, after)):
            found.setdefault(cause.name, _Found(cause)).breaks.append(broken)
    return [*(check.told(row) for row in found.values()), *check.waiting(found)]


class _Check:
    def __init__(
        self,
        template: Template,
        at: datetime,
        bodies: Sequence[Mapping[str, Json]],
        options: Mapping[str, Json] | None = None,
    ) -> None:
        self._template, self._at, self._bodies, self._options = template, at, bodies, options

    def causes(self, pair: Pair) -> Iterable[tuple[Cause, _Break]]:
        """Each cause of a pair, with where its prompts part; what was found is taken away before more is looked for."""
        tried = list(CAUSES)
        while (broken := _broken(self._template, pair, self._at, self._options)) is not None:
            better = [
                (left, index, cause)
                for index, cause in enumerate(tried)
                if (left := self._left(cause, pair, broken)) is not None
            ]
            if not better:
                cause = GENERATION if broken.is_generation else THINKING if _is_thought(broken) else TEMPLATE
                yield from [(cause, broken)] if cause is not THINKING or THINKING in tried else []
                return
            cause = min(better, key=lambda row: row[:2])[2]
            yield cause, broken
            pair, tried = cause.without(pair), [row for row in tried if row is not cause]

    def _left(self, cause: Cause, pair: Pair, broken: _Break) -> int | None:
        """Characters that are lost without a cause, -1 where the prompts no longer part.

        None where they part as before.
        """
        without = cause.without(pair)
        if without == pair or (cause is THINKING and not is_same_history(pair)):
            return None
        try:
            other = _broken(self._template, without, self._at, self._options)
        except UsageError:
            return None
        is_elsewhere = other is None or (other.lost <= broken.lost and other.place != broken.place)
        return None if not is_elsewhere else -1 if other is None else other.lost

    def told(self, row: _Found) -> Instability:
        """A finding about the first of the breaks, with what helps against all of them."""
        first, latest = row.breaks[0], row.breaks[-_TRIED_PAIRS:]

        def holds(template: Template, options: Mapping[str, Json]) -> bool:
            other = _Check(template, self._at, self._bodies, options)
            return all(other.is_without(row.cause, broken) for broken in latest)

        turns = tuple(dict.fromkeys(broken.pair.turn for broken in row.breaks))
        return self._finding(row.cause, turns, first, self._remedies(row.cause, holds))

    def is_without(self, cause: Cause, before: _Break) -> bool:
        """Whether the prompts of a pair no longer part for this cause, and none else brings the place forward."""
        broken = _broken(self._template, before.pair, self._at, self._options)
        if broken is None:
            return True
        return broken.offset > before.offset and all(cause is not found for found, _ in self.causes(before.pair))

    def waiting(self, found: Mapping[str, _Found]) -> Iterable[Instability]:
        """What no two of these calls show, and another day or another choice would."""
        body, later = self._bodies[-1], self._at + timedelta(days=1)
        if broken := _parted(
            Pair(0, body, body), _prompt(self._template, body, self._at), _prompt(self._template, body, later)
        ):

            def holds(template: Template, options: Mapping[str, Json]) -> bool:
                return _prompt(template, body, self._at, options) == _prompt(template, body, later, options)

            yield self._finding(DATE, (), broken, self._remedies(DATE, holds))
        if "tool_choice" in self._template.options and body.get("tools") and "tool_choice" not in found:
            said = [_prompt(self._template, {**body, "tool_choice": choice}, self._at) for choice in _CHOSEN]
            if broken := _parted(Pair(0, body, body), *said):
                yield self._finding(PRINTED_CHOICE, (), broken, self._remedies(PRINTED_CHOICE, None))

    def _remedies(self, cause: Cause, holds: Any) -> tuple[Remedy, ...]:
        if cause.advice:
            return (Remedy("caller", cause.advice, {}),)
        option = by_option(self._template, holds, self._kept)
        edit = None if option else by_edit(self._template, holds, self._kept, may_change_first=cause is DATE)
        return tuple(remedy for remedy in (option, edit) if remedy is not None)

    def _kept(self, template: Template, options: Mapping[str, Json]) -> Kept:
        body = self._bodies[-1]
        said, plain = _prompt(template, body, self._at, options), _prompt(self._template, body, self._at)
        said_by = [message.get(name) for message in body["messages"] for name in ("content", *REASONING)]
        texts = [text for text in said_by if isinstance(text, str)]
        first = [
            _prompt(of, self._bodies[0], self._at, given) for of, given in ((template, options), (self._template, {}))
        ]
        n_kept = sum((text.strip() in said) - (text.strip() in plain) for text in texts)
        return Kept(first[0] == first[1], n_kept, len(said) - len(plain))

    def _finding(
        self, cause: Cause, turns: tuple[int, ...], broken: _Break, remedies: tuple[Remedy, ...]
    ) -> Instability:
        at, encode, kept = broken.offset, self._template.encode, broken.was[: broken.offset]
        message = owner(lambda body: _prompt(self._template, body, self._at), _answered(broken.pair), at)
        return Instability(
            cause.name,
            cause.why,
            turns,
            message,
            at,
            broken.lost,
            None if encode is None else len(encode(kept + broken.gone)) - len(encode(kept)),
            *broken.windows,
            remedies,
        )


def _broken(template: Template, pair: Pair, at: datetime, options: Mapping[str, Json] | None = None) -> _Break | None:
    """Where the later prompt leaves the earlier one, or the reply to it; None where it goes on with both."""
    was, now = _prompt(template, pair.before, at, options), _prompt(template, pair.after, at, options)
    whole = (
        was
        if pair.reply is None
        else template.render(_answered(pair), at=at, generation=False, options=options).rstrip()
    )
    broken = _parted(pair, was, now)
    if broken is None:
        return _parted(pair, whole, now)
    opening = template.render(pair.before, at=at, generation=False, options=options)
    broken.is_generation = len(opening) <= broken.offset and was.startswith(opening)
    if not broken.is_generation:
        broken.gone = max(was, whole, key=len)[broken.offset :]  # the reply that was generated behind it is lost too
    return broken


def _is_thought(broken: _Break) -> bool:
    """Whether reasoning stands in the earlier prompt where the prompts part, and not in the later one."""
    around = slice(max(broken.offset - 10, 0), broken.offset + 10)
    return "think" in broken.was[around].lower() and broken.was[around] != broken.now[around]


def _parted(pair: Pair, was: str, now: str) -> _Break | None:
    offset = _n_common(was, now)
    return None if offset == len(was) else _Break(pair, was, now, offset, was[offset:], False)


def _n_common(one: str, other: str) -> int:
    """How many characters two texts begin with alike; halving, so that long prompts are compared as fast as memory is."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _answered(pair: Pair) -> Mapping[str, Json]:
    """The earlier call and what was answered."""
    return pair.before if pair.reply is None else {**pair.before, "messages": [*pair.before["messages"], pair.reply]}


def _prompt(
    template: Template, body: Mapping[str, Json], at: datetime, options: Mapping[str, Json] | None = None
) -> str:
    return template.render(body, at=at, options=options)


def calls_of(conversation: Any) -> list[Mapping[str, Json]]:
    """The request bodies of a conversation in order, the first cut at each reply. Raises `UsageError` where it is none."""
    request = getattr(conversation, "request", None)
    given = parse(request().body) if callable(request) else conversation
    bodies = [given] if isinstance(given, Mapping) else list(given)
    if not bodies or not all(isinstance(body, Mapping) and body.get("messages") for body in bodies):
        raise UsageError(
            "no messages: a conversation is a /chat/completions body, a list of them in order, or a Context"
        )
    first = bodies[0]
    replies = [index for index, message in enumerate(first["messages"]) if message.get("role") == "assistant" and index]
    return [*({**first, "messages": first["messages"][:index]} for index in replies), *bodies]
