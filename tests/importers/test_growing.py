"""Bodies parsed from where they go on say what parsing all of them says, whatever is done to them."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest

from contextkit.importers import growing
from contextkit.importers.growing import GrowingBodies

STYLES: tuple[dict[str, Any], ...] = (
    {"separators": (",", ":")},
    {},
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (", ", ":")},
)
TRICKS = ('},{"role":', ']}\\"', "é→\u2028", '"messages":[', "\\", "[[{{")


def message(draw: random.Random) -> dict[str, Any]:
    text = "".join(draw.choices(TRICKS, k=draw.randrange(9)))
    content = draw.choice(
        (text, [{"type": "text", "text": text}, {"role": "user", "parts": [{}, {"role": "x"}]}], [], None)
    )
    return {"role": draw.choice(("user", "assistant")), "content": content}


def body(draw: random.Random, said: list[dict[str, Any]]) -> dict[str, Any]:
    sent = [dict(one) for one in said]
    if sent and draw.random() < 0.5:
        sent[-1]["cache_control"] = {"type": "ephemeral"}
    name = draw.choice(("messages", "messages", "messages", "input"))
    tools = draw.choice(([], [{"messages": [{"role": 1}]}]))
    return {"model": "m", "tools": tools, name: sent, "stream": draw.random() < 0.2, "z": [{}, {}]}


def hurt(draw: random.Random, raw: bytes) -> bytes:
    """Cut, a key twice, or as it was."""
    if draw.random() < 0.05:
        return raw[: -draw.randrange(1, 9)]
    return raw.replace(b'"model":', b'"messages":[1,{}],"model":', 1) if draw.random() < 0.1 else raw


def loads(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return "no JSON"


def parsed(bodies: GrowingBodies, raw: bytes) -> Any:
    try:
        return bodies.parsed(raw)
    except orjson.JSONDecodeError:
        return "no JSON"


@pytest.mark.parametrize("seed", range(20))
def test_a_body_says_what_it_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "LEAST", 8)
    draw, bodies = random.Random(seed), GrowingBodies()
    style, conversations = draw.choice(STYLES), [list[dict[str, Any]]() for _ in range(3)]
    for _ in range(40):
        said = draw.choice(conversations)
        said += [message(draw) for _ in range(draw.randrange(4))]
        if said and draw.random() < 0.1:
            said[draw.randrange(len(said))] = message(draw)
        if said and draw.random() < 0.1:
            del said[draw.randrange(len(said))]
        raw = hurt(draw, json.dumps(body(draw, said), **style).encode())
        expected, found = loads(raw), parsed(bodies, raw)
        assert found == expected
        assert not isinstance(expected, dict) or list(found) == list(expected)
        assert not isinstance(expected, dict) or draw.random() < 0.3 or bodies.compact(found) == orjson.dumps(expected)


def test_what_was_said_before_is_not_parsed_again() -> None:
    said, bodies, before = list[dict[str, Any]](), GrowingBodies(), list[Any]()
    for turn in range(20):
        said.append({"role": "user", "content": f"turn {turn} " + "words " * 400})
        marked = [*said[:-1], {**said[-1], "cache_control": {"type": "ephemeral"}}]
        found = bodies.parsed(orjson.dumps({"model": "m", "messages": marked, "tools": []}))
        same = sum(one is other for one, other in zip(found["messages"], before, strict=False))
        assert same >= len(before) - 1 or turn < 6
        before = found["messages"]
