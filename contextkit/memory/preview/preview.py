"""The preview of a content by its kind: an outline with line numbers, a table's header and ends, an object's keys and
lengths, an error's last frames; and its title in lists.

Takes bytes, a kind and a size, gives text that is no longer. A content that is not what its kind says is shown as text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable
from contextkit.log.content import pixels
from contextkit.memory.preview.outline import (
    headings,
    outline,
    page_headings,
    page_title,
    page_words,
    plain_line,
    selected,
)
from contextkit.memory.reference import line_starts, lines_of, one_line

_TITLE_CHARACTERS = 80
"""A title is no longer."""
_PARSED_CHARACTERS = 1_000_000
"""So much of a text is searched for headings, signatures and titles."""
_LONGEST = 400
"""Characters of one line that are shown."""
_LEAST_ROOM = 240
"""Characters of a preview that has room for an outline, which takes half of it at most."""
_MEMBERS = 200
"""Keys of an object whose lines are looked up."""
_VALUE = 80
"""Characters of a member's value that are shown at least."""
_PAGES = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PDF_TITLE = re.compile(rb"/Title\s*\(((?:[^()\\]|\\.){1,200})\)")


def preview(content: bytes, kind: str, most_bytes: int) -> str:
    """Return at most about `most_bytes` of `content` that tell what it is and where to read on.

    Lines are numbered as `read_reference` counts them. Deterministic, and raises nothing.

    >>> print(preview(b"name,price" + b"".join(b"%cA%d,%d" % (10, i, i) for i in range(900)), "csv", 120))
    [900 rows, 2 columns]
    name,price
    A0,0
    A1,1
    [… lines 4 to 896 …]
    A895,895
    A896,896
    A897,897
    A898,898
    A899,899
    """
    if kind in _OPAQUE:
        return _cut(_OPAQUE[kind](content), most_bytes)
    text = content.decode("utf-8", "replace")
    room = most_bytes * len(text) // max(len(content), 1)
    try:
        shown = _outlined(text, kind, room) if kind not in _PREVIEWS else _PREVIEWS[kind](text, room)
    except (NotSerialisable, IndexError, RecursionError, ValueError):  # not the object that its kind says
        shown = _outlined(text, "text", room)
    return _cut(shown, room)


def title_of(content: bytes, kind: str, source: str | None = None) -> str:
    """Name a content in a list: its title or first heading, the name of its file, its first line.

    Never raises, and is one line of at most 80 characters.

    >>> title_of(b"# Prices" + bytes([10]) + b"Of cards.", "markdown"), title_of(b"a,b", "csv", "data/gpus.csv")
    ('Prices', 'gpus.csv')
    """
    text = "" if kind in _OPAQUE else content[:_PARSED_CHARACTERS].decode("utf-8", "replace")
    title = ""
    if kind == "html":
        title = page_title(text)
    elif kind == "markdown":
        title = next((heading.text for heading in headings(lines_of(text[:40_000]))), "")
    elif kind == "json":
        title = _json_title(text)
    name = (source or "").rstrip("/").rpartition("/")[2]
    first = next((line for line in map(plain_line, lines_of(text[:4_000])) if line.strip()), "")
    return one_line(title or name or first, _TITLE_CHARACTERS)


def _json_title(text: str) -> str:
    """Return the value of a key that names a thing, as far as one stands on top."""
    try:
        value = parse(text.encode())
    except NotSerialisable:
        return ""
    item = value[0] if isinstance(value, list) and value else value
    names = [item.get(key) for key in ("title", "name", "path", "url", "id")] if isinstance(item, dict) else []
    return next((name for name in names if isinstance(name, str) and name.strip()), "")


