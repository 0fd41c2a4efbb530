"""What waits outside the window and how it comes back: files, references, the plan, declared compactions."""

from contextkit.memory.compaction import Compaction
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory import Memory
from contextkit.memory.offload import Offload
from contextkit.memory.recitation import Recitation
from contextkit.memory.reference import Reference
from contextkit.memory.residency import Residency
from contextkit.memory.todo import Todo

__all__ = ["Compaction", "FileMemory", "Memory", "Offload", "Recitation", "Reference", "Residency", "Todo"]
