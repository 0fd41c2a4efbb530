"""The preview of a content by its kind: an outline with line numbers, a table's header and ends, an object's keys and
shapes, an error's last frames.

Takes bytes, a kind and a size, gives text that is no longer. A content that is not what its kind says is shown as text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable
from contextkit.log.content import pixels
from contextkit.memory.preview.structure import PARSED_CHARACTERS, Page, outline, selected
from contextkit.memory.reference import line_starts, lines_of

_LONGEST = 400
"""Characters of one line that are shown."""
_OUTLINE_SHARE = 0.5
"""How much of a preview an outline takes at most."""
_LEAST_ROOM = 240
"""Characters of a preview that has room for an outline."""
_MEMBERS = 200
"""Keys of an object whose lines are looked up."""


def preview(content: bytes, kind: str, most_bytes: int) -> str:
    """At most about `most_bytes` of `content` that tell what it is and where to read on.

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
    room = most_bytes
    if kind not in _OPAQUE:
        n_characters = len(content.decode("utf-8", "replace"))
        room = most_bytes * n_characters // max(len(content), 1)
    try:
        shown = _PREVIEWS.get(kind, _text)(content, room)
    except (AssertionError, RecursionError, ValueError):  # a page or an object that its parser gives up on
        shown = _text(content, room)
    return shown if len(shown) <= room else _cut(shown, room)


