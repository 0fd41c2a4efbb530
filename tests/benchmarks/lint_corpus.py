"""Lints real agent frameworks and agents, and draws the sample of findings that `docs/lint-precision.md` judges.

    python -m tests.benchmarks.lint_corpus [FOLDER] [--sample 60] [--seed 77] [--only NAME …] [--judged
    docs/lint-precision.md]

Installs the packages below into FOLDER (one of the system's temporary ones by default), a folder each, without what
they depend on, and lints each as a tree of its own: a crash ends the run, and a package that takes longer than a minute
is named. Nothing of them is kept in this repository. With `--judged` it says which findings of the sample have no
verdict in the table yet, and how many are true, of the sample and of all."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.own import UNREADABLE
from contextkit.lint.source.detect import find_in_code

PACKAGES: Final[dict[str, str]] = {
    "adalflow": "1.1.3",
    "ag2": "1.2.1",
    "agency-swarm": "1.11.0",
    "agent-framework-core": "1.23.0",
    "agent-zero": "0.1.2",
    "agentops": "0.4.21",
    "agentscope": "2.0.11",
    "agentuniverse": "0.0.19.1",
    "agno": "3.1.10",
    "aider-chat": "0.86.2",
    "amazon-bedrock-haystack": "9.0.0",
    "anthropic-haystack": "8.0.1",
    "arize-phoenix": "20.26.1",
    "atomic-agents": "2.15.0",
    "autogen-agentchat": "0.7.5",
    "autogen-ext": "0.7.5",
    "autogenstudio": "0.4.2.2",
    "aworld": "0.3.2",
    "azure-ai-agents": "1.1.0",
    "babyagi": "0.1.4",
    "basic-memory": "0.24.1",
    "bedrock-agentcore": "1.25.0",
    "beeai-framework": "0.1.85",
    "browser-use": "0.13.14",
    "camel-ai": "0.2.90",
    "codegen": "0.57.0",
    "cognee": "1.6.5",
    "controlflow": "0.12.1",
    "crewai": "1.15.30",
    "crewai-tools": "1.15.30",
    "crfm-helm": "0.5.16",
    "dbgpt": "0.8.2",
    "deepagents": "0.7.32",
    "deepeval": "4.3.1",
    "dspy": "3.4.1",
    "dynamiq": "0.69.0",
    "embedchain": "0.1.128",
    "farm-haystack": "1.26.4.post0",
    "fast-agent-mcp": "0.10.48",
    "google-adk": "2.13.0",
    "goose-ai": "0.1.0",
    "gpt-engineer": "0.1.0",
    "gpt-researcher": "0.16.1",
    "gptme": "0.35.1",
    "graphiti-core": "0.31.2",
    "griptape": "1.13.0",
    "guardrails-ai": "0.11.0",
    "haystack-ai": "3.4.1",
    "hermes-agent": "0.19.0",
    "holmesgpt": "0.45.0",
    "inspect-ai": "0.3.285",
    "inspect-evals": "0.26.0",
    "instructor": "1.17.0",
    "jupyter-ai": "3.2.0",
    "khoj": "1.42.10",
    "kimi-cli": "1.52.0",
    "lagent": "0.2.4",
    "langchain": "1.5.0",
    "langchain-anthropic": "1.7.10",
    "langchain-aws": "1.9.1",
    "langchain-classic": "1.0.8",
    "langchain-cohere": "0.6.0",
    "langchain-community": "0.4.2",
    "langchain-core": "1.8.1",
    "langchain-deepseek": "1.1.1",
    "langchain-experimental": "0.4.2",
    "langchain-fireworks": "1.7.1",
    "langchain-google-genai": "4.4.2",
    "langchain-google-vertexai": "3.2.5",
    "langchain-groq": "1.1.3",
    "langchain-mistralai": "1.1.6",
    "langchain-nvidia-ai-endpoints": "1.5.0",
    "langchain-ollama": "1.1.0",
    "langchain-openai": "1.7.4",
    "langflow-base": "1.13.0",
    "langgraph": "1.2.22",
    "langgraph-prebuilt": "1.1.2",
    "langgraph-supervisor": "0.0.31",
    "langmem": "0.0.30",
    "langroid": "0.69.16",
    "letta": "0.34.12",
    "letta-client": "1.12.1",
    "lightrag-hku": "1.5.7",
    "lionagi": "0.36.0",
    "litellm": "1.109.1",
    "livekit-agents": "1.8.9",
    "livekit-plugins-anthropic": "1.8.9",
    "livekit-plugins-openai": "1.8.9",
    "llama-index-core": "0.14.25",
    "llama-index-legacy": "0.9.48.post4",
    "llama-index-llms-anthropic": "0.12.3",
    "llama-index-llms-bedrock-converse": "0.15.5",
    "llama-index-llms-openai": "0.8.3",
    "llm": "0.36",
    "llm-workflow-engine": "0.23.3",
    "magentic": "0.41.1",
    "marimo": "0.25.2",
    "marvin": "3.2.7",
    "mcp-use": "1.7.1",
    "mem0ai": "2.2.1",
    "metagpt": "0.8.2",
    "mindsdb": "26.1.0",
    "mini-swe-agent": "2.4.6",
    "mirascope": "2.8.2",
    "mistral-vibe": "2.25.5",
    "mlflow-skinny": "3.17.2",
    "modelscope-agent": "0.7.2",
    "ms-agent": "1.6.0",
    "nanobot-ai": "0.3.5",
    "nemoguardrails": "0.24.1",
    "npcpy": "2.1.25",
    "nvidia-nat": "1.9.0",
    "open-interpreter": "0.4.3",
    "open-webui": "0.12.4",
    "openai-agents": "0.24.0",
    "openhands-ai": "1.11.0",
    "openhands-sdk": "1.58.2",
    "opentelemetry-instrumentation-anthropic": "0.62.4",
    "opik": "2.2.122",
    "oterm": "0.26.1",
    "pandasai": "3.0.0",
    "paper-qa": "2026.8.12",
    "parlant": "3.3.2",
    "phidata": "2.7.10",
    "pipecat-ai": "1.14.0",
    "pr-agent": "0.49.0",
    "praisonaiagents": "1.7.17",
    "promptflow-core": "1.18.5",
    "pyautogen": "0.2.35",
    "pydantic-ai-harness": "0.62.0",
    "pydantic-ai-slim": "2.68.0",
    "quivr-core": "0.0.26",
    "qwen-agent": "0.0.34",
    "r2r": "3.6.6",
    "ra-aid": "0.30.2",
    "ragas": "0.4.3",
    "rigging": "3.3.5",
    "semantic-kernel": "1.45.0",
    "semantic-router": "1.1.1",
    "shell-gpt": "1.5.1",
    "skyvern": "1.0.56",
    "smolagents": "1.26.0",
    "spacy-llm": "0.7.4",
    "strands-agents": "1.62.0",
    "strands-agents-tools": "0.8.10",
    "superduper-framework": "0.10.0",
    "swarms": "16.0.3",
    "sweagent": "0.0.1",
    "terminal-bench": "0.2.18",
    "txtai": "9.14.0",
    "upsonic": "0.77.3",
    "vanna": "2.0.2",
    "weave": "0.54.0",
}
"""Name on the package index → version."""
SCRATCH: Final = Path(tempfile.gettempdir()) / "contextkit-lint"
"""Where packages are installed unless another folder is named."""
SLOW: Final = 60.0
"""Seconds a package may take."""
_PIP = (
    sys.executable,
    "-m",
    "pip",
    "install",
    "-q",
    "--no-deps",
    "--no-compile",
    "--ignore-requires-python",
    "--only-binary",
    ":all:",
)


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
    """Every finding of every package, a line for each package on the way, and what they come to."""
    found: list[tuple[str, str, Finding]] = []
    n_files, seconds = 0, 0.0
    for name in names:
        target = install(name, PACKAGES[name], folder)
        files, start = sum(1 for _ in target.rglob("*.py")), time.perf_counter()
        inside = [(name, file, finding) for file, finding in findings_of(target)]
        took = time.perf_counter() - start
        print(
            f"{name} {PACKAGES[name]}: {files} files, {len(inside)} findings, {took:.1f} s{' (slow)' if took > SLOW else ''}",
            flush=True,
        )
        found, n_files, seconds = found + inside, n_files + files, seconds + took
    n_unread = sum(one[2].code == UNREADABLE for one in found)
    print(
        f"{len(names)} packages, {n_files:,} files in {seconds:.0f} s; {len(found) - n_unread} findings, "
        f"{n_unread} files that Python {sys.version_info[0]}.{sys.version_info[1]} cannot read"
    )
    return [one for one in found if one[2].code != UNREADABLE]


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("folder", type=Path, nargs="?", default=SCRATCH / "packages")
    reader.add_argument("--sample", type=int, default=60)
    reader.add_argument("--seed", type=int, default=77)
    reader.add_argument("--only", nargs="*", default=list(PACKAGES))
    reader.add_argument("--judged", type=Path)
    chosen = reader.parse_args()
    found = lint_all(chosen.only, chosen.folder)
    counts = Counter(one[2].code for one in found)
    print("by code:", ", ".join(f"{code} {n}" for code, n in sorted(counts.items())))
    drawn = random.Random(chosen.seed).sample(found, min(chosen.sample, len(found)))
    judged = chosen.judged.read_text("utf-8") if chosen.judged else ""
    for one in drawn:
        line = row(*one)
        print(line if line in judged or not judged else f"{line} NOT JUDGED", one[2].message)
    if judged:
        print(f"true: {shares(drawn, judged)} of the sample, {shares(found, judged)} of all findings")


def shares(findings: Sequence[tuple[str, str, Finding]], judged: str) -> str:
    """How many of some findings the table calls true; one without a verdict counts as false."""
    n_true = sum(f"{row(*one)} true |" in judged for one in findings)
    return f"{n_true} of {len(findings)} ({n_true / max(1, len(findings)):.0%})"


if __name__ == "__main__":
    main()
