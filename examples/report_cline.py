"""What tasks of Cline or Roo Code read from the cache, in one line.

    python examples/report_cline.py "$STORAGE/saoudrizwan.claude-dev/tasks/*/ui_messages.json"

Without a path it reads a made-up task of two requests.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.summary import summarise


def request(number: int, read: int, written: int) -> dict[str, object]:
    """A request with its bill, as the extension writes it."""
    said = {"tokensIn": 12, "tokensOut": 80, "cacheReads": read, "cacheWrites": written, "cost": 0.02}
    model = {"providerId": "anthropic", "modelId": "claude-sonnet-4-5", "mode": "act"}
    at = 1_767_225_600_000 + number * 20_000
    return {"ts": at, "type": "say", "say": "api_req_started", "text": json.dumps(said), "modelInfo": model}


def made_up(folder: str) -> str:
    """The second request reads what the first wrote."""
    path = Path(folder) / "ui_messages.json"
    path.write_text(json.dumps([request(1, 0, 14_000), request(2, 14_000, 600)]), "utf-8")
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
    for fault in faults.kept:
        print(fault)
