"""Which contenders are installed, in which version, and what each workload is run with."""

from __future__ import annotations

import importlib
import os
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from tests.benchmarks.workloads.workload import Contender

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no request to anybody while it is imported
os.environ.setdefault("LANGSMITH_TRACING", "false")
os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

MODULES = {
    "contender_contextkit": ("contextkit",),
    "contender_sdk": ("anthropic",),
    "contender_langchain": ("langchain", "langchain-anthropic", "deepagents"),
    "contender_pydantic_ai": ("pydantic-ai-slim", "pydantic-ai-harness"),
    "contender_openai_agents": ("openai-agents",),
    "contender_litellm": ("litellm",),
    "contender_smolagents": ("smolagents",),
    "contender_claude_agent": ("claude-agent-sdk",),
}
"""Module of each contender, and the distributions it needs."""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Distribution → version, of those that are installed."""
    found = {package: _version(package) for packages in MODULES.values() for package in packages}
    return {package: number for package, number in found.items() if number is not None}


def skipped() -> dict[str, str]:
    """Contender module → why it is not run."""
    reasons = {}
    for module, packages in MODULES.items():
        missing = [package for package in packages if _version(package) is None]
        if missing:
            reasons[module.removeprefix("contender_")] = f"not installed: {', '.join(missing)}"
    return reasons


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"tests.benchmarks.workloads.{name}")


def contenders_of(workload: str) -> list[Contender]:
    """What is run on a workload, contextkit first."""
    left_out = skipped()
    found: list[Contender] = []
    for module in MODULES:
        if module.removeprefix("contender_") not in left_out:
            found += _module(module).contenders(workload)
    return found
