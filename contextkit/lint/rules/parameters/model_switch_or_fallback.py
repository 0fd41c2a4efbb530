"""Source rules of CKP01 model-switch-or-fallback."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import as_keywords, calls_in, is_model_call, keyword, last_name, statements
from contextkit.lint.rules.chosen import chosen
from contextkit.lint.rules.marking import is_single_shot
from contextkit.lint.source.rule import Hit, Pattern, View

_MODELS = re.compile(r"(?:^|_)(?:models?|fallbacks?|fallback_models?|model_list|candidates)$", re.IGNORECASE)

_INVOKES = frozenset({"invoke", "ainvoke"})

_FALLBACKS = ("fallback", "backup", "secondary")

_FALLBACK = re.compile(rf"(?:^|_)(?:{'|'.join(_FALLBACKS)})")


def _asks_history(call: ast.Call, view: View) -> bool:
    """Whether a call gives a model the running history."""
    said = keyword(call, "messages", "input", "contents", "history")
    return said is not None and (is_model_call(call, view) or view.is_history(said)) and not is_single_shot(said, view)


def _by_chance(call: ast.Call, view: View) -> Iterator[Hit]:
    """`create(model=random.choice(MODELS), messages=history)`."""
    model = keyword(call, "model")
    is_object = last_name(call.func)[:1].isupper()
    if model is not None and not is_object and "choice" in view.kinds(model) and _asks_history(call, view):
        yield Hit(model, "chance decides which model is asked, and each has a cache of its own")


def _loop(node: ast.For | ast.AsyncFor, view: View) -> Iterator[Hit]:
    """`for model in (MAIN, FALLBACK): try: return create(model=model, messages=history)`."""
    name = node.target.id if isinstance(node.target, ast.Name) else ""
    is_list = isinstance(node.iter, ast.Tuple | ast.List) or _MODELS.search(last_name(node.iter))
    if not name or not is_list or not any(map(_catches, statements(node.body))):
        return
    for call in calls_in(node.body):
        given = keyword(call, "model")
        if isinstance(given, ast.Name) and given.id == name and _asks_history(call, view):
            yield Hit(given, f"after an error `{name}` is another model, and the whole history is written again for it")


def _catches(node: ast.stmt) -> bool:
    """Whether it is a `try`, or a `with suppress(…)`."""
    if not isinstance(node, ast.With | ast.AsyncWith):
        return isinstance(node, ast.Try)
    return any(
        isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) == "suppress"
        for item in node.items
    )


def _handler(node: ast.Try, view: View) -> Iterator[Hit]:
    """`except RateLimitError: create(model=FALLBACK, messages=history)`."""
    asked = [keyword(call, "model") for call in calls_in(node.body) if _asks_history(call, view)]
    tried = {ast.unparse(model) for model in asked if model is not None}
    for handler in node.handlers if tried else ():
        for call in calls_in(handler.body):
            model = keyword(call, "model")
            if model is not None and ast.unparse(model) not in tried and _asks_history(call, view):
                yield Hit(model, "after an error another model is asked, and the whole history is written again for it")


def _other_chat(node: ast.Try, view: View) -> Iterator[Hit]:
    """`except Exception: fallback.invoke(messages)` and `ChatOpenAI(model=SMALL).invoke(messages)` of LangChain."""
    if not any(_invokes(call, view) for call in calls_in(node.body)):
        return
    for call in calls_in([one for handler in node.handlers for one in handler.body]):
        asked = call.func.value if _invokes(call, view) and isinstance(call.func, ast.Attribute) else None
        is_made = isinstance(asked, ast.Call) and keyword(asked, "model") is not None
        if asked is not None and (is_made or _FALLBACK.search(last_name(asked))):
            yield Hit(call, "after an error another model is asked, and the whole history is written again for it")


def _invokes(call: ast.Call, view: View) -> bool:
    """`llm.invoke(messages)`."""
    return last_name(call.func) in _INVOKES and bool(call.args) and view.is_history(call.args[0])


SOURCE = (
    Pattern((ast.For, ast.AsyncFor), _loop, as_keywords("model"), is_near=True),
    Pattern(
        (ast.Try,),
        _other_chat,
        tuple(f".{name}(" for name in sorted(_INVOKES)),
        is_near=True,
        also=((*_FALLBACKS, "model="),),
    ),
    Pattern((ast.Try,), _handler, as_keywords("model"), is_near=True),
    *chosen(("model",), "{source} decides which model is asked, and each has a cache of its own"),
    Pattern((ast.Call,), _by_chance, as_keywords("model"), is_near=True, names=("model",)),
)
