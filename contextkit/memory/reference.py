"""A content that stands in a file instead of the window, and how it is named there.

Takes contents and log entries, gives names for contents and lines of them; the bytes are in a `FileMemory`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import FileMissing, InvalidCall
from contextkit.log.entry import Entry

ID_DIGITS = 16
"""Hexadecimal digits of a digest that name a reference: 64 bits, a billion references collide with a chance of 3 %."""
FEWEST_DIGITS = 6
"""Of a digest, that may name a reference where no other begins so."""
LINE_CHARACTERS = 2_000
"""A longer line is read as several: minified JSON and HTML are one line otherwise."""
CALL_CHARACTERS = 120
"""So much of a call's arguments stands in a list."""
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What `splitlines` splits at."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What is kept elsewhere, and where it stood."""

    digest: str
    """SHA-256 of the content, 64 hexadecimal digits."""
    n_bytes: int
    """Its size."""
    kind: str
    """text, error, json, csv, html, image, pdf or binary."""
    part: int = 0
    """Which part of the result it was."""
    form: tuple[tuple[str, str], ...] = (("type", "text"),)
    """The other fields of that part."""
    field: str = "text"
    """The field that held it: `text`, or `data` (base64)."""
    source: str | None = None
    """URL or path it came from; the content can be got there again, and is checked against the digest."""
    tool: str = ""
    """The tool that returned it; "" where an earlier version wrote the entry."""
    call: str = ""
    """The arguments of the call that returned it, shortened: `url="https://example.com"`."""
    title: str = ""
    """What it is called in a list: its title or first heading, the name of its file, its first line."""

    @property
    def id(self) -> str:
        """What the model calls it."""
        return self.digest[:ID_DIGITS]

    @property
    def body(self) -> dict[str, Json]:
        """As an entry keeps it."""
        body: dict[str, Json] = {"digest": self.digest, "n_bytes": self.n_bytes, "kind": self.kind, "part": self.part}
        body |= {"form": dict(self.form), "field": self.field}
        optional = {"source": self.source, "tool": self.tool, "call": self.call, "title": self.title}
        return body | {name: value for name, value in optional.items() if value}

    @classmethod
    def of(cls, body: Mapping[str, Json]) -> Reference:
        """The reference an entry keeps; fields of later versions are passed over.

        >>> Reference.of(Reference("ab" * 32, 9, "json").body).id
        'abababababababab'
        """
        values = {name: body[name] for name in _FIELDS if name in body}
        return cls(**{**values, "form": tuple(body["form"].items())})

    @property
    def line(self) -> str:
        """What it is, in one line of a list.

        >>> Reference("ab" * 32, 2_048, "html", tool="fetch", call='url="https://a.b"', title="Prices").line
        'abababababababab: fetch(url="https://a.b"), "Prices", html, 2,048 bytes'
        """
        called = f"{self.tool}({self.call})" if self.tool else ""
        source = self.source if self.source and self.source not in self.call else ""
        title = f'"{self.title}"' if self.title and self.title not in self.call else ""
        parts = [called, source and f"from {source}", title, self.kind, f"{self.n_bytes:,} bytes"]
        return f"{self.id}: {', '.join(filter(None, parts))}"


_FIELDS = tuple(field.name for field in fields(Reference))


class References:
    """Every reference of a memory, by id."""

    __slots__ = ("_by_id",)

    def __init__(self, references: Iterable[Reference] = ()) -> None:
        self._by_id: dict[str, Reference] = {}
        for reference in references:
            self.add(reference)

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, reference: Reference) -> None:
        """Know one more."""
        self._by_id[reference.id] = reference

    def get(self, id: str) -> Reference | None:
        """The reference of exactly this id; None where there is none."""
        return self._by_id.get(id)

    def named(self, name: str) -> Reference:
        """By its id, or enough of its digest to tell it from the others. Raises `FileMissing`."""
        wanted = name.strip().lower()
        exact = self._by_id.get(wanted[:ID_DIGITS])
        if exact is not None and exact.digest.startswith(wanted):
            return exact
        found = (
            [one for one in self._by_id.values() if one.digest.startswith(wanted)]
            if len(wanted) >= FEWEST_DIGITS
            else []
        )
        if len(found) == 1:
            return found[0]
        known = ", ".join([one.id for one in found] or list(self._by_id)[-5:]) or "none yet"
        how_many = f"{len(found)} references are named" if found else "no reference is named"
        raise FileMissing(f"{how_many} {name!r}; {'they' if found else 'the latest'} are: {known}")


