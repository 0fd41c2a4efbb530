"""The live guard: `contextkit.watch`, the category of its warnings, and names for conversations."""

from contextkit.lint.guard.named import conversation
from contextkit.lint.guard.tell import PrefixWarning

__all__ = ["PrefixWarning", "conversation"]
