"""Tool masks in the words of each provider: how a phase is announced in the prompt, and the `tool_choice` of one request.

There is one table per question, the cheapest safe row first; sources stand in each row. Safe means that no block before
the tail moves, that no provider refuses it, and that a call outside the mask is refused at our side whatever the model
does. Nothing that is sent stands before the tail of the prompt, so no row costs cached tokens. What a conversation allows
now is read from its log: a phase is an entry like any other, so a resumed or forked conversation is in the phase its log
says, and what a crash kept from being written is written then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contextkit.canonical import Json
from contextkit.facts.load import betas_for
from contextkit.models import Model
from contextkit.prompt.prompt import LEVELS, PromptColumns, PromptLayout
from contextkit.providers.call_formats import CallFormat
from contextkit.providers.engine_masks import GRAMMARS, Decoding, EngineRow, enforced_row, engine_row
from contextkit.providers.neutral import definition_for
from contextkit.providers.provider import Provider
from contextkit.tools.mask import Mask, Permit
from contextkit.tools.tool import Tool

TOOL_CHANGES = betas_for("tool changes")[0]
"""Beta header that opts in to `tool_addition` and `tool_removal` (mid-conversation system messages docs)."""


INLINE_TOOLS = betas_for("tool definitions in messages")[0]
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


_GRAMMARS = ("vllm", "sglang")
"""Engines that enforce every mask, once they are told how their model writes a call."""


def _enforces(endpoint: Endpoint) -> bool:
    decoding = endpoint.decoding
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
        lambda endpoint: endpoint.model.provider == "openai",
        "a model of OpenAI",
        "0 tokens: it is `tool_choice`, a parameter no cache looks at",
        "provider",
        "openai/types/chat/chat_completion_allowed_tools_param.py, openai/types/responses/tool_choice_allowed_param.py; caching guide",
    ),
    Telling(
        "tool_changes",
        CLAUDE,
        lambda endpoint: (
            endpoint.model.accepts_mid_system
            and not {TOOL_CHANGES, INLINE_TOOLS}.isdisjoint(endpoint.betas)
            and endpoint.is_in_band
        ),
        f'mid-conversation system messages, `betas=["{TOOL_CHANGES}"]` or `{INLINE_TOOLS}`, a table whose changes are small or forced',
        "the names that change, appended once",
        "provider",
        "anthropic/types/beta/beta_request_tool_removal_block_param.py; mid-conversation system messages docs",
    ),
    Telling(
        "system_notice",
        (*CLAUDE, *BEDROCK),
        lambda endpoint: endpoint.model.accepts_mid_system,
        "mid-conversation system messages",
        "at most 60 tokens, appended once",
        "contextkit",
        "anthropic/types/system_message_param.py; mid-conversation system messages docs",
    ),
    Telling(
        "reminder",
        (*CLAUDE, *OPENAI, *BEDROCK, *GEMINI),
        lambda endpoint: True,
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


def _mode(*modes: str) -> Callable[[Endpoint, Mask, Mapping[str, Json]], bool]:
    return lambda endpoint, mask, params: endpoint.model.provider == "openai" and mask.mode in modes


def _may_force(endpoint: Endpoint, mask: Mask, params: Mapping[str, Json]) -> bool:
    """Forcing was asked for, the model takes it, and nothing beside it forbids it: manual thinking, a prewarm."""
    thinking: Any = params.get("thinking")
    is_manual = isinstance(thinking, Mapping) and thinking.get("type") == "enabled"
    return mask.force and endpoint.model.accepts_forced_choice and not is_manual and params.get("max_tokens") != 0


def _says(choice: Json) -> Callable[[Endpoint, Mask, list[Tool]], Mapping[str, Json]]:
    """The same `tool_choice` for every mask."""
    return lambda endpoint, mask, tools: {"tool_choice": choice}


def _allowed(endpoint: Endpoint, mask: Mask, tools: list[Tool]) -> Mapping[str, Json]:
    """`allowed_tools`, nested on Chat and flat on Responses."""
    inside = {"mode": "auto" if mask.mode == "auto" else "required", "tools": [_name(endpoint, tool) for tool in tools]}
    nested = {"allowed_tools": inside} if endpoint.wire == "openai_chat" else inside
    return {"tool_choice": {"type": "allowed_tools", **nested}}


def _name(endpoint: Endpoint, tool: Tool) -> Json:
    """How a choice names a tool: a function or a custom tool by its name, a hosted one by its type or server."""
    definition = definition_for(tool.definition, endpoint.model)
    native = definition.get("native")
    block: Mapping[str, Json] = {"type": "custom" if "format" in definition else "function"}
    if native is not None and (native["wire"] == endpoint.wire or "instead" not in definition):
        block = native["block"]
    kind, server = str(block.get("type", "function")), "server_label"
    if endpoint.wire == "openai_chat":
        return {"type": kind, kind: {"name": tool.name}}
    if server in block:
        return {"type": kind, server: block[server]}
    return {"type": kind, "name": tool.name} if kind in ("function", "custom") else {"type": kind}


def _may_force_converse(endpoint: Endpoint, mask: Mask, params: Mapping[str, Json]) -> bool:
    more = params.get("additionalModelRequestFields") or {}
    may_force = _may_force(endpoint, mask, {**params, "thinking": more.get("thinking")})
    return may_force and mask.mode in ("required", "specified")


def _converse_choice(endpoint: Endpoint, mask: Mask, tools: list[Tool]) -> Mapping[str, Json]:
    one = {"tool": {"name": mask.allowed[0]}} if mask.mode == "specified" and len(mask.allowed) == 1 else {"any": {}}
    return {"toolConfig": {"toolChoice": one}}


def _gemini_choice(endpoint: Endpoint, mask: Mask, tools: list[Tool]) -> Mapping[str, Json]:
    names = {"allowedFunctionNames": list(mask.allowed)} if mask.mode == "specified" else {}
    return {"toolConfig": {"functionCallingConfig": {"mode": "NONE" if mask.mode == "none" else "ANY", **names}}}


CHOICES: tuple[Chosen, ...] = (
    Chosen(
        "allowed_tools",
        OPENAI,
        lambda endpoint, mask, params: _mode("auto")(endpoint, mask, params) and mask.is_all,
        "every tool allowed: `tool_choice` is left out",
        lambda endpoint, mask, tools: {},
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
        lambda endpoint, mask, params: mask.force and mask.mode == "none",
        "another host's model, no tool allowed, `force`",
        _says("none"),
        False,
        "the host's own documentation",
    ),
    Chosen(
        "forced_choice",
        OPENAI,
        lambda endpoint, mask, params: _may_force(endpoint, mask, params) and mask.mode == "required",
        "another host's model that takes forcing, a call required, `force`",
        _says("required"),
        False,
        "the host's own documentation",
    ),
    Chosen(
        "forced_choice",
        OPENAI,
        lambda endpoint, mask, params: (
            _may_force(endpoint, mask, params) and mask.mode == "specified" and len(mask.allowed) == 1
        ),
        "another host's model that takes forcing, one tool required, `force`",
        lambda endpoint, mask, tools: {"tool_choice": _name(endpoint, tools[0])},
        False,
        "the host's own documentation",
    ),
    Chosen(
        "forced_choice",
        BEDROCK,
        _may_force_converse,
        "a model that takes forcing, no manual thinking, a call required, `force`",
        _converse_choice,
        False,
        "botocore bedrock-runtime, ToolChoice: auto, any or tool",
    ),
    Chosen(
        "forced_choice",
        GEMINI,
        lambda endpoint, mask, params: (
            mask.force and mask.mode in ("none", "required", "specified") and "cachedContent" not in params
        ),
        "no tool allowed or a call required, no cached content, `force`",
        _gemini_choice,
        False,
        "google.genai.types.FunctionCallingConfig",
    ),
    Chosen(
        "forced_choice",
        CLAUDE,
        lambda endpoint, mask, params: mask.force and mask.mode == "none",
        "no tool allowed, `force`",
        _says({"type": "none"}),
        False,
        "anthropic/types/tool_choice_none_param.py; prompt-caching docs",
    ),
    Chosen(
        "forced_choice",
        CLAUDE,
        lambda endpoint, mask, params: (
            _may_force(endpoint, mask, params) and mask.mode == "specified" and len(mask.allowed) == 1
        ),
        "a model that takes forcing, no manual thinking, one tool required, `force`",
        lambda endpoint, mask, tools: {"tool_choice": {"type": "tool", "name": mask.allowed[0]}},
        False,
        "define-tools docs; prompt-caching docs",
    ),
    Chosen(
        "forced_choice",
        CLAUDE,
        lambda endpoint, mask, params: _may_force(endpoint, mask, params) and mask.mode in ("required", "specified"),
        "a model that takes forcing, no manual thinking, a call required, `force`",
        _says({"type": "any"}),
        False,
        "define-tools docs; prompt-caching docs",
    ),
)
"""What `tool_choice` says of a mask, the first row that holds; none of them, and it is left alone."""


def telling(endpoint: Endpoint) -> Telling:
    """Return how a phase is announced at this endpoint.

    >>> from contextkit.models import model_named
    >>> [telling(Endpoint("anthropic_messages", model_named(name))).name for name in ("claude-opus-5-5", "claude-opus-4-5")]
    ['system_notice', 'reminder']
    >>> [telling(Endpoint("anthropic_messages", model_named("claude-opus-5-5"), (beta,))).name for beta in (TOOL_CHANGES, INLINE_TOOLS)]
    ['tool_changes', 'tool_changes']
    """
    return next(row for row in TELLINGS if endpoint.wire in row.wires and row.holds(endpoint))


def choice(endpoint: Endpoint, mask: Mask, params: Mapping[str, Json]) -> Chosen | None:
    """Return how a request's fields express a mask; None if they do not.

    What a self-hosted engine enforces is a row of `ROWS`.
    """
    if endpoint.decoding is not None:
        row = enforced_row(endpoint.decoding, mask, params)
        return None if row is None else _chosen(row, endpoint.decoding, endpoint.wire)
    return next((row for row in CHOICES if endpoint.wire in row.wires and row.holds(endpoint, mask, params)), None)


def _chosen(row: EngineRow, decoding: Decoding, wire: str) -> Chosen:
    """A row of an engine as one of `CHOICES`; a form that the caller gives replies stays."""
    form = None if decoding.is_formed else decoding.form
    return Chosen(
        row.mechanism,
        (wire,),
        lambda *given: True,
        row.needs,
        lambda endpoint, mask, tools: row.fields(mask, tools, form),
        True,
        row.source,
    )


_MESSAGES = LEVELS.index("messages")


@dataclass(frozen=True, slots=True)
class Lowered:
    """What one request says of what may be called."""

    mask: Mask
    """What may be called."""
    mechanism: str
    """What carries it: a row of a table above; `nothing` without phases, `override` where the caller chose for this
    call."""
    enforced_by: str
    """`provider`, `contextkit` (a call outside the mask is refused at our side), or `nobody` without phases."""
    fields: Mapping[str, Json]
    """What is sent beside the conversation: `tool_choice`, an engine's own constraint."""
    entry: int
    """Sequence of the `phase` entry it comes from, -1 for none."""
    is_free: bool
    """Whether no cache looks at them."""
    layout: PromptLayout | None = field(default=None, repr=False)
    """What is sent."""
    text_calls: CallFormat | None = field(default=None, repr=False)
    """How the reply's text writes calls, where the engine parses none; None where it does."""

    @property
    def allowed(self) -> tuple[str, ...]:
        """Names that may be called, in the order of the toolbox; empty without phases."""
        return self.mask.allowed

    @property
    def mode(self) -> str:
        """auto, required, specified or none."""
        return self.mask.mode

    @property
    def tool_choice(self) -> Json:
        """The value sent as `tool_choice`; None if it is left alone."""
        return self.fields.get("tool_choice")

    @property
    def cost_tokens(self) -> int:
        """The cost of the change into this phase, once: tokens appended.

        Where a choice is forced, also the messages written anew.
        """
        if self.layout is None or self.entry < 0:
            return 0
        columns, n = self.layout.columns, self.layout.n
        last = next((index + 1 for index in range(n - 1, -1, -1) if columns.entries[index] == self.entry), n)
        first = last
        while first and columns.entries[first - 1] == self.entry:
            first -= 1
        start = first if self.is_free else min(columns.level_ends[_MESSAGES - 1], first)
        return _ends(columns, last) - _ends(columns, start)


