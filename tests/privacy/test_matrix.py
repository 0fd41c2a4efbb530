"""Kinds of secrets × encodings × places through a running proxy.

`python -m tests.privacy.matrix --full` runs every combination.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.privacy.matrix import CODINGS, PLACES, WAYS, all_cases, leaks, outputs
from tests.scale import n_examples

pytestmark = pytest.mark.skipif(os.name == "nt", reason="ends its processes with POSIX signals")


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
def test_no_secret_is_found_in_what_the_proxy_leaves(options: tuple[str, ...], tmp_path: Path) -> None:
    cases = all_cases(is_full=False)[len(options) :: n_examples(5, 2)]
    found = outputs(cases, tmp_path, *options)
    assert {case.place for case in cases} == set(PLACES) and {case.way for case in cases} == set(WAYS) >= set(CODINGS)
    assert not leaks(cases, found)
    recorded = found["recording"]
    assert recorded.count(b'"request"') >= len(cases) * 2 // 3 and recorded.count(b"*" * 10) > len(cases) // 6
