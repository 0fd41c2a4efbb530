"""Where OpenAI's cache may break: at message endings and explicit marks; and what besides the text must be equal.

Takes layouts and parameters, gives prompts. Source: the prompt-caching guide
(developers.openai.com/api/docs/guides/prompt-caching) and `openai.types` 3.52 (chat/completion_create_params.py,
responses/response_create_params.py). Where the two disagree on how many marks a lookup considers, the smallest set is
taken: first 2 and latest 50 explicit, 20 message endings, the initial developer group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest, UsageError
from contextkit.layout.breakpoints import Plan
from contextkit.layout.layout import Layout
from contextkit.layout.segment import Level
from contextkit.layout.track import Grammar, Track
from contextkit.models import Model
from contextkit.providers.cutting import Cut
from contextkit.providers.namespaces import MESSAGES, TOOLS, Keying, keyed

TTLS = {"30m": 1800, "12h": 43200}
"""`ttl` → seconds; the Chat body takes 30m only."""
_MARKERS = {
    1800: b',"prompt_cache_breakpoint":{"mode":"explicit"}',
    43200: b',"prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}',
}
_WRITTEN = {"implicit": 3, "explicit": 4}
"""Mode → how many of the latest explicit marks are written."""
_FIRST, _LATEST, _ENDINGS = 2, 50, 21
"""Explicit marks looked up from the front and from the back; endings the implicit mark looks up, its own included."""
_ENDED: Mapping[str, Callable[[str, bool], bool]] = {
    "user": lambda run, opens: opens,
    "tool": lambda run, opens: run != "tool",
    "head": lambda run, opens: run != "head",
}
"""Run of a segment → whether an eligible ending lies between it and the next one: a user message, the last of
consecutive tool outputs, the last of the initial developer group."""

_NEUTRAL = frozenset(
    {
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tool_calls",
        "temperature",
        "top_p",
        "n",
        "seed",
        "stop",
        "store",
        "metadata",
        "include",
        "tool_choice",
        "function_call",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "presence_penalty",
        "frequency_penalty",
        "safety_identifier",
        "prompt_cache_retention",
        "prompt_cache_options",
        "timeout",
        "background",
        "moderation",
        "prediction",
        "truncation",
    }
)
_KEYED = (
    "model",
    "parallel_tool_calls",
    "response_format",
    "text",
    "reasoning",
    "reasoning_effort",
    "verbosity",
    "context_management",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_mode",
    "functions",
    "web_search_options",
    "prompt",
    "image",
)
_SALTS = ("cache_salt", "extra_key", "prompt_cache_isolation_key")
"""What separates caches at compatible hosts (vLLM and SGLang; Fireworks)."""
_DEFAULTS: dict[str, Json] = {
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "response_format": {"type": "text"},
    "service_tier": "auto",
    "prompt_cache_mode": "implicit",
    "reasoning": {},
}
_STATE = ("previous_response_id", "conversation")
"""What stands for the beginning of the prompt, in a body that was not resolved."""
_TEMPLATED = ("thinking", "enable_thinking", "thinking_budget", "chat_template_kwargs")
"""What compatible hosts render into the prompt. Assumed: a chat template renders the thinking mode, so it costs the
messages."""
_LEVELS = {**dict.fromkeys((*_KEYED, *_SALTS), TOOLS), **dict.fromkeys((*_STATE, *_TEMPLATED), MESSAGES)}
_WITHOUT_MARKS = Keying({**_LEVELS, "user": TOOLS}, _NEUTRAL, _DEFAULTS)
KEYINGS: Mapping[str, Keying] = {
    "breakpoints": Keying(_LEVELS, _NEUTRAL | {"user"}, _DEFAULTS),
    **dict.fromkeys(("implicit", "billed", "units"), _WITHOUT_MARKS),
}
"""Cache of the model → what keys a prefix; before gpt-5.6 `user` chose the machine."""
_RENDERED = (
    "model",
    "chat_template",
    "chat_template_kwargs",
    "reasoning_effort",
    "documents",
    "cache_salt",
    "extra_key",
)
_RENDERED_LATER = (
    "thinking",
    "enable_thinking",
    "mm_processor_kwargs",
    "add_generation_prompt",
    "continue_final_message",
)
_DECODED = frozenset(
    {
        "response_format",
        "structured_outputs",
        "regex",
        "ebnf",
        "grammar",
        "json_schema",
        "parallel_tool_calls",
        "session_id",
        "id_slot",
        "top_k",
        "min_p",
        "repetition_penalty",
        "user",
        "verbosity",
        "service_tier",
        "prompt_cache_key",
        "priority",
        "rid",
    }
)
ENGINES: Mapping[str, Keying] = dict.fromkeys(
    ("vllm", "sglang", "llamacpp"),
    Keying({**dict.fromkeys(_RENDERED, TOOLS), **dict.fromkeys(_RENDERED_LATER, MESSAGES)}, _NEUTRAL | _DECODED),
)
"""Engine → the same: what its template renders and what it salts with; how a reply is decoded is no part of the prompt.
"""
_UNKEYED_REASONING = frozenset({"summary", "generate_summary"})


def grammar(array: str) -> Grammar:
    """The grammar of an endpoint that keeps its messages in `array`."""
    arrays: dict[Level, str] = {"tools": "tools", "system": array, "messages": array}
    return Grammar(arrays, merges_speakers=False, advances=advances, marker=lambda ttl: _MARKERS[ttl], message_tokens=3)


def advances(before: str, run: str, opens: bool) -> bool:
    """Whether an eligible ending lies between two neighbouring segments.

    >>> advances("user", "user", False), advances("tool", "tool", True), advances("tool", "other", True)
    (False, False, True)
    """
    return before in _ENDED and _ENDED[before](run, opens)


def plan_of(model: Model, ttl: str, params: Mapping[str, Json]) -> Plan:
    """What to mark: the head, since the implicit mark moves with the conversation.

    The tail too where there is no implicit mark.

    `auto` lets the long lifetime be chosen place by place, where the model has one. Raises `UsageError` for a lifetime
    it does not offer.
    """
    if ttl != "auto" and TTLS.get(ttl) not in (*model.ttls_seconds, TTLS["30m"]):
        raise UsageError(f"ttl={ttl!r}: {model.name} has no such lifetime, leave ttl out")
    options = _options(params)
    seconds = TTLS.get(options.get("ttl", ttl), TTLS["30m"])
    has_marks, mode = model.cache == "breakpoints", options.get("mode", "implicit")
    return Plan(
        has_marks,
        has_marks and mode == "explicit",
        seconds,
        seconds,
        0,
        1,
        most=_WRITTEN[mode],
        long_ttl_seconds=TTLS["12h"] if has_marks and ttl == "auto" else 0,
        implicit_lookback=_ENDINGS if has_marks and mode == "implicit" else 0,
    )


def marks_of(track: Track, cuts: list[Cut], params: Mapping[str, Json]) -> tuple[Breakpoint, ...]:
    """The explicit marks found while cutting.

    `cuts[i]` became segment `i`. A mark's own lifetime wins over the request's.
    """
    default = _seconds(_options(params))
    return tuple(
        Breakpoint(index, TTLS.get(str(found.marker.get("ttl")), default), 1)
        for index, found in enumerate(cuts)
        if isinstance(found.marker, dict) and found.marker.get("mode") == "explicit"
    )


def layout_of(track: Track, marks: tuple[Breakpoint, ...], model: Model) -> Layout:
    """The layout that renders `marks`: those inside a whole message or item, and those of a model that takes none, are
    not of it.
    """
    has_marks = model.cache == "breakpoints"
    return Layout(track, len(track), tuple(mark for mark in marks if has_marks and track.marks[mark.segment] >= 0))


def prompt_of(layout: Layout, marks: tuple[Breakpoint, ...], params: Mapping[str, Json], model: Model) -> Prompt:
    """What the cache sees of a request with these explicit marks."""
    track, n = layout.track, layout.n
    keying = ENGINES.get(model.provider) or KEYINGS[model.cache]
    places = _effective(layout, marks, _options(params)) if model.cache == "breakpoints" else ()
    return keyed(keying, _keyed(params), track.raised(n), track, n, places)


def inherited(layout: Layout, params: Mapping[str, Json]) -> tuple[Breakpoint, ...]:
    """The marks of a layout as the wire says them: one without a lifetime takes the request's."""
    default = _seconds(_options(params))
    return tuple(replace(mark, ttl_seconds=max(mark.ttl_seconds, default)) for mark in layout.breakpoints)


