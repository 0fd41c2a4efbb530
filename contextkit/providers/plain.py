"""An SDK's typed object as the JSON it came from, without what the SDK added to it.

Takes a pydantic model of `anthropic` or `openai`, or a dict; gives a dict. Knows no endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import UnreadableReply
from contextkit.layout.normal_form import VERBATIM

HELPERS = frozenset({"parsed", "parsed_output", "parsed_arguments", "_request_id"})
"""Fields the SDKs add for their callers (`parse()` helpers); no request type accepts them."""


def plain(value: Any) -> dict[str, Json]:
    """The dict of a response, event or item, nulls and helper fields left out; key order kept.

    Raises `UnreadableReply` for anything else.
    """
    dump = getattr(value, "model_dump", None)
    raw = dump(mode="json", exclude_unset=True, by_alias=True, warnings=False) if dump is not None else value
    if not isinstance(raw, Mapping):
        raise UnreadableReply(f"a reply is the SDK's object or its dict, not {type(value).__name__}")
    cleaned: dict[str, Json] = _without_nulls(raw)
    return cleaned


def _without_nulls(value: Any) -> Json:
    if isinstance(value, Mapping):
        known = {key: item for key, item in value.items() if item is not None and key not in HELPERS}
        return {key: item if key in VERBATIM else _without_nulls(item) for key, item in known.items()}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
