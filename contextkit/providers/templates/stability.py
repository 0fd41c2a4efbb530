"""Checks whether each call's rendered prompt is a prefix of the next one's, and if not where, why, and what helps.

Takes a template and a conversation as it was or will be sent; gives findings. What an engine has cached after a call is
its prompt and what it generated: both are rendered and compared with the next prompt, character by character.

A cause is established by removing it: if two bodies without one difference agree for longer, that difference was a
cause. A remedy (an option of the template, an edit of it) is reported only if rendering again shows that it works.
Message positions are located by putting a character that no text holds into each message; where removing these
characters gives the plain prompt again, they have changed nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

from contextkit.canonical import Json, parse
from contextkit.errors import UsageError
from contextkit.prompt.normal_form import normal
from contextkit.providers.templates.template import REASONING, Template

Render = Callable[[Mapping[str, Json]], str]
"""A body → its prompt."""
_FIRST = 0xF0000
"""First mark, in a plane nobody writes in."""


def owner(render: Render, body: Mapping[str, Json], offset: int) -> int:
    """Index of the message that the character at `offset` of the prompt belongs to; -1 for what stands before the
    first.
    """
    prompt, found = render(body), _spans(render, body)
    known = [(index, *span) for index, span in enumerate(found) if span is not None]
    last = -1
    for index, start, end in known:
        header = prompt.rfind(str(body["messages"][index].get("role")), 0, start) if last >= 0 else start
        if offset < max(header, known[0][2] if last < 0 else 0) and not (last < 0 and offset >= start):
            return last
        if offset < end:
            return index
        last = index
    return last


def _spans(render: Render, body: Mapping[str, Json]) -> list[tuple[int, int] | None]:
    messages = body["messages"]
    marked = [_marked(message, chr(_FIRST + index)) for index, message in enumerate(messages)]
    plain = render(body)
    all_at_once = _mark_positions(render, body, plain, [row and row[0] for row in marked])
    spans: list[tuple[int, int] | None] = []
    for index, row in enumerate(marked):
        alone = [row[0] if row and other == index else None for other in range(len(messages))]
        at = (
            (all_at_once or _mark_positions(render, body, plain, alone) or {}).get(chr(_FIRST + index)) if row else None
        )
        spans.append(None if at is None or row is None else (at - row[1], at - row[1] + row[2]))
    return spans


def _mark_positions(render: Render, body: Mapping[str, Json], plain: str, marked: list[Any]) -> dict[str, int] | None:
    """Mark → its place in the plain prompt; None where the marks changed it, or it holds some itself."""
    messages = [row or message for row, message in zip(marked, body["messages"], strict=True)]
    try:
        said = render({**body, "messages": messages})
    except UsageError:
        return None
    places: dict[str, int] = {}
    clean: list[str] = []
    for letter in said:
        if ord(letter) >= _FIRST:
            places.setdefault(letter, len(clean))
        else:
            clean.append(letter)
    return places if "".join(clean) == plain else None


def _marked(message: Mapping[str, Json], mark: str) -> tuple[Json, int, int] | None:
    """The message with a mark in the middle of one of its texts, characters of it before the mark, and in all."""
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, str) and content.strip():
        return _put(content, mark, lambda text: {**message, "content": text})
    texts = (
        [index for index, part in enumerate(content) if part.get("text", "").strip()]
        if isinstance(content, list)
        else []
    )
    if isinstance(content, list) and texts:
        at, parts = texts[-1], list(content)
        before, part, behind = parts[:at], parts[at], parts[at + 1 :]
        return _put(part["text"], mark, lambda text: {**message, "content": [*before, {**part, "text": text}, *behind]})
    if calls and isinstance(calls[-1].get("function"), Mapping):
        function = calls[-1]["function"]
        return _put(
            str(function.get("name")),
            mark,
            lambda text: {
                **message,
                "tool_calls": [*calls[:-1], {**calls[-1], "function": {**function, "name": text}}],
            },
        )
    name = next((name for name in REASONING if isinstance(message.get(name), str) and message[name].strip()), None)
    return _put(message[name], mark, lambda text: {**message, name: text}) if name else None


def _put(text: str, mark: str, made: Callable[[str], Json]) -> tuple[Json, int, int]:
    plain = text.strip()
    before, middle = len(text) - len(text.lstrip()), len(plain) // 2
    return made(text[: before + middle] + mark + text[before + middle :]), middle, len(plain)


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


Holds = Callable[[Template, Mapping[str, Json]], bool]
"""(template, options above the requests' own) → whether every prompt is a prefix of the next one."""
_CONDITION = re.compile(r"\{%-?\s*(?:el)?if\s+(?P<said>.+?)\s*-?%\}", re.DOTALL)
_TRIMMED = re.compile(r"\s*\|\s*trim\b|\.strip\(\)")
_DATED = re.compile(r"strftime_now\([^()]*\)")
_RELEVANT = re.compile(r"loop\.|last|index|think|reason|step|date|role")
"""What conditions speak of that let go of earlier messages."""
_MOST_EDITS = 80
FIXED_DATE = "01 Jan 2026"
"""Stands for any date that does not move."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that helps."""

    kind: str
    """`option` (of `chat_template_kwargs`), `edit` (of the template) or `caller` (of what is sent)."""
    words: str
    """What to do."""
    options: Mapping[str, Json]
    """What to put into `chat_template_kwargs`; empty for other kinds."""
    changed_chars: int = 0
    """How much longer (or shorter) it makes the last prompt."""
    line: int = 0
    """Line of the template; 0 for other kinds."""
    was: str = ""
    """What stands there."""
    now: str = ""
    """What should."""


@dataclass(frozen=True, slots=True)
class Preserved:
    """What a remedy leaves as it was."""

    is_first_same: bool
    """Whether the first prompt is what it was."""
    n_texts: int
    """Texts of the conversation that the last prompt holds now and did not before, less those it no longer holds."""
    changed_chars: int
    """How much longer the last prompt has become."""

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The more the better."""
        return self.is_first_same, self.n_texts, -abs(self.changed_chars)


Keeps = Callable[[Template, Mapping[str, Json]], Preserved]
"""(template, options) → what they leave as it was."""


def by_option(template: Template, holds: Holds, keeps: Keeps) -> Remedy | None:
    """The value of one option that helps, the one that changes least; None where no option does."""
    tried = [
        {name: value} for name in template.options for value in (True, False, *([FIXED_DATE] if "date" in name else []))
    ]
    found = [options for options in tried if _safely(holds, template, options)]
    if not found:
        return None
    best, kept = max(((options, keeps(template, options)) for options in found), key=lambda row: row[1].rank)
    return Remedy("option", f"chat_template_kwargs={best!r}", best, kept.changed_chars)


def by_edit(template: Template, holds: Holds, keeps: Keeps, *, may_change_first: bool) -> Remedy | None:
    """One change of one expression of the template that helps, the one that changes least; None where none does.

    It must lose nothing that was said, nor, unless `may_change_first`, change the first prompt.
    """
    found: list[tuple[Preserved, int, str, str]] = []
    for start, was, now in islice(_edits(template.text), _MOST_EDITS):
        text = template.text[:start] + now + template.text[start + len(was) :]
        try:
            edited = template.with_text(text)
        except UsageError:
            continue  # an expression that cannot be cut there
        if _safely(holds, edited, {}):
            kept = keeps(edited, {})
            found += [(kept, start, was, now)] if kept.n_texts >= 0 and (kept.is_first_same or may_change_first) else []
    if not found:
        return None
    kept, start, was, now = max(found, key=lambda row: row[0].rank)
    line = template.text.count("\n", 0, start) + 1
    return Remedy("edit", f"line {line} of the template: {was!r} → {now!r}", {}, kept.changed_chars, line, was, now)


def _safely(holds: Holds, template: Template, options: Mapping[str, Json]) -> bool:
    try:
        return holds(template, options)
    except UsageError:
        return False  # so set, the template refuses the conversation


def _edits(text: str) -> Iterator[tuple[int, str, str]]:
    """(place, what stands there, what to try): conditions and their halves held open or shut, trims left out, dates
    fixed.
    """
    for found in _DATED.finditer(text):
        yield found.start(), found[0], repr(FIXED_DATE)
    for found in _CONDITION.finditer(text):
        said, start = found["said"], found.start("said")
        halves = [half for half in re.split(r"\s+(?:and|or)\s+", said) if half != said]
        for half, values in ((said, ("true", "false")), *((half, ("true",)) for half in halves)):
            if _RELEVANT.search(half) and "add_generation_prompt" not in half:
                yield from ((start + said.index(half), half, value) for value in values)
    for found in _TRIMMED.finditer(text):
        yield found.start(), found[0], ""


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
class _ConfirmedCause:
    cause: Cause
    breaks: list[_Break] = field(default_factory=list)


def check_prefix_stable(template: Template, conversation: Any, *, at: datetime | None = None) -> list[Instability]:
    """What keeps prompts of `conversation` from being prefixes of the next; nothing, where every one is gone on with.

    `conversation`: request bodies in order, one body (cut at each reply), or a `Context`; `at`: the moment they are
    rendered at. Raises `UsageError` where the template refuses them.
    """
    bodies, moment = calls_of(conversation), at or datetime.now(UTC)
    check = _Check(template, moment, bodies)
    found: dict[str, _ConfirmedCause] = {}
    for index, (before, after) in enumerate(pairwise(bodies)):
        for cause, broken in check.causes(Pair(index, before, after)):
            found.setdefault(cause.name, _ConfirmedCause(cause)).breaks.append(broken)
    return [*(check.instability(row) for row in found.values()), *check.waiting(found)]


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

    def instability(self, row: _ConfirmedCause) -> Instability:
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

    def waiting(self, found: Mapping[str, _ConfirmedCause]) -> Iterable[Instability]:
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
        option = by_option(self._template, holds, self._preserved)
        edit = None if option else by_edit(self._template, holds, self._preserved, may_change_first=cause is DATE)
        return tuple(remedy for remedy in (option, edit) if remedy is not None)

    def _preserved(self, template: Template, options: Mapping[str, Json]) -> Preserved:
        body = self._bodies[-1]
        said, plain = _prompt(template, body, self._at, options), _prompt(self._template, body, self._at)
        said_by = [message.get(name) for message in body["messages"] for name in ("content", *REASONING)]
        texts = [text for text in said_by if isinstance(text, str)]
        first = [
            _prompt(of, self._bodies[0], self._at, given) for of, given in ((template, options), (self._template, {}))
        ]
        n_kept = sum((text.strip() in said) - (text.strip() in plain) for text in texts)
        return Preserved(first[0] == first[1], n_kept, len(said) - len(plain))

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
