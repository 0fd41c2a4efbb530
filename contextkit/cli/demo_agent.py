"""Defines the agent of the demonstration: its workspace, its scripted model, and three ways to build its requests.

The tools are confined to a root folder. Hidden files, links, files that are not text or may not be read, and names that
cannot be written down (a line break, bytes that are not UTF-8) are left alone. The scripted replies are the same for
every way of building the requests, so that the bills can be compared; the local provider keeps the bills.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from re import findall
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.context import Context
from contextkit.errors import InvalidCall
from contextkit.providers.anthropic.blocks import tool_result
from contextkit.providers.anthropic.messages import AnthropicMessages
from contextkit.tools.render import answer
from contextkit.tools.tool import Tool, tool

MAX_BYTES = 24_000
"""Longest piece of a file that is read at once."""
MAX_FILES = 400
"""Files the demonstration looks at; a home folder must not keep it busy."""
_SKIPPED = frozenset({"__pycache__", "node_modules", "venv", "build", "dist", "target"})


class Workspace:
    """Text files below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.files = sorted(islice(self._text_files(), MAX_FILES))
        """Paths relative to the root, sorted."""
        self._names = frozenset(self.files)

    def tools(self) -> list[Tool]:
        """List, read and search."""

        @tool
        def list_files(folder: str = ".") -> str:
            """List the text files below a folder of the project, one path a line, with sizes in bytes."""
            base = self._inside(folder)
            paths = [path for path in self.files if (self.root / path).is_relative_to(base)]
            return "\n".join(f"{path}  {(self.root / path).stat().st_size}" for path in paths) or "(no text files)"

        @tool
        def read_file(path: str, start: int = 0) -> str:
            """Read a file of the project from byte `start`, at most 24,000 bytes at a time."""
            return self.read(path, start)

        @tool
        def search_files(text: str, limit: int = 40) -> str:
            """Find lines that contain `text` in all files of the project: path, line number, line."""
            return "\n".join(islice(self._matches(text), limit)) or "(no match)"

        return [list_files, read_file, search_files]

    def read(self, path: str, start: int = 0, n_bytes: int = MAX_BYTES) -> str:
        """Text of a file below the root."""
        target = self._inside(path)
        if target.relative_to(self.root).as_posix() not in self._names:
            raise InvalidCall(f"{path!r} is no text file of the project: list_files shows what there is")
        with target.open("rb") as file:
            file.seek(start)
            return file.read(n_bytes).decode("utf-8", "replace") or "(empty)"

    def _inside(self, path: str) -> Path:
        target = (self.root / path).resolve()
        if not target.is_relative_to(self.root):
            raise InvalidCall(f"{path!r} is outside the project folder")
        return target

    def _text_files(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
            for name in sorted(names):
                path = Path(folder, name)
                relative = path.relative_to(self.root).as_posix()
                if (
                    not name.startswith(".")
                    and relative.isprintable()
                    and path.is_file()
                    and not path.is_symlink()
                    and _is_text(path)
                ):
                    yield relative

    def _matches(self, text: str) -> Iterator[str]:
        for path in self.files:
            for number, line in enumerate(self.read(path, n_bytes=1_000_000).splitlines(), 1):
                if text in line:
                    yield f"{path}:{number}: {line.strip()[:160]}"


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError:  # a file the user may not read is not part of the demonstration
        return False
    return bool(head) and b"\0" not in head


SECONDS = 8.0
"""How long each reply takes on the demonstration's clock."""
ATTACHED = 24
"""Files the user pastes as blocks of their own half-way: more positions than one lookup goes back over."""


def replies(workspace: Workspace, turns: int) -> list[Json]:
    """One reply a turn; the first half before the user's second message, the rest after it."""
    calls = list(islice(_calls(workspace), max(turns - 2, 2)))
    half = len(calls) // 2
    first = [_requests(call) for call in calls[:half]] + [
        _says("I have an overview. Which files do you care about most?")
    ]
    return first + [_requests(call) for call in calls[half:]] + [_says(_report(workspace))]


def attachments(workspace: Workspace) -> list[str]:
    """What the user pastes: the head of each of some files, one block each."""
    paths = workspace.files[:ATTACHED] or ["(no files)"]
    blocks = [
        f"<open-file path={path!r}>\n{workspace.read(path, n_bytes=300)}\n</open-file>"
        for path in paths
        if path in workspace.files
    ]
    spare = [f"<open-file path='notes-{i}'>\n(empty)\n</open-file>" for i in range(ATTACHED - len(blocks))]
    return [*blocks, *spare]


def _calls(workspace: Workspace) -> Iterator[tuple[str, list[tuple[str, Json]]]]:
    """What it says, and the calls it makes, for as long as anybody asks."""
    files = sorted(workspace.files, key=lambda path: (path.count("/"), path))
    yield "Let me look around.", [("list_files", {"folder": "."})]
    words = _frequent(workspace, files)
    for index in range(10_000):
        path = files[index % len(files)] if files else "."
        if index % 4 == 3:
            yield "Where is this used?", [("search_files", {"text": words[index // 4 % len(words)], "limit": 30})]
        elif index % 4 == 2:
            more = files[(index + 1) % len(files)] if files else "."
            yield "These two belong together.", [("read_file", {"path": path}), ("read_file", {"path": more})]
        else:
            yield f"Reading {path}.", [("read_file", {"path": path, "start": 4000 * (index // max(len(files), 1))})]


def _frequent(workspace: Workspace, files: list[str]) -> list[str]:
    counts = Counter(
        word for path in files[:40] for word in findall(r"[A-Za-z_]{6,}", workspace.read(path, n_bytes=4000))
    )
    return [word for word, _ in counts.most_common(12)] or ["the"]


def _requests(turn: tuple[str, list[tuple[str, Json]]]) -> Json:
    text, calls = turn
    parts = [
        {"type": "text", "text": text},
        *({"type": "call", "name": name, "arguments": arguments} for name, arguments in calls),
    ]
    return {"parts": parts, "seconds": SECONDS}


def _says(text: str) -> Json:
    return {"parts": [{"type": "text", "text": text}], "seconds": SECONDS}


def _report(workspace: Workspace) -> str:
    kinds = Counter(path.rsplit(".", 1)[-1] if "." in path else "(none)" for path in workspace.files)
    listed = ", ".join(f"{count} .{kind}" for kind, count in kinds.most_common(5))
    return f"The project has {len(workspace.files)} text files ({listed})."


SYSTEM = (
    "You are a careful engineer who reads a project before speaking about it. Use the tools to look at files; quote paths; say what you "
    "have not read. " + "Prefer small steps, and explain each in one sentence. " * 30
)
TASK = "Get to know this project and tell me how it is laid out."
MAX_TOKENS = 2048

Progress = Callable[[], None]


def careless(client: Any, model: str, workspace: Workspace, clock: Callable[[], float], progress: Progress) -> None:
    """A clock in the system prompt, tools in whatever order they come, history rebuilt with old results cut short."""
    tools = [_stock(tool.definition) for tool in workspace.tools()]
    conversation: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    turn = 0
    while conversation[-1]["role"] == "user":
        tools = tools[1:] + tools[:1]
        system = f"{SYSTEM}\nThe time is {datetime.fromtimestamp(clock(), UTC):%Y-%m-%d %H:%M:%S}."
        reply = client.messages.create(
            model=model,
            max_tokens=MAX_TOKENS,
            system=system,
            tools=tools,
            messages=_shortened(conversation),
            cache_control={"type": "ephemeral"},
        )
        turn += 1
        progress()
        _follow(conversation, reply, workspace)


def careful(client: Any, model: str, workspace: Workspace, clock: Callable[[], float], progress: Progress) -> None:
    """A list that is only appended to, a fixed head, and the provider's automatic breakpoint."""
    tools = [_stock(tool.definition) for tool in workspace.tools()]
    conversation: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    while conversation[-1]["role"] == "user":
        reply = client.messages.create(
            model=model,
            max_tokens=MAX_TOKENS,
            system=SYSTEM,
            tools=tools,
            messages=conversation,
            cache_control={"type": "ephemeral"},
        )
        progress()
        _follow(conversation, reply, workspace)


def with_contextkit(
    client: Any, model: str, workspace: Workspace, clock: Callable[[], float], progress: Progress
) -> None:
    """A `Context`."""
    context = Context(
        AnthropicMessages(model, max_tokens=MAX_TOKENS), system=SYSTEM, tools=workspace.tools(), clock=clock
    )
    context.user(TASK)
    has_attached = False
    while not (context.finished and has_attached):
        if context.finished:
            context.user(attachments(workspace))
            has_attached = True
        context.receive(context.request().send(client))
        progress()
        for call in context.calls:
            context.result(call, call.run())


def _follow(messages: list[dict[str, Any]], reply: Any, workspace: Workspace) -> None:
    """Append the reply and what answers it; the user's second message comes when the model first stops to ask."""
    messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
    tools = {tool.name: tool for tool in workspace.tools()}
    calls = [block for block in reply.content if block.type == "tool_use"]
    results = [tool_result(call.id, **answer(_ran(tools[call.name], call.input))) for call in calls]
    n_user_turns = sum(message["role"] == "user" and not _is_results(message) for message in messages)
    if results:
        messages.append({"role": "user", "content": results})
    elif n_user_turns == 1:
        messages.append(
            {"role": "user", "content": [{"type": "text", "text": text} for text in attachments(workspace)]}
        )


def _ran(tool: Any, arguments: Any) -> object:
    try:
        return tool.run(arguments)
    except Exception as error:  # noqa: BLE001 - a tool's failure is an answer
        return error


def _is_results(message: dict[str, Any]) -> bool:
    return isinstance(message["content"], list) and message["content"][0]["type"] == "tool_result"


def _stock(definition: Any) -> Any:
    return {
        "name": definition["name"],
        "description": definition["description"],
        "input_schema": definition["parameters"],
    }


def _shortened(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """History rebuilt: every result but the last four is cut to its first 400 characters."""
    old = messages[:-4]
    return [
        {**message, "content": list(map(_cut, message["content"]))} if _is_results(message) else message
        for message in old
    ] + messages[-4:]


def _cut(block: dict[str, Any]) -> dict[str, Any]:
    text = block["content"][0]["text"]
    return {**block, "content": [{"type": "text", "text": text[:400]}]} if len(canonical(text)) > 400 else block
