"""What an inference engine is sent so that a model keeps to a tool mask: one row for each engine and kind of mask, the
cheapest safe row first, its source beside it.

Two values of `tool_choice` are left out: SGLang renders the prompt without tools under `none`, and with one tool under a
named choice. A chat template that prints `tool_choice` is the exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.errors import UsageError
from contextkit.providers.call_formats import (
    CallFormat,
    call_grammar,
    structural_tag,
    words_grammar,
    words_only,
)
from contextkit.providers.reply_json import plain
from contextkit.tools.mask import Mask
from contextkit.tools.tool import Tool

Fields = Callable[[Mask, Sequence[Tool], CallFormat | None], dict[str, Any]]
"""(mask, tools allowed, format) → body fields."""


GRAMMARS = ("response_format", "structured_outputs", "regex", "ebnf", "grammar", "json_schema")
"""Fields that say the form of a reply: where the caller sends one, a structural tag would take its place."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What decodes the replies of an endpoint."""

    engine: str
    """One of `ENGINES`."""
    form: CallFormat | None
    """How its model writes a call; None where nobody said."""
    is_formed: bool = False
    """Whether the caller gives replies a form of its own."""


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One way to say a mask to an engine."""

    mechanism: str
    """As `request.mask.mechanism` says it."""
    engines: tuple[str, ...]
    """Engines that take it."""
    holds: Callable[[Mask], bool]
    """Whether it says this mask."""
    needs: str
    """The same in words."""
    fields: Fields
    """What is sent."""
    is_enforced: bool
    """Whether the engine keeps the model from any other call."""
    source: str
    """Where it is documented."""
    needs_format: bool = False
    """Whether it is said in the model's call format."""
    is_text: bool = False
    """Whether the engine parses no call: they are read from the reply's text (`with_calls`)."""

    @property
    def cost(self) -> str:
        """The cost of a change into it."""
        return (
            "0 tokens: it holds while the reply is decoded" if self.is_enforced else "at most 60 tokens, appended once"
        )


_VLLM = "vLLM 0.33 vllm/entrypoints/openai/chat_completion/protocol.py"


_SGLANG = "SGLang 0.5.23 sglang/srt/entrypoints/openai/protocol.py"


_PROMPT = "SGLang 0.5.23 sglang/srt/entrypoints/openai/serving_chat.py"


_LLAMA = "llama.cpp tools/server/README.md"


_LLAMA_GRAMMAR = "llama.cpp b11549 tools/server/server-common.cpp, grammars/README.md"


_GRAMMAR = ("vllm", "sglang")


ENGINES = (*_GRAMMAR, "llamacpp")


def _named(mask: Mask, tools: Sequence[Tool], form: CallFormat | None) -> dict[str, Any]:
    return {"tool_choice": {"type": "function", "function": {"name": mask.allowed[0]}}}


def _tagged(mask: Mask, tools: Sequence[Tool], form: CallFormat | None) -> dict[str, Any]:
    return {"response_format": structural_tag(form, tools, require=mask.mode == "specified")} if form else {}


def _wordy(mask: Mask, tools: Sequence[Tool], form: CallFormat | None) -> dict[str, Any]:
    return {"response_format": words_only(form)} if form else {}


def _silent(mask: Mask, tools: Sequence[Tool], form: CallFormat | None) -> dict[str, Any]:
    """vLLM parses no call under `none`, and lets the model write one as text: the grammar does not."""
    return {"tool_choice": "none", **_wordy(mask, tools, form)}


def _listed(mask: Mask, tools: Sequence[Tool], form: CallFormat | None) -> dict[str, Any]:
    """llama.cpp takes a grammar beside tools only under `none`, which leaves the tools in the prompt."""
    if form is None:
        return {}
    return {"tool_choice": "none", "grammar": call_grammar(form, mask.allowed, require=mask.mode == "specified")}


def _wordless(mask: Mask, tools: Sequence[Tool], form: CallFormat | None) -> dict[str, Any]:
    """llama.cpp parses no call under `none`, and lets the model write one as text: the grammar does not."""
    return {"tool_choice": "none", **({"grammar": words_grammar(form)} if form else {})}


