"""Event logs of the Copilot CLI: events made here, and real logs, whose sums equal a count of their shutdowns."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

from contextkit.cache.usage import Usage
from tests.importers.reading import read_as

FIXTURES = Path(__file__).parent / "fixtures" / "copilot"


read = partial(read_as, "Copilot CLI events")


def test_calls_behind_the_shutdown_that_adds_them_up_are_not_counted_again(tmp_path: Path) -> None:
    lines = (FIXTURES / "events.jsonl").read_text("utf-8").splitlines(keepends=True)
    path = tmp_path / "a.jsonl"
    path.write_text("".join([lines[0], lines[9], *lines[1:9]]), "utf-8")
    calls, _, faults = read(path)
    assert [call.usage for call in calls] == [Usage(16_300, 15_200, 0, 0, 135), Usage(10, 0, 8_990, 0, 70)]
    assert "3 calls stand behind" in str(faults.kept[-1])


def test_real_logs_add_up_to_their_shutdowns(shared: Path) -> None:
    """The count parses every line and knows nothing of ours."""
    paths = sorted((shared / "data" / "agent-logs" / "copilot-cli").glob("*.jsonl.gz"))
    assert paths
    n_sums = 0
    for path in paths:
        sums, outputs = [0] * 4, {}
        for line in gzip.decompress(path.read_bytes()).splitlines():
            event = json.loads(line)
            data = event["data"]
            if event["type"] == "session.shutdown":
                for model in data["modelMetrics"].values():
                    said = model["usage"]
                    read_, written = said["cacheReadTokens"], said["cacheWriteTokens"]
                    counts = (said["inputTokens"] - read_ - written, read_, written, said["outputTokens"])
                    sums = [one + other for one, other in zip(sums, counts, strict=True)]
                    n_sums += 1
            elif event["type"] == "assistant.message":
                outputs[data["apiCallId"]] = data["outputTokens"]
        calls, _, _ = read(path)
        ours = [call.usage for call in calls if call.usage]
        found = [sum(getattr(one, name) or 0 for one in ours) for name in ("fresh", "read", "written", "output")]
        assert found == ([*sums[:3], max(sums[3], sum(outputs.values()))]), path.name
        assert len(calls) == len(outputs)
    assert n_sums == 6
