"""A provider that is not there: the real SDK clients against a reference cache, on loopback."""

from contextkit.server.local import LocalServer, serve

__all__ = ["LocalServer", "serve"]
