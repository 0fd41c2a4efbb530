"""The replay of a conversation against the reference cache, bill by bill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.importers.registry import files_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.whatif.replay import Change, ReplayedCall, as_it_was, replay, saved_usd
from tests.scale import n_examples
from tests.whatif.conversations import OPUS, SONNET, conversations, conversations_of
from tests.whatif.reference_replay import reference_bills

LIFETIMES = (None, True, False)
"""As recorded, the longer one, the shorter one."""


def check(calls: Sequence[ReplayedCall]) -> None:
    """Compare all replays of a conversation; the one of what was has the recorded bills."""
    for is_from_end in (False, True):
        was = as_it_was(calls, is_from_end=is_from_end)
        for is_long in LIFETIMES:
            bills = replay(calls, Change(is_long=is_long, is_from_end=is_from_end), was)
            assert bills == reference_bills(calls, is_long, is_from_end=is_from_end), (is_long, is_from_end)
            if is_long is None:
                assert saved_usd(calls, bills) == pytest.approx(0, abs=1e-9)


@settings(max_examples=n_examples(150, 5_000), deadline=None)
@given(st.sampled_from([(OPUS,), (OPUS, SONNET)]).flatmap(conversations))
def test_every_bill_is_that_of_the_reference_cache(records: list[ModelCall]) -> None:
    for calls in conversations_of(records).values():
        check(calls)


@pytest.mark.parametrize("program", ["claude-code", "codex", "gemini-cli"])
def test_every_bill_of_recorded_sessions_is_that_of_the_reference_cache(shared: Path, program: str) -> None:
    files = files_at([str(shared / "data" / "agent-logs" / program)])
    found = conversations_of(records_in(files[: n_examples(20, len(files))], Faults()))
    assert found
    for calls in found.values():
        check(calls)
