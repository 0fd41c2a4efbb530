"""Pins: texts that every new epoch repeats word for word, so that no summary can lose them.

The program pins by `context.pin`, the model by the tool `pin`; the user's first turn is the task without being pinned.
Takes the entries of a log, gives pins and the text that repeats them. A pin is an entry of the log, so a resumed or
forked conversation has it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import ToolRefusal, UsageError
from contextkit.log.content import checked_text
from contextkit.log.entry import Entry, Kind
from contextkit.log.log import Turns
from contextkit.tools.tool import Tool, tool

PinKind = Literal["task", "constraint", "decision", "fact"]
"""What is pinned."""
PIN_KINDS: tuple[PinKind, ...] = get_args(PinKind)
"""In the order in which an epoch repeats them."""
GOAL = "The user asked, at the beginning:"
"""An opening's first line, where it repeats what the user asked."""
HEADING = "Pinned, and still in force:"
"""The first line of what an epoch repeats."""
MOST_CHARACTERS = 2_000
"""Longest text that the model may pin in one call: it is in every prompt from then on."""
PIN = "pin"
"""Name of the tool, and type of the event by which the program pins."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that must not be lost."""

    kind: PinKind
    """What it is."""
    text: str
    """Its words."""
    place: int
    """Sequence of the entry that shows these words."""
    entry: int
    """Sequence of the entry that pinned it; `place` itself, unless an earlier entry was pinned."""

    @property
    def line(self) -> str:
        """As an epoch repeats it.

        >>> Pin("constraint", "Never push to main.", 4, 4).line
        '- constraint: Never push to main.'
        """
        return f"- {self.kind}: {self.text}"


def pin_tool() -> Tool:
    """The tool `pin`. It stores nothing: a call that was answered without an error is the pin."""

    def pin(text: str, kind: PinKind = "fact") -> str:
        """Keep something in sight for good: it is repeated word for word when the conversation is summarised.

        Args:
            text: What must not be lost, in full, with its names and numbers.
            kind: What it is.

        """
        if not text.strip():
            raise ToolRefusal("nothing to pin: give text")
        if len(text) > MOST_CHARACTERS:
            raise ToolRefusal(
                f"{len(text):,} characters are too many to be in every prompt: pin at most {MOST_CHARACTERS:,}, or write "
                "them to a file and pin its name"
            )
        return "Pinned."

    return tool(pin)


def prompt_text(entry: Entry) -> str:
    """The text of an entry as the prompt shows it. Raises `UsageError` for one that has none."""
    body = parse(entry.body)
    if entry.kind in ("user", "result"):
        text = "\n".join(part["text"] for part in body["content"] if part["type"] == "text")
    elif entry.kind in ("assistant", "notice"):
        text = body["text"]
    else:
        text = ""
    if not text.strip():
        raise UsageError(
            f"entry {entry.sequence} ({entry.kind}) has no text to pin: give one of the user, the model, a tool or a "
            "notice, or the text itself"
        )
    return str(text)


def pin_body(what: str | Entry, kind: str, *, is_shown: bool) -> Json:
    """Body of the notice that pins a text, or an entry; the notice shows nothing where the prompt shows the entry.

    Raises `UsageError` for an unknown kind, and for an entry without text; `InvalidContent` for an empty text.
    """
    if kind not in PIN_KINDS:
        raise UsageError(f"kind={kind!r}: one of {', '.join(PIN_KINDS)}")
    if not isinstance(what, str | Entry):
        raise UsageError(f"a pin is a text, or an entry of this log, not {type(what).__name__}")
    text = checked_text(what) if isinstance(what, str) else prompt_text(what)
    event = {"type": PIN, "kind": kind, "text": text}
    if isinstance(what, Entry) and is_shown:
        return {"text": "", "event": {**event, "entry": what.sequence}}
    return {"text": f"Pinned {kind}: {text}", "event": event}


def unpin_body(pin: Pin) -> Json:
    """Body of the notice that withdraws a pin."""
    event = {"type": PIN, "kind": pin.kind, "text": pin.text, "is_withdrawn": True}
    return {"text": f"No longer in force ({pin.kind}): {pin.text}", "event": event}


def goal_of(entries: Iterable[Entry]) -> str:
    """What the user asked first, as text."""
    first: Json = next((parse(entry.body) for entry in entries if entry.kind == "user"), {"content": []})
    return "\n".join(part["text"] for part in first["content"] if part["type"] == "text")


