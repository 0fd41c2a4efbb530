"""A provider that is not there: the real SDK clients against a reference cache, on loopback."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextkit.server.local import LocalServer, serve

__all__ = ["LocalServer", "serve"]


def __getattr__(name: str) -> Any:
    """Import the server on first use: the proxy needs only parts of it."""
    if name not in __all__:
        raise AttributeError(f"module 'contextkit.server' has no attribute {name!r}")
    value = getattr(import_module("contextkit.server.local"), name)
    globals()[name] = value
    return value
