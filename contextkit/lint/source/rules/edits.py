"""Changes to source text that mend a hazard, at the places the value graph names.

Only in files whose text is what the tree's offsets count in (`Parsed.is_exact`). A change that cannot be made simply is
not offered.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from contextkit.lint.finding import Edit, Fix
from contextkit.lint.source.analysis import Analysis
from contextkit.lint.source.flows import Flow
from contextkit.lint.source.graph import Module, Node
from contextkit.lint.source.search import State

DUMPS: Final = frozenset({"json.dumps", "simplejson.dumps"})
MARK_LAST: Final = "mark the last block"
MOVE_MARKER: Final = "move the marker to the last block that stays"
SORT_KEYS: Final = "sort the keys"
SORT_ITEMS: Final = "sort what is listed"
SORT_TOOLS: Final = "sort the tools by name"
MOVE_TO_MESSAGE: Final = "move what varies into a message at the end"
_BEHIND: Final = re.compile(rb"(?P<space>[ \t\r\n\f]+|\\\r?\n)|(?P<comment>#[^\n]*)|(?P<comma>,)|(?P<close>[)\]}])")
"""What may stand behind the last item of a call or display."""
_STATEMENT: Final = re.compile(rb"[ \t]*(?:(?:return|await|yield|with|async with)[ \t]+|[\w.\[\]'\", ]+[ \t]*=[ \t]*)*")
"""What may stand before a call on the line its statement begins on."""
_LITERAL: Final = re.compile(rb"[fF]('''|\"\"\"|'|\")")


def span_of(node: Node) -> tuple[int, int] | None:
    """Where an expression stands in its file, in bytes; None where that is not known to the byte."""
    module, position = node.module, node.position
    if position is None or module.parsed is None or not module.parsed.is_exact:
        return None
    return _offset(module, position.line, position.column), _offset(module, position.end_line, position.end_column)


def _offset(module: Module, line: int, column: int) -> int:
    return sum(len(one) + 1 for one in module.lines()[: line - 1]) + column


def fix_for(flow: Flow, analysis: Analysis) -> Fix | None:
    """The change that ends a flow, None where there is none that is simple."""
    node = flow.origin.node
    if flow.origin.kind in {"clock", "date", "id"} and flow.rule.code in {"CKS01", "CKS02", "CKS03"}:
        return move_to_message(flow)
    if flow.rule.code == "CKT07":
        dumped = next(
            (one.node for one in flow.origin.state.chain() if one.node.kind == "call" and one.node.name in DUMPS),
            None,
        )
        if dumped is not None:
            return sort_keys(dumped)
    if flow.rule.code in {"CKT01", "CKT07"} and flow.origin.kind in {"paths", "unordered"}:
        return sort_listing(node, flow.origin.state, analysis)
    return None


# Order


def sort_keys(call: Node) -> Fix | None:
    """`json.dumps(x)` → `json.dumps(x, sort_keys=True)`."""
    if call.name not in DUMPS or any(key in {"sort_keys", "**", "*"} for key, _ in call.value):
        return None
    edit = _argument(call, "sort_keys=True")
    return Fix(SORT_KEYS, (edit,)) if edit is not None else None


def sort_listing(node: Node, state: State, analysis: Analysis) -> Fix | None:
    """`os.listdir(f)` → `sorted(os.listdir(f))`; a list of tools that is made of a set is sorted by their names."""
    if state.kinds and ((node.kind == "call" and node.name not in {"set", "frozenset"}) or _is_text_set(node)):
        return _wrapped(node, "sorted(", ")", SORT_ITEMS)
    for one in state.chain():
        made = one.node
        if (
            made.kind == "comp"
            and made.name == "list"
            and made.inputs[0].kind == "dict"
            and "name" in made.inputs[0].value
        ):
            return _wrapped(made, "sorted(", ', key=lambda tool: tool["name"])', SORT_TOOLS)
    name = _name_of_tools(node, analysis) if node.kind == "set" else None
    return _wrapped(node, "sorted(", f", key=lambda tool: tool.{name})", SORT_TOOLS) if name is not None else None


def _name_of_tools(node: Node, analysis: Analysis) -> str | None:
    """The attribute that names the functions of a set: `__name__`, or `name` where all are decorated."""
    results = [[target.function for target in analysis.program.callables(one)] for one in node.inputs]
    if not results or any(len(functions) != 1 for functions in results):
        return None
    is_decorated = {bool(functions[0].decorators) for functions in results}
    return None if len(is_decorated) > 1 else "name" if True in is_decorated else "__name__"


def _is_text_set(node: Node) -> bool:
    return node.kind == "set" and all(one.kind == "const" and isinstance(one.value, str) for one in node.inputs)


def _wrapped(node: Node, before: str, behind: str, title: str) -> Fix | None:
    span = span_of(node)
    return Fix(title, (Edit(span[0], span[0], before), Edit(span[1], span[1], behind))) if span is not None else None


# Markers


def add_marker(call: Node, analysis: Analysis) -> Fix | None:
    """`cache_control={"type": "ephemeral"}` on a request of a client of Anthropic's own API: the last block is marked."""
    if not call.name.endswith((".messages.create", ".messages.stream")) or any(
        isinstance(key, int) for key, _ in call.value
    ):
        return None
    client = call.inputs[0]
    while client.kind == "attr":
        client = client.inputs[0]
    if client.kind == "ref":
        clients = {client.name} | {state.node.name for state in analysis.search.objects(_above(call.inputs[0]))}
    else:
        clients = {state.node.name for state in analysis.search.objects(client)}
    if not any(name in {"anthropic.Anthropic", "anthropic.AsyncAnthropic"} for name in clients):
        return None
    edit = _argument(call, 'cache_control={"type": "ephemeral"}')
    return Fix(MARK_LAST, (edit,)) if edit is not None else None


