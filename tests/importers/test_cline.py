"""Tasks of Cline and Roo Code: messages made here; totals equal a count of their texts."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

from contextkit.cache.usage import Usage
from tests.importers.reading import read_as

FIXTURES = Path(__file__).parent / "fixtures" / "cline"
CLINE, ROO = FIXTURES / "1767225600000" / "ui_messages.json", FIXTURES / "roo" / "ui_messages.json"


read = partial(read_as, "Cline task")


def test_before_november_2025_the_input_of_anthropics_models_left_the_cached_tokens_out(tmp_path: Path) -> None:
    said = {"apiProtocol": "anthropic", "tokensIn": 9_000, "tokensOut": 20, "cacheWrites": 0, "cacheReads": 4_000}
    path = tmp_path / "ui_messages.json"
    bills = []
    for ts in (1_758_225_600_000, 1_762_000_000_000):
        message = {"ts": ts, "type": "say", "say": "api_req_started", "text": json.dumps(said)}
        path.write_text(json.dumps([message]), "utf-8")
        bills.append(read(path)[0][0].usage)
    assert bills == [Usage(9_000, 4_000, 0, 0, 20), Usage(5_000, 4_000, 0, 0, 20)]


def test_the_model_stands_in_the_files_beside_the_messages(tmp_path: Path) -> None:
    shutil.copy(ROO, tmp_path)
    (tmp_path / "api_conversation_history.json").write_text('[{"content":"<model>gpt-5.2</model>"}]', "utf-8")
    assert {(call.provider, call.model) for call in read(tmp_path / "ui_messages.json")[0]} == {("openai", "gpt-5.2")}
    uses = [
        {"ts": 1_758_000_000_000, "model_id": "claude-sonnet-4-5", "model_provider_id": "anthropic"},
        {"ts": 1_767_225_605_000, "model_id": "gpt-5.2", "model_provider_id": "openai-native", "mode": "act"},
    ]
    (tmp_path / "task_metadata.json").write_text(json.dumps({"model_usage": uses}), "utf-8")
    models = [call.model for call in read(tmp_path / "ui_messages.json")[0]]
    assert models == ["claude-sonnet-4-5", "gpt-5.2", "gpt-5.2"]
    (tmp_path / "task_metadata.json").write_text("{", "utf-8")
    calls, _, faults = read(tmp_path / "ui_messages.json")
    assert {call.model for call in calls} == {"gpt-5.2"} and "task_metadata.json" in faults.kept[0].what


def test_damaged_and_unknown_messages_are_passed_over(tmp_path: Path) -> None:
    messages = json.loads(CLINE.read_text("utf-8"))
    messages[1]["text"] = messages[1]["text"][:30]
    messages[4]["text"] = messages[4]["text"].replace('"tokensIn": 9', '"tokensIn": 9, "new": [1]')
    path = tmp_path / "ui_messages.json"
    path.write_text(json.dumps([*messages, {"a": 1}, 7, {"ts": 1, "type": "say", "say": "dance"}], indent=1), "utf-8")
    calls, _, faults = read(path)
    assert calls[0].usage == Usage(9, 14_000, 600, 0, 120) and len(calls) == 5
    assert [fault.what for fault in faults.kept] == [
        "a request whose text is no JSON; passed over",
        "no message of a task; passed over",
    ]
    assert faults.kept[0].line > 1
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    calls, _, faults = read(path)
    assert len(calls) == 1 and faults.kept[-1].line > 0