class Pins:
    """The pins of one conversation; fed every entry of its log, in order."""

    reads: frozenset[Kind] = frozenset({"opened", "user", "assistant", "result", "notice", "tools", "epoch"})

    def __init__(self, turns: Turns, *, restates_task: bool = False) -> None:
        """`restates_task`: whether a provider's own compaction is followed by the user's first turn too."""
        self._turns, self._restates_task = turns, restates_task
        self._pins: dict[tuple[str, str], Pin] = {}
        """(kind, text) → the pin, the earliest of equal ones."""
        self.task: Pin | None = None
        """The user's first turn."""
        self._pending: dict[str, Pin] = {}
        """Call of the last reply → what it pins once it is answered."""
        self._has_tool = False
        """Whether the model has the tool of this module, not another one of that name."""
        self._unstated_to: int | None = None
        """Where the entries end that a provider's own compaction took out and nothing repeats yet."""
        self._has_task = False
        """Whether that compaction holds the user's first turn word for word, as OpenAI's does."""

    def __iter__(self) -> Iterator[Pin]:
        """In the order in which an epoch repeats them."""
        return iter(sorted(self._pins.values(), key=lambda pin: (PIN_KINDS.index(pin.kind), pin.entry)))

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        if entry.kind == "user":
            if self.task is None:
                text = goal_of([entry])
                self.task = Pin("task", text, entry.sequence, entry.sequence) if text else None
        elif entry.kind == "notice":
            self._feed_notice(entry)
        elif entry.kind == "assistant":
            self._feed_assistant(entry)
        elif entry.kind == "result":
            self._feed_result(entry)
        else:
            self._feed_head(entry)

    def _feed_notice(self, entry: Entry) -> None:
        if b'"event":' not in entry.body:
            return
        event = parse(entry.body)["event"]
        if event["type"] == PIN and event.get("is_withdrawn"):
            self._pins.pop((event["kind"], event["text"]), None)
        elif event["type"] == PIN:
            self._add(Pin(event["kind"], event["text"], event.get("entry", entry.sequence), entry.sequence))
        elif event["type"] == "pins":
            self._unstated_to = None

    def _feed_assistant(self, entry: Entry) -> None:
        self._pending = {}
        if not self._has_tool or b'"name":"pin"' not in entry.body:
            return
        for call in parse(entry.body)["calls"]:
            arguments = call["arguments"]
            if call["name"] == PIN and isinstance(arguments, dict) and isinstance(arguments.get("text"), str):
                kind = arguments.get("kind", "fact")
                if kind in PIN_KINDS:
                    self._pending[call["id"]] = Pin(kind, arguments["text"], entry.sequence, entry.sequence)

    def _feed_result(self, entry: Entry) -> None:
        if not self._pending:
            return
        body = parse(entry.body)
        pin = self._pending.pop(body["call_id"], None)
        if pin is not None and not body["is_error"]:
            self._add(pin)

    def _feed_head(self, entry: Entry) -> None:
        body = parse(entry.body)
        if entry.kind == "epoch" and body["reason"] == "compaction":
            end = entry.sequence if body["keep_from"] is None else body["keep_from"]
            is_native = bool(body["summary"]) and all(part["type"] == "native" for part in body["summary"])
            self._unstated_to = end if is_native else None
            self._has_task = self.task is not None and canonical(self.task.text)[1:-1] in entry.body
        if "tools" in body:
            self._has_tool = _is_among(body["tools"])
        elif entry.kind == "tools":
            self._has_tool = self._has_tool or _is_among(body["definitions"])

    def _add(self, pin: Pin) -> None:
        self._pins.setdefault((pin.kind, pin.text), pin)

    def named(self, kind: str, text: str) -> Pin | None:
        """The pin of these words, None where there is none."""
        return self._pins.get((kind, text))

    def by(self, entry: Entry) -> Pin | None:
        """The pin that an entry made, None where it made none."""
        return next((pin for pin in self._pins.values() if pin.entry == entry.sequence), None)

    @property
    def places(self) -> set[int]:
        """Sequences of the entries whose words are pinned."""
        return {pin.place for pin in self._pins.values()}

    def repeated(self, end: int) -> str:
        """What an epoch says of the pins whose words stand before entry `end`; "" where there are none."""
        lines = [pin.line for pin in self if pin.place < end]
        return "\n".join([HEADING, *lines]) if lines else ""

    @property
    def unstated(self) -> str:
        """What is still to be said behind a provider's own compaction; "" where nothing is."""
        if self._unstated_to is None:
            return ""
        texts = [self.repeated(self._unstated_to)]
        task = self.task
        is_gone = self._restates_task and task is not None and task.place < self._unstated_to and not self._has_task
        if task is not None and is_gone and self.named("task", task.text) is None:
            texts.insert(0, f"{GOAL}\n{task.text}")
        return "\n\n".join(filter(None, texts))

    def due(self) -> tuple[Kind, Json] | None:
        """What a provider's own compaction took out of the prompt, said again behind what the user says next."""
        if self._unstated_to is None or self._turns.open_calls or not self._turns.has_pending_user:
            return None
        text = self.unstated
        return ("notice", {"text": text, "event": {"type": "pins"}}) if text else None


_DEFINITION = canonical(pin_tool().definition)


def _is_among(definitions: Iterable[Json]) -> bool:
    return any(canonical(definition) == _DEFINITION for definition in definitions if definition.get("name") == PIN)
