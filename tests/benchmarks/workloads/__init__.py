"""Workloads run through several agent frameworks against the local provider: `python -m tests.benchmarks.workloads`."""
