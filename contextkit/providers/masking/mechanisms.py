"""Which mechanism carries a mask: one table per question, the cheapest safe row first.

Takes an endpoint, a model's row and what the caller has opted in to; gives how a phase is told in the prompt, and the
`tool_choice` of one request. Knows no bytes: adapters spell what is told, `lowering.py` joins the two. Sources stand in
each row.

Safe means that no segment before the tail moves, that no provider refuses it, and that a call outside the mask is
refused at our side whatever the model does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.canonical import Json
from contextkit.models import Model
from contextkit.providers.foreign import taken
from contextkit.providers.masking.engines import Decoding, enforced_row
from contextkit.tools.mask import Mask
from contextkit.tools.tool import Tool

TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01"
"""Beta header that opts in to `tool_addition` and `tool_removal` (mid-conversation system messages docs)."""
INLINE_TOOLS = "inline-tools-2026-09-15"
"""Beta header that opts in to those, and to definitions inside `tool_addition` (same page; Claude API only)."""
OPENAI = ("openai_chat", "openai_responses")
CLAUDE = ("anthropic_messages",)
BEDROCK, GEMINI = ("bedrock_converse",), ("gemini",)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Whom a request asks, as far as masks are concerned."""

    wire: str
    """The endpoint."""
    model: Model
    """The row of its model."""
    betas: tuple[str, ...] = ()
    """Beta headers the caller has opted in to."""
    is_in_band: bool = True
    """Whether the table of phases is one that in-band changes carry."""
    decoding: Decoding | None = None
    """The engine that decodes its replies, where it is a self-hosted one."""


@dataclass(frozen=True, slots=True)
class Telling:
    """One way to tell the model, in the prompt, what may be called from here on."""

    name: str
    """As `request.mask.mechanism` says it."""
    wires: tuple[str, ...]
    """Endpoints that know it."""
    holds: Callable[[Endpoint], bool]
    """Whether the model takes it and the caller has opted in."""
    needs: str
    """The same in words."""
    cost: str
    """What a change of phase costs."""
    enforced_by: str
    """`provider`, or `contextkit`: then the model may still make the call, and is refused."""
    source: str
    """Where it is documented."""


def _takes_changes(betas: tuple[str, ...]) -> bool:
    return TOOL_CHANGES in betas or INLINE_TOOLS in betas


_GRAMMARS = ("vllm", "sglang")
"""Engines that enforce every mask, once they are told how their model writes a call."""


def _enforces(asked: Endpoint) -> bool:
    decoding = asked.decoding
    return (
        decoding is not None and decoding.engine in _GRAMMARS and decoding.form is not None and not decoding.is_formed
    )


TELLINGS: tuple[Telling, ...] = (
    Telling(
        "decoding",
        ("openai_chat",),
        _enforces,
        "vLLM or SGLang, the model's `call_format`, no reply format of the caller's own",
        "0 tokens: a grammar of the engine holds while the reply is decoded",
        "provider",
        "the table of engines below",
    ),
    Telling(
        "allowed_tools",
        OPENAI,
        lambda asked: asked.model.provider == "openai",
        "a model of OpenAI",
        "0 tokens: it is `tool_choice`, a parameter no cache looks at",
        "provider",
        "openai/types/chat/chat_completion_allowed_tools_param.py, openai/types/responses/tool_choice_allowed_param.py; caching guide",
    ),
    Telling(
        "tool_changes",
        CLAUDE,
        lambda asked: asked.model.accepts_mid_system and _takes_changes(asked.betas) and asked.is_in_band,
        f'mid-conversation system messages, `betas=["{TOOL_CHANGES}"]` or `{INLINE_TOOLS}`, a table whose changes are small or forced',
        "the names that change, appended once",
        "provider",
        "anthropic/types/beta/beta_request_tool_removal_block_param.py; mid-conversation system messages docs",
    ),
    Telling(
        "system_notice",
        (*CLAUDE, *BEDROCK),
        lambda asked: asked.model.accepts_mid_system,
        "mid-conversation system messages",
        "at most 60 tokens, appended once",
        "contextkit",
        "anthropic/types/system_message_param.py; mid-conversation system messages docs",
    ),
    Telling(
        "reminder",
        (*CLAUDE, *OPENAI, *BEDROCK, *GEMINI),
        lambda asked: True,
        "nothing",
        "at most 60 tokens, appended once",
        "contextkit",
        "a text block of the user's turn, which every model takes",
    ),
)
"""How a phase is told, the first row that holds."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One way to say it with `tool_choice`."""

    name: str
    """As `request.mask.mechanism` says it."""
    wires: tuple[str, ...]
    """Endpoints that know it."""
    holds: Callable[[Endpoint, Mask, Mapping[str, Json]], bool]
    """Whether it says this mask, and the model takes it beside these parameters."""
    needs: str
    """The same in words."""
    spell: Callable[[Endpoint, Mask, list[Tool]], Mapping[str, Json]]
    """(endpoint, mask, the tools allowed) → body fields, `tool_choice` and what stands beside it."""
    is_free: bool
    """Whether no cache looks at it; else the messages are written anew wherever it changes."""
    source: str
    """Where it is documented."""


