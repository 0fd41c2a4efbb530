"""Paths and what stands at them: a path taken apart into names that mean one file on every system.

Takes text, gives a tuple of names; raises `PathRefused` with the reason. Touches no disk: what stands there, links
above all, is the folder's to look at.

The rules are the union of what Linux, macOS and Windows refuse or read as something else, so that a store moves between
them. Nothing is repaired: a path that needs repair was written by mistake or in bad faith, and a model corrects it from
the text of the error.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

from contextkit.errors import PathRefused

Names = tuple[str, ...]
"""A path taken apart; empty for the root."""

HIDDEN = ".contextkit"
"""The store's own folder in the root: versions, erasures, the lock. No path names it."""
UNFINISHED: Names = (HIDDEN, "unfinished")
"""Where files are written before they are moved to their places."""
LONGEST_NAME = 255
"""UTF-8 bytes a name may have: the limit of ext4, XFS, APFS (in bytes) and NTFS (in UTF-16 units), whichever is met
first."""
LONGEST_PATH = 1024
"""UTF-8 bytes a path may have: macOS' PATH_MAX, the smallest of the three."""
DEEPEST = 32
"""Names a path may have."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_-]{9,99}(?:\.[a-z0-9]{1,8})?")
"""What needs no closer look: too long to be reserved, no capital, no dot to lead or end with."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FORBIDDEN = re.compile(r'[\\:*?"<>|]')
"""A separator, a drive or stream, and what Windows lets no name hold."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
"""Unicode categories of what nobody sees or no two systems agree on: controls, joiners and direction marks, unassigned,
private."""
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$|clock\$)", re.IGNORECASE)
"""Names that are devices on Windows, whatever extension follows (learn.microsoft.com, "Naming Files, Paths, and
Namespaces")."""
_SHORT = re.compile(r"[^.]{1,6}~\d{1,6}(?:\.[^.]{0,3})?")
"""The 8.3 form by which Windows finds a longer name as well."""
_ESCAPE = re.compile(r"%(?:[01][0-9a-f]|7f|25|2e|2f|5c|c[01]|e0%80|f0%80|u)", re.IGNORECASE)
"""A control, `%`, `.`, `/` or `\\` as a store behind a web server may decode it: in one byte, in several (overlong
UTF-8), or in the form `%u002e`."""
_OVERLONG = re.compile("\xc0[\xa5\xae\xaf]")
"""`%`, `.` or `/` in two bytes of overlong UTF-8, read as Latin-1. Longer forms hold a control, which is refused."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What stands under one name."""

    name: str
    """The last name of its path."""
    kind: Literal["file", "folder", "other"]
    """`other`: a link, a file with a second name, a device: never followed, opened or listed."""
    n_bytes: int
    """Size of a file, 0 for all else."""


ROOT_STATUS = FileStatus("", "folder", 0)
"""The root of a store."""


def names_of(path: str) -> Names:
    """Take `path` apart into names, from the root; none for `""`.

    >>> names_of("notes/2026/plan.md")
    ('notes', '2026', 'plan.md')
    >>> names_of("notes/../../etc/passwd")
    Traceback (most recent call last):
    contextkit.errors.PathRefused: path 'notes/../../etc/passwd' is refused: '..' leads to another folder; give names with / between them, \
from the root of the store
    """
    if not isinstance(path, str):
        raise PathRefused(
            f"a path is text, not {type(path).__name__}: names with / between them, from the root of the store"
        )
    return _names_of(str.__str__(path)) if path else ()


@lru_cache(maxsize=8192)
def _names_of(path: str) -> Names:
    names = tuple(path.split("/"))
    n_bytes = len(path.encode("utf-8", "surrogatepass"))
    if path.startswith("/"):
        why: str | None = "it begins with /, so it is not below the store"
    elif len(names) > DEEPEST:
        why = f"it is {len(names)} names deep, and {DEEPEST} is the limit"
    elif n_bytes > LONGEST_PATH:
        why = f"it is {n_bytes} bytes long, and {LONGEST_PATH} is the limit"
    else:
        why = next(filter(None, map(why_not, names)), None)
    if why:
        raise PathRefused(
            f"path {_short(ascii(path))} is refused: {why}; give names with / between them, from the root of the store"
        )
    return names


def why_not(name: str) -> str | None:
    """Return why a name is refused, None where it is not.

    >>> why_not("plan.md"), why_not("nul.txt")
    (None, "'nul.txt' is a device on Windows")
    """
    if _PLAIN.fullmatch(name):
        return None
    # in plain ASCII, because it may be made to look like another
    return next((f"{_short(ascii(name))} {text}" for is_fault, text in _FAULTS if is_fault(name)), None)


def key_of(name: str) -> str:
    """Return what two names share that some system takes for one: without case, in Unicode's compatibility form.

    >>> key_of("Straße.MD") == key_of("STRASSE.md")
    True
    """
    if name.isascii():
        return name.lower()
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).casefold()


def quoted_path(path: str | Names) -> str:
    """Quote a path for an error: what nobody sees escaped, and short.

    >>> print(quoted_path("Größe\u200b.md"), quoted_path("a" * 200)[-6:])
    'Größe\\u200b.md' aaa...
    """
    return _short(repr(path if isinstance(path, str) else "/".join(path)))


def _short(quoted: str) -> str:
    return quoted if len(quoted) <= 150 else f"{quoted[:147]}..."


def _is_unseen(name: str) -> bool:
    return not name.isascii() and any(unicodedata.category(one) in _UNSEEN for one in name)


def _is_way_out(name: str) -> bool:
    """Whether a store that normalises or decodes names would read a way up, a separator or no text at all."""
    return any(map(_is_way, _readings(name)))


def _is_way(reading: str) -> bool:
    plain = unicodedata.normalize("NFKC", reading)
    is_separated = any(one in "/\\" for one in plain)
    return is_separated or not plain.strip(" .") or bool(_ESCAPE.search(plain) or _OVERLONG.search(reading))


def _readings(name: str) -> Iterator[str]:
    """Yield the name as it is and percent-decoded (once: `%25` is refused), each also with its characters as the bytes of
    UTF-8.
    """
    for one in {name, unquote(unicodedata.normalize("NFKC", name))}:
        yield one
        if not one.isascii() and max(one) <= "\xff":
            yield one.encode("latin-1").decode(errors="replace")


def _is_device(name: str) -> bool:
    stem = unicodedata.normalize("NFKC", name).partition(".")[0].strip()
    return _DEVICES.fullmatch(stem) is not None


_FAULTS: tuple[tuple[Callable[[str], object], str], ...] = (
    (lambda name: not name, "is an empty name (// or a / at the end)"),
    (lambda name: name in (".", ".."), "leads to another folder"),
    (_CONTROL.search, "holds a control character"),
    (
        lambda name: len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME,
        f"is longer than {LONGEST_NAME} bytes",
    ),
    (_is_unseen, "holds a character that is invisible, unassigned or no text"),
    (_is_way_out, "is another spelling of a way out"),
    (_FORBIDDEN.search, 'holds one of \\ : * ? " < > |, which not every system takes'),
    # Windows drops these, and the name is another's
    (lambda name: name != name.strip() or name.endswith("."), "begins or ends with a blank, or ends with a dot"),
    (lambda name: not unicodedata.is_normalized("NFC", name), "is not in Unicode's composed form (NFC)"),
    (lambda name: HIDDEN in map(key_of, _readings(name)), "is the store's own folder"),
    (_is_device, "is a device on Windows"),
    (_SHORT.fullmatch, "is a short form by which Windows finds other files"),
)
"""What is wrong with a name; the first that applies is named."""
