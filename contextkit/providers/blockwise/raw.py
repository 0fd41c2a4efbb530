"""Bytes as JSON has them, and back: some SDKs take and give pictures and proofs as `bytes` where the wire has base64.

Takes and gives values; knows no endpoint.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from contextkit.canonical import Json
from contextkit.layout.normal_form import VERBATIM

RAW: Mapping[str, frozenset[str]] = {
    "bedrock_converse": frozenset({"bytes", "redactedContent"}),
    "gemini": frozenset({"data", "thoughtSignature", "voiceSampleAudio", "consentAudio", "continuationToken"}),
}
"""Wire → keys of base64 where the SDK takes and gives bytes."""
FREE = VERBATIM | {
    "additionalModelRequestFields",
    "promptVariables",
    "requestMetadata",
    "responseSchema",
    "responseJsonSchema",
    "labels",
    "customConfigs",
    "headers",
}
"""Fields whose keys a model, a tool or an author chose: nothing below them is the wire's. The second line is Bedrock's
(botocore 1.44, Converse), the third Gemini's (google.genai.types 3.4)."""


def packed(value: Any) -> Json:
    """`value` with bytes as base64, at any depth.

    >>> packed({"image": {"source": {"bytes": b"hi"}}})
    {'image': {'source': {'bytes': 'aGk='}}}
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: packed(item) for key, item in value.items()}
    return [packed(item) for item in value] if isinstance(value, list | tuple) else value


def unpacked(value: Json, keys: frozenset[str]) -> Any:
    """`value` with the base64 under `keys` as bytes, but for what a model, a tool or an author wrote.

    >>> unpacked({"bytes": "aGk=", "input": {"bytes": "aGk="}}, frozenset({"bytes"}))
    {'bytes': b'hi', 'input': {'bytes': 'aGk='}}
    """
    return _each(value, keys, lambda text: base64.b64decode(text.translate(_STANDARD)))


def standard(value: Json, keys: frozenset[str]) -> Json:
    """`value` with the base64 under `keys` in the standard alphabet: some SDKs write the one for URLs.

    >>> standard({"data": "_-A="}, frozenset({"data"}))
    {'data': '/+A='}
    """
    return _each(value, keys, lambda text: text.translate(_STANDARD))


_STANDARD = str.maketrans("-_", "+/")


def _each(value: Json, keys: frozenset[str], change: Callable[[str], Any]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: change(item)
            if key in keys and isinstance(item, str)
            else item
            if key in FREE
            else _each(item, keys, change)
            for key, item in value.items()
        }
    return [_each(item, keys, change) for item in value] if isinstance(value, list) else value
