"""The table of actions: complete, short enough for the screen, each step with a source."""

from __future__ import annotations

from typing import get_args

from contextkit.ledger.verdict import Cause
from contextkit.whatif.actions import AUTHOR, OPERATOR, action_of, actions, is_open
from contextkit.whatif.changes import CHANGES, CURES

FREE = {"first_write", "cold_start", "compaction", "below_minimum", "rules"}
"""Causes of misses that nobody could have avoided, or that are none."""


def test_every_change_and_every_avoidable_cause_has_an_action() -> None:
    assert set(CHANGES) <= actions().keys()
    assert {cause for cause in get_args(Cause) if action_of(cause) is None} <= FREE | {"unknown"}
    assert all(causes <= set(actions()[name].causes) for name, causes in CURES.items())
    causes = [cause for action in actions().values() for cause in action.causes]
    assert len(causes) == len(set(causes)) and set(causes) <= set(get_args(Cause))


def test_an_author_can_do_all_of_them_and_a_program_is_one_that_is_known() -> None:
    assert all(is_open(name, AUTHOR) for name in actions())
    known = {"Claude Code", "Codex", "Copilot CLI", "Gemini CLI", "opencode", "pi", "Qwen Code"}
    for action in actions().values():
        readers = [step.reader for step in action.steps]
        assert len(readers) == len(set(readers)) and set(readers) <= {AUTHOR, OPERATOR, *known}


def test_a_program_without_steps_gets_none_of_an_author() -> None:
    assert not any(is_open(name, "Cline") for name in actions())


def test_an_action_fits_the_screen_and_has_a_source() -> None:
    for action in actions().values():
        assert 0 < len(action.title) <= 52, action.name
        for step in action.steps:
            assert 0 < len(step.text) <= 160, (action.name, step.reader)
            assert step.text.count("`") % 2 == 0 and "\n" not in step.text
            assert step.source.strip() and step.grade in ("documented", "measured", "assumed")
