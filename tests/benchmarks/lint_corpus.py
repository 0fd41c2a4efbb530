"""Lints real agent frameworks and agents, and draws the sample of findings that `docs/lint-precision.md` judges.

    python tests/benchmarks/lint_corpus.py FOLDER [--sample 60] [--seed 4] [--only NAME …] [--judged docs/lint-precision.md]

Installs the packages below into FOLDER, one folder each, without what they depend on, and lints each as a tree of its own: a crash
ends the run, and a package that takes longer than a minute is named. Nothing of them is kept in this repository. With `--judged` it says
which findings of the sample have no verdict in the table yet.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source.detect import UNREADABLE, find_in_code

PACKAGES: Final[dict[str, str]] = {
    "agent-framework-core": "1.23.0", "agent-zero": "0.1.2", "agentscope": "2.0.11", "agno": "3.1.10",
    "aider-chat": "0.86.2", "autogen-agentchat": "0.7.5", "autogen-ext": "0.7.5", "browser-use": "0.13.14",
    "camel-ai": "0.2.90", "controlflow": "0.12.1", "crewai": "1.15.30", "deepagents": "0.7.32",
    "dspy": "3.4.1", "google-adk": "2.13.0", "goose-ai": "0.1.0", "gptme": "0.35.1",
    "griptape": "1.13.0", "haystack-ai": "3.4.1", "hermes-agent": "0.19.0", "instructor": "1.17.0",
    "khoj": "1.42.10", "langchain": "1.5.0", "langchain-anthropic": "1.7.10", "langchain-core": "1.8.1",
    "langchain-openai": "1.7.4", "langgraph": "1.2.22", "langgraph-prebuilt": "1.1.2", "langroid": "0.69.16",
    "letta": "0.34.12", "letta-client": "1.12.1", "litellm": "1.109.1", "llama-index-core": "0.14.25",
    "marvin": "3.2.7", "mem0ai": "2.2.1", "metagpt": "0.8.2", "mini-swe-agent": "2.4.6",
    "nanobot-ai": "0.3.5", "open-interpreter": "0.4.3", "openai-agents": "0.24.0", "openhands-ai": "1.11.0",
    "openhands-sdk": "1.58.2", "phidata": "2.7.10", "pydantic-ai-harness": "0.62.0", "pydantic-ai-slim": "2.68.0",
    "qwen-agent": "0.0.34", "semantic-kernel": "1.45.0", "smolagents": "1.26.0", "strands-agents": "1.62.0",
    "swarms": "16.0.3", "sweagent": "0.0.1",
}  # fmt: skip
"""Name on the package index → version."""
SLOW: Final = 60.0
"""Seconds a package may take."""
_PIP = (sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--ignore-requires-python", "--only-binary", ":all:")


def install(name: str, version: str, folder: Path) -> Path:
    """A package in a folder of its own."""
    target = folder / name
    if not target.is_dir():
        subprocess.run([*_PIP, "--target", str(target), f"{name}=={version}"], check=True)
    return target


def findings_of(target: Path) -> Iterator[tuple[str, Finding]]:
    """What the lint says of a package: each finding with its file's path inside the package."""
    for finding in find_in_code([target], LintConfig(), list(hazards())):
        place = finding.place
        if isinstance(place, CodePlace):
            yield Path(place.file).relative_to(target).as_posix(), finding


def row(name: str, file: str, finding: Finding) -> str:
    """One line of the table."""
    place = finding.place
    line = place.line if isinstance(place, CodePlace) else 0
    return f"| {name} {PACKAGES[name]} | `{file}:{line}` | {finding.code} |"


def lint_all(names: list[str], folder: Path) -> list[tuple[str, str, Finding]]:
    """Every finding of every package, a line for each package on the way."""
    found: list[tuple[str, str, Finding]] = []
    for name in names:
        target, start = install(name, PACKAGES[name], folder), time.perf_counter()
        inside = [(name, file, finding) for file, finding in findings_of(target)]
        took = time.perf_counter() - start
        print(f"{name} {PACKAGES[name]}: {len(inside)} findings, {took:.1f} s{' (slow)' if took > SLOW else ''}", flush=True)
        found += inside
    return found


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("folder", type=Path)
    reader.add_argument("--sample", type=int, default=60)
    reader.add_argument("--seed", type=int, default=4)
    reader.add_argument("--only", nargs="*", default=list(PACKAGES))
    reader.add_argument("--judged", type=Path)
    chosen = reader.parse_args()
    found = lint_all(chosen.only, chosen.folder)
    readable = [one for one in found if one[2].code != UNREADABLE]
    print(f"{len(found)} findings, {len(found) - len(readable)} files that this Python cannot read;",
          ", ".join(f"{code} {n}" for code, n in sorted(Counter(one[2].code for one in readable).items())))  # fmt: skip
    drawn = random.Random(chosen.seed).sample(readable, min(chosen.sample, len(readable)))
    judged = chosen.judged.read_text("utf-8") if chosen.judged else ""
    for name, file, finding in drawn:
        line = row(name, file, finding)
        print(line if line in judged or not judged else f"{line} NOT JUDGED", finding.message)


if __name__ == "__main__":
    main()
