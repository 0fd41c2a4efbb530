"""What can be changed in a recording, and what has to be assumed to say what that would have cost: the types of the two
tables.

A fix is a row: what it needs to be answered, how it is applied, what it asks of the reader. An assumption is a row: its
readings, the first of which is the one told as the figure; the others make the spread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, Protocol

from contextkit.canonical import Json
from contextkit.ledger.calls import ModelCall
from contextkit.models import Model

Needs = Literal["usage and times", "outlines", "request bodies"]
"""What a record must hold; a body holds an outline, and either stands beside usage and times."""

Reading = Mapping[str, str]
"""Assumption → what is taken for true."""
LIFETIMES = ("from start", "from end")
"""Readings of the assumption `lifetime`."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something no record says."""

    name: str
    """One word."""
    readings: tuple[str, ...]
    """What may be true; the first is what the figure itself takes."""
    meaning: str
    """In a sentence."""


ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        "lifetime",
        LIFETIMES,
        "a lifetime counts from the start of the call that wrote or read (documented by Anthropic), or from its end",
    ),
    Assumption(
        "tokenizer",
        ("as listed", "20 % fewer", "20 % more"),
        "tokens of another model's tokenizer: the ratio of bytes a token in the model table, of which nine calls in ten were within "
        "20 %; where both models share a tokenizer all three are the same",
    ),
)
"""Every assumption; a fix names those that it rests on."""


@dataclass(frozen=True, slots=True)
class LaneChange:
    """A change to a conversation that is known by its bills and times."""

    is_long: bool | None = None
    """Every write asks for the model's longest lifetime, or for its shortest; None: as recorded."""
    is_keyed: bool = False
    """Its calls find the server that holds its entries."""
    model: Model | None = None
    """Ask another model, and pay its prices."""


class BodyEdit(Protocol):
    """Edits the bodies of a recording, lane by lane, in their order."""

    def edit(self, lane: tuple[str, str], wire: str, fields: dict[str, Json]) -> bool:
        """Change the parsed body in place; gives whether it did."""
        ...


@dataclass(frozen=True, slots=True)
class Outlined:
    """Calls whose prompts are known as outlines, in the order they were recorded, beside what the reference cache made
    of them.
    """

    calls: Sequence[ModelCall]
    """One a call; each prompt is an outline."""
    reads: Sequence[int]
    """What each read when they were replayed as they were."""


@dataclass(frozen=True, slots=True)
class Edited:
    """The calls after a change."""

    calls: Sequence[ModelCall]
    """As many, in the same order."""
    n_changed: int
    """How many are not as they were."""
    note: str = ""
    """What else is to be said, empty for nothing."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One row."""

    name: str
    """As it is asked for."""
    needs: Needs
    """What the record must hold."""
    to_do: str
    """What the reader would do, in a line."""
    assumptions: tuple[str, ...]
    """Names of those it rests on."""
    lanes: tuple[LaneChange, ...] = ()
    """How it is applied to bills and times; of several each conversation takes the cheapest, or none."""
    outlines: Callable[[Outlined], Edited] | None = None
    """How it is applied to outlines."""
    bodies: Callable[[], BodyEdit] | None = None
    """How it is applied to bodies: makes an editor for one recording."""


def readings_of(fix: Fix) -> list[Reading]:
    """List every combination of what `fix` assumes; the first is the one its figure takes.

    >>> len(readings_of(Fix("x", "outlines", "", ("lifetime", "tokenizer"))))
    6
    """
    rows = [row for row in ASSUMPTIONS if row.name in fix.assumptions]
    return [
        dict(zip([row.name for row in rows], chosen, strict=True))
        for chosen in product(*(row.readings for row in rows))
    ]
