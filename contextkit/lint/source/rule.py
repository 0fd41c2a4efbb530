"""What a rule of the source detector is: a value that flows where it should not, or a shape in the syntax.

Takes nothing, gives the two kinds of rule; the engine reads them, the pages in `rules/` hold them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from contextkit.lint.finding import Fix

Kind = Literal[
    "clock",  # time of day: datetime.now, time.time, pendulum.now, strftime
    "date",  # the day: date.today, now().date(), now() rendered with day precision only
    "id",  # uuid, secrets, token_hex, random numbers, request and trace ids, id(), hash()
    "choice",  # random.choice, hash buckets: one of several fixed texts
    "place",  # cwd, git, hostname, platform, user name, terminal size, temporary folders
    "environ",  # environment variables read per call
    "unordered",  # sets, as_completed: another order in each process
    "jumbled",  # the items of a set, or of what else has another order in each process, joined into one text
    "entries",  # os.listdir, glob, iterdir: the names of what stands in a folder
    "paths",  # os.listdir, glob, iterdir: the order of a file system
    "mapping",  # dict views: insertion order, stable only as long as who fills it is
    "rows",  # database rows without an order, JSON from a registry or a jsonb column
    "recall",  # retriever, vector store, memory search
    "user",  # the user's text or query
    "person",  # user name, tenant, locale
    "file",  # text read from a file per call
    "plan",  # todo list, plan, scratch state
    "counter",  # how many turns, steps or tokens there were, or are left
    "listing",  # skills, sub-agents, models joined into one text
    "server",  # tools fetched from an MCP server or registry at run time
    "media",  # an image encoded or resized
    "history",  # the running list of messages
    "unsorted_json",  # json.dumps of a mapping without sorted keys
    "model",  # a model name chosen at run time
    "flag",  # a boolean or setting chosen per call
]
"""What varies."""

Sink = Literal[
    "system",  # system prompt, instructions, a system or developer message
    "tools",  # the list of tools
    "tool",  # a tool's description
    "schema",  # a tool's schema
    "front",  # the first messages: insert(0, …), messages[0]
    "message",  # a message already in the history
    "tail",  # the newest message
    "marked",  # a block that carries a cache marker
    "cache_key",  # prompt_cache_key, session or affinity id
    "salt",  # cache_salt
    "model",
    "effort",
    "thinking",
    "tool_choice",
    "output",
    "headers",
    "template",
    "ttl",
    "stream",
    "client",
]
"""Where it arrives; the last line are the request parameters of that name (`output`: response_format, output schema).
"""


SORT_KEYS, SORT_ITEMS, SORT_TOOLS, MOVE_MARKER = (
    "sort the keys",
    "sort what is listed",
    "sort the tools by name",
    "move the marker",
)
"""Titles of the safe changes the walk offers."""
MARK_LAST = "mark the last block"
"""Title of a change that is safe only where nothing in front of the marker varies: what is written and never read costs
more than none."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A value of one of `kinds`, not frozen on the way, reaches one of `sinks`."""

    kinds: tuple[Kind, ...]
    """What varies."""
    sinks: tuple[Sink, ...]
    """Where it arrives."""
    message: str
    """One sentence; `{source}` is the expression that varies, `{sink}` what it reaches."""
    in_loop_only: bool = False
    """Whether only a call inside a loop, or a function that is called per turn, matters."""
    mends: tuple[str, ...] = ()
    """Titles of the safe changes that end it, of those the walk offers at the source or where it arrives: `SORT_KEYS`,
    …"""


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a pattern matched."""

    node: ast.AST
    """The expression or statement the finding points at."""
    message: str
    """One sentence about it."""
    fix: Fix | None = None
    """A safe change."""


Node = TypeVar("Node", bound=ast.AST)


class View(Protocol):
    """What a pattern may ask about the file it looks at, while the walk stands on a node."""

    source: bytes
    """The file, for fixes: byte offsets of an `Edit` count here."""

    def dotted(self, node: ast.AST) -> str:
        """The full name a name, attribute or call's function stands for, imports resolved: `datetime.datetime.now`.

        Empty where none.

        An attribute of an unknown value keeps its tail: `client.messages.create` → `?.messages.create` when `client` is
        unknown.
        """
        ...

    def is_history(self, node: ast.AST) -> bool:
        """Whether the expression is the running list of messages, by flow or by name: `messages`, `self.history`,
        `state["messages"]`.
        """
        ...

    def is_tools(self, node: ast.AST) -> bool:
        """Whether the expression is a list of tools or a tool definition."""
        ...

    def is_prompt(self, node: ast.AST) -> bool:
        """Whether the expression is system text."""
        ...

    def kinds(self, node: ast.AST) -> frozenset[Kind]:
        """What varies in an expression, as far as this function shows."""
        ...

    def is_constant(self, node: ast.AST) -> bool:
        """Whether the expression is made of literals, module constants and session-level attributes only."""
        ...

    def calls_model(self) -> bool:
        """Whether the enclosing function calls a model, itself or through a function of this file."""
        ...

    def loop(self) -> ast.AST | None:
        """The innermost loop around the node inside its function, None outside of one."""
        ...

    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function around the node."""
        ...

    def nodes(self, around: ast.AST, *types: type[Node]) -> tuple[Node, ...]:
        """The nodes of these types inside a function or statement, in order, those of functions and classes in it left
        out.

        Found once for all patterns that ask about the same node one after the other: ask this rather than `ast.walk`.
        """
        ...

    def parents(self) -> tuple[ast.AST, ...]:
        """The nodes around it, outermost first."""
        ...

    def bytes_at(self, node: ast.AST) -> tuple[int, int]:
        """Byte offsets of a node's first byte and of the one behind its last, for an `Edit`."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A shape in the syntax; each is like no other one, as its function is."""

    nodes: tuple[type[ast.AST], ...]
    """Which nodes to be shown."""
    find: Callable[[Any, View], Iterable[Hit]]
    """What is wrong with one; called while the walk stands on it."""
    words: tuple[str, ...] = ()
    """At least one of these stands in every file it can match; a file without them is not searched for it.

    A pattern that asks for calls, assignments or dicts and has neither words near nor names is asked about every one in
    such a file. """
    is_near: bool = False
    """Whether one of the words stands in the node itself: one without them is not looked at."""
    also: tuple[tuple[str, ...], ...] = ()
    """Of each of these, too, at least one stands in the node itself, and so in its file."""
    tested: tuple[tuple[str, ...], ...] = ()
    """Of each of these at least one stands in the condition of an `if` or a ternary."""
    names: tuple[str, ...] = ()
    """What it is shown (calls, assignments, dicts, keywords) has one of these itself: an argument, what is set, a key,
    its name."""
