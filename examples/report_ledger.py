"""What a contextkit ledger says, in one line: that of a `Context`'s folder, of `contextkit proxy --record`, of a
watched client.

    python examples/report_ledger.py runs/gpu-prices

Without a path it writes a ledger of two calls and reads it.
"""

import sys
import tempfile
from pathlib import Path

from contextkit import Ledger, Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.summary import summarise


def made_up(folder: str) -> str:
    """The second call reads what the first wrote."""
    path = Path(folder) / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for number, usage in enumerate((Usage(3, 0, 41_000, 0, 90), Usage(3, 41_000, 800, 0, 120))):
            at = 1_764_000_000.0 + 30 * number
            model = "claude-opus-4-5"
            ledger.append(
                ModelCall(
                    f"msg_{number}", "made up", "main", at, at + 1, at + 4, "anthropic", model, None, usage, None, None
                )
            )
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    summary = summarise(records_in(sys.argv[1:] or [made_up(folder)], faults))
    print(f"{summary.calls} calls: {summary}")
