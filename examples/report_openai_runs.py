"""What the calls of a list of runs were sent, in OpenAI's message format.

    python examples/report_openai_runs.py gpt-4o-airline.json.gz

Without a path it reads one made-up run of two calls. No bill is in such runs: bodies are, for `contextkit lint` to
compare.
"""

import json
import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import Bodies, ModelCall


def made_up(folder: str) -> str:
    """A run as tau-bench keeps it."""
    path = Path(folder) / "runs.json"
    roles = ("system", "user", "assistant", "user", "assistant")
    path.write_text(
        json.dumps([{"task_id": 0, "trial": 0, "traj": [{"role": role, "content": "…"} for role in roles]}]), "utf-8"
    )
    return str(path)


with tempfile.TemporaryDirectory() as folder:
    faults = Faults()
    calls = [
        record for record in records_in(sys.argv[1:] or [made_up(folder)], faults) if isinstance(record, ModelCall)
    ]
    sizes = [len(call.prompt.request) for call in calls if isinstance(call.prompt, Bodies)]
    print(
        f"{len(calls)} calls of {len({call.session for call in calls})} runs, bodies of {min(sizes):,} to {max(sizes):,} bytes"
    )
    for fault in faults.kept:
        print(fault)
