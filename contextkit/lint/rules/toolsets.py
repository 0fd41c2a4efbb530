"""What became of the tools between two calls: which came, went, changed their text or whether they are deferred, and what was said then.

Takes steps and their blocks, gives what moved on the tools level and the words that are new beside it; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import orjson

from contextkit.lint.requests.rule import Change, RecordedCall, Step
from contextkit.lint.rules.history import messages, tail
from contextkit.prompt.block import Block, text_of

SERVER_TOOL = re.compile(
    r"^(?:web_search|web_fetch|code_?execution|code_?interpreter|file_?search|google_?search|url_?context|x_search|image_generation)",
    re.IGNORECASE,
)
"""Types of tools that the provider runs itself."""
SEARCH = re.compile(
    r"tool_?search|search_?(?:for_)?tools?|find_?tools?|discover|load_?tools?|get_?tools?|list_?tools?|activate_?tools?",
    re.IGNORECASE,
)
"""Names of tools that look for tools."""
_SEPARATOR = re.compile(r"(\s*[,;|]\s*|\n|: |\. )")
_BULLET = re.compile(r"^(?:[-*•<`]|\d+[.)])")
_RECENT = 12
_SHORT = 2_000


@dataclass(frozen=True, slots=True)
class Moves:
    """What became of the tools that a model sees in front of its prompt; deferred ones are not among them."""

    was: tuple[Block, ...]
    """Those of the call before."""
    now: tuple[Block, ...]
    """Those of this call."""
    gone: tuple[Block, ...]
    """In the call before only."""
    come: tuple[Block, ...]
    """In this call only."""
    held_back: tuple[Block, ...]
    """Inline in the call before, deferred in this one."""
    promoted: tuple[Block, ...]
    """Deferred in the call before, inline in this one."""

    @property
    def is_swap(self) -> bool:
        """Whether some went and others came."""
        return bool(self.gone and self.come)

    @property
    def is_rename(self) -> bool:
        """Whether those that came are those that went under other names."""
        return self.is_swap and sorted(map(_nameless, self.gone)) == sorted(map(_nameless, self.come))


def moves(step: Step) -> Moves:
    """What became of the tools in this step."""
    one, other = (_tools(sent) for sent in (step.before, step.after))
    was, now = ({block.role: block for block in blocks if not is_deferred(block)} for blocks in (one, other))
    late_was, late_now = ({block.role for block in blocks if is_deferred(block)} for blocks in (one, other))
    return Moves(
        tuple(was.values()),
        tuple(now.values()),
        tuple(block for name, block in was.items() if name not in now and name not in late_now),
        tuple(block for name, block in now.items() if name not in was and name not in late_was),
        tuple(block for name, block in was.items() if name not in now and name in late_now),
        tuple(block for name, block in now.items() if name not in was and name in late_was),
    )


def set_moves(step: Step, change: Change) -> Moves | None:
    """The moves, where a change is the first of its step on the tools level and the set of tools differs.

    None for all others.
    """
    if change.level != "tools" or change is not next(one for one in step.changes if one.level == "tools"):
        return None
    found = moves(step)
    return found if found.gone or found.come or found.held_back or found.promoted else None


def _tools(sent: RecordedCall) -> list[Block]:
    return [block for block in sent.blocks if block.level == "tools"]


def is_deferred(block: Block) -> bool:
    """Whether a definition stands outside of the prefix until it is asked for."""
    return isinstance(block.value, dict) and bool(block.value.get("defer_loading"))


def names(sent: RecordedCall) -> frozenset[str]:
    """Names of the tools a call shows in front."""
    return frozenset(block.role for block in _tools(sent) if not is_deferred(block))


def named(blocks: Sequence[Block], most: int = 4) -> str:
    """Their names, for a message.

    >>> named(())
    ''
    """
    shown = ", ".join(block.role for block in blocks[:most])
    return shown if len(blocks) <= most else f"{shown} and {len(blocks) - most} more"


def counted(blocks: Sequence[Block]) -> str:
    """How many tools they are, for a message.

    >>> counted(())
    '0 tools'
    """
    return f"{len(blocks)} tool{'s' * (len(blocks) != 1)}"


def is_server_tool(block: Block) -> bool:
    """Whether the provider runs it and no schema of it was sent."""
    value = block.value if isinstance(block.value, dict) else {}
    kind = str(value.get("type", ""))
    return bool(
        SERVER_TOOL.match(kind) or (not kind and SERVER_TOOL.match(block.role) and value.keys() == {block.role})
    )


def is_search_tool(block: Block) -> bool:
    """Whether it looks for other tools."""
    value = block.value if isinstance(block.value, dict) else {}
    return bool(SEARCH.search(block.role) or SEARCH.search(str(value.get("type", ""))))


def _nameless(block: Block) -> bytes:
    return block.body.replace(orjson.dumps(block.role), b'""')


def server_of(block: Block) -> str:
    """The server a tool's name begins with: `mcp__github` of `mcp__github__search`; empty where it names none."""
    return block.role.rpartition("__")[0]


