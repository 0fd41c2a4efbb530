"""What a call gives: sources, sanitizers, functions of the linted tree.

Takes the walk's state, gives the handler of calls; every name it knows stands in `tables/`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from contextkit.lint.source.rule import SORT_ITEMS, SORT_TOOLS, Kind
from contextkit.lint.source.summary import CALL, CLEAN, Called, Parameter, Source, Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import FOREIGN, OURS, KnownCall, last_name, word_of
from contextkit.lint.source.tables import sanitizers, sinks, sources
from contextkit.lint.source.walk.arrivals import ADDERS, MEETING
from contextkit.lint.source.walk.dumps import Dumps
from contextkit.lint.source.walk.expressions import is_clock_format, is_day_format, is_zone_format

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


class Calls(Dumps):
    """The handler of calls."""

    __slots__ = (
        "call_sinks",
        "choices",
        "fresh",
        "known_calls",
        "method_sources",
        "sanitizing",
        "told",
        "tool_loops",
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
            known = self.known_calls[called] = self._known(*called)
        result = CLEAN
        if not known.is_clean:
            if not self.probing and (given or not known.is_plain):
                self.meet_call(node, last, known, values, keywords)
            give = self._common if known.is_common else self._result
            result = give(node, known, called[0], last, receiver, values, keywords)
        return result

    known_calls: dict[tuple[str, str, bool], KnownCall]
    """Full name, last name and whether it is a method → what the tables say of such a call."""

    def _known(self, name: str, last: str, is_method: bool) -> KnownCall:
        """What the tables say of a call; most names stand in none of them."""
        is_told = last in self.told or name.rpartition(".")[2] in self.told or sinks.TOOL_MAKERS.match(last)
        if not is_told:
            return OURS if name and self.is_ours(name) else FOREIGN
        return self._told(name, last, is_method)

    def _told(self, name: str, last: str, is_method: bool) -> KnownCall:
        arguments, is_named = self._arguments_of(name, last)
        is_known = last in self.method_sources or last in sources.RETRIEVER_METHODS
        is_source = name in self.call_sources or (is_known and (is_method or self.method_sources.get(last) == "recall"))
        mends = self.sanitizing.get(name) or self.sanitizing.get(last)
        is_ours = bool(name) and self.is_ours(name)
        is_asked = last in sinks.MODEL_METHODS or (is_method and last in sanitizers.ANSWERED)
        is_answer = not is_named or (is_asked and not is_ours)
        is_special = last in _SPECIAL or name in sanitizers.JSON_DUMPS or name in sources.GIT
        is_common = not (is_source or is_answer or is_special or mends is not None)
        return KnownCall(
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
        known: KnownCall,
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
        known: KnownCall,
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
        orders = self.order_of(node.args[0]) | self._order_kept(node.args[0]) if node.args else CLEAN
        kinds = {origin.kind for number in orders if isinstance(origin := self.module.origins[number], Source)}
        return self.varies("jumbled", node) if "unordered" in kinds else CLEAN

    def _order_kept(self, joined: ast.expr) -> Value:
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


def _is_retrieved(node: ast.Call, holder: ast.expr, last: str) -> bool:
    """Whether a method recalls something: of a memory, or of anything that is searched by a vector."""
    name, by = last_name(holder).lower(), {keyword.arg for keyword in node.keywords}
    if name.endswith(sources.RETRIEVERS):
        is_asked = bool(node.args) and type(node.args[0]) is not ast.Constant
        return is_asked or (last != "get" and bool(node.args or node.keywords))
    return not by.isdisjoint(sources.NEAREST_TO) or (
        name.endswith(sources.STORES) and not by.isdisjoint(sources.SEARCHED_BY)
    )
