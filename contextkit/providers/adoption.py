"""How a conversation begins: a fresh head, a stored one, or somebody's request body.

Takes system, tools and a log; gives the body of an `opened` entry, or an error that says where a stored head differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import (
    HeadChanged,
    InvalidContent,
    LogCorrupt,
    NotSerialisable,
    UnreadableRequest,
    UsageError,
)
from contextkit.log.entry import BODY_VERSION, Entry
from contextkit.log.log import Log, Turns
from contextkit.providers.keyed_blocks import RAW, packed
from contextkit.providers.parameters import MODEL_FIELDS
from contextkit.providers.provider import Provider, Turn

_MISFITS = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError, NotSerialisable)
"""What reading JSON of another form runs into."""


def check_provider(provider: object, log: object = None) -> None:
    """Raises `UsageError` for what is no adapter, or a log that is none."""
    if not isinstance(log, Log | None):
        raise UsageError(f"log is a contextkit.Log, not {type(log).__name__}: Context.open(folder, …) opens one")
    if not isinstance(getattr(provider, "wire", None), str) or not callable(getattr(provider, "render_entry", None)):
        raise UsageError(
            f"provider is AnthropicMessages(…), OpenAIChat(…) or OpenAIResponses(…), not {type(provider).__name__}"
        )


def opening(provider: Provider, system: Json, tools: Json) -> Json:
    """Body of the first entry of a log. Raises `InvalidTool` for a tool this provider has no words for."""
    _say(provider, system, tools)
    return {"version": BODY_VERSION, "templates": {provider.wire: provider.template}, "system": system, "tools": tools}


def check_switch(log: Log, turns: Turns, provider: Provider) -> None:
    """Raises `UsageError` for what is no adapter, `InvalidTool` where the endpoint has no words for a tool of the head."""
    check_provider(provider)
    _say(provider, parse(log[turns.head_system].body)["system"], parse(log[turns.head_tools].body)["tools"])


def renewed(provider: Provider, system: Json | None, tools: Json | None) -> Json:
    """Return the body of an epoch with a new head (None: as it was). Raises like `opening`."""
    _say(provider, system or [], tools or [])
    return {name: value for name, value in (("system", system), ("tools", tools)) if value is not None}


def _say(provider: Provider, system: Json, tools: Json) -> None:
    """Say a head once before it is kept for good: what has no words now will have none later."""
    check_provider(provider)
    try:
        list(provider.render_static_prefix(system, tools, 0))
    except RecursionError:
        raise InvalidContent("system or tools are nested too deep to be sent") from None


def adopt(provider: Provider, body: Json) -> tuple[Json, Json, list[Turn]]:
    """System parts, tool definitions and turns of a request body, the turns as they can be appended one by one.

    Bodies for boto3 and google-genai may hold `bytes`. Raises `UnreadableRequest` where it is not one of this endpoint,
    `InvalidCall` where calls and results do not fit.
    """
    check_provider(provider)
    if not isinstance(body, Mapping):
        raise UnreadableRequest("body", f'a request body, {{"messages": […], …}}, and no {type(body).__name__}')
    named = next((field for field in MODEL_FIELDS if field in provider.params), "model")
    fields = {**body, named: provider.model.name}
    if provider.wire in RAW:
        fields = packed(fields)
    try:
        provider.parse(fields)
        system, definitions, turns = provider.turns(fields)
    except _MISFITS as fault:
        raise UnreadableRequest("body", f"not as {provider.wire} takes it ({type(fault).__name__}: {fault})") from fault
    log, order = Log(clock=lambda: 0.0), Turns()
    order.feed(log.append("opened", opening(provider, system, definitions)))
    following = []
    for turn in turns:
        after = {"after": len(log) - 1} if turn.kind == "assistant" else {}  # a reply answers all that stands before it
        following.append(Turn(turn.kind, {**turn.body, **after}))
        order.feed(log.append(turn.kind, following[-1].body))
    return system, definitions, following


def check_fresh(log: Sequence[Entry]) -> None:
    """Raises `UsageError` for a log in which something was said already."""
    if len(log) > 1:
        raise UsageError(
            f"the folder holds a conversation of {len(log)} entries already: Context.open(…) continues it, or choose another"
        )


def check_head(log: Sequence[Entry], turns: Turns, provider: Provider, system: Json | None, tools: Json | None) -> None:
    """Compare what the caller gives (None: nothing) with what the log stored.

    Raises `HeadChanged`: every request of this conversation would start with other bytes, and nothing cached would be
    found.
    """
    if log[0].kind != "opened" or "system" not in parse(log[0].body):
        raise LogCorrupt(
            f"entry 0 of this log is of kind {log[0].kind!r}, not what Context writes first: give it an empty log, or its own"
        )
    stored = {"system": (turns.head_system, system), "tools": (turns.head_tools, tools)}
    for name, (sequence, given) in stored.items():
        kept = parse(log[sequence].body)[name]
        if given is not None and not _is_same(kept, given):
            path, was, now = first_difference(kept, given, name)
            what = f"{_DIFFERENT[name]} from entry {sequence} of the log at {path} (was {was}, now {now})"
            raise HeadChanged(f"{what}: {_AS_STORED[name]}, or {_NEW_HEAD}")
    kept = parse(log[turns.head_templates].body).get("templates", {}).get(provider.wire, provider.template)
    if kept != provider.template:
        raise HeadChanged(
            f"this log was written with version {kept} of the {provider.wire} templates, this is version {provider.template}: {_NEW_HEAD}"
        )


_NEW_HEAD = "pass allow_new_head=True to open a new epoch (the next request pays for the whole prompt once)"
_DIFFERENT = {"system": "the system prompt differs", "tools": "the tools differ"}
_AS_STORED = {
    "system": "leave system out to go on as stored",
    "tools": "give the tools as they were (without them the prompt stays as stored, and no call can be run)",
}


def first_difference(kept: Json, given: Json, path: str) -> tuple[str, str, str]:
    """Path of the first difference of two JSON values, with short forms of both sides; text itself is not shown.

    >>> first_difference({"a": 1, "b": {"c": [1, 2]}}, {"b": {"c": [1, 3]}, "a": 1}, "x")[0]
    'x.b.c[1]'
    """
    if isinstance(kept, Mapping) and isinstance(given, Mapping):
        for key in [*kept, *given]:
            if key not in kept or key not in given:
                was, now = (_short(side[key]) if key in side else "nothing" for side in (kept, given))
                return f"{path}.{key}", was, now
            if not _is_same(kept[key], given[key]):
                return first_difference(kept[key], given[key], f"{path}.{key}")
    if isinstance(kept, list | tuple) and isinstance(given, list | tuple):
        for index, (one, other) in enumerate(zip(kept, given, strict=False)):
            if not _is_same(one, other):
                return first_difference(one, other, f"{path}[{index}]")
        return f"{path}[{min(len(kept), len(given))}]", f"{len(kept)} items", f"{len(given)} items"
    return path, _short(kept), _short(given)


def _is_same(one: Json, other: Json) -> bool:
    """Return whether two JSON values are equal; the order of keys is no difference."""
    return canonical(one, sort=True) == canonical(other, sort=True)


def _short(value: Json) -> str:
    from hashlib import blake2b

    return f"{type(value).__name__} {blake2b(canonical(value), digest_size=4).hexdigest()}"
