"""Previews: the part of a stored content that stands in the window, and its title in lists."""

from contextkit.memory.preview.kind import kind_of
from contextkit.memory.preview.preview import preview, title_of

__all__ = ["kind_of", "preview", "title_of"]
