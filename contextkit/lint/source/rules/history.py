"""Rules about what is done to the history on its way into a request.

A history is what reaches `messages=` of a request in a conversation that goes on. Each thing done to the list on the way
(a slice, a `pop(0)`, a comprehension, a stored element) is an `Origin` of the search in mode `list`. Converting every
message by itself keeps the prefix; what depends on how many messages there are, or takes some from the front, does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from contextkit.lint.source.analysis import Analysis, Hit, text_of, trail_of
from contextkit.lint.source.graph import ANY, Context, Node, plain
from contextkit.lint.source.search import Origin
from contextkit.lint.source.sinks import Sink, is_of

CODES: Final = frozenset({"CKM01", "CKM04", "CKM05", "CKM06", "CKM08", "CKM11", "CKM13", "CKM18"})

_GROWS: Final = frozenset({"append", "extend", "+=", "insert", "add"})
_SLACK: Final = Fraction(5, 4)
"""A window that is cut to 1/1.25 of the length it is cut at moves rarely enough."""
_REASONING: Final = re.compile(r"^(?:redacted_)?(?:thinking|reasoning)(?:_content|_details|_blocks|_text)?$")
_IMAGE: Final = re.compile(r"^(?:input_)?image(?:_url)?$")
_CUTOFF: Final = re.compile(r"cut|keep|recent|threshold|boundary|last|start|limit|protect|tail", re.IGNORECASE)
_STARTS: Final = frozenset({"create_task", "ensure_future", "start_soon", "gather"})
"""Functions that run others side by side."""
_RESULTS: Final = re.compile(r"result|output|message|history|block")
_MEASURE: Final = re.compile(r"token|len|size|length|count|budget|usage|chars|limit|max", re.IGNORECASE)


def find(analysis: Analysis) -> Iterator[Hit]:
    """Hits of the rules about histories."""
    for sink in analysis.sinks:
        conversation = sink.conversation
        if sink.kind != "messages" or conversation is None or conversation.kind not in {"kept", "loop"}:
            continue
        side_call = analysis.search.side_call
        if sink.call is not None and side_call.search(sink.call.context.function.name):
            continue
        slices = [origin for origin in conversation.origins if origin.kind == "slice"]
        for origin in conversation.origins:
            if _is_side(origin, sink, side_call) or _is_on_demand(origin, sink, analysis):
                continue
            for code, message, *places in _hazards(origin, slices, analysis):
                place = places[0] if places else origin.node
                if place.position is not None:
                    trail = trail_of(origin.state, sink.label, sink.place)
                    yield Hit(code, message, place, trail, None, place)
        yield from _cleaned_between_turns(sink)
    yield from _windows(analysis)
    yield from _results(analysis)
    yield from _side_by_side(analysis)


def _results(analysis: Analysis) -> Iterator[Hit]:
    """Results of parallel tools that are kept as they finish."""
    for module in analysis.modules:
        for node in module.updates:
            if node.name not in {"append", "extend", "+="} or not any(
                one.kind == "for" for one in node.context.chain()
            ):
                continue
            if any(_is_result(operand, analysis) for operand in node.inputs[1:]):
                for code, message, place in _arrives(node, analysis):
                    yield Hit(code, message, place)


def _side_by_side(analysis: Analysis) -> Iterator[Hit]:
    """Tools that run side by side and each append to the same list: `create_task(run(call, results))`."""
    for call in analysis.calls():
        if call.name.rpartition(".")[2] not in _STARTS:
            continue
        for supplied in (plain(value) for _, value in call.value):
            started = plain(supplied.inputs[0]) if supplied.kind == "comp" else supplied
            is_many = supplied.kind == "comp" or any(
                one.kind in {"for", "comprehension"} for one in call.context.chain()
            )
            if (
                is_many
                and started.kind == "call"
                and re.search(r"tool|call", text_of(started))
                and _appends(started, analysis)
            ):
                message = f"`{text_of(started)}` adds its result when it ends, and not in the order of the calls: a replay differs"
                yield Hit("CKM11", message, started)


def _appends(started: Node, analysis: Analysis) -> bool:
    """Return whether a call of a coroutine appends to a list that others append to."""
    loops = {id(one) for one in started.context.chain() if one.kind in {"for", "comprehension"}}
    for target in analysis.program.targets(started):
        for key, value in started.value if target.function.is_async else ():
            if value.kind == "item" or not _RESULTS.search(analysis.program.parameter(target, key)):
                continue
            if value.kind == "list" and any(id(one) in loops for one in value.context.chain()):
                continue
            for node in analysis.program.changed(target, key):
                if any(
                    one.kind == "update" and one.name in {"append", "extend", "+="} and not one.value
                    for one in _within(node)
                ):
                    return True
    return False


def _cleaned_between_turns(sink: Sink) -> Iterator[Hit]:
    """Reasoning that goes with the requests of a turn, and is taken out before the next turn."""
    if sink.call is None or sink.conversation is None:
        return
    loops = {id(one) for one in sink.call.context.loops()}
    updates = [origin.node for origin in sink.conversation.origins if origin.kind == "update"]
    is_kept_whole = any(
        node.name in {"append", "+=", "extend"} and node.inputs[-1].kind not in {"dict", "list", "const"}
        for node in updates
        if any(id(one) in loops for one in node.context.loops())
    )
    for node in updates:
        is_before = loops and not any(id(one) in loops for one in node.context.loops())
        if (
            is_kept_whole
            and is_before
            and node.name in {"pop", "del"}
            and node.value[:1] == (ANY,)
            and _has_text(node.inputs[1:], _REASONING)
        ):
            message = f"`{text_of(node)}` takes out what was sent in the turn before: the prefix ends there"
            yield Hit("CKM01", message, node, (), None, node)


def _is_result(node: Node, analysis: Analysis) -> bool:
    """Return whether a value is the message, or block, of a tool's result."""
    for state in analysis.search.objects(node):
        ids = analysis.knowledge.words("tool_result", "ids")
        if state.node.kind == "dict" and any(key in ids for key in state.node.value):
            return True
        if state.node.kind == "call" and state.node.name.endswith("ToolMessage"):
            return True
    return False


