"""What a recorded session would have cost with something changed, or with another model.

    python examples/whatif.py session.jsonl

Without a path it reads a made-up session: three calls, the last one after a pause that its prefix did not outlive.
"""

import sys
import tempfile
from pathlib import Path

from contextkit.cache.usage import Usage
from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.models import model_named
from contextkit.whatif.what_if import what_if


def made_up(folder: str) -> str:
    """Three calls of one conversation."""
    path = Path(folder) / "ledger.jsonl"
    with Ledger.open(path) as ledger:
        for number, (at, read, written) in enumerate([(0, 0, 80_000), (60, 80_000, 4_000), (460, 0, 88_000)]):
            start = 1_765_000_000.0 + at
            bill = Usage(fresh=12, read=read, write_5m=written, write_1h=0, output=400)
            ledger.append(
                ModelCall(
                    f"call {number}",
                    "made up",
                    "main",
                    start,
                    start + 1,
                    start + 9,
                    "anthropic",
                    "claude-opus-4-5",
                    None,
                    bill,
                    None,
                    None,
                )
            )
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    records = records_in(sys.argv[1:] or [made_up(folder)], Faults())
    found = what_if(records, models=[model_named("claude-sonnet-5-5")])

print(f"{found.calls_with_price} calls, ${found.recorded_usd:.2f}; ${found.together_usd:.2f} less with all changes")
for saving in found.savings:
    print(f"{saving.change}: saves ${saving.usd:.2f}")
for model in found.models:
    print(f"{model.name}: ${model.after_usd:.2f} (${model.low_usd:.2f} to ${model.high_usd:.2f})")