def _effective(layout: Layout, marks: tuple[Breakpoint, ...], options: Mapping[str, Json]) -> tuple[Breakpoint, ...]:
    mode = options.get("mode", "implicit")
    found = {mark.segment: replace(mark, lookback=1, is_written=False) for mark in (*marks[:_FIRST], *marks[-_LATEST:])}
    found.update({mark.segment: replace(mark, lookback=1) for mark in marks[-_WRITTEN[mode] :]})
    if mode == "implicit":
        _add_implicit(layout, found, _seconds(options))
    return tuple(found[place] for place in sorted(found))


def _add_implicit(layout: Layout, found: dict[int, Breakpoint], ttl: int) -> None:
    """The end of the latest eligible message is written and looks back; the initial developer group is looked up."""
    track = layout.track
    tools, head = (min(end, layout.n) for end in track.level_ends)
    if head > tools:
        found.setdefault(head - 1, Breakpoint(head - 1, ttl, 1, is_written=False))
    tail = next((index for index in range(layout.n - 1, -1, -1) if track.runs[index] in _ENDED), None)
    if tail is not None:
        own = found.get(tail)
        found[tail] = Breakpoint(tail, own.ttl_seconds if own else ttl, _ENDINGS)


def _keyed(params: Mapping[str, Json]) -> dict[str, Json]:
    """Parameters with those that key by one of their fields reduced to it."""
    given = params.get("reasoning") or {}
    reasoning = {name: value for name, value in given.items() if name not in _UNKEYED_REASONING and value is not None}
    return {**params, "reasoning": reasoning, "prompt_cache_mode": _options(params).get("mode")}


def _options(params: Mapping[str, Json]) -> Mapping[str, Json]:
    options = params.get("prompt_cache_options") or {}
    if not isinstance(options, dict) or options.get("mode", "implicit") not in tuple(_WRITTEN):
        raise UnreadableRequest("prompt_cache_options.mode", "Input should be 'implicit' or 'explicit'")
    if not isinstance(options.get("ttl", "30m"), str):
        raise UnreadableRequest("prompt_cache_options.ttl", "Input should be a string")
    return options


def _seconds(options: Mapping[str, Json]) -> int:
    return TTLS.get(options.get("ttl", "30m"), TTLS["30m"])
