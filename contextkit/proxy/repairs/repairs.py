"""The repairs there are, and the ones that were asked for, applied to a request.

Takes names, then bodies; gives a body and what it shares with the client's. A body that cannot be read is passed on as
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from contextkit.canonical import Json, parse
from contextkit.errors import ContextKitError, UsageError
from contextkit.proxy.observer import Repaired
from contextkit.proxy.repairs.freeze_date import freeze_date
from contextkit.proxy.repairs.memory import Memories, Memory
from contextkit.proxy.repairs.place_breakpoints import place_breakpoints
from contextkit.proxy.repairs.sort_tools import sort_tools
from contextkit.proxy.repairs.splices import Rope

REPAIRS: Mapping[str, Callable[[Rope, str, Mapping[str, Json], Memory], Rope | None]] = {
    "freeze-date": freeze_date,
    "sort-tools": sort_tools,
    "place-breakpoints": place_breakpoints,
}
"""Name → repair, in the order they are applied."""
_ANTHROPIC_OPENAI = frozenset({"anthropic_messages", "openai_chat", "openai_responses"})
COVERS: Mapping[str, frozenset[str]] = {
    "freeze-date": _ANTHROPIC_OPENAI | {"gemini"},
    "sort-tools": _ANTHROPIC_OPENAI | {"gemini"},
    "place-breakpoints": _ANTHROPIC_OPENAI,
}
"""Name → the wires whose bodies it mends; any other passes as it is. Bedrock's are signed by the client, body and all.
"""


class Repairs:
    """Some of them; call it with a wire and a body."""

    __slots__ = ("_memories", "_names")

    def __init__(self, names: Sequence[str]) -> None:
        """Raises `UsageError` for a name there is not."""
        unknown = [name for name in names if name not in REPAIRS]
        if unknown:
            raise UsageError(f"there is no repair {unknown[0]!r}: choose among {', '.join(REPAIRS)}")
        self._names = [name for name in REPAIRS if name in names]
        self._memories = Memories()

    def __call__(self, wire: str, body: bytes) -> Repaired | None:
        """The request to send in place of `body`, None where it is sent as it is."""
        names = [name for name in self._names if wire in COVERS[name]]
        try:
            fields = parse(body) if names else None
            memory = self._memories.of(wire, fields) if isinstance(fields, dict) else None
        except ContextKitError:
            return None  # not JSON: the provider will say so
        if memory is None:
            return None
        rope, done = Rope.of(body), list[str]()
        for name in names:
            changed = _applied(name, rope, wire, memory)
            rope = changed or rope
            done += [name] if changed else []
        return Repaired(bytes(rope), tuple(done), rope.shared()) if done else None


def _applied(name: str, rope: Rope, wire: str, memory: Memory) -> Rope | None:
    """The repaired body; None also where the request is none its rules are known for."""
    try:
        return REPAIRS[name](rope, wire, parse(bytes(rope)), memory)
    except (ContextKitError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # a model or a block nobody knows, a key spelled with escapes: better untouched than guessed
