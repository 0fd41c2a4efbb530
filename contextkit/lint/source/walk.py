"""Walks the statements and expressions of one file after the other.

It keeps, for each expression, the set of its origins (what it is made of: sources that vary, parameters, results of
calls), notes where a value reaches a prompt, and asks the patterns about the nodes whose words stand in the file. A
function's body waits until what stands around it has been walked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, NamedTuple

from contextkit.lint.finding import CodePlace, Edit, Finding, Fix
from contextkit.lint.source import nodes as ast
from contextkit.lint.source import sanitizers, sinks, sources
from contextkit.lint.source.patterns import (
    FROZEN,
    FUNCTIONS,
    MARKED,
    SELDOM,
    SILENCED,
    Asking,
    CodedPattern,
    Standing,
    Wanted,
    frozen_lines,
    made_ready,
    silenced_lines,
)
from contextkit.lint.source.rule import MOVE_MARKER, SORT_ITEMS, SORT_KEYS, SORT_TOOLS, Hit, Kind, Node, Sink
from contextkit.lint.source.summary import (
    CALL,
    CLEAN,
    MODULE_BODY,
    Arrival,
    Attribute,
    Called,
    Filtered,
    Frozen,
    Function,
    Global,
    Item,
    Module,
    ObjectText,
    Origin,
    Parameter,
    Site,
    Source,
    Value,
)
from contextkit.lint.source.syntax import (
    BUILTINS,
    FOREIGN,
    OURS,
    AnyFunction,
    CallSpec,
    appended,
    as_meant,
    by_type,
    children,
    constant_keys,
    counter_of,
    counts,
    forget,
    functions_in,
    is_model_call,
    is_system_message,
    is_system_role,
    is_tool_definition,
    keeps_its_result,
    last_name,
    made_by,
    made_from,
    places_in_system,
    removed,
    takes_prompts,
    walk,
    way_to,
    word_of,
    wrapped,
)

_TEXT_LIMIT = 60
_WITH_A_NAME = frozenset({ast.arg, ast.keyword})
_SCOPES = frozenset({ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda})


@dataclass(slots=True)
class Scope:
    """The function the walk stands in."""

    function: Function
    """What it becomes."""
    node: AnyFunction | None
    """Its syntax, None for a module's body."""
    env: dict[str, Value]
    """Variable (`x`, `x.y`, `x['y']`) → origins."""
    types: dict[str, str]
    """Variable → full name of the class or function it came from."""
    owner: str = ""
    """Class inside the module, empty outside of one."""
    myself: str = ""
    """Name of the first parameter of a method."""


_DOTTED = re.compile(rb"[\w.]*\Z")
_LONG = 80
"""Characters of a dotted name, at most."""
_DEPTH = 8
"""How far a question follows assignments: deeper chains are generated code."""


def _is_plain_name(node: ast.AST) -> bool:
    """Whether it is a constant, a variable or an item of one: cheap to evaluate, and another one after each assignment."""
    holder = node.value if isinstance(node, ast.Attribute | ast.Subscript) else node
    return isinstance(holder, ast.Name | ast.Constant)


ADDERS = frozenset({"append", "insert", "extend", "add"})
"""Methods that put an item into a list."""
MESSAGE_METHODS = ADDERS - {"add"}
"""Those of a list of messages."""
FILLERS = frozenset(
    "partial invoke ainvoke stream astream format_messages aformat_messages format_prompt aformat_prompt".split()  # noqa: SIM905
)
"""Methods of a template, and of what it is piped into, whose arguments are filled in."""
MEETING = MESSAGE_METHODS | FILLERS | {"update"}
"""Methods whose arguments may reach a prompt whatever they are called."""
_REQUESTS = ("kwargs", "params", "request", "payload", "body", "data", "args", "options", "config")
"""Ends of the names of what is sent."""
REQUEST_SINKS = frozenset(
    {"model", "effort", "thinking", "tool_choice", "output", "headers", "template", "ttl", "stream"}
)
"""A choice between two constants varies only here."""


def n_characters(node: ast.expr) -> int:
    """How long the constant text of an f-string, or of a part of one, is."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return sum(
        len(part.value.strip()) for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


def _is_conversation(node: ast.expr) -> bool:
    """Whether a key is made of the conversation's own id: as long as the conversation has it, its prefix is found by
    it.
    """
    names = [last_name(part.value if isinstance(part, ast.FormattedValue) else part) for part in _parts(node)]
    return bool(names) and all(map(sinks.CONVERSATION_ID.search, names))


def _parts(node: ast.expr) -> list[ast.expr]:
    return (
        [part for part in node.values if not isinstance(part, ast.Constant)]
        if isinstance(node, ast.JoinedStr)
        else [node]
    )


def is_role(node: ast.expr) -> bool:
    """`"system"`, as it is written."""
    return isinstance(node, ast.Constant) and node.value in sinks.SYSTEM_ROLES


def _is_request_name(name: str) -> bool:
    return name.endswith(_REQUESTS) and not name.endswith("metadata")


def _takes_prompts(node: ast.Call, last: str, known: CallSpec) -> bool:
    """Whether a call means a prompt by `tools=` and `instructions=`.

    A function of the linted tree says itself where it sends them; a method may be that of a class others are made from.
    """
    return takes_prompts(last) and not (known.is_ours and type(node.func) is ast.Name and last[:1].islower())


Handler = Callable[[Any], Value]
_SAME_ITEMS = frozenset({"enumerate", "reversed", "list"})
_ORDERS = sanitizers.ORDER - {"rows"}
"""Orders of a collection: of a row, what is made of it says itself whether it was put into one form."""
_SETS = frozenset({"set", "frozenset", "Set", "AbstractSet", "FrozenSet", "MutableSet"})


def _beside(node: ast.Dict) -> Callable[[object], bool]:
    """Which keys of a dict display stand beside its text: of a request, of a message, of any mapping."""
    keys = {key.value for key in node.keys if type(key) is ast.Constant}
    if "messages" in keys:
        return sources.is_aside
    return (sources.ASIDE if "role" in keys or "content" in keys else sources.BESIDE).__contains__


def _gone_through(node: ast.Call) -> ast.expr | None:
    """What `enumerate(x)`, `reversed(x)`, `list(x)` and `x.copy()` go through."""
    if node.args:
        return node.args[0] if last_name(node.func) in _SAME_ITEMS else None
    return node.func.value if type(node.func) is ast.Attribute and node.func.attr == "copy" else None


def _is_of_texts(node: ast.expr) -> bool:
    return type(node) is ast.Set and all(
        isinstance(item, ast.Constant) and isinstance(item.value, str) for item in node.elts
    )


def _values(items: list[ast.expr]) -> list[ast.expr]:
    """Those of `[("system", platform.system()), ("machine", platform.machine())]`: pairs of names and values, not of
    roles and texts.
    """
    pairs = [item.elts for item in items if type(item) is ast.Tuple and len(item.elts) == 2]
    names = [first.value for first, _ in pairs if type(first) is ast.Constant]
    return items if len(names) < len(items) or sinks.SPEAKERS.issuperset(names) else [value for _, value in pairs]


_NO_TEXT = (ast.Not,)
_RECKONING = frozenset({ast.Div, ast.FloorDiv, ast.Mult, ast.Pow})
"""What is divided or multiplied is a number to decide by: an age, a score."""
_CLOCKS: frozenset[Kind] = frozenset({"clock", "date"})
_REPR = ord("r")
_OF_A_PATH = frozenset({"name", "stem"})
_BUT_ENTRIES = sanitizers.EVERYTHING - {"entries"}
"""What the name of a file does not say."""


_VARIABLE_TAILS = frozenset(name.rpartition(".")[2] for name in sources.ATTRIBUTES)
_TOLD = _VARIABLE_TAILS | sources.FIELDS.keys() | sources.PERSONAL
"""Names of attributes that a table tells of."""


def is_day_format(node: ast.AST) -> bool:
    """Whether a constant is a format of strftime no finer than a day."""
    directives = _directives(node)
    return bool(directives) and not directives & sources.DAY_FORMAT


def is_zone_format(node: ast.AST) -> bool:
    """Whether a constant is a format of strftime that names the zone of time and nothing else."""
    directives = _directives(node)
    return bool(directives) and directives <= {"Z", "z"}


def is_clock_format(node: ast.AST) -> bool:
    """Whether a constant is a format of strftime finer than a day."""
    return bool(_directives(node) & sources.DAY_FORMAT)


def _directives(node: ast.AST) -> set[str]:
    """`{"Y", "m"}` of `"%Y-%m"`; none of anything else."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return {part[:1] for part in text.replace("%-", "%").split("%")[1:]}


_DEEP = 4  # how far back it is asked what a mapping was made from


_LISTS = frozenset({"list", "tuple"})
_MANY = 99
_DRAWN: frozenset[Kind] = frozenset({"id"})
"""What differs each time it is drawn, and no longer once it is stored."""
_NAMING = frozenset({"tool", "function_tool", "beta_tool", "beta_async_tool"})
"""Decorators that make a tool with a `name` of a function."""
_MUTATORS = frozenset("append extend insert add update setdefault appendleft put put_nowait write writelines".split())  # noqa: SIM905
"""Methods that put their arguments into the object."""
_KEEPING = frozenset(
    {"unordered", "paths", "mapping", "media"}
)  # kinds of sources that still hold what they were given
_PATHS: frozenset[Kind] = frozenset({"paths"})
"""What one text was made of: whatever the order was, the list it stands in has another."""
_ORDERING = frozenset({"sorted", "sort", "groupby", "nlargest", "nsmallest"})
"""Their keywords say by what, and are no part of the result."""
_FILLING = frozenset({"format", "format_map", "render", "render_async", "arender"})
"""Methods of templates."""
_COPIES = frozenset({"replace", "copy", "model_copy", "evolve", "update"})
"""Their keywords are fields of what is copied."""
_TAKERS = frozenset({"pop", "popleft", "index"})
"""Methods whose first argument says which item, and is no part of it."""
_MESSAGES = frozenset({"Message", "ChatMessage", "InputMessage"})
"""Classes whose text arrives as what their `role` says."""
_SPECIAL = (
    _COPIES
    | _TAKERS
    | _LISTS
    | _MUTATORS
    | sources.DAY_METHODS
    | sanitizers.STORED.keys()
    | {"get", "filter", "strftime", "join", "map", "partial", "sort"}
)
"""Last names of calls whose result is worked out from more than their arguments."""


def last_parts(*tables: Iterable[str]) -> frozenset[str]:
    """`now` of `datetime.now`, for each name in some tables."""
    return frozenset(name.rpartition(".")[2] for table in tables for name in table)


TOLD = last_parts(
    sources.CALLS,
    sources.METHODS,
    sources.RETRIEVER_METHODS,
    sources.GIT,
    sanitizers.CALLS,
    sanitizers.ANSWERED,
    sanitizers.JSON_DUMPS,
    sanitizers.CLEAN_CALLS,
    sanitizers.CLEAN_METHODS,
    sanitizers.TEXT_CALLS,
    sinks.MODEL_METHODS,
    sinks.MODEL_CALLS,
    sinks.CONSTRUCTORS,
    MEETING,
    _SPECIAL,
    _MESSAGES,
)
"""Last parts of all names that a table tells of."""


def _is_retrieved(node: ast.Call, holder: ast.expr, last: str) -> bool:
    """Whether a method recalls something: of a memory, or of anything that is searched by a vector."""
    name, by = last_name(holder).lower(), {keyword.arg for keyword in node.keywords}
    if name.endswith(sources.RETRIEVERS):
        is_asked = bool(node.args) and type(node.args[0]) is not ast.Constant
        return is_asked or (last != "get" and bool(node.args or node.keywords))
    return not by.isdisjoint(sources.NEAREST_TO) or (
        name.endswith(sources.STORES) and not by.isdisjoint(sources.SEARCHED_BY)
    )


_KEEPS_ITEMS = frozenset(
    {
        ast.Name,
        ast.Attribute,
        ast.Subscript,
        ast.Call,
        ast.ListComp,
        ast.BinOp,
        ast.List,
        ast.Await,
        ast.NamedExpr,
        ast.Dict,
        ast.DictComp,
    }
)
"""Expressions that may be a list of messages or tools made from another one, or say in which order a mapping was
filled."""

_NAMES = frozenset({ast.Name, ast.Attribute})
_MAKE = _NAMES | {ast.Call, ast.Await, ast.BoolOp, ast.IfExp}
"""Expressions that may make an object, or be a function or class."""


def _made_where_none_was(node: ast.expr) -> ast.expr:
    """`given or Made()`, `Made() if given is None else given`: what is made; of `partial(f, x)` what it calls."""
    if type(node) is ast.BoolOp and type(node.op) is ast.Or:
        node = node.values[-1]
    elif type(node) is ast.IfExp:
        node = node.body if type(node.body) is ast.Call else node.orelse
    return node.args[0] if type(node) is ast.Call and node.args and last_name(node.func) == "partial" else node


def _is_factory(node: ast.expr) -> bool:
    """`field(default_factory=…)` of a class."""
    return type(node) is ast.Call and any(keyword.arg in {"default_factory", "factory"} for keyword in node.keywords)


def _may_choose(node: ast.If) -> bool:
    return any(
        isinstance(part, ast.Assign) and last_name(part.targets[0]) in sources.FLAGS
        for part in (*node.body, *node.orelse)
    )


def last_part(name: str) -> str:
    """The function's own name."""
    return name.rpartition(".")[2]


_AFTER = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.ClassDef)
"""Statements a pattern is shown when the walk has been through them; others are shown before."""
_WATCHING_NAMES: dict[type, Callable[[Any], list[Any]]] = {
    ast.Call: lambda node: [keyword.arg for keyword in node.keywords],
    ast.Assign: lambda node: [last_name(target) for target in node.targets],
    ast.Dict: lambda node: [key.value for key in node.keys if type(key) is ast.Constant],
    ast.keyword: lambda node: [node.arg],
}
"""Type of node → the names one has itself."""
_MOST_WATCHES = 1_000
"""Sets of patterns remembered at most, some kilobytes each."""


class _Watch(NamedTuple):
    """The patterns that the files with some words are asked for."""

    asking: dict[type, Asking]
    """By type of node."""
    types: frozenset[type]
    """Those types."""
    watched: dict[type, Handler]
    """Handlers with all of them around."""
    quiet: dict[type, Handler]
    """Handlers for statements without a word that tells of patterns: only those around that ask for what is seldom met.
    """
    telling: int
    """The groups of words that tell of patterns."""


_NONE = frozenset[str]()
_PROPERTIES = frozenset({"property", "cached_property", "computed_field", "hybrid_property"})


def _runs_once(decorator: ast.expr) -> bool:
    """`@agent.system_prompt` of pydantic-ai is run where a conversation begins.

    With `dynamic=True` before each request.
    """
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    is_dynamic = any(keyword.arg == "dynamic" and getattr(keyword.value, "value", True) for keyword in keywords)
    return isinstance(func, ast.Attribute) and func.attr == "system_prompt" and not is_dynamic


def _decorators(node: AnyFunction) -> frozenset[str]:
    return frozenset(last_name(part.func if isinstance(part, ast.Call) else part) for part in node.decorator_list)


_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_IMPORTS = frozenset({ast.Import, ast.ImportFrom})
_STEPS = (b"+=", b"-=")
Env = dict[str, Value]