def _above(callee: Node) -> Node:
    """The client of `client.messages.create`, where all of it is one dotted name."""
    name = callee.name.removesuffix(".create").removesuffix(".stream").removesuffix(".messages").removesuffix(".beta")
    return Node("ref", callee.context, callee.position, (), name) if callee.kind == "ref" else callee


def move_marker(block: Node, previous: Node, key: str, marker: Node) -> Fix | None:
    """The marker from one block to the one before it in the same list."""
    spans = span_of(block), span_of(previous), span_of(marker)
    if None in spans or block.module is not previous.module or marker.module is not block.module:
        return None
    (start, end), (_, previous_end), (value_start, value_end) = spans  # type: ignore[misc]
    text = block.module.text
    named = re.search(rb"([\"'])" + re.escape(key.encode()) + rb"\1\s*:\s*$", text[start:value_start])
    if named is None or not start < value_start < end:
        return None
    removed = _without_item(text, start + named.start(), value_end, start, end)
    last = max((span for one in previous.inputs if (span := span_of(one)) is not None), default=None)
    if removed is None or last is None:
        return None
    item = text[start + named.start() : value_end].decode("utf-8", "replace")
    added = appended(text, last, previous_end, item)
    return Fix(MOVE_MARKER, (added, removed)) if added is not None else None


def _without_item(text: bytes, start: int, stop: int, begin: int, end: int) -> Edit | None:
    """An item of a display taken out with the comma behind it, or else the one before it."""
    behind = re.compile(rb"\s*,[ \t]*(?:\r?\n[ \t]*)?").match(text, stop, end)
    before = re.search(rb",\s*$", text[begin:start])
    if re.compile(rb"\s*,?\s*#").match(text, stop):
        return None
    if before is not None:
        return Edit(begin + before.start(), stop, "")
    return Edit(start, behind.end(), "") if behind is not None else None


def _argument(call: Node, item: str) -> Edit | None:
    """One more argument of a call."""
    span = span_of(call)
    if span is None:
        return None
    tree = _parsed(call.module.text[span[0] : span[1]])
    if not isinstance(tree, ast.Call) or not (tree.args or tree.keywords):
        return None
    last = max(
        [*tree.args, *(one.value for one in tree.keywords)],
        key=lambda one: (one.end_lineno or 0, one.end_col_offset or 0),
    )
    keyword = next((one for one in tree.keywords if one.value is last), None)
    first = keyword if keyword is not None else last
    lines = call.module.text[span[0] : span[1]].split(b"\n")

    def at(line: int, column: int) -> int:
        return span[0] + sum(len(one) + 1 for one in lines[: line - 1]) + column - (1 if line == 1 else 0)

    return appended(
        call.module.text,
        (at(first.lineno, first.col_offset), at(last.end_lineno or 0, last.end_col_offset or 0)),
        span[1],
        item,
    )


def _parsed(source: bytes) -> ast.expr | None:
    """An expression as it is written, in parentheses so that it may go over several lines."""
    try:
        return ast.parse(b"(" + source + b"\n)", mode="eval").body
    except (SyntaxError, ValueError):
        return None


def appended(source: bytes, last: tuple[int, int], end: int, item: str) -> Edit | None:
    """`item` behind the last one of a call or display that ends at `end`; where each has its own line, so has this one.

    >>> appended(b"f(a, b)", (5, 6), 7, "c=1")
    Edit(start=6, end=6, text=', c=1')
    >>> appended(b"f(\\n    a,\\n)", (7, 8), 11, "c=1")
    Edit(start=9, end=9, text='\\n    c=1,')
    """
    results = _behind(source, last[1], end)
    if results is None:
        return None
    at, comma, has_comment = results
    before = source[source.rfind(b"\n", 0, last[0]) + 1 : last[0]]
    indent = before.decode() if not before.strip() else None
    has_own_line = not has_comment and indent is not None and b"\n" in source[at:end]
    new_line = "\r\n" if b"\r\n" in source[at:end] else "\n"
    if has_own_line and comma and source[comma : source.index(b"\n", comma)].strip() == b"":
        return Edit(comma, comma, f"{new_line}{indent}{item},")
    return Edit(at, at, f",{new_line}{indent}{item}" if has_own_line and not comma else f", {item}")


