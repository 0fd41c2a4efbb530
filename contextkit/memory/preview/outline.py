"""The outline of a text, with line numbers: headings, signatures, the files of a diff or of search results.

Takes text, gives entries and those that fit. Patterns are tried a line at a time (a page's tags on the whole of it) and
none is a parser: a wrong guess costs a worse outline, never content. Lines are counted as `read_reference` counts them.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from contextkit.memory.reference import line_starts

ENTRY_CHARACTERS = 120
"""An entry of an outline shows no more of its line."""

_NUMBERED = re.compile(r"\s*\d+(?:→|\t|: |\| ?| {2,})")
"""A line number that a tool put in front of a line, as readers of files do."""
HEADING = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<text>\S.*?)[ \t]*#*")
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
_SILENT = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|noscript|template|svg)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL
)
"""What a page does not show."""
_PAGE_TITLE = re.compile(r"<title[^<>]*>([^<]{1,500})", re.IGNORECASE)
_PAGE_HEADING = re.compile(r"<h([1-4])\b[^<>]*>((?:[^<]|<(?!/?h[1-6]\b)){0,500})</h\1", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


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


def outline(lines: Sequence[str], kind: str) -> list[Heading]:
    """Return the entries of Markdown or code as their kind says, and of other text what it has enough of."""
    if kind == "markdown":
        return headings(lines)
    if kind == "code":
        return signatures(lines)
    for read, least in _OUTLINES:
        entries = read(lines)
        if len(entries) >= least:
            return entries
    return []


def headings(lines: Sequence[str]) -> list[Heading]:
    """Return the headings of Markdown, those within a fence aside.

    >>> [str(heading) for heading in headings(["# One", "```", "# no", "```", "## Two ##"])]
    ['1: One', '5:   Two']
    """
    numbered = ((number, plain_line(line)) for number, line in enumerate(lines, 1))
    matches = ((number, HEADING.fullmatch(line)) for number, line in unfenced(numbered))
    return [Heading(number, len(match["marks"]) - 1, match["text"]) for number, match in matches if match]


def signatures(lines: Sequence[str]) -> list[Heading]:
    """Return the functions, classes and types that code declares.

    >>> [str(entry) for entry in signatures(["class A:", "    def run(self) -> None:", "        return f(1)"])]
    ['1: class A:', '2:   def run(self) -> None:']
    """
    entries = list[Heading]()
    for number, line in enumerate(lines, 1):
        if len(line) > 500:
            continue
        signature = _SIGNATURE.fullmatch(plain_line(line).rstrip())
        if signature is not None:
            width = len(signature["indent"].expandtabs(4))
            entries.append(Heading(number, (width + 3) // 4, signature["text"].rstrip(" {")))
    return entries


def changed_files(lines: Sequence[str]) -> list[Heading]:
    """Return the files of a diff."""
    files = ((number, _DIFF.fullmatch(line)) for number, line in enumerate(lines, 1))
    return [Heading(number, 0, file["path"] or file["index"]) for number, file in files if file]


def matched_files(lines: Sequence[str]) -> list[Heading]:
    """Return the files of search results, where most lines are such; each with how many lines it has."""
    first, counts = dict[str, int](), Counter[str]()
    for number, line in enumerate(lines, 1):
        if (match := _MATCH.match(line)) is not None:
            first.setdefault(match["path"], number)
            counts[match["path"]] += 1
    if 2 * counts.total() < len(lines):
        return []
    return [Heading(number, 0, f"{path} ({counts[path]})") for path, number in first.items()]


_OUTLINES: tuple[tuple[Callable[[Sequence[str]], list[Heading]], int], ...] = (
    (changed_files, 1),
    (matched_files, 2),
    (headings, 2),
    (signatures, 3),
)
"""Outlines tried on text of no known kind, and how many entries make one."""


def selected(entries: Sequence[Heading], room: int) -> list[str]:
    """Return lines of an outline that fit into `room` characters: upper levels whole, of the next as many as fit."""
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
    """Choose as many entries as fit, spread over all of them."""
    n = max(0, min(len(entries), room * len(entries) // max(_size(entries), 1)))
    while n:
        picked = [entries[index * len(entries) // n] for index in range(n)]
        if _size(picked) <= room:
            return picked
        n -= 1
    return []


def _size(entries: Iterable[Heading]) -> int:
    return sum(len(str(entry)) + 1 for entry in entries)


def plain_line(line: str) -> str:
    """Return a line without the number that a tool put in front of it."""
    return line[match.end() :] if (match := _NUMBERED.match(line)) else line


def unfenced(lines: Iterable[tuple[int, str]]) -> Iterable[tuple[int, str]]:
    """The numbered lines that stand within no fence."""
    is_fenced = False
    for number, line in lines:
        if _FENCE.match(line):
            is_fenced = not is_fenced
        elif not is_fenced:
            yield number, line


def page_title(page: str) -> str:
    """Return the title of a page of HTML, else its first heading; "" where it has none."""
    title = _PAGE_TITLE.search(page) or _PAGE_HEADING.search(page)
    return page_words(title[title.lastindex or 0]) if title else ""


def page_headings(page: str) -> list[Heading]:
    """Return the headings of a page of HTML."""
    starts = line_starts(page)
    entries = (
        Heading(bisect_right(starts, match.start()), int(match[1]) - 1, page_words(match[2]))
        for match in _PAGE_HEADING.finditer(_SILENT.sub(lambda silent: " " * len(silent[0]), page))
    )
    return [entry for entry in entries if entry.text]


def page_words(page: str) -> str:
    """Return what a page of HTML, or a piece of one, shows, in one line.

    >>> page_words("<p>Cards &amp; <b>prices</b><script>no()</script>")
    'Cards & prices'
    """
    return " ".join(html.unescape(_TAG.sub(" ", _SILENT.sub(" ", page))).split())
