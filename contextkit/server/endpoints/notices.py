"""What the local provider accepted on an assumption: fields that no table knows, models without rules of their own,
retired models.

Each notice stands in the header `x-contextkit-warning` of every response it concerns, and once in the log, in `GET
/_contextkit/findings` and in `LocalServer.findings`.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from contextkit.canonical import Json
from contextkit.models import Model, assumption
from contextkit.providers.request_fields import MAX_NAMES, cache_effect, unlisted_fields
from contextkit.terminal import printable, sanitize

HEADER = "x-contextkit-warning"
"""Header that holds the text of one notice; given once for each."""
_MAX_NOTICES = 1000
"""Notices of one server: names in them come from whoever sends requests."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that was accepted on an assumption."""

    kind: str
    """`unknown_field`, `unknown_beta`, `assumed_model` or `retired_model`."""
    endpoint: str
    """The wire it was sent on: `openai_responses`."""
    name: str
    """The field, or the model."""
    text: str
    """What it is, what was done, and what to do; ASCII."""

    def json(self) -> Json:
        """Return the notice as `GET /_contextkit/findings` shows it."""
        return {"kind": self.kind, "endpoint": self.endpoint, "name": self.name, "text": self.text}


class Notices:
    """The notices of one server, each once."""

    def __init__(self) -> None:
        self._given: dict[Notice, None] = {}

    def give(self, notices: Iterable[Notice]) -> None:
        """Log those that were not given before."""
        for notice in notices:
            if notice not in self._given and len(self._given) < _MAX_NOTICES:
                self._given[notice] = None
                logging.getLogger("contextkit.server").warning(
                    "%s: %s", sanitize(notice.endpoint), sanitize(notice.text)
                )

    def all(self) -> list[Notice]:
        """In the order they were given."""
        return list(self._given)


def is_retired(model: Model, now: float) -> bool:
    """Return whether the provider no longer serves a model at `now`, seconds since 1970."""
    return bool(model.retired_on) and datetime.fromisoformat(model.retired_on).replace(tzinfo=UTC).timestamp() <= now


def of_model(endpoint: str, model: Model, now: float) -> tuple[Notice, ...]:
    """Return the notices of what is assumed of a model at `now`, seconds since 1970."""
    name = printable(model.name)
    if is_retired(model, now):
        text = f"model {name!r} was retired on {model.retired_on}: the provider refuses it, this server answers unless it is strict"
        return (Notice("retired_model", endpoint, name, text),)
    if model.is_assumed:
        return (Notice("assumed_model", endpoint, name, assumption(replace(model, name=name))),)
    return ()


def field_notices(endpoint: str, body: Mapping[str, Json], declared: Container[str]) -> tuple[Notice, ...]:
    """A notice for each top-level field that is not `declared` by the endpoint's SDK, and for each that no table lists."""
    undeclared = {name for name in body if name not in declared}
    names = sorted(undeclared.union(unlisted_fields(endpoint, body)))[:MAX_NAMES]
    return tuple(
        Notice(
            "unknown_field",
            endpoint,
            name,
            f"field {name!r} is not known: accepted, and {cache_effect(endpoint, name)}",
        )
        for name in map(printable, names)
    )
