"""Implements `contextkit lock`: pins the static prefix (system prompt and tools) of each agent in a reviewed file.

`[tool.contextkit.lock.agents]` of the nearest pyproject.toml names the agents; `load_head` imports them, the only place
where this command runs the project's code. `prompt.lock` is TOML that a reviewer can read and from which every byte
comes back; each block is checked against its digest when it is read.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from hashlib import blake2b
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from contextkit.canonical import Json, canonical, parse
from contextkit.context import Context
from contextkit.errors import ContextKitError, UsageError
from contextkit.models import model_named
from contextkit.private_files import replacing
from contextkit.prompt.diff import path_of
from contextkit.prompt.prompt import LEVELS, Level
from contextkit.pyproject import read_table
from contextkit.terminal import echo

VERSION = 1
"""Version of the lock file."""
_OPENING = """# What stands first in every prompt of each agent: written by `contextkit lock write`, held by `contextkit lock check`.
# Keep this file in version control. A change of it is a change of every prompt: review it as such.
"""
_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]*")
"""Text that TOML accepts without an escape."""
_AGAIN = "take it from version control, or write it anew with `contextkit lock write`"
_EXAMPLE = '[tool.contextkit.lock.agents] with a line such as researcher = "myapp.agents:researcher"'
_CONTEXT_WORDS = 8
"""Unchanged words printed on either side of a change."""
_CHANGED_WORDS = 40
"""Words printed of each end of a long change."""


def digest_of(body: bytes) -> str:
    """Return the digest that pins `body`, in hexadecimal digits."""
    return blake2b(body, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class LockedBlock:
    """One tool, or one block of the system prompt."""

    path: str
    """Place in the request's body: `tools[2]`, `system[0]`, `messages[0].content[0]`."""
    level: Level
    body: bytes
    """The block in the wire's normal form."""
    n_tokens: int
    """0 for a tool whose loading is deferred: it is not in the prefix."""

    @property
    def label(self) -> str:
        """`tool 'search'`, or the path of a block without a name."""
        block = parse(self.body) if self.level == "tools" else {}
        name = (block.get("function") or block).get("name") if isinstance(block, dict) else None
        return f"tool {name!r}" if name else self.path

    @property
    def text(self) -> str:
        """The text of a text block, otherwise indented JSON."""
        block = parse(self.body)
        return str(block["text"]) if _is_text(block) else _indented(block)


@dataclass(frozen=True, slots=True)
class LockedHead:
    """The static prefix of an agent's prompts."""

    provider: str
    wire: str
    model: str
    keys: tuple[str, str, str]
    """Digests of the parameters that key tools, system and messages (docs/reference/providers.md)."""
    is_estimate: bool
    """True if token counts are estimated from sizes."""
    blocks: tuple[LockedBlock, ...]
    """In prompt order."""

    @property
    def n_tokens(self) -> int:
        """Tokens of all blocks."""
        return sum(block.n_tokens for block in self.blocks)

    @property
    def digest(self) -> str:
        """One digest of everything that decides what the cache holds."""
        parts = (self.provider, self.wire, self.model, *self.keys, *(digest_of(block.body) for block in self.blocks))
        return digest_of("\0".join(parts).encode())


