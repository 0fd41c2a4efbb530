"""Ruts are counted, and a result told in another form is got back exactly, in every form, whatever its text is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.errors import UsageError
from contextkit.log.log import Log
from contextkit.log.variation import (
    ERROR_FORMS,
    FORMS,
    INTRODUCED_FORMS,
    Steps,
    Variation,
    grams_of,
    likeness,
    repetition,
    unvaried,
    varied,
)

BREAKS = ["", "\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\n\n", " | ", "> ", "* "]
BREAKS += ["</look>", "   1 | a"]
TEXT = st.lists(
    st.sampled_from(BREAKS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=6
).map("".join)
PARTS = st.lists(
    st.builds(lambda text: {"type": "text", "text": text}, TEXT)
    | st.just({"type": "image", "media_type": "image/png", "data": "AAAA"})
    | st.builds(lambda text: {"type": "text", "text": text, "citations": None}, TEXT),
    max_size=4,
)
NAMES = st.sampled_from(["look", "a-b_c9", "x" * 64])
SAID = "\n".join(f"order {number} was shipped on day {number}" for number in range(9))


def result(content: list[Any], name: str = "look", *, is_error: bool = False) -> dict[str, Any]:
    return {"call_id": "c", "name": name, "content": content, "is_error": is_error}


@given(PARTS, NAMES, st.booleans())
def test_every_form_of_every_text_is_undone_exactly(parts: list[Any], name: str, is_error: bool) -> None:
    body = result(parts, name, is_error=is_error)
    for form in {**INTRODUCED_FORMS, **ERROR_FORMS}:
        told = varied(body, form)
        assert unvaried(json.loads(json.dumps(told))) == parts  # as a log gives it back
        assert {**told, "content": parts, "form": None} == {**body, "form": None}


@given(TEXT)
def test_forms_tell_one_text_in_as_many_ways(text: str) -> None:
    for forms in FORMS, INTRODUCED_FORMS, ERROR_FORMS:
        told = {varied(result([{"type": "text", "text": text}]), form)["content"][0]["text"] for form in forms}
        assert len(told) == len(forms) > 2 * Variation(1).window and text in told


def test_results_without_text_stay_as_they_are() -> None:
    for body in result([{"type": "image", "data": "AA"}]), result([]):
        assert all(varied(body, form) is body for form in FORMS)


CHOOSE = """
from contextkit.log.variation import FORMS, Variation, grams_of
recent = [list(FORMS)[n % 16 : n % 16 + 6] for n in range(200)]
ways = [Variation(0), Variation(7), Variation(7, introductions=True)]
chosen = [one.form(f"toolu_{n}", recent[n], is_error=is_error) for one in ways for is_error in (False, True) for n in range(200)]
print(chosen, sorted(grams_of("read page 3 of 9, naïve → done")))
"""


def test_a_choice_is_the_same_in_every_process() -> None:
    seen = {
        subprocess.run(
            [sys.executable, "-c", CHOOSE],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "4242")
    }
    assert len(seen) == 1


@given(
    st.integers(),
    st.text(max_size=20),
    st.lists(st.sampled_from(list({**INTRODUCED_FORMS, **ERROR_FORMS})), max_size=20),
    st.booleans(),
)
def test_a_form_is_none_of_the_recent_ones_while_there_is_another(
    seed: int, call_id: str, recent: list[str], introduces: bool
) -> None:
    one = Variation(seed, introductions=introduces)
    for forms, is_error in (INTRODUCED_FORMS if introduces else FORMS, False), (ERROR_FORMS, True):
        form = one.form(call_id, recent, is_error=is_error)
        assert form in forms and (form not in recent or set(forms) <= set(recent))


def test_steps_that_differ_in_numbers_only_are_a_rut_and_others_are_none() -> None:
    steps = Steps()
    for number in range(5):
        steps.step(f'read {{"page": {number}}}', SAID.replace("9", str(number)))
    assert (steps.repetition.n_steps, steps.repetition.n_repeated, steps.is_in_rut) == (5, 4, True)
    steps.step('write {"to": "the manager"}', "Sent to her; she answered that the budget is approved until spring.")
    assert not steps.is_in_rut and steps.repetition.rate == pytest.approx(4 / 6)


def test_a_step_is_compared_with_a_window_of_those_before() -> None:
    texts = ["alpha beta gamma delta epsilon", "one two three four five six", "red green blue black white"]
    for window, repeated in ((1, 0), (2, 0), (3, 3)):
        steps = Steps(window)
        for text in [*texts, *texts]:
            steps.step("look", f"{text} {text}")
        assert steps.n_repeated == repeated


def test_a_log_is_measured_as_it_is_fed() -> None:
    log = Log(clock=lambda: 0.0)
    log.append("opened", {})
    assert repetition(log).rate == 0.0
    for number in range(4):
        call = {"id": f"c{number}", "name": "read", "arguments": {"page": number}}
        log.append("assistant", {"calls": [call]})
        log.append("result", {**result([{"type": "text", "text": SAID}]), "call_id": f"c{number}"})
    assert (repetition(log).n_steps, repetition(log).n_repeated) == (4, 3)
    assert repetition(log, similarity=1.0).n_repeated == 3


@given(TEXT, TEXT)
def test_likeness_is_a_share_and_one_for_the_same(one: str, other: str) -> None:
    first, second = grams_of(one), grams_of(other)
    assert likeness(first, first) == 1.0
    assert 0.0 <= likeness(first, second) == likeness(second, first) <= 1.0


@pytest.mark.parametrize("given", [{"window": 0}, {"similarity": 0.0}, {"similarity": 1.1}])
def test_what_means_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="at least one step"):
        Variation(1, **given)
