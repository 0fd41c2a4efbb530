"""What changed is told in words frozen when they are written, and told once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.canonical import canonical, parse
from contextkit.errors import InvalidContent
from contextkit.log.entry import (
    Change,
    Changes,
    DateChanged,
    EffortChanged,
    FileChanged,
    FolderChanged,
    MemoryUpdated,
    ModeChanged,
    PermissionChanged,
)
from contextkit.log.log import Log

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
KINDS = {
    "date": DateChanged(date(2026, 11, 21)),
    "mode": ModeChanged("review", "Change nothing."),
    "effort": EffortChanged("low"),
    "folder": FolderChanged("/src"),
    "memory": MemoryUpdated("notes.md"),
    "permission": PermissionChanged("You may push."),
    "file": FileChanged("a.py", "9f"),
}
CHANGES = st.one_of(
    st.builds(DateChanged, st.dates() | WORDS),
    st.builds(ModeChanged, WORDS, st.none() | WORDS),
    st.builds(EffortChanged, WORDS),
    st.builds(FolderChanged, WORDS),
    st.builds(MemoryUpdated, WORDS, st.none() | WORDS),
    st.builds(PermissionChanged, WORDS),
    st.builds(FileChanged, WORDS, st.none() | WORDS),
)


def told(log: Log, changes: Changes, said: Iterable[Change]) -> list[int | None]:
    """What was said of each before; news is written."""
    found = []
    for change in said:
        found.append(changes.told(change, canonical(change.body)))
        if found[-1] is None:
            changes.feed(log.append("notice", change.body))
    return found


def test_every_kind_there_is_names_itself() -> None:
    here = [cls for cls in Change.__subclasses__() if cls.__module__ == Change.__module__]
    assert {cls.kind for cls in here} == KINDS.keys()
    assert {change.body["event"]["type"] for change in KINDS.values()} == KINDS.keys()


@given(CHANGES)
def test_a_change_is_words_and_text_fields_and_comes_back_from_the_log_as_it_was(change: Change) -> None:
    body = change.body
    assert parse(canonical(body)) == body and body["text"] == change.text and change.text.strip()
    assert all(isinstance(value, str) for value in body["event"].values())


@given(st.lists(CHANGES, max_size=8))
def test_the_same_is_told_once_and_a_log_read_again_knows_what_was_told(said: list[Change]) -> None:
    log = Log(clock=lambda: 0.0)
    changes = Changes()
    for change in said:
        told(log, changes, [change])
        [again] = told(log, changes, [change])
        assert (again is None) == change.is_repeatable
        assert Changes(log).told(change, canonical(change.body)) == changes.told(change, canonical(change.body))


def test_there_and_back_is_two_pieces_of_news() -> None:
    there, back = ModeChanged("review"), ModeChanged("edit")
    assert told(Log(), Changes(), [back, there, back, back]) == [None, None, None, 2]


def test_files_and_memories_are_told_path_by_path_and_others_kind_by_kind() -> None:
    said = [
        FileChanged("a", "1"),
        FileChanged("b", "1"),
        FileChanged("a", "1"),
        FileChanged("a", "2"),
        DateChanged("d"),
        DateChanged("d"),
    ]
    assert told(Log(), Changes(), said) == [None, None, 0, None, None, 3]


def test_an_epoch_takes_what_was_told_out_of_the_prompt() -> None:
    log, changes = Log(), Changes()
    told(log, changes, [EffortChanged("low")])
    changes.feed(log.append("epoch", {}))
    assert told(log, changes, [EffortChanged("low")]) == [None]


@pytest.mark.parametrize(
    "change", [ModeChanged(" "), EffortChanged(""), ModeChanged("review", "\n"), FileChanged(""), DateChanged("")]
)
def test_a_change_that_says_nothing_is_refused(change: Change) -> None:
    with pytest.raises(InvalidContent, match="says nothing: give the new value"):
        _ = change.body


SAY = """
from contextkit.canonical import canonical
from contextkit.log.entry import FileChanged, ModeChanged
print(canonical([ModeChanged("naïve", "x").body, FileChanged("a").body]))
"""


def test_the_bytes_are_the_same_in_every_process() -> None:
    environments = ({**os.environ, "PYTHONHASHSEED": seed} for seed in ("0", "1", "4242"))
    seen = {
        subprocess.run([sys.executable, "-c", SAY], env=env, capture_output=True, check=True).stdout
        for env in environments
    }
    assert len(seen) == 1
