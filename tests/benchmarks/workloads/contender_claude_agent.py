"""Claude Agent SDK, whose bundled command line program is pointed at the local provider."""

from __future__ import annotations

import asyncio
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, SdkMcpTool, create_sdk_mcp_server

from tests.benchmarks.workloads.workload import MODEL, Contender, Job, ToolSpec

PACKAGES = ("claude-agent-sdk",)


# What a user writes
# -----------------------------------------------------------------------------------------------------------------------------


def options(server, system, folder, environment):
    return ClaudeAgentOptions(
        model=MODEL,
        system_prompt=system,
        mcp_servers={"own": server},
        allowed_tools=["mcp__own"],
        tools=[],
        setting_sources=[],
        permission_mode="bypassPermissions",
        cwd=folder,
        env=environment,
    )


async def ask(client, content):
    await client.query(content)
    async for message in client.receive_response():
        if isinstance(message, ResultMessage) and message.is_error:
            raise RuntimeError(str(message.result))


# The benchmark's wiring
# -----------------------------------------------------------------------------------------------------------------------------


def tool_of(job: Job, one: ToolSpec) -> SdkMcpTool[Any]:
    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": job.run_tool(one.name, arguments)}]}

    return SdkMcpTool(one.name, one.description, one.parameters, handler)


def environment_of(job: Job) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": job.url,
        "ANTHROPIC_API_KEY": "any",
        "HOME": str(job.folder),
        "CLAUDE_CONFIG_DIR": str(job.folder / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "IS_SANDBOX": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        "ENABLE_TOOL_SEARCH": "false",
        "MAX_MCP_OUTPUT_TOKENS": "100000",
    }


def run_turns(job: Job) -> None:
    async def turns() -> None:
        server = create_sdk_mcp_server("own", tools=[tool_of(job, one) for one in job.workload.tools])
        chosen = options(server, job.workload.system, str(job.folder), environment_of(job))
        async with ClaudeSDKClient(chosen) as client:
            for turn in job.turns():
                await asyncio.wait_for(ask(client, "\n\n".join(turn.content)), 300)

    asyncio.run(turns())


def contenders(workload: str) -> list[Contender]:
    """What is run on a workload."""
    if workload in {"parallel", "overflow", "late tools", "crash"}:
        return []  # each client is a process of its own; tools are fixed when it starts
    remark = "a turn is one text" if workload == "rag" else ""
    return [
        Contender(
            "Claude Agent SDK",
            "no built-in tools, MCP output limit 100,000",
            run_turns,
            (options, ask),
            PACKAGES,
            remark=remark,
        )
    ]
