"""Source rules of CKA03 cached-field-dropped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from contextkit.facts.load import built_in_table
from contextkit.lint.rules.callsites import in_any_case, is_nothing, last_name, text_of
from contextkit.lint.rules.marking import AnyFunction, resolved, says
from contextkit.lint.rules.syntax import model_calls
from contextkit.lint.rules.usages import field, holder, root
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_PAIRS = {
    "input_tokens": "output_tokens",
    "prompt_tokens": "completion_tokens",
    "prompt_token_count": "candidates_token_count",
    "inputTokens": "outputTokens",
}
"""How input and output are called: by Anthropic and OpenAI's responses, by OpenAI's chat, by Google, by Bedrock."""

_KEEPING = ("cache", *built_in_table("fields.toml")["usage"]["input_details"])
"""Words of a function that takes the cached counters over as well."""

_ASKED = re.compile(
    r"prompt_cache_\w+|cache_control|cache_?point|cache_key|cache_salt|lru_cache|cached_property|functools\.cache"
)
"""What a request is given for the cache, and what says nothing of a prompt's: no counters."""

_OF_OTHERS = ("embed", "rerank", "transcri", "speech", "audio")
"""Words of a function that asks what has no prompt cache: in its name, or in what it calls."""

_BEDROCK = "inputTokens"

_CACHELESS = re.compile(r"TTS|Speech|Classif|Embed|Rerank|Image|Audio|Transcri|Extract|Event$")
"""Names of a usage whose calls have no prompt cache, and of what is told to a dashboard."""

_WITHOUT = re.compile(rb"(?:^|\n)\s*(?:from|import) (?:huggingface_hub|ollama|sambanova|ai21|writerai|cohere)\b")
"""Clients of services that count no cached tokens."""

_EARLY = (b"openai.ChatCompletion.", b"openai.Completion.", b"openai.ChatCompletion\n", b"openai.Completion\n")
"""OpenAI's client from before there were any."""

_KEYED = re.compile(rb"(?:^|\n)\s*(?:from|import) mistralai\b")
"""Clients of services that cache where a key is given."""

_EXPLICIT = re.compile(rb"(?:^|\n)\s*(?:from|import) anthropic\b(?!\.types)|client\(\s*[\"']bedrock-runtime")
"""Clients of services that cache what is marked and nothing else: where a file marks nothing, there is nothing to
count."""

_IMPLICIT = re.compile(rb"(?:^|\n)\s*(?:from|import) (?:openai|litellm)\b(?!\.types)")

_MARKED = (b"cache_control", b"cachePoint", b"cache_point", b"cache_type")

_ANSWERS = frozenset(
    {"response", "resp", "reply", "completion", "result", "chunk", "event", "message", "res", "raw_response", "r"}
)
"""Names a model's answer is handed on under."""

_CONVERTED = (".tokens", ".models_usage")
"""Ends of what a library made of a usage, that has no cached counters to take over."""

_OF_ANOTHER = re.compile(r"LLMResult|Embed|Image|Transcri|Speech")
"""Types of an answer without a prompt cache, and of LangChain's, which has no usage: what it holds of one, a class of
its own has made."""

_TELLS = re.compile(r"observation|span|event|log|trace|attribute|telemetry|metric|record|print|dumps", re.IGNORECASE)

_TOLD = re.compile(r"span|attr|run_tree|event_data|(?:^|[._])(?:log|trace)s?(?:$|[._\[])", re.IGNORECASE)
"""Names of what a log or a dashboard is told in."""

_CHOICES = re.compile(rb"\.choices\[0\]\.")
"""How an answer that is an object is read."""

_METHODS = frozenset({"create", "completion", "acompletion", "stream"})

_HOPS = 4

_ASKING = frozenset({"getattr", "hasattr", "isinstance", "bool"})

_DUMPING = frozenset({"model_dump", "dict", "to_dict", "model_dump_json"})

_CLOSING: dict[type, str] = {ast.Call: ")", ast.Subscript: "]"}
"""Type of an expression → how it ends as it is written."""

_MESSAGE = "input and output are taken over from `{}`, its cached counters are not: they will read as 0"


