"""Implements `contextkit lock`: pins the static prefix of each agent's prompts and prices a change of it in CI.

`[tool.contextkit.lock]` of the nearest pyproject.toml names the agents; `load_head` imports them, the only place where
this command runs the project's code. `prompt.lock` is TOML that a reviewer can read and from which every byte comes
back; each block is checked against its digest when it is read. An unknown key or a wrong value is an error that names
it.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contextkit.canonical import Json, canonical, parse
from contextkit.cli.terminal import for_programs
from contextkit.context import Context
from contextkit.errors import ContextKitError, UsageError
from contextkit.private_files import replacing
from contextkit.prompt.lock import HeadChange, Live, LockedBlock, LockedHead, compare, digest_of, head_of
from contextkit.prompt.prompt import LEVELS
from contextkit.terminal import echo, echo_json


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent whose head is locked."""

    name: str
    """What it is called in the lock file."""
    at: str
    """Where it is made: `module:attribute`."""
    live: Live
    """Conversations of it that are going on when a change goes out."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is locked, where, and what a change may cost."""

    root: Path
    """Folder of the pyproject.toml."""
    path: Path
    """The lock file."""
    agents: tuple[Agent, ...]
    """In the order they are named."""
    budget_tokens: int | None
    """Most tokens a change may re-bill; None for any number."""
    budget_usd: float | None
    """Most dollars it may cost; None for any amount."""


_EXAMPLE = '[tool.contextkit.lock.agents] with a line such as researcher = "myapp.agents:researcher"'


def read_settings(folder: str | Path) -> Settings:
    """The settings that hold for a folder; `UsageError` where there are none, or where they are wrong."""
    start = Path(folder).absolute()
    for place in (start, *start.parents):
        file = place / "pyproject.toml"
        if file.is_file() and (table := _table(file)) is not None:
            return _settings(table, file)
    raise UsageError(f"no pyproject.toml at {start} or above names agents to lock: add {_EXAMPLE}")


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        whole = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    table = whole.get("tool", {}).get("contextkit", {}).get("lock")
    return table if table is None or isinstance(table, dict) else {"": table}


def _settings(table: Mapping[str, Any], file: Path) -> Settings:
    where = f"{file}: [tool.contextkit.lock]"
    _check_keys(where, table, ("agents", *_KINDS))
    settings = {key: _KINDS[key](f"{where} {key}", value) for key, value in table.items() if key != "agents"}
    live = Live(settings.get("live_sessions", 0), settings.get("session_tokens", 0))
    agents = table.get("agents")
    if not isinstance(agents, dict) or not agents:
        raise UsageError(f"{where} names no agents: add {_EXAMPLE}")
    tokens, usd = settings.get("budget_tokens"), settings.get("budget_usd")
    return Settings(
        file.parent,
        file.parent / settings.get("path", "prompt.lock"),
        tuple(_agent(f"{where} agents.{name}", name, value, live) for name, value in agents.items()),
        0 if tokens is None and usd is None else tokens,
        usd,
    )


def _agent(where: str, name: str, value: object, live: Live) -> Agent:
    row = {"at": value} if isinstance(value, str) else value
    if not isinstance(row, dict) or "at" not in row:
        raise UsageError(
            f'{where} is "module:attribute", or {{ at = "module:attribute", live_sessions = …, session_tokens = … }}'
        )
    _check_keys(where, row, ("at", "live_sessions", "session_tokens"))
    at = _text(f"{where}.at", row["at"])
    if at.count(":") != 1 or not all(at.split(":")):
        raise UsageError(f'{where} is {at!r}: write "module:attribute", such as "myapp.agents:researcher"')
    counts = [
        _count(f"{where}.{key}", row.get(key, default))
        for key, default in (
            ("live_sessions", live.n_sessions),
            ("session_tokens", live.session_tokens),
        )
    ]
    return Agent(name, at, Live(*counts))


def _check_keys(where: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    if unknown := sorted(table.keys() - set(keys)):
        raise UsageError(f"{where} has an unknown key {unknown[0]!r}; it may have {', '.join(keys)}")


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where} must be text, not {value!r}")
    return value