def _windows(analysis: Analysis) -> Iterator[Hit]:
    """Memories and managers of frameworks that keep the last messages only."""
    rows = [row for row in analysis.knowledge.sections.get("window", ()) if row["is"] == "constructor"]
    by_name = {call.rpartition(".")[2]: (call.removeprefix("*"), row) for row in rows for call in row["calls"]}
    for call in analysis.calls():
        end, row = by_name.get(call.name.rpartition(".")[2], ("", None))
        if (
            row is not None
            and not row.get("summarises")
            and f".{call.name}".endswith(end)
            and is_of(call, row.get("packages", ()))
            and not analysis.program.targets(call)
            and is_window(call, row)
        ):
            yield Hit(
                "CKM04",
                f"`{text_of(call)}` keeps the last messages only: the history begins later in each request",
                call,
            )


def _hazards(
    origin: Origin, slices: list[Origin], analysis: Analysis
) -> Iterator[tuple[str, str] | tuple[str, str, Node]]:
    """Code, message, and where it is not at what was done itself, the place."""
    node = origin.node
    if origin.kind == "slice":
        yield from _sliced(origin, slices, analysis)
    elif origin.kind == "update":
        yield from _updated(origin, analysis)
    elif origin.kind == "comp":
        yield from _comprehended(origin, analysis)
    elif origin.kind == "call":
        yield from _called(node, analysis)
    elif origin.kind == "item":
        yield from _made_anew(origin, analysis)


# The front is cut off


def _sliced(origin: Origin, slices: list[Origin], analysis: Analysis) -> Iterator[tuple[str, str]]:
    node = origin.node
    lower, upper, _ = (None if one is None else plain(one) for one in node.value)
    context = node.context
    loop = next(
        (one for one in context.loops() if one.kind == "while" and one.test is not None and _measures(one.test, node)),
        None,
    )
    if loop is not None and lower is not None and upper is None and not _is_from_end(lower):
        yield "CKM05", _capped(node)
        return
    if upper is not None or lower is None or not _is_from_end(lower) or _is_look(lower):
        return
    if any(_is_rest(other, node) for other in slices):
        return  # the messages before it are there, too, in another form
    if _has_slack(origin, lower, analysis) or _is_compaction(origin, analysis):
        return
    yield "CKM04", f"`{text_of(node)}` keeps the last messages only: the history begins one turn later in each request"


