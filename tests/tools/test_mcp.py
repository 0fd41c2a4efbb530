"""Tools an MCP server lists, with the `mcp` package's own types where it is installed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from contextkit.tools.tool import Tool, Toolbox

LISTING: dict[str, Any] = {
    "tools": [
        {
            "name": "repo.read",
            "title": "Read",
            "description": "Read a file.",
            "inputSchema": {
                "type": "object",
                "required": ["path"],
                "properties": {"path": {"type": "string"}, "at": {"type": "string"}},
            },
            "annotations": {"readOnlyHint": True},
        },
        {"name": "list", "inputSchema": {"type": "object"}},
    ],
    "nextCursor": "2",
}


async def call_tool(name: str, arguments: dict[str, Any]) -> str:
    return f"{name} {arguments}"


def test_listing_as_a_dict() -> None:
    read, listed = Tool.from_mcp(LISTING, call=call_tool, prefix="github_")
    assert read.definition == {
        "name": "github_repo_read",
        "description": "Read a file.",
        "parameters": LISTING["tools"][0]["inputSchema"],
    }
    assert list(read.parameters) == ["type", "required", "properties"]
    assert listed.definition == {"name": "github_list", "description": "", "parameters": {"type": "object"}}
    assert read.is_async
    assert asyncio.run(read.arun({"path": "a"})) == "repo.read {'path': 'a'}"  # type: ignore[arg-type]


def test_call_may_be_sync_or_a_lambda_around_a_coroutine() -> None:
    [_, sync] = Tool.from_mcp(LISTING, call=lambda name, arguments: name)
    assert sync.run({}) == "list"
    [_, wrapped] = Tool.from_mcp(LISTING, call=lambda name, arguments: call_tool(name.upper(), arguments))
    assert asyncio.run(wrapped.arun({})) == "LIST {}"  # type: ignore[arg-type]


def test_an_order_that_drifts_can_be_fixed() -> None:
    there = Toolbox.sorted(Tool.from_mcp(LISTING, call=call_tool))
    back = Toolbox.sorted(reversed(Tool.from_mcp(LISTING, call=call_tool)))
    assert there.digest == back.digest
    assert there.names == ("list", "repo_read")


def test_the_packages_own_types() -> None:
    own = Tool.from_mcp(LISTING, call=call_tool)
    assert [one.body for one in Tool.from_mcp(LISTING["tools"], call=call_tool)] == [one.body for one in own]
    types = pytest.importorskip("mcp.types", reason="the mcp extra is not installed")
    listing = types.ListToolsResult.model_validate(LISTING)
    assert [one.body for one in Tool.from_mcp(listing, call=call_tool)] == [one.body for one in own]
    assert [one.body for one in Tool.from_mcp(listing.tools, call=call_tool)] == [one.body for one in own]
