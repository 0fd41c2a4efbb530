"""Bodies that nobody should have sent: each is a finding or is passed over, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from contextkit.ledger.parsed_call import MOST_BYTES
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import RequestPlace
from contextkit.lint.requests.detect import RequestDetector, find_in_requests
from tests.ledger.test_parsed_call import BODIES
from tests.lint.trace.calls import MODELS, anthropic, assistant, call, spelled, user
from tests.scale import n_examples

Json = Any
GOOD = spelled(anthropic(user("a"), assistant("b"), user("c")))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        GOOD[:-5],
        b"\x00\xff\xfe",
        b"[]",
        b"null",
        b'"text"',
        b'{"messages":5}',
        b'{"messages":[1]}',
        b'{"messages":[],"tools":7}',
        b'{"model":"x","messages":[{"role":"user","content":{"a":1}}]}',
        b'{"a":NaN,"messages":[]}',
        b'{"messages":' + b"[" * 5000,
        b'{"messages":[{"role":"user","content":[' + b'{"a":' * 600 + b"1" + b"}" * 600 + b"]}]}",
    ],
    ids=range(14),
)
def test_a_body_that_cannot_be_read_is_a_finding(raw: bytes) -> None:
    (finding,) = find_in_requests([call(raw)], [])
    assert finding.code == "CK000"
    assert isinstance(finding.place, RequestPlace)
    assert finding.place.path
    assert "\n" not in finding.message


def test_the_place_of_a_cut_body_is_told() -> None:
    (finding,) = find_in_requests([call(GOOD[:-5])], [])
    assert "byte" in finding.message


def test_a_body_that_is_too_large_is_not_read() -> None:
    (finding,) = find_in_requests([call(b" " * (MOST_BYTES + 1))], [])
    assert "67,108,865 bytes" in finding.message


def test_calls_around_a_bad_one_are_still_compared() -> None:
    first, second = anthropic(user("a")), anthropic(user("a"), assistant("b"), user("c"))
    calls = [call(first, 0), call(b"{", 1), call(second, 2)]
    detector = RequestDetector([])
    assert [finding.code for each in calls for finding in detector.feed(each)] == ["CK000"]
    assert (detector.n_calls, detector.n_unreadable) == (2, 1)


WRONG: tuple[Json, ...] = (
    None,
    7,
    -1.5,
    True,
    "",
    "text",
    [],
    {},
    [[]],
    [{}],
    {"a": {}},
    [None, 7, "x"],
    {"type": 3},
    {"type": ["x"]},
)


def places(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(item, (*path, key))


def spoiled(random: Random, body: Json) -> Json:
    """The body with up to three values that are not what their endpoint takes."""
    spoilt = json.loads(json.dumps(body))
    for _ in range(random.randrange(1, 4)):
        found = list(places(spoilt))
        if not found:
            break
        *way, last = random.choice(found)
        inside = spoilt
        for step in way:
            inside = inside[step]
        inside[last] = deepcopy(random.choice(WRONG))
    return spoilt


@pytest.mark.parametrize("wire", BODIES)
def test_whatever_stands_in_a_body_there_is_no_traceback(wire: str) -> None:
    random, codes = Random(11), {"CK000", *(row.code for row in hazards())}
    for _ in range(n_examples(30, 150)):
        calls = [call(spoiled(random, BODIES[wire][0]), number, wire) for number in range(4)]
        for finding in find_in_requests([*calls, call(BODIES[wire][0], 5, wire)], hazards()):
            assert finding.code in codes
    assert wire in MODELS
