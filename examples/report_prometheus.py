"""The prefix hit rate of a vLLM or SGLang server between scrapes of its `/metrics` page.

    while sleep 15; do date -u +%FT%TZ; curl -s localhost:8000/metrics; done > scrapes.prom
    python examples/report_prometheus.py scrapes.prom

Without a path it reads two made-up scrapes.
"""

import sys
import tempfile
from pathlib import Path

from contextkit.importers.registry import records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall

MADE_UP = """2026-04-09T01:00:00Z
vllm:prefix_cache_queries_total{engine="0",model_name="llama"} 941
vllm:prefix_cache_hits_total{engine="0",model_name="llama"} 464
2026-04-09T01:00:15Z
vllm:prefix_cache_queries_total{engine="0",model_name="llama"} 1623
vllm:prefix_cache_hits_total{engine="0",model_name="llama"} 1104
"""

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "scrapes.prom"
    path.write_text(MADE_UP, encoding="utf-8")
    faults = Faults()
    for row in records_in(sys.argv[1:] or [str(path)], faults):
        if isinstance(row, ModelCall) and row.usage and row.usage.hit_rate is not None and row.ended_at is not None:
            rate = f"{row.usage.hit_rate:.1%}".replace("%", " %")
            print(f"{row.lane}: {rate} of {row.usage.prompt:,} tokens in {row.ended_at - row.at:.0f} s")
    for fault in faults.kept:
        print(fault)
