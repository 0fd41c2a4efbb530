"""How a program counts what it was billed: usage added once for each block, prices without the cached counters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.scopes import Class, Module, Scope, last_name
from contextkit.lint.source.trace import Step

CODES = frozenset({"CKA02", "CKA03"})
_CACHED = re.compile(rb"cach\w*", re.IGNORECASE)
_BLOCKS = re.compile(r"\b(?:content|tool_calls|choices|blocks|parts|candidates)\b")
_RESPONSES = (
    "response",
    "resp",
    "reply",
    "completion",
    "result",
    "message",
    "msg",
    "answer",
    "output",
    "chunk",
    "event",
    "res",
    "r",
)


def find(analysis: Analysis) -> Iterator[Hit]:
    """Find counters that are added too often, and money computed without the tokens of the cache."""
    module = analysis.module
    if b"tokens" not in module.text and b"Tokens" not in module.text:
        return
    for scope in module.scopes:
        yield from _counted_by_block(analysis, scope)
        yield from _counted_by_line(analysis, scope)
        yield from _counted_twice(analysis, scope)
        yield from _priced_without_cache(analysis, scope)


def _counter(node: ast.AST) -> str:
    """The name of a counter that an expression reads: of an attribute, a key, `get("…")` or a variable."""
    if isinstance(node, ast.Attribute | ast.Name):
        return last_name(node)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    if isinstance(node, ast.Call) and last_name(node.func) in ("get", "getattr"):
        texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        return texts[0] if texts else ""
    return ""


def _counted_by_block(analysis: Analysis, scope: Scope) -> Iterator[Hit]:
    """Find usage of one response that is added in a loop over the parts of the response."""
    names = analysis.knowledge.words("usage", "input") | analysis.knowledge.words("usage", "output")
    for name, bindings in scope.bindings.items():
        for binding in bindings:
            loops = [one for one in binding.loops() if isinstance(one, ast.For | ast.AsyncFor)]
            if binding.operation != "+=" or not loops or binding.value is None:
                continue
            loop = loops[0]
            counters = [one for one in ast.walk(binding.value) if _counter(one) in names and _is_read_of_usage(one)]
            items = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
            if not counters or not _BLOCKS.search(ast.unparse(loop.iter)):
                continue
            used = {one.id for one in ast.walk(counters[0]) if isinstance(one, ast.Name)}
            is_of_loop = any(
                loop in one.loops() and one.kind != "add" for key in used for one in scope.bindings.get(key, ())
            )
            if used and used.isdisjoint(items) and not is_of_loop and name not in used:
                text = text_of(counters[0], scope.module)
                message = f"`{text}` is added once for each part of one response: the response is counted several times"
                yield Hit("CKA02", message, binding.node, scope.module, sink=binding.node)


def _counted_by_line(analysis: Analysis, scope: Scope) -> Iterator[Hit]:
    """Find sums over the lines of Claude Code's transcripts, which repeat the usage of a response with each of its blocks."""
    text = scope.module.text
    if b"jsonl" not in text or b".claude" not in text or scope.is_module:
        return
    counters = analysis.knowledge.words("usage", "output") | analysis.knowledge.words("usage", "cached")
    source = ast.unparse(scope.node)
    if re.search(r"requestId|request_id|['\"]id['\"]|message_id|\bseen|dedup|unique", source) or "usage" not in source:
        return
    sums = [
        one.value for bindings in scope.bindings.values() for one in bindings if one.operation == "+=" and one.loops()
    ]
    sums += [one.args[0] for one, _ in scope.calls if last_name(one.func) == "sum" and one.args]
    for value in sums:
        found = next((one for one in ast.walk(value or ast.Constant(0)) if _counter(one) in counters), None)
        if found is not None and re.search(r"['\"]message['\"].*['\"]usage['\"]", ast.unparse(found)):
            text_at = text_of(found, scope.module)
            message = f"`{text_at}` is added for each line of a transcript, and a response has one line for each of its blocks"
            yield Hit("CKA02", message, found, scope.module, sink=scope.node)
            return


def _is_read_of_usage(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Subscript | ast.Call)


