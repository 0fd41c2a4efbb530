"""Tools that arrive when a conversation is under way."""

from __future__ import annotations

from contextkit.tools.late.bridge import call_tool
from contextkit.tools.late.deferred import deferred, found_tools
from contextkit.tools.late.search import tool_search

__all__ = ["call_tool", "deferred", "found_tools", "tool_search"]
