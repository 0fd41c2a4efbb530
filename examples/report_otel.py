"""What the model calls in OpenTelemetry spans read from the cache, in one line.

    python examples/report_otel.py spans.json

Without a path it reads two made-up spans.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def span(number: int, prompt: int, read: int, written: int) -> dict[str, object]:
    """One call as OTLP's JSON has it: numbers of 64 bits are text."""
    said = {
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
        "gen_ai.usage.output_tokens": 200,
    }
    names = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-5-5",
    }
    start = 1_775_696_615 + 10 * number
    return {
        "traceId": "5b8e",
        "spanId": f"{number:016}",
        "startTimeUnixNano": f"{start}000000000",
        "endTimeUnixNano": f"{start + 4}000000000",
        "attributes": [
            *({"key": key, "value": {"stringValue": value}} for key, value in names.items()),
            *({"key": key, "value": {"intValue": str(value)}} for key, value in said.items()),
        ],
    }


def made_up(folder: str) -> str:
    """An export of two calls, the second reading what the first wrote."""
    path = Path(folder) / "spans.json"
    spans = [span(1, 9_004, 0, 9_000), span(2, 9_410, 9_000, 406)]
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
