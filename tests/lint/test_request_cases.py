"""Each code of the request detector is found in what it is for, and not in what only looks like it.

A file of `tests/lint_cases/requests/` is `CKS01_clock_in_system.json`: `request` holds what all its cases send, each
case what differs:

    {"request": {"model": "claude-opus-4-5", …},
     "cases": [{"says": "the minute changes", "before": {"system": …}, "after": {"system": …}, "expect": "CKS01"},
               {"says": "a word changes", "before": {…}, "after": {…}, "expect": null}]}

`expect` is the code found in the last call, null where the level of the file's code (its letter) has nothing to say
about it. A case may also have `earlier` (bodies of calls before `before`), `seconds` (starts of all calls; 10 s apart
without), `sessions` (of all calls; one without), `lanes`, `usages` (fields of `Usage` for all calls), `provider`
(anthropic without), `errors` (of all calls, null for none; such a call ends before its response begins), `page` (true for the one
that the page of the code shows, `page_output.py`), `remarks`
(`{"kind": "setting", "about": 1, "text": …}`, about the call of that index), and `also` (further codes that are right).
`before` may be left out: a call alone. In a text `{filler}` stands for a few hundred words that no rule cares for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import Bodies, ModelCall, Record, Remark
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import RequestPlace
from contextkit.lint.requests.detect import find_in_requests

CASES = Path(__file__).resolve().parents[1] / "lint_cases" / "requests"
FILLER = (
    "The handbook says how a parcel is packed, labelled, weighed and handed over, and who answers for it on its way. "
    * 60
)


def cases() -> list[Any]:
    files = sorted(CASES.glob("*.json"))
    return [
        pytest.param(file.stem.partition("_")[0], held.get("request", {}), case, id=f"{file.stem}: {case['says']}")
        for file in files
        for held in [json.loads(file.read_text(encoding="utf-8"))]
        for case in held["cases"]
    ]


def recorded_calls(shared: dict[str, Any], case: dict[str, Any], filler: str = FILLER) -> list[ModelCall]:
    """The calls of a case."""
    bodies = [*case.get("earlier", ()), *([case["before"]] if "before" in case else ()), case["after"]]
    n = len(bodies)
    starts, usages = case.get("seconds", [10.0 * i for i in range(n)]), case.get("usages", [None] * n)
    sessions, lanes = case.get("sessions", ["s"] * n), case.get("lanes", ["main"] * n)
    errors = case.get("errors", [None] * n)
    return [
        ModelCall(
            f"r{i + 1}",
            sessions[i],
            lanes[i],
            starts[i],
            None if errors[i] else starts[i] + 1,
            starts[i] + 2,
            case.get("provider", "anthropic"),
            str({**shared, **bodies[i]}.get("model", "")),
            Bodies(_raw({**shared, **bodies[i]}, filler)),
            Usage(**usages[i]) if usages[i] else None,
            None,
            errors[i],
        )
        for i in range(n)
    ]


def _raw(body: dict[str, Any], filler: str) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).replace("{filler}", filler).encode()


def recorded(calls: list[ModelCall], case: dict[str, Any]) -> list[Record]:
    """The calls with the remarks of the case in front of them."""
    remarks = [Remark(one["kind"], calls[one["about"]].id, one["text"]) for one in case.get("remarks", ())]
    return [*remarks, *calls]


@pytest.mark.parametrize(("code", "shared", "case"), cases())
def test_a_case_shows_what_it_says(code: str, shared: dict[str, Any], case: dict[str, Any]) -> None:
    calls = recorded_calls(shared, case)
    found = [
        one
        for one in find_in_requests(recorded(calls, case), hazards())
        if isinstance(one.place, RequestPlace) and one.place.request == calls[-1].id
    ]
    codes = {one.code for one in found} - {*case.get("also", ())}
    asked = {one for one in codes if one[2] == code[2] or one in (case["expect"], "CK000")}
    assert asked == ({case["expect"]} if case["expect"] else set()), [
        (one.code, one.message, str(one.place)) for one in found
    ]


def test_every_code_of_requests_has_a_case_that_shows_it_and_one_that_nearly_does() -> None:
    shown: dict[str, set[bool]] = {}
    for param in cases():
        code, _, case = param.values
        shown.setdefault(code, set()).add(case["expect"] == code)
    missing = [row.code for row in hazards() if row.requests and shown.get(row.code) != {True, False}]
    assert not missing, f"tests/lint_cases/requests/ has no pair of cases for {', '.join(missing)}"