def _cut(text: str, room: int) -> str:
    """Return a text, head and tail of it where it is longer than `room` all the same."""
    if len(text) <= room:
        return text
    gap = f"\n[… {len(text) - room:,} characters …]\n"
    head = max((room - len(gap)) * 3 // 5, 0)
    tail = max(room - len(gap) - head, 0)
    return f"{text[:head]}{gap}{text[len(text) - tail :]}" if tail else text[:room]


def _outlined(text: str, kind: str, room: int) -> str:
    """Return head and tail, behind an outline of what stands between where the text has one."""
    if len(text) <= room:
        return text
    entries = outline(lines_of(text[:_PARSED_CHARACTERS]), kind) if room >= _LEAST_ROOM else []
    if not entries:
        return _ends(text, room, 0.6)
    listed = "\n".join(["Outline, by line:", *selected(entries, room // 2)])
    return f"{listed}\n{_ends(text, room - len(listed) - 1, 0.6)}"


def _error(text: str, room: int) -> str:
    """Return the first line, which says what failed, and the last ones: where, and for most languages what."""
    return _ends(text, room, 0.2)


def _table(text: str, room: int) -> str:
    """Say how large it is, then the header and the first rows, then the last ones."""
    if len(text) <= room:
        return text
    lines = lines_of(text)
    separator = max(",;\t", key=lines[0].count)
    size = f"[{len(lines) - 1:,} rows, {lines[0].count(separator) + 1} columns]"
    return f"{size}\n{_ends(text, room - len(size) - 1, 0.3)}"


def _ends(text: str, room: int, share: float) -> str:
    """Return head and tail, cut at lines, `share` of the room for the head, and which lines stand between."""
    if len(text) <= room:
        return text
    lines = lines_of(text)
    room -= len(f"[… lines {len(lines)} to {len(lines)} …]") + 2
    if len(lines) < 3 or max(len(lines[0]), len(lines[-1])) > room * share:
        return _split(text, max(room, 2), share)
    head = _first_lines(lines, int(room * share))
    tail = _first_lines(lines[len(head) :][::-1], room - sum(len(line) + 1 for line in head))[::-1]
    first, last = len(head) + 1, len(lines) - len(tail)
    gap = [f"[… lines {first} to {last} …]"] if first <= last else []
    return "\n".join([*head, *gap, *tail])


def _split(text: str, room: int, share: float) -> str:
    """Return head and tail of a text whose lines are long, cut anywhere."""
    starts = line_starts(text)
    head = int(room * share)
    tail = len(text) - (room - head)
    first, last = bisect_right(starts, head), bisect_right(starts, tail)
    return f"{text[:head]}\n[… lines {first} to {last} …]\n{text[tail:]}"


def _first_lines(lines: list[str], room: int) -> list[str]:
    """Return the lines from the first on that fit, one at least, long ones cut."""
    chosen = list[str]()
    for line in lines:
        room -= min(len(line), _LONGEST) + 1
        if chosen and room < 0:
            break
        chosen.append(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")
    return chosen


def _json(text: str, room: int) -> str:
    """Return keys with their lines and lengths, and the first and last of each list; of JSON Lines the ends."""
    try:
        value = parse(text.encode())
    except NotSerialisable:
        lines = [line for line in text.splitlines() if line.strip()]
        first, last = (parse(line.encode()) for line in (lines[0], lines[-1]))
        return "\n".join(_first_and_last(f"{len(lines):,} lines of JSON", first, last, room))
    if isinstance(value, list) and value:
        return "\n".join(_first_and_last(f"{len(value):,} items", value[0], value[-1], room))
    if not isinstance(value, dict):
        return _outlined(text, "text", room)
    numbers = _member_lines(text)
    return "\n".join([*(["Keys, by line:"] if numbers else []), *_members(value, "", room, numbers)])


def _first_and_last(what: str, first: Json, last: Json, room: int) -> list[str]:
    before = [f"{what}, the first:", *_members(first, "  ", room // 2, {})]
    return [*before, "the last:", *_members(last, "  ", room // 3, {})]


def _members(value: Json, indent: str, room: int, numbers: Mapping[str, int]) -> list[str]:
    """Return a line for each key that fits, one at least, with the number of its line."""
    if not isinstance(value, dict):
        return [indent + _brief(value, room)]
    lines, share = list[str](), room // max(len(value), 1)
    for key, item in value.items():
        number = f"{numbers[key]}: " if key in numbers else ""
        line = f"{indent}{number}{key}: {_brief(item, share)}"
        room -= len(line) + 1
        if lines and room < 0:
            return [*lines, f"{indent}[… {len(value) - len(lines)} more keys …]"]
        lines.append(line)
    return lines


def _brief(value: Json, room: int) -> str:
    """Return a value in one line: of a list its length and ends, of what is long its beginning."""
    if isinstance(value, list) and len(value) > 1:
        return (
            f"{len(value):,} items, the first: {_brief(value[0], room // 3)}, the last: {_brief(value[-1], room // 3)}"
        )
    written, room = canonical(value).decode(), max(room, _VALUE)
    return written if len(written) <= room else f"{written[:room]}… ({len(written):,} characters)"


def _member_lines(text: str) -> dict[str, int]:
    """Return key of the object that `text` is → the line it stands in; empty where all of them stand in one."""
    starts, decoder, lines = line_starts(text), json.JSONDecoder(strict=False), dict[str, int]()
    if len(starts) < 2:
        return {}
    at = text.find("{") + 1
    while len(lines) < _MEMBERS:
        at = _after_space(text, at)
        if at >= len(text) or text[at] != '"':
            break
        line = bisect_right(starts, at)
        key, at = decoder.raw_decode(text, at)
        _, at = decoder.raw_decode(text, _after_space(text, _after_space(text, at) + 1))
        lines[key] = line
        at = _after_space(text, at) + 1
    return lines


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _page(text: str, room: int) -> str:
    """Return a page's title, its headings and its first words."""
    text = text[:_PARSED_CHARACTERS]
    title, entries = page_title(text), page_headings(text)
    shown = [f"Title: {title}"] if title else []
    if entries:
        shown += ["Headings, by line:", *selected(entries, room // 2)]
    left = room - sum(len(line) + 1 for line in shown)
    if left > 0:
        shown.append(_cut(page_words(text), left))
    return "\n".join(shown)


def _pdf(content: bytes) -> str:
    """Say what stands in it without a reader: pages (those not packed into object streams) and title."""
    n_pages, title = len(_PAGES.findall(content)), _PDF_TITLE.search(content)
    pages = f"a PDF of {n_pages} pages" if n_pages else "a PDF, its pages packed"
    return pages + (f", titled {title[1].decode('latin-1')!r}" if title else "")


def _image(content: bytes) -> str:
    size = pixels(content)
    return f"an image of {size[0]} x {size[1]} pixels" if size else "an image"


def _binary(content: bytes) -> str:
    return f"not text; it begins with {content[:16].hex(' ')}"


_PREVIEWS: dict[str, Callable[[str, int], str]] = {"error": _error, "csv": _table, "json": _json, "html": _page}
"""Kind → its preview; of all other text an outline."""
_OPAQUE: dict[str, Callable[[bytes], str]] = {"pdf": _pdf, "image": _image, "binary": _binary}
"""Kind whose bytes are no text → its preview."""
