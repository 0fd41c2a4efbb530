"""`contextkit demo`: four runs of one agent, their figures, and what they show in words."""

from __future__ import annotations

import json
import re

from contextkit.cli.demo import WAYS
from tests.cli.conftest import Run


def test_only_what_changes_the_front_misses(run: Run) -> None:
    ended = run("demo", "--json", "--turns", 6)
    assert ended.code == 0, ended.err
    rows = {way: summary["total"] for way, summary in json.loads(ended.out).items()}
    assert list(rows) == list(WAYS)
    assert [row["calls"] for row in rows.values()] == [6] * 4
    assert [row["n_misses"] for row in rows.values()] == [0, 1, 0, 2]
    plain, changed, masked, removed = (row["cost_usd"] for row in rows.values())
    assert plain < changed and masked < removed and masked < 1.05 * plain
    assert ended.err == "", "progress is shown on a terminal only"


def test_each_miss_is_explained(run: Run) -> None:
    ended = run("demo", "--turns", 6, "--model", "claude-haiku-4-5")
    assert ended.code == 0, ended.err
    assert "every call read what the call before had left in the cache" in ended.out
    assert re.search(r"call 4 read 0 of [\d,]+ cached tokens: system_changed", ended.out)
    assert re.search(r"call 3 read 0 of [\d,]+ cached tokens: tools_changed", ended.out)
    assert "contextkit report" in ended.out
