"""The live guard: `contextkit.watch`, and the category of its warnings."""

from contextkit.lint.guard.tell import PrefixWarning

__all__ = ["PrefixWarning"]
