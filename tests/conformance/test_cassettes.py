"""Recorded pairs of other projects: parsed, billed as the provider says, accepted, and no read predicted above the bill."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.cassettes import compared


def test_recorded_pairs_are_parsed_accepted_and_predicted(shared: Path, request: pytest.FixtureRequest) -> None:
    """Every tenth cassette; all with `--full`."""
    path = shared / "data" / "agent-logs" / "recorded-pairs.jsonl.gz"
    report = compared(path, is_full=request.config.getoption("--full"))
    print(*report.lines(), sep="\n")
    assert report.n_billed > 30
    assert (report.unparsed, report.other_usage, report.refused, report.above) == ([], [], [], [])
