"""What a report holds of a recording that is longer than it can show."""

from __future__ import annotations

import pytest

from contextkit.ledger import summary
from contextkit.ledger.judged import judged
from contextkit.report import contents
from contextkit.report.contents import Gathering
from tests.report.made_up import one_session


def test_whose_the_misses_were_is_kept_for_those_in_the_report_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_MISSES", 20)
    monkeypatch.setattr(summary, "MOST_MISSES", 20)
    made = [record for number in range(150) for record in one_session(2, f"session {number}")]
    gathering = Gathering()
    gathering.add_all(judged(made))
    found = gathering.contents("all")
    assert found.summary.total.calls == 300 and len(found.summary.misses) == 20
    assert len(found.sessions) <= 41
    assert all(found.sessions[miss.index] == miss.exchange_id.rpartition("-")[0] for miss in found.summary.misses)
