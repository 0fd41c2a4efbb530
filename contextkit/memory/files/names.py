"""A path, as somebody wrote it, taken apart into names that mean one file on every system.

Takes text, gives a tuple of names; raises `PathRefused` with the reason. Touches no disk: what stands there, links
above all, is the folder's to look at.

The rules are the union of what Linux, macOS and Windows refuse or read as something else, so that a store moves between
them. Nothing is repaired: a path that needs repair was written by mistake or in bad faith, and a model corrects it from
the text of the error.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from contextkit.errors import PathRefused

Names = tuple[str, ...]
"""A path taken apart; empty for the root."""

HIDDEN = ".contextkit"
"""The store's own folder in the root: versions, erasures, the lock. No path names it."""
LONGEST_NAME = 255
"""UTF-8 bytes a name may have: the limit of ext4, XFS, APFS (in bytes) and NTFS (in UTF-16 units), whichever is met
first."""
LONGEST_PATH = 1024
"""UTF-8 bytes a path may have: macOS' PATH_MAX, the smallest of the three."""
DEEPEST = 32
"""Names a path may have."""

_PLAIN = re.compile(r"[a-z_][a-z0-9_-]{9,99}(?:\.[a-z0-9]{1,8})?")
"""What needs no closer look: too long to be reserved, no capital, no dot to lead or end with."""
_FORBIDDEN = frozenset('\\:*?"<>|')
"""A separator, a drive or stream, and what Windows lets no name hold."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
"""Unicode categories of what nobody sees or no two systems agree on: controls, joiners and direction marks, unassigned,
private."""
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9]|conin\$|conout\$|clock\$)", re.IGNORECASE)
"""Names that are devices on Windows, whatever extension follows (learn.microsoft.com, "Naming Files, Paths, and
Namespaces")."""
_SHORT = re.compile(r"[^.]{1,6}~\d{1,6}(?:\.[^.]{0,3})?")
"""The 8.3 form by which Windows finds a longer name as well."""
_ESCAPE = re.compile(r"%(?:u[0-9a-f]{4}|[0-9a-f]{2})", re.IGNORECASE)
"""A percent-encoded byte, or the form some web servers read as one character."""
_OVERLONG = {"\xc0\xae": ".", "\xc0\xaf": "/", "\xc1\x9c": "\\"}
"""Two-byte UTF-8 for what has one byte, as it looks when read byte by byte."""


def names_of(path: str) -> Names:
    """The names of `path`, from the root; none for `""`.

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
    why = _why_not_path(path, names) or next((why for why in map(why_not, names) if why), None)
    if why:
        raise PathRefused(
            f"path {escaped(path)} is refused: {why}; give names with / between them, from the root of the store"
        )
    return names


def why_not(name: str) -> str | None:
    """Why a name is refused, None where it is not.

    >>> why_not("plan.md"), why_not("nul.txt")
    (None, "'nul.txt' is a device on Windows")
    """
    if _PLAIN.fullmatch(name):
        return None
    return next((f"{escaped(name)} {text}" for is_fault, text in _FAULTS if is_fault(name)), None)


def key_of(name: str) -> str:
    """What two names share that some system takes for one: without case, in the compatibility form of Unicode.

    >>> key_of("Straße.MD") == key_of("STRASSE.md")
    True
    """
    if name.isascii():
        return name.lower()
    folded = unicodedata.normalize("NFKC", name).casefold()
    return unicodedata.normalize("NFKC", folded).casefold()


def quoted_path(text: str) -> str:
    """A path as an error quotes it: what nobody sees escaped, and short.

    >>> print(quoted_path("Größe\u200b.md"), quoted_path("a" * 200)[-6:])
    'Größe\\u200b.md' aaa...
    """
    return _short(repr(text))


def escaped(text: str) -> str:
    """A refused path as an error quotes it: plain ASCII, because it may be made to look like another."""
    return _short(ascii(text))


def _short(quoted: str) -> str:
    return quoted if len(quoted) <= 150 else f"{quoted[:147]}..."


def _why_not_path(path: str, names: Names) -> str | None:
    if path.startswith("/"):
        return "it begins with /, so it is not below the store"
    if len(names) > DEEPEST:
        return f"it is {len(names)} names deep, and {DEEPEST} is the limit"
    n_bytes = len(path.encode("utf-8", "surrogatepass"))
    return f"it is {n_bytes} bytes long, and {LONGEST_PATH} is the limit" if n_bytes > LONGEST_PATH else None


def _is_too_long(name: str) -> bool:
    return len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME


def _is_unseen(name: str) -> bool:
    return not name.isascii() and any(unicodedata.category(one) in _UNSEEN for one in name)


def _is_control(name: str) -> bool:
    return any(one < " " or one == "\x7f" for one in name)


def _is_decomposed(name: str) -> bool:
    return not unicodedata.is_normalized("NFC", name)


def _is_padded(name: str) -> bool:
    """A blank of any kind at an end, or a dot behind: Windows drops them, and the name is another's."""
    return name != name.strip() or name.endswith(".")


def _is_unsafe_name(name: str) -> bool:
    """Whether one of the name's other readings is a way up, a separator, or no text at all."""
    return any(_is_way(unicodedata.normalize("NFKC", one)) for one in _readings(name))


def _is_way(name: str) -> bool:
    return not name.strip(" .") or any(one in "/\\\0" for one in name)


def _readings(name: str) -> list[str]:
    """The name as it looks after percent-decoding once, twice, …, and with its characters read as the bytes of UTF-8,
    overlong or not.

    What can still be decoded after eight rounds is nobody's name, so it reads as a way out.
    """
    found = [name]
    while _ESCAPE.search(found[-1]):
        found.append(_decoded(found[-1]) if len(found) < 8 else "..")
    return [reading for one in found for reading in (one, _unlonged(one), _as_utf8(one))]


def _decoded(name: str) -> str:
    """One round of percent-decoding, byte by byte, so that bytes that are no UTF-8 stay to be seen."""
    return _ESCAPE.sub(lambda match: chr(int(match[0].lstrip("%uU"), 16)), name)


def _as_utf8(name: str) -> str:
    if name.isascii() or max(name) > "\xff":
        return name
    return name.encode("latin-1").decode("utf-8", "ignore")


def _unlonged(name: str) -> str:
    for long, short in _OVERLONG.items():
        name = name.replace(long, short)
    return re.sub(
        "\xe0\x80([\x80-\xbf])|\xf0\x80\x80([\x80-\xbf])", lambda match: chr(ord(match[1] or match[2]) & 0x3F), name
    )


def _is_hidden(name: str) -> bool:
    return any(key_of(one) == HIDDEN for one in _readings(name))


def _is_device(name: str) -> bool:
    stem = unicodedata.normalize("NFKC", name).partition(".")[0].strip()
    return _DEVICES.fullmatch(stem) is not None


def _holds_forbidden(name: str) -> bool:
    return not _FORBIDDEN.isdisjoint(name)


_FAULTS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda name: not name, "is an empty name (// or a / at the end)"),
    (lambda name: name in (".", ".."), "leads to another folder"),
    (_is_control, "holds a control character"),
    (_is_too_long, f"is longer than {LONGEST_NAME} bytes"),
    (_is_unseen, "holds a character that is invisible, unassigned or no text"),
    (_is_unsafe_name, "is another spelling of a way out"),
    (_holds_forbidden, 'holds one of \\ : * ? " < > |, which not every system takes'),
    (_is_padded, "begins or ends with a blank, or ends with a dot"),
    (_is_decomposed, "is not in Unicode's composed form (NFC)"),
    (_is_hidden, "is the store's own folder"),
    (_is_device, "is a device on Windows"),
    (lambda name: _SHORT.fullmatch(name) is not None, "is a short form by which Windows finds other files"),
)
"""What is wrong with a name, first found first."""
