"""Servers whose tools come and go."""

from __future__ import annotations

from contextkit.tools.servers.changes import ServerTools, ToolsChanged

__all__ = ["ServerTools", "ToolsChanged"]
