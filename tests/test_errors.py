"""The tree of errors: one root, drawn in the module as it is, each with a text that says what it is for."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from contextkit import errors
from contextkit.errors import BudgetExceeded, ContextKitError, MissingExtra, NotSerialisable, UnreadableRequest

CLASSES = {name: thing for name, thing in vars(errors).items() if inspect.isclass(thing) and thing.__name__ == name}
DRAWN_LINE = re.compile(r"^    (?P<stem>[│ ├└─]*)(?P<name>[A-Z]\w+)\b", re.MULTILINE)


def drawn_parents() -> dict[str, str | None]:
    """Each error's parent as the drawing in the module's docstring has it."""
    parents: dict[str, str | None] = {}
    above: list[str] = []
    for line in DRAWN_LINE.finditer(errors.__doc__ or ""):
        depth = len(line["stem"]) // 4
        parents[line["name"]] = above[depth - 1] if depth else None
        above[depth:] = [line["name"]]
    return parents


def test_the_drawing_shows_the_tree_as_it_is() -> None:
    real = {name: None if thing is ContextKitError else thing.__bases__[0].__name__ for name, thing in CLASSES.items()}
    assert drawn_parents() == real


@pytest.mark.parametrize(
    "error",
    [
        NotSerialisable("$.a", "x"),
        UnreadableRequest("messages.0", "x"),
        MissingExtra("x", "server"),
        BudgetExceeded("x", unit="usd", limit=2.0, in_code="y"),
    ],
)
def test_an_error_survives_the_way_between_processes(error: ContextKitError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert (type(arrived), str(arrived), vars(arrived)) == (type(error), str(error), vars(error))