def _is_openai(asked: Endpoint, mask: Mask, params: Mapping[str, Json]) -> bool:
    return asked.model.provider == "openai"


def _mode(*modes: str) -> Callable[[Endpoint, Mask, Mapping[str, Json]], bool]:
    return lambda asked, mask, params: _is_openai(asked, mask, params) and mask.mode in modes


def _may_force(asked: Endpoint, mask: Mask, params: Mapping[str, Json]) -> bool:
    """Forcing was asked for, the model takes it, and nothing beside it forbids it: manual thinking, a prewarm."""
    thinking: Any = params.get("thinking")
    is_manual = isinstance(thinking, Mapping) and thinking.get("type") == "enabled"
    return mask.force and asked.model.accepts_forced_choice and not is_manual and params.get("max_tokens") != 0


def _says(choice: Json) -> Callable[[Endpoint, Mask, list[Tool]], Mapping[str, Json]]:
    """The same `tool_choice` for every mask."""
    return lambda asked, mask, tools: {"tool_choice": choice}


def _allowed(asked: Endpoint, mask: Mask, tools: list[Tool]) -> Mapping[str, Json]:
    """`allowed_tools`, nested on Chat and flat on Responses."""
    inside = {"mode": "auto" if mask.mode == "auto" else "required", "tools": [_name(asked, tool) for tool in tools]}
    nested = {"allowed_tools": inside} if asked.wire == "openai_chat" else inside
    return {"tool_choice": {"type": "allowed_tools", **nested}}


def _name(asked: Endpoint, tool: Tool) -> Json:
    return _NAMES[asked.wire](_block(asked, tool), tool.name)


def _block(asked: Endpoint, tool: Tool) -> Mapping[str, Json]:
    """The provider's own block of a tool; a custom tool's or a plain function's type where it has none."""
    definition = taken(tool.definition, asked.model)
    native = definition.get("native")
    if native is None or (native["wire"] != asked.wire and "instead" in definition):
        return {"type": "custom" if "format" in definition else "function"}
    block: Mapping[str, Json] = native["block"]
    return block


def _chat_name(block: Mapping[str, Json], name: str) -> Json:
    kind = str(block.get("type", "function"))
    return {"type": kind, kind: {"name": name}}


_SERVER = "server_label"
"""Where a hosted MCP tool says which server it stands for."""


def _responses_name(block: Mapping[str, Json], name: str) -> Json:
    """A function or a custom tool by its name, a hosted tool by its type, an MCP server by its label."""
    kind = str(block.get("type", "function"))
    label = {_SERVER: block[_SERVER]} if _SERVER in block else {"name": name} if kind in ("function", "custom") else {}
    return {"type": kind, **label}


_NAMES: Mapping[str, Callable[[Mapping[str, Json], str], Json]] = {
    "openai_chat": _chat_name,
    "openai_responses": _responses_name,
}


def _named(asked: Endpoint, mask: Mask, tools: list[Tool]) -> Mapping[str, Json]:
    """One function, on an endpoint like OpenAI's."""
    return {"tool_choice": _name(asked, tools[0])}


def _by_engine(asked: Endpoint, mask: Mask, tools: list[Tool]) -> Mapping[str, Json]:
    row = enforced_row(asked.decoding, mask) if asked.decoding else None
    return row.fields(mask, tools, asked.decoding.form) if row and asked.decoding else {}


def _converse_choice(asked: Endpoint, mask: Mask, tools: list[Tool]) -> Mapping[str, Json]:
    one = {"tool": {"name": mask.allowed[0]}} if mask.mode == "specified" and len(mask.allowed) == 1 else {"any": {}}
    return {"toolConfig": {"toolChoice": one}}


def _gemini_choice(asked: Endpoint, mask: Mask, tools: list[Tool]) -> Mapping[str, Json]:
    names = {"allowedFunctionNames": list(mask.allowed)} if mask.mode == "specified" else {}
    return {"toolConfig": {"functionCallingConfig": {"mode": "NONE" if mask.mode == "none" else "ANY", **names}}}


