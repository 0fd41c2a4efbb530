"""What a window shows of a content that is kept elsewhere: enough to know whether it is worth reading."""

from contextkit.memory.preview.kind import kind_of
from contextkit.memory.preview.preview import preview

__all__ = ["kind_of", "preview"]
