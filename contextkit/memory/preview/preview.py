"""What is shown of a content by its kind: a table's header and ends, an object's outline, a page's headings, an error's
last frames.

Takes bytes, a kind and a size, gives text that is never much longer. A content that is not what its kind says is shown
as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable
from contextkit.log.content import pixels

_LONGEST = 400
"""Characters of one line that are shown."""


def preview(content: bytes, kind: str, most_characters: int) -> str:
    """At most about `most_characters` of `content` that tell what it is, its head and its tail.

    >>> print(preview(b"name,price" + b"".join(b"%cA%d,%d" % (10, i, i) for i in range(900)), "csv", 60))
    name,price
    A0,0
    [… 894 lines …]
    A895,895
    A896,896
    A897,897
    A898,898
    A899,899
    """
    shown = _SHOWN.get(kind, _text)(content, most_characters)
    return shown if len(shown) <= most_characters * 2 else _ends(shown, most_characters, 0.5)


def _text(content: bytes, most: int) -> str:
    return _ends(content.decode("utf-8", "replace"), most, 0.6)


def _error(content: bytes, most: int) -> str:
    """The first line says what failed; the last ones where, and for most languages what."""
    return _ends(content.decode("utf-8", "replace"), most, 0.2)


def _table(content: bytes, most: int) -> str:
    """The header and the first rows, then the last ones."""
    return _ends(content.decode("utf-8", "replace"), most, 0.3)


def _ends(text: str, most: int, share: float) -> str:
    """Head and tail, cut at lines, `share` of the room for the head."""
    if len(text) <= most:
        return text
    lines = text.splitlines()
    if len(lines) < 3 or max(map(len, (lines[0], lines[-1]))) > most * share:
        room = int(most * share)
        return f"{text[:room]}\n[… {len(text) - most:,} characters …]\n{text[len(text) - (most - room) :]}"
    head = _first_lines(lines, int(most * share))
    tail = _first_lines(lines[len(head) :][::-1], most - sum(map(len, head)))[::-1]
    n_left = len(lines) - len(head) - len(tail)
    return "\n".join([*head, *([f"[… {n_left:,} lines …]"] if n_left else []), *tail])


def _first_lines(lines: list[str], room: int) -> list[str]:
    """Lines from the first on that fit, one at least, long ones cut."""
    taken: list[str] = []
    for line in lines:
        room -= min(len(line), _LONGEST) + 1
        if taken and room < 0:
            break
        taken.append(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")
    return taken


def _json(content: bytes, most: int) -> str:
    """What it holds: keys, lengths, and the first of each list."""
    try:
        value = parse(content)
    except NotSerialisable:
        return _text(content, most)
    lines = _outline(value, "", most)
    return "\n".join(lines)


def _outline(value: Json, indent: str, most: int) -> list[str]:
    if isinstance(value, dict) and value:
        inside = [_entry(str(key), item, indent, most // 2) for key, item in value.items()]
        kept = _fitting(inside, most)
        more = [f"{indent}[… {len(inside) - len(kept)} more keys …]"] if len(kept) < len(inside) else []
        return [line for lines in kept for line in lines] + more
    if isinstance(value, list) and value:
        return [f"{indent}{len(value):,} items, the first:", *_outline(value[0], indent + "  ", most // 2)] + (
            [f"{indent}the last:", *_outline(value[-1], indent + "  ", most // 4)]
            if len(value) > 1 and most > _LONGEST
            else []
        )
    return [indent + _brief(value)]


def _entry(key: str, value: Json, indent: str, most: int) -> list[str]:
    if isinstance(value, dict | list) and value:
        return [f"{indent}{key}:", *_outline(value, indent + "  ", most)]
    return [f"{indent}{key}: {_brief(value)}"]


def _brief(value: Json) -> str:
    written = canonical(value).decode()
    return written if len(written) <= _LONGEST // 2 else f"{written[: _LONGEST // 2]}… ({len(written):,} characters)"


def _fitting(groups: list[list[str]], room: int) -> list[list[str]]:
    kept: list[list[str]] = []
    for lines in groups:
        room -= sum(map(len, lines))
        if kept and room < 0:
            break
        kept.append(lines)
    return kept


class _Page(HTMLParser):
    """Title, headings and words of a page; scripts and styles aside."""

    def __init__(self) -> None:
        super().__init__()
        self.title, self.headings, self.words = "", list[str](), list[str]()
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HEARD or tag in _UNHEARD:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            del self._inside[len(self._inside) - 1 - self._inside[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        words, inside = " ".join(data.split()), self._inside[-1] if self._inside else ""
        if not words or inside in _UNHEARD:
            return
        if inside == "title":
            self.title += words
        else:
            (self.headings if inside in _HEARD else self.words).append(words)


_UNHEARD = frozenset({"script", "style", "noscript", "template", "svg"})
_HEARD = frozenset({"title", "h1", "h2", "h3"})


def _html(content: bytes, most: int) -> str:
    page = _Page()
    page.feed(content.decode("utf-8", "replace"))
    page.close()
    title = [f"Title: {page.title}"] if page.title else []
    headings = _ends("\n".join(page.headings), most // 2, 0.7)
    listed = [f"Headings:\n{headings}"] if headings else []
    room = most - sum(map(len, (*title, *listed)))
    return "\n".join(
        [*title, *listed, *([_ends(" ".join(page.words), max(room, _LONGEST), 0.7)] if page.words else [])]
    )


_PAGES = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PDF_TITLE = re.compile(rb"/Title\s*\(((?:[^()\\]|\\.){1,200})\)")


def _pdf(content: bytes, most: int) -> str:
    """What can be told without a reader: pages (those not packed into object streams) and title."""
    n_pages, title = len(_PAGES.findall(content)), _PDF_TITLE.search(content)
    pages = f"a PDF of {n_pages} pages" if n_pages else "a PDF, its pages packed"
    return pages + (f", titled {title[1].decode('latin-1')!r}" if title else "")


def _image(content: bytes, most: int) -> str:
    size = pixels(content)
    return f"an image of {size[0]} x {size[1]} pixels" if size else "an image"


def _binary(content: bytes, most: int) -> str:
    return f"not text; it begins with {content[:16].hex(' ')}"


_SHOWN: dict[str, Callable[[bytes, int], str]] = {
    "text": _text,
    "error": _error,
    "csv": _table,
    "json": _json,
    "html": _html,
    "pdf": _pdf,
    "image": _image,
    "binary": _binary,
}
"""Kind → what is shown of it."""