def are_whole_servers(moved: Sequence[Block], left: Sequence[Block]) -> bool:
    """Whether `moved` are all the tools of their servers: none of those that stayed has one of them."""
    servers = {server_of(block) for block in moved}
    return bool(servers) and "" not in servers and not servers & {server_of(block) for block in left}


def said_now(step: Step) -> str:
    """What the user or the system says in this call that the one before did not have: newest messages, and what came
    into the system.
    """
    heard = [block for block in tail(step) if block.type == "text" and block.role not in ("assistant", "model")]
    known = {line for block in step.before.blocks if block.level == "system" for line in text_of(block).splitlines()}
    news = [
        line
        for block in step.after.blocks
        if block.level == "system"
        for line in text_of(block).splitlines()
        if line not in known
    ]
    texts = [text for text in map(text_of, heard) if len(text) <= _SHORT]
    return "\n".join([*texts, *news])


def called_now(step: Step) -> list[Block]:
    """The calls of tools among the newest messages."""
    return [block for block in tail(step) if block.type == "call"]


def was_searched(step: Step, name: str) -> bool:
    """Whether a search for tools has just brought this one."""
    latest = messages(step.after)[-_RECENT:]
    calls = any(block.type == "call" and SEARCH.search(block.body.decode("utf-8", "replace")) for block in latest)
    kinds = any(block.type == "result" and b"tool_reference" in block.body for block in latest)
    return (calls or kinds) and any(block.type == "result" and name.encode() in block.body for block in latest)


def list_edit(was: str, now: str) -> tuple[list[str], list[str]]:
    """Entries that came into a list in a text, and those that went; both empty where anything else differs too.

    >>> list_edit("Known: a, b, c", "Known: a, b, bc, c")
    (['bc'], [])
    >>> list_edit("Known: a, b", "Known: a, b. Use with care.")
    ([], [])
    """
    lines = _edit(was.split("\n"), now.split("\n"), _is_line)
    return lines if any(lines) else _edit(_SEPARATOR.split(was), _SEPARATOR.split(now), _is_item, 2)


def _edit(
    one: list[str], other: list[str], is_entry: Callable[[list[str], int], bool], step: int = 1
) -> tuple[list[str], list[str]]:
    """What was put in and what taken out, where every piece of it is an entry.

    Every `step`th of the pieces is compared.
    """
    came: list[int] = []
    went: list[int] = []
    for kind, a, b, c, d in SequenceMatcher(None, one[::step], other[::step], autojunk=False).get_opcodes():
        if kind == "replace":
            return [], []
        went += range(a * step, b * step, step) if kind == "delete" else ()
        came += range(c * step, d * step, step) if kind == "insert" else ()
    if not all(is_entry(other, place) for place in came) or not all(is_entry(one, place) for place in went):
        return [], []
    return [other[place] for place in came], [one[place] for place in went]


def _is_line(lines: list[str], place: int) -> bool:
    """Whether a line has the bullet of other lines."""
    line = lines[place].lstrip()
    return bool(_BULLET.match(line)) and sum(other.lstrip()[:1] == line[:1] for other in lines) > 1


def _is_item(pieces: list[str], place: int) -> bool:
    """Whether a piece stands between commas and is short, and begins no sentence."""
    around = [pieces[i].strip() for i in (place - 1, place + 1) if 0 < i < len(pieces)]
    return any(one in (",", ";", "|") for one in around) and 0 < len(pieces[place]) <= 80 and "." not in around[:1]