def read_settings(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return the lock file's path and the agents (name → `module:attribute`) that the nearest pyproject.toml lists.

    Raises `UsageError` if there are none, or if the table is wrong.
    """
    start = folder.absolute()
    for place in (start, *start.parents):
        file = place / "pyproject.toml"
        if not file.is_file():
            continue
        table = read_table(file, "lock")
        if table is None:
            continue
        where = f"{file}: [tool.contextkit.lock]"
        if unknown := sorted(table.keys() - {"agents"}):
            raise UsageError(f"{where} has an unknown key {unknown[0]!r}; it has agents")
        agents = table.get("agents")
        if not isinstance(agents, dict) or not agents:
            raise UsageError(f"{where} names no agents: add {_EXAMPLE}")
        for name, at in agents.items():
            if not isinstance(at, str) or re.fullmatch("[^:]+:[^:]+", at) is None:
                raise UsageError(f'{where} agents.{name} is {at!r}: write "module:attribute", as in {_EXAMPLE}')
        return place / "prompt.lock", agents
    raise UsageError(f"no pyproject.toml at {start} or above names agents to lock: add {_EXAMPLE}")


def load_head(name: str, at: str, root: Path) -> LockedHead:
    """Import the agent at `module:attribute`, from `root` and `root/src` first, and return its head.

    Raises `UsageError` if it cannot be imported, or is no agent.
    """
    before = list(sys.path)
    sys.path[:0] = [str(folder) for folder in (root, root / "src") if folder.is_dir()]
    try:
        context = _context(name, at)
        if context.is_new:
            context = context.fork()  # in memory: a request needs a message, and the agent's own log gets none
            context.user("A message after the head.")
        request = context.request()
    finally:
        sys.path[:] = before
    columns = request.layout.columns
    blocks = tuple(
        LockedBlock(
            path_of(columns, i),
            LEVELS[columns.levels[i]],
            columns.body(i),
            0 if i in columns.silent else columns.block(i).n_tokens,
        )
        for i in range(min(columns.level_ends[1], request.layout.n))
    )
    tools, system, messages = (key.hex() for key in request.prompt.namespaces)
    is_estimate = request.model.tokenizer == "bytes"
    return LockedHead(
        request.provider, request.wire, request.model.name, (tools, system, messages), is_estimate, blocks
    )


def _context(name: str, at: str) -> Context:
    module, attribute = at.split(":")
    try:
        agent: Any = import_module(module)
        for part in attribute.split("."):
            agent = getattr(agent, part)
        agent = agent() if callable(agent) else agent
    except ContextKitError as error:
        raise UsageError(f"agent {name!r} at {at}: {error}") from error
    except (Exception, SystemExit) as error:  # raised by the project's own code
        what = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"agent {name!r} at {at} cannot be made ({what}): correct pyproject.toml or that code"
        ) from error
    match agent:
        case Context():
            return agent
        case (provider, system, tools):
            return Context(provider, system=system, tools=tools)
    raise UsageError(
        f"agent {name!r} at {at} is {type(agent).__name__}: give a Context, (provider, system, tools), or a function "
        "that makes one"
    )


def lock_text(heads: Mapping[str, LockedHead]) -> str:
    """Return the text of a lock file, agents sorted by name."""
    lines = [_OPENING, f"version = {VERSION}\n"]
    for name, head in sorted(heads.items()):
        lines.append(f"\n[[agent]]\nname = {_quoted(name)}\nprovider = {_quoted(head.provider)}\n")
        lines.append(f"wire = {_quoted(head.wire)}\nmodel = {_quoted(head.model)}\n")
        lines.append(f"keys = [{', '.join(map(_quoted, head.keys))}]\ndigest = {_quoted(head.digest)}\n")
        lines.append(f"n_tokens = {head.n_tokens}\nis_estimate = {str(head.is_estimate).lower()}\n")
        for block in head.blocks:
            lines.append(f"\n[[agent.block]]\npath = {_quoted(block.path)}\nlevel = {_quoted(block.level)}\n")
            lines.append(f"digest = {_quoted(digest_of(block.body))}\nn_tokens = {block.n_tokens}\n")
            is_plain = "'''" not in block.text and not block.text.endswith("'") and _PLAIN.fullmatch(block.text)
            text = f"'''\n{block.text}'''" if is_plain else _quoted(block.text)
            body = parse(block.body)
            lines.append(f"type = {_quoted(body['type'])}\ntext = {text}\n" if _is_text(body) else f"json = {text}\n")
    return "".join(lines)


def read_lock(text: str, where: str) -> dict[str, LockedHead]:
    """Return the heads in the text of a lock file.

    Raises `UsageError`, naming the file and the place, for text that `lock_text` does not write.
    """
    try:
        document = tomllib.loads(text)
        version = document.get("version")
        if type(version) is int and version > VERSION:
            raise UsageError(
                f"{where} is of version {version}, this contextkit reads up to {VERSION}: upgrade contextkit"
            )
        if version != VERSION:
            raise UsageError(f"{where} is of version {version!r}, this is version {VERSION}: {_AGAIN}")
        return {str(row["name"]): _head(row, where) for row in document.get("agent", [])}
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where} is not TOML ({error}): {_AGAIN}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{where} is not as contextkit writes it ({type(error).__name__}: {error}): {_AGAIN}"
        ) from None


def _head(row: Mapping[str, Any], where: str) -> LockedHead:
    blocks = []
    for part in row.get("block", []):
        body = canonical(parse(part["json"]) if "json" in part else {"type": part["type"], "text": part["text"]})
        if digest_of(body) != part["digest"]:
            raise UsageError(f"{where}: agent {row['name']!r}, {part['path']} does not match its digest: {_AGAIN}")
        blocks.append(LockedBlock(str(part["path"]), LEVELS[LEVELS.index(part["level"])], body, int(part["n_tokens"])))
    tools, system, messages = map(str, row["keys"])
    head = LockedHead(
        str(row["provider"]),
        str(row["wire"]),
        str(row["model"]),
        (tools, system, messages),
        bool(row["is_estimate"]),
        tuple(blocks),
    )
    if head.digest != row["digest"]:
        raise UsageError(f"{where}: agent {row['name']!r} does not match its digest: {_AGAIN}")
    return head


def _is_text(block: Json) -> bool:
    return isinstance(block, dict) and list(block) == ["type", "text"] and isinstance(block["text"], str)


def _indented(block: Json) -> str:
    return json.dumps(block, indent=2, ensure_ascii=False)


def _quoted(text: str) -> str:
    """Return `text` as a TOML basic string: a JSON string, but with DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def changes(was: LockedHead, now: LockedHead) -> Iterator[str]:
    """Yield one line per difference of two heads; a changed block with its word diff."""
    if (was.provider, was.wire, was.model) != (now.provider, now.wire, now.model):
        yield f"the model changed: {was.provider} {was.model} ({was.wire}) → {now.provider} {now.model} ({now.wire})"
    for level, old_key, new_key in zip(LEVELS, was.keys, now.keys, strict=True):
        if old_key != new_key:
            yield f"parameters that key the {level} changed"
            break
    old, new = ({block.label: block for block in head.blocks} for head in (was, now))
    for label in dict.fromkeys((*old, *new)):
        if label not in new:
            yield f"{label} removed"
        elif label not in old:
            yield f"{label} added at {new[label].path} ({new[label].n_tokens:,} tokens)"
        elif old[label].body != new[label].body:
            yield f"{label} changed at {new[label].path}:\n    {word_diff(old[label].text, new[label].text)}"
    shared_old, shared_new = [key for key in old if key in new], [key for key in new if key in old]
    if shared_old != shared_new:
        yield f"the order changed: {', '.join(shared_old)} → {', '.join(shared_new)}"


def rebilled_tokens(was: LockedHead, now: LockedHead) -> int:
    """Return how many tokens of `now` its first request cannot read from a cache that holds `was`.

    A cache that is written only at breakpoints has no entry before the end of the head, so there every change costs the
    whole head.
    """
    older, newer = ([block for block in head.blocks if block.n_tokens] for head in (was, now))
    keyed = next((i for i, keys in enumerate(zip(was.keys, now.keys, strict=True)) if keys[0] != keys[1]), len(LEVELS))
    is_model_same = (was.provider, was.wire, was.model) == (now.provider, now.wire, now.model)
    same = (a.body == b.body and LEVELS.index(b.level) < keyed for a, b in zip(older, newer, strict=False))
    shared = len(list(takewhile(bool, same))) if is_model_same else 0
    is_same = shared == len(older) == len(newer)
    start = 0 if model_named(now.model).cache == "breakpoints" and not is_same else shared
    return sum(block.n_tokens for block in newer[start:])


def word_diff(old: str, new: str) -> str:
    """Return both texts in one, removed words as `[-…-]`, added ones as `{+…+}`, long stretches shortened."""
    before, after = (re.findall(r"\S+\s*|\s+", text) for text in (old, new))
    parts = []
    for tag, i, j, k, m in SequenceMatcher(None, before, after).get_opcodes():
        if tag == "equal":
            n_first = _CONTEXT_WORDS if i else 0
            n_last = _CONTEXT_WORDS if j < len(before) or m < len(after) else 0
            parts.append(_shortened(before[i:j], n_first, n_last))
            continue
        parts.append(f"[-{_shortened(before[i:j], _CHANGED_WORDS, _CHANGED_WORDS)}-]" if j > i else "")
        parts.append(f"{{+{_shortened(after[k:m], _CHANGED_WORDS, _CHANGED_WORDS)}+}}" if m > k else "")
    return "".join(parts).strip()


def _shortened(words: Sequence[str], n_first: int, n_last: int) -> str:
    if len(words) <= n_first + n_last:
        return "".join(words)
    return f"{''.join(words[:n_first])}… {''.join(words[len(words) - n_last :])}"


_project = click.option(
    "--project",
    default=".",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the pyproject.toml, or one below it.",
)


@click.group("lock")
def command() -> None:
    """Pin the system prompt and tools of every agent in a file that is reviewed like code.

    Agents are named in [tool.contextkit.lock.agents] of pyproject.toml; this command imports them, no other does.

    \b
    contextkit lock write
    contextkit lock check
    """


@command.command("write")
@_project
def write(project: Path) -> None:
    """Write the lock file."""
    path, agents = read_settings(project)
    heads = {name: load_head(name, at, path.parent) for name, at in agents.items()}
    with replacing(path) as file:
        file.write(lock_text(heads).encode())
    for name, head in heads.items():
        echo(f"{name}: {len(head.blocks)} blocks, {_tokens(head)}, {head.digest[:8]} ({head.model})")
    echo(f"written to {path}")


@command.command("check")
@_project
def check(project: Path) -> None:
    """Show, as a word diff, what changed since the lock was written; exit with 1 if anything did."""
    path, agents = read_settings(project)
    if not path.is_file():
        raise click.UsageError(f"{path} is not there: `contextkit lock write` writes it; commit it")
    locked = read_lock(path.read_text("utf-8"), str(path))
    today = {name: load_head(name, at, path.parent) for name, at in agents.items()}
    for name, now in today.items():
        was = locked.get(name)
        if was is None:
            echo(f"{name}: not in the lock file yet ({_tokens(now)})")
        elif was.digest == now.digest:
            echo(f"{name}: as locked ({_tokens(now)}, {now.digest[:8]})")
        else:
            echo(f"{name}: {rebilled_tokens(was, now):,} of {_tokens(now)} are billed again at first use")
            for line in changes(was, now):
                echo(f"  {line}")
    for name in locked.keys() - today.keys():
        echo(f"{name}: no longer named in pyproject.toml")
    if {name: head.digest for name, head in locked.items()} != {name: head.digest for name, head in today.items()}:
        echo("if this is meant: contextkit lock write, and commit the lock file")
        raise click.exceptions.Exit(1)


def _tokens(head: LockedHead) -> str:
    return f"{'about ' if head.is_estimate else ''}{head.n_tokens:,} tokens"