ROWS: tuple[EngineRow, ...] = (
    EngineRow(
        "auto",
        ENGINES,
        lambda mask: mask.mode == "auto" and mask.is_all,
        "every tool allowed",
        lambda *given: {},
        True,
        _VLLM,
    ),
    EngineRow(
        "none",
        ("vllm",),
        lambda mask: mask.mode == "none",
        "no tool allowed, and no call can begin",
        _silent,
        True,
        f"{_VLLM}: not with --exclude-tools-when-tool-choice-none, which takes the tools out of the prompt",
    ),
    EngineRow(
        "structural_tag",
        ("sglang",),
        lambda mask: mask.mode == "none",
        "no tool allowed: no call can begin",
        _wordy,
        True,
        f"{_PROMPT}: tool_choice none takes the tools out of the prompt",
        True,
    ),
    EngineRow(
        "none",
        ("llamacpp",),
        lambda mask: mask.mode == "none",
        "no tool allowed, and no call can begin",
        _wordless,
        True,
        f"{_LLAMA}; {_LLAMA_GRAMMAR}",
    ),
    EngineRow(
        "required",
        ENGINES,
        lambda mask: mask.mode == "required",
        "every tool allowed, a call required",
        lambda *given: {"tool_choice": "required"},
        True,
        _VLLM,
    ),
    EngineRow(
        "named",
        ("vllm",),
        lambda mask: mask.mode == "specified" and len(mask.allowed) == 1,
        "one tool, required",
        _named,
        True,
        f"{_VLLM}; not for {_PROMPT}, which takes the other tools out of the prompt",
    ),
    EngineRow(
        "structural_tag",
        _GRAMMAR,
        lambda mask: mask.mode in ("auto", "specified"),
        "a subset, with or without a call required",
        _tagged,
        True,
        f"{_VLLM}; {_SGLANG}: not beside tool_choice required or named",
        True,
    ),
    EngineRow(
        "grammar",
        ("llamacpp",),
        lambda mask: mask.mode in ("auto", "specified"),
        "a subset, with or without a call required, by a model that does not think first; JSON arguments",
        _listed,
        True,
        f"{_LLAMA_GRAMMAR}: beside tools only under tool_choice none, so contextkit parses the calls",
        True,
        True,
    ),
    EngineRow(
        "reminder", ENGINES, lambda mask: True, "everything else", lambda *given: {}, False, "a text of the user's turn"
    ),
)
"""How an engine is told a mask, the first row that holds."""


def engine_row(engine: str, mask: Mask) -> EngineRow:
    """Return how `engine` is given a mask. Raises `UsageError` for an engine there is not.

    >>> [engine_row(engine, Mask("p", ("a", "b"), "auto", False, False)).mechanism for engine in ENGINES]
    ['structural_tag', 'structural_tag', 'grammar']
    """
    if engine not in ENGINES:
        raise UsageError(f"no engine {engine!r}: use one of {', '.join(ENGINES)}")
    return next(row for row in ROWS if engine in row.engines and row.holds(mask))


def enforced_row(decoding: Decoding, mask: Mask, params: Mapping[str, Json]) -> EngineRow | None:
    """The row by which the engine itself keeps a model to a mask; None where it cannot, or has no format to say it in.

    `params`: fields of the request. What is read from the text of a reply takes the place of the caller's
    `tool_choice`, and a grammar of calls leaves no room for a thought.
    """
    row, form = engine_row(decoding.engine, mask), decoding.form
    is_sayable = not row.needs_format or (form is not None and not decoding.is_formed)
    if row.is_text and form is not None:
        template = params.get("chat_template_kwargs")
        thinks = template.get("enable_thinking", form.thinks) if isinstance(template, Mapping) else form.thinks
        is_free = params.get("tool_choice") in (None, "auto")
        is_sayable = is_sayable and form.style == "json" and not thinks and is_free
    return row if row.is_enforced and is_sayable else None


def engine_fields(engine: str, mask: Mask, tools: Sequence[Tool], form: CallFormat) -> dict[str, Any]:
    """Body fields that say a mask to an engine; `tools` are those it allows."""
    return engine_row(engine, mask).fields(mask, tools, form)


def with_calls(form: CallFormat, response: Any, after: int) -> Mapping[str, Json]:
    """A chat completion whose text was parsed for calls, as the engine's own parser would have given it.

    `after` is the entry it answers. What has calls already, or nothing of a call in its text, stays.
    """
    answer = plain(response)
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return answer
    first = choices[0]
    message = first.get("message")
    if not isinstance(message, Mapping) or message.get("tool_calls") or not isinstance(message.get("content"), str):
        return answer
    words, found = form.split(message["content"])
    if not found:
        return answer
    calls = [
        {
            # nine letters: Mistral's templates take no other ids
            "id": sha256(canonical([after, answer.get("id"), message["content"], index])).hexdigest()[:9],
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for index, (name, arguments) in enumerate(found)
    ]
    made = {**message, "content": words.strip(), "tool_calls": calls}
    return {**answer, "choices": [{**first, "message": made}, *choices[1:]]}
