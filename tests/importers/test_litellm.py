"""LiteLLM's log: rows made here, field by field, in each of the ways they are exported."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from contextkit.ledger.calls import Bodies
from tests.importers.reading import read_as

FIXTURES = Path(__file__).parent / "fixtures" / "litellm"


read = partial(read_as, "LiteLLM log")


def rows() -> list[dict[str, Any]]:
    return list(json.loads((FIXTURES / "spend_logs.json").read_text("utf-8")))


def test_the_request_is_kept_without_what_is_secret() -> None:
    calls, _, _ = read(FIXTURES / "spend_logs.json")
    bodies = [call.prompt.request for call in calls if isinstance(call.prompt, Bodies)]
    assert [len(json.loads(body)["messages"]) for body in bodies] == [2, 3]
    assert not any(b"Bearer" in body or b"headers" in body for body in bodies)


def test_a_request_that_was_shortened_is_unknown(tmp_path: Path) -> None:
    row = next(row for row in rows() if row["request_id"] == "chatcmpl-A")
    row["proxy_server_request"]["messages"] = [{"role": "user", "content": "a... (litellm_truncated 900 chars)"}]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row), "utf-8")
    calls, _, faults = read(path)
    assert calls[0].prompt is None and len(faults) == 1


def test_a_prompt_smaller_than_what_was_cached_has_an_unknown_bill(tmp_path: Path) -> None:
    """As an older LiteLLM wrote it for Anthropic (issue 15056)."""
    usage = {
        "prompt_tokens": 31,
        "completion_tokens": 467,
        "cache_creation_input_tokens": 1_253,
        "cache_read_input_tokens": 0,
    }
    row = {**rows()[-1], "request_id": "old", "metadata": {"usage_object": usage}}
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row), "utf-8")
    calls, _, faults = read(path)
    assert calls[0].usage is None and [fault.line for fault in faults.kept] == [1]


def test_an_array_that_was_cut_gives_the_rows_before_the_cut(tmp_path: Path) -> None:
    text = (FIXTURES / "spend_logs.json").read_text("utf-8")
    path = tmp_path / "a.json"
    path.write_text(text[: text.index("chatcmpl-B") + 400], "utf-8")
    calls, _, faults = read(path)
    assert [call.id for call in calls] == ["chatcmpl-D", "chatcmpl-E"] and len(faults) == 2


def test_rows_without_a_time_stand_where_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    some = [{**row, "startTime": None} if number == 1 else row for number, row in enumerate(reversed(rows()))]
    path.write_text("\n".join(map(json.dumps, some)), "utf-8")
    calls, _, faults = read(path)
    assert [call.id for call in calls][:2] == ["chatcmpl-A", "chatcmpl-B"] and calls[0].at == calls[1].at
    assert any("no time" in fault.what and fault.line == 2 for fault in faults.kept)