def lines_of(text: str) -> list[str]:
    """Lines as `read_reference` counts them: one of more than 2,000 characters is several.

    >>> [len(line) for line in lines_of("short" + chr(10) + "x" * 4_500)]
    [5, 2000, 2000, 500]
    """
    return [
        line[at : at + LINE_CHARACTERS]
        for line in text.splitlines()
        for at in range(0, max(len(line), 1), LINE_CHARACTERS)
    ]


def line_starts(text: str) -> list[int]:
    """Where each of `lines_of` begins, in characters.

    >>> line_starts("one" + chr(10) + "x" * 2_500 + chr(10) + "end")
    [0, 4, 2004, 2505]
    """
    starts, at = list[int](), 0
    for line in text.splitlines(keepends=True):
        starts.extend(range(at, at + max(len(line.rstrip(_LINE_ENDS)), 1), LINE_CHARACTERS))
        at += len(line)
    return starts


def passage(text: str, start_line: int, n_lines: int | None, most_bytes: int) -> str:
    """Lines of `text` from `start_line` (1-based), and how to go on; None for as many as `most_bytes` holds.

    A rest of less than an eighth of `most_bytes` is included: another call would cost more. Raises `InvalidCall` for
    what is no range, in words for the model.
    """
    lines = lines_of(text)
    if start_line < 1 or (n_lines is not None and n_lines < 1):
        raise InvalidCall(
            f"start_line={start_line}, n_lines={n_lines}: lines are counted from 1, and at least one is read"
        )
    if start_line > max(len(lines), 1):
        raise InvalidCall(f"start_line={start_line}: there are {len(lines)} lines")
    end = len(lines) if n_lines is None else start_line - 1 + n_lines
    shown = _fitting(lines[start_line - 1 : end], most_bytes)
    last = start_line + len(shown) - 1
    more = f"; go on with start_line={last + 1}" if last < len(lines) else ""
    return "\n".join([*shown, f"[lines {start_line} to {last} of {len(lines)}{more}]"])


def size_of_line(line: str) -> int:
    """Bytes of a line and its end."""
    return len(line.encode("utf-8", "replace")) + 1


def _fitting(lines: list[str], most_bytes: int) -> list[str]:
    """As many as fit, and one at least; all of them where what is left over is small."""
    n_fitting, n_bytes = 0, 0
    for line in lines:
        n_bytes += size_of_line(line)
        if n_bytes <= most_bytes or not n_fitting:
            n_fitting += 1
        elif n_bytes > most_bytes + most_bytes // 8:
            return lines[:n_fitting]
    return lines if n_bytes <= most_bytes + most_bytes // 8 else lines[:n_fitting]


def call_text(arguments: Mapping[str, Json] | str | None, most_characters: int = CALL_CHARACTERS) -> str:
    """The arguments of a call in one line.

    >>> call_text({"url": "https://example.com", "limit": 3})
    'url="https://example.com", limit=3'
    """
    if isinstance(arguments, Mapping):
        arguments = ", ".join(f"{name}={canonical(value).decode()}" for name, value in arguments.items())
    return one_line(arguments or "", most_characters)


def one_line(text: str, most_characters: int) -> str:
    """Return a text in one line of what can be printed, cut where it is longer."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text[: 2 * most_characters]).split())
    return line if len(line) <= most_characters else f"{line[: most_characters - 1]}…"


def references_of(entry: Entry) -> Iterator[Reference]:
    """The references an entry holds; an entry without any is not parsed."""
    if entry.kind in ("result", "epoch", "notice") and b'"references":' in entry.body:
        body = parse(entry.body)
        for holder in (body, *body.get("replaced", {}).values()):
            yield from map(Reference.of, holder.get("references", ()))
