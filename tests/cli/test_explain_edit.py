"""`contextkit explain-edit` as it is typed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_deletion_as_a_picture(run: Run) -> None:
    ended = run("explain-edit", "read search write", "--delete", "5", "7")
    assert (ended.code, ended.err) == (0, "")
    text, *layers, legend, _, cost, computed, rounding, stale = ended.out.splitlines()
    assert text.strip() == "read write"
    assert layers == [
        *(f"layer  {i} .....#####  differs from row 5 on" for i in (3, 2, 1)),
        "layer  0 .....~~~~~  differs from row 5 on",
    ]
    assert "~ computed again, equal but for its rotation" in legend
    assert cost == "17 tokens before, 10 after: 5 read from the cache, 5 computed"
    assert (
        "160 K and V vectors" in computed and rounding.endswith("(rounding)") and "had the old rows been kept" in stale
    )


def test_rows_and_layers_as_json_and_svg(run: Run, tmp_path: Path) -> None:
    ended = run(
        "explain-edit",
        "--replace",
        "43",
        "5",
        "--layers",
        3,
        "--kv-heads",
        1,
        "--json",
        "--svg",
        tmp_path / "clock.svg",
    )
    found = json.loads(ended.out)
    assert (found["n_kept"], found["n_after"], found["first_row"]) == (43, 83, [43, 43, 43])
    assert found["work"]["vectors"] == 2 * 3 * 40 and len(found["fates"]["layers"]) == 3
    drawn = ET.parse(tmp_path / "clock.svg").getroot()
    bars = [
        bar
        for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")
        if bar.find("{http://www.w3.org/2000/svg}title") is not None
    ]
    assert len(bars) == 3 * 3


@pytest.mark.parametrize("position", ["rope_at_read", "learned"])
def test_a_long_text_shares_columns(run: Run, position: str) -> None:
    ended = run("explain-edit", "ab" * 150, "--move", 10, 21, 100, "--positions", position)
    assert ended.code == 0 and {len(line.split("  differs")[0]) for line in ended.out.splitlines()[:4]} == {9 + 96}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "0 edits given: give exactly one of"),
        (["--append", "a", "--delete", "0", "1"], "2 edits given"),
        (["--delete", "80", "9"], "does not fit into 83"),
        (["--delete", "x", "9"], "'x' is not a valid integer"),
    ],
)
def test_what_was_typed_wrong_is_one_line(run: Run, args: list[str], said: str) -> None:
    ended = run("explain-edit", *args)
    assert ended.code == 2
    assert said in ended.err and ended.err.count("\n") == 1


def test_without_numpy_it_names_the_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util
    import sys

    for name in [name for name in sys.modules if name.startswith("contextkit.transformer")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ended = run("explain-edit", "abc", "--append", "d")
    assert ended.code == 2 and 'pip install "contextkit-sdk[numpy]"' in ended.err