def _cut(text: str, room: int) -> str:
    """Head and tail where the lines are too long to be told apart."""
    gap = f"\n[… {len(text) - room:,} characters …]\n"
    head = max((room - len(gap)) * 3 // 5, 0)
    tail = max(room - len(gap) - head, 0)
    return f"{text[:head]}{gap}{text[len(text) - tail :]}" if tail else text[:room]


def _text(content: bytes, room: int) -> str:
    return _outlined(content, "text", room)


def _markdown(content: bytes, room: int) -> str:
    return _outlined(content, "markdown", room)


def _code(content: bytes, room: int) -> str:
    return _outlined(content, "code", room)


def _outlined(content: bytes, kind: str, room: int) -> str:
    """An outline of what stands between head and tail, where the text has one."""
    text = content.decode("utf-8", "replace")
    if len(text) <= room:
        return text
    entries = outline(lines_of(text[:PARSED_CHARACTERS]), kind) if room >= _LEAST_ROOM else []
    if not entries:
        return _ends(text, room, 0.6)
    listed = "\n".join(["Outline, by line:", *selected(entries, int(room * _OUTLINE_SHARE))])
    return f"{listed}\n{_ends(text, room - len(listed) - 1, 0.6)}"


def _error(content: bytes, room: int) -> str:
    """The first line says what failed; the last ones where, and for most languages what."""
    return _ends(content.decode("utf-8", "replace"), room, 0.2)


def _table(content: bytes, room: int) -> str:
    """How large it is, the header and the first rows, then the last ones."""
    text = content.decode("utf-8", "replace")
    if len(text) <= room:
        return text
    lines = lines_of(text)
    separator = max(",;\t", key=lines[0].count)
    size = f"[{len(lines) - 1:,} rows, {lines[0].count(separator) + 1} columns]"
    return f"{size}\n{_ends(text, room - len(size) - 1, 0.3)}"


def _ends(text: str, room: int, share: float) -> str:
    """Head and tail, cut at lines, `share` of the room for the head, and which lines stand between."""
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
    """Head and tail of a text whose lines are long, cut anywhere."""
    starts = line_starts(text)
    head = int(room * share)
    tail = len(text) - (room - head)
    first, last = bisect_right(starts, head), bisect_right(starts, tail)
    return f"{text[:head]}\n[… lines {first} to {last} …]\n{text[tail:]}"


def _first_lines(lines: list[str], room: int) -> list[str]:
    """Lines from the first on that fit, one at least, long ones cut."""
    chosen = list[str]()
    for line in lines:
        room -= min(len(line), _LONGEST) + 1
        if chosen and room < 0:
            break
        chosen.append(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")
    return chosen


def _json(content: bytes, room: int) -> str:
    """Keys with their lines, lengths, and the first and last of each list."""
    try:
        value = parse(content)
    except NotSerialisable:
        return _json_lines(content, room)
    text = content.decode("utf-8", "replace")
    lines = _member_lines(text) if isinstance(value, dict) else {}
    return "\n".join([*(["Keys, by line:"] if lines else []), *_outline(value, "", room, lines)])


def _json_lines(content: bytes, room: int) -> str:
    """One object a line: how many there are, the first and the last."""
    text = content.decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        first, last = (parse(lines[place].encode()) for place in (0, -1))
    except (IndexError, NotSerialisable):
        return _text(content, room)
    head = f"{len(lines):,} lines of JSON, the first:"
    between = ["the last:", *_outline(last, "  ", room // 3, {})] if len(lines) > 1 else []
    return "\n".join([head, *_outline(first, "  ", room // 2, {}), *between])


def _member_lines(text: str) -> dict[str, int]:
    """Key of the object that `text` is → the line it stands in; empty where all of them stand in one."""
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


def _outline(value: Json, indent: str, room: int, lines: dict[str, int]) -> list[str]:
    if isinstance(value, dict) and value:
        inside = list[list[str]]()
        for key, item in value.items():
            number = f"{lines[key]}: " if key in lines else ""
            inside.append(_entry(f"{indent}{number}{key}", item, indent, room // 2))
        kept = _fitting(inside, room)
        more = [f"{indent}[… {len(inside) - len(kept)} more keys …]"] if len(kept) < len(inside) else []
        return [line for group in kept for line in group] + more
    if isinstance(value, list) and value:
        shown = [f"{indent}{len(value):,} items, the first:", *_outline(value[0], indent + "  ", room // 2, {})]
        if len(value) > 1 and room > _LONGEST:
            shown += [f"{indent}the last:", *_outline(value[-1], indent + "  ", room // 4, {})]
        return shown
    return [indent + _brief(value)]


def _entry(name: str, value: Json, indent: str, room: int) -> list[str]:
    if isinstance(value, list) and value:
        first, *more = _outline(value, indent + "  ", room, {})
        return [f"{name}: {first.strip()}", *more]
    if isinstance(value, dict) and value:
        return [f"{name}:", *_outline(value, indent + "  ", room, {})]
    return [f"{name}: {_brief(value)}"]


def _brief(value: Json) -> str:
    written = canonical(value).decode()
    return written if len(written) <= _LONGEST // 2 else f"{written[: _LONGEST // 2]}… ({len(written):,} characters)"


def _fitting(groups: list[list[str]], room: int) -> list[list[str]]:
    """The groups that fit, one at least; the rest of the room goes to the names of the others."""
    fitting = list[list[str]]()
    for lines in groups:
        chosen = lines
        if fitting and _size(lines) > room:
            chosen = [_brief_line(lines[0])]
        if fitting and _size(chosen) > room:
            break
        room -= _size(chosen)
        fitting.append(chosen)
    return fitting


def _size(lines: list[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _brief_line(line: str) -> str:
    return line if len(line) <= _LONGEST // 4 else f"{line[: _LONGEST // 4]}…"


def _html(content: bytes, room: int) -> str:
    text = content.decode("utf-8", "replace")
    page = Page(text[:PARSED_CHARACTERS])
    shown = [f"Title: {page.title}"] if page.title else []
    headings = [heading for heading in page.headings if heading.text]
    if headings:
        shown += ["Headings, by line:", *selected(headings, room // 2)]
    left = room - sum(len(line) + 1 for line in shown)
    words = " ".join(page.words)
    if words and left > 0:
        shown.append(words if len(words) <= left else _cut(words, left))
    return "\n".join(shown)


_PAGES = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PDF_TITLE = re.compile(rb"/Title\s*\(((?:[^()\\]|\\.){1,200})\)")


def _pdf(content: bytes, room: int) -> str:
    """What stands in it without a reader: pages (those not packed into object streams) and title."""
    n_pages, title = len(_PAGES.findall(content)), _PDF_TITLE.search(content)
    pages = f"a PDF of {n_pages} pages" if n_pages else "a PDF, its pages packed"
    return pages + (f", titled {title[1].decode('latin-1')!r}" if title else "")


def _image(content: bytes, room: int) -> str:
    size = pixels(content)
    return f"an image of {size[0]} x {size[1]} pixels" if size else "an image"


def _binary(content: bytes, room: int) -> str:
    return f"not text; it begins with {content[:16].hex(' ')}"


_PREVIEWS: dict[str, Callable[[bytes, int], str]] = {
    "text": _text,
    "error": _error,
    "markdown": _markdown,
    "code": _code,
    "csv": _table,
    "json": _json,
    "html": _html,
    "pdf": _pdf,
    "image": _image,
    "binary": _binary,
}
"""Kind → its preview."""
_OPAQUE = frozenset({"pdf", "image", "binary"})
"""Kinds whose bytes are no text."""
