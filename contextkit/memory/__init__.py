"""What waits outside the window and how it comes back: files, references, the plan, declared compactions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextkit.memory.compaction import Compaction as Compaction
    from contextkit.memory.filestore import FileMemory as FileMemory
    from contextkit.memory.memory import Memory as Memory
    from contextkit.memory.offload import Offload as Offload
    from contextkit.memory.recitation import Recitation as Recitation
    from contextkit.memory.reference import Reference as Reference
    from contextkit.memory.residency import Residency as Residency
    from contextkit.memory.todo import Todo as Todo

_PLACES = {
    "Compaction": "contextkit.memory.compaction",
    "FileMemory": "contextkit.memory.filestore",
    "Memory": "contextkit.memory.memory",
    "Offload": "contextkit.memory.offload",
    "Recitation": "contextkit.memory.recitation",
    "Reference": "contextkit.memory.reference",
    "Residency": "contextkit.memory.residency",
    "Todo": "contextkit.memory.todo",
}
"""Public name → where it lives; imported on first use."""

__all__ = sorted(_PLACES)  # noqa: PLE0605 - one table, not two lists


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'contextkit.memory' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value
