r"""Terminal output: the one way out for text that people read, with everything escaped that a terminal would obey.

Model names, error texts, tool names and windows of prompts come from other programs. `\x1b]0;…\x07` sets a window's
title, a newline forges a line of a log, a bidirectional override turns text around. `sanitize` writes such characters
as escapes; `echo`, `echo_error`, `echo_json` and `rich_console` apply it. Nothing else in the package prints (a test
looks for it).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from rich.console import Console

_UNSAFE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
    r"|(?<![\u0590-\u1fff\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])[\u200c\u200d]"
)
"""C0 and C1 controls, DEL, bidirectional controls, separators of lines, what has no width and no use in print, tags,
halves of pairs, and joiners but behind letters and pictures that they join."""
_UNSAFE_IN_JSON = re.compile(_UNSAFE.pattern.replace(r"\x00-\x1f", r"\x00-\x09\x0b-\x1f"))
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_MAX_NAME_CHARACTERS = 200
_ASCII = str.maketrans({"·": "-", "→": "->", "≤": "<=", "≥": ">=", "…": "...", "×": "x"})


def printable(name: str) -> str:
    """A name that may be printed and put into a header: short, escaped ASCII.

    >>> printable("a\\r\\nb: c")
    'a%0D%0Ab: c'
    """
    return quote(name[:_MAX_NAME_CHARACTERS], safe=_PRINTABLE, errors="replace")


def sanitize(text: str, keep: str = "\n\t") -> str:
    r"""`text` with control characters written as escapes, those in `keep` aside.

    `keep=""` for what must stay on one line.

    >>> sanitize("red: \x1b[31m"), sanitize("a\nb", keep="")
    ('red: \\x1b[31m', 'a\\nb')
    """
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def sanitize_for(encoding: str, text: str, keep: str = "\n\t") -> str:
    """`sanitize` in characters that `encoding` has; our own signs in ASCII if it is not one of Unicode's.

    >>> sanitize_for("ascii", "1 → 2 ≤ 3"), sanitize_for("utf-8", "1 → 2")
    ('1 -> 2 <= 3', '1 → 2')
    """
    safe = sanitize(text, keep)
    if encoding.lower().startswith("utf"):
        return safe
    return safe.translate(_ASCII).encode(encoding, "replace").decode(encoding)


def sanitize_json(text: str) -> str:
    r"""JSON text that says the same, with control characters written as JSON's own escapes.

    >>> sanitize_json('{"model":"\x9b31m"}')
    '{"model":"\\u009b31m"}'
    """
    return _UNSAFE_IN_JSON.sub(lambda match: json.dumps(match[0])[1:-1], text)


def sanitize_html(text: str) -> str:
    r"""HTML that shows `text`: no markup, and control characters written as escapes.

    >>> sanitize_html("<b>\u202egnp.exe")
    '&lt;b&gt;\\u202egnp.exe'
    """
    return escape(sanitize(text))


def echo(text: str = "", *, nl: bool = True) -> None:
    """Print text for people on standard output.

    What its encoding lacks is written as an escape, our own signs in ASCII.
    """
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    _click_echo(sanitize(text) if is_unicode else sanitize(text).translate(_ASCII), nl=nl)


def echo_error(text: str) -> None:
    """Print one line on standard error: a newline in a name that it quotes forges no second one."""
    _click_echo(sanitize(text, keep="\t"), err=True)


def echo_status(text: str) -> None:
    """Overwrite the current line of standard error, a terminal, without ending it."""
    _click_echo(f"\r{sanitize(text, keep='')}", nl=False, err=True)


def echo_json(text: str | bytes) -> None:
    """Print JSON on standard output."""
    _click_echo(sanitize_json(text if isinstance(text, str) else text.decode()))


def echo_file(text: str) -> None:
    """Print the contents of a file for another program (a diff): verbatim, unless a terminal shows it."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    _click_echo(sanitize(text) if is_terminal else text)


def sanitized_cells(cells: Iterable[object]) -> list[object]:
    """A row of a CSV with its texts sanitized; newlines stay, as the format quotes them."""
    return [sanitize(cell) if isinstance(cell, str) else cell for cell in cells]


_PIECE_CHARACTERS = 1 << 20
"""What is handed over at once: a pipe whose reader has left is noticed early."""


def _click_echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    import click

    stream = sys.stderr if err else sys.stdout
    encoding = (getattr(stream, "encoding", None) or "utf-8") if stream is not None else "utf-8"
    written = text.encode(encoding, "backslashreplace").decode(encoding)
    for start in range(0, len(written), _PIECE_CHARACTERS):
        click.echo(written[start : start + _PIECE_CHARACTERS], nl=False, err=err)
    if nl:
        click.echo(err=err)


def rich_console(**options: Any) -> Console:
    """A console of rich that sanitizes the text of whatever it renders; its own styles and cursor movements stay.

    `options` are those of `rich.console.Console`; nothing is highlighted unless they say so.
    """
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
    from rich.measure import Measurement
    from rich.segment import Segment

    class Sanitized:
        """A renderable whose text is sanitized once it is rendered."""

        def __init__(self, inner: ConsoleRenderable) -> None:
            self._inner = inner

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for segment in console.render(self._inner, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(sanitize(segment.text), segment.style)

        def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
            return Measurement.get(console, options, self._inner)

    class Sanitizing(RenderHook):
        """Wraps everything that is printed."""

        def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
            return [Sanitized(renderable) for renderable in renderables]

    console = Console(**{"highlight": False, **options})
    console.push_render_hook(Sanitizing())
    return console
