"""What the proxy tells the process that judges, as bytes on a pipe: a line of JSON, then the bodies as they are.

Takes calls that departed or ended, gives their bytes; and the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, BinaryIO

from contextkit.canonical import Json, canonical, parse
from contextkit.proxy.observer import Departed, Ended, ForecastRequest, Passed


@dataclass(frozen=True, slots=True)
class Hurry:
    """From here on calls are recorded and not analysed: the proxy is about to stop."""


Told = ForecastRequest | Departed | Ended | Passed | Hurry
"""What is told."""
_KINDS: dict[str, Callable[..., Told]] = {
    "forecastrequest": ForecastRequest,
    "departed": Departed,
    "ended": Ended,
    "passed": Passed,
    "hurry": Hurry,
}
_BODIES = ("body", "before")
"""Fields that follow the line."""


def framed(call: Told) -> bytes:
    """The bytes of one call."""
    values: dict[str, Any] = {field.name: getattr(call, field.name) for field in fields(call)}
    bodies = {name: body for name in _BODIES if (body := values.pop(name, None)) is not None}
    sizes = {name: len(body) for name, body in bodies.items()}
    line: Json = {"kind": type(call).__name__.lower(), "sizes": sizes, **values}
    return canonical(line) + b"\n" + b"".join(bodies.values())


def calls(pipe: BinaryIO) -> Iterator[Told]:
    """Every call on a pipe until it closes; one whose end is missing is left out."""
    while line := pipe.readline():
        if not line.endswith(b"\n"):
            return
        row: Json = parse(line)
        kind, sizes = _KINDS[row.pop("kind")], row.pop("sizes")
        bodies = {name: pipe.read(size) for name, size in sizes.items()}
        if any(len(bodies[name]) < size for name, size in sizes.items()):
            return
        yield kind(**{**_missing(kind), **row, **bodies})


def _missing(kind: Callable[..., Told]) -> dict[str, Any]:
    """A departed call that was not repaired has no body before."""
    return {"before": None} if kind in (ForecastRequest, Departed) else {}
