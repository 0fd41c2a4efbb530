"""Damage for the long tests of readers: values of other types, numbers nobody expects, and bytes gone wrong.

Each function takes a `random.Random`, so that a seed gives the same damage on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

RAW = {
    "@1e400@": b"1e400",
    "@NaN@": b"NaN",
    "@-0@": b"-0",
    "@many digits@": b"7" * 400,
    "@digits beyond Python's limit@": b"9" * 5_000,
    "@deep list@": b"[" * 3_000 + b"]" * 3_000,
    "@deep object@": b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
    "@not UTF-8@": b'"\xff\xfe"',
    "@lone surrogate@": b'"\\ud800"',
    "@a key twice@": b'{"type":"text","text":"x","type":5}',
}
"""Text that stands for a value which `json.dumps` does not write → its bytes."""
NO_COUNTS: tuple[Any, ...] = (
    True,
    -1,
    -(10**30),
    0.5,
    1e300,
    10**400,
    "",
    "x",
    "\x00",
    "many",
    [],
    {},
    [5],
    {"a": 5},
    "@1e400@",
    "@many digits@",
)
"""What is no count of tokens, in any format; null is none that nobody said."""
VALUES: tuple[Any, ...] = (
    *NO_COUNTS,
    None,
    0,
    1,
    5,
    2**53,
    2**63,
    2**64 - 1,
    2**64,
    10**30,
    -0.5,
    1e16,
    False,
    "5",
    "9" * 400,
    "-5",
    "1e400",
    "nan",
    "2026-04-09T01:03:35Z",
    "9999-12-31T23:59:59.999999+14:00",
    "0001-01-01T00:00:00+23:59",
    "a" * 3_000,
    "🙂\u202e\ufeff",
    "http://[::1",
    "{",
    "[1]",
    "data: {}",
    [[]],
    [{}],
    [None],
    [[[5]]],
    ["x"],
    {"type": 5},
    {"type": "x"},
    {"": {}},
    {"text": None},
    {"a": [None]},
    *RAW,
)
"""Any value at all."""


def places(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Every (container, key, item), parents before children."""
    stack = [value]
    while stack:
        here = stack.pop()
        pairs = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        for key, item in pairs:
            yield here, key, item
            if isinstance(item, dict | list):
                stack.append(item)


def dumped(value: Any) -> bytes:
    """JSON, with the bytes of `RAW` in place of their names."""
    data = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    for name, raw in RAW.items():
        data = data.replace(json.dumps(name).encode(), raw)
    return data


def mutate(draw: Random, value: Any) -> None:
    """Change one place inside a dict or a list: another value, one that is gone, twice there, renamed or moved."""
    found = list(places(value))
    if not found:
        return
    container, key, item = draw.choice(found)
    kind = draw.random()
    if kind < 0.6:
        container[key] = deepcopy(draw.choice(VALUES))  # a later change must not reach the table
    elif kind < 0.75:
        del container[key]
    elif kind < 0.8:
        container[key] = [item] if draw.random() < 0.5 else {"type": item}
    elif kind < 0.85 and isinstance(item, str):
        container[key] = item[: draw.randrange(len(item) + 1)] + draw.choice(("", "\x00", "\ud800", "x", item * 3))
    elif kind < 0.9 and isinstance(item, int | float):
        container[key] = draw.choice((-item, item * 1000, item / 3, str(item), item * 10**30))
    elif isinstance(container, list):
        container.insert(draw.randrange(len(container) + 1), deepcopy(draw.choice((item, draw.choice(container)))))
        draw.shuffle(container) if draw.random() < 0.3 else None
    else:
        container[draw.choice(found)[1] if draw.random() < 0.5 else f"{key}x"] = container.pop(key)


def damage(draw: Random, data: bytes) -> bytes:
    """Change bytes: some of them others, a piece gone, a piece twice, the end cut, strange ones put in."""
    if not data:
        return data
    hurt, kind = bytearray(data), draw.randrange(6)
    at = draw.randrange(len(hurt))
    end = min(len(hurt), at + draw.choice((1, 2, 9, 200)))
    if kind == 0:
        for _ in range(draw.randrange(1, 6)):
            hurt[draw.randrange(len(hurt))] = draw.randrange(256)
    elif kind == 1:
        del hurt[at:]
    elif kind == 2:
        del hurt[at:end]
    elif kind == 3:
        hurt[at:at] = hurt[at:end]
    elif kind == 4:
        hurt[at:at] = draw.choice((b"\x00", b"\xff\xfe", b"\n", b"\r", b'"', b"{", b"]", b"9" * 400, b"\xed\xa0\x80"))
    else:
        hurt[at:end] = bytes(draw.randrange(256) for _ in range(end - at))
    return bytes(hurt)