def _behind(source: bytes, start: int, end: int) -> tuple[int, int, bool] | None:
    """Offset behind the last item and its parentheses, behind the comma that follows (0 where none does), and whether a
    comment does.
    """
    closes, comma, has_comment, at = [start], 0, False, start
    while at < end:
        results = _BEHIND.match(source, at, end)
        if results is None:
            return None
        at = results.end()
        has_comment = has_comment or results.lastgroup == "comment"
        if results.lastgroup == "close":
            closes.append(at)
        comma = at if results.lastgroup == "comma" else comma
    return (closes[-2], comma, has_comment) if len(closes) > 1 and (not comma or comma > closes[-2]) else None


# What varies, out of the system text


def move_to_message(flow: Flow) -> Fix | None:
    """The sentence of an f-string that varies, out of the system text and into a message that is appended before the request.

    Only where text, request and the list of messages are in one function. Not safe: the model reads it elsewhere.
    """
    call, state = flow.sink.call, flow.origin.state
    if call is None or flow.sink.kind != "system" or state.stack:
        return None
    text = next((one for one in state.chain() if one.node.kind == "join" and one.node.name == "fstring"), None)
    if (
        text is None
        or text.stack
        or any(one.context.function is not call.context.function for one in (text.node, flow.origin.node))
    ):
        return None
    cut = _sentence(text.node, flow.origin.node)
    line = _line_before(call)
    messages = _messages_name(call)
    if cut is None or line is None or messages is None:
        return None
    start, end, quote = cut
    stated = call.module.text[start:end].decode("utf-8", "replace").strip()
    indent, at, new_line = line
    message = f'{indent}{messages}.append({{"role": "user", "content": f{quote}[{stated}]{quote}}}){new_line}'
    return Fix(MOVE_TO_MESSAGE, (Edit(start, end, ""), Edit(at, at, message)), is_safe=False)


def _sentence(text: Node, varying: Node) -> tuple[int, int, str] | None:
    """Where the sentence around the only place that varies stands in an f-string, and the quotes around the string."""
    span = span_of(text)
    if span is None:
        return None
    source = text.module.text[span[0] : span[1]]
    opening = _LITERAL.match(source)
    tree = _parsed(source)
    if (
        opening is None
        or not isinstance(tree, ast.JoinedStr)
        or b"\\N{" in source
        or b"{{" in source
        or b"}}" in source
    ):
        return None
    quote = opening[1]
    inside = source[opening.end() : -len(quote)]
    if not source.endswith(quote) or quote in inside:
        return None  # several strings in a row
    places = list(_places(inside))
    first = span[0] + opening.end()
    where = span_of(varying)
    chosen = [
        place for place in places if where is not None and place[0] <= where[0] - first and where[1] - first <= place[1]
    ]
    if not chosen and len(places) == 1:
        chosen = places  # before Python 3.12 places in strings over several lines are told wrongly
    if len(chosen) != 1:
        return None
    begins = max(_ends_of_sentences(inside[: chosen[0][0]]), default=0)
    ends = min((chosen[0][1] + one for one in _ends_of_sentences(inside[chosen[0][1] :])), default=len(inside))
    if (
        any(place != chosen[0] and begins < place[1] and place[0] < ends for place in places)
        or b"\n" in inside[begins:ends].strip()
    ):
        return None
    return first + begins, first + ends, quote.decode()


def _places(inside: bytes) -> Iterator[tuple[int, int]]:
    """The `{…}` of an f-string."""
    depth, start = 0, 0
    for index, one in enumerate(inside):
        if one == ord("{"):
            start, depth = (index if not depth else start), depth + 1
        elif one == ord("}"):
            depth -= 1
            if depth == 0:
                yield start, index + 1


def _ends_of_sentences(inside: bytes) -> Iterator[int]:
    yield from (results.end() for results in re.finditer(rb"[.!?](?=\s|\\n|$)|\\n|\n", inside))


def _line_before(call: Node) -> tuple[str, int, str] | None:
    """Indentation and offset of the line a request's statement begins on, None where it begins on another line."""
    span = span_of(call)
    if span is None:
        return None
    text = call.module.text
    at = text.rfind(b"\n", 0, span[0]) + 1
    before = text[at : span[0]]
    if _STATEMENT.fullmatch(before) is None:
        return None
    indent = before[: len(before) - len(before.lstrip())].decode()
    return indent, at, "\r\n" if b"\r\n" in text else "\n"


def _messages_name(call: Node) -> str | None:
    """The variable of the function that is given as the messages, where it is a list one may append to."""
    span = span_of(call)
    tree = _parsed(call.module.text[span[0] : span[1]]) if span is not None else None
    supplied = call.argument("messages")
    if (
        not isinstance(tree, ast.Call)
        or supplied is None
        or supplied.kind not in {"param", "list", "update", "out", "phi"}
    ):
        return None
    name = next((one.value for one in tree.keywords if one.arg == "messages"), None)
    if not isinstance(name, ast.Name):
        return None
    says = call.context.function.annotations.get(name.id, "list")
    return name.id if says.rpartition(".")[2] in {"list", "List", "MutableSequence"} else None
