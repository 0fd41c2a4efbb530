"""What changed is told in words frozen when they are written, and told once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context
from contextkit.canonical import canonical, parse
from contextkit.errors import InvalidContent
from contextkit.log.entry import (
    Change,
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


def repeats(context: Context, changes: Iterable[Change]) -> list[int | None]:
    """For each change the place, among the notices, of the one that says the same; None where it is news."""
    found: list[int | None] = []
    for change in changes:
        n = len(context.log)
        entry = context.notice(change)
        found.append(None if entry.sequence == n else entry.sequence - 1)
    return found


def conversation(log: Log | None = None) -> Context:
    return Context(AnthropicMessages("claude-opus-4-5", max_tokens=64), log=log, clock=lambda: 0.0)


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
def test_a_change_is_written_once_and_a_log_opened_again_remembers_it(changes: list[Change]) -> None:
    context = conversation()
    for change in changes:
        repeats(context, [change])
        [again] = repeats(context, [change])
        assert (again is None) == change.is_repeatable
    last = {(change.kind, change.path if change.kind in ("file", "memory") else ""): change for change in changes}  # type: ignore[attr-defined]
    resumed = repeats(conversation(context.log), last.values())
    assert [place is None for place in resumed] == [change.is_repeatable for change in last.values()]


def test_there_and_back_is_two_pieces_of_news() -> None:
    there, back = ModeChanged("review"), ModeChanged("edit")
    assert repeats(conversation(), [back, there, back, back]) == [None, None, None, 2]


def test_files_and_memories_are_compared_path_by_path_and_others_kind_by_kind() -> None:
    changes = [
        FileChanged("a", "1"),
        FileChanged("b", "1"),
        FileChanged("a", "1"),
        FileChanged("a", "2"),
        DateChanged("d"),
        DateChanged("d"),
    ]
    assert repeats(conversation(), changes) == [None, None, 0, None, None, 3]


def test_an_epoch_takes_notices_out_of_the_prompt() -> None:
    context = conversation()
    repeats(context, [ModeChanged("review")])
    context.compact("They greeted each other.")
    assert repeats(context, [ModeChanged("review")]) == [None]


@pytest.mark.parametrize(
    "change", [ModeChanged(" "), EffortChanged(""), ModeChanged("review", "\n"), FileChanged(""), DateChanged("")]
)
def test_a_change_that_says_nothing_is_refused(change: Change) -> None:
    with pytest.raises(InvalidContent, match="says nothing: give the new value"):
        _ = change.body
