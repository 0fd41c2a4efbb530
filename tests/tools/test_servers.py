"""Tools of a real MCP server in the same process: pages, order, duplicates, results, and lists that change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contextkit.errors import InvalidCall, InvalidTool, UsageError
from contextkit.tools.servers import ServerTools, ToolsChanged
from contextkit.tools.tool import Toolbox

mcp = pytest.importorskip("mcp", reason="the mcp extra is not installed")
types = pytest.importorskip("mcp.types")
servers = pytest.importorskip("mcp.server")
if not hasattr(mcp, "Client"):
    pytest.skip("this release of mcp has no in-memory client", allow_module_level=True)

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}
MODES = ["legacy", "auto"]
"""A session with a handshake, and one of revision 2026-07-28."""


class Listed:
    """A server whose list of tools can be set, two of them to a page."""

    def __init__(self, *names: str, endless: bool = False) -> None:
        self.tools = {name: f"Does {name}." for name in names}
        self.endless = endless
        self.schema: dict[str, Any] = SCHEMA
        self.n_pages = 0
        self.server = servers.Server("listed", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, context: Any, params: Any) -> Any:
        self.n_pages += 1
        start = int(params.cursor) if params is not None and params.cursor else 0
        rows = [types.Tool(name=name, description=text, input_schema=self.schema) for name, text in self.tools.items()]
        after = None if start + 2 >= len(rows) else str(start + 2)
        return types.ListToolsResult(tools=rows[start : start + 2], next_cursor="0" if self.endless else after)

    async def _call(self, context: Any, params: Any) -> Any:
        if params.name not in self.tools:
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=f"no tool {params.name}")], is_error=True
            )
        if params.name == "set":
            self.tools = dict(params.arguments["tools"])
            await context.session.send_tool_list_changed()
        image = types.ImageContent(type="image", data="aGk=", mime_type="image/png")
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=f"{params.name} {params.arguments}"), image]
        )


def talk(server: Any, say: Callable[[Any], Awaitable[Any]], mode: str = "legacy", **options: Any) -> Any:
    """What `say` gives or raises; caught inside, since a session that is left by an error wraps it in a group."""

    async def whole() -> Any:
        async with mcp.Client(server, mode=mode, **options) as client:
            return (await asyncio.gather(say(client), return_exceptions=True))[0]

    told = asyncio.run(whole())
    if isinstance(told, Exception):
        raise told
    return told


@pytest.mark.parametrize("mode", MODES)
def test_every_page_in_the_order_of_names_whatever_order_the_server_has(mode: str) -> None:
    async def both(client: Any) -> tuple[Toolbox, Toolbox]:
        return await Toolbox.from_mcp(client, prefix="git_"), await Toolbox.from_mcp(client.session, prefix="git_")

    there, back = Listed("d", "a.b", "c", "e", "b"), Listed("b", "e", "c", "a.b", "d")
    through_client, through_session = talk(there.server, both, mode)
    assert through_client.names == through_session.names == ("git_a_b", "git_b", "git_c", "git_d", "git_e")
    assert there.n_pages >= 3
    assert talk(back.server, both, mode)[0].digest == through_client.digest


def test_pages_without_an_end_are_refused() -> None:
    with pytest.raises(InvalidTool, match="gives the cursor '0' twice"):
        talk(Listed("a", "b", "c", endless=True).server, Toolbox.from_mcp)


def test_a_tool_calls_its_server_under_the_servers_own_name_and_gives_parts() -> None:
    async def say(client: Any) -> Any:
        return await (await Toolbox.from_mcp(client, prefix="git_"))["git_repo_read"].arun({"x": 1})

    assert talk(Listed("repo.read").server, say) == [
        {"type": "text", "text": "repo.read {'x': 1}"},
        {"type": "image", "media_type": "image/png", "data": "aGk="},
    ]


def test_what_the_server_calls_an_error_is_one() -> None:
    listed = Listed("gone")

    async def say(client: Any) -> Any:
        toolbox = await Toolbox.from_mcp(client)
        listed.tools = {}
        return await toolbox["gone"].arun({})

    with pytest.raises(InvalidCall, match="no tool gone"):
        talk(listed.server, say)


def test_a_change_is_an_event_and_edits_nothing() -> None:
    listed, tools = Listed("set", "b", "c"), ServerTools(prefix="s_")

    async def say(client: Any) -> tuple[Toolbox, list[ToolsChanged | None]]:
        first = await tools.read(client)
        events = [await tools.changes()]
        await client.call_tool("set", {"tools": {"set": "Does set.", "c": "Does c otherwise.", "d": "Does d."}})
        for _ in range(50):  # the notification comes beside the answer, not before it
            await asyncio.sleep(0.01)
            if event := await tools.changes():
                events.append(event)
        return first, events

    first, [before, event] = talk(listed.server, say, message_handler=tools.notice)
    assert before is None
    assert ([tool.name for tool in event.added], event.removed, [tool.name for tool in event.changed]) == (
        ["s_d"],
        ("s_b",),
        ["s_c"],
    )
    assert event.changed[0].description == "Does c otherwise." and first["s_c"].description == "Does c."
    assert first.names == ("s_b", "s_c", "s_set")
    assert tools.toolbox is not None and tools.toolbox.names == ("s_c", "s_d", "s_set")


def test_a_server_that_says_nothing_is_not_asked_again() -> None:
    listed, tools = Listed("a"), ServerTools()

    async def say(client: Any) -> list[ToolsChanged | None]:
        await tools.read(client)
        listed.tools = {"b": "Does b."}
        return [await tools.changes() for _ in range(3)]

    assert talk(listed.server, say, message_handler=tools.notice) == [None, None, None]
    assert listed.n_pages == 1


def test_another_order_is_no_change() -> None:
    assert (
        ToolsChanged.between(Toolbox([{"name": "a"}, {"name": "b"}]), Toolbox([{"name": "b"}, {"name": "a"}])) is None
    )


def test_a_server_connected_again_with_its_keys_in_another_order_keeps_its_bytes() -> None:
    def schema(kind: str, *, is_other: bool) -> dict[str, Any]:
        x = {"title": "X", "type": kind} if is_other else {"type": kind, "title": "X"}
        return {"type": "object", "properties": {"x": x}}

    listed, tools = Listed("a", "b"), ServerTools()
    listed.schema = schema("integer", is_other=False)
    first = talk(listed.server, tools.read)
    listed.schema = schema("integer", is_other=True)
    assert talk(listed.server, Toolbox.from_mcp).digest != first.digest
    assert talk(listed.server, tools.read).digest == first.digest
    assert ToolsChanged.between(first, talk(listed.server, Toolbox.from_mcp)) is None
    listed.schema = schema("number", is_other=True)
    event = ToolsChanged.between(first, talk(listed.server, Toolbox.from_mcp))
    assert event is not None and [tool.name for tool in event.changed] == ["a", "b"]


def test_what_is_no_session() -> None:
    with pytest.raises(UsageError, match="not int"):
        asyncio.run(Toolbox.from_mcp(3))
    with pytest.raises(UsageError, match="nothing was listed yet"):
        asyncio.run(ServerTools().changes())
