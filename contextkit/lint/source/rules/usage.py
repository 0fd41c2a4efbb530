"""How a program counts what it was billed: usage added once for each block, prices without the cached counters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.scopes import Binding, Scope, last_name
from contextkit.lint.source.trace import Step

CODES = frozenset({"CKA02", "CKA03"})
_CACHED_TOKENS = re.compile(
    rb"(?:token|read|writ|creat|input|hit|price|cost)\w{0,20}\W{0,3}\w{0,9}cach|cach\w*\W{0,3}\w{0,9}(?:token|read|writ|creat|input|hit|price|cost)",
    re.IGNORECASE,
)
"""Words of cached tokens or their prices, in whatever order."""
_BLOCKS = re.compile(r"\b(?:content|tool_calls|choices|blocks|parts|candidates)\b")
_OTHERS = re.compile(rb"gpt-[4-9]|gemini-[2-9]|deepseek|openai|litellm")
"""Models and services that cache what nobody marked."""


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find counters that are added too often, and money computed without the tokens of the cache."""
    for scope in analysis.module.scopes if b"okens" in analysis.module.text else ():
        is_known: bool | None = None
        for binding in (one for bindings in scope.bindings.values() for one in bindings):
            counter = _counted_by_block(analysis, binding)
            if counter is not None:
                what = "is added once for each part of one response: the response is counted several times"
                message = f"`{text_of(counter, scope.module)}` {what}"
                yield Hit("CKA02", message, binding.node, scope.module, sink=binding.node)
        for node, at in scope.expressions:
            for one in ast.walk(node):
                if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add) and _counts_twice(analysis, one):
                    what = "counts cached tokens twice: the first counter holds them already"
                    yield Hit("CKA02", f"`{text_of(one, scope.module)}` {what}", one, scope.module, sink=node)
                elif isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
                    counter_name = _priced(analysis, one, Step(one, at))
                    if counter_name and is_known is None:
                        is_known = scope.is_module or _knows_cache(analysis, scope)
                    if counter_name and not is_known:
                        what = "without the cached counters: tokens read from a cache cost a tenth to a half, written ones more"
                        message = f"`{text_of(one, scope.module)}` prices `{counter_name}` {what}"
                        yield Hit("CKA03", message, one, scope.module, sink=scope.node)


def _counter(node: ast.AST) -> str:
    """Return the name of a counter that an expression reads: of an attribute, a key, `get("…")` or a variable."""
    if isinstance(node, ast.Subscript):
        return str(getattr(node.slice, "value", ""))
    if isinstance(node, ast.Call) and last_name(node.func) in ("get", "getattr"):
        return next(
            (one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)), ""
        )
    return last_name(node)


def _counted_by_block(analysis: Analysis, binding: Binding) -> ast.AST | None:
    """Return the usage of one response that is added in a loop over the parts of the response."""
    names = analysis.knowledge.words("usage", "input") | analysis.knowledge.words("usage", "output")
    loop = next(iter(binding.loops()), None)
    if (
        binding.operation != "+="
        or not isinstance(loop, ast.For | ast.AsyncFor)
        or not _BLOCKS.search(ast.unparse(loop.iter))
    ):
        return None
    for one in ast.walk(binding.value or loop.iter):
        if _counter(one) in names and not isinstance(one, ast.Name):
            used = {inner.id for inner in ast.walk(one) if isinstance(inner, ast.Name)}
            changed = {name for name in used for other in binding.scope.bindings.get(name, ()) if loop in other.loops()}
            return one if used and not changed else None
    return None


def _counts_twice(analysis: Analysis, node: ast.BinOp) -> bool:
    """Return whether cached tokens are added to a counter which holds them: `prompt_tokens + cached_tokens`."""
    terms, waiting = set[str](), [node.left, node.right]
    for one in waiting:
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add):
            waiting += [one.left, one.right]
        terms.add(_counter(one.values[0] if isinstance(one, ast.BoolOp) else one))
    words = analysis.knowledge.words
    whole = words("usage", "whole") | ({"input_tokens"} if "input_tokens_details" in ast.unparse(node) else set())
    return not terms.isdisjoint(whole) and not terms.isdisjoint(words("usage", "held"))


def _priced(analysis: Analysis, node: ast.BinOp, step: Step) -> str:
    """Return the counter of input tokens that is multiplied by a price, where it is seen to be read from a bill; else
    empty.
    """
    names = analysis.knowledge.words("usage", "input")
    for counted, price in ((node.left, node.right), (node.right, node.left)):
        if not analysis.knowledge.matches("price", ast.unparse(price)):
            continue
        for one in analysis.tracer.walk(step.to(counted)):
            read = one.node
            if _counter(read) in names and not isinstance(read, ast.Name):
                owner = read.value if isinstance(read, ast.Attribute | ast.Subscript) else read
                made = [
                    binding.value
                    for binding in analysis.program.bindings_of(owner, one.at)
                    if binding.value is not None
                ]
                is_billed = any("usage" in ast.unparse(two).lower() for two in [read, *made])
                if is_billed and analysis.program.is_used(one.scope) and analysis.program.is_used(step.scope):
                    return _counter(read)
    return ""


def _knows_cache(analysis: Analysis, scope: Scope) -> bool:
    """Return whether cached tokens are named in the file, in a base or subclass, or where the function is called; or
    the models that are priced report none.
    """
    module = scope.module
    around = [cls.module for cls in analysis.program.family(scope.cls)] if scope.cls is not None else []
    around += [site.at.scope.module for site, _ in analysis.program.callers(scope)]
    if any(_CACHED_TOKENS.search(one.text) for one in (module, *around)):
        return True
    imported = {name.partition(".")[0] for name in module.imports.values()}
    name = f"{scope.cls.name if scope.cls is not None else ''}.{scope.name}"
    if imported & analysis.knowledge.words("uncached_usage", "packages") or analysis.knowledge.matches(
        "uncached_usage", name
    ):
        return True
    is_marked = bool(
        analysis.program.breakpoint_words[module.name.partition(".")[0]]
    )  # what is not marked is not cached there
    is_claude = is_marked and re.search(rb"claude|anthropic|bedrock", module.text) is not None
    return not (is_claude or _OTHERS.search(module.text))
