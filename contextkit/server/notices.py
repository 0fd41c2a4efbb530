"""What the local provider accepted on an assumption: fields that no table knows, models without rules of their own,
retired models.

Each notice stands in the header `x-contextkit-warning` of every answer it concerns, and once in the log, in `GET
/_contextkit/findings` and in `LocalServer.findings`. Takes texts; knows no request and no socket.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import quote

from contextkit.canonical import Json
from contextkit.models import Model, assumption
from contextkit.terminal import sanitize

HEADER = "x-contextkit-warning"
"""Header that holds the text of one notice; given once for each."""
_MOST, _MOST_CHARACTERS = 1000, 200
"""Notices kept, and characters of a name in one: names come from whoever sends requests."""
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that was accepted on an assumption."""

    kind: str
    """`unknown_field`, `assumed_model` or `retired_model`."""
    endpoint: str
    """The wire it was sent on: `openai_responses`."""
    name: str
    """The field, or the model."""
    text: str
    """What it is, what was done, and what to do; ASCII."""

    def json(self) -> Json:
        """As `GET /_contextkit/findings` shows it."""
        return {"kind": self.kind, "endpoint": self.endpoint, "name": self.name, "text": self.text}


class Notices:
    """The notices of one server, each once."""

    def __init__(self) -> None:
        self._given: dict[Notice, None] = {}

    def give(self, notices: Iterable[Notice]) -> None:
        """Log those that were not given before."""
        for notice in notices:
            if notice not in self._given and len(self._given) < _MOST:
                self._given[notice] = None
                logging.getLogger("contextkit.server").warning(
                    "%s: %s", sanitize(notice.endpoint), sanitize(notice.text)
                )

    def all(self) -> list[Notice]:
        """In the order they were given."""
        return list(self._given)


def unknown_fields(endpoint: str, body: Mapping[str, Json], known: Iterable[str]) -> tuple[Notice, ...]:
    """A notice for each top-level field that the endpoint's table does not name."""
    names = sorted(set(body) - set(known))[:_MOST]
    return tuple(
        Notice(
            "unknown_field",
            endpoint,
            _short(name),
            f"field {_short(name)!r} is not known: accepted, and neutral for the cache",
        )
        for name in names
    )


def is_retired(model: Model, now: float) -> bool:
    """Whether the provider no longer serves a model at `now`, seconds since 1970."""
    return bool(model.retired_on) and datetime.fromisoformat(model.retired_on).replace(tzinfo=UTC).timestamp() <= now


def of_model(endpoint: str, model: Model, now: float) -> tuple[Notice, ...]:
    """What is assumed of a model at `now`, seconds since 1970."""
    name = _short(model.name)
    if is_retired(model, now):
        text = f"model {name!r} was retired on {model.retired_on}: the provider refuses it, this server answers unless it is strict"
        return (Notice("retired_model", endpoint, name, text),)
    if model.is_assumed:
        return (Notice("assumed_model", endpoint, name, assumption(replace(model, name=name))),)
    return ()


def _short(name: str) -> str:
    """A name that may be printed and put into a header."""
    return quote(name[:_MOST_CHARACTERS], safe=_PRINTABLE, errors="replace")