def _mapped(node: ast.Dict | ast.Call, view: View) -> Iterator[Hit]:
    """A mapping, or a value built by keywords, that takes input and output over from a usage and nothing else of it."""
    values = node.values if isinstance(node, ast.Dict) else [given.value for given in node.keywords if given.arg]
    source = _taken_from([resolved(value, view) or value for value in values])
    is_shown = isinstance(node, ast.Dict) and any("." in text_of(key) for key in node.keys)
    name = last_name(getattr(node, "func", node))
    if (
        source
        and not is_shown
        and not _CACHELESS.search(name)
        and not name.startswith("trace_")
        and _is_lost(source, values, view)
    ):
        yield Hit(node, _MESSAGE.format(source))


def _one_by_one(node: ast.Assign | ast.AugAssign, view: View) -> Iterator[Hit]:
    """`metrics.input_tokens = usage.prompt_tokens`, and the same for the output; `+=` adds them up."""
    function, name = view.function(), field(node.value)
    if function is None or name not in _PAIRS or not isinstance(_target(node), ast.Attribute | ast.Subscript):
        return
    into, source = holder(_target(node)), holder(node.value)
    alike = [one for one in view.nodes(function, type(node)) if field(one.value) in (name, _PAIRS[name], "cost")]
    others = [one for one in alike if holder(_target(one)) == into and holder(one.value) == source]
    values = [one.value for one in others]
    is_first = next(one for one in others if field(one.value) == name) is node
    if is_first and _PAIRS[name] in map(field, values) and not _TOLD.search(into) and _is_lost(source, values, view):
        yield Hit(node, _MESSAGE.format(source))


def _target(node: ast.Assign | ast.AugAssign) -> ast.expr:
    return node.target if isinstance(node, ast.AugAssign) else node.targets[0]


def _taken_from(values: list[ast.expr]) -> str:
    """What both the input and the output are taken from, as written; empty where they are not."""
    taken = {field(value): holder(value) for value in values}
    return next(
        (taken[name] for name, other in _PAIRS.items() if taken.get(name) and taken[name] == taken.get(other)), ""
    )


def _is_lost(source: str, values: list[ast.expr], view: View) -> bool:
    """Whether a usage is that of a model's answer whose service caches, and nothing else of it is taken over."""
    function = view.function()
    if (
        "usage" not in source.lower()
        or source.endswith(_CONVERTED)
        or function is None
        or _is_converted(values)
        or _is_shown(view)
    ):
        return False
    if any(field(resolved(value, view) or value) == _BEDROCK for value in values) and not says(view, *_MARKED):
        return False
    answer = _answer_of(source, function, view)
    if not answer or _is_never_read(answer, function, view):
        return False
    is_handed_on = any(
        isinstance(value, ast.Name) and root(ast.parse(source, mode="eval").body) == value.id for value in values
    )
    return not is_handed_on and not _keeps_more(function, source, view) and not _has_no_cache(view.source)


def _is_converted(values: list[ast.expr]) -> bool:
    """Whether what it is taken from was made by code of the same project: no provider's answer says what it cost."""
    return any(field(value) == "cost" for value in values)


@lru_cache(maxsize=1)
def _has_no_cache(source: bytes) -> bool:
    """Whether the service a file calls has no cached tokens to tell of."""
    if _WITHOUT.search(source) or any(word in source for word in _EARLY):
        return True
    if _KEYED.search(source) and b"prompt_cache_key" not in source:
        return True
    is_explicit = _EXPLICIT.search(source) is not None and _IMPLICIT.search(source) is None
    return is_explicit and not any(word in source for word in _MARKED)


def _answer_of(source: str, function: AnyFunction, view: View) -> str:
    """The name of the model's answer a usage is that of: of a call of one in this function, or of what it was handed
    under such a name.
    """
    name = root(ast.parse(source, mode="eval").body)
    stored = [node for node in view.nodes(function, ast.Assign) if isinstance(node, ast.Assign)]
    for _ in range(_HOPS):
        if _is_of_another(name, function):
            return ""
        made = [node.value for node in stored if last_name(node.targets[0]) == name and not is_nothing(node.value)]
        if not made:
            return name if name in _ANSWERS or _is_given_one(name, function, view) else ""
        if any(model_calls(value, view) or _is_handed(value) for value in made):
            return name
        following = root(made[0])
        is_opened = isinstance(made[0], ast.Call) and last_name(made[0].func) not in ("get", "getattr")
        if not following or following == name or is_opened:
            return ""
        name = following
    return ""


def _is_of_another(name: str, function: AnyFunction) -> bool:
    """Whether the function says that it takes an answer that has no prompt cache to tell of."""
    given = (one.annotation for one in function.args.args if one.arg == name and one.annotation is not None)
    return any(_OF_ANOTHER.search(ast.unparse(annotation)) for annotation in given)


