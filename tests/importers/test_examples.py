"""The examples of the formats that need no fixture of their own run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
SHOWS = {
    "report_pi": "call 2: ttl_expired",
    "report_block_trace": "2 requests, 5 blocks, 0.2000 of them read",
    "report_ledger": "2 calls: 49.5 % of input read from cache",
}


@pytest.mark.parametrize("name", SHOWS)
def test_an_example_reads_what_it_made_up(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", f"{name}.py"],
        cwd=FOLDER,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert SHOWS[name] in ran.stdout
