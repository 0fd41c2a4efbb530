"""Langfuse exports: observations made here, two of them with the figures of public reports."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.langfuse import settled
from tests.importers.reading import read_as

read = partial(read_as, "Langfuse export")


@pytest.mark.parametrize(
    ("said", "reading"),
    [
        ({"input": 86, "input_cached_tokens": 17_817, "output": 10, "total": 17_913}, "exclusive"),
        ({"input": 17_903, "input_cached_tokens": 17_817, "output": 10, "total": 17_913}, "inclusive"),
        ({"input": 17_903, "input_cached_tokens": 17_817, "output": 10}, "unsaid"),
        ({"input": 17_903, "input_cached_tokens": 17_817, "output": 10, "total": 5}, "unsaid"),
        (
            {"input": 100, "input_cached_tokens": 50, "output": 10, "output_reasoning_tokens": 50, "total": 160},
            "unsaid",
        ),
    ],
)
def test_the_total_tells_what_the_input_holds(said: dict[str, Any], reading: str) -> None:
    assert settled(said)[1] == reading


def test_less_input_than_cached_tokens_can_only_leave_them_out(tmp_path: Path) -> None:
    row = {
        "id": "a",
        "traceId": "t",
        "type": "GENERATION",
        "startTime": "2026-04-09T01:00:00Z",
        "model": "claude-opus-4-5",
    }
    path = tmp_path / "a.jsonl"
    path.write_text(
        json.dumps({**row, "usageDetails": {"input": 3, "cache_read_input_tokens": 900, "output": 1}}), "utf-8"
    )
    calls, _, faults = read(path)
    assert calls[0].usage == Usage(3, 900, None, None, 1) and not len(faults)


def test_a_page_of_the_api_and_an_older_export(tmp_path: Path) -> None:
    row = {"id": "a", "traceId": "t", "type": "GENERATION", "startTime": "2026-04-09T01:00:00Z", "model": "gpt-5.2"}
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps({"data": [{**row, "promptTokens": 90, "completionTokens": 4}], "meta": {"page": 1}}), "utf-8"
    )
    calls, _, _ = read(path)
    assert calls[0].usage == Usage(output=4)
