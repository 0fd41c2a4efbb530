"""A provider that is not there: the real SDK clients against a reference cache, on loopback."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextkit.server.local import LocalServer, serve

__all__ = ["LocalServer", "serve"]


def __getattr__(name: str) -> Any:
    """Load the provider when it is asked for: the proxy uses parts of this package that are small."""
    if name not in __all__:
        raise AttributeError(f"module 'contextkit.server' has no attribute {name!r}")
    from contextkit.server import local

    return getattr(local, name)