def _count(where: str, value: object) -> int:
    if type(value) is not int or value < 0:
        raise UsageError(f"{where} must be a whole number, 0 or more, not {value!r}")
    return value


def _amount(where: str, value: object) -> float:
    if type(value) not in (int, float) or not value >= 0:  # type: ignore[operator]
        raise UsageError(f"{where} must be dollars, 0 or more, not {value!r}")
    return float(value)  # type: ignore[arg-type]


_KINDS: Mapping[str, Callable[[str, object], Any]] = {
    "path": _text,
    "live_sessions": _count,
    "session_tokens": _count,
    "budget_tokens": _count,
    "budget_usd": _amount,
}
"""Key of the table → what reads it."""


VERSION = 1
_OPENING = """# What stands first in every prompt of each agent: written by `contextkit lock write`, held by `contextkit lock check`.
# Keep this file in version control. A change of it is a change of every prompt: review it as such.
"""
_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]*")
"""Text that TOML takes as it stands."""
_ESCAPED = re.compile(r'[\x00-\x08\x0b-\x1f\x7f"\\]')
_WORDS = {"type", "text"}


def lock_text(heads: Mapping[str, LockedHead]) -> str:
    """The text of a lock file, agents in the order of their names."""
    return "".join(
        [
            _OPENING,
            f"version = {VERSION}\n",
            *(line for name in sorted(heads) for line in _agent_table(name, heads[name])),
        ]
    )


def read_lock(text: str, where: str) -> dict[str, LockedHead]:
    """The heads in the text of a lock file.

    Raises `UsageError`, naming the file and the place, for what `lock_text` does not write.
    """
    try:
        whole = tomllib.loads(text)
        version = whole.get("version")
        if type(version) is int and version > VERSION:
            raise UsageError(
                f"{where} is of version {version}, this contextkit reads up to {VERSION}: upgrade contextkit"
            )
        if version != VERSION:
            raise UsageError(f"{where} is of version {version!r}, this is version {VERSION}: {_AGAIN}")
        return {str(row["name"]): _head(row, where) for row in whole.get("agent", [])}
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where} is not TOML ({error}): {_AGAIN}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{where} is not as contextkit writes it ({type(error).__name__}: {error}): {_AGAIN}"
        ) from None


_AGAIN = "take it from version control, or write it anew with `contextkit lock write`"


def readable_block(body: bytes) -> str:
    """A block as a person reads it: its words, or indented JSON."""
    block = parse(body)
    return str(block["text"]) if _is_words(block) else _indented(block)


def _agent_table(name: str, head: LockedHead) -> Iterator[str]:
    yield f"\n[[agent]]\nname = {_string(name)}\nprovider = {_string(head.provider)}\nwire = {_string(head.wire)}\n"
    yield f"model = {_string(head.model)}\nkeys = [{', '.join(map(_string, head.keys))}]\ndigest = {_string(head.digest)}\n"
    yield f"n_tokens = {head.n_tokens}\nis_estimate = {'true' if head.is_estimate else 'false'}\n"
    for block in head.blocks:
        yield f"\n[[agent.block]]  # {block.name or block.level}\npath = {_string(block.path)}\nlevel = {_string(block.level)}\n"
        yield f"digest = {_string(digest_of(block.body))}\nn_tokens = {block.n_tokens}\n{_body(parse(block.body))}\n"


def _body(block: Json) -> str:
    if _is_words(block):
        return f"type = {_string(block['type'])}\ntext = {_long(block['text'])}"
    return f"json = {_long(_indented(block))}"


def _is_words(block: Json) -> bool:
    return (
        isinstance(block, dict)
        and block.keys() == _WORDS
        and list(block) == ["type", "text"]
        and isinstance(block["text"], str)
    )


def _indented(block: Json) -> str:
    return json.dumps(block, indent=2, ensure_ascii=False)


