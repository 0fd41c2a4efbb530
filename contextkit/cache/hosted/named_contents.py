"""A cache that remembers whatever was sent, beside contents that were made by a call of their own: Gemini.

Takes prompts and the clock, gives hits and bills, as `ImplicitCache` does. A breakpoint names a content: it exists, or
the provider would have refused the request, and is read whole. Knows nothing of text, models, prices, or when a content
was made.
"""

from __future__ import annotations

from contextkit.cache.implicit_cache import ImplicitCache
from contextkit.cache.prefix_cache import Hit
from contextkit.cache.prompt import Prompt


class NamedContents(ImplicitCache):
    """The longer of what was sent before and what is named; satisfies `PrefixCache[Prompt]`.

    >>> from contextkit.cache.prompt import Breakpoint
    >>> prompt = Prompt((b"", b"", b""), (1, 1), [b"A", b"AB"], [5000, 5100], [0, 1], (Breakpoint(0, 3600),), 2)
    >>> NamedContents(4096, 1, 300).quote(prompt, now=0.0)
    Usage(fresh=100, read=5000, writes={}, output=0)
    """

    def _hit(self, prompt: Prompt, shared: int, now: float) -> Hit:
        found = super()._hit(prompt, shared, now)
        last = prompt.breakpoints[-1].segment if prompt.breakpoints else None
        named = 0 if last is None else prompt.ends_tokens[last]
        return found if named <= found.read_tokens else Hit(named, 0, last, "hit", None)