def _counted_twice(analysis: Analysis, scope: Scope) -> Iterator[Hit]:
    """Find cached tokens that are added to a counter which holds them: `prompt_tokens + cached_tokens`."""
    whole = analysis.knowledge.words("usage", "whole")
    cached = analysis.knowledge.words("usage", "cached") - {"cache_creation_input_tokens", "cache_read_input_tokens"}
    for node, _ in scope.expressions:
        for one in ast.walk(node):
            if not isinstance(one, ast.BinOp) or not isinstance(one.op, ast.Add):
                continue
            terms = {_counter(term): term for term in _terms(one)}
            if whole & terms.keys() and cached & terms.keys():
                message = (
                    f"`{text_of(one, scope.module)}` counts cached tokens twice: the first counter holds them already"
                )
                yield Hit("CKA02", message, one, scope.module, sink=one)
                break


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    elif isinstance(node, ast.BoolOp):
        yield from _terms(node.values[0])
    else:
        yield node


# Prices
# ----------------------------------------------------------------------------------------------------------------------


def _priced_without_cache(analysis: Analysis, scope: Scope) -> Iterator[Hit]:
    """Find a product of input tokens that were billed and a price where nothing around reads what was cached."""
    if scope.is_module or _knows_cache(analysis, scope) or not _is_of_a_caching_model(analysis, scope):
        return
    for node, at in scope.expressions:
        for one in ast.walk(node):
            factors = [one.left, one.right] if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult) else []
            for counted, price in zip(factors, reversed(factors), strict=True):
                counter = _billed(analysis, Step(counted, at))
                if counter and analysis.knowledge.matches("price", ast.unparse(price)):
                    what = "without the cached counters: tokens read from a cache cost a tenth to a half, written ones more"
                    message = f"`{text_of(one, scope.module)}` prices `{counter}` {what}"
                    yield Hit("CKA03", message, one, scope.module, sink=scope.node)
                    return


def _billed(analysis: Analysis, first: Step) -> str:
    """The counter of input tokens that a factor comes from, where it is seen to be read from a bill; empty otherwise."""
    names = analysis.knowledge.words("usage", "input")
    for step in analysis.tracer.walk(first):
        if (
            _counter(step.node) in names
            and not isinstance(step.node, ast.Name)
            and "usage" in ast.unparse(step.node).lower()
        ):
            return _counter(step.node)
        bound = step.node.value if isinstance(step.node, ast.Attribute | ast.Subscript) else None
        if _counter(step.node) in names and bound is not None:
            values = [one.value for one in analysis.program.bindings_of(bound, step.at) if one.value is not None]
            if any("usage" in ast.unparse(value).lower() for value in values):
                return _counter(step.node)
    return ""


def _knows_cache(analysis: Analysis, scope: Scope) -> bool:
    """Return whether cached tokens are named in the file, in a base or subclass, or where the function is called."""
    around: list[Module] = [scope.module]
    if scope.cls is not None:
        around += [cls.module for cls in analysis.program.family(scope.cls)]
    around += [site.at.scope.module for site, _ in analysis.program.callers(scope)]
    return any(_names_cached_tokens(module.text) for module in around)


def _names_cached_tokens(text: bytes) -> bool:
    return any(
        re.search(
            rb"token|read|writ|creat|input|hit|price|cost",
            text[max(0, one.start() - 30) : one.end() + 30],
            re.IGNORECASE,
        )
        and one[0].lower() not in (b"cache", b"lru_cache")
        for one in _CACHED.finditer(text)
    )


def _is_of_a_caching_model(analysis: Analysis, scope: Scope) -> bool:
    """Return whether the priced models are of services that report cached tokens."""
    module = scope.module
    row = analysis.knowledge.sections["uncached_usage"][0]
    imported = {name.partition(".")[0] for name in module.imports.values()}
    if imported & set(row["packages"]) or analysis.knowledge.matches(
        "uncached_usage", f"{_class_name(scope.cls)}{scope.name}"
    ):
        return False
    if re.search(rb"gpt-[4-9]|gemini-[2-9]|deepseek|openai|litellm", module.text):
        return True
    is_marked = bool(analysis.program.marked[module.name.partition(".")[0]])
    return is_marked and re.search(rb"claude|anthropic|bedrock", module.text) is not None


def _class_name(cls: Class | None) -> str:
    return f"{cls.name}." if cls is not None else ""
