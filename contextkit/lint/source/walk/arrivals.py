"""Where a value meets the prompt, by the call, the key or the list it is given to: noted once, frozen where the session
makes it once.

Takes the walk's state and a value, gives an `Arrival` of the function it stands in; knows nothing of how values are
made.
"""

from __future__ import annotations

from typing import Any

from contextkit.lint.source.rule import Kind, Sink
from contextkit.lint.source.summary import (
    CLEAN,
    Arrival,
    Called,
    Filtered,
    Frozen,
    Item,
    Parameter,
    Shown,
    Source,
    Value,
)
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import (
    KnownCall,
    constant_keys,
    is_system_message,
    is_system_role,
    is_tool_definition,
    last_name,
    takes_prompts,
    walk,
    word_of,
)
from contextkit.lint.source.tables import sanitizers, sinks
from contextkit.lint.source.view.questions import Questions

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


class Arrivals(Questions):
    """Notes what reaches the prompt."""

    __slots__ = (
        "begun",
        "branches",
        "call_sources",
        "frozen_lines",
        "growing",
        "mid_conversation",
        "named_sinks",
        "settled",
        "template_places",
    )

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
        if isinstance(origin, Filtered | Item | Shown):
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

    def meet_call(
        self, node: ast.Call, last: str, known: KnownCall, values: list[Value], keywords: list[Value]
    ) -> None:
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


def _takes_prompts(node: ast.Call, last: str, known: KnownCall) -> bool:
    """Whether a call means a prompt by `tools=` and `instructions=`.

    A function of the linted tree says itself where it sends them; a method may be that of a class others are made from.
    """
    return takes_prompts(last) and not (known.is_ours and type(node.func) is ast.Name and last[:1].islower())
