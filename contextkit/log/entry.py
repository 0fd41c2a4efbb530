"""Entries of the log, and the changes that a program reports to the model while a conversation runs.

An entry holds JSON values serialised once; its bytes never change again. A change (a new date, mode, effort, folder,
memory, permission or file) has the text that the model reads and the fields that a provider may take instead. A change
never edits the history: it is appended, and what was true before stays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date
from typing import ClassVar, Literal

from contextkit.canonical import Json
from contextkit.errors import InvalidContent

BODY_VERSION = 1
"""Of the bodies of entries; the `opened` entry names it."""
REFUSED = "refused"
"""Field of a reply's entry: ids of calls that may not be made → why, in words for the model."""
Kind = Literal["opened", "user", "assistant", "result", "begun", "notice", "phase", "tools", "switch", "epoch"]
"""What an entry is; `docs/explanation/architecture.md` has the table of their bodies."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log."""

    sequence: int
    """Place in the log, from 0."""
    kind: Kind
    """What it is."""
    body: bytes
    """Canonical JSON of what was said, serialised once."""
    at: float
    """When it was written, seconds since 1970."""
    digest: bytes
    """Hash over the entry before, the kind, the time and the body: 16 bytes."""


@dataclass(frozen=True, slots=True)
class Native:
    """A provider's own words, kept as they came."""

    wire: str
    """Whose words: `anthropic_messages`, `openai_chat`, `openai_responses`."""
    model: str
    """The model that said them."""
    body: bytes
    """JSON array in the wire's normal form: content blocks, one message, or output items."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is different from here on. Subclasses are the kinds there are."""

    kind: ClassVar[str]
    """What sort of change, as the entry's `event.type` says it."""

    @property
    def text(self) -> str:
        """What the model is told."""
        raise InvalidContent(
            f"{type(self).__name__} says nothing: use one of the kinds of change in contextkit.log.entry"
        )

    @property
    def body(self) -> Json:
        """Body of the `notice` entry. Raises `InvalidContent` for a change that says nothing."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        optional = {field.name for field in fields(self) if field.default is None}
        wrong = next(
            (name for name, value in values.items() if not _is_text(value, is_optional=name in optional)), None
        )
        if wrong is not None:
            raise InvalidContent(
                f"{type(self).__name__}({wrong}=…) is text, or a date, not {type(values[wrong]).__name__}"
            )
        texts = {name: str(value) for name, value in values.items() if value is not None}
        empty = next((name for name, value in texts.items() if not value.strip()), None)
        if empty is not None:
            raise InvalidContent(f"{type(self).__name__}({empty}='') says nothing: give the new value")
        return {"text": self.text, "event": {"type": self.kind, **texts}}

    @property
    def is_repeatable(self) -> bool:
        """Return whether the same words twice are two events, and not one told twice."""
        return False


@dataclass(frozen=True, slots=True)
class DateChanged(Change):
    """Another day has begun.

    >>> DateChanged(date(2026, 11, 21)).text
    'The date is now 2026-11-21.'
    """

    kind = "date"
    date: date | str
    """The new date; ISO form where it is text."""

    @property
    def text(self) -> str:
        """What the model is told."""
        return f"The date is now {self.date}."


@dataclass(frozen=True, slots=True)
class ModeChanged(Change):
    """The program works in another mode now: planning, editing, reviewing."""

    kind = "mode"
    mode: str
    """Its name."""
    meaning: str | None = None
    """What the model should do differently, in a sentence."""

    @property
    def text(self) -> str:
        """What the model is told."""
        return f"The mode is now {self.mode}." + (f" {self.meaning}" if self.meaning else "")


@dataclass(frozen=True, slots=True)
class EffortChanged(Change):
    """How much the model should think from here on; a parameter would lose the cache of the messages."""

    kind = "effort"
    effort: str
    """As the provider names it: low, medium, high."""

    @property
    def text(self) -> str:
        """What the model is told."""
        return f"Reasoning effort from here on: {self.effort}."


@dataclass(frozen=True, slots=True)
class FolderChanged(Change):
    """Commands run in another folder now."""

    kind = "folder"
    path: str
    """The new working folder."""

    @property
    def text(self) -> str:
        """What the model is told."""
        return f"The working folder is now {self.path}."


@dataclass(frozen=True, slots=True)
class MemoryUpdated(Change):
    """A memory file changed while the conversation ran."""

    kind = "memory"
    path: str
    """The file, as the memory tool names it."""
    what: str | None = None
    """What is new, in a sentence."""

    @property
    def text(self) -> str:
        """What the model is told."""
        return f"The memory file {self.path} was updated." + (
            f" {self.what}" if self.what else " Read it again where it matters."
        )

    @property
    def is_repeatable(self) -> bool:
        """Return whether the same words twice are two events."""
        return True


@dataclass(frozen=True, slots=True)
class PermissionChanged(Change):
    """Something is allowed or forbidden from here on that was not before."""

    kind = "permission"
    rule: str
    """The new rule, in a sentence."""

    @property
    def text(self) -> str:
        """What the model is told."""
        return f"Permissions changed: {self.rule}"


@dataclass(frozen=True, slots=True)
class FileChanged(Change):
    """Somebody else changed a file the model has read."""

    kind = "file"
    path: str
    """The file."""
    digest: str | None = None
    """Of the new content: told once for each; without it, every notice is told."""

    @property
    def text(self) -> str:
        """What the model is told."""
        return f"{self.path} was changed outside this conversation: read it again before relying on it."

    @property
    def is_repeatable(self) -> bool:
        """Return whether the same words twice are two events."""
        return self.digest is None


def _is_text(value: object, *, is_optional: bool) -> bool:
    return isinstance(value, str | date) or (value is None and is_optional)
