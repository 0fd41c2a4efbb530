"""The structure of a text with line numbers: headings, signatures, the files of a diff; and its title.

Takes text, gives entries of an outline. Patterns are tried a line at a time and none is a parser: a wrong guess costs a
worse outline, never content. Lines are counted as `read_reference` counts them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise

from contextkit.canonical import parse
from contextkit.errors import NotSerialisable
from contextkit.memory.reference import line_starts, lines_of

TITLE_CHARACTERS = 80
"""A title is no longer."""
ENTRY_CHARACTERS = 120
"""An entry of an outline shows no more of its line."""
PARSED_CHARACTERS = 1_000_000
"""So much of a text is searched for headings, signatures and titles."""

_NUMBERED = re.compile(r"\s*\d+(?:→|\t|: |\| ?| {2,})")
"""A line number that a tool put in front of a line, as readers of files do."""
_HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<text>\S.*?)[ \t]*#*")
_UNDERLINE = re.compile(r"(?:={3,}|-{3,})\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_MATCH = re.compile(r"(?P<path>[^\s:]+[./][^\s:]*)[:-]\d+[:-]")
"""A line of grep."""
_DIFF = re.compile(r"diff --git a/(?P<path>\S+) .*|Index: (?P<index>\S+)")

_ACCESS = (
    r"(?:(?:export|default|declare|public|private|protected|internal|static|final|abstract|override|open|sealed|partial|virtual|async"
    r"|unsafe|readonly|inline|suspend|data|const|extern|pub(?:\([^)]*\))?)\s+)*"
)
_TYPES = "class|interface|trait|enum|struct|record|object|protocol|extension|namespace|module|mod|union"
_SIGNATURES = (
    r"(?:async\s+)?def\s+\w+[\w.?!]*\s*(?:\(.*|$)",  # Python, Ruby
    r"class\s+\w+\s*(?:\(.*\))?:",  # Python
    rf"{_ACCESS}(?:{_TYPES})\s+[\w.:]+(?:\s*[<({{:].*|\s+(?:extends|implements|where|for)\b.*|\s*;?)",
    rf"{_ACCESS}function\b\*?\s*\w*\s*\(.*",  # JavaScript, PHP
    rf"{_ACCESS}(?:const|let|var)\s+\w+\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*(?::[^=]+)?=>|\w+\s*=>).*",
    r"(?:export\s+)?type\s+\w+(?:<.*>)?\s*=.*",  # TypeScript
    r"func\s+(?:\([^)]*\)\s*)?\w+\s*[(\[<].*",  # Go, Swift
    r"type\s+\w+(?:\[.*\])?\s+(?:struct|interface|func|map)\b.*",  # Go
    rf"{_ACCESS}(?:fn|fun)\s+[\w.<>]+\s*[(<].*",  # Rust, Kotlin
    r"impl\b.*\{",  # Rust
    r"(?:public|private|protected|internal|static|override|virtual|abstract)\s+[\w<>\[\],.?\s]*\w+\s*\([^;]*",  # Java, C#
    r"(?:async\s+|static\s+|get\s+|set\s+)*(?!(?:if|for|while|switch|catch|return|else|do|with|function)\b)\w+\s*\([^()]*\)\s*(?::[^{]+)?\{",
    r"(?i:create)\s+(?i:or\s+replace\s+)?(?i:table|view|function|procedure|trigger)\b.*",  # SQL
)
_SIGNATURE = re.compile(rf"(?P<indent>[ \t]*)(?P<text>{'|'.join(_SIGNATURES)})")
_IMPORT = re.compile(
    r"\s*(?:import\s|from\s+\S+\s+import\b|#include\b|package\s+[\w.]+;?$|using\s+[\w.]+;|use\s+\w+::|require\(|#!/)"
)
_CODE_LINE = re.compile(r".*[{};,(:\[\])]\s*$|\s*(?:#|//|/?\*|--|@\w|return\b|if\b|for\b|\w+\s*=\s)")


@dataclass(frozen=True, slots=True)
class Heading:
    """One entry of an outline."""

    line: int
    """Its line, from 1."""
    level: int
    """How deep it stands, from 0."""
    text: str
    """Its words."""

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        shown = text if len(text) <= ENTRY_CHARACTERS else f"{text[: ENTRY_CHARACTERS - 1]}…"
        return f"{self.line}: {'  ' * min(self.level, 3)}{shown}"


def headings(lines: Sequence[str]) -> list[Heading]:
    """The headings of Markdown, those within a fence aside.

    >>> [str(heading) for heading in headings(["# One", "```", "# no", "```", "## Two ##", "Three", "====="])]
    ['1: One', '5:   Two', '6: Three']
    """
    found, is_fenced = list[Heading](), False
    for number, line in enumerate(map(_plain, lines), 1):
        if _FENCE.match(line):
            is_fenced = not is_fenced
        elif is_fenced:
            continue
        elif (heading := _HEADING.fullmatch(line)) is not None:
            found.append(Heading(number, len(heading["marks"]) - 1, heading["text"]))
        elif number > 1 and _UNDERLINE.fullmatch(line) and _is_title(_plain(lines[number - 2]), line):
            found.append(Heading(number - 1, 0 if line[0] == "=" else 1, lines[number - 2].strip()))
    return found


def signatures(lines: Sequence[str]) -> list[Heading]:
    """The functions, classes and types that code declares.

    >>> [str(entry) for entry in signatures(["class A:", "    def run(self) -> None:", "        return f(1)"])]
    ['1: class A:', '2:   def run(self) -> None:']
    """
    found = list[Heading]()
    for number, line in enumerate(lines, 1):
        if len(line) > 500:
            continue
        plain = _plain(line)
        signature = _SIGNATURE.fullmatch(plain.rstrip())
        if signature is not None:
            width = len(signature["indent"].expandtabs(4))
            found.append(Heading(number, (width + 3) // 4, signature["text"].rstrip(" {")))
    return found


def changed_files(lines: Sequence[str]) -> list[Heading]:
    """The files of a diff."""
    found = list[Heading]()
    for number, line in enumerate(lines, 1):
        if (file := _DIFF.fullmatch(line)) is not None:
            found.append(Heading(number, 0, file["path"] or file["index"]))
    return found


def matched_files(lines: Sequence[str]) -> list[Heading]:
    """The files of search results, where most lines are such; each with how many lines it has."""
    paths = [found["path"] if (found := _MATCH.match(line)) else "" for line in lines]
    if 2 * sum(map(bool, paths)) < len(paths):
        return []
    first = {path: number for number, path in reversed(list(enumerate(paths, 1))) if path}
    counts = Counter(paths)
    found_files = sorted(first.items(), key=lambda pair: pair[1])
    return [Heading(number, 0, f"{path} ({counts[path]})") for path, number in found_files]


def outline(lines: Sequence[str], kind: str) -> list[Heading]:
    """The entries of a text: of Markdown and code what their kind says, of other text what it has enough of."""
    if kind == "markdown":
        return headings(lines)
    if kind == "code":
        return signatures(lines)
    for read, least in _OUTLINES:
        entries = read(lines)
        if len(entries) >= least:
            return entries
    return []


_OUTLINES: tuple[tuple[Callable[[Sequence[str]], list[Heading]], int], ...] = (
    (changed_files, 1),
    (matched_files, 2),
    (headings, 2),
    (signatures, 3),
)
"""Outlines tried on text of no known kind, and how many entries make one."""


def selected(entries: Sequence[Heading], room: int) -> list[str]:
    """Lines of an outline that fit into `room` characters: the upper levels whole, of the next as many as fit, evenly."""
    chosen = list[Heading]()
    for level in sorted({entry.level for entry in entries}):
        more = [entry for entry in entries if entry.level == level]
        left = room - _size(chosen)
        if _size(more) > left:
            chosen += _evenly(more, left)
            break
        chosen += more
    n_left = len(entries) - len(chosen)
    lines = [str(entry) for entry in sorted(chosen, key=lambda entry: entry.line)]
    return [*lines, f"[… {n_left} more …]"] if n_left else lines


def _evenly(entries: Sequence[Heading], room: int) -> list[Heading]:
    """As many entries as fit, spread over all of them."""
    n = max(0, min(len(entries), room * len(entries) // max(_size(entries), 1)))
    while n:
        picked = [entries[index * len(entries) // n] for index in range(n)]
        if _size(picked) <= room:
            return picked
        n -= 1
    return []


def _size(entries: Iterable[Heading]) -> int:
    return sum(len(str(entry)) + 1 for entry in entries)


def _plain(line: str) -> str:
    """A line without the number that a tool put in front of it."""
    return line[found.end() :] if (found := _NUMBERED.match(line)) else line


def _is_title(line: str, underline: str) -> bool:
    return bool(line.strip()) and not line.startswith((" ", "\t", "|", "-", ">")) and len(underline.strip()) >= 3


# Kinds of text
# ----------------------------------------------------------------------------------------------------------------------


def is_code(lines: Sequence[str]) -> bool:
    """Whether these lines are source code: one declares or imports something, and half of them look the part."""
    written = [line for line in _unfenced(map(_plain, lines)) if line.strip()]
    if len(written) < 3:
        return False
    strong = sum(1 for line in written if _IMPORT.match(line)) + len(signatures(written))
    return strong > 0 and 2 * sum(1 for line in written if _CODE_LINE.match(line) or _IMPORT.match(line)) >= len(
        written
    )


def _unfenced(lines: Iterable[str]) -> Iterable[str]:
    is_fenced = False
    for line in lines:
        if _FENCE.match(line):
            is_fenced = not is_fenced
        elif not is_fenced:
            yield line


def is_markdown(lines: Sequence[str]) -> bool:
    """Whether these lines are Markdown: a heading with an empty line behind it."""
    return any(_HEADING.fullmatch(_plain(line)) and not _plain(after).strip() for line, after in pairwise(lines))


# HTML
# ----------------------------------------------------------------------------------------------------------------------

_SILENT = frozenset({"script", "style", "noscript", "template", "svg"})
_TITLES = frozenset({"title", "h1", "h2", "h3", "h4"})


class Page(HTMLParser):
    """Title, headings and words of a page; scripts and styles aside."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.title, self.headings, self.words = "", list[Heading](), list[str]()
        self._starts = line_starts(text)
        self._newlines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enter a heading, or what is left out."""
        if tag in _TITLES or tag in _SILENT:
            self._inside.append(tag)
            if tag[0] == "h":
                self.headings.append(Heading(self._line(), int(tag[1]) - 1, ""))

    def handle_endtag(self, tag: str) -> None:
        """Leave it."""
        if tag in self._inside:
            del self._inside[len(self._inside) - 1 - self._inside[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        """Take words."""
        words, inside = " ".join(data.split()), self._inside[-1] if self._inside else ""
        if not words or inside in _SILENT:
            return
        if inside == "title":
            self.title = f"{self.title} {words}".strip()
        elif inside:
            last = self.headings[-1]
            self.headings[-1] = Heading(last.line, last.level, f"{last.text} {words}".strip())
        else:
            self.words.append(words)

    def _line(self) -> int:
        line, column = self.getpos()
        return bisect_right(self._starts, self._newlines[line - 1] + column)


# Titles
# ----------------------------------------------------------------------------------------------------------------------


def title_of(content: bytes, kind: str, source: str | None = None) -> str:
    """The name of a content in a list: its title or first heading, the name of its file, its first line.

    Never raises, and is one line of at most 80 characters.

    >>> title_of(b"# Prices" + bytes([10]) + b"Of cards.", "markdown"), title_of(b"a,b", "csv", "data/gpus.csv")
    ('Prices', 'gpus.csv')
    """
    text = content[:PARSED_CHARACTERS].decode("utf-8", "replace") if kind not in ("pdf", "image", "binary") else ""
    titled = _TITLE_OF[kind](text) if kind in _TITLE_OF else ""
    name = (source or "").rstrip("/").rpartition("/")[2]
    first = next((line for line in map(_plain, lines_of(text[:4_000])) if line.strip()), "")
    return _one_line(titled or name or first)


def _one_line(text: str) -> str:
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:1_000]).split())
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def _html_title(text: str) -> str:
    page = Page(text[: PARSED_CHARACTERS // 10])
    return page.title or next((heading.text for heading in page.headings if heading.text), "")


def _markdown_title(text: str) -> str:
    return next((heading.text for heading in headings(lines_of(text[:40_000]))), "")


def _json_title(text: str) -> str:
    """The value of a key that names a thing, as far as one stands on top."""
    try:
        value = parse(text.encode())
    except NotSerialisable:
        return ""
    item = value[0] if isinstance(value, list) and value else value
    names = [item.get(key) for key in ("title", "name", "path", "url", "id")] if isinstance(item, dict) else []
    return next((name for name in names if isinstance(name, str) and name.strip()), "")


_TITLE_OF = {"html": _html_title, "markdown": _markdown_title, "json": _json_title}
