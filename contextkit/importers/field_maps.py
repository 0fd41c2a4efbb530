"""Field maps: where the rows of a format keep the fields of a model call, as data.

Holds `FieldMap`, the paths of one format, and the lookups it is made of.

* A path is names of objects inside one another, joined by dots: `metadata.usage`. An object may stand as text.
* Several paths stand in one text with blanks between; the first with a value of the right kind counts.
* What is missing or malformed is unknown. A malformed count is a fault too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any, TypeVar

from contextkit.cache.usage import Usage
from contextkit.importers.provider_names import provider_and_model
from contextkit.importers.read_once import ReadOnce
from contextkit.importers.rows import Row, in_time, table
from contextkit.importers.source import Source
from contextkit.importers.spans import Counts, Reading, counted_usage
from contextkit.importers.transcript import dollars, plausible, recorded_id
from contextkit.ledger.calls import ModelCall

T = TypeVar("T")


def values_at(row: Mapping[str, Any], paths: str) -> Iterator[Any]:
    """Yield the values at some paths of a row, those that are null left out.

    >>> list(values_at({"a": {"b": 0}, "c": '{"d": 1}', "e": None}, "a.b e a.x c.d"))
    [0, 1]
    """
    for path in _names(paths):
        value: Any = row
        for name in path:
            value = (value if type(value) is dict else table(value)).get(name)
        if value is not None:
            yield value


@cache
def _names(paths: str) -> list[list[str]]:
    return [path.split(".") for path in paths.split()]


def value_at(row: Mapping[str, Any], paths: str) -> Any:
    """Return the first value at some paths; None if there is none."""
    return next(values_at(row, paths), None)


def first_at(row: Mapping[str, Any], paths: str, convert: Callable[[Any], T | None]) -> T | None:
    """Return the first value at some paths that `convert` makes something of; None if there is none.

    >>> first_at({"cost": "x", "spend": 0.5}, "cost spend", dollars)
    0.5
    """
    for value in values_at(row, paths):
        if converted := convert(value):
            return converted
    return None


def text_at(row: Mapping[str, Any], paths: str) -> str:
    """Return the first value at some paths as text; empty if there is none."""
    return first_at(row, paths, _text) or ""


def _text(value: object) -> str:
    return str(value or "")


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "id": recorded_id,
    "session": _text,
    "lane": _text,
    "at": plausible,
    "first_byte_at": plausible,
    "ended_at": plausible,
    "billed_usd": dollars,
}
"""Field of a `ModelCall` → what makes it of a value."""


UNTIMED = "no time, or one of a clock that was never set; the time of the row before stands in"


@dataclass(frozen=True, slots=True)
class FieldMap:
    """Paths of the fields of a model call, each empty for a field that the format does not have."""

    id: str = ""
    session: str = ""
    lane: str = ""
    at: str = ""
    first_byte_at: str = ""
    ended_at: str = ""
    provider: str = ""
    """Of the provider's name in anybody's words."""
    model: str = ""
    billed_usd: str = ""
    prompt: str = ""
    """Of the first of the token counts, which have the names of `Counts`."""
    read: str = ""
    write: str = ""
    output: str = ""
    total: str = ""
    reading: Reading = "unsaid"
    """Whether the prompt's count includes the cached tokens."""

    def id_of(self, row: Mapping[str, Any]) -> str:
        """Return the id of a row; empty if it has none of its own."""
        return first_at(row, self.id, recorded_id) or ""

    def columns(self, others: str) -> frozenset[str]:
        """Return the names in a row that the paths begin with, and `others` that a reader looks up itself."""
        return frozenset(path.partition(".")[0] for paths in (*astuple(self), others) for path in paths.split())

    def in_time(
        self, source: Source, once: ReadOnce, rows: Iterable[Row], size: Callable[[dict[str, Any]], int] = lambda _: 0
    ) -> Iterator[tuple[int, str, float, dict[str, Any]]]:
        """Yield line, id, time and content of each row that is new, by their times; `size` gives the bytes of a row."""
        timed = in_time(source, self._timed(source, rows), lambda row: row[0], lambda row: size(row[1]))
        for number, (line, (at, row)) in enumerate(timed):
            name = self.id_of(row) or f"{source.name}/{line}/{number} {at}"
            if once.is_new(name):
                yield line, name, at, row

    def _timed(self, source: Source, rows: Iterable[Row]) -> Iterator[tuple[int, tuple[float, dict[str, Any]]]]:
        last = 0.0
        for line, row in rows:
            at = first_at(row, self.at, plausible)
            if at is None:
                source.fault(line, UNTIMED)
            last = at or last
            yield line, (last, row)

    def counts(self, source: Source, line: int, row: Mapping[str, Any]) -> Counts:
        """Return the token counts of a row."""
        paths = self.prompt, self.read, self.write, self.output, self.total
        return Counts(*(source.count(line, value_at(row, path)) for path in paths))

    def usage(
        self,
        source: Source,
        line: int,
        row: Mapping[str, Any],
        provider: str,
        billed: tuple[Counts, Reading] | None = None,
    ) -> Usage | None:
        """Return what a row says was billed, by its token counts or those in `billed`."""
        usage = counted_usage(source, line, *billed or (self.counts(source, line, row), self.reading))
        return usage and usage.with_ttls_of(provider)

    def call(
        self,
        source: Source,
        line: int,
        row: Mapping[str, Any],
        *,
        names: tuple[str, str] | None = None,
        billed: tuple[Counts, Reading] | None = None,
        at: float | None = None,
        **fields: Any,
    ) -> ModelCall:
        """Make the call of a row.

        `fields` are those of the call that the format's reader works out itself, as are the names of provider and
        model, in anybody's words, and the token counts in `billed`. What is before a given `at` is unknown.
        """
        provider, model = provider_and_model(*names or (text_at(row, self.provider), text_at(row, self.model)))
        if "usage" not in fields:
            fields["usage"] = self.usage(source, line, row, provider, billed)
        for name, convert in _CONVERTERS.items():
            paths = getattr(self, name)
            if paths and name not in fields and (value := first_at(row, paths, convert)) is not None:
                fields[name] = value
        if at is not None:
            fields["at"] = at
            if (fields.get("first_byte_at") or at) < at:
                del fields["first_byte_at"]
            if (fields.get("ended_at") or at) < at:
                source.fault(line, "ends before it starts: a wrong clock; its end is unknown")
                del fields["ended_at"]
        return ModelCall(provider=provider, model=model, **fields)