def _elsewhere() -> tuple[Chosen, ...]:
    """Bedrock and Gemini force a call in `toolConfig`; only Gemini forbids every one."""

    def converse(asked: Endpoint, mask: Mask, params: Mapping[str, Json]) -> bool:
        more = params.get("additionalModelRequestFields") or {}
        return _may_force(asked, mask, {**params, "thinking": more.get("thinking")}) and mask.mode in (
            "required",
            "specified",
        )

    return (
        Chosen(
            "forced_choice",
            BEDROCK,
            converse,
            "a model that takes forcing, no manual thinking, a call required, `force`",
            _converse_choice,
            False,
            "botocore bedrock-runtime, ToolChoice: auto, any or tool",
        ),
        Chosen(
            "forced_choice",
            GEMINI,
            lambda asked, mask, params: (
                mask.force and mask.mode in ("none", "required", "specified") and "cachedContent" not in params
            ),
            "no tool allowed or a call required, no cached content, `force`",
            _gemini_choice,
            False,
            "google.genai.types.FunctionCallingConfig",
        ),
    )


CHOICES: tuple[Chosen, ...] = (
    Chosen(
        "allowed_tools",
        OPENAI,
        lambda asked, mask, params: _mode("auto")(asked, mask, params) and mask.is_all,
        "every tool allowed: `tool_choice` is left out",
        lambda asked, mask, tools: {},
        True,
        "prompt-caching guide",
    ),
    Chosen("none", OPENAI, _mode("none"), "no tool allowed", _says("none"), True, "prompt-caching guide"),
    Chosen(
        "required",
        OPENAI,
        _mode("required"),
        "every tool allowed, a call required",
        _says("required"),
        True,
        "openai/types/responses/tool_choice_options.py",
    ),
    Chosen(
        "allowed_tools",
        OPENAI,
        _mode("auto", "specified"),
        "a subset, with or without a call required",
        _allowed,
        True,
        "openai/types/responses/tool_choice_allowed_param.py; prompt-caching guide",
    ),
    Chosen(
        "forced_choice",
        OPENAI,
        lambda asked, mask, params: mask.force and mask.mode == "none",
        "another host's model, no tool allowed, `force`",
        _says("none"),
        False,
        "the host's own documentation",
    ),
    Chosen(
        "forced_choice",
        OPENAI,
        lambda asked, mask, params: _may_force(asked, mask, params) and mask.mode == "required",
        "another host's model that takes forcing, a call required, `force`",
        _says("required"),
        False,
        "the host's own documentation",
    ),
    Chosen(
        "forced_choice",
        OPENAI,
        lambda asked, mask, params: (
            _may_force(asked, mask, params) and mask.mode == "specified" and len(mask.allowed) == 1
        ),
        "another host's model that takes forcing, one tool required, `force`",
        _named,
        False,
        "the host's own documentation",
    ),
    *_elsewhere(),
    Chosen(
        "forced_choice",
        CLAUDE,
        lambda asked, mask, params: mask.force and mask.mode == "none",
        "no tool allowed, `force`",
        _says({"type": "none"}),
        False,
        "anthropic/types/tool_choice_none_param.py; prompt-caching docs",
    ),
    Chosen(
        "forced_choice",
        CLAUDE,
        lambda asked, mask, params: (
            _may_force(asked, mask, params) and mask.mode == "specified" and len(mask.allowed) == 1
        ),
        "a model that takes forcing, no manual thinking, one tool required, `force`",
        lambda asked, mask, tools: {"tool_choice": {"type": "tool", "name": mask.allowed[0]}},
        False,
        "define-tools docs; prompt-caching docs",
    ),
    Chosen(
        "forced_choice",
        CLAUDE,
        lambda asked, mask, params: _may_force(asked, mask, params) and mask.mode in ("required", "specified"),
        "a model that takes forcing, no manual thinking, a call required, `force`",
        _says({"type": "any"}),
        False,
        "define-tools docs; prompt-caching docs",
    ),
)
"""What `tool_choice` says of a mask, the first row that holds; none of them, and it is left alone."""


def telling(asked: Endpoint) -> Telling:
    """How a phase is told at this endpoint.

    >>> from contextkit.models import model_named
    >>> [telling(Endpoint("anthropic_messages", model_named(name))).name for name in ("claude-opus-5-5", "claude-opus-4-5")]
    ['system_notice', 'reminder']
    >>> [telling(Endpoint("anthropic_messages", model_named("claude-opus-5-5"), (beta,))).name for beta in (TOOL_CHANGES, INLINE_TOOLS)]
    ['tool_changes', 'tool_changes']
    """
    return next(row for row in TELLINGS if asked.wire in row.wires and row.holds(asked))


def choice(asked: Endpoint, mask: Mask, params: Mapping[str, Json]) -> Chosen | None:
    """How a request's fields say a mask, None where they do not.

    What a self-hosted engine enforces is a row of `engines.py`.
    """
    if asked.decoding is not None:
        row = enforced_row(asked.decoding, mask)
        return (
            Chosen(row.mechanism, (asked.wire,), lambda *given: True, row.needs, _by_engine, True, row.source)
            if row
            else None
        )
    return next((row for row in CHOICES if asked.wire in row.wires and row.holds(asked, mask, params)), None)
