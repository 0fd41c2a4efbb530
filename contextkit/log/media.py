"""How many tokens a picture, a document or a sound is, whatever its base64 weighs; and whether it is base64 at all.

Takes base64 text, gives tokens by pixels, pages or seconds; estimates, each with its source. Knows nothing of blocks.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable

IMAGE_MOST = 1600
"""Most tokens of a Claude image, and what one of unknown size counts as."""
OPENAI_IMAGE = 765
"""Assumed for every OpenAI image: 85 + 4 tiles of 170, a square picture of 1,024 pixels in high detail."""
PDF_PAGE = 2000
"""Assumed tokens a page (https://platform.claude.com/docs/en/build-with-claude/pdf-support)."""
_PIXELS_A_TOKEN = 750
"""https://platform.claude.com/docs/en/build-with-claude/vision."""
_SOUND_A_TOKEN = 1600
"""Assumed bytes: ten tokens a second of 128 kbit/s."""
_HEADER = 262_144
"""Base64 letters of an image that are decoded: its size stands in front, behind metadata at worst."""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NEWLINES = b"\r\n"
"""Allowed in between: `base64.encodebytes` and the command line write lines."""
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


def is_base64(data: str) -> bool:
    """Whether `data` is base64 of the standard alphabet, padded.

    Looked at letter by letter (1 ms for a megabyte), not decoded.

    >>> is_base64("aGk="), is_base64("data:image/png;base64,aGk="), is_base64("aGk"), is_base64("a-_=")
    (True, False, False, False)
    """
    if not data.isascii():
        return False
    plain = data.encode("ascii").translate(None, _NEWLINES)
    padding = plain.translate(None, _LETTERS)
    return bool(plain) and len(plain) % 4 == 0 and padding in (b"", b"=", b"==") and plain.endswith(padding)


def n_image_tokens(data: str) -> int:
    """Tokens of a base64 image: width x height / 750, at most 1,600; 1,600 where the size cannot be read.

    >>> n_image_tokens("R0lGODlhLAEKAA==")
    4
    """
    size = pixels(_decoded(data[:_HEADER]))
    return min(IMAGE_MOST, math.ceil(size[0] * size[1] / _PIXELS_A_TOKEN)) if size else IMAGE_MOST


def n_pdf_tokens(data: str) -> int:
    """Tokens of a base64 PDF: 2,000 a page, as far as its pages show without unpacking; one page at least."""
    return PDF_PAGE * max(1, len(_PAGE.findall(_decoded(data))))


def n_sound_tokens(data: str) -> int:
    """Tokens of base64 sound."""
    return math.ceil(len(data) * 3 / 4 / _SOUND_A_TOKEN)


def pixels(head: bytes) -> tuple[int, int] | None:
    """Width and height from the first bytes of a PNG, GIF, JPEG or WebP; None for anything else.

    >>> pixels(b"GIF89a" + bytes([44, 1, 10, 0]))
    (300, 10)
    """
    read = next((read for mark, read in _READERS if mark.match(head)), None)
    try:
        return read(head) if read else None
    except struct.error:  # cut off before its size
        return None


def _decoded(data: str) -> bytes:
    """The bytes behind base64 letters; b"" where they are none, which counts as unknown size."""
    try:
        return base64.b64decode(data[: len(data) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def _png(head: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", head, 16)
    return width, height


def _gif(head: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", head, 6)
    return width, height


def _jpeg(head: bytes) -> tuple[int, int] | None:
    """Walks the segments to the frame header; C4, C8 and CC are tables, not frames."""
    at = 2
    while True:
        mark, length = struct.unpack_from(">HH", head, at)
        if mark <= 0xFF00:
            return None
        if 0xFFC0 <= mark <= 0xFFCF and mark not in (0xFFC4, 0xFFC8, 0xFFCC):
            height, width = struct.unpack_from(">HH", head, at + 5)
            return width, height
        at += 1 if mark == 0xFFFF else 2 + length


def _webp_lossy(head: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", head, 26)
    return width & 0x3FFF, height & 0x3FFF


def _webp_lossless(head: bytes) -> tuple[int, int]:
    (bits,) = struct.unpack_from("<I", head, 21)
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1


def _webp_extended(head: bytes) -> tuple[int, int]:
    low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", head, 24)
    return low_width + (high_width << 16) + 1, low_height + (high_height << 16) + 1


_READERS: tuple[tuple[re.Pattern[bytes], Callable[[bytes], tuple[int, int] | None]], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), _png),
    (re.compile(rb"GIF8[79]a"), _gif),
    (re.compile(rb"\xff\xd8"), _jpeg),
    (re.compile(rb"RIFF.{4}WEBPVP8 ", re.DOTALL), _webp_lossy),
    (re.compile(rb"RIFF.{4}WEBPVP8L", re.DOTALL), _webp_lossless),
    (re.compile(rb"RIFF.{4}WEBPVP8X", re.DOTALL), _webp_extended),
)
