"""Chats of Qwen Code: lines made here; totals equal a count of their `usageMetadata`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from tests.importers.reading import read_as

CHAT = Path(__file__).parent / "fixtures" / "qwen_code" / "chat.jsonl"


read = partial(read_as, "Qwen Code chat")


def test_a_branch_copies_its_lines_and_they_are_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "branch.jsonl"
    path.write_text(CHAT.read_text("utf-8").replace('"sessionId":"greenhouse"', '"sessionId":"branch"'), "utf-8")
    faults = Faults()
    records = list(records_in([str(CHAT), str(path)], faults))
    assert len([one for one in records if isinstance(one, ModelCall)]) == 4
    assert faults.kept[-1].what == "4 of its calls were read before; counted once"


@pytest.mark.parametrize(
    ("counts", "bill"),
    [
        ((100, 5, 195, 90, 0), Usage(100, 90, 0, 0, 5)),
        ((100, 5, 105, 90, 3), Usage(10, 90, 0, 0, 5)),
        ((100, 5, 108, 90, 3), Usage(10, 90, 0, 0, 8)),
        ((100, 5, 198, 90, 3), Usage(100, 90, 0, 0, 8)),
        ((100, 5, 105, 120, 0), None),
        ((0, 0, 0, 0, 0), None),
    ],
)
def test_the_total_tells_what_the_prompt_and_the_output_hold(
    tmp_path: Path, counts: tuple[int, ...], bill: Usage | None
) -> None:
    names = (
        "promptTokenCount",
        "candidatesTokenCount",
        "totalTokenCount",
        "cachedContentTokenCount",
        "thoughtsTokenCount",
    )
    line = json.loads(CHAT.read_text("utf-8").splitlines()[1])
    line["usageMetadata"] = dict(zip(names, counts, strict=True)) | {"new": {}}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(line), "utf-8")
    assert [call.usage for call in read(path)[0]] == [bill]
