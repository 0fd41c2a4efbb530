"""What a user may say: text, images, documents, as neutral parts.

Takes a string, one part or a list of them; gives a list of parts. The part forms are listed in `entry.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from contextkit.canonical import Json
from contextkit.errors import InvalidContent

_FORMS: dict[str, tuple[frozenset[str], ...]] = {
    "text": (frozenset({"type", "text"}),),
    "image": (frozenset({"type", "media_type", "data"}), frozenset({"type", "url"})),
    "document": (
        frozenset({"type", "media_type", "data"}), frozenset({"type", "url"}),
        frozenset({"type", "media_type", "data", "title"}), frozenset({"type", "url", "title"}),
    ),
    "native": (frozenset({"type", "wire", "block"}),),
}  # fmt: skip
"""Part type → sets of keys it may have."""


def content_parts(content: str | Mapping[str, Json] | Sequence[str | Mapping[str, Json]]) -> list[Json]:
    """`content` as neutral parts; raises `InvalidContent` naming the first one no provider takes.

    >>> content_parts("hello")
    [{'type': 'text', 'text': 'hello'}]
    """
    if isinstance(content, str):
        return [_part(content, 0)]
    items = [content] if isinstance(content, Mapping) else list(content)
    if not items:
        raise InvalidContent("nothing was said: pass text, or a list of parts")
    return [_part(item, index) for index, item in enumerate(items)]


def _part(item: str | Mapping[str, Json], index: int) -> Json:
    if isinstance(item, str):
        if not item:
            raise InvalidContent(f"content[{index}] is empty text, which providers refuse: leave it out")
        return {"type": "text", "text": item}
    forms = _FORMS.get(item.get("type", "")) if isinstance(item, Mapping) else None
    if forms is None:
        raise InvalidContent(f"content[{index}] is of no known type: use {', '.join(_FORMS)}, or a string")
    if frozenset(item) not in forms:
        wanted = " or ".join(" + ".join(sorted(form - {"type"})) for form in forms)
        raise InvalidContent(f"content[{index}] ({item['type']}) has keys {', '.join(sorted(item))}: it takes {wanted}")
    if item["type"] == "text":
        return _part(item["text"], index)
    return dict(item)
