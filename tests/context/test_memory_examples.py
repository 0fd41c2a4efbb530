"""The examples with a memory run as they stand, without keys and warnings, and show what they say."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

pytest.importorskip("uvicorn", reason="the examples need the extra `server`")


def test_research_answers_from_the_first_paper_in_a_small_window(example: Callable[[str], str]) -> None:
    out = example("memory_research")
    windows = [int(size.replace(",", "")) for size in re.findall(r"window +([\d,]+) tokens", out)]
    assert len(windows) == 27 and max(windows) < 20_000
    assert (
        "answered: Sample 700 of the first paper yielded 90.0 %." in out
        and "read: 700  sample 700  yield 90.0 %" in out
    )
    assert re.search(r"1,0\d\d,\d{3} characters read", out) and "all results restored" in out and "0 misses" in out


def test_a_plan_is_recited_and_restated_after_a_summary(example: Callable[[str], str]) -> None:
    out = example("memory_plan")
    assert out.count("told at entry") == 4 and "'2. price of B300', '3. write the report'" in out
    assert re.search(
        r"a new epoch, [\d,]+ tokens before, [\d,]+ after, begins with:\n  The user asked, at the beginning:", out
    )
    assert out.endswith("- [x] price of H200\n- [x] price of B300\n- [ ] write the report\n")
