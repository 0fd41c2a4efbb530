"""What one file says to the others: where its values come from and where they go, without its syntax tree.

Takes nothing, gives the small values a worker sends to the parent; knows nothing of syntax. A value is a set of
numbers, each an origin of its module's list: so a chain of calls stays a chain of numbers, however deep it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from contextkit.lint.finding import CodePlace, Finding, Fix
from contextkit.lint.source.rule import Kind, Sink

Value = frozenset[int]
"""Numbers of the origins a value has; empty: nothing in it varies."""
CLEAN: Value = frozenset()
"""A value that does not vary."""
MODULE_BODY = "<module>"
"""The function that a module's own statements are."""


class Site(NamedTuple):
    """A place in a file, and its text."""

    line: int
    """From 1."""
    column: int
    """From 1, in characters."""
    end_line: int
    """From 1."""
    end_column: int
    """Behind the last character."""
    text: str
    """What stands there, cut short."""
    statement_end: int
    """Last line of the statement around it, where a `# noqa` may stand too."""

    def place(self, file: str, note: str = "") -> CodePlace:
        """It as a place of a finding."""
        return CodePlace(file, self.line, self.column, self.end_line, self.end_column, note or self.text)


class Source(NamedTuple):
    """Something that varies stands here."""

    kind: Kind
    """What."""
    site: Site
    """Where."""


class Parameter(NamedTuple):
    """Whatever the caller gives."""

    function: str
    """Full name of the function it belongs to: for a function inside another one that may be the outer one."""
    name: str
    """Of the parameter."""


CALL = ".__call__"
"""Behind the full name of a class: an object of it is called."""


class Called(NamedTuple):
    """What a function of the linted tree gives back."""

    callee: str
    """Its full name as far as the file knows it."""
    arguments: tuple[tuple[int | str, Value], ...]
    """Position or name (`*`, `**` for unpacked ones) and origins of each argument that has any."""
    site: Site
    """Where it is called."""
    is_fresh: bool
    """Whether it is a method of an object made right here, so that what its `__init__` saw is new as well."""
    is_once: bool
    """Whether the call stands where a session runs it once: at module level or in a constructor."""
    texts: tuple[tuple[int | str, str], ...] = ()
    """Position or name of each argument that is written out as a word, and the word."""


class Attribute(NamedTuple):
    """What an object's attribute holds."""

    owner: str
    """Full name of the class."""
    name: str
    """Of the attribute."""


class Global(NamedTuple):
    """What a module's variable holds."""

    name: str
    """Full name."""


class Frozen(NamedTuple):
    """Made once for the whole session."""

    value: Value
    """Its origins."""


class Filtered(NamedTuple):
    """Put in order, or cleaned of something else."""

    value: Value
    """Its origins."""
    without: frozenset[Kind]
    """What no longer varies."""
    is_daily: bool = False
    """Whether of a clock only the day is left."""


class ObjectText(NamedTuple):
    """An object of the linted tree, as text."""

    owner: str
    """Full name of its class: what the `__str__` of that gives, where it has one."""
    value: Value
    """What it is made of, otherwise."""


class Item(NamedTuple):
    """One item of a tuple, or of a dict, that functions give back."""

    value: Value
    """Their calls."""
    place: int | str
    """Which item, from 0; or under which key."""


Origin = Source | Parameter | Called | Attribute | Global | Frozen | Filtered | ObjectText | Item
"""Where a value comes from."""


class Arrival(NamedTuple):
    """A value arrives at the prompt."""

    sink: Sink
    """As what."""
    value: Value
    """Its origins."""
    site: Site
    """Where."""
    label: str
    """What it reaches, for the message."""
    is_named: bool
    """Whether only a name says that it is a prompt, not the call of a known API."""
    in_loop: bool
    """Whether a loop stands around it, inside its function; or it is a function, which is called for each run."""
    only: tuple[str, str] = ("", "")
    """A parameter of the function around, and the word it has to be for the value to come here; empty where it always
    does."""


@dataclass(slots=True)
class Function:
    """A function, method, or a module's own statements."""

    name: str
    """Full name: `pkg.mod.Class.method`."""
    parameters: tuple[str, ...] = ()
    """Those that may be given by position, in order, without `self`."""
    named: frozenset[str] = frozenset()
    """Those that have a name of their own."""
    rest: str = ""
    """The one that takes all other positions, empty where none does."""
    extra: str = ""
    """The one that takes all other keywords, empty where none does."""
    returned: Value = CLEAN
    """Origins of what it gives back."""
    items: dict[int | str, Value] = field(default_factory=dict)
    """Of the tuples and dicts it gives back: place or key → origins of the item."""
    arrivals: list[Arrival] = field(default_factory=list)
    """What reaches the prompt inside it."""
    calls: list[int] = field(default_factory=list)
    """Origins (`Called`) of the calls it makes."""
    is_frozen: bool = False
    """Cached, or said to be frozen: its result is made once."""
    is_property: bool = False
    """Whether reading it as an attribute runs it."""
    is_once: bool = False
    """Run once per session: a constructor, a module's body, `main`."""
    in_loop: frozenset[int] = frozenset()
    """Those of `calls` that stand in a loop."""
    is_per_request: bool = False
    """Whether a system prompt or first message is made here for each request: it names a running history, or a
    framework asks it for its instructions."""


@dataclass(slots=True)
class Module:
    """One file."""

    path: str
    """As it was given."""
    name: str
    """`pkg.mod`."""
    origins: list[Origin] = field(default_factory=list)
    """What the numbers stand for."""
    functions: dict[str, Function] = field(default_factory=dict)
    """By their name inside the module: `Class.method`."""
    attributes: dict[tuple[str, str], list[tuple[Value, bool]]] = field(default_factory=dict)
    """(class inside the module, attribute) → what is stored, and whether a constructor or the class body stores it."""
    variables: dict[str, list[tuple[Value, bool]]] = field(default_factory=dict)
    """Module variable → what is stored, and whether at module level."""
    names: dict[str, str] = field(default_factory=dict)
    """What the file imports or re-exports: local name → full name."""
    classes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Class inside the module → full names of its bases."""
    silenced: dict[int, frozenset[str]] = field(default_factory=dict)
    """Line → codes that a `# noqa` there names; empty: all."""
    fixes: dict[tuple[int, int, int, int], Fix] = field(default_factory=dict)
    """First and last line and column of a source, or of where one arrives → the safe change that ends what is found
    there."""
    findings: list[Finding] = field(default_factory=list)
    """What patterns found, and what could not be read."""