def _is_from_end(lower: Node) -> bool:
    """`-N`, `-limit`, `len(messages) - N`."""
    lower = plain(lower)
    if lower.kind == "const":
        return isinstance(lower.value, int) and lower.value < 0
    if lower.kind == "join" and lower.name == "-":
        return not _is_length(plain(lower.inputs[0]))
    if lower.kind == "join" and lower.name == "arith" and len(lower.inputs) == 2:
        return _is_length(lower.inputs[0]) and not _is_length(lower.inputs[1])
    return lower.kind == "call" and lower.name == "max" and any(_is_from_end(value) for _, value in lower.value)


def _is_length(node: Node) -> bool:
    node = plain(node)
    return node.kind == "call" and node.name == "len"


def _is_look(lower: Node) -> bool:
    """`[-1:]`, `[-2:]`: the newest message or call."""
    return lower.kind == "const" and lower.value in (-1, -2)


def _is_rest(origin: Origin, node: Node) -> bool:
    """`messages[:-N]` beside `messages[-N:]`, all of them."""
    other = origin.node
    if other is node or other.value[1] is None:
        return False
    above = next(
        (one.node for one in origin.state.chain() if one.node is not other and one.node.kind not in {"call", "param"}),
        None,
    )
    if above is not None and above.kind == "comp" and above.value.conditions:
        return False
    return other.inputs[0] is node.inputs[0] and _same(other.value[1], node.value[0])


def _same(one: Node, other: Node) -> bool:
    if one is other:
        return True
    if one.kind == "const" and other.kind == "const":
        return bool(one.value == other.value)
    if one.kind == other.kind and one.kind in {"ref", "param"}:
        return one.name == other.name
    return (
        one.kind == other.kind
        and one.name == other.name
        and bool(one.inputs)
        and len(one.inputs) == len(other.inputs)
        and all(map(_same, one.inputs, other.inputs))
    )


def _has_slack(origin: Origin, lower: Node, analysis: Analysis) -> bool:
    """Return whether the list is cut at one length down to a much shorter one, and kept so."""
    kept = _number(lower.inputs[0] if lower.kind == "join" and lower.name == "-" else lower, analysis)
    for context in origin.node.context.chain():
        if context.kind in {"if", "else"} and context.test is not None:
            for limit in _limits(context.test, analysis):
                if kept is not None and limit >= _SLACK * abs(kept):
                    return _is_stored_back(origin, analysis)
    return False


def _is_stored_back(origin: Origin, analysis: Analysis) -> bool:
    """Return whether the cut list takes the place of the history."""
    cls = origin.node.context.function.cls
    stored = {
        id(value)
        for one in (analysis.program.family(cls) if cls is not None else ())
        for values in one.stores.values()
        for value, _ in values
    }
    for state in origin.state.chain():
        node = state.node
        if (
            node.kind == "attr"
            or (node.kind == "phi" and node.name == "loop")
            or (node.kind == "update" and node.name == "replace")
        ):
            return True
        if id(node) in stored:
            return True
    return False


def _limits(test: Node, analysis: Analysis) -> Iterator[float]:
    """The numbers a length is compared with."""
    for part in _within(test):
        if part.kind == "compare" and any(_is_length(one) for one in part.inputs):
            for one in part.inputs:
                number = _number(one, analysis)
                if number is not None:
                    yield number


