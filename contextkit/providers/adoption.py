"""How a conversation begins: a fresh head, a stored one, or somebody's request body.

Takes system, tools and a log; gives the body of an `opened` entry, or an error that says where a stored head differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import HeadChanged
from contextkit.log.entry import Entry
from contextkit.log.turns import Turns
from contextkit.providers.provider import Provider, Reply

FORMAT = 1
"""Version of the entry bodies."""


def opening(provider: Provider, system: Json, tools: Json) -> Json:
    """Body of the first entry of a log."""
    return {"version": FORMAT, "templates": {provider.wire: provider.template}, "system": system, "tools": tools}


def received(reply: Reply, after: int) -> Json:
    """Body of the entry that keeps `reply` to a request that included entries up to `after`."""
    native = {"wire": reply.native.wire, "model": reply.native.model, "body": parse(reply.native.body)}
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls]
    return {"after": after, "native": native, "text": reply.text, "calls": calls, "stop": reply.stop}


def check_head(log: Sequence[Entry], turns: Turns, provider: Provider, system: Json | None, tools: Json | None) -> None:
    """Compare what the caller gives (None: nothing) with what the log stored.

    Raises `HeadChanged`: every request of this conversation would start with other bytes, and nothing cached would be found.
    """
    stored = {"system": (turns.head_system, system), "tools": (turns.head_tools, tools)}
    for name, (sequence, given) in stored.items():
        kept = parse(log[sequence].body)[name]
        if given is not None and canonical(kept) != canonical(given):
            raise HeadChanged(_difference(name, kept, given, sequence))
    kept = parse(log[turns.head_templates].body).get("templates", {}).get(provider.wire, provider.template)
    if kept != provider.template:
        raise HeadChanged(
            f"this log was written with version {kept} of the {provider.wire} templates, this is version {provider.template}: {_CHOICES}"
        )


_CHOICES = (
    "leave system and tools out to go on as stored, or pass allow_new_head=True to open a new epoch (the next request pays for the "
    "whole prompt once)"
)


def _difference(name: str, kept: Json, given: Json, sequence: int) -> str:
    path, was, now = _first(kept, given, name)
    return f"{name} differ from entry {sequence} of the log at {path} (was {was}, now {now}): {_CHOICES}"


def _first(kept: Json, given: Json, path: str) -> tuple[str, str, str]:
    """Path of the first difference, with short forms of both sides; text itself is not shown."""
    if isinstance(kept, Mapping) and isinstance(given, Mapping) and list(kept) == list(given):
        key = next(key for key in kept if canonical(kept[key]) != canonical(given[key]))
        return _first(kept[key], given[key], f"{path}.{key}")
    if isinstance(kept, list | tuple) and isinstance(given, list | tuple):
        for index, (one, other) in enumerate(zip(kept, given, strict=False)):
            if canonical(one) != canonical(other):
                return _first(one, other, f"{path}[{index}]")
        return f"{path}[{min(len(kept), len(given))}]", f"{len(kept)} items", f"{len(given)} items"
    return path, _short(kept), _short(given)


def _short(value: Json) -> str:
    from hashlib import blake2b

    return f"{type(value).__name__} {blake2b(canonical(value), digest_size=4).hexdigest()}"
