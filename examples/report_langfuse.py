"""What the generations of a Langfuse export read from the cache, in one line.

    python examples/report_langfuse.py observations.csv

Without a path it reads two made-up observations whose integrations disagree on what `input` holds.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def generation(number: int, **usage: int) -> dict[str, object]:
    """One observation, the columns a report looks at."""
    return {
        "id": f"made up {number}",
        "traceId": "made up",
        "type": "GENERATION",
        "startTime": f"2026-04-09T01:0{number}:00Z",
        "endTime": f"2026-04-09T01:0{number}:04Z",
        "model": "gpt-5.2",
        "usageDetails": usage,
    }


def made_up(folder: str) -> str:
    """The same 2,304 of 2,495 tokens read, told in two ways; the totals tell them apart."""
    path = Path(folder) / "observations.json"
    beside = generation(1, input=191, input_cached_tokens=2_304, output=291, total=2_786)
    inside = generation(2, input=2_495, cache_read_input_tokens=2_304, output=291, total=2_786)
    path.write_text(json.dumps([beside, inside]), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