def _string(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'.replace("\n", "\\n")


def _long(text: str) -> str:
    """Several lines: as they stand where TOML can, else escaped."""
    is_plain = "'''" not in text and not text.endswith("'") and _PLAIN.fullmatch(text) is not None
    return f"'''\n{text}'''" if is_plain else f'"""\n{_ESCAPED.sub(_escape, text)}"""'


def _escape(match: re.Match[str]) -> str:
    letter = match.group()
    return f"\\{letter}" if letter in '"\\' else f"\\u{ord(letter):04x}"


def _head(row: Mapping[str, Any], where: str) -> LockedHead:
    tools, system, messages = map(str, row["keys"])
    blocks = tuple(_block(block, f"{where}: agent {row['name']!r}, {block['path']}") for block in row.get("block", []))
    head = LockedHead(
        str(row["provider"]),
        str(row["wire"]),
        str(row["model"]),
        (tools, system, messages),
        bool(row["is_estimate"]),
        blocks,
    )
    if head.digest != row["digest"]:
        raise UsageError(f"{where}: agent {row['name']!r} is not what its digest says: {_AGAIN}")
    return head


def _block(row: Mapping[str, Any], where: str) -> LockedBlock:
    read = next(reader for key, reader in _READERS.items() if key in row)
    body = canonical(read(row))
    if digest_of(body) != row["digest"]:
        raise UsageError(f"{where} is not what its digest says: {_AGAIN}")
    return LockedBlock(str(row["path"]), LEVELS[LEVELS.index(row["level"])], body, int(row["n_tokens"]))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Json]] = {
    "text": lambda row: {"type": row["type"], "text": row["text"]},
    "json": lambda row: parse(row["json"]),
}
"""Key under which a block stands → what reads it."""


_PARTS = 3
"""Provider, system, tools."""


def load_head(agent: Agent, root: Path) -> LockedHead:
    """The head of `agent`, whose modules are looked up in `root` and `root/src` first.

    Raises `UsageError` where it cannot be imported, or is no agent.
    """
    with _importing(root):
        context = _context(_made(agent), agent)
        if context.is_new:
            context = context.fork()  # in memory: a request needs a message, and the agent's own log gets none
            context.user("A message behind the head.")
        request = context.request()
    return head_of(request.layout, request.prompt, request.wire, request.provider, request.model.name)


def _made(agent: Agent) -> Any:
    module, attribute = agent.at.split(":")
    try:
        value: Any = import_module(module)
        for name in attribute.split("."):
            value = getattr(value, name)
        return value() if callable(value) else value
    except ContextKitError as error:
        raise UsageError(f"agent {agent.name!r} at {agent.at}: {error}") from error
    except (Exception, SystemExit) as error:  # the project's own code, whose faults are the caller's to mend
        what = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"agent {agent.name!r} at {agent.at} cannot be made ({what}): correct pyproject.toml or that code"
        ) from error


def _context(made: Any, agent: Agent) -> Context:
    if isinstance(made, Context):
        return made
    if not isinstance(made, tuple) or len(made) != _PARTS:
        kind = type(made).__name__
        raise UsageError(
            f"agent {agent.name!r} at {agent.at} is {kind}: give a Context, (provider, system, tools), or a function that makes one"
        )
    provider, system, tools = made
    return Context(provider, system=system, tools=tools)


@contextmanager
def _importing(root: Path) -> Iterator[None]:
    """The project's folders before all others, as `python -m` would have them."""
    before = list(sys.path)
    sys.path[:0] = [str(folder) for folder in (root, root / "src") if folder.is_dir()]
    try:
        yield
    finally:
        sys.path[:] = before


