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
from contextkit.providers.call_formats import CallFormat, prefill, structural_tag, words_only
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
        "no tool allowed",
        lambda *given: {"tool_choice": "none"},
        True,
        _LLAMA,
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
        "prefill",
        ("llamacpp",),
        lambda mask: mask.mode == "specified",
        "a subset, required, by a model that does not think first: the call's beginning is written for it, since a grammar "
        "and tools exclude each other; JSON arguments",
        lambda *given: {},
        False,
        f"{_LLAMA}; tools/server/server-common.cpp: not with thinking",
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
    ['structural_tag', 'structural_tag', 'reminder']
    """
    if engine not in ENGINES:
        raise UsageError(f"no engine {engine!r}: use one of {', '.join(ENGINES)}")
    return next(row for row in ROWS if engine in row.engines and row.holds(mask))


def enforced_row(decoding: Decoding, mask: Mask) -> EngineRow | None:
    """The row by which the engine itself keeps a model to a mask; None where it cannot, or has no format to say it in."""
    row = engine_row(decoding.engine, mask)
    is_sayable = not row.needs_format or (decoding.form is not None and not decoding.is_formed)
    return row if row.is_enforced and is_sayable else None


def engine_fields(engine: str, mask: Mask, tools: Sequence[Tool], form: CallFormat) -> dict[str, Any]:
    """Body fields that say a mask to an engine; `tools` are those it allows."""
    return engine_row(engine, mask).fields(mask, tools, form)


@dataclass(frozen=True, slots=True)
class Begun:
    """A reply that was begun for the model: the beginning of a call, which the reply comes without."""

    text: str
    """The beginning."""
    form: CallFormat
    """How the model goes on."""

    @property
    def message(self) -> Json:
        """What is sent behind the conversation."""
        return {"role": "assistant", "content": self.text}

    def completed(self, response: Any, after: int) -> Mapping[str, Json]:
        """A chat completion in which the call is whole, as the engine's parser would have given it.

        `after` is the entry it answers. What has calls and no text was parsed with its beginning, and stays.
        """
        answer = plain(response)
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
            return answer
        first = choices[0]
        if not isinstance(first.get("message"), Mapping):
            return answer
        message = first["message"]
        said = message.get("content", "")
        if not isinstance(said, str) or (not said and message.get("tool_calls")):
            return answer
        text = said if said.startswith(self.text) else self.text + said
        found, made = self.form.read(text), {**message, "content": text}
        if found is not None:
            name, arguments, made["content"] = found[0], found[1], found[2].strip()
            # nine letters: Mistral's templates take no other ids
            call_id = sha256(canonical([after, answer.get("id"), text])).hexdigest()[:9]
            call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            made["tool_calls"] = [call, *(message.get("tool_calls") or ())]
        return {**answer, "choices": [{**first, "message": made}, *choices[1:]]}


def beginning(decoding: Decoding, mask: Mask, params: Mapping[str, Json]) -> Begun | None:
    """How a reply is begun so that it keeps to `mask`; None where it is not, or cannot be.

    llama.cpp refuses a reply that was begun for a model that thinks first; a forced `tool_choice` would begin another
    call.
    """
    form, template = decoding.form, params.get("chat_template_kwargs")
    if engine_row(decoding.engine, mask).mechanism != "prefill" or form is None or form.style != "json":
        return None
    thinks = template.get("enable_thinking", form.thinks) if isinstance(template, Mapping) else form.thinks
    is_free = not thinks and not decoding.is_formed and params.get("tool_choice", "auto") == "auto"
    return Begun(prefill(form, mask.allowed), form) if is_free else None
