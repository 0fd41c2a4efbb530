"""Requests that cache only what is marked: those that mark nothing, and breakpoints behind text that changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.requests import Sent
from contextkit.lint.source.rules.edits import add_marker
from contextkit.lint.source.scopes import Module
from contextkit.lint.source.trace import Given

CODES = frozenset({"CKB01", "CKB02"})
_OTHER_ENDPOINT = re.compile(
    rb"base_?url\W[^\n]{0,80}https?://(?!api\.anthropic)|https?://(?!api\.anthropic)[^\s\"']+/anthropic", re.I
)
"""A literal address of a vendor that takes requests of this shape, and caches by itself."""


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find requests of a growing history without a breakpoint, and breakpoints that nothing is read at."""
    for sent in analysis.sent:
        if _marks_nothing(analysis, sent):
            message = (
                f"`{text_of(_callee(sent), sent.scope.module)}` sends a growing history and marks nothing:"
                " every turn pays the whole prompt again"
            )
            fix = add_marker(sent, analysis)
            yield Hit("CKB01", message, _callee(sent), sent.scope.module, (), fix, sent.node)
        else:
            yield from _marked_questions(analysis, sent)


def _callee(sent: Sent) -> ast.expr:
    return sent.node.func if isinstance(sent.node, ast.Call) else sent.node


def _marks_nothing(analysis: Analysis, sent: Sent) -> bool:
    row = next(
        (
            one
            for one in analysis.knowledge.sections["mark"]
            if sent.row is not None and one["provider"] == sent.row.provider
        ),
        None,
    )
    if row is None or sent.kind not in ("turn", "loop") or not isinstance(sent.node, ast.Call):
        return False
    if analysis.knowledge.matches("side_call", sent.scope.name):
        return False
    if sent.kind == "turn" and not _grows(analysis, sent):
        return False
    name = analysis.program.dotted(sent.node.func, sent.scope, sent.place)
    is_own = name.startswith(tuple(row["clients"])) or _is_only_of(sent.scope.module, row)
    module = sent.scope.module
    is_marked = analysis.program.marked[module.name.partition(".")[0]] & set(row["words"])
    if not is_own or is_marked or _OTHER_ENDPOINT.search(module.parsed.text):
        return False
    if row["provider"] == "bedrock":
        return any(word.encode() in module.parsed.text.lower() for word in row["models"])
    models = [
        one.value.value for one in sent.node.keywords if one.arg == "model" and isinstance(one.value, ast.Constant)
    ]
    return not models or any(word in str(models[0]) for word in row["models"])


def _is_only_of(module: Module, row: dict[str, object]) -> bool:
    """Return whether a file imports the vendor's own client."""
    clients = row["clients"]
    assert isinstance(clients, list)
    packages = {client.partition(".")[0] for client in clients}
    return any(name.partition(".")[0] in packages for name in module.imports.values())


def _grows(analysis: Analysis, sent: Sent) -> bool:
    """Return whether a history that comes from elsewhere is seen to go on: it is added to, or tools are offered."""
    has_added = any(
        step.binding is not None
        and step.binding.kind == "add"
        and not any(isinstance(loop, ast.For) for loop in step.binding.place.loops())
        for step in sent.messages
    )
    tools = [step for step, _ in sent.arguments.get("tools", ())]
    return has_added or any(not (isinstance(one.node, ast.Constant) and one.node.value is None) for one in tools)


def _marked_questions(analysis: Analysis, sent: Sent) -> Iterator[Hit]:
    """Find a marked block that holds the question, which no later request begins with."""
    is_one_question = sent.kind == "single" and not any(
        isinstance(step.node, ast.Attribute | Given | ast.Call) for step in sent.messages if step.path
    )
    for block in analysis.marks(sent):
        is_message = any(one in sent.messages for one in block.chain())
        if block.node is sent.node or (is_message and not is_one_question):
            continue
        for step in analysis.tracer.walk(block):
            if step is not block and analysis.kind_of(step) == "user" and not step.once:
                text = text_of(step.node, step.scope.module)
                message = f"`{text}` is another text in each request and stands in front of a breakpoint: what is written there is never read"
                yield Hit("CKB02", message, block.node, block.scope.module, sink=block.node)
                break
