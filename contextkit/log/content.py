"""What a user may say: text, images, documents, as neutral parts.

Takes a string, one part or a list of them; gives a list of parts. The part forms are listed in `entry.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from contextkit.canonical import Json
from contextkit.errors import InvalidContent
from contextkit.log.media import is_base64

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


def said_text(text: str) -> str:
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
    """Whether `value` holds more than `limit` levels of objects and lists; depth first, so that a circle ends it."""
    pending = [(value, 1)]
    while pending:
        item, level = pending.pop()
        if level > limit:
            return True
        inside = item.values() if isinstance(item, Mapping) else item if isinstance(item, list | tuple) else ()
        pending += [(child, level + 1) for child in inside if isinstance(child, Mapping | list | tuple)]
    return False