@dataclass(frozen=True, slots=True)
class Row:
    """One agent."""

    name: str
    """What it is called."""
    live: Live
    """Its conversations that are going on."""
    was: LockedHead | None
    """Its head in the lock file, None for an agent that is new."""
    now: LockedHead | None
    """Its head today, None for an agent that is named no more."""
    change: HeadChange | None
    """Where the two differ."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Every agent, and whether it all is within the budget."""

    rows: tuple[Row, ...]
    """In the order of pyproject.toml, what only the lock file names behind them."""
    settings: Settings
    """What a change may cost."""

    @property
    def changes(self) -> list[HeadChange]:
        """Everything that re-bills something."""
        return [row.change for row in self.rows if row.change is not None]

    @property
    def n_tokens(self) -> int:
        """Tokens re-billed."""
        return sum(change.n_tokens for change in self.changes)

    @property
    def usd(self) -> float | None:
        """Dollars, None where a model has no price."""
        paid = [change.usd for change in self.changes]
        return None if None in paid else sum(amount for amount in paid if amount is not None)

    @property
    def is_over(self) -> bool:
        """Whether a budget is exceeded. Raises `UsageError` for a budget in dollars where a model has no price."""
        tokens, usd = self.settings.budget_tokens, self.settings.budget_usd
        if usd is not None and self.usd is None:
            raise UsageError(
                "budget_usd cannot be held: a changed agent's model has no price; set budget_tokens instead"
            )
        return (tokens is not None and self.n_tokens > tokens) or (usd is not None and (self.usd or 0.0) > usd)

    @property
    def is_current(self) -> bool:
        """Whether the lock file says what is."""
        return all(
            row.was is not None and row.now is not None and row.was.digest == row.now.digest for row in self.rows
        )

    def to_text(self, *, with_diff: bool = False) -> str:
        """For people."""
        lines = [line for row in self.rows for line in _row_lines(row, with_diff)]
        return "\n".join([*lines, *self._ending()])

    def to_json(self) -> str:
        """For programs."""
        whole = {
            "agents": [_row(row) for row in self.rows],
            "n_tokens": self.n_tokens,
            "usd": self.usd,
            "budget_tokens": self.settings.budget_tokens,
            "budget_usd": self.settings.budget_usd,
            "is_over": self.is_over,
            "is_current": self.is_current,
        }
        return json.dumps(whole, indent=2, ensure_ascii=False)

    def _ending(self) -> Iterator[str]:
        if self.changes:
            budgets = [
                *([] if self.settings.budget_tokens is None else [f"{self.settings.budget_tokens:,} tokens"]),
                *([] if self.settings.budget_usd is None else [_dollars(self.settings.budget_usd)]),
            ]
            verdict = "over" if self.is_over else "within"
            yield f"{self.n_tokens:,} tokens re-billed at first use, {_dollars(self.usd)}: {verdict} the budget of {', '.join(budgets)}"
        if not self.is_current:
            yield "if this is meant: contextkit lock write, and commit the lock file"


def check_all(
    settings: Settings,
    locked: Mapping[str, LockedHead],
    today: Mapping[str, LockedHead],
    live_sessions: int | None,
    session_tokens: int | None,
) -> Checked:
    """Every agent of either side; `live_sessions` and `session_tokens` count instead of what the settings say."""

    def live(agent: Agent) -> Live:
        sessions = agent.live.n_sessions if live_sessions is None else live_sessions
        return Live(sessions, agent.live.session_tokens if session_tokens is None else session_tokens)

    named = [_compared(agent.name, live(agent), locked.get(agent.name), today[agent.name]) for agent in settings.agents]
    gone = [_compared(name, Live(), head, None) for name, head in locked.items() if name not in today]
    return Checked((*named, *gone), settings)


def _compared(name: str, live: Live, was: LockedHead | None, now: LockedHead | None) -> Row:
    return Row(name, live, was, now, None if was is None or now is None else compare(was, now, live))


def _row_lines(row: Row, with_diff: bool) -> Iterator[str]:
    if row.now is None:
        yield f"{row.name}: no longer named in pyproject.toml"
    elif row.was is None:
        yield f"{row.name}: not in the lock file yet ({row.now.n_tokens:,} tokens)"
    elif row.change is None:
        yield f"{row.name}: as locked ({row.now.n_tokens:,} tokens, {row.now.digest[:8]})"
    else:
        yield from _changed(row.name, row.live, row.now, row.change)
        yield from _diff(row.was, row.now) if with_diff else ()