def _is_given_one(name: str, function: AnyFunction, view: View) -> bool:
    """Whether it is a parameter that the file gives an answer's usage: `self._metrics(response.usage)`."""
    given = next(
        (
            one
            for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
            if one.arg == name
        ),
        None,
    )
    is_usage = given is not None and not (given.annotation and _CACHELESS.search(ast.unparse(given.annotation)))
    return is_usage and re.search(rb"\b%s\([^()]*\.usage\b" % function.name.encode(), view.source) is not None


def _is_never_read(answer: str, function: ast.AST, view: View) -> bool:
    """Whether a function gives up on every answer but plain dicts, where the file's answers are objects.

    Or reads a stream as one.
    """
    gates = (
        node.test
        for node in view.nodes(function, ast.If)
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return)
    )
    if _CHOICES.search(view.source) and f"not isinstance({answer}, dict)" in map(ast.unparse, gates):
        return True
    handlers = (
        one for above in view.parents() if isinstance(above, ast.Try) for one in above.handlers if _is_missing(one)
    )
    return any(isinstance(part, ast.For) and last_name(part.iter) == answer for one in handlers for part in one.body)


def _is_missing(handler: ast.ExceptHandler) -> bool:
    return handler.type is not None and last_name(handler.type) == "AttributeError"


def _is_handed(value: ast.expr) -> bool:
    """`retry(client.chat.completions.create, …)`."""
    parts = (part for part in walk(value) if isinstance(part, ast.Attribute))
    return any(
        part.attr in _METHODS and last_name(part.value) in ("completions", "messages", "responses", "litellm")
        for part in parts
    )


def _is_shown(view: View) -> bool:
    """Whether it is only told to a log or a dashboard."""
    stored = (target for above in view.parents() if isinstance(above, ast.Assign) for target in above.targets)
    return any(isinstance(above, ast.Call) and _TELLS.search(last_name(above.func)) for above in view.parents()) or any(
        _TOLD.search(ast.unparse(target)) for target in stored
    )


def _keeps_more(function: AnyFunction, source: str, view: View) -> bool:
    """Whether the function looks at cached counters as well, or hands the usage on whole."""
    start, end = view.bytes_at(function)
    written = view.source[start:end].lower()
    if _says_one(written, _KEEPING) and any(word in _ASKED.sub("", ast.unparse(function).lower()) for word in _KEEPING):
        return True
    if _says_one(written, _OF_OTHERS) and _asks_another(function):
        return True
    given = (value for part in walk(function) for value in _handed_on(part) if value is not None)
    return any(_ends_alike(value, source) and ast.unparse(value) == source for value in given)


def _ends_alike(value: ast.expr, source: str) -> bool:
    """Whether an expression ends as what is written in the file: only such a one is worth being written out."""
    end = _CLOSING.get(type(value)) or last_name(value)
    return bool(end) and source.endswith(end)


def _says_one(written: bytes, words: Iterable[str]) -> bool:
    """Whether one is written, be it in a comment: only then it is worth more than a look."""
    return any(word.encode() in written for word in words)


def _asks_another(function: AnyFunction) -> bool:
    """Whether its name, or what it calls, is of a service without a prompt cache.

    What it reads of an answer says nothing.
    """
    calls = (part.func for part in walk(function) if isinstance(part, ast.Call) and last_name(part.func) != "get")
    return any(word in said.lower() for said in (function.name, *map(ast.unparse, calls)) for word in _OF_OTHERS)


def _handed_on(node: ast.AST) -> Iterable[ast.expr | None]:
    """Values that leave an expression whole: arguments, entries of a dict, what is returned, what is dumped."""
    if isinstance(node, ast.Call) and last_name(node.func) not in _ASKING:
        dumped = [node.func.value] if isinstance(node.func, ast.Attribute) and node.func.attr in _DUMPING else []
        return [*node.args, *(given.value for given in node.keywords), *dumped]
    if isinstance(node, ast.Dict):
        return node.values
    is_kept = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    return [node.value] if isinstance(node, ast.Return) or (is_kept and isinstance(node, ast.Assign)) else []


SOURCE = (
    Pattern((ast.Dict, ast.Call), _mapped, tuple(_PAIRS), is_near=True, also=(tuple(_PAIRS.values()),)),
    Pattern((ast.Assign, ast.AugAssign), _one_by_one, tuple(_PAIRS), is_near=True, also=(in_any_case("usage"),)),
)
