"""Parts of a message: text, images, documents and a provider's own blocks.

`content_parts` checks what a user says, `binary_part` turns bytes that a tool returned into a part, and the counts give
the tokens of a picture, a document or a sound, whatever its base64 weighs: estimates, each with its source. What a
provider would refuse raises `InvalidContent`, as it would be refused in every request from then on. The forms of parts
are listed in `entry.py`.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from contextkit.canonical import Json
from contextkit.errors import InvalidContent

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
_PRINTABLE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_NEWLINES = b"\r\n"
"""Allowed in between: `base64.encodebytes` and the command line write lines."""
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


def is_base64(data: str) -> bool:
    """Return whether `data` is base64 of the standard alphabet, padded.

    Looked at letter by letter (1 ms for a megabyte), not decoded.

    >>> is_base64("aGk="), is_base64("data:image/png;base64,aGk="), is_base64("aGk"), is_base64("a-_=")
    (True, False, False, False)
    """
    if not data.isascii():
        return False
    plain = data.encode("ascii").translate(None, _NEWLINES)
    padding = plain.translate(None, _PRINTABLE)
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


BINARY = "application/octet-stream"
"""Media type of a document that no provider takes."""
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
"""First bytes → media type of the pictures that every provider with pictures takes (Anthropic vision docs; OpenAI
images guide)."""
MAX_IMAGE_BYTES = 3_750_000
"""Largest picture that is sent: Bedrock's 3.75 MB, the least of all (Anthropic: 5 MB of base64, which is as much)."""
MAX_IMAGE_PIXELS = 8_000
"""Of a side: Anthropic refuses larger pictures (platform.claude.com, vision)."""
MAX_PDF_BYTES = 4_500_000
"""Largest PDF that is sent: Bedrock's 4.5 MB, the least of all."""


def binary_part(data: bytes) -> Json:
    """An image or document part; a document of `BINARY` for everything else.

    >>> binary_part(b"%PDF-1.7 ... %%EOF")["media_type"], binary_part(b"\\x00\\x01")["media_type"]
    ('application/pdf', 'application/octet-stream')
    """
    coded = base64.b64encode(data).decode()
    media_type = next((media_type for magic, media_type in _IMAGES if magic.match(data)), None)
    if media_type is not None and _is_readable_image(data):
        return {"type": "image", "media_type": media_type, "data": coded}
    is_pdf = data.startswith(b"%PDF-") and b"%%EOF" in data[-1024:] and len(data) <= MAX_PDF_BYTES
    return {"type": "document", "media_type": "application/pdf" if is_pdf else BINARY, "data": coded}


def is_binary(part: Json) -> bool:
    """Return whether a part is a document that no provider takes."""
    return bool(part["type"] == "document" and part.get("media_type") == BINARY)


def without_binary(parts: list[Json]) -> list[Json]:
    """`parts` with the size of each document that no provider takes in its place."""
    return [
        {"type": "text", "text": f"({len(exact_bytes(part.get('data', '')) or b''):,} bytes of binary data)"}
        if is_binary(part)
        else part
        for part in parts
    ]


def exact_bytes(text: str) -> bytes | None:
    """Bytes whose base64 form is exactly `text`, None where there are none: another form could not be restored."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return value if base64.b64encode(value).decode() == text else None


def _is_readable_image(data: bytes) -> bool:
    size = pixels(data)
    return size is not None and len(data) <= MAX_IMAGE_BYTES and all(0 < side <= MAX_IMAGE_PIXELS for side in size)


_FORMS: dict[str, tuple[frozenset[str], ...]] = {
    "text": (frozenset({"type", "text"}),),
    "image": (frozenset({"type", "media_type", "data"}), frozenset({"type", "url"})),
    "document": (
        frozenset({"type", "media_type", "data"}),
        frozenset({"type", "url"}),
        frozenset({"type", "media_type", "data", "title"}),
        frozenset({"type", "url", "title"}),
    ),
    "native": (frozenset({"type", "wire", "block"}),),
}
"""Part type → sets of keys it may have."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|data:\S+", re.IGNORECASE)
"""What some provider may fetch: https, s3, gs, data; which scheme it takes is its own affair."""
_DEEPEST = 100
"""Levels of nesting in a provider's own block; what is said once is read, normalised and counted again for every wire,
level by level."""


