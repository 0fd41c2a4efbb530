"""What is refused inside `tool_addition` and `tool_removal`; what is taken is what the SDK's types say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from anthropic.types.beta.beta_request_tool_addition_block_param import BetaRequestToolAdditionBlockParam
from anthropic.types.beta.beta_request_tool_removal_block_param import BetaRequestToolRemovalBlockParam
from pydantic import TypeAdapter

from contextkit.canonical import canonical, parse
from contextkit.server.answer import answer
from contextkit.server.endpoints.table import MESSAGES
from contextkit.server.state import Clock, State

CHANGES, INLINE, MCP = "mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15", "mcp-client-2026-09-15"
EVERY = f"{INLINE},{MCP}"
SCHEMA = {"type": "object", "properties": {}}
NEW = {"name": "new", "description": "", "input_schema": SCHEMA}
TOOLS = [
    {"name": "f", "description": "", "input_schema": SCHEMA},
    {"type": "web_search_20250305", "name": "web_search"},
    {"type": "mcp_toolset", "mcp_server_name": "files"},
]
PAUSED = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]


def adding(tool: Any, **more: Any) -> Any:
    return {"type": "tool_addition", "tool": tool, **more}


def removing(tool: Any, **more: Any) -> Any:
    return {"type": "tool_removal", "tool": tool, **more}


def named(name: str = "f", **more: Any) -> Any:
    return {"type": "tool_reference", "name": name, **more}


def defined(**more: Any) -> Any:
    return adding({"type": "tool_definition", "definition": {**NEW, **more}})


SERVER = {"type": "mcp_tool_reference", "server_name": "files", "name": "read"}
SET = {"type": "mcp_toolset_reference", "server_name": "files"}
TOOLSET = adding({"type": "tool_definition", "definition": {"type": "mcp_toolset", "mcp_server_name": "calendar"}})
SEARCH = {"type": "web_search_20260209", "name": "web_search"}

GOOD: list[list[Any]] = [
    [removing(named())],
    [removing(named()), adding(named())],
    [removing(named()), removing(named())],
    [adding(named(), cache_control={"type": "ephemeral"})],
    [removing(SERVER), adding(SET)],
    [defined(), removing(named("new")), adding(named("new"))],
    [defined(), defined(), defined(description="other words")],
    [adding({"type": "tool_definition", "definition": SEARCH})],  # a newer version is no other type
    [TOOLSET, removing({**SET, "server_name": "calendar"})],
    [{"type": "text", "text": "Now."}, removing(named())],
]
BAD: list[tuple[list[Any], str, str]] = [
    ([removing(named("g"))], "tool_reference_unresolved", EVERY),
    ([removing(named("new")), defined()], "tool_reference_unresolved", EVERY),  # not defined yet
    ([removing({**SET, "server_name": "calendar"})], "tool_reference_unresolved", EVERY),
    ([adding({**SERVER, "server_name": "calendar"})], "tool_reference_unresolved", EVERY),
    ([removing({"type": "tool_reference"})], "tool.name: Field required", EVERY),
    ([removing({"type": "mcp_tool_reference", "server_name": "files"})], "tool.name: Field required", EVERY),
    ([removing({"type": "mcp_toolset_reference", "name": "files"})], "server_name: Field required", EVERY),
    ([removing(named(server_name="files"))], "Extra inputs", EVERY),
    ([removing({**SET, "name": "read"})], "Extra inputs", EVERY),
    ([removing(named(), name="f")], "Extra inputs", EVERY),
    ([removing({"type": "tool_definition", "definition": NEW})], "does not match any", EVERY),
    ([adding(NEW)], "does not match any", EVERY),
    ([adding({"type": "tool_definition"})], "definition: Field required", EVERY),
    ([adding({"type": "tool_definition", "definition": "new"})], "should be an object", EVERY),
    ([adding({"type": "tool_definition", "definition": NEW, "name": "new"})], "Extra inputs", EVERY),
    ([adding({"type": "tool_definition", "definition": {"name": "new"}})], "input_schema: Field required", EVERY),
    ([adding({"type": "tool_definition", "definition": {"input_schema": SCHEMA}})], "name: Field required", EVERY),
    ([defined(name="web_search")], "tool_name_conflict", EVERY),
    ([adding({"type": "tool_definition", "definition": {**SEARCH, "name": "f"}})], "tool_name_conflict", EVERY),
    ([{**defined(cache_control={"type": "ephemeral"}), "cache_control": {"type": "ephemeral"}}], "not both", EVERY),
    ([defined(cache_control={"type": "ephemeral"}, defer_loading=True)], "cannot have cache_control", EVERY),
    ([defined(description="x" * 4_200_000)], "available_tools_limit_exceeded", EVERY),
    ([defined()], INLINE, CHANGES),
    ([TOOLSET], MCP, INLINE),
    ([removing(named())], CHANGES, MCP),
]


def body(*blocks: Any, before: Any = (), **fields: Any) -> Any:
    said = [{"role": "user", "content": "Go."}, *before, {"role": "system", "content": list(blocks), **fields}]
    return {"model": "claude-opus-5", "max_tokens": 9, "tools": TOOLS, "messages": said}


def told(asked: Any, betas: str = EVERY) -> tuple[int, Any]:
    sent = {"authorization": "any", "anthropic-version": "2026-10-21", "anthropic-beta": betas}
    outcome = answer(State(Clock(0.0, is_frozen=True), None, None), MESSAGES, sent, canonical(asked))
    return outcome.status, parse(outcome.chunks[0]).get("error")


@pytest.mark.parametrize("blocks", GOOD)
def test_what_the_docs_allow_is_taken(blocks: list[Any]) -> None:
    assert told(body(*blocks)) == (200, None)
    types: dict[str, Callable[[Any], Any]] = {
        "tool_addition": TypeAdapter(BetaRequestToolAdditionBlockParam).validate_python,
        "tool_removal": TypeAdapter(BetaRequestToolRemovalBlockParam).validate_python,
        "text": lambda block: block,
    }
    for block in blocks:
        types[block["type"]](block)


@pytest.mark.parametrize(("blocks", "message", "betas"), BAD)
def test_what_they_do_not_is_refused(blocks: list[Any], message: str, betas: str) -> None:
    status, error = told(body(*blocks), betas)
    assert status == 400 and message in error["message"], error
    assert error.get("details") == ({"error_code": message} if "_" in message and " " not in message else None)


def test_either_header_opens_references() -> None:
    assert (
        told(body(removing(named())), f"{CHANGES},{MCP}")[0]
        == told(body(removing(named())), f"{INLINE},{MCP}")[0]
        == 200
    )


def test_no_change_stands_where_it_is_cleared_or_behind_a_pause() -> None:
    status, error = told(body(removing(named()), clear_at="next_user_message"))
    assert status == 400 and "turn-scoped" in error["message"]
    paused = [{"role": "assistant", "content": PAUSED}]
    status, error = told(body(removing(named()), before=paused))
    assert status == 400 and "paused" in error["message"]
    assert told(body({"type": "text", "text": "Now."}, before=paused))[0] == 200