def _merged(ends: list[Env]) -> Env:
    """What a variable may hold after ways that meet again."""
    first = dict(ends[0])
    for env in ends[1:]:
        if env is ends[0]:
            continue
        for name, value in env.items():
            known = first.get(name)
            if known is not value:
                first[name] = value if known is None else known | value if value else known
    return first


class Walk:
    """Walks files one after the other and notes what varies, what reaches the prompt and what patterns match.

    It has slots: an object with so many attributes in a dict is a tenth slower to ask.
    """

    __slots__ = (
        "_assigned",
        "_callers",
        "_functions",
        "_is_ascii",
        "_lines",
        "_parents",
        "_starts",
        "annotations",
        "asked",
        "begun",
        "bound",
        "branches",
        "call_sinks",
        "call_sources",
        "called",
        "choices",
        "class_types",
        "display",
        "fields",
        "fresh",
        "frozen_lines",
        "global_names",
        "growing",
        "ids",
        "imported",
        "in_handler",
        "known_calls",
        "known_roots",
        "loops",
        "marks",
        "may_freeze",
        "may_mark",
        "meant",
        "method_sources",
        "mid_conversation",
        "module",
        "named_sinks",
        "names",
        "orders",
        "package",
        "patterns",
        "plain",
        "probed",
        "probing",
        "quiet",
        "returns_name",
        "returns_to",
        "roots",
        "sanitizing",
        "scope",
        "settled",
        "shown",
        "silencing",
        "source",
        "standing",
        "statement",
        "stored",
        "table",
        "template_places",
        "told",
        "tool_loops",
        "tree",
        "waiting",
        "wanted",
        "watched",
        "watched_types",
        "watches",
    )

    source: bytes
    module: Module
    scope: Scope
    probing: bool
    in_handler: bool
    """Whether it stands in an `except`."""

    def open(self, module: Module, source: bytes, tree: ast.Module, roots: frozenset[str]) -> None:
        """Begin a file."""
        self.module, self.source, self.tree, self.roots = module, source, tree, roots
        self.ids: dict[Origin, Value] = {}
        self.names = module.names
        self.scope = Scope(Function(f"{module.name}.{MODULE_BODY}", is_once=True), None, {}, {})
        self.loops: list[ast.AST] = []
        self.statement: ast.AST = tree
        self.probing = False
        self.class_types: dict[tuple[str, str], str] = {}
        self.bound: set[str] = set()
        self._starts: list[int] | None = None
        self._is_ascii = source.isascii()
        self._lines: list[bytes] = []
        self.stored, self.probed = {}, {}
        self._parents: dict[ast.AST, tuple[ast.AST, ...]] = {}
        self._assigned: dict[int, dict[str, list[ast.expr]]] = {}
        self._callers: dict[int, bool] = {}
        self._functions: dict[str, list[AnyFunction]] | None = None

    # Origins
    # --------------------------------------------------------------------------------------------------------------

    def number(self, origin: Origin) -> Value:
        """The value that has this one origin."""
        found = self.ids.get(origin)
        if found is None:
            found = self.ids[origin] = frozenset((len(self.module.origins),))
            self.module.origins.append(origin)
        return found

    def varies(self, kind: Kind, node: ast.AST) -> Value:
        """The value of an expression that is a source; in a handler, the way of a mishap, none is."""
        if self.in_handler:
            return CLEAN
        site = self.site(node)
        if isinstance(node, ast.expr):
            text = self._written(node)
            site = site._replace(text=text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…")
        return self.number(Source(kind, site))

    def _written(self, node: ast.expr) -> str:
        """An expression as it stands in the file, on one line."""
        self._index()
        if node.lineno == node.end_lineno and node.lineno <= len(self._lines):
            return (
                self._lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8", "replace").strip()
            )
        return re.sub(r"\s+", " ", ast.unparse(node))

    def frozen(self, value: Value) -> Value:
        """The same, made once for the session."""
        return self.number(Frozen(value)) if value else value

    def filtered(self, value: Value, without: frozenset[Kind]) -> Value:
        """The same, with some kinds mended."""
        return self.number(Filtered(value, without)) if value else value

    def parameter(self, name: str) -> Value:
        """The value a parameter of this function has."""
        return self.number(Parameter(self.scope.function.name, name))

    def variable(self, name: str) -> Value:
        """The value a module's variable has, wherever it was set."""
        return self.number(Global(f"{self.module.name}.{name}"))

    def site(self, node: Any) -> Site:
        """Where a node stands; the text of an expression is left to who needs it."""
        try:
            line, column, end_line, end_column = (
                node.lineno,
                node.col_offset,
                node.end_lineno or 1,
                node.end_col_offset or 0,
            )
        except AttributeError:  # a module, a comprehension
            line, column, end_line, end_column = 1, 0, 1, 0
        around = self.statement
        last = end_line if type(around) in _SCOPES else getattr(around, "end_lineno", None) or end_line
        text = node.arg or "" if type(node) in _WITH_A_NAME else ""
        if self._is_ascii:
            return Site(line, column + 1, end_line, end_column + 1, text, last)
        return Site(line, self._column(line, column), end_line, self._column(end_line, end_column), text, last)

    def _column(self, line: int, offset: int) -> int:
        if self._starts is None:
            self._index()
        text = self._lines[line - 1] if line <= len(self._lines) else b""
        return len(text[:offset].decode("utf-8", "replace")) + 1

    def _index(self) -> list[int]:
        if self._starts is None:
            bom = 3 if self.source.startswith(b"\xef\xbb\xbf") else 0
            self._lines = self.source[bom:].splitlines(keepends=True)
            self._starts = [*accumulate(map(len, self._lines), initial=bom)]
        return self._starts

    # Names
    # ----------------------------------------------------------------------------------------------------------------

    def dotted(self, node: ast.AST) -> str:
        """The full name something stands for; see `rule.View`."""
        kind = type(node)
        while kind is ast.Call or kind is ast.Await:
            node = node.func if kind is ast.Call else node.value  # type: ignore[attr-defined]
            kind = type(node)
        if kind is ast.Attribute:
            return self._attribute_name(node)  # type: ignore[arg-type]
        if kind is not ast.Name:
            return ""
        name, scope = node.id, self.scope  # type: ignore[attr-defined]
        found = scope.types.get(name)
        if found is not None:
            return found
        if name == scope.myself:
            return f"{self.module.name}.{scope.owner}"
        if name in scope.env:
            return ""
        return self.names.get(name) or (name if name in BUILTINS else self._starred(name))

    def _starred(self, name: str) -> str:
        """The full name of what only `from a import *` can have brought."""
        star = self.names.get("*")
        return f"{star[:-1]}{name}" if star is not None and name not in self.bound else ""

    def _attribute_name(self, node: ast.Attribute) -> str:
        value, attribute, scope = node.value, node.attr, self.scope
        if type(value) is ast.Name:
            name = value.id
            if name == scope.myself:
                known = self.class_types.get((scope.owner, attribute))
                if known is not None:
                    return known
            known = scope.types.get(f"{name}.{attribute}")
            if known is not None:
                return known
            head = self.dotted(value)
        elif type(value) is ast.Call and type(value.func) is ast.Name and value.func.id == "super":
            head = next(iter(self.module.classes.get(self.scope.owner, ())), "")
        else:
            head = self.dotted(value)
            if type(value) is not ast.Attribute and self.gives_unknown(head):
                head = ""
        return f"{head or '?'}.{attribute}"

    def gives_unknown(self, name: str) -> bool:
        """Whether a name is a function of the tree, whose result is of a class that its name does not say."""
        return name.rpartition(".")[2].lstrip("_")[:1].islower() and self.is_ours(name)

    def is_ours(self, name: str) -> bool:
        """Whether a full name may be of the linted tree."""
        return name.partition(".")[0] in self.roots

    # Places
    # --------------------------------------------------------------------------------------------------------------

    def bytes_at(self, node: Any) -> tuple[int, int]:
        """Byte offsets of a node; see `rule.View`."""
        starts = self._starts or self._index()
        try:
            return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        except AttributeError:  # a module, a comprehension
            return starts[0], starts[0]

    def offer(self, spot: tuple[int, int, int, int], title: str, *edits: Edit | None) -> None:
        """A safe change for what is found at a place; none where one of its edits is not safe."""
        known = tuple(edit for edit in edits if edit is not None)
        if len(known) == len(edits) and not self.probing:
            self.module.fixes.setdefault(spot, Fix(title, known))

    stored: dict[str, list[ast.expr]]
    """Variable → the lists, calls and the like that this function stored in it."""

    def probe(self, node: ast.AST) -> Value:
        """The origins of an expression, without noting anything.

        An expression is evaluated once a statement: handlers probe what they have evaluated, and nested expressions
        would otherwise be evaluated twice at each level, 2 ** depth times in all.
        """
        if _is_plain_name(node):
            return self._probed(node)
        known = self.probed.get(node)
        if known is None:
            value = self._probed(node)
            self.probed[node] = value, self.called, self.display
            return value
        value, self.called, self.display = known
        return value

    def _probed(self, node: ast.AST) -> Value:
        before, self.probing = self.probing, True
        try:
            return self.evaluate(node)
        finally:
            self.probing = before

    probed: dict[ast.AST, tuple[Value, Any, Any]]
    """Expression of the current statement → its origins, and what `called` and `display` were after it was evaluated.
    """

    def kinds(self, node: ast.AST) -> frozenset[Kind]:
        """What varies in an expression; see `rule.View`."""
        found = self._kinds_of(self.probe(node), _DEPTH, {})
        return found | {"history"} if self.is_history(node) else found

    def _kinds_of(self, value: Value, depth: int, known: dict[tuple[int, int], frozenset[Kind]]) -> frozenset[Kind]:
        """The kinds of some origins; `known` are those of each that was met on the way: many ways lead to the same one."""
        found: frozenset[Kind] = frozenset()
        for number in value if depth else ():
            key = number, depth
            if key not in known:
                known[key] = frozenset()
                known[key] = self._kinds_of_origin(self.module.origins[number], depth - 1, known)
            found |= known[key]
        return found

    def _kinds_of_origin(
        self, origin: Origin, depth: int, known: dict[tuple[int, int], frozenset[Kind]]
    ) -> frozenset[Kind]:
        if isinstance(origin, Source):
            return frozenset({origin.kind})
        if isinstance(origin, Filtered):
            inside = self._kinds_of(origin.value, depth, known) - origin.without
            return frozenset({"date" if kind == "clock" else kind for kind in inside}) if origin.is_daily else inside
        if isinstance(origin, Item | ObjectText):
            return self._kinds_of(origin.value, depth, known)
        if not isinstance(origin, Called):
            return frozenset()
        local = self.module.functions.get(origin.callee.removeprefix(f"{self.module.name}."))
        values = [value for _, value in origin.arguments] + ([local.returned] if local else [])
        return frozenset[Kind]().union(*(self._kinds_of(value, depth, known) for value in values))

    def is_history(self, node: ast.AST) -> bool:
        """Whether it is the running list of messages; see `rule.View`."""
        return self._is_named(node, sinks.HISTORY, set())

    def is_tools(self, node: ast.AST) -> bool:
        """Whether it is a list of tools or a tool definition; see `rule.View`."""
        return self._is_named(node, sinks.TOOLS, set()) or (
            isinstance(node, ast.Dict) and is_tool_definition(constant_keys(node))
        )

    def is_prompt(self, node: ast.AST) -> bool:
        """Whether it is system text; see `rule.View`."""
        return self._is_named(node, sinks.PROMPT, set())

    def _is_named(self, node: ast.AST, words: re.Pattern[str], asked: set[str]) -> bool:
        """By its own name, by the name of what it was made from, or by what was stored in it."""
        name = last_name(node)
        if name and words.match(name):
            return True
        if isinstance(node, ast.Name):
            if node.id in asked:
                return False
            asked.add(node.id)
            return any(self._is_named(value, words, asked) for value in self.stored.get(node.id, ()))
        return not isinstance(node, ast.Attribute) and any(
            self._is_named(part, words, asked) for part in made_from(node)
        )

    def stored_in(self, name: str) -> list[ast.expr]:
        """The expressions this function assigns to a variable."""
        node = self.scope.node
        if node is None:
            return []
        if id(node) not in self._assigned:
            found: dict[str, list[ast.expr]] = {}
            for part in walk(node):
                if isinstance(part, ast.Assign):
                    for target in part.targets:
                        if isinstance(target, ast.Name):
                            found.setdefault(target.id, []).append(part.value)
            self._assigned[id(node)] = found
        return self._assigned[id(node)].get(name, [])

    def is_constant(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether it is made of what never changes in a session; see `rule.View`."""
        if isinstance(node, ast.Name):
            stored = self.stored_in(node.id)
            if stored:
                return bool(depth) and all(self.is_constant(value, depth - 1) for value in stored)
            return node.id not in self.scope.env and (
                node.id in self.names or node.id in BUILTINS or node.id in self.bound
            )
        if isinstance(node, ast.Attribute):
            is_mine = isinstance(node.value, ast.Name) and node.value.id == self.scope.myself
            return self._is_settled(node.attr) if is_mine else self.is_constant(node.value, depth)
        if isinstance(node, ast.Call):
            return self.dotted(node) in {"str", "tuple", "list", "dict", "frozenset", "int", "textwrap.dedent"} and all(
                self.is_constant(argument, depth) for argument in node.args
            )
        return all(self.is_constant(child, depth) for child in children(node) if isinstance(child, ast.expr))

    def _is_settled(self, attribute: str) -> bool:
        stored = self.module.attributes.get((self.scope.owner, attribute), [])
        return bool(stored) and all(is_once for _, is_once in stored)

    def calls_model(self) -> bool:
        """Whether the function around calls a model, itself or through this file; see `rule.View`."""
        return self.scope.node is not None and self._calls_model(self.scope.node, _DEPTH)

    def asks_model(self, node: ast.AST) -> bool:
        """Whether a loop or function calls a model, itself or through this file."""
        return self._calls_model(node, _DEPTH)

    def converses(self, node: ast.AST) -> bool:
        """Whether a loop or function goes through the turns of a conversation: adds to messages that outlive it, and
        calls a model.
        """
        start, end = self.bytes_at(node)
        if not any(self.source.find(word, start, end) >= 0 for word in sinks.TALKS):
            return False
        held = {self._written_up_to(found.end()) for found in sinks.CONVERSES.finditer(self.source, start, end)}
        return bool(held) and self._calls_model(node, _DEPTH) and not held <= self._begun_in(node, held)

    def _written_up_to(self, end: int) -> str:
        """`self.messages`, where the name ends there."""
        found = _DOTTED.search(self.source, max(0, end - _LONG), end)
        return found[0].decode("ascii", "replace") if found else ""

    def _begun_in(self, node: ast.AST, held: set[str]) -> set[str]:
        """Those of some lists that a loop or function begins itself, or that hang on what a loop goes through."""
        stored = (target for one in self.nodes(node, ast.Assign) for target in one.targets)
        annotated = (one.target for one in self.nodes(node, ast.AnnAssign) if one.value is not None)
        begun = {ast.unparse(target) for target in (*stored, *annotated)}
        targets = walk(node.target) if isinstance(node, ast.For | ast.AsyncFor) else []
        gone_through = {part.id for part in targets if isinstance(part, ast.Name)}
        return {one for one in held if one in begun or one.partition(".")[0] in gone_through}

    def _calls_model(self, node: ast.AST, depth: int) -> bool:
        known = self._callers.get(id(node))
        if known is not None:
            return known
        self._callers[id(node)] = False
        names = {last_name(call.func): call for call in walk(node) if isinstance(call, ast.Call)}
        found = any(is_model_call(self.dotted(call.func), name) for name, call in names.items())
        if not found and depth:
            found = any(self._calls_model(other, depth - 1) for name in names for other in self._functions_named(name))
        self._callers[id(node)] = found
        return found

    def _functions_named(self, name: str) -> list[AnyFunction]:
        if self._functions is None:
            self._functions = {}
            for node in functions_in(self.tree):
                self._functions.setdefault(node.name, []).append(node)
        return self._functions.get(name, [])

    def nodes(self, around: ast.AST, *types: type[Node]) -> tuple[Node, ...]:
        """The nodes of some types inside a function or statement; see `rule.View`."""
        found: dict[Any, list[Any]] = by_type(around)
        if len(types) == 1:
            return tuple(found.get(types[0], ()))
        return tuple(chain.from_iterable([found.get(kind, ()) for kind in types]))

    def loop(self) -> ast.AST | None:
        """The innermost loop around the node; see `rule.View`."""
        return self.loops[-1] if self.loops else None

    asked: ast.AST
    """The node a pattern is shown."""

    def function(self) -> AnyFunction | None:
        """The function around the node; see `rule.View`."""
        return self.scope.node

    def parents(self) -> tuple[ast.AST, ...]:
        """The nodes around the one a pattern is shown, outermost first; see `rule.View`."""
        node = self.asked
        found = self._parents.get(node)
        if found is None:
            line = getattr(node, "lineno", 0)
            found = self._parents[node] = (
                way_to(node, line, self.tree, True) or way_to(node, line, self.tree, False) or ()
            )
        return found

    branches: list[ast.If]
    """Each `if` that stands around it, outermost first."""
    mid_conversation: bool
    """Whether a system message met now is appended behind a running conversation."""
    settled: Value
    """What a call in a conversation's loop used of the values made before it."""
    frozen_lines: frozenset[int]
    """Lines with `# contextkit: frozen`."""
    growing: dict[int, bool]
    """Loops whether they are conversations, by identity."""

    def arrive(
        self, sink: Sink, node: ast.expr, label: str, *, is_named: bool = False, value: Value | None = None
    ) -> None:
        """Notes that a value reaches the prompt here, if any part of it may vary."""
        if self.probing or self.statement_is_frozen() or (sink == "cache_key" and _is_conversation(node)):
            return
        found = self.probe(node) if value is None else value
        if sink in REQUEST_SINKS:
            found |= self.chosen(sink, node)
        handed = self._called_by_framework(node, found) if sink == "system" else CLEAN
        if isinstance(node, ast.JoinedStr) and sink == "system" and found:
            found = self.but_for_the_end(node, found)
        if not found and not handed:
            return
        if self.mid_conversation and sink == "system":
            sink = "tail"
        value, in_loop = self._settle(found, is_named) | handed, bool(self.loops or handed)
        self.scope.function.arrivals.append(
            Arrival(sink, value, self.site(node), label, is_named, in_loop, self._only_for(node))
        )

    def _only_for(self, node: ast.expr) -> tuple[str, str]:
        """`if kind == "system":` around it, where `kind` is a parameter."""
        for branch in reversed(self.branches):
            test = branch.test
            if type(test) is ast.Compare and type(test.ops[0]) is ast.Eq and type(test.left) is ast.Name:
                is_given = test.left.id in self.scope.function.named
                word, is_inside = (
                    word_of(test.comparators[0]),
                    branch.body[0].lineno <= node.lineno <= (branch.body[-1].end_lineno or 0),
                )
                if word and is_given and is_inside:
                    return test.left.id, word
        return "", ""

    def but_for_the_end(self, node: ast.JoinedStr, value: Value) -> Value:
        """The same without what tells of the machine or the user at the very end: nothing stands behind it that others
        could share.
        """
        n_behind, place = 0, len(node.values)
        while place and n_behind <= sanitizers.END_OF_PROMPT:
            place -= 1
            n_behind += self._n_behind(node.values[place])
        last = CLEAN.union(*(self.probe(part) for part in node.values[place:])) & value
        last -= CLEAN.union(*(self.probe(part) for part in node.values[:place]))
        return (value - last) | self.filtered(last, sanitizers.SAME_FOR_A_SESSION) if last else value

    def _n_behind(self, part: ast.expr) -> int:
        """Characters that a part adds behind.

        Of a constant that is filled in, those of its text, or many where that stands elsewhere.
        """
        name = last_name(part.value) if type(part) is ast.FormattedValue else ""
        if not name.isupper() or any(self._differs_by_session(made) for made in self._module_values(name)):
            return n_characters(part)
        made = [made for made in self._module_values(name) if isinstance(made, ast.Constant)]
        return sum(map(n_characters, made)) if made else sanitizers.END_OF_PROMPT + 1

    def _module_values(self, name: str) -> list[ast.expr]:
        return [one.value for one in self.tree.body if type(one) is ast.Assign and last_name(one.targets[0]) == name]

    def _differs_by_session(self, node: ast.expr) -> bool:
        return not sanitizers.SAME_FOR_A_SESSION.isdisjoint(self.kinds(node))

    def but_behind_a_marker(self, blocks: list[ast.expr], value: Value) -> Value:
        """What a list of blocks is made of: whoever shares what is marked loses nothing by what stands behind the last
        of the markers.

        A last block that is marked itself stands behind the marker before it.
        """
        marked = [
            at
            for at, block in enumerate(blocks)
            if type(block) is ast.Dict and sinks.MARKER_KEYS & constant_keys(block).keys()
        ]
        last = len(blocks) - 1
        n_shared = (last if len(marked) > 1 else 0) if last in marked else marked[-1] + 1 if marked else 0
        if not n_shared:
            return value
        front, behind = (CLEAN.union(*map(self.probe, part)) for part in (blocks[:n_shared], blocks[n_shared:]))
        return front | self.filtered(behind, sanitizers.SAME_FOR_A_SESSION)

    def chosen(self, sink: Sink, node: ast.expr) -> Value:
        """`a if hard else b` as a request parameter: a setting chosen per call."""
        if type(node) is not ast.IfExp or self.is_constant(node.test):
            return CLEAN
        kind: Kind = "model" if sink == "model" else "flag"
        return self.varies(kind, node)

    def _called_by_framework(self, node: ast.expr, value: Value) -> Value:
        """A function handed over as instructions is called once for each run: `datetime.now`, one of the tree, a
        lambda.
        """
        if type(node) is ast.Lambda:
            return value
        name = self.dotted(node) if type(node) in {ast.Name, ast.Attribute} else ""
        if self.call_sources.get(name) and self._is_imported(node):
            return self.varies(self.call_sources[name], node)
        if not name or not self.is_ours(name) or not name.rpartition(".")[2].islower():
            return CLEAN
        return self.number(Called(name, (), self.site(node), False, False))

    def _is_imported(self, node: Any) -> bool:
        """Whether a name is a function itself, not what one has made."""
        name = last_name(node.value if type(node) is ast.Attribute else node)
        return name in self.names and name not in self.scope.env and name not in self.scope.types

    def _settle(self, value: Value, is_named: bool) -> Value:
        """What was made before a conversation's loop, or where a session runs once, is frozen."""
        loop = self.loops[-1] if self.loops else None
        if loop is None:
            return self.frozen(value) if self.scope.function.is_once else value
        if not self.grows(loop):
            return value
        first, last = loop.lineno, loop.end_lineno or loop.lineno  # type: ignore[attr-defined]
        outside = frozenset(number for number in value if not first <= self._line_of(number, first) <= last)
        if not is_named:
            self.settled |= outside
        return (value - outside) | self.frozen(outside)

    def _line_of(self, number: int, inside: int) -> int:
        """Where a value is made; what is read anew wherever it is used is made inside."""
        origin = self.module.origins[number]
        if isinstance(origin, Source | Called):
            return origin.site.line
        if isinstance(origin, Filtered | Item | ObjectText):
            return max((self._line_of(part, inside) for part in origin.value), default=0)
        return 0 if isinstance(origin, Parameter | Frozen) else inside

    def grows(self, loop: ast.AST) -> bool:
        """Whether a loop is a conversation: its body adds to a history."""
        known = self.growing.get(id(loop))
        if known is None:
            start, end = self.bytes_at(loop)
            known = self.growing[id(loop)] = sinks.GROWS.search(self.source, start, end) is not None
        return known

    def statement_is_frozen(self) -> bool:
        """Whether `# contextkit: frozen` stands on the statement."""
        return bool(self.frozen_lines) and any(
            line in self.frozen_lines
            for line in range(self.statement.lineno, self._last_line() + 1)  # type: ignore[attr-defined]
        )

    def _last_line(self) -> int:
        body = getattr(self.statement, "body", None)
        return body[0].lineno - 1 if body else self.statement.end_lineno  # type: ignore[attr-defined, no-any-return]

    # Keys
    # -----------------------------------------------------------------------------------------------------------------

    def meet_keys(self, keys: dict[str, ast.expr], values: dict[Any, Value]) -> None:
        """What a dict's own keys say that it is."""
        if "role" in keys and is_role(keys["role"]):
            self._all(keys, values, dict.fromkeys(sinks.CONTENT_KEYS, "system"), "the system message")
        if sinks.MARKER_KEYS & keys.keys():
            self._all(keys, values, dict.fromkeys(sinks.CONTENT_KEYS, "marked"), "a block with a cache marker")
        if is_tool_definition(keys):
            self._all(keys, values, sinks.TOOL_ARGUMENTS, "a tool definition")
        if "type" in keys and "ttl" in keys:
            self._all(keys, values, {"ttl": "ttl"}, "`ttl`")
        is_request = ("model" in keys and sinks.REQUEST_MARKS & keys.keys()) or {"messages", "system"} <= keys.keys()
        table = sinks.REQUEST_KEYS if is_request else sinks.NAMES
        self._all(keys, values, table, "")

    def _all(self, keys: dict[str, ast.expr], values: dict[Any, Value], table: Any, label: str) -> None:
        for key, item in keys.items():
            sink = table.get(key)
            if sink is not None and (values[key] or type(item) is ast.IfExp):
                self.arrive(sink, item, label or f'`"{key}"`', is_named=not label)

    # Calls
    # ----------------------------------------------------------------------------------------------------------------

    def meet_call(self, node: ast.Call, last: str, known: CallSpec, values: list[Value], keywords: list[Value]) -> None:
        """The arguments that reach a prompt, by the call's own name and by theirs."""
        table, is_named = known.arguments, known.is_named
        if last == "dict":
            named = zip(node.keywords, keywords, strict=True)
            self.meet_keys(
                {key.arg: key.value for key in node.keywords if key.arg}, {key.arg: value for key, value in named}
            )
            return
        if last == "update" and type(node.func) is ast.Attribute:
            self._meet_update(node, node.func.value, keywords)
        if is_named and "content" not in table:
            for keyword in node.keywords:
                if keyword.arg == "role" and is_system_role(keyword.value):
                    table = {**table, **dict.fromkeys(sinks.CONTENT_KEYS, "system")}
        for place, (argument, value) in enumerate(zip(node.args, values, strict=True)) if table else ():
            sink = table.get(place) or table.get(place - len(values))
            if sink is not None and type(argument) is not ast.Starred:
                self.arrive(sink, argument, f"`{last}(…)`", value=value)
        for keyword, value in zip(node.keywords, keywords, strict=True):
            word = keyword.arg or ""
            sink = table.get(word)
            if sink is not None:
                self.arrive(sink, keyword.value, f"`{word}=` of `{last}`", value=value)
            elif (
                word in sinks.KEYWORDS
                and not sinks.KEEPS.search(last)
                and (word not in sinks.VAGUE or _takes_prompts(node, last, known))
            ):
                self.arrive(sinks.KEYWORDS[word], keyword.value, f"`{word}=` of `{last}`", value=value, is_named=True)
        if not is_named and type(node.func) is ast.Attribute:
            self._meet_client(node.func)
        if last in MESSAGE_METHODS:
            self._meet_list(node, last)
        elif last in FILLERS and self.template_places:
            self._meet_template(node)

    template_places: frozenset[str]
    """What is filled into system messages of this file's templates."""

    def _meet_template(self, node: ast.Call) -> None:
        """`prompt.partial(time=…)`, `(prompt | model).invoke({"time": …})` for `("system", "It is {time}.")`."""
        given = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        if node.args and type(node.args[0]) is ast.Dict:
            given |= constant_keys(node.args[0])
        for key in sorted(self.template_places & given.keys()):
            self.arrive("system", given[key], f"`{{{key}}}` of the system message")

    call_sources: dict[str, Kind]
    """Full name of a function → what its result is."""

    def _meet_update(self, node: ast.Call, holder: ast.expr, keywords: list[Value]) -> None:
        """`params.update(system=x)` and `params.update({"system": x})`."""
        for keyword, value in zip(node.keywords, keywords, strict=True):
            self.meet_key(holder, keyword.arg, keyword.value, value)
        if node.args and type(node.args[0]) is ast.Dict:
            for key, part in constant_keys(node.args[0]).items():
                self.meet_key(holder, key, part, self.probe(part))

    def meet_key(self, holder: ast.expr, key: object, node: ast.expr, value: Value) -> None:
        """`kwargs["tools"] = x`: what is set in a request."""
        if (
            isinstance(key, str)
            and key in sinks.REQUEST_KEYS
            and key not in self.named_sinks
            and _is_request_name(last_name(holder))
        ):
            self.arrive(sinks.REQUEST_KEYS[key], node, f'`["{key}"]`', is_named=True, value=value)

    named_sinks: dict[str, Sink]
    """Names of prompts."""

    def _meet_client(self, func: ast.Attribute) -> None:
        holder = func.value
        while type(holder) is ast.Attribute and holder.attr in sinks.RESOURCES:
            holder = holder.value
        value = self.probe(holder)
        kept = frozenset(
            number
            for number in value
            if getattr(self.module.origins[number], "kind", "") in {"choice", "model", "flag"}
        )
        if kept:
            self.arrive("client", func.value, "the client", value=kept)

    def _meet_list(self, node: ast.Call, last: str) -> None:
        """`messages.insert(0, x)` is the front, `messages.append(x)` the tail."""
        func = node.func
        if type(func) is not ast.Attribute or not node.args:
            return
        if not sinks.HISTORY.match(last_name(func.value)):
            if sinks.TOOLS.match(last_name(func.value)):
                self.arrive("tools", node.args[-1], f"`{last_name(func.value)}.{last}(…)`", is_named=True)
            elif sinks.NAMES.get(last_name(func.value)) == "system":
                self.arrive("system", node.args[-1], f"`{last_name(func.value)}.{last}(…)`", is_named=True)
            return
        if last == "insert" and not self._has_no_system_message(func.value):
            place = node.args[0]
            is_front = isinstance(place, ast.Constant) and place.value in {0, 1}
            self.arrive(
                "front" if is_front else "message",
                node.args[-1],
                "the first messages" if is_front else "a message of the history",
            )
        else:
            self.arrive("tail", node.args[-1], "the newest message")

    def adds_to_running(self, node: ast.Call) -> bool:
        """Whether a message is added behind others: only a list that this function began empty may still get its first
        one.
        """
        func: Any = node.func
        name = last_name(func.value)
        if func.attr == "insert" and node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0:
            return self._has_no_system_message(func.value)
        if not sinks.HISTORY.match(name) and not name.endswith(("messages", "input")):
            return False
        if type(func.value) is ast.Name and func.value.id in self.begun:
            if not is_system_message(node.args[0] if node.args else None):
                self.begun.discard(func.value.id)
            return False
        return True

    def _has_no_system_message(self, history: ast.expr) -> bool:
        """Whether a condition around says so: what is put in front then stays there for the conversation."""
        said = [part for branch in self.branches for part in walk(branch.test)]
        is_asked = any(last_name(part) == last_name(history) for part in said)
        return is_asked and any(isinstance(part, ast.Constant) and part.value in sinks.SYSTEM_ROLES for part in said)

    begun: set[str]
    """Lists this function began, that hold no message of a conversation yet."""

    table: dict[type, Handler]
    """Node type → handler, of all expressions."""

    def sequence(self, node: ast.List | ast.Tuple) -> Value:
        """A list or tuple; a message put before a running history is the front."""
        value = CLEAN
        for item in _values(node.elts) if node.elts and type(node.elts[0]) is ast.Tuple else node.elts:
            value |= self.table[type(item)](item)
        if self.may_mark and type(node) is ast.List:
            self._offer_marker(node)
            value = value and self.but_behind_a_marker(node.elts, value)
        is_item = getattr(self.statement, "value", None) is not node
        if len(node.elts) == 2 and type(node) is ast.Tuple and is_item and is_role(node.elts[0]):
            self.arrive("system", node.elts[1], "the system message")
        last = node.elts[-1] if len(node.elts) > 1 else None
        if type(last) is ast.Starred and type(node.elts[0]) is ast.Dict and self.is_history(last.value):
            self.arrive("front", node.elts[0], "the first message")
        return value

    may_mark: bool
    """Whether the file sets a marker anywhere."""

    def _offer_marker(self, node: ast.List) -> None:
        """The marker of a block that varies, on the last one before it that does not: all of them dicts written out in
        this list.
        """
        stable: ast.Dict | None = None
        for block in node.elts:
            keys = constant_keys(block) if isinstance(block, ast.Dict) else {}
            marker, content = keys.get("cache_control"), keys.get("text")
            if marker is None and isinstance(block, ast.Dict) and content is not None and not self.kinds(content):
                stable = block
            elif marker is not None:
                if stable is not None and isinstance(block, ast.Dict) and content is not None:
                    self._offer_moved(block, marker, content, stable)
                return

    def _offer_moved(self, block: ast.Dict, marker: ast.expr, content: ast.expr, stable: ast.Dict) -> None:
        key = next(
            key for key, value in zip(block.keys, block.values, strict=True) if value is marker and key is not None
        )
        start, end = self.bytes_at(key)[0], self.bytes_at(marker)[1]
        last = self.bytes_at(stable.keys[-1] or stable.values[-1])[0], self.bytes_at(stable.values[-1])[1]
        item = self.source[start:end].decode()
        if "\n" not in item and "#" not in item:
            added = appended(self.source, last, self.bytes_at(stable)[1], item)
            self.offer(self.site(content)[:4], MOVE_MARKER, added, removed(self.source, start, end))

    def set_display(self, node: ast.Set) -> Value:
        """A set has no order."""
        value = CLEAN
        for item in node.elts:
            value |= self.table[type(item)](item)
        has_some = len(node.elts) > 1 or type(node.elts[0]) is ast.Starred
        return value | self.varies("unordered", node) if has_some else value

    def mapping(self, node: ast.Dict) -> Value:
        """A dict display: a message, a tool definition, a request, or just a mapping."""
        value, keyed = CLEAN, {}
        beside = _beside(node)
        for key, item in zip(node.keys, node.values, strict=True):
            part = self.table[type(item)](item)
            if not (type(key) is ast.Constant and beside(key.value)):
                value |= part
            if type(key) is ast.Constant:
                keyed[key.value] = part
            elif key is not None:
                value |= self.filtered(self.table[type(key)](key), sanitizers.LOOKED_UP)
        if value:
            self.display = node, keyed
            self.meet_keys(constant_keys(node), keyed)
        return value

    display: tuple[ast.Dict | None, dict[Any, Value]]
    """The dict display that was evaluated last, and what stands under its keys."""

    def parts_of(self, node: ast.expr) -> list[tuple[str, Value]]:
        """What stands under the text keys of a dict display that was evaluated just now."""
        known, keyed = self.display
        return [(key, part) for key, part in keyed.items() if isinstance(key, str)] if known is node else []

    # Comprehensions
    # -------------------------------------------------------------------------------------------------------

    def comprehension(self, node: Any) -> Value:
        """Its elements, and for a list of tools also what chose them."""
        chosen = self.generators(node.generators)
        order = self.order_of(node.generators[0].iter)
        value = self.table[type(node.elt)](node.elt) | order
        if (
            order
            and type(node) is ast.ListComp
            and "name" in (constant_keys(node.elt) if isinstance(node.elt, ast.Dict) else ())
        ):
            for number in order:
                self._offer_sorted(number, SORT_TOOLS, node, ', key=lambda tool: tool["name"]')
        return value | chosen if chosen and self.is_of_tools(node.generators[0].iter) else value

    orders: list[Value]
    """Of each loop around, the order it goes in."""

    def order_of(self, node: ast.expr) -> Value:
        """Whatever is made of the items of a collection, it is made in the collection's order."""
        if type(node) is ast.Constant:
            return CLEAN
        return frozenset(number for number in self.probe(node) if self._is_order(number))

    def _offer_sorted(self, number: int, title: str, node: ast.expr, by: str = "") -> None:
        """What is found at a source ends when this expression is sorted."""
        origin = self.module.origins[number]
        if isinstance(origin, Source) and "sorted" not in self.scope.env:
            self.offer(origin.site[:4], title, *wrapped(*self.bytes_at(node), "sorted(", f"{by})"))

    def _is_order(self, number: int) -> bool:
        origin = self.module.origins[number]
        return isinstance(origin, Source) and origin.kind in _ORDERS

    def generators(self, generators: list[ast.comprehension]) -> Value:
        """Binds the targets of each `for`; gives what its conditions look at."""
        chosen = CLEAN
        for generator in generators:
            self.bind(generator.target, self.iterated(generator.iter))
            for test in generator.ifs:
                self.table[type(test)](test)
                chosen |= self.looked_at(test)
        return self.filtered(chosen, sanitizers.ORDER)

    def iterated(self, node: ast.expr) -> Value:
        """What going through a collection gives; a collection that changes while the program runs is a source."""
        value = self.table[type(node)](node)
        name = last_name(node.func.value if type(node) is ast.Call and type(node.func) is ast.Attribute else node)
        if name in sources.MODEL_LISTS:
            value |= self.varies("model", node)
        while value and type(node) is ast.Call and (inner := _gone_through(node)) is not None:
            node = inner
        if value and (last_name(getattr(node, "func", node)) in sources.LISTS_PATHS or _is_of_texts(node)):
            for number in self.order_of(node):
                self._offer_sorted(number, SORT_ITEMS, node)
        return self.message_of(value, node) if value else value

    def looked_at(self, node: ast.expr) -> Value:
        """The origins a condition depends on, comparisons included."""
        if type(node) is ast.Compare:
            parts = [node.left, *node.comparators]
        elif type(node) is ast.BoolOp:
            parts = node.values
        elif type(node) is ast.UnaryOp:
            parts = [node.operand]
        elif type(node) is ast.Call:
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.GeneratorExp | ast.ListComp):
            parts = [node.elt, *(loop.iter for loop in node.generators)]
        else:
            return self.probe(node)
        value = CLEAN
        for part in parts:
            value |= self.looked_at(part)
        return value

    def set_comprehension(self, node: ast.SetComp) -> Value:
        """A set has no order; where it was made of what is known to be one, the order was lost before."""
        value = self.comprehension(node)
        return value if self._is_checked_as_set(node.generators[0].iter) else value | self.varies("unordered", node)

    def _is_checked_as_set(self, node: ast.expr) -> bool:
        """Whether a condition around says `isinstance(node, set)`."""
        tests = (part for branch in self.branches for part in walk(branch.test)) if type(node) is ast.Name else ()
        asked = (
            test.args
            for test in tests
            if type(test) is ast.Call and last_name(test.func) == "isinstance" and len(test.args) == 2
        )
        return any(last_name(one) == last_name(node) and last_name(kind) in _SETS for one, kind in asked)

    def dict_comprehension(self, node: ast.DictComp) -> Value:
        """Its keys and values."""
        chosen = self.generators(node.generators)
        value = self.table[type(node.key)](node.key) | self.table[type(node.value)](node.value)
        return value | chosen if chosen and self.is_of_tools(node.generators[0].iter) else value

    def is_of_tools(self, node: ast.expr) -> bool:
        """Whether an expression goes through tools: a list of them, or a registry's `items()` and `values()`."""
        is_view = (
            type(node) is ast.Call
            and type(node.func) is ast.Attribute
            and node.func.attr in {"items", "values", "keys"}
        )
        holder = node.func.value if is_view else node  # type: ignore[attr-defined]
        return self.is_tools(holder) or (is_view and bool(sinks.REGISTRY.search(last_name(holder))))

    def bind(self, target: ast.AST, value: Value) -> None:
        """Stores a value in a variable, or in each of a tuple's."""
        kind = type(target)
        if kind is ast.Name:
            self.scope.env[target.id] = value  # type: ignore[attr-defined]
        elif isinstance(target, ast.Tuple | ast.List):
            for place, item in enumerate(target.elts):
                self.bind(item, self.part(value, place))
        elif kind is ast.Starred:
            self.bind(target.value, value)  # type: ignore[attr-defined]
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self.table[type(target.value)](target.value)

    def part(self, value: Value, place: int) -> Value:
        """One of the items of a tuple: of a function's result only what it gives at that place."""
        whole = frozenset(number for number in value if isinstance(self.module.origins[number], Called))
        return (value - whole) | self.number(Item(whole, place)) if whole else value

    def message_of(self, value: Value, holder: ast.expr) -> Value:
        """One message of a history: what varies in its text arrived when it was put there, and says nothing of the
        others.
        """
        return self.filtered(value, sanitizers.MESSAGES) if value and sinks.HISTORY.match(last_name(holder)) else value

    imported: dict[tuple[str, str], Value]
    """Name and the full name it stands for → what it is made of."""

    def handlers(self) -> dict[type, Handler]:
        """Node type → handler."""
        return {
            ast.Constant: self.nothing,
            ast.Name: self.name,
            ast.Attribute: self.attribute,
            ast.Subscript: self.subscript,
            ast.JoinedStr: self.joined,
            ast.FormattedValue: self.formatted,
            ast.BinOp: self.operator,
            ast.BoolOp: self.boolean,
            ast.UnaryOp: self.unary,
            ast.Compare: self.compare,
            ast.IfExp: self.ternary,
            ast.Lambda: self.function_value,
            ast.Dict: self.mapping,
            ast.List: self.sequence,
            ast.Tuple: self.sequence,
            ast.Set: self.set_display,
            ast.ListComp: self.comprehension,
            ast.GeneratorExp: self.comprehension,
            ast.SetComp: self.set_comprehension,
            ast.DictComp: self.dict_comprehension,
            ast.Await: self.inner,
            ast.Starred: self.inner,
            ast.NamedExpr: self.walrus,
            ast.Yield: self.yielded,
            ast.YieldFrom: self.yielded,
            ast.Slice: self.any_children,
        }

    def evaluate(self, node: ast.AST) -> Value:
        """Origins of an expression's value; what meets the prompt inside it is noted."""
        return self.table[type(node)](node)

    def nothing(self, node: ast.AST) -> Value:
        """A constant."""
        return CLEAN

    def any_children(self, node: ast.AST) -> Value:
        """Whatever stands inside it."""
        value = CLEAN
        for child in ast.iter_child_nodes(node):
            handler = self.table.get(type(child))
            if handler:
                value |= handler(child)
        return value

    def inner(self, node: Any) -> Value:
        """What it wraps."""
        return self.table[type(node.value)](node.value)

    def yielded(self, node: Any) -> Value:
        """`yield`: a generator gives it back."""
        if node.value is not None:
            self.scope.function.returned |= self.table[type(node.value)](node.value)
        return CLEAN

    # Names
    # ----------------------------------------------------------------------------------------------------------------

    def name(self, node: ast.Name) -> Value:
        """A variable: of the function, else of the module."""
        name = node.id
        found = self.scope.env.get(name)
        if found is not None:
            return found
        if name in self.module.variables:
            return self.variable(name)
        full = self.names.get(name)
        if full is None:
            return CLEAN
        found = self.imported.get((name, full))
        if found is None:
            found = self.imported[name, full] = self._imported(name, full)
        return found

    def _imported(self, name: str, full: str) -> Value:
        """A name another module of the tree made: its variable, if it is one."""
        tail = full.rpartition(".")[2]
        if self.is_ours(full) and (tail.isupper() or tail.islower()) and full != f"{self.module.name}.{name}":
            return self.number(Global(full))
        return CLEAN

    def attribute(self, node: ast.Attribute) -> Value:
        """`a.b`: what was stored there, else what `a` is made of."""
        holder, attribute, scope = node.value, node.attr, self.scope
        if type(holder) is ast.Name:
            name = holder.id
            found = scope.env.get(f"{name}.{attribute}")
            if found is not None:
                return found
            if name == scope.myself and scope.owner:
                told = self._field(node) if attribute in _TOLD else CLEAN
                return told or self.number(Attribute(f"{self.module.name}.{scope.owner}", attribute))
            value = scope.env.get(name, CLEAN)
        else:
            value = self.table[type(holder)](holder)
        if attribute in sources.TEXT_PARTS:
            return self.by_day(value) if value and attribute in sources.DAY_FIELDS else value
        told = (self._field(node) if attribute in _TOLD else CLEAN) or self._attribute_of_class(node)
        if value and attribute in sources.PARTS:
            told |= self._part_of(value, attribute, holder)
        return told | self.filtered(value, _BUT_ENTRIES) if value and attribute in _OF_A_PATH else told

    def _field(self, node: ast.Attribute) -> Value:
        """An attribute whose name says what it holds."""
        kind = sources.FIELDS.get(node.attr)
        if kind == "place" and self._is_stored_here(node):
            return CLEAN
        if kind == "user" and sources.SETTINGS.search(last_name(node.value)):
            return CLEAN
        if kind is None and node.attr in _VARIABLE_TAILS:
            kind = sources.ATTRIBUTES.get(self.dotted(node))
        if kind is None and node.attr in sources.PERSONAL and last_name(node.value) in sources.PEOPLE:
            kind = "person"
        return CLEAN if kind is None else self.varies(kind, node)

    def _is_stored_here(self, node: ast.Attribute) -> bool:
        """Whether this class says what its attribute holds: a folder that whoever made the object gave it is a setting."""
        is_mine = type(node.value) is ast.Name and node.value.id == self.scope.myself
        return is_mine and (self.scope.owner, node.attr) in self.module.attributes

    def _attribute_of_class(self, node: ast.Attribute) -> Value:
        """An attribute of an object whose class stands in the linted tree.

        Of any other object nothing is known: that it was made with an id does not mean that each of its texts holds
        one.
        """
        owner = self.dotted(node.value)
        return self.number(Attribute(owner, node.attr)) if owner and self.is_ours(owner) else CLEAN

    def by_day(self, value: Value) -> Value:
        """A clock read with the precision of a day."""
        days = CLEAN
        for number in value:
            origin = self.module.origins[number]
            if isinstance(origin, Source):
                days |= self.number(Source("date", origin.site)) if origin.kind == "clock" else frozenset((number,))
            else:
                days |= self.number(Filtered(frozenset((number,)), frozenset(), is_daily=True))
        return days

    def by_clock(self, value: Value) -> Value:
        """What is called a date, and is written with hours and minutes."""
        origins = [self.module.origins[number] for number in value]
        dates = [origin.site for origin in origins if isinstance(origin, Source) and origin.kind == "date"]
        return value.union(*(self.number(Source("clock", site)) for site in dates))

    def subscript(self, node: ast.Subscript) -> Value:
        """`a[i]`: what was stored there, else what `a` is made of."""
        key = node.slice
        if type(key) is ast.Constant:
            if type(node.value) is ast.Name:
                found = self.scope.env.get(f"{node.value.id}[{key.value!r}]")
                if found is not None:
                    return found
            value = self.item(self.table[type(node.value)](node.value), key.value, node)
        else:
            held = self.table[type(node.value)](node.value)
            if type(key) is not ast.Slice:
                held = self.message_of(self.filtered(held, sanitizers.ORDER), node.value)
            value = held | self.filtered(self.table[type(key)](key), self.looked_up(node))
        if last_name(node.value) in sources.MODEL_LISTS:
            value |= self.varies("model", node)
        return value

    def looked_up(self, node: ast.AST) -> frozenset[Kind]:
        """What says which one of a collection, and nothing of its text.

        One of several models is no other text of a prompt.
        """
        holder = node.value if isinstance(node, ast.Attribute | ast.Subscript) else node
        return (
            sanitizers.LOOKED_UP | {"choice"} if last_name(holder).lower().endswith("models") else sanitizers.LOOKED_UP
        )

    def item(self, value: Value, key: object, node: ast.expr) -> Value:
        """What stands under a constant key."""
        if type(key) is not str:
            return self.message_of(value, node.value) if value and isinstance(node, ast.Subscript) else value
        kind = sources.FIELDS.get(key)
        if kind is not None and kind not in {"clock", "date", "place"}:
            return self.varies(kind, node)
        if key in sources.TEXT_PARTS or not value:
            return value
        whole = frozenset(number for number in value if isinstance(self.module.origins[number], Called))
        part = self._part_of(value, key, getattr(node, "value", node)) if key in sources.PARTS else CLEAN
        return part | self.number(Item(whole, key)) if whole else part

    def _part_of(self, value: Value, name: str, holder: ast.AST) -> Value:
        """What a part of this name still holds of what it is a part of; the title of a plan is that of the whole."""
        kinds = sources.PARTS[name] if name not in sources.TITLES or not last_name(holder).endswith("plan") else ()
        return frozenset(number for number in value if getattr(self.module.origins[number], "kind", "") in kinds)

    # Text and operators
    # ---------------------------------------------------------------------------------------------------

    def joined(self, node: ast.JoinedStr) -> Value:
        """An f-string."""
        value = CLEAN
        for part in node.values:
            if type(part) is not ast.Constant:
                value |= self.table[type(part)](part)
        return self.but_for_the_end(node, value) if value and n_characters(node) >= sanitizers.WHOLE_PROMPT else value

    def formatted(self, node: ast.FormattedValue) -> Value:
        """`{x:spec}`: a day's format makes a clock a date."""
        value = self.table[type(node.value)](node.value)
        if node.conversion != _REPR:
            value = self.as_text(node.value, value)
        spec = node.format_spec
        if spec is not None and value:
            parts = getattr(spec, "values", [])
            if len(parts) == 1 and is_day_format(parts[0]):
                return self.by_day(value)
            return value | self.table[type(spec)](spec)
        return value

    def as_text(self, node: ast.expr, value: Value) -> Value:
        """An object of the linted tree says what its class makes of it."""
        owner = self.class_of_object(node)
        return self.number(ObjectText(owner, value)) if owner else value

    def class_of_object(self, node: ast.AST) -> str:
        """The full name of the class of the linted tree that an object is one of, as a variable or attribute.

        Empty where none is known.
        """
        kind, scope = type(node), self.scope
        if kind is ast.Name:
            owner = scope.types.get(node.id)  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            holder = node.value  # type: ignore[attr-defined]
            is_mine = type(holder) is ast.Name and holder.id == scope.myself
            owner = self.class_types.get((scope.owner, node.attr)) if is_mine else None  # type: ignore[attr-defined]
        else:
            owner = self.dotted(node) if kind is ast.Call else None
        return owner if owner and self.is_ours(owner) and owner.rpartition(".")[2].lstrip("_")[:1].isupper() else ""

    def operator(self, node: ast.BinOp) -> Value:
        """Both sides; a long chain of `+` is gone through without recursion."""
        left: ast.expr = node
        value, taken, is_reckoned = CLEAN, CLEAN, False
        while type(left) is ast.BinOp:
            right = (
                self.table[type(left.right)](left.right)
                if type(left.op) is not ast.Mod
                else self._filled_in(left.right)
            )
            if right and type(left.op) is ast.Sub:
                taken |= right
            else:
                value |= right
            is_reckoned = is_reckoned or type(left.op) in _RECKONING
            left = left.left
            if ast.BinOp in self.watched_types:
                break
        value |= self.table[type(left)](left)
        if taken:
            value |= self._set_difference(node, taken, value)
        return self.filtered(value, _CLOCKS) if is_reckoned else value

    def _set_difference(self, node: ast.BinOp, taken: Value, value: Value) -> Value:
        """`names - {"self"}`: what is taken away gives what is left no order; it is a set all the same."""
        is_told = self._has_set(value) or not self._has_set(taken)
        return self.filtered(taken, sanitizers.ORDER) | (CLEAN if is_told else self.varies("unordered", node))

    def _has_set(self, value: Value) -> bool:
        """Whether an origin is a set."""
        return any(
            isinstance(origin := self.module.origins[number], Source) and origin.kind == "unordered" for number in value
        )

    watched_types: frozenset[type]

    def _filled_in(self, node: ast.expr) -> Value:
        """The right side of `"It is %s, %s" % (now, context)`."""
        parts = node.elts if type(node) is ast.Tuple else [node]
        return CLEAN.union(*(self.as_text(part, self.table[type(part)](part)) for part in parts))

    def boolean(self, node: ast.BoolOp) -> Value:
        """Any of its sides."""
        value = CLEAN
        for part in node.values:
            value |= self.table[type(part)](part)
        return value

    def unary(self, node: ast.UnaryOp) -> Value:
        """`not x` says nothing of the text."""
        value = self.table[type(node.operand)](node.operand)
        return CLEAN if type(node.op) in _NO_TEXT else value

    def compare(self, node: ast.Compare) -> Value:
        """A comparison says nothing of the text."""
        self.table[type(node.left)](node.left)
        for part in node.comparators:
            self.table[type(part)](part)
        return CLEAN

    def ternary(self, node: ast.IfExp) -> Value:
        """Either side."""
        self.table[type(node.test)](node.test)
        return self.table[type(node.body)](node.body) | self.table[type(node.orelse)](node.orelse)

    def function_value(self, node: ast.Lambda) -> Value:
        """What calling it gives: frameworks call it once for each run."""
        env = self.scope.env
        self.scope.env = {
            **env,
            **{argument.arg: CLEAN for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)},
        }
        try:
            return self.table[type(node.body)](node.body)
        finally:
            self.scope.env = env

    def walrus(self, node: ast.NamedExpr) -> Value:
        """Stores and gives."""
        value = self.table[type(node.value)](node.value)
        self.scope.env[node.target.id] = value
        return value

    annotations: dict[str, ast.expr]
    """Parameter of the function around → what it is said to be."""

    def dumped(self, node: ast.Call, name: str, everything: Value) -> Value:
        """JSON text: its keys stand in the order they were put in, unless the call sorts them."""
        sorting = next((keyword.value for keyword in node.keywords if keyword.arg == "sort_keys"), None)
        is_unsorted = isinstance(sorting, ast.Constant) and not sorting.value
        if not is_unsorted and any(word in ast.unparse(node) for word in sanitizers.SORTING_WORDS):
            return self.filtered(everything, frozenset({"mapping", "unsorted_json", "rows"}))
        if not node.args or not self._has_loose_order(node.args[0], _DEEP):
            return everything
        if sorting is None and name in sanitizers.TAKES_SORT_KEYS and all(keyword.arg for keyword in node.keywords):
            last = max((*node.args, *node.keywords), key=lambda part: self.bytes_at(part)[1])
            edit = appended(self.source, self.bytes_at(last), self.bytes_at(node)[1], "sort_keys=True")
            self.offer(self.site(node)[:4], SORT_KEYS, edit)
        return everything | self.varies("unsorted_json", node)

    def _has_loose_order(self, node: ast.expr, depth: int) -> bool:
        """Whether the keys of what is serialised stand in an order that others chose: handed in, received, stored, of a
        set.
        """
        if depth < 0:
            return False
        if type(node) is ast.Name:
            stored = self.stored.get(node.id)
            if stored:
                return self._has_loose_order(stored[-1], depth - 1)
            return node.id == self.scope.function.extra or (
                node.id in self.scope.function.named and self._is_mapping(node.id)
            )
        if type(node) is ast.Call:
            return self._gives_loose_order(node, depth)
        if type(node) is ast.Attribute or type(node) is ast.Subscript:
            return bool(sources.FILLED.search(last_name(node)))
        if type(node) is ast.DictComp:
            loop = node.generators[0].iter
            return bool(self.probe(loop) & self._of_kind("unordered", "paths", "rows")) or self._has_loose_order(
                loop, depth - 1
            )
        if type(node) is ast.Dict:
            return any(self._has_loose_order(value, depth - 1) for value in node.values)
        return type(node) is ast.Await and self._has_loose_order(node.value, depth - 1)

    def _gives_loose_order(self, node: ast.Call, depth: int) -> bool:
        last = last_name(node.func)
        if last in {"dict", "items", "copy", "deepcopy"}:
            holder = node.args[0] if node.args else getattr(node.func, "value", node)
            return holder is not node and self._has_loose_order(holder, depth - 1)
        if last == "get" and node.args and isinstance(node.args[0], ast.Constant):
            return bool(sources.FILLED.search(str(node.args[0].value)))
        return self.dotted(node) in sources.LOADS or last in sources.LOADING

    def _is_mapping(self, parameter: str) -> bool:
        """Whether a parameter may be a mapping that somebody fills, by its annotation or, where it has none, by its
        name.
        """
        note = self.annotations.get(parameter)
        is_mapping = note is None or bool(sources.MAPPINGS.match(ast.unparse(note)))
        return is_mapping and bool(sources.FILLED.search(parameter))

    def _of_kind(self, *kinds: Kind) -> Value:
        """Numbers of the sources of some kinds met so far."""
        return frozenset(
            at for at, origin in enumerate(self.module.origins) if isinstance(origin, Source) and origin.kind in kinds
        )

    called: tuple[ast.expr | None, str, list[Value]]
    """The function of the call that was evaluated last, its full name, and what its keywords were given."""

    method_sources: dict[str, Kind]
    sanitizing: dict[str, frozenset[Kind]]
    call_sinks: dict[str, sinks.Arguments]
    tool_loops: int
    """How many loops through tools stand around it."""
    choices: list[Value]
    """What the conditions in those look at."""
    fresh: dict[str, ast.AST | None]
    """Variable → the loop it was made in, for objects made in this function."""

    def call(self, node: ast.Call) -> Value:
        """A call: its arguments, then what its name says of them."""
        func, given, table = node.func, node.keywords, self.table
        kind, before = type(func), self.mid_conversation
        if kind is ast.Attribute:
            last: str = func.attr  # type: ignore[attr-defined]
            receiver = self._receiver(func)  # type: ignore[arg-type]
            if last in ADDERS and self.adds_to_running(node):
                self.mid_conversation = True
        elif kind is ast.Name:
            last = func.id  # type: ignore[attr-defined]
            receiver = self.scope.env.get(last, CLEAN)
        else:
            last, receiver = "", table[kind](func)
        values = [table[type(argument)](argument) for argument in node.args]
        keywords: list[Value] = []
        if given:
            keywords = [table[type(value)](value) for value in [keyword.value for keyword in given]]
            if last in _ORDERING:
                keywords = [CLEAN] * len(keywords)
            if ast.keyword in table:  # only where a pattern asks for them
                for keyword in given:
                    table[ast.keyword](keyword)
        result = self._called(node, last, receiver, values, keywords)
        self.mid_conversation = before
        return result

    def _called(self, node: ast.Call, last: str, receiver: Value, values: list[Value], keywords: list[Value]) -> Value:
        """What a call gives whose object and arguments have been evaluated."""
        func, given = node.func, node.keywords
        called = self.dotted(func), last, type(func) is ast.Attribute
        self.called = func, called[0], keywords
        known = self.known_calls.get(called)
        if known is None:
            known = self.known_calls[called] = self._call_spec(*called)
        result = CLEAN
        if not known.is_clean:
            if not self.probing and (given or not known.is_plain):
                self.meet_call(node, last, known, values, keywords)
            give = self._common if known.is_common else self._result
            result = give(node, known, called[0], last, receiver, values, keywords)
        return result

    known_calls: dict[tuple[str, str, bool], CallSpec]
    """Full name, last name and whether it is a method → what the tables say of such a call."""

    def _call_spec(self, name: str, last: str, is_method: bool) -> CallSpec:
        """What the tables say of a call; most names stand in none of them."""
        is_told = last in self.told or name.rpartition(".")[2] in self.told or sinks.TOOL_MAKERS.match(last)
        if not is_told:
            return OURS if name and self.is_ours(name) else FOREIGN
        return self._call_spec_from_tables(name, last, is_method)

    def _call_spec_from_tables(self, name: str, last: str, is_method: bool) -> CallSpec:
        arguments, is_named = self._arguments_of(name, last)
        is_known = last in self.method_sources or last in sources.RETRIEVER_METHODS
        is_source = name in self.call_sources or (is_known and (is_method or self.method_sources.get(last) == "recall"))
        mends = self.sanitizing.get(name) or self.sanitizing.get(last)
        is_ours = bool(name) and self.is_ours(name)
        is_asked = last in sinks.MODEL_METHODS or (is_method and last in sanitizers.ANSWERED)
        is_answer = not is_named or (is_asked and not is_ours)
        is_special = last in _SPECIAL or name in sanitizers.JSON_DUMPS or name in sources.GIT
        is_common = not (is_source or is_answer or is_special or mends is not None)
        return CallSpec(
            is_clean=name in sanitizers.CLEAN_CALLS or (is_method and last in sanitizers.CLEAN_METHODS),
            is_answer=is_answer,
            is_plain=is_named and not arguments and last not in MEETING,
            is_common=is_common,
            is_ours=is_ours,
            is_text=last in sanitizers.TEXT_CALLS,
            arguments=arguments,
            is_named=is_named,
            mends=mends,
        )

    told: frozenset[str]
    """Last parts of all names that a table or the config tells of."""

    def _receiver(self, func: ast.Attribute) -> Value:
        """What the object of a method is made of; a text's own is its constant."""
        holder = func.value
        kind = type(holder)
        value = (kind is ast.Name and self.scope.env.get(f"{holder.id}.{func.attr}")) or self.table[kind](holder)  # type: ignore[attr-defined]
        return self.message_of(value, holder) if value and func.attr in {"pop", "popleft", "__getitem__"} else value

    # Results
    # --------------------------------------------------------------------------------------------------------------

    def _result(
        self,
        node: ast.Call,
        known: CallSpec,
        name: str,
        last: str,
        receiver: Value,
        values: list[Value],
        keywords: list[Value],
    ) -> Value:
        """What a call gives back that a table tells of."""
        if last in _COPIES:
            keywords = [
                CLEAN if key.arg in sources.ASIDE else value for key, value in zip(node.keywords, keywords, strict=True)
            ]
        everything, is_method = self._made_of(node, last, receiver, values, keywords), type(node.func) is ast.Attribute
        kind = self._source(node, name, last)
        if kind is not None:
            return self._varying(kind, node, everything)
        if known.is_answer:
            return CLEAN
        if (
            last == "filter"
            and len(node.args) == 2
            and type(node.args[0]) is ast.Lambda
            and self.is_of_tools(node.args[1])
        ):
            return everything | self.filtered(self.looked_at(node.args[0].body), sanitizers.ORDER)
        if last in _LISTS and node.args and type(node.args[0]) is ast.Set:
            self._offer_named(node.args[0])
        if known.mends is not None:
            return self.filtered(everything, known.mends)
        if last in sources.DAY_METHODS or (last == "strftime" and node.args and is_day_format(node.args[-1])):
            return self.by_day(everything)
        if last == "strftime" and node.args and is_clock_format(node.args[-1]):
            return self.by_clock(everything)
        if name in sanitizers.JSON_DUMPS:
            return self.dumped(node, name, everything)
        if (
            name in sources.GIT
            and sources.TELLS_PLACE.search(ast.unparse(node))
            and "version" not in self.scope.function.name.lower()
        ):
            return everything | self.varies("place", node)
        if last in sanitizers.STORED and is_method and self.scope.node is not None:
            self._outlives(node, last, self.scope.node)
        if last in _MUTATORS and type(node.func) is ast.Attribute:
            self._put_into(
                node.func.value,
                self._unordered_in(node.func, node).union(*values, *keywords, *self.orders, *self.choices),
            )
        if last in {"map", "partial"} and node.args and type(node.args[0]) in {ast.Name, ast.Attribute}:
            everything |= self._handed_to(node, values[1:], keywords)
        if last == "sort" and type(node.func) is ast.Attribute:
            self._sorted_in_place(node.func.value)
        if last == "join":
            everything = self.filtered(everything, _PATHS) | self._listed(node) | self._jumbled(node)
        return self._common(node, known, name, last, receiver, values, keywords, everything)

    def _handed_to(self, node: ast.Call, values: list[Value], keywords: list[Value]) -> Value:
        """`map(f, xs)`, `partial(f, x)`: what calling the function with the arguments that were evaluated gives."""
        func: Any = node.args[0]
        made = ast.copy_location(ast.Call(func, node.args[1:], node.keywords), node)
        receiver = self._receiver(func) if type(func) is ast.Attribute else self.scope.env.get(func.id, CLEAN)
        return self._called(made, last_name(func), receiver, values, keywords)

    def _made_of(self, node: ast.Call, last: str, receiver: Value, values: list[Value], keywords: list[Value]) -> Value:
        """What the result may hold: the object and the arguments, but what only says which item is meant."""
        is_method = type(node.func) is ast.Attribute
        if last == "get" and node.args and type(node.args[0]) is ast.Constant:
            return self.item(receiver, node.args[0].value, node)
        if last == "get" and is_method and values:
            return receiver.union(self.filtered(values[0], self.looked_up(node.func)), *values[1:], *keywords)
        return receiver.union(*values[1:]) if last in _TAKERS and is_method else receiver.union(*values, *keywords)

    def _common(
        self,
        node: ast.Call,
        known: CallSpec,
        name: str,
        last: str,
        receiver: Value,
        values: list[Value],
        keywords: list[Value],
        everything: Value | None = None,
    ) -> Value:
        """What a call gives back that no table says anything special of."""
        if known.is_ours:
            return self._ours(node, name, values, keywords, receiver)
        if last == "format":
            values = [self.as_text(part, value) for part, value in zip(node.args, values, strict=True)]
            keywords = [self.as_text(part.value, value) for part, value in zip(node.keywords, keywords, strict=True)]
        if everything is None:
            everything = receiver.union(*values, *keywords)
        if name == "str" and values:
            return self.as_text(node.args[0], everything)
        if not everything:
            return CLEAN
        if known.is_text:
            return self._filled(node, receiver, values, keywords) if last in _FILLING else everything
        if last[:1].isupper():
            texts = (value for key, value in zip(node.keywords, keywords, strict=True) if key.arg in sources.TEXT_PARTS)
            return receiver.union(*values, *texts)
        given = (value for key, value in zip(node.keywords, keywords, strict=True) if not sources.is_aside(key.arg))
        return self.filtered(receiver.union(*values, *given), sanitizers.LOOKED_UP)

    def _filled(self, node: ast.Call, template: Value, values: list[Value], keywords: list[Value]) -> Value:
        """`template.render(**context)`: nothing says that a template somebody gave has a place for all of that."""
        if template and node.args and sources.names_a_day(node.args[0]):
            return self.by_day(template)
        if not any(isinstance(self.module.origins[number], Called | Parameter) for number in template):
            return template.union(*values, *keywords)
        return template.union(*values, *(value for key, value in zip(node.keywords, keywords, strict=True) if key.arg))

    def _listed(self, node: ast.Call) -> Value:
        """`", ".join(skill.name for skill in skills)`: a collection that changes while the program runs, as one text."""
        joined = node.args[0] if node.args else None
        source = joined.generators[0].iter if isinstance(joined, ast.GeneratorExp | ast.ListComp) else joined
        holder = (
            source.func.value if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) else source
        )
        is_listing = source is not None and holder is not None and last_name(holder) in sources.LISTINGS
        return self.varies("listing", source) if is_listing and source is not None else CLEAN

    def _jumbled(self, node: ast.Call) -> Value:
        """`", ".join(set(names))`, `", ".join(NAMES)` of a set that the module keeps."""
        orders = self.order_of(node.args[0]) | self._stored_order(node.args[0]) if node.args else CLEAN
        kinds = {origin.kind for number in orders if isinstance(origin := self.module.origins[number], Source)}
        return self.varies("jumbled", node) if "unordered" in kinds else CLEAN

    def _stored_order(self, joined: ast.expr) -> Value:
        """The order of what a variable of the module was set to, where that is what is joined, or gone through."""
        source = joined.generators[0].iter if isinstance(joined, ast.GeneratorExp | ast.ListComp) else joined
        kept = (
            self.module.variables.get(source.id, ())
            if type(source) is ast.Name and source.id not in self.scope.env
            else ()
        )
        return frozenset(number for value, _ in kept for number in value if self._is_order(number))

    def _source(self, node: ast.Call, name: str, last: str) -> Kind | None:
        found = self.call_sources.get(name)
        if found is not None:
            if name in {"set", "frozenset"} and not (node.args and type(node.args[0]) is not ast.Constant):
                return None
            if len(node.args) >= sources.GIVEN_A_TIME.get(name, _MANY) or (node.args and is_zone_format(node.args[0])):
                return None
            return found
        found = self.method_sources.get(last)
        if type(node.func) is not ast.Attribute:
            return "recall" if found == "recall" and not self.is_ours(name) else None
        if found is not None:
            return found
        found = sources.RETRIEVER_METHODS.get(last)
        return found if found is not None and _is_retrieved(node, node.func.value, last) else None

    def _varying(self, kind: Kind, node: ast.Call, arguments: Value) -> Value:
        """The call itself varies; a clock with a day's format is a date."""
        if kind == "clock" and node.args and is_day_format(node.args[0]):
            kind = "date"
        value = self.varies(kind, node)
        if kind == "choice" and node.args and last_name(node.func) == "shuffle":
            self._put_into(node.args[0], self.varies("unordered", node))
        if kind == "paths":
            for number in value if self.dotted(node) in {"os.listdir", "glob.glob"} else ():
                self._offer_sorted(number, SORT_ITEMS, node)
            value |= self.varies("entries", node)
        return arguments | value if kind in _KEEPING else value

    def _offer_named(self, node: ast.Set) -> None:
        """`list({search, fetch})`: sorted by the names of the tools, where each is known to have one of the same kind."""
        names = {self._name_of(item) for item in node.elts}
        by = names.pop() if len(names) == 1 else ""
        for number in self.order_of(node) if by else ():
            self._offer_sorted(number, SORT_TOOLS, node, f", key=lambda tool: tool.{by}")

    def _name_of(self, item: ast.expr) -> str:
        """The attribute that holds a tool's name: of a function of this file, or of what a known decorator or class
        made.
        """
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == last_name(item):
                made = {last_name(getattr(part, "func", part)) for part in node.decorator_list}
                return "__name__" if not made else "name" if made <= _NAMING else ""
            if (
                isinstance(node, ast.Assign)
                and last_name(node.targets[0]) == last_name(item)
                and isinstance(node.value, ast.Call)
            ):
                return "name" if sinks.TOOL_MAKERS.match(last_name(node.value.func)) else ""
        return ""

    def _sorted_in_place(self, holder: ast.expr) -> None:
        """`tools.sort(key=…)`: no order of before is left, and what the list's name said of it so far is not so."""
        value = self.scope.env.get(holder.id) if type(holder) is ast.Name else None
        if value and not self.probing:
            self.scope.env[holder.id] = self.filtered(value, sanitizers.ORDER)  # type: ignore[attr-defined]
            for at, one in enumerate(self.scope.function.arrivals):
                if one.is_named and one.value <= value:
                    self.scope.function.arrivals[at] = one._replace(value=self.filtered(one.value, sanitizers.ORDER))

    def _outlives(self, node: ast.Call, last: str, function: ast.AST) -> None:
        """`path.write_text(key)`, where the function reads what is there first: the id is drawn once, and is there
        after a restart.
        """
        argument = node.args[-1] if node.args else None
        value = self.scope.env.get(argument.id, CLEAN) if type(argument) is ast.Name else CLEAN
        start, end = self.bytes_at(function) if value and not self.probing else (0, 0)
        written = self._written(node.func.value).encode() if value else b""  # type: ignore[attr-defined]
        if value and self.source.find(written + sanitizers.STORED[last], start, end) >= 0:
            self.scope.env[argument.id] = self.filtered(value, _DRAWN)  # type: ignore[union-attr]

    def _unordered_in(self, func: ast.Attribute, node: ast.Call) -> Value:
        """`names.update(more)`, where `names` was begun as `set()`; of one that held something its beginning is told."""
        name = func.value.id if type(func.value) is ast.Name and func.attr in {"add", "update"} else ""
        is_begun = (
            bool(name)
            and self.scope.types.get(name) == "set"
            and not any(map(self._is_order, self.scope.env.get(name, CLEAN)))
        )
        return self.varies("unordered", node) if is_begun else CLEAN

    def _put_into(self, holder: ast.expr, value: Value) -> None:
        """`parts.append(x)`: the object now holds x too."""
        if not value:
            return
        if type(holder) is ast.Name and holder.id in self.scope.env:
            self.scope.env[holder.id] |= value
        elif type(holder) is ast.Attribute and type(holder.value) is ast.Name and holder.value.id == self.scope.myself:
            self.keep(holder.attr, value)

    def keep(self, attribute: str, value: Value) -> None:
        """Notes what a method stores in an attribute of its object."""
        if value and not self.probing:
            stored = self.module.attributes.setdefault((self.scope.owner, attribute), [])
            stored.append((value, self.scope.function.is_once and not self.loops))

    def _ours(self, node: ast.Call, name: str, values: list[Value], keywords: list[Value], receiver: Value) -> Value:
        """A call of the linted tree: said by its number, so that the linking can look inside."""
        arguments: list[tuple[int | str, Value]] = []
        texts: list[tuple[int | str, str]] = []
        given, named = node.args, [(keyword.arg, keyword.value) for keyword in node.keywords]
        is_spread = None in [name for name, _ in named] or ast.Starred in [type(argument) for argument in given]
        for place, (argument, value) in enumerate(zip(given, values, strict=True)):
            if value or is_spread:  # what is given by its place is not among what is spread out
                arguments.append(("*" if type(argument) is ast.Starred else place, value))
            if not value and (word := word_of(argument)):
                texts.append((place, word))
        for (key, argument), value in zip(named, keywords, strict=True):
            is_handed_on = type(argument) is ast.Name and argument.id == self.scope.function.extra
            if (value and is_handed_on) or (key and (value or is_spread)):
                arguments.append((key or "**", value))
            if not value and key and (word := word_of(argument)):
                texts.append((key, word))
        func, function = node.func, self.scope.function
        is_method = type(func) is ast.Attribute
        if self.class_of_object(func):
            name = f"{name}{CALL}"
        if receiver and is_method:
            arguments.append(("self", receiver))
        words = tuple(texts) if arguments else ()
        is_fresh = is_method and self._is_fresh(func.value)  # type: ignore[attr-defined]
        is_once = function.is_once and not (self.loops and self.grows(self.loops[-1]))
        value = self.number(Called(name, tuple(arguments), self.site(node), is_fresh, is_once, words))
        if not self.probing:
            function.calls.extend(value)
            if self.loops:
                function.in_loop |= value
        return value

    def _is_fresh(self, holder: ast.expr) -> bool:
        """Whether an object was made in the same breath, or in the same loop."""
        if type(holder) is ast.Name:
            return holder.id in self.fresh and self.fresh[holder.id] is self.loop()
        return type(holder) is ast.Call

    def _arguments_of(self, name: str, last: str) -> tuple[sinks.Arguments, bool]:
        """What the arguments of a call are; and whether it does not call a model."""
        pair = ".".join(name.rsplit(".", 2)[-2:])
        found = sinks.MODEL_CALLS.get(pair)
        if found is not None:
            return found, False
        found = self.call_sinks.get(name)
        if found is None and not (
            last[:1].isupper() and self.is_ours(name) and name.partition(".")[0] not in sinks.MAKERS
        ):
            found = sinks.CONSTRUCTORS.get(pair) or sinks.CONSTRUCTORS.get(last)
        if found is None and sinks.TOOL_MAKERS.match(last):
            found = sinks.TOOL_ARGUMENTS
        if found is None and last in _MESSAGES:
            found = {}
        return found or {}, True

    fields: dict[str, list[str]]
    """Variable → what is known of the fields of the object in it."""

    global_names: frozenset[str]
    """What the function declares global."""
    returns_to: Sink | None
    """What the result of the function around it is, by the function's name."""
    returns_name: str
    """That name."""

    def assign(self, node: ast.Assign) -> Value:
        """`a = b = value`."""
        given = node.value
        value = self.table[type(given)](given)
        for target in node.targets:
            self.store(target, value, given)
        return CLEAN

    def annotated(self, node: ast.AnnAssign) -> Value:
        """`a: T = value`."""
        if node.value is not None:
            self.store(node.target, self.table[type(node.value)](node.value), node.value)
        return CLEAN

    def augmented(self, node: ast.AugAssign) -> Value:
        """`a += value`."""
        value = self.table[type(node.value)](node.value)
        target = node.target
        if (
            type(target) is ast.Attribute
            and self.scope.node is not None
            and counts(node)
            and self.converses(self.scope.node)
        ):
            value |= self.varies("counter", target)
        if type(target) is ast.Name:
            self.begun.discard(target.id)
            before = self.scope.env.get(target.id, CLEAN)
        else:
            before = self.table[type(target)](target)
        self.store(target, value | before, node.value, added=value)
        if type(node.op) is ast.BitOr and type(node.value) is ast.Dict:
            for key, part in constant_keys(node.value).items():
                self.meet_key(target, key, part, self.probe(part))
        return CLEAN

    def store(self, target: ast.expr, value: Value, node: ast.expr, added: Value | None = None) -> None:
        """A value gets a name; names of prompts are where it arrives."""
        if value and self.frozen_lines and self.statement_is_frozen():
            value = self.frozen(value)
        kind = type(target)
        if kind is ast.Name:
            self._store_name(target.id, value, node)  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            self._store_attribute(target, value, node)  # type: ignore[arg-type]
        elif kind is ast.Subscript:
            self._store_item(target, value, node)  # type: ignore[arg-type]
        elif (
            isinstance(target, ast.Tuple | ast.List)
            and isinstance(node, ast.Tuple | ast.List)
            and len(target.elts) == len(node.elts)
        ):
            for item, part in zip(target.elts, node.elts, strict=True):
                self.store(item, self.probe(part), part)
        else:
            self.bind(target, value)
        name = last_name(target)
        sink = self.named_sinks.get(name)
        if sink is not None and not sinks.COUNTS.search(last_part(self.scope.function.name)):
            self.arrive(sink, node, f"`{name}`", is_named=True, value=value if added is None else added)

    def _store_name(self, name: str, value: Value, node: ast.expr) -> None:
        scope = self.scope
        if type(node) in _KEEPS_ITEMS:
            self.stored.setdefault(name, []).append(node)
        if self.branches and name in sources.FLAGS and isinstance(node, ast.Constant) and not self._is_tested(name):
            value |= self.varies(sources.FLAGS[name], node)
        if value and sources.PLACEHOLDER.search(name):
            value = self.filtered(value, sources.TAKEN_OUT)
        scope.env[name] = value
        scope.types.pop(name, None)
        if name in self.fields:
            for field in self.fields.pop(name):
                scope.env.pop(field, None)
        kind = type(node)
        if kind in _MAKE and (made := self._class_of(_made_where_none_was(node))):
            scope.types[name] = made
        if kind is ast.Call or (kind is ast.Await and type(node.value) is ast.Call):  # type: ignore[attr-defined]
            self.fresh[name] = self.loop()
        elif kind is ast.List:
            self.begun.add(name)
        elif kind is ast.Lambda:
            self._name_function(name, value)
        elif kind is ast.Dict and value:
            scope.env.update((f"{name}[{key!r}]", part) for key, part in self.parts_of(node))
        if kind is ast.Call and node.keywords and node.func is self.called[0]:  # type: ignore[attr-defined]
            self._keep_fields(name, node)  # type: ignore[arg-type]
        if scope.node is None and not scope.owner:
            self._module_variable(name, value)
        elif scope.node is None:
            self.keep_class_value(name, value, is_once=not _is_factory(node))
        elif name in self.global_names:
            self.module.variables.setdefault(name, []).append((value, False))

    def _stored_in_object(self) -> Value:
        """What this method was given and keeps in attributes of its object."""
        stored = [
            value
            for (owner, _), values in self.module.attributes.items()
            if owner == self.scope.owner
            for value, _ in values
        ]
        given = map(self.parameter, sorted(self.scope.function.named))
        return CLEAN.union(*(one for one in given if any(one <= value for value in stored)))

    def _keep_fields(self, name: str, made: ast.Call) -> None:
        """`args = Args(now=…)`: what is read as `args.now` is that."""
        given = zip(made.keywords, self.called[2], strict=True) if last_name(made.func)[:1].isupper() else ()
        kept = {f"{name}.{keyword.arg}": value for keyword, value in given if keyword.arg and value}
        if kept:
            self.fields[name] = [*kept]
            self.scope.env.update(kept)

    def _class_of(self, node: ast.expr) -> str:
        """The full name of the class an expression makes one of, or of the function or class it is.

        Empty where nothing says.
        """
        if type(node) is ast.Await and type(node.value) is ast.Call:
            node = node.value
        is_call = type(node) is ast.Call
        is_known = is_call and self.called[0] is node.func  # type: ignore[attr-defined]
        made = self.called[1] if is_known else self.dotted(node) if type(node) in _MAKE else ""
        return "" if not made or made[0] == "?" or (is_call and self.gives_unknown(made)) else made

    def _is_tested(self, name: str) -> bool:
        """Whether a test around looks at a variable; the outermost one counts where it chooses a setting itself."""
        tests = [branch.test for branch in self.branches[0 if _may_choose(self.branches[0]) else 1 :]]
        return any(isinstance(part, ast.Name) and part.id == name for test in tests for part in walk(test))

    def _module_variable(self, name: str, value: Value) -> None:
        self.bound.add(name)
        if value:
            self.module.variables.setdefault(name, []).append((value, True))
        if name in self.scope.types:
            self.names[name] = self.scope.types[name]

    def keep_class_value(self, name: str, value: Value, *, is_once: bool = True) -> None:
        """A value in a class's body is made once, what a factory there makes once for each object."""
        self.module.attributes.setdefault((self.scope.owner, name), []).append((value, is_once))

    def _name_function(self, name: str, value: Value) -> None:
        """`now = lambda: datetime.now()`: a function like any other."""
        around = self.scope.function.name.removesuffix(f".{MODULE_BODY}")
        function = Function(f"{around}.{name}", returned=value)
        self.module.functions[function.name.removeprefix(f"{self.module.name}.")] = function
        self.scope.types[name] = function.name

    def _store_attribute(self, target: ast.Attribute, value: Value, node: ast.expr) -> None:
        holder, scope = target.value, self.scope
        if type(holder) is not ast.Name:
            self.table[type(holder)](holder)
            return
        if holder.id == scope.myself and scope.owner:
            if target.attr.endswith("cache_key") and sanitizers.ANEW.match(last_part(scope.function.name)):
                return
            if not self.probing:
                is_once = scope.function.is_once and not self.loops
                self.module.attributes.setdefault((scope.owner, target.attr), []).append((value, is_once))
            if type(node) in _MAKE and (made := self._class_of(_made_where_none_was(node))):
                self.class_types.setdefault((scope.owner, target.attr), made)
        scope.env[f"{holder.id}.{target.attr}"] = value

    def _store_item(self, target: ast.Subscript, value: Value, node: ast.expr) -> None:
        holder, key = target.value, target.slice
        if type(key) is not ast.Constant:
            self.table[type(key)](key)
        if type(holder) is ast.Name:
            if type(key) is ast.Constant:
                self.scope.env[f"{holder.id}[{key.value!r}]"] = value
            is_aside = type(key) is ast.Constant and (key.value in sources.ASIDE or key.value in sources.MODEL_KEYS)
            if value and holder.id in self.scope.env and not is_aside:
                self.scope.env[holder.id] |= value
        else:
            self.table[type(holder)](holder)
        self._meet_item(target, value, node)

    def _meet_item(self, target: ast.Subscript, value: Value, node: ast.expr) -> None:
        """`kwargs["tools"] = x` and `messages[0]["content"] = x`."""
        holder, key = target.value, target.slice
        word = key.value if isinstance(key, ast.Constant) else None
        self.meet_key(holder, word, node, value)
        message = holder if isinstance(holder, ast.Subscript) and word in sinks.CONTENT_KEYS else target
        if not (isinstance(message, ast.Subscript) and self.is_history(message.value)) or isinstance(
            message.slice, ast.Slice
        ):
            return
        place = message.slice
        is_front = isinstance(place, ast.Constant) and place.value in {0, 1}
        self.arrive("front" if is_front else "message", node, f"`{ast.unparse(target)}`", value=value)

    def returning(self, node: ast.Return) -> Value:
        """`return value`; of a builder's step, `return self`, what it was given."""
        if node.value is None:
            return CLEAN
        value = self.table[type(node.value)](node.value)
        if type(node.value) is ast.Name and node.value.id == self.scope.myself:
            value |= self._stored_in_object()
        if value and self.frozen_lines and self.statement_is_frozen():
            value = self.frozen(value)
        function = self.scope.function
        function.returned |= value
        if type(node.value) is ast.Tuple:
            for place, item in enumerate(node.value.elts):
                function.items[place] = function.items.get(place, CLEAN) | self.probe(item)
        elif type(node.value) is ast.Dict and value:
            for key, part in self.parts_of(node.value):
                function.items[key] = function.items.get(key, CLEAN) | part
        if self.returns_to is not None:
            self.arrive(self.returns_to, node.value, f"what `{self.returns_name}()` gives", is_named=True, value=value)
        return CLEAN

    standing: Standing
    """Where the words of all patterns stand in the file."""
    marks: Sequence[int]
    """How many words that tell a statement to be looked at stand in the lines up to each; from 0 lines on."""
    watched: dict[type, Handler]
    """Node type → handler with the patterns of the file around it."""
    quiet: dict[type, Handler]
    """Node type → handler for statements without a word that tells of patterns."""
    plain: dict[type, Handler]
    """Node type → handler without patterns."""
    may_freeze: bool
    """Whether a comment may say that something is frozen."""

    def look_for(self, patterns: tuple[CodedPattern, ...]) -> None:
        """Says once which patterns there are."""
        self.patterns = made_ready(patterns)
        self.watches: dict[int, _Watch] = {}
        self.shown: dict[tuple[type, int], tuple[Asking, Handler | None]] = {}

    def watch(self) -> None:
        """Puts the patterns this file may match around the handlers of their node types."""
        patterns = self.patterns
        self.standing = patterns.words.locate(self.source)
        standing, bits = self.standing.anywhere(), patterns.words.bits
        rows = patterns.in_file(standing)
        self.may_mark = bool(standing & bits(MARKED))
        self.may_freeze = bool(standing & bits(FROZEN))
        self.silencing = [word for group in SILENCED if standing & bits(group) for word in group]
        known = self.watches.get(rows)
        if known is None:
            if len(self.watches) >= _MOST_WATCHES:
                self.watches.clear()
                self.shown.clear()
            known = self.watches[rows] = self._watch_of(rows)
        self.wanted, self.watched_types, self.watched, self.quiet, telling = known
        self.marks = self.standing.up_to_line(telling, self._index())
        self.table = self.watched

    def _watch_of(self, rows: int) -> _Watch:
        wanted, watched, quiet = {}, dict(self.plain), dict(self.plain)
        for kind, those in self.patterns.asking.items():
            if those & rows:
                key = kind, those & rows
                wanted[kind], handler = self.shown.get(key) or self._with_patterns(*key)
                if handler is not None:
                    watched[kind] = handler
                    if kind in SELDOM:
                        quiet[kind] = handler
        return _Watch(wanted, frozenset(wanted), watched, quiet, self.patterns.telling(rows))

    def _with_patterns(self, kind: type, rows: int) -> tuple[Asking, Handler | None]:
        """Some patterns that ask for a type of node, and its handler with them around it."""
        asking = self.patterns.ask(rows)
        plain = None if kind in FUNCTIONS else self.plain.get(kind, self.nothing)
        is_before = issubclass(kind, ast.stmt) and kind not in _AFTER
        handler = plain and (self._ask_before if is_before else self._ask_after)(plain, asking)
        found = self.shown[kind, rows] = asking, handler
        return found

    def _ask_before(self, plain: Handler, asking: Asking) -> Handler:
        def handler(node: Any) -> Value:
            if not self.probing:
                self.show_to(node, asking)
            return plain(node)

        return handler

    def _ask_after(self, plain: Handler, asking: Asking) -> Handler:
        def handler(node: Any) -> Value:
            value = plain(node)
            if not self.probing:
                if isinstance(node, ast.stmt):
                    self.probed = {}  # what was probed inside held before its branches met
                self.show_to(node, asking)
            return value

        return handler

    def show(self, node: ast.AST) -> None:
        """Shows a node to the patterns that ask for its type."""
        asking = self.wanted.get(type(node))
        if asking and not self.probing:
            self.show_to(node, asking)

    def show_to(self, node: ast.AST, asking: Asking) -> None:
        """Shows a node to those of some patterns whose words stand in it."""
        rows = asking.plain
        if asking.named:
            found = {row: None for name in _WATCHING_NAMES[type(node)](node) for row in asking.named.get(name, ())}
            rows = [*rows, *found]
        if asking.tested:
            there = self.standing.within(*self.bytes_at(node.test))  # type: ignore[attr-defined]
            rows = [*rows, *[row for row in asking.tested if row.tested & there == row.tested]]
        if rows:
            here = self.standing.within(*self.bytes_at(node))
            for row in rows:
                if row.needed & here == row.needed:
                    self._ask(node, row)

    def _ask(self, node: ast.AST, row: Wanted) -> None:
        if self.frozen_lines and self.statement_is_frozen():
            return
        self.asked = node
        for hit in row.find(node, self) or ():
            self._note(row.code, hit)

    def _note(self, code: str, hit: Hit) -> None:
        site = self.site(hit.node)
        place = CodePlace(self.module.path, *site[:4])
        self.module.findings.append(
            Finding(code, hit.message, place, "source", (site.place(self.module.path),), hit.fix)
        )

    waiting: list[tuple[AnyFunction, Scope, str, tuple[ast.AST, ...]]]
    """Functions whose bodies are still to be walked: each with the scope, the class and the loops around it."""

    """Walks statements."""

    def define(self, node: AnyFunction) -> Value:
        """A function: its body waits until what stands around it has been walked."""
        if node.decorator_list:  # they stand above its first line
            self.table = self.watched
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.decorator_list):
            self.table[type(default)](default)
        scope = self.scope
        if scope.node is not None:
            inner = f"{scope.function.name}.{node.name}"
            scope.types[node.name] = inner
            scope.env.pop(node.name, None)
        self.waiting.append((node, scope, scope.owner if scope.node is None else "", tuple(self.loops)))
        return CLEAN

    def define_class(self, node: ast.ClassDef) -> Value:
        """A class: its body is walked at once, its methods wait."""
        outer = self.scope
        owner = f"{outer.owner}.{node.name}" if outer.owner else node.name
        self.module.classes[owner] = tuple(filter(None, map(self.dotted, node.bases)))
        if outer.node is not None:
            outer.types[node.name] = f"{self.module.name}.{owner}"
        self.scope = Scope(outer.function, None, dict(outer.env), dict(outer.types), owner)
        function, self.scope.function = outer.function, Function(f"{self.module.name}.{owner}.<body>", is_once=True)
        self.module.functions.setdefault(owner + ".<body>", self.scope.function)
        self.body(node.body)
        self.scope, outer.function = outer, function
        return CLEAN

    def function_body(self, node: AnyFunction, outer: Scope, owner: str, loops: tuple[ast.AST, ...]) -> None:
        """The body of a function."""
        inner = (
            outer.function.name
            if outer.node is not None
            else f"{self.module.name}.{owner}"
            if owner
            else self.module.name
        )
        is_kept = keeps_its_result(node)
        is_once = (
            is_kept
            or node.name in sanitizers.ONCE
            or (bool(node.decorator_list) and any(map(_runs_once, node.decorator_list)))
        )
        function = Function(f"{inner}.{node.name}", is_once=is_once)
        if outer.node is not None:
            scope = Scope(function, node, dict(outer.env), dict(outer.types), outer.owner, outer.myself)
        else:
            scope = Scope(function, node, {}, {}, owner)
        self.scope, self.loops, self.branches = scope, [], []
        self.settled, self.fresh, self.begun, self.orders, self.statement, self.probed = CLEAN, {}, set(), [], node, {}
        self.choices, self.tool_loops, self.stored, self.fields = [], 0, {}, {}
        decorators = _decorators(node) if node.decorator_list else _NONE
        self._parameters(node, decorators, is_method=bool(owner) and outer.node is None)
        function.is_property = bool(decorators) and not decorators.isdisjoint(_PROPERTIES)
        function.is_frozen = (
            is_kept or not decorators.isdisjoint(sanitizers.FREEZING_DECORATORS) or node.lineno in self.frozen_lines
        )
        self.returns_name, self.returns_to = node.name, self._returns_to(node, owner, decorators)
        said = [part.names for part in node.body if type(part) is ast.Global]
        self.global_names = frozenset(name for names in said for name in names) if said else frozenset()
        self.module.functions[function.name.removeprefix(f"{self.module.name}.")] = function
        self.body(node.body)
        if self.settled and function.arrivals:
            function.arrivals = [one for one in function.arrivals if not (one.is_named and one.value <= self.settled)]
        if any(one.sink in sinks.IN_FRONT for one in function.arrivals):
            function.is_per_request = self._is_per_request(node, decorators)
        asking = self.wanted.get(type(node))
        if asking:
            self.statement, self.returns_to, self.probed = node, None, {}
            self.show_to(node, asking)

    def _is_per_request(self, node: AnyFunction, decorators: frozenset[str]) -> bool:
        if decorators & sinks.PROMPT_DECORATORS:
            return True
        if sinks.SELDOM.search(node.name):
            return False
        names = {part.id for part in self.nodes(node, ast.Name)} | {
            part.attr for part in self.nodes(node, ast.Attribute)
        }
        return any(map(sinks.RUNNING.search, names | self.scope.function.named))

    def _returns_to(self, node: AnyFunction, owner: str, decorators: frozenset[str]) -> Sink | None:
        sink = made_by(node.name)
        if sink == "system" or decorators & sinks.PROMPT_DECORATORS:
            return "system"
        return sinks.TOOL_PROPERTIES.get(node.name) if owner and owner.endswith(("Tool", "Toolkit")) else sink

    def _parameters(self, node: AnyFunction, decorators: frozenset[str], *, is_method: bool) -> None:
        arguments = node.args
        given = arguments.posonlyargs + arguments.args
        if is_method and given and "staticmethod" not in decorators:
            self.scope.myself = given.pop(0).arg
        named = given + arguments.kwonlyargs
        self.annotations = {part.arg: part.annotation for part in named if part.annotation is not None}
        function, extra = self.scope.function, arguments.kwarg
        function.parameters = tuple([argument.arg for argument in given])
        function.named = frozenset([argument.arg for argument in named])
        function.extra = extra.arg if extra else ""
        function.rest = arguments.vararg.arg if arguments.vararg else ""
        for argument in (*named, arguments.vararg, extra):
            if argument is not None:
                self._parameter(argument)
        if arguments.defaults or arguments.kw_defaults:
            self._defaults(given, arguments)

    def _defaults(self, given: list[ast.arg], arguments: ast.arguments) -> None:
        """`client=Anthropic`: a parameter is of the class it is made of where nobody gives one."""
        defaults = zip(reversed(given), reversed(arguments.defaults), strict=False)
        for argument, default in (*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
            if type(default) in _NAMES and (made := self.dotted(default)):  # type: ignore[arg-type]
                self.scope.types.setdefault(argument.arg, made)

    def _parameter(self, argument: ast.arg) -> None:
        name = argument.arg
        value = self.parameter(name)
        kind = sources.PARAMETERS.get(name)
        if kind is not None:
            value |= self.varies(kind, argument)
        self.scope.env[name] = value
        self.scope.types.pop(name, None)
        note = argument.annotation
        made = self.dotted(note) if note is not None and type(note) in _NAMES else ""
        if made and made not in BUILTINS and made[0] != "?":
            self.scope.types[name] = made

    def __init__(
        self,
        patterns: tuple[CodedPattern, ...],
        calls: dict[str, Kind],
        mends: dict[str, frozenset[Kind]],
        met: dict[str, sinks.Arguments],
        names: dict[str, Sink],
    ) -> None:
        self.look_for(patterns)
        self.call_sources, self.method_sources = {**sources.CALLS, **calls}, sources.METHODS
        self.sanitizing, self.call_sinks, self.named_sinks = (
            {**sanitizers.CALLS, **mends},
            met,
            {**sinks.NAMES, **names},
        )
        self.called = None, "", []
        self.told = TOLD | last_parts(calls, mends, met) if calls or mends or met else TOLD
        self.known_calls, self.known_roots, self.display = {}, frozenset(), (None, {})
        self.global_names, self.returns_to, self.returns_name = frozenset(), None, ""
        self.plain: dict[type, Handler] = {**self.handlers(), **self.statements(), ast.Call: self.call}
        self.table = self.watched = self.quiet = self.plain

    known_roots: frozenset[str]
    """The packages of the tree that is linted."""

    def statements(self) -> dict[type, Callable[[Any], Any]]:
        """Statement type → handler."""
        table: dict[type, Callable[[Any], Any]] = {
            ast.Expr: self.inner,
            ast.Assign: self.assign,
            ast.AnnAssign: self.annotated,
            ast.AugAssign: self.augmented,
            ast.Return: self.returning,
            ast.If: self.branch,
            ast.For: self.loop_over,
            ast.AsyncFor: self.loop_over,
            ast.While: self.loop_while,
            ast.With: self.with_block,
            ast.AsyncWith: self.with_block,
            ast.Try: self.attempt,
            ast.FunctionDef: self.define,
            ast.AsyncFunctionDef: self.define,
            ast.ClassDef: self.define_class,
            ast.Import: self.import_names,
            ast.ImportFrom: self.import_from,
            ast.Match: self.match,
            ast.Raise: self.any_children,
            ast.Assert: self.any_children,
            ast.Delete: self.any_children,
            ast.Global: self.nothing,
            ast.Nonlocal: self.nothing,
            ast.Pass: self.nothing,
            ast.Break: self.nothing,
            ast.Continue: self.nothing,
        }
        if hasattr(ast, "TryStar"):
            table[ast.TryStar] = self.attempt
        if hasattr(ast, "TypeAlias"):
            table[ast.TypeAlias] = self.nothing
        for name, handler in (("TemplateStr", self.joined), ("Interpolation", self.formatted)):
            if hasattr(ast, name):
                table[getattr(ast, name)] = handler
        return table

    def read(
        self,
        module: Module,
        source: bytes,
        tree: ast.Module,
        roots: frozenset[str],
        package: str,
        meant: Mapping[str, str],
    ) -> None:
        """Walks a file.

        What it says stands in `module` afterwards. `meant` says what first parts of imported names stand for.
        """
        self.open(module, source, tree, roots)
        if roots is not self.known_roots:
            self.known_calls, self.known_roots = {}, roots
        self.package, self.meant = package, meant
        self.waiting = []
        self.imported = {}
        self.growing, self.settled, self.fresh, self.begun, self.mid_conversation = {}, CLEAN, {}, set(), False
        self.branches, self.orders, self.annotations = [], [], {}
        self.choices, self.tool_loops, self.in_handler, self.fields = [], 0, False, {}
        self.template_places = places_in_system(tree, source)
        self.watch()
        self._comments()
        self._names_of(tree.body)
        module.functions[MODULE_BODY] = self.scope.function
        self.body([part for part in tree.body if type(part) not in _IMPORTS])
        if ast.Module in self.watched_types:
            self.show(tree)
        while self.waiting:
            self.function_body(*self.waiting.pop(0))

    def close(self) -> None:
        """Lets go of the last file, and of the circle through its own handlers: nothing is left for garbage collection."""
        forget()
        for made in (self.plain, self.watches, self.shown, self.watched, self.quiet):
            made.clear()

    def _comments(self) -> None:
        self.frozen_lines = frozen_lines(self.source) if self.may_freeze else frozenset()
        for word in self.silencing:
            self.module.silenced.update(silenced_lines(self.source, self._index(), word))

    # Names
    # ----------------------------------------------------------------------------------------------------------------

    def _names_of(self, body: Sequence[ast.stmt]) -> None:
        """Functions, classes and imports of a module, so that what stands above them finds them."""
        for node in body:
            if isinstance(node, ast.ImportFrom):
                self.import_from(node)
            elif isinstance(node, ast.Import):
                self.import_names(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.names[node.name] = f"{self.module.name}.{node.name}"

    def import_names(self, node: ast.Import) -> Value:
        """`import a.b as c`."""
        for alias in node.names:
            name = as_meant(alias.name, self.meant) if self.meant else alias.name
            self.names[alias.asname or alias.name.partition(".")[0]] = name if alias.asname else name.partition(".")[0]
        return CLEAN

    def import_from(self, node: ast.ImportFrom) -> Value:
        """`from .a import b as c`."""
        head = node.module or ""
        if node.level:
            parents = self.package.split(".")
            above = parents[: len(parents) - node.level + 1]
            head = ".".join((*above, *filter(None, (node.module,))))
        elif self.meant:
            head = as_meant(head, self.meant)
        for alias in node.names:
            if alias.name != "*" or self.is_ours(head):
                self.names[alias.asname or alias.name] = f"{head}.{alias.name}"
        return CLEAN

    # Blocks
    # ---------------------------------------------------------------------------------------------------------------

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Statement after statement."""
        marks, table, watched = self.marks, self.quiet, self.watched
        is_watched = bool(statements) and marks[statements[-1].end_lineno] > marks[statements[0].lineno - 1]  # type: ignore[index]
        for statement in statements:
            if is_watched:
                is_marked = marks[statement.end_lineno] > marks[statement.lineno - 1]  # type: ignore[index]
                table = watched if is_marked else self.quiet
            self.statement, self.table, self.probed = statement, table, {}
            table[type(statement)](statement)

    def branch(self, node: ast.If) -> Value:
        """Both ways; a way that leaves the function or the loop does not come back."""
        self.table[type(node.test)](node.test)
        before = self.scope.env
        self.branches.append(node)
        n_choices = len(self.choices)
        if self.tool_loops:
            self.choices.append(self.filtered(self.looked_at(node.test), sanitizers.ORDER))
        ends = [self._way(node.body, before), self._way(node.orelse, before)]
        if not isinstance(node.body[-1], ast.Continue):  # what stands behind one is chosen, too
            del self.choices[n_choices:]
        self.branches.pop()
        self.scope.env = _merged([env for env in ends if env is not None] or [before])
        return CLEAN

    def _way(self, statements: Sequence[ast.stmt], env: Env) -> Env | None:
        if not statements:
            return env
        self.scope.env = dict(env)
        self.body(statements)
        return None if isinstance(statements[-1], _LEAVES) else self.scope.env

    def loop_over(self, node: ast.For) -> Value:
        """`for x in xs`."""
        value = self.iterated(node.iter)
        before = dict(self.scope.env)
        self.bind(node.target, value)
        self.orders.append(frozenset(number for number in value if self._is_order(number)))
        is_of_tools, n_choices = self.is_of_tools(node.iter), len(self.choices)
        self.tool_loops += is_of_tools
        self._loop(node, before)
        self.tool_loops -= is_of_tools
        del self.choices[n_choices:]
        self.orders.pop()
        return CLEAN

    def loop_while(self, node: ast.While) -> Value:
        """`while test`."""
        self.table[type(node.test)](node.test)
        before = dict(self.scope.env)
        if type(node.test) is not ast.Constant:
            self._work_off(node)
        return self._loop(node, before)

    def _work_off(self, loop: ast.While) -> None:
        """`while not plan.done:` around a call of the model: what stands in the plan is another in each turn."""
        for part in walk(loop.test):
            held = ast.unparse(part) if type(part) in _NAMES and sources.PLAN.match(last_name(part)) else ""
            if held and held.count(".") < 2 and self.asks_model(loop):
                self.scope.env[held] = self.scope.env.get(held, CLEAN) | self.varies("plan", part)

    def _loop(self, node: Any, before: Env) -> Value:
        self.loops.append(node)
        self._count(node)
        self.body(node.body)
        self.loops.pop()
        self.body(node.orelse)
        self.scope.env = _merged([self.scope.env, before])
        return CLEAN

    def _count(self, loop: ast.AST) -> None:
        """What a conversation's loop counts differs in each turn, above the place where it is counted as well."""
        steps = self.nodes(loop, ast.AugAssign) if self._stands_in(loop, *_STEPS) else ()
        targets = [part.target for part in steps if counts(part)]
        counted = [target for target in (*targets, counter_of(loop)) if type(target) is ast.Name]
        if not counted or not self.converses(loop):
            return
        for target in counted:
            self.scope.env[target.id] = self.scope.env.get(target.id, CLEAN) | self.varies("counter", target)

    def _stands_in(self, node: ast.AST, *words: bytes) -> bool:
        """Whether one of some words is written in it."""
        start, end = self.bytes_at(node)
        return any(self.source.find(word, start, end) >= 0 for word in words)

    def with_block(self, node: ast.With) -> Value:
        """`with a as b`."""
        for item in node.items:
            value = self.table[type(item.context_expr)](item.context_expr)
            if item.optional_vars is not None:
                self.store(item.optional_vars, value, item.context_expr)
        self.body(node.body)
        return CLEAN

    def attempt(self, node: ast.Try) -> Value:
        """`try`: a handler sees what stood before or what the body stored."""
        before = self.scope.env
        self.scope.env = dict(before)
        self.body(node.body)
        self.body(node.orelse)
        ends: list[Env | None] = [None if node.body and isinstance(node.body[-1], _LEAVES) else self.scope.env]
        seen = _merged([before, self.scope.env])
        for handler in node.handlers:
            if ast.ExceptHandler in self.watched_types:
                self.statement = handler
                self.show(handler)
            ends.append(self._mishap(handler.body, seen))
        self.scope.env = _merged([env for env in ends if env is not None] or [seen])
        self.body(node.finalbody)
        return CLEAN

    def _mishap(self, statements: Sequence[ast.stmt], env: Env) -> Env | None:
        """What is done where something failed: what varies there is not sent with each request."""
        before, self.in_handler = self.in_handler, True
        end = self._way(statements, env)
        self.in_handler = before
        return end

    def match(self, node: ast.Match) -> Value:
        """`match`: what a pattern binds is a part of the subject."""
        subject = self.table[type(node.subject)](node.subject)
        before, ends = self.scope.env, []
        for case in node.cases:
            env = {**before, **{name: subject for part in walk(case.pattern) if (name := getattr(part, "name", None))}}
            ends.append(self._way(case.body, env))
        self.scope.env = _merged([before, *(env for env in ends if env is not None)])
        return CLEAN