def content_parts(content: str | Mapping[str, Json] | Sequence[str | Mapping[str, Json]]) -> list[Json]:
    """`content` as neutral parts; raises `InvalidContent` naming the first one no provider takes.

    >>> content_parts("hello")
    [{'type': 'text', 'text': 'hello'}]
    """
    if isinstance(content, str):
        return [_part(content, 0)]
    if not isinstance(content, Mapping | list | tuple):
        raise InvalidContent(f"content is text, a part, or a list of them, not {type(content).__name__}")
    items = [content] if isinstance(content, Mapping) else list(content)
    if not items:
        raise InvalidContent("nothing was said: pass text, or a list of parts")
    parts = [_part(item, index) for index, item in enumerate(items)]
    check_media(parts)
    return parts


def check_media(parts: Iterable[Json]) -> None:
    """Raises `InvalidContent` for an image or document whose data is no base64, or whose URL is none: it would be
    refused in every request.

    Plain text (a document of `text/plain`) is its own data.
    """
    for index, part in enumerate(parts):
        is_words = part["type"] == "document" and part.get("media_type") == "text/plain"
        if "data" in part and not is_words and not is_base64(part["data"]):
            raise InvalidContent(
                f"content[{index}].data is no base64: give base64.b64encode(raw).decode(), without 'data:image/png;base64,' before it"
            )
        if "url" in part and not _URL.fullmatch(part["url"]):
            raise InvalidContent(
                f"content[{index}].url is no URL, such as https://example.com/cat.png: of a file give media_type and data (base64)"
            )


def check_result_parts(parts: Iterable[Json]) -> None:
    """Raises `InvalidContent` for a part of a tool's result that would be refused in every request: see `check_media`.

    So would empty values be, and a block nested deeper than what is read again.
    """
    parts = list(parts)
    for index, part in enumerate(parts):
        empty = next((key for key, value in part.items() if value in ("", {})), None)
        if empty is not None:
            raise InvalidContent(f"content[{index}].{empty} is empty")
        if is_deeper(part, _DEEPEST):
            raise InvalidContent(f"content[{index}] is nested deeper than {_DEEPEST} levels")
    check_media(parts)


def checked_text(text: str) -> str:
    """`text`, if a provider takes it. Raises `InvalidContent` for what is not text, or shows nothing."""
    if not isinstance(text, str):
        raise InvalidContent(f"a notice is text, not {type(text).__name__}")
    if not text.strip():
        raise InvalidContent("a notice without a visible character, which providers refuse: leave it out")
    return text


def _part(item: Json, index: int) -> Json:
    if isinstance(item, str):
        if not item.strip():
            raise InvalidContent(
                f"content[{index}] is text without a visible character, which providers refuse: leave it out"
            )
        return {"type": "text", "text": item}
    kind = item.get("type") if isinstance(item, Mapping) else None
    forms = _FORMS.get(kind) if isinstance(kind, str) else None
    if forms is None:
        raise InvalidContent(f"content[{index}] is of no known type: use {', '.join(_FORMS)}, or a string")
    if frozenset(item) not in forms:
        wanted = " or ".join(" + ".join(sorted(form - {"type"})) for form in forms)
        raise InvalidContent(
            f"content[{index}] ({kind}) has keys {', '.join(sorted(map(str, item)))}: it takes {wanted}"
        )
    _check_values(item, index)
    return _part(item["text"], index) if kind == "text" else dict(item)


def _check_values(item: Mapping[str, Json], index: int) -> None:
    """Every value is text; a native part's block is an object that says what it is."""
    for key, value in item.items():
        if key != "block" and (not isinstance(value, str) or not value):
            raise InvalidContent(
                f"content[{index}].{key} is text, not {type(value).__name__ if value != '' else 'nothing'}"
            )
    block = item.get("block", {"type": ""})
    if not isinstance(block, Mapping) or not _says_what_it_is(block):
        raise InvalidContent(
            f"content[{index}].block is an object with a type, or one that holds an object, as its provider takes it"
        )
    if is_deeper(block, _DEEPEST):
        raise InvalidContent(f"content[{index}].block is nested deeper than {_DEEPEST} levels, or a circle")


def _says_what_it_is(block: Mapping[str, Json]) -> bool:
    """By its type or role, or, on wires that name a block so, by the key of the object it holds (`{"video": {…}}`)."""
    return any(isinstance(block.get(key), str) for key in ("type", "role")) or any(
        isinstance(held, Mapping) for held in block.values()
    )


def is_deeper(value: Json, limit: int) -> bool:
    """Return whether `value` holds more than `limit` levels of objects and lists; depth first, so that a circle
    ends it.
    """
    pending = [(value, 1)]
    while pending:
        item, level = pending.pop()
        if level > limit:
            return True
        inside = item.values() if isinstance(item, Mapping) else item if isinstance(item, list | tuple) else ()
        pending += [(child, level + 1) for child in inside if isinstance(child, Mapping | list | tuple)]
    return False
