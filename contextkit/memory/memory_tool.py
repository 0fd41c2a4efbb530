"""The memory tool: a model keeps notes in a file store, by six commands.

Takes a `FileMemory`, gives a `Tool` that answers Anthropic's `memory_20250818` word for word, or the same as a plain
function tool for every other provider. Knows nothing of conversations.

The texts are those of `anthropic/lib/tools/_beta_builtin_memory_tool.py` (SDK 2.11), which a model was trained on. What
is otherwise: a folder's size is the sum of its files (there: of its entry on the disk), and a path the store refuses is
refused here (there, some are resolved: `/memories/a/../b`, `/memoriesfoo`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.errors import MemoryRefused, ToolRefusal
from contextkit.memory.files.names import quoted_path
from contextkit.memory.filestore import FileMemory
from contextkit.tools.signature import misfit
from contextkit.tools.tool import Tool

ROOT = "/memories"
"""What the model calls the root of the store."""
MAX_LINES = 999_999
"""Lines a file may have to be viewed."""
_WIDTH = len(str(MAX_LINES))
_LEVELS = 2
"""How deep a folder is viewed."""


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "command": {
            "type": "string",
            "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
            "description": "What to do.",
        },
        "path": _text("All commands but rename: the file or directory, for example /memories/notes.md."),
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "view, optional: first and last line to show, from 1; -1 for the end.",
        },
        "file_text": _text("create: the content of the new file."),
        "old_str": _text("str_replace: the text to replace; it must occur exactly once."),
        "new_str": _text("str_replace: the text to put there."),
        "insert_line": {
            "type": "integer",
            "description": "insert: the line after which to insert; 0 for the beginning.",
        },
        "insert_text": _text("insert: the text to insert."),
        "old_path": _text("rename: the file or directory to move."),
        "new_path": _text("rename: where to move it; nothing may stand there yet."),
    },
    "required": ["command"],
}
"""JSON Schema of the arguments (anthropic/types/beta/beta_memory_tool_20250818_*_command.py)."""

DESCRIPTION = (
    "Keep notes in files under /memories that outlive this conversation's window. Look there first when you begin or resume a task, "
    "write down progress and findings as you go, and keep the notes tidy. Commands: view (a file, or a directory two levels deep), "
    "create (a new file), str_replace, insert, delete, rename."
)
"""What a model reads that was not trained on this tool."""

DEFINITION: Json = {
    "native": {"wire": "anthropic_messages", "block": {"type": "memory_20250818", "name": "memory"}},
    "instead": {"name": "memory", "description": DESCRIPTION, "parameters": PARAMETERS},
}
"""Claude gets its own tool, every other model the function."""


def tools(memory: FileMemory) -> list[Tool]:
    """The memory tool over a store.

    >>> import tempfile
    >>> [one] = tools(FileMemory(tempfile.mkdtemp()))
    >>> one.run({"command": "create", "path": "/memories/plan.md", "file_text": "1. read"})
    'File created successfully at: /memories/plan.md'
    """

    def run(arguments: Mapping[str, Json]) -> str:
        return answer(memory, arguments)

    return [Tool.raw(DEFINITION, run=run)]


def answer(memory: FileMemory, arguments: Mapping[str, Json]) -> str:
    """Carry out one command. Raises `ToolRefusal` with the text for the model, `StorageError` where the disk fails."""
    if why := misfit(PARAMETERS, given := {key: value for key, value in arguments.items() if value is not None}):
        raise ToolRefusal(f"The arguments do not fit the memory tool: {why}")
    command = _COMMANDS[given["command"]]
    missing = [name for name in command.needs if name not in given]
    if missing:
        raise ToolRefusal(f"The command {given['command']} needs {' and '.join(missing)}.")
    try:
        with memory.alone():
            return command.run(memory, given)
    except MemoryRefused as refused:
        raise ToolRefusal(str(refused)) from refused


def _view(memory: FileMemory, given: dict[str, Json]) -> str:
    at, path = _inside(given["path"]), given["path"]
    if memory.is_folder(at):
        return _view_folder(memory, at, path)
    _check_there(memory, at, path)
    lines = memory.read(at).split("\n")
    if len(lines) > MAX_LINES:
        raise ToolRefusal(f"File {path} exceeds maximum line limit of 999,999 lines.")
    start, end = _range(given.get("view_range"), len(lines))
    return f"Here's the content of {path} with line numbers:\n" + _numbered(lines, start, end)


def _view_folder(memory: FileMemory, at: str, path: str) -> str:
    """Two levels, each folder before what is in it; hidden files count, but are not shown."""
    depth = len(at.split("/")) if at else 0
    rows, total = [], 0
    for row in memory.list(at, folders=True):
        below = row.path.split("/")[depth:]
        total += 0 if row.is_folder else row.n_bytes
        if len(below) <= _LEVELS and not any(name.startswith(".") for name in below):
            rows.append(f"{_size(row.n_bytes)}\t{path.rstrip('/')}/{'/'.join(below)}{'/' * row.is_folder}")
    header = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    return "\n".join([header, f"{_size(total)}\t{path}", *rows])


def _create(memory: FileMemory, given: dict[str, Json]) -> str:
    at, path = _inside(given["path"]), given["path"]
    if memory.exists(at):
        raise ToolRefusal(f"File {path} already exists")
    memory.write(at, given["file_text"])
    return f"File created successfully at: {path}"


def _str_replace(memory: FileMemory, given: dict[str, Json]) -> str:
    at, path, old = _inside(given["path"]), given["path"], given["old_str"]
    text = _editable(memory, at, path)
    if not old:
        raise ToolRefusal("No replacement was performed, old_str is empty. Use insert to add text.")
    places = _places(text, old)
    if not places:
        raise ToolRefusal(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if text.count(old) > 1:
        found = ", ".join(str(text.count("\n", 0, place) + 1) for place in places)
        raise ToolRefusal(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {found}. Please ensure it is unique"
        )
    edited = text.replace(old, given["new_str"])
    memory.write(at, edited)
    line, lines = text.count("\n", 0, places[0]), edited.split("\n")
    snippet = _numbered(lines, max(0, line - 2), min(len(lines), line + 3))
    return f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"


def _insert(memory: FileMemory, given: dict[str, Json]) -> str:
    at, path, after = _inside(given["path"]), given["path"], int(given["insert_line"])
    lines = _editable(memory, at, path).split("\n")
    if not lines[-1]:
        lines.pop()
    if not 0 <= after <= len(lines):
        raise ToolRefusal(f"Invalid `insert_line` parameter: {after}. It should be within the range [0, {len(lines)}].")
    lines.insert(after, given["insert_text"].rstrip("\n"))
    edited = "\n".join(lines)
    memory.write(at, edited if edited.endswith("\n") else edited + "\n")
    return f"The file {path} has been edited."


def _delete(memory: FileMemory, given: dict[str, Json]) -> str:
    at, path = _inside(given["path"]), given["path"]
    if not at:
        raise ToolRefusal("Cannot delete the /memories directory itself")
    if not memory.exists(at):
        raise ToolRefusal(f"The path {path} does not exist")
    memory.delete(at)
    return f"Successfully deleted {path}"


def _rename(memory: FileMemory, given: dict[str, Json]) -> str:
    old, new = _inside(given["old_path"]), _inside(given["new_path"])
    if not old:
        raise ToolRefusal("Cannot rename the /memories directory itself")
    if memory.exists(new):
        raise ToolRefusal(f"The destination {given['new_path']} already exists")
    if not memory.exists(old):
        raise ToolRefusal(f"The path {given['old_path']} does not exist")
    memory.rename(old, new)
    return f"Successfully renamed {given['old_path']} to {given['new_path']}"


@dataclass(frozen=True, slots=True)
class _Command:
    """One thing the tool does."""

    run: Callable[[FileMemory, dict[str, Json]], str]
    """Carries it out."""
    needs: tuple[str, ...]
    """Arguments it cannot do without."""


_COMMANDS = {
    "view": _Command(_view, ("path",)),
    "create": _Command(_create, ("path", "file_text")),
    "str_replace": _Command(_str_replace, ("path", "old_str", "new_str")),
    "insert": _Command(_insert, ("path", "insert_line", "insert_text")),
    "delete": _Command(_delete, ("path",)),
    "rename": _Command(_rename, ("old_path", "new_path")),
}


def _inside(path: str) -> str:
    """The path in the store. Raises `ToolRefusal` for one that is not below `/memories`."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolRefusal(f"Path must start with /memories, got: {path if path.isprintable() else quoted_path(path)}")
    return path.removeprefix(ROOT).lstrip("/").removesuffix("/")


