"""Requests that cache only what is marked: those that mark nothing, and breakpoints behind text that changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.requests import SentPrompt, is_shared_list
from contextkit.lint.source.rules.edits import add_breakpoint
from contextkit.lint.source.trace import Step, UnknownArgument

CODES = frozenset({"CKB01", "CKB02"})
_OTHER_ENDPOINT = re.compile(
    rb"base_?url\W[^\n]{0,80}https?://(?!api\.anthropic)|https?://(?!api\.anthropic)[^\s\"']+/anthropic", re.IGNORECASE
)
"""A literal address of a vendor that takes requests of this shape, and caches by itself."""


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find requests of a growing history without a breakpoint, and breakpoints that nothing is read at."""
    for sent in analysis.sent:
        if isinstance(sent.node, ast.Call) and _has_no_breakpoint(analysis, sent, sent.node):
            what = "sends a growing history and sets no breakpoint: every turn pays the whole prompt again"
            message = f"`{text_of(sent.node.func, sent.scope.module)}` {what}"
            fix = add_breakpoint(sent, analysis)
            yield Hit("CKB01", message, sent.node.func, sent.scope.module, (), fix, sent.node)
        else:
            yield from _questions_before_a_breakpoint(analysis, sent)


def _has_no_breakpoint(analysis: Analysis, sent: SentPrompt, call: ast.Call) -> bool:
    provider, module, name = sent.row.provider if sent.row is not None else "", sent.scope.module, ""
    row = next((one for one in analysis.knowledge.sections["breakpoint"] if one["provider"] == provider), None)
    if row is None or analysis.knowledge.matches("side_call", sent.scope.name) or not _grows(analysis, sent):
        return False
    name = analysis.program.dotted(call.func, sent.at)
    packages = {client.partition(".")[0] for client in row["clients"]}
    is_own = name.startswith(tuple(row["clients"])) or any(
        one.partition(".")[0] in packages for one in module.imports.values()
    )
    is_marked = analysis.program.breakpoint_words[module.name.partition(".")[0]] & set(row["words"])
    if not is_own or is_marked or _OTHER_ENDPOINT.search(module.text):
        return False
    model = next((one.value for one in call.keywords if one.arg in ("model", "modelId")), None)
    text = module.text.lower().decode("utf-8", "replace") if provider == "bedrock" else "claude"
    text = str(model.value) if isinstance(model, ast.Constant) else text
    return any(word in text for word in row["models"])


def _grows(analysis: Analysis, sent: SentPrompt) -> bool:
    """Return whether a history is seen to go on: in a loop, kept in an attribute, or with tools to be called."""
    steps = [one for one in sent.messages if one.binding is not None and one.binding.kind == "add"]
    loops = sent.at.place.loops()
    is_around = any(loop in loops for one in steps if one.scope is sent.scope for loop in one.binding.loops())  # type: ignore[union-attr]
    is_kept = any(is_shared_list(one, sent) for one in steps)
    is_by_caller = any(one.at.frame is None and one.scope is not sent.scope and one.binding.loops() for one in steps)  # type: ignore[union-attr]
    has_tools = any(kind == "tools" and _are_offered(analysis, step) for kind, step, _ in sent.arguments)
    return sent.kind == "loop" or (sent.kind == "turn" and (is_around or is_kept or is_by_caller or has_tools))


def _are_offered(analysis: Analysis, first: Step) -> bool:
    """Return whether tools are seen to be given: here, or by a call of the function whose parameter they are."""
    for step in analysis.tracer.walk(first, stops=lambda one: isinstance(one.node, ast.Call)):
        if isinstance(step.node, ast.List | ast.ListComp | ast.Attribute | ast.Call) and ast.unparse(step.node) != "[]":
            return True
        if isinstance(step.node, UnknownArgument) and analysis.program.gives(step.scope.name, step.node.id):
            return True
    return False


def _questions_before_a_breakpoint(analysis: Analysis, sent: SentPrompt) -> Iterator[Hit]:
    """Find a marked block that holds the question, which no later request begins with."""
    lists = [step.node for step in sent.messages if step.path]
    is_one_question = sent.kind == "single" and not any(
        isinstance(one, ast.Attribute | UnknownArgument | ast.Call) for one in lists
    )
    for block in analysis.breakpoints_of(sent):
        if block.node is sent.node or (not is_one_question and any(one in sent.messages for one in block.chain())):
            continue
        for step in analysis.tracer.walk(block):
            if step is not block and analysis.kind_of(step) == "user" and not step.once:
                what = "is another text in each request and stands in front of a breakpoint: what is written there is never read"
                message = f"`{text_of(step.node, step.scope.module)}` {what}"
                yield Hit("CKB02", message, block.node, block.scope.module, sink=block.node)
                break
