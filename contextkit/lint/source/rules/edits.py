"""Changes to source text that mend a hazard.

Only in files whose text is what the tree's offsets count in (`Parsed.is_exact`). A change that cannot be made simply is
not offered.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from contextkit.lint.finding import Edit, Fix
from contextkit.lint.source.requests import SentPrompt, Sink
from contextkit.lint.source.scopes import Module, last_name
from contextkit.lint.source.trace import Step

if TYPE_CHECKING:
    from contextkit.lint.source.analysis import Analysis

ADD_BREAKPOINT: Final = "set a breakpoint on the last block"
SORT_ITEMS: Final = "sort what is listed"
SORT_TOOLS: Final = "sort the tools by name"
MOVE_TO_MESSAGE: Final = "move what varies into a message at the end"
_PLACE: Final = re.compile(rb"\{[^{}]*\}")
"""What is filled in."""
_STATEMENT: Final = re.compile(rb"[ \t]*(?:(?:return|await|yield|with|async with)[ \t]+|[\w.\[\]'\", ]+[ \t]*=[ \t]*)*")
"""What may stand before a call on the line its statement begins on."""
_LITERAL: Final = re.compile(rb"[fF]('''|\"\"\"|'|\")")
_CLIENTS: Final = ("anthropic.Anthropic()", "anthropic.AsyncAnthropic()")


def span_of(node: ast.expr, module: Module) -> tuple[int, int] | None:
    """Return where an expression stands in its file, in bytes; None where that is not known to the byte."""
    if not module.parsed.is_exact or not getattr(node, "lineno", 0):
        return None
    return _offset(module, node.lineno, node.col_offset), _offset(
        module, node.end_lineno or node.lineno, node.end_col_offset or 0
    )


def _offset(module: Module, line: int, column: int) -> int:
    return sum(len(one) + 1 for one in module.lines()[: line - 1]) + column


# Order


def sort_listing(step: Step, is_list: bool) -> Fix | None:
    """Return `{"a", "b"}` → `sorted({"a", "b"})`; tools written as dicts and made of a set are sorted by their names."""
    node, module = step.node, step.scope.module
    around = step.parent.node if step.parent is not None else None
    is_iterated = isinstance(around, ast.ListComp) or (
        isinstance(around, ast.Call) and last_name(around.func) in ("list", "tuple") and node in around.args
    )  # elsewhere it may be used as a set
    is_of_texts = isinstance(node, ast.Set) and all(isinstance(getattr(one, "value", None), str) for one in node.elts)
    if is_of_texts and is_iterated:
        return _wrapped(node, module, "sorted(", ")", SORT_ITEMS)
    made = next((one.node for one in step.chain() if isinstance(one.node, ast.ListComp)), None)
    if is_list and made is not None and isinstance(made.elt, ast.Dict):
        names = {key.value for key in made.elt.keys if isinstance(key, ast.Constant)}
        if "name" in names:
            return _wrapped(made, module, "sorted(", ', key=lambda tool: tool["name"])', SORT_TOOLS)
    return None


def _wrapped(node: ast.expr, module: Module, before: str, behind: str, title: str) -> Fix | None:
    span = span_of(node, module)
    return Fix(title, (Edit(span[0], span[0], before), Edit(span[1], span[1], behind))) if span is not None else None


# Breakpoints


def add_breakpoint(sent: SentPrompt, analysis: Analysis) -> Fix | None:
    """Return `cache_control={"type": "ephemeral"}` on a request of a client of Anthropic's own API: the last block gets
    a breakpoint.
    """
    call, module = sent.node, sent.scope.module
    if not isinstance(call, ast.Call) or call.args or last_name(call.func) not in ("create", "stream"):
        return None
    if not analysis.program.dotted(call.func, sent.at).startswith(_CLIENTS):
        return None
    first = call.keywords[0] if call.keywords else None
    if first is None or not module.parsed.is_exact or any(one.arg is None for one in call.keywords):
        return None
    at = _offset(module, first.lineno, first.col_offset)
    before = module.lines()[first.lineno - 1][: first.col_offset].decode()
    behind = " " if before.strip() else f"\n{before}"
    return Fix(ADD_BREAKPOINT, (Edit(at, at, f'cache_control={{"type": "ephemeral"}},{behind}'),))


# What varies, out of the system text


def move_to_message(step: Step, sink: Sink) -> Fix | None:
    """Return the sentence of an f-string that varies, out of the system text and into a message that is appended before
    the request.

    Only where text, request and the list of messages are in one function. Not safe: the model reads it elsewhere.
    """
    call, module = sink.sent.node, step.scope.module
    if (
        sink.kind != "system"
        or step.at.frame is not None
        or not isinstance(call, ast.Call)
        or step.scope is not sink.sent.scope
    ):
        return None
    text = next((one for one in step.chain() if isinstance(one.node, ast.JoinedStr)), None)
    is_repeated = sink.sent.kind != "loop" and sink.sent.at.place.loops()  # a retry would say it once more
    n_requests = sum(last_name(one.func) == last_name(call.func) for one, _ in step.scope.calls)
    if text is None or text.scope is not step.scope or is_repeated or n_requests > 1:
        return None
    cut = _sentence(text.node, step.node, module)
    line = _line_before(call, module)
    messages = _messages_name(sink.sent)
    names = {one.id for one in ast.walk(text.node) if isinstance(one, ast.Name)}
    if any(len(step.scope.bindings.get(name, ())) > 1 for name in names):
        return None  # it may have another value where the message is added
    if cut is None or line is None or messages is None or messages in names:
        return None  # what is added to the messages would be read into the text again
    start, end, quote = cut
    stated = module.text[start:end].decode("utf-8", "replace").removesuffix("\\n").strip()
    indent, at, new_line = line
    message = f'{indent}{messages}.append({{"role": "user", "content": f{quote}[{stated}]{quote}}}){new_line}'
    return Fix(MOVE_TO_MESSAGE, (Edit(start, end, ""), Edit(at, at, message)), is_safe=False)


def _sentence(text: ast.expr, varying: ast.expr, module: Module) -> tuple[int, int, str] | None:
    """Return where the sentence around the only place that varies stands in an f-string, and the quotes around the
    string.
    """
    span, where = span_of(text, module), span_of(varying, module)
    if span is None or where is None:
        return None
    source = module.text[span[0] : span[1]]
    opening = _LITERAL.match(source)
    if opening is None or any(mark in source for mark in (b"\\N{", b"{{", b"}}")):
        return None
    quote = opening[1]
    inside = source[opening.end() : -len(quote)]
    if not source.endswith(quote) or quote in inside:
        return None  # several strings in a row
    places = [place.span() for place in _PLACE.finditer(inside)]
    first = span[0] + opening.end()
    chosen = [place for place in places if place[0] <= where[0] - first and where[1] - first <= place[1]]
    if not chosen and len(places) == 1:
        chosen = places  # a variable in the string, whose value varies
    if len(chosen) != 1:
        return None
    begins = max(_ends_of_sentences(inside[: chosen[0][0]]), default=0)
    ends = min((chosen[0][1] + one for one in _ends_of_sentences(inside[chosen[0][1] :])), default=len(inside))
    others = [place for place in places if place != chosen[0] and begins < place[1] and place[0] < ends]
    if others or b"\n" in inside[begins:ends].strip():
        return None
    return first + begins, first + ends, quote.decode()


def _ends_of_sentences(inside: bytes) -> Iterator[int]:
    yield from (end.end() for end in re.finditer(rb"[.!?](?=\s|\\n|$)|\\n|\n", inside))


def _line_before(call: ast.Call, module: Module) -> tuple[str, int, str] | None:
    """Indentation and offset of the line a request's statement begins on, None where it begins on another line."""
    span = span_of(call, module)
    if span is None:
        return None
    text = module.text
    at = text.rfind(b"\n", 0, span[0]) + 1
    before = text[at : span[0]]
    if _STATEMENT.fullmatch(before) is None or text[:at].rstrip(b"\r\n").endswith(b"\\"):
        return None
    indent = before[: len(before) - len(before.lstrip())].decode()
    return indent, at, "\r\n" if b"\r\n" in text else "\n"


def _messages_name(sent: SentPrompt) -> str | None:
    """Return the variable that is given as the messages, where it is a list one may append to."""
    keywords = sent.node.keywords if isinstance(sent.node, ast.Call) else []
    name = next((one.value for one in keywords if one.arg in ("messages", "input")), None)
    if not isinstance(name, ast.Name):
        return None
    return name.id if sent.scope.annotation(name.id) in ("", "list", "List", "MutableSequence") else None
