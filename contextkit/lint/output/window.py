"""The lines around a place in a source file, with what is meant underlined.

Takes a place and the lines of its file, gives lines of plain text; none where there is no such line.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from contextkit.lint.finding import CodePlace
from contextkit.terminal import sanitize

WIDEST = 160
"""Characters of a line that are shown; of a longer one the part around the place."""
BEFORE = 30
"""Characters of a longer line that are shown in front of the place."""
_NEWLINE = re.compile(r"\r\n|\r|\n")
"""What Python counts as the end of a line; str.splitlines knows more."""
_NOTHING: Mapping[str, bytes] = MappingProxyType({})


def window(place: CodePlace, lines: Sequence[str], around: int = 1) -> list[str]:
    """The line, `around` lines before and behind it, numbered, carets under the expression.

    `lines` are those of the file.
    """
    if not 1 <= place.line <= len(lines):
        return []
    numbers = range(max(1, place.line - around), min(len(lines), place.line + around) + 1)
    margin = len(str(numbers[-1]))
    cut = max(0, place.column - 1 - BEFORE) if len(lines[place.line - 1]) > WIDEST else 0
    shown = [f"{' ' * margin} |"]
    for number in numbers:
        line = lines[number - 1]
        shown.append(f"{number:>{margin}} | {sanitize(line[cut : cut + WIDEST], keep=chr(9))}".rstrip())
        if number == place.line:
            shown.append(f"{' ' * margin} | {_carets(line, place, cut)}")
    return [*shown, f"{' ' * margin} |"]


def _carets(line: str, place: CodePlace, cut: int) -> str:
    """Under the expression, to the end of the line where it goes on in the next; tabs stay tabs, so that they line up."""
    start = min(place.column - 1, len(line))
    end = place.end_column - 1 if place.end_line == place.line else len(line)
    end = min(max(end, start + 1), max(len(line), start + 1), cut + WIDEST)
    lead = sanitize(line[cut:start], keep="\t")
    return re.sub(r"[^\t]", " ", lead) + "^" * max(1, len(sanitize(line[start:end], keep="")))


def lines_of(file: str, contents: Mapping[str, bytes] = _NOTHING) -> Sequence[str]:
    """A source file's lines in its own encoding; none of a file that is gone, or that no encoding fits.

    `contents` maps files to what they hold, where that does not stand on the disk.
    """
    try:
        if file not in contents and not Path(file).is_file():  # a pipe would be waited for
            return ()
        raw = contents[file] if file in contents else Path(file).read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return _NEWLINE.split(raw.decode(encoding))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ()
