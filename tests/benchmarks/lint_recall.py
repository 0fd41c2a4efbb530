"""Lints releases from before and after a cache bug was fixed: the first has the finding at the place, the second has
not.

    python -m tests.benchmarks.lint_recall [FOLDER] [--only NAME …]

Installs both releases of each row into FOLDER (one of the system's temporary ones by default), without what they depend
on, and prints the table of `docs/lint-precision.md`. Ends with status 1 where a row does not hold."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final, NamedTuple

from contextkit.lint.finding import CodePlace
from tests.benchmarks.lint_corpus import SCRATCH, findings_of, install


class Bug(NamedTuple):
    """A bug that was fixed."""

    package: str
    before: str
    after: str
    code: str
    file: str
    changed: str


BUGS: Final = (
    Bug(
        "nanobot-ai",
        "0.1.4",
        "0.1.4.post2",
        "CKS01",
        "nanobot/agent/context.py",
        "the current time left the system prompt for the user's message (HKUDS/nanobot#226)",
    ),
    Bug(
        "nanobot-ai",
        "0.2.2",
        "0.3.0",
        "CKS01",
        "nanobot/utils/helpers.py",
        "the system prompt of sub-agents no longer names the time",
    ),
    Bug(
        "hermes-agent",
        "0.14.0",
        "0.15.0",
        "CKS01",
        "hermes_time.py",
        "the system prompt names the day a conversation began, no longer the minute (NousResearch/hermes-agent#27675)",
    ),
    Bug(
        "hermes-agent",
        "0.17.0",
        "0.18.0",
        "CKS03",
        "gateway/session.py",
        "the id of the message that asked left the system message for the user's message",
    ),
    Bug(
        "deepagents",
        "0.4.12",
        "0.5.0",
        "CKS09",
        "deepagents/graph.py",
        "the marker is set behind the user's middleware, memory stands behind the marker (langchain-ai/deepagents#2070)",
    ),
    Bug(
        "deepagents-cli",
        "0.0.34",
        "0.0.35",
        "CKT01",
        "deepagents_cli/mcp_tools.py",
        "tools of MCP servers are sorted by name (langchain-ai/deepagents#2497)",
    ),
    Bug(
        "strands-agents",
        "1.41.0",
        "1.42.0",
        "CKM11",
        "strands/tools/executors/concurrent.py",
        "results of parallel tools are put in the order of their calls (strands-agents/harness-sdk#2112)",
    ),
    Bug(
        "browser-use",
        "0.1.32",
        "0.1.33",
        "CKS01",
        "browser_use/agent/prompts.py",
        "the date and minute left the system prompt for the message about the page",
    ),
    Bug(
        "aider-chat",
        "0.50.1",
        "0.51.0",
        "CKS01",
        "aider/coders/base_coder.py",
        "the system prompt names the day, no longer the second",
    ),
    Bug(
        "google-adk",
        "1.17.0",
        "1.18.0",
        "CKA03",
        "google/adk/models/lite_llm.py",
        "cached tokens of LiteLLM's usage are handed on (google/adk-python#3049)",
    ),
    Bug(
        "openai-agents",
        "0.0.15",
        "0.0.16",
        "CKA03",
        "agents/run.py",
        "the usage of a streamed run keeps its cached tokens (openai/openai-agents-python#555)",
    ),
    Bug(
        "langchain-openai",
        "0.2.1",
        "0.2.2",
        "CKA03",
        "langchain_openai/chat_models/base.py",
        "cached tokens of a usage are handed on (langchain-ai/langchain#27080)",
    ),
    Bug(
        "strands-agents",
        "1.45.0",
        "1.46.0",
        "CKA03",
        "strands/models/anthropic.py",
        "Anthropic's cache counters reach the metadata of the answer (strands-agents/harness-sdk#2302)",
    ),
    Bug(
        "camel-ai",
        "0.2.90",
        "0.2.91a0",
        "CKA03",
        "camel/models/anthropic_model.py",
        "Anthropic's cache counters are handed on (camel-ai/camel#4005)",
    ),
    Bug(
        "crewai",
        "1.9.3",
        "1.10.1",
        "CKA03",
        "crewai/llms/providers/openai/completion.py",
        "cached tokens of OpenAI's usage are counted",
    ),
    Bug("crewai", "1.9.3", "1.10.1", "CKA03", "crewai/llms/providers/azure/completion.py", "the same for Azure"),
    Bug("crewai", "1.9.3", "1.10.1", "CKA03", "crewai/llms/providers/gemini/completion.py", "the same for Gemini"),
    Bug(
        "google-adk",
        "2.2.0",
        "2.3.0",
        "CKA03",
        "google/adk/labs/openai/_openai_llm.py",
        "cached tokens of a chat completion are handed on",
    ),
    Bug(
        "litellm",
        "1.80.16",
        "1.80.17",
        "CKA03",
        "litellm/llms/anthropic/experimental_pass_through/adapters/transformation.py",
        "cache counters are kept on the way to Anthropic's form",
    ),
    Bug(
        "litellm",
        "1.80.16",
        "1.80.17",
        "CKA03",
        "litellm/llms/anthropic/experimental_pass_through/adapters/streaming_iterator.py",
        "the same for a stream",
    ),
    Bug(
        "inspect-ai",
        "0.3.70",
        "0.3.71",
        "CKA03",
        "inspect_ai/model/_providers/openai.py",
        "cached tokens of OpenAI's usage are kept",
    ),
    Bug(
        "inspect-ai",
        "0.3.259",
        "0.3.260",
        "CKA03",
        "inspect_ai/model/_openai_responses.py",
        "the usage of a compaction keeps its cached tokens",
    ),
    Bug(
        "agentscope",
        "1.0.13",
        "1.0.14",
        "CKA03",
        "agentscope/model/_dashscope_model.py",
        "the provider's usage is kept whole beside the two counts",
    ),
    Bug(
        "pydantic-ai-slim",
        "1.77.0",
        "1.78.0",
        "CKA03",
        "pydantic_ai/models/groq.py",
        "cached tokens of Groq's usage are kept",
    ),
    Bug(
        "pipecat-ai",
        "0.0.86",
        "0.0.87",
        "CKA03",
        "pipecat/services/openai/base_llm.py",
        "cached tokens of OpenAI's usage are told (pipecat-ai/pipecat#2738)",
    ),
    Bug("agno", "2.5.3", "2.5.4", "CKA03", "agno/models/litellm/chat.py", "cached tokens of LiteLLM's usage are kept"),
    Bug(
        "agno", "2.5.3", "2.5.4", "CKA03", "agno/models/azure/ai_foundry.py", "cached tokens of Azure's usage are kept"
    ),
    Bug(
        "nanobot-ai",
        "0.3.0",
        "0.3.5",
        "CKA03",
        "nanobot/providers/openai_responses/parsing.py",
        "cached tokens of a response's usage are kept (HKUDS/nanobot#5462)",
    ),
    Bug(
        "swarms",
        "13.0.2",
        "14.0.0",
        "CKT01",
        "swarms/tools/mcp_client_tools.py",
        "tools of MCP servers come in the order of the connections, in another file",
    ),
)
"""Each a release, the next one, the hazard, and the file it was in."""


def places(target: Path, bug: Bug) -> list[int]:
    """The lines of the file that have this hazard."""
    found = (finding for file, finding in findings_of(target) if file == bug.file and finding.code == bug.code)
    return sorted({finding.place.line for finding in found if isinstance(finding.place, CodePlace)})


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("folder", type=Path, nargs="?", default=SCRATCH / "releases")
    reader.add_argument("--only", nargs="*", default=[])
    chosen = reader.parse_args()
    rows = [bug for bug in BUGS if not chosen.only or bug.package in chosen.only]
    n_held = 0
    for bug in rows:
        before, after = (
            places(install(bug.package, version, chosen.folder / version), bug) for version in (bug.before, bug.after)
        )
        holds = bool(before) and not after
        n_held += holds
        lines = ", ".join(map(str, before)) or "not found"
        print(
            f"| {bug.package} | {bug.before} | {bug.after} | {bug.code} | `{bug.file}:{lines}` | {bug.changed} |",
            "" if holds else f"DOES NOT HOLD, after: {after}",
            flush=True,
        )
    print(f"{n_held} of {len(rows)} hold")
    sys.exit(n_held < len(rows))


if __name__ == "__main__":
    main()
