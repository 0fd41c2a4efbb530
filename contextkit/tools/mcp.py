"""The tools an MCP server lists, as neutral definitions.

Takes the answer to `tools/list` as the `mcp` package's object, as its dict, or as a plain list of tools; gives rows in the server's
order. Knows nothing of sessions: calling is the caller's function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import InvalidTool
from contextkit.tools.definition import neutral, sealed

_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
"""MCP allows dots and slashes in names (modelcontextprotocol.io, specification 2025-11-25, server/tools); no provider does."""


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
        raise InvalidTool(f'an MCP listing is {{"tools": […]}}, its object, or a list of tools, not {type(listing).__name__}')
    return [_listed(_plain(tool), prefix) for tool in tools]


def _plain(value: Any) -> Any:
    """The dict the server sent, of a pydantic object of any version of the `mcp` package."""
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if hasattr(value, "model_dump") else value


def _listed(tool: Json, prefix: str) -> Listed:
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
        raise InvalidTool("an MCP tool has no name; pass the answer to tools/list as it came")
    name = prefix + _FOREIGN.sub("_", tool["name"])
    return Listed(name, tool["name"], sealed(name, neutral(name, tool.get("description") or "", tool.get("inputSchema"))))
