"""The live guard: `contextkit.watch`, the category of its warnings, and names for conversations."""

from contextkit.watcher.naming import conversation
from contextkit.watcher.notify import PrefixWarning

__all__ = ["PrefixWarning", "conversation"]
