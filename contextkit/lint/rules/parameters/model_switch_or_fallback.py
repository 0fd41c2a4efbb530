"""model-switch-or-fallback: another model answers in the middle of a conversation, and no cache follows it there.

## What it does
Finds sessions in which the model changes from one call to the next: a router that picks by difficulty, a fallback after an error, a
cheap model for one step.

## Why it costs you
Every provider keeps its entries per model, and some per account behind a fallback. The whole prompt is written again for the new model,
and once more on the way back if its entry has expired meanwhile. With 100,000 tokens of history at Claude's usual ratio (a write 1.25
times input, a read a tenth or a twentieth) one detour costs as much as twelve to twenty-five turns that stay. On newer Claude models
thinking is bound to its model family, so the detour may lose reasoning or fail as well.

## Example
    for model in (MAIN, FALLBACK):
        with suppress(anthropic.APIStatusError):
            return client.messages.create(model=model, max_tokens=4096, system=SYSTEM, messages=history)

## Use instead
Retry on the same model first; give other models tasks of their own, with a short prompt. In contextkit a conversation has one provider
and the parts for others are separate contexts:

    small = Context(AnthropicMessages("claude-haiku-5-5", max_tokens=500), system="Give the text a title.")
    small.user(text)

## Detected by
- source: a loop over models, or a handler of errors, that asks again with the same history; a condition on the turn, or chance,
  that decides the model.
- requests: the model differs from that of the call before; a dated name, a region or a vendor in front does not
  count.
- guard: the same, before it is sent, with what the rewrite will cost.
- provider: `model_changed`, from Anthropic and from OpenAI.

## References
- https://github.com/NousResearch/hermes-agent/issues/58747
- https://github.com/openclaw/openclaw/issues/115272
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import as_keywords, calls_in, is_model_call, keyword, last_name, statements
from contextkit.lint.rules.chosen import chosen
from contextkit.lint.rules.marking import is_single_shot
from contextkit.lint.rules.settings import Differs, had_cached, is_other_model, model_of
from contextkit.lint.source.rule import Hit, Pattern, View

_MODELS = re.compile(r"(?:^|_)(?:models?|fallbacks?|fallback_models?|model_list|candidates)$", re.IGNORECASE)

_INVOKES = frozenset({"invoke", "ainvoke"})
_FALLBACKS = ("fallback", "backup", "secondary")
_FALLBACK = re.compile(rf"(?:^|_)(?:{'|'.join(_FALLBACKS)})")


def _switched(step: Step) -> Evidence | None:
    if not is_other_model(step) or not had_cached(step, "tools"):
        return None
    was, now = model_of(step.before), model_of(step.after)
    return Differs("model", was, now).evidence(f"{now} is asked after {was}, and shares no cache with it")


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


HAZARD = Hazard(
    "CKP01",
    "model-switch-or-fallback",
    "A",
    "error",
    source=(
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
    ),
    requests=(RequestRule("step", _switched),),
    confirmed_by=("model_changed",),
)