def _number(node: Node, analysis: Analysis) -> float | None:
    values = [
        value
        for value in analysis.search.constants(node)
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return values[0] if len(values) == 1 else None


def _is_compaction(origin: Origin, analysis: Analysis) -> bool:
    """Return whether a summary takes the place of the rest, when there is too much."""
    callers = analysis.program.callers(origin.node.context.function)
    is_rare = _is_rare(origin.node.context, origin.node) or (
        bool(callers) and all(_is_rare(call.context) for call, _ in callers)
    )
    parent = origin.state.parent
    if parent is None or not is_rare:
        return False
    if origin.kind == "comp":
        return True
    around = [state.node for state in origin.state.chain() if state.node.kind in {"list", "join"}]
    for node in around[:2]:
        for part in node.inputs:
            for one in _within(part.inputs[0] if part.kind == "star" else part):
                if one.kind == "call" and re.search(r"summar|compact|condens", one.name, re.IGNORECASE):
                    return True
                if one.kind in {"param", "attr", "ref", "item"} and re.search(
                    r"summar|compact|condens", one.name, re.IGNORECASE
                ):
                    return True
    return bool(re.search(r"summar|compact|condens", origin.node.context.function.name, re.IGNORECASE))


def _is_rare(context: Context, of: Node | None = None) -> bool:
    """Return whether something is done only where there is too much."""
    return any(
        one.kind in {"if", "else"} and one.test is not None and _measures(one.test, of) for one in context.chain()
    )


def _updated(origin: Origin, analysis: Analysis) -> Iterator[tuple[str, str] | tuple[str, str, Node]]:
    node = origin.node
    name, keys = node.name, node.value
    if name in {"pop", "popleft", "del"} and not keys and _takes_first(node):
        tests = [
            context for context in node.context.chain() if context.test is not None and _measures(context.test, node)
        ]
        if any(context.kind == "while" for context in tests):
            if not any(context.kind == "if" for context in tests):  # more is dropped than too much
                yield "CKM05", _capped(node)
        elif (tests and not _is_used(node)) or _is_open_front(node):
            yield "CKM04", f"`{text_of(node)}` takes messages from the front: the history begins later in each request"
    elif name in {"insert", "append"} and not keys and _from_newest(node):
        yield "CKM05", _capped(node)
    elif name == "setitem" and keys and keys[0] == ANY:
        yield from _rewritten(node, keys, analysis)
    elif (
        name in {"pop", "del"}
        and keys
        and keys[0] == ANY
        and _has_text(node.inputs[1:], _REASONING)
        and _is_sometimes(node.context)
    ):
        yield "CKM01", f"`{text_of(node)}` takes reasoning out of earlier turns: they are not what was sent before"
    elif name in _GROWS and not keys:
        if _is_chosen_by_place(node):
            yield (
                "CKM08",
                f"`{text_of(node)}` changes messages once they are old: the place where the prefix ends moves with every turn",
            )
        else:
            yield from _arrives(node, analysis)
    elif (
        name in {"clear", "update"}
        and keys
        and keys[0] == ANY
        and _depends_on_place(node.context)
        and _is_about(node.context, _IMAGE)
    ):
        yield "CKM18", f"`{text_of(node)}` takes an image out of an earlier turn: the prefix ends there"


def _is_chosen_by_place(node: Node) -> bool:
    """`out.append(m if age <= 10 else brief(m))`, or the same in branches, while going through the messages."""
    if not any(context.kind == "for" for context in node.context.chain()):
        return False
    if any(
        one.kind == "phi" and one.value is not None and _asks_place(one.value)
        for operand in node.inputs[1:]
        for one in _within(operand)
    ):
        return True
    tests = [context for context in node.context.chain() if context.kind in {"if", "else"} and context.test is not None]
    is_other = len(node.inputs) > 1 and not _is_element(node.inputs[1])
    return is_other and any(context.test is not None and _asks_place(context.test) for context in tests)


def _is_element(node: Node) -> bool:
    """A message itself: `m` of `for m in messages`, `for i, m in enumerate(messages)`."""
    node = plain(node)
    return node.kind == "iter" or (node.kind == "item" and node.inputs[0].kind == "iter")


def _is_about(context: Context, pattern: re.Pattern[str]) -> bool:
    return any(one.test is not None and _has_text(_within(one.test), pattern) for one in context.chain())


def _takes_first(node: Node) -> bool:
    if node.name == "popleft":
        return True
    if len(node.inputs) < 2:
        return False
    key = plain(node.inputs[1])
    if key.kind == "const":
        return key.value in (0, 1) and not isinstance(key.value, bool)
    if key.kind == "slice":
        lower, upper, _ = key.value
        return (lower is None or (lower.kind == "const" and lower.value in (0, 1))) and upper is not None
    return False


def _is_used(node: Node) -> bool:
    """Return whether what is taken is looked at: `first = messages.pop(0)`."""
    return (
        node.name == "pop"
        and node.context.kind == "if"
        and node.position is not None
        and b"=" in _line(node)[: node.position.column]
    )


def _line(node: Node) -> bytes:
    lines = node.module.lines()
    line = node.position.line if node.position is not None else 0
    return lines[line - 1] if 1 <= line <= len(lines) else b""


def _is_open_front(node: Node) -> bool:
    """`del messages[:-N]`, which does nothing while there are few."""
    key = node.inputs[1] if len(node.inputs) > 1 else None
    return (
        key is not None
        and key.kind == "slice"
        and key.value[1] is not None
        and _is_from_end(key.value[1])
        and not _is_look(key.value[1])
    )


def _from_newest(node: Node) -> bool:
    """A list that is filled from the newest message on, until it is full."""
    for context in node.context.chain():
        iterable = plain(context.iterable) if context.kind == "for" and context.iterable is not None else None
        if iterable is not None and iterable.kind == "call" and iterable.name == "reversed":
            return any(
                around.test is not None and _measures(around.test)
                for left in context.breaks
                for around in left.chain()
                if around.kind == "if"
            )
    return False


def _capped(node: Node) -> str:
    return f"`{text_of(node)}` drops messages until the history just fits: from then on its beginning moves with almost every turn"


def _called(node: Node, analysis: Analysis) -> Iterator[tuple[str, str]]:
    last = node.name.rpartition(".")[2]
    if last == "deque":
        limit = node.argument("maxlen", 1)
        if limit is not None and not (limit.kind == "const" and limit.value is None):
            yield "CKM04", f"`{text_of(node)}` keeps the last messages only: the history begins later in each request"
        return
    for row in analysis.knowledge.sections.get("window", ()):
        if row["is"] == "call" and any(
            node.name == call or f".{node.name}".endswith(call.removeprefix("*")) for call in row["calls"]
        ):
            if is_window(node, row):
                yield "CKM04", f"`{last}` keeps the last messages only: the history begins later in each request"
            return


def is_window(node: Node, row: Mapping[str, Any]) -> bool:
    """Return whether a call that a `[[window]]` row is about cuts, by the arguments it is given."""
    for key, value in row.get("when", {}).items():
        supplied = node.argument(key)
        if supplied is not None and (supplied.kind != "const" or str(supplied.value) != value):
            return False
    arguments = [node.argument(int(key) if key.isdigit() else key) for key in row.get("argument", ())]
    limits = [supplied for supplied in arguments if supplied is not None]
    if not limits:
        return bool(row.get("absent") == "cuts")
    return not any(supplied.kind == "const" and str(supplied.value) in row.get("off", ()) for supplied in limits)


# Earlier messages are rewritten


def _rewritten(node: Node, keys: tuple[object, ...], analysis: Analysis) -> Iterator[tuple[str, str]]:
    """`message["content"] = …` for earlier messages, by how far they are from the end."""
    if not any(key in {"content", "text", ".content", "parts", ".parts"} for key in keys):
        return
    value = plain(node.inputs[1])
    if not _depends_on_place(node.context):
        if (
            value.kind == "comp"
            and any(_has_text(_within(one), _REASONING) for one in value.value.conditions)
            and _is_sometimes(node.context)
        ):
            yield "CKM01", f"`{text_of(value)}` takes reasoning out of earlier turns in some requests only"
        return
    if value.kind == "comp" and any(_has_text(_within(one), _REASONING) for one in value.value.conditions):
        yield "CKM01", f"`{text_of(value)}` takes reasoning out of earlier turns: they are not what was sent before"
    elif value.kind == "comp" and any(_has_text(_within(one), _IMAGE) for one in value.value.conditions):
        yield "CKM18", f"`{text_of(value)}` takes images out of earlier turns: the prefix ends where the first one was"
    elif _is_placeholder(value, analysis) and (
        _is_about(node.context, _IMAGE) or _has_text(_within(value), re.compile("image|screenshot"))
    ):
        yield "CKM18", f"`{text_of(value)}` takes the place of an image in an earlier turn: the prefix ends there"
    elif _is_placeholder(value, analysis):
        yield "CKM06", f"`{text_of(value)}` takes the place of what an earlier message said: the prefix ends there"
    else:
        yield (
            "CKM08",
            f"`{text_of(value)}` changes a message once it is old: the place where the prefix ends moves with every turn",
        )


def _contexts(origin: Origin) -> Iterator[Context]:
    """What is done to a history stands under these: where it is written, and where the functions are called that do it."""
    yield origin.node.context
    for call, _ in origin.state.stack:
        yield call.context


def _is_sometimes(context: Context) -> bool:
    """Return whether something is done to the history in some requests and not in others, or to some messages by their place."""
    if _depends_on_place(context):
        return True
    is_inside = True
    for one in context.chain():
        if one.kind in {"for", "comprehension"}:
            is_inside = False
        elif one.kind in {"if", "else"} and one.test is not None and (not is_inside or not _is_about_message(one.test)):
            return True
    return False


def _is_about_message(test: Node) -> bool:
    """Return whether a condition asks something of one message, which has the same answer in each request."""
    return any(part.kind == "iter" for part in _within(test))


def _is_placeholder(value: Node, analysis: Analysis) -> bool:
    value = plain(value)
    matches = analysis.search.constants(value) if value.kind in {"ref", "phi", "const", "attr"} else set()
    if matches:
        return all(isinstance(one, str) and len(one) < 300 for one in matches)
    if value.kind == "ref" and value.name.rpartition(".")[2].strip("~").isupper():
        return True
    return value.kind == "join" and value.name == "fstring" and len(value.inputs) < 6


def _depends_on_place(context: Context) -> bool:
    """Return whether something is done to some messages only, by where they stand: `messages[:-6]`, `i < len(messages) - 6`."""
    for one in context.chain():
        if one.iterable is not None and _is_head(one.iterable):
            return True
        if one.kind in {"if", "else"} and one.test is not None and _asks_place(one.test):
            return True
    return False


def _is_head(node: Node) -> bool:
    """`messages[:-N]`, `enumerate(messages[:-N])`, a variable of it."""
    for one in _within(node):
        if one.kind == "slice" and one.value[1] is not None:
            upper = one.value[1]
            if _is_from_end(upper) or upper.kind in {"param", "phi", "join", "call"}:
                return True
    return False


def _is_all_but_last(node: Node) -> bool:
    return any(
        one.kind == "slice" and one.value[1] is not None and one.value[1].kind == "const" and one.value[1].value == -1
        for one in _within(node)
    )


def _asks_place(test: Node) -> bool:
    """Return whether a condition compares how far a message is from the end, or from a cut: `len(messages) - i <= 5`, `i < cutoff`.

    `i < len(messages) - 1` asks whether there is a next one, which does not change once there is.
    """
    for one in _within(test):
        if one.kind == "compare" and one.name in {"lt", "lte", "gt", "gte"}:
            parts = [part for side in one.inputs for part in _within(side)]
            if not any(map(_is_index, parts)):
                continue
            is_measured = any(map(_is_length, parts)) or any(map(_counts_back, parts))
            numbers = [abs(part.value) for part in parts if part.kind == "const" and type(part.value) is int]
            is_named = any(
                part.kind in {"param", "phi", "attr", "item", "ref"} and _CUTOFF.search(_written_name(part))
                for part in parts
            )
            if (is_measured and max(numbers, default=0) > 1) or is_named:
                return True
    return False


def _written_name(node: Node) -> str:
    return text_of(node) if node.position is not None else node.name


def _counts_back(node: Node) -> bool:
    """The index of `enumerate(reversed(messages))`."""
    if node.kind != "item" or node.inputs[0].kind != "iter":
        return False
    iterable = plain(node.inputs[0].inputs[0])
    return iterable.kind == "call" and any(
        one.kind == "call" and one.name == "reversed" for _, value in iterable.value for one in [plain(value)]
    )


def _is_index(node: Node) -> bool:
    if node.kind == "item" and node.value == 0 and node.inputs[0].kind == "iter":
        iterable = plain(node.inputs[0].inputs[0])
        return (
            iterable.kind == "call"
            and iterable.name == "enumerate"
            and not any(_is_part(value) for _, value in iterable.value[:1])
        )
    iterable = plain(node.inputs[0]) if node.kind == "iter" else node
    return (
        iterable.kind == "call"
        and iterable.name == "range"
        and node.kind == "iter"
        and any(_is_length(part) for _, value in iterable.value for part in _within(value))
    )


def _is_part(node: Node) -> bool:
    """Return whether a list belongs to one message: `enumerate(message.tool_calls)` numbers no messages."""
    for _ in range(8):
        if node.kind == "iter":
            return True
        if node.kind == "call" and node.inputs[0].kind != "attr" and node.value:
            node = node.value[0][1]
        elif node.kind in {"attr", "item", "phi", "slice", "call"}:
            node = node.inputs[0]
        else:
            return False
    return False


def _comprehended(origin: Origin, analysis: Analysis) -> Iterator[tuple[str, str] | tuple[str, str, Node]]:
    node = origin.node
    if node.name == "dict":
        return  # parameters of a request, and no list
    parts = node.value
    element = plain(node.inputs[0])
    place = [one for one in _within(element) if one.kind == "phi" and one.value is not None and _asks_place(one.value)]
    is_head = any(_is_head(one) for one in parts.iterables)
    conditions = [
        *parts.conditions,
        *(test for one in _within(element) if one.kind == "comp" for test in one.value.conditions),
    ]
    if any(_has_text(_within(one), _REASONING) for one in conditions) and (
        is_head or any(map(_is_sometimes, _contexts(origin)))
    ):
        yield "CKM01", f"`{text_of(node)}` takes reasoning out of earlier turns: they are not what was sent before"
    elif any(_asks_place(one) for one in parts.conditions):
        yield (
            "CKM04",
            f"`{text_of(node)}` leaves messages out by how old they are: the prefix ends earlier in each request",
        )
    elif (place or (is_head and element.kind != "iter" and not _is_copy(element))) and not _is_compaction(
        origin, analysis
    ):
        changed = next((one for one in _within(element) if one.kind == "dict" and "content" in one.value), None)
        content = changed.inputs[changed.value.index("content")] if changed is not None else None
        if changed is not None and content is not None and _is_placeholder(content, analysis):
            yield (
                "CKM06",
                f"`{text_of(content)}` takes the place of what an earlier message said: the prefix ends there",
                changed,
            )
        else:
            yield (
                "CKM08",
                f"`{text_of(node)}` changes messages once they are old: the place where the prefix ends moves with every turn",
            )


def _is_copy(element: Node) -> bool:
    """`dict(m)`, `m.copy()`, `{**m}`."""
    element = plain(element)
    if element.kind == "call":
        return element.name.rpartition(".")[2] in {"dict", "copy", "deepcopy", "model_copy"}
    return element.kind == "dict" and element.value == ["**"]


# Results come in another order; ids are made anew


def _arrives(node: Node, analysis: Analysis) -> Iterator[tuple[str, str, Node]]:
    """A list is filled in the order in which its function sees results finish."""
    iterables = [
        context.iterable for context in node.context.chain() if context.kind == "for" and context.iterable is not None
    ]
    if node.name in {"extend", "+="}:
        iterables += node.inputs[1:]
    for iterable in iterables:
        for origin in analysis.search.origins(iterable, kinds=frozenset({"arrival"}), most=200):
            if (
                origin.kind == "arrival"
                and origin.node.context.function is node.context.function
                and origin.state.doubt == 0
            ):
                text = text_of(origin.node)
                message = (
                    f"`{text}` gives results as they finish, and the history keeps them in that order: a replay differs"
                )
                yield "CKM11", message, origin.node
                return


def _made_anew(origin: Origin, analysis: Analysis) -> Iterator[tuple[str, str, Node]]:
    """A message that is converted for each request gets a new id each time."""
    if not _is_for_each(origin):
        return
    for state in analysis.search.objects(origin.node, stack=origin.state.stack):
        message = state.node
        if message.kind != "dict":
            continue
        for key, value in _ids(message, analysis):
            matches = analysis.search.origins(value, kinds=frozenset({"id"}), stack=state.stack, most=300)
            hit = next((one for one in matches if one.kind == "id" and not _is_fallback(one)), None)
            if hit is not None:
                yield "CKM13", f"`{text_of(hit.node)}` gives an earlier message a new {key!r} in each request", hit.node
                return


def _is_for_each(origin: Origin) -> bool:
    """Return whether a message is made of each earlier one: in a comprehension, or in a loop through them."""
    child = origin.state
    while child.parent is not None:
        above = child.parent.node
        if above.kind == "comp" and above.inputs[0] is child.node:
            return True
        if above.kind == "update" and above.inputs[0] is not child.node:
            return _goes_through_messages(above)
        child = child.parent
    return False


def _ids(message: Node, analysis: Analysis, depth: int = 0) -> Iterator[tuple[str, Node]]:
    """The ids and names in a message, and in its parts."""
    message = plain(message)
    if depth > 7:
        return
    if message.kind == "dict":
        for key, value in zip(message.value, message.inputs, strict=True):
            if key in analysis.knowledge.words("message_dict", "ids"):
                yield str(key), value
            else:
                yield from _ids(value, analysis, depth + 1)
    elif message.kind in {"list", "comp", "star", "phi", "join"}:
        for part in message.inputs[:8]:
            yield from _ids(part, analysis, depth + 1)
    elif message.kind == "call":
        for target in analysis.program.targets(message)[:3]:
            for value in target.function.returns[:3] if target.constructs is None else ():
                yield from _ids(value, analysis, depth + 1)


def _is_fallback(origin: Origin) -> bool:
    """Return whether the id is made only where the message has none."""
    return any(state.node.kind == "phi" for state in origin.state.chain()) or any(
        context.kind in {"if", "else"} for context in origin.node.context.chain()
    )


def _goes_through_messages(node: Node) -> bool:
    for context in node.context.chain():
        if context.kind == "for" and context.iterable is not None:
            return any(
                one.kind in {"param", "attr"} and re.search(r"messages|history", one.name)
                for one in _within(context.iterable)
            )
    return False


# Conditions


def _measures(test: Node, of: Node | None = None) -> bool:
    """Return whether a condition asks how much there is: of the list that something is done to, where its length is
    asked.
    """
    for one in _within(test):
        if one.kind == "compare" and one.name in {"lt", "lte", "gt", "gte", "eq"}:
            for side in one.inputs:
                for part in _within(side):
                    if _is_length(part):
                        if (
                            of is None
                            or not part.value
                            or _root(part.value[0][1]) is _root(of)
                            or _is_history(part.value[0][1])
                        ):
                            return True
                    elif (
                        part.kind in {"call", "param", "attr", "ref"}
                        and part.name != "~len"
                        and _MEASURE.search(part.name.rpartition(".")[2])
                    ):
                        return True
    return False


def _root(node: Node) -> Node:
    """The list that was there before it was changed."""
    for _ in range(100):
        node = plain(node)
        if node.kind in {"update", "phi", "out", "slice"} and node.inputs:
            node = node.inputs[0]
        else:
            break
    return node


def _is_history(node: Node) -> bool:
    root = _root(node)
    return (
        root.kind in {"param", "attr", "item"}
        and re.search(r"messages|history|turns|conversation", root.name or str(root.value)) is not None
    )


def _within(node: Node, most: int = 60) -> Iterator[Node]:
    """A node and what it is made of in the same expression."""
    waiting = [node]
    visited: set[int] = set()
    while waiting and most:
        one = waiting.pop()
        if id(one) in visited:
            continue
        visited.add(id(one))
        most -= 1
        yield one
        if one.kind == "call":
            waiting += [value for _, value in one.value]
            waiting += [inlined for inlined in [one.module.inlined(one)] if inlined is not None]
        waiting += one.inputs
        if one.kind == "comp":
            waiting += [*one.value.iterables, *one.value.conditions]


def _has_text(nodes: Iterable[Node], pattern: re.Pattern[str]) -> bool:
    return any(one.kind == "const" and isinstance(one.value, str) and pattern.search(one.value) for one in nodes)


def _is_on_demand(origin: Origin, sink: Sink, analysis: Analysis) -> bool:
    """Return whether it is done in a public method that nothing here calls: offered to whoever wants to start over."""
    function = origin.node.context.function
    if (
        sink.call is None
        or function is sink.call.context.function
        or function.cls is None
        or function.name.startswith("_")
    ):
        return False
    return (
        origin.node.kind in {"slice", "update"}
        and not analysis.program.callers(function)
        and not any(call for call, _ in origin.state.stack)
    )


def _is_side(origin: Origin, sink: Sink, side_call: re.Pattern[str]) -> bool:
    """Return whether the way to the request goes through a function that asks something about the conversation."""
    if sink.call is not None and not any(
        state.node.kind == "param" and not state.stack for state in origin.state.chain()
    ):
        return False  # it puts back what it makes, and sends nothing
    functions = [origin.node.context.function, *(call.context.function for call, _ in origin.state.stack)]
    return any(side_call.search(function.name) for function in functions)