def _changed(name: str, live: Live, now: LockedHead, change: HeadChange) -> Iterator[str]:
    about = "about " if now.is_estimate else ""
    yield f"{name}: {change.what}" + (f" at {change.path}, byte {change.offset}" if change.path else "")
    if change.path:
        yield f"  was  {change.before!r}"
        yield f"  now  {change.after!r}"
    yield f"  {about}{change.head_tokens:,} tokens of the head ({now.n_tokens:,}) are billed once more"
    if change.session_tokens:
        yield f"  {change.session_tokens:,} more in {live.n_sessions:,} live sessions of {live.session_tokens:,} tokens"


def _diff(was: LockedHead, now: LockedHead) -> Iterator[str]:
    """Blocks by name, so that a tool that only moved shows nothing."""
    old, new = (
        {block.name or block.path: readable_block(block.body).splitlines() for block in head.blocks}
        for head in (was, now)
    )
    for label in dict.fromkeys((*old, *new)):
        yield from unified_diff(
            old.get(label, []), new.get(label, []), f"{label} (locked)", f"{label} (now)", lineterm="", n=2
        )


def _dollars(amount: float | None) -> str:
    return "no price known" if amount is None else f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _row(row: Row) -> Json:
    change, now = row.change, row.now
    document: dict[str, Json] = {"agent": row.name, "is_locked": row.was is not None, "is_named": now is not None}
    if now is not None:
        document |= {"model": now.model, "n_tokens": now.n_tokens, "is_estimate": now.is_estimate, "digest": now.digest}
    if change is not None:
        document["change"] = {
            "what": change.what,
            "path": change.path,
            "offset": change.offset,
            "was": change.before,
            "now": change.after,
            "head_tokens": change.head_tokens,
            "session_tokens": change.session_tokens,
            "n_tokens": change.n_tokens,
            "usd": change.usd,
        }
    return document


if TYPE_CHECKING:
    from contextkit.prompt.lock import LockedHead


@click.group("lock")
def command() -> None:
    """Pin the head of every agent's prompts (system and tools) in a file that is reviewed like code.

    Agents are named in [tool.contextkit.lock.agents] of pyproject.toml; this command imports them, no other does.

    \b
    contextkit lock write
    contextkit lock check --diff
    """


@command.command("write")
@click.option(
    "--project", default=".", type=click.Path(exists=True, file_okay=False), help="Folder whose pyproject.toml holds."
)
def write(project: str) -> None:
    """Write the lock file."""
    settings = read_settings(project)
    heads = _heads(settings)
    with replacing(settings.path) as file:
        file.write(lock_text(heads).encode())
    for name, head in heads.items():
        about = "about " if head.is_estimate else ""
        echo(f"{name}: {len(head.blocks)} blocks, {about}{head.n_tokens:,} tokens, {head.digest[:8]} ({head.model})")
    echo(f"written to {settings.path}")


@command.command("check")
@click.option(
    "--project", default=".", type=click.Path(exists=True, file_okay=False), help="Folder whose pyproject.toml holds."
)
@click.option(
    "--live-sessions", type=click.IntRange(0), help="Conversations going on, instead of what pyproject.toml says."
)
@click.option(
    "--session-tokens", type=click.IntRange(0), help="Tokens of each session's conversation; overrides pyproject.toml."
)
@click.option("--diff", is_flag=True, help="Every changed block, line by line.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def check(project: str, live_sessions: int | None, session_tokens: int | None, diff: bool, as_json: bool) -> None:
    """Say what a change since the lock was written re-bills at first use; leave with 1 when that is over the budget."""
    settings = read_settings(project)
    if not settings.path.is_file():
        raise click.UsageError(
            f"{settings.path} is not there: `contextkit lock write` writes it, version control keeps it"
        )
    locked = read_lock(settings.path.read_text(encoding="utf-8"), str(settings.path))
    checked = check_all(settings, locked, _heads(settings), live_sessions, session_tokens)
    if as_json:
        for_programs()
    if as_json:
        echo_json(checked.to_json())
    else:
        echo(checked.to_text(with_diff=diff))
    if checked.is_over:
        raise click.exceptions.Exit(1)


def _heads(settings: Settings) -> dict[str, LockedHead]:

    return {agent.name: load_head(agent, settings.root) for agent in settings.agents}