def _check_there(memory: FileMemory, at: str, path: str) -> None:
    if not memory.exists(at):
        raise ToolRefusal(f"The path {path} does not exist. Please provide a valid path.")


def _editable(memory: FileMemory, at: str, path: str) -> str:
    _check_there(memory, at, path)
    if memory.is_folder(at):
        raise ToolRefusal(f"The path {path} is not a file.")
    return memory.read(at)


def _places(text: str, part: str) -> list[int]:
    """Where `part` begins, overlaps counted."""
    found, place = [], text.find(part)
    while place != -1:
        found.append(place)
        place = text.find(part, place + 1)
    return found


def _range(asked: list[int] | None, n_lines: int) -> tuple[int, int]:
    """First line from 0 and the end: from a range that names both, else all."""
    if not asked or len(asked) != 2:
        return 0, n_lines
    return max(1, int(asked[0])) - 1, n_lines if asked[1] == -1 else int(asked[1])


def _numbered(lines: list[str], start: int, end: int) -> str:
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines[start:end], start + 1))


def _size(n_bytes: int) -> str:
    """As `ls -h` has it: `0B`, `12B`, `1.5K`, `4K`."""
    power = min(max(n_bytes.bit_length() - 1, 0) // 10, 3)
    size = n_bytes / 1024**power
    return f"{size:.0f}{'BKMG'[power]}" if size == int(size) else f"{size:.1f}{'BKMG'[power]}"