NOTHING = Lowered(Mask("", (), "auto", True, False), "nothing", "nobody", {}, -1, True)
"""A conversation without phases."""


def lower(permit: Permit, phase: str, provider: Provider, overrides: Mapping[str, Json], entry: int) -> Lowered:
    """The mask of `phase`, entered by the log's `entry`, in the words of `provider`.

    `overrides` are this call's own parameters.
    """
    mask, params = permit.mask(phase), {**provider.params, **overrides}
    decoding = getattr(provider, "decoding", None)  # only endpoints of self-hosted engines have one
    endpoint = Endpoint(provider.wire, provider.model, provider.betas, permit.is_in_band, decoding)
    told, chosen = telling(endpoint), choice(endpoint, mask, params)
    if "tool_choice" in overrides or (decoding and not overrides.keys().isdisjoint(GRAMMARS)):
        return Lowered(mask, "override", "contextkit", {}, entry, True)
    if chosen is None:
        return Lowered(mask, told.name, told.enforced_by, {}, entry, True)
    said = dict(chosen.spell(endpoint, mask, [permit.toolbox[name] for name in mask.allowed]))
    if "tool_choice" in said:
        said["tool_choice"] = _beside(params.get("tool_choice"), said["tool_choice"])
    form = decoding.form if decoding and engine_row(decoding.engine, mask).is_text else None
    return Lowered(mask, chosen.name, "provider", said, entry, chosen.is_free, text_calls=form)


def _beside(given: Json, said: Json) -> Json:
    """A choice that keeps what the caller's own one says besides: whether calls may be parallel."""
    kept = given.get("disable_parallel_tool_use") if isinstance(given, Mapping) and isinstance(said, Mapping) else None
    return said if kept is None or said.get("type") == "none" else {**said, "disable_parallel_tool_use": kept}


def _ends(columns: PromptColumns, n: int) -> int:
    return columns.ends_tokens[n - 1] if n else 0
