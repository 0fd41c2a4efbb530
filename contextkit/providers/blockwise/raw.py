"""Bytes as JSON has them, and back: some SDKs take and give pictures and proofs as `bytes` where the wire has base64.

Takes and gives values; knows no endpoint.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from contextkit.canonical import Json
from contextkit.layout.normal_form import VERBATIM


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
    """`value` with the base64 under `keys` as bytes, but for what a model or an author wrote.

    >>> unpacked({"bytes": "aGk=", "input": {"bytes": "aGk="}}, frozenset({"bytes"}))
    {'bytes': b'hi', 'input': {'bytes': 'aGk='}}
    """
    return _each(value, keys, base64.b64decode)


def standard(value: Json, keys: frozenset[str]) -> Json:
    """`value` with the base64 under `keys` in the standard alphabet: some SDKs write the one for URLs.

    >>> standard({"data": "_-A="}, frozenset({"data"}))
    {'data': '/+A='}
    """
    return _each(value, keys, lambda text: text.translate(_STANDARD))


_STANDARD = str.maketrans("-_", "+/")


def _each(value: Json, keys: frozenset[str], change: Callable[[str], Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: change(item) if key in keys and isinstance(item, str) else item if key in VERBATIM else _each(item, keys, change)
                for key, item in value.items()}  # fmt: skip
    return [_each(item, keys, change) for item in value] if isinstance(value, list) else value
