"""Claude Agent SDK."""

from __future__ import annotations

from tests.benchmarks.workloads.workload import Contender


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""
    return []
