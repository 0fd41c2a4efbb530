"""The Claude Agent SDK with the CLI it brings, against the local provider: what its hooks and transcripts tell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from contextkit.bridges.claude_agent import EVENTS, Transcripts
from tests.bridges.loops import FOUND, SYSTEM, script

pytest.importorskip("uvicorn", reason="the local provider needs the extra `server`")
pytestmark = pytest.mark.filterwarnings("default", "ignore::ResourceWarning")


def session(url: str, home: Path, transcripts: Transcripts | None, **more: Any) -> None:
    """One prompt answered by the CLI, in a home of its own."""
    sdk = pytest.importorskip("claude_agent_sdk", reason='needs pip install "contextkit-sdk[claude-agent]"')

    async def look_up(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"{arguments['query']}: {FOUND}"}]}

    server = sdk.create_sdk_mcp_server(
        "shop", tools=[sdk.tool("search", "Search the catalogue.", {"query": str})(look_up)]
    )
    (home / "work").mkdir()
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "any",
        "HOME": str(home),
        "USERPROFILE": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    given = sdk.ClaudeAgentOptions(
        model="claude-sonnet-5-5",
        system_prompt=SYSTEM,
        mcp_servers={"shop": server},
        allowed_tools=["mcp__shop__search"],
        tools=[],
        setting_sources=[],
        cwd=str(home / "work"),
        env=environment,
        **more,
    )

    async def ask() -> None:
        async for _ in sdk.query(
            prompt="Find the cheapest cards.", options=given if transcripts is None else transcripts.watch(given)
        ):
            pass

    asyncio.run(ask())


def test_a_session_is_reported_from_its_own_transcript(tmp_path: Path) -> None:
    from contextkit.server import LocalServer

    transcripts = Transcripts()
    with LocalServer(script(6, tool="mcp__shop__search")) as server:
        session(server.url, tmp_path, transcripts)
        served = [call.usage for call in server.ledger]
    assert [call.usage for call in transcripts.ledger] == served and len(served) == 6
    assert transcripts.summary().total.hit_rate and "of input read from cache" in transcripts.report()
    assert len(transcripts.paths) == 1


def test_hooks_of_the_caller_stay(tmp_path: Path) -> None:
    sdk = pytest.importorskip("claude_agent_sdk", reason='needs pip install "contextkit-sdk[claude-agent]"')
    mine = sdk.HookMatcher(matcher="Bash", hooks=[])
    given = sdk.ClaudeAgentOptions(hooks={"PreToolUse": [mine]}, model="claude-sonnet-5-5")
    watched = Transcripts().watch(given)
    assert watched.hooks["PreToolUse"][0] is mine and set(watched.hooks) == set(EVENTS)
    assert given.hooks == {"PreToolUse": [mine]} and watched.model == given.model


def test_before_anything_was_written_the_report_is_empty(tmp_path: Path) -> None:
    transcripts = Transcripts()
    told = {"hook_event_name": "PreCompact", "trigger": "auto", "transcript_path": str(tmp_path / "none.jsonl")}
    asyncio.run(transcripts._on_stop(told, None, None))
    assert len(transcripts.ledger) == 0 and transcripts.compactions == ["auto"] and len(transcripts.paths) == 1
