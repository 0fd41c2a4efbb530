"""The tools an MCP server lists, as neutral definitions, and what they give as neutral parts.

Takes the answer to `tools/list` as the `mcp` package's object, as its dict, or as a plain list of tools; gives rows in
the server's order. Of a session it takes the pages it lists and the answers to its calls; opening and closing it are
the caller's.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import InvalidCall, InvalidTool, MissingExtra, UsageError
from contextkit.tools.definition import neutral, sealed

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
"""MCP allows dots and slashes in names (modelcontextprotocol.io, specification 2025-11-25, server/tools); no provider
does."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool of a listing."""

    name: str
    """Name for the model: prefix, then the server's name with what no provider takes made `_`."""
    remote: str
    """Name for the server."""
    body: bytes
    """Canonical neutral definition."""


def read_listing(listing: object, prefix: str = "") -> list[Listed]:
    """The tools of a listing (one page of it), in its order.

    Raises `InvalidTool` where it is not a listing, or a tool of it has no name or no schema.

    >>> [tool] = read_listing({"tools": [{"name": "repo.read", "inputSchema": {"type": "object"}}]}, prefix="github_")
    >>> tool.name, tool.remote
    ('github_repo_read', 'repo.read')
    """
    tools = _plain(listing)
    tools = tools.get("tools") if isinstance(tools, Mapping) else tools
    if not isinstance(tools, Iterable) or isinstance(tools, str | bytes):
        raise InvalidTool(
            f'an MCP listing is {{"tools": […]}}, its object, or a list of tools, not {type(listing).__name__}'
        )
    return [_listed(_plain(tool), prefix) for tool in tools]


async def read_pages(session: Any) -> list[Json]:
    """Every tool of a server, page by page, as `session.list_tools` gives them (an `mcp.ClientSession` or an
    `mcp.Client`).

    Raises `InvalidTool` for a server whose pages have no end, `UsageError` for what is no session.
    """
    listing = getattr(session, "list_tools", None)
    if not callable(listing) or not callable(getattr(session, "call_tool", None)):
        raise UsageError(f"session is an mcp.ClientSession or mcp.Client that is open, not {type(session).__name__}")
    found: list[Json] = []
    cursor, seen = None, set[str]()
    while True:
        page = _plain(await listing(**_at(listing, cursor)))
        found += page.get("tools") or []
        cursor = page.get("nextCursor")
        if not cursor:
            return found
        if cursor in seen:
            raise InvalidTool(
                f"the MCP server gives the cursor {cursor[:40]!r} twice, so its list of tools has no end: mend the server"
            )
        seen.add(cursor)


def caller(session: Any) -> Callable[[str, dict[str, Json]], Awaitable[list[Json]]]:
    """A function that calls a tool of the session's server and gives the parts of its result.

    Raises `InvalidCall`, in the server's words, where the server says that the call failed.
    """

    async def call(name: str, arguments: dict[str, Json]) -> list[Json]:
        answer = _plain(await session.call_tool(name, arguments))
        parts = [_result_part(block) for block in answer.get("content") or []]
        if answer.get("isError"):
            raise InvalidCall(
                "\n".join(str(part.get("text", "")) for part in parts) or "the MCP server says that the call failed"
            )
        return parts or [{"type": "text", "text": sealed(name, answer.get("structuredContent") or {}).decode()}]

    return call


_RESULT_PARTS: Mapping[str, Callable[[Mapping[str, Json]], Json]] = {
    "text": lambda block: {"type": "text", "text": block["text"]},
    "image": lambda block: {"type": "image", "media_type": block["mimeType"], "data": block["data"]},
}
"""Type of a content block → the neutral part it is (specification 2025-11-25, server/tools, "Tool Result"); others are
said as JSON."""


def _result_part(block: Mapping[str, Json]) -> Json:
    said = _RESULT_PARTS.get(str(block.get("type")))
    return {"type": "text", "text": sealed("result", dict(block)).decode()} if said is None else said(block)


def _at(listing: Callable[..., object], cursor: str | None) -> dict[str, Any]:
    """Arguments of `list_tools` for one page: `mcp.Client` takes the cursor itself, `mcp.ClientSession` within
    `params`.
    """
    if cursor is None:
        return {}
    if "params" not in inspect.signature(listing).parameters:
        return {"cursor": cursor}
    try:
        from mcp.types import PaginatedRequestParams
    except ImportError:
        raise MissingExtra("a session of the mcp package", "mcp") from None
    return {"params": PaginatedRequestParams(cursor=cursor)}


def _plain(value: Any) -> Any:
    """The dict the server sent, of a pydantic object of any version of the `mcp` package."""
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if hasattr(value, "model_dump") else value


def _listed(tool: Json, prefix: str) -> Listed:
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
        raise InvalidTool("an MCP tool has no name; pass the answer to tools/list as it came")
    name = prefix + _FOREIGN.sub("_", tool["name"])
    return Listed(
        name, tool["name"], sealed(name, neutral(name, tool.get("description") or "", tool.get("inputSchema")))
    )
