"""Names what changed in the tool definitions: each function says how a change shows its kind, None where it does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import orjson

from contextkit.canonical import Json
from contextkit.ledger.changes.comparison import Comparison
from contextkit.ledger.changes.history import message_blocks, new_message_blocks
from contextkit.ledger.changes.text_edits import ID, MOMENT, PATH
from contextkit.ledger.changes.values import (
    differing_span,
    differing_strings,
    differs_only_in,
    is_reorder,
    is_same_value,
    paired_blocks,
)
from contextkit.ledger.parsed_call import ParsedCall
from contextkit.prompt.block import Block, text_of
from contextkit.prompt.diff import Change
from contextkit.redact import redact_text

_SERVER_TOOL = re.compile(
    r"^(?:web_search|web_fetch|code_?execution|code_?interpreter|file_?search|google_?search|url_?context|x_search|image_generation)",
    re.IGNORECASE,
)
"""Types of tools that the provider runs itself."""

_SEARCH = re.compile(
    r"tool_?search|search_?(?:for_)?tools?|find_?tools?|discover|load_?tools?|get_?tools?|list_?tools?|activate_?tools?",
    re.IGNORECASE,
)
"""Names of tools that look for tools."""

_SEPARATOR = re.compile(r"(\s*[,;|]\s*|\n|: |\. )")

_BULLET = re.compile(r"^(?:[-*•<`]|\d+[.)])")

_RECENT = 12
"""Last blocks in which a search for a tool is looked for."""

_SHORT_TEXT = 2_000
"""Characters of a message up to which it may be an instruction."""


@dataclass(frozen=True, slots=True)
class ToolChanges:
    """The difference between the tools that two calls show the model in front; deferred ones are not among them."""

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
        """Return whether some went and others came."""
        return bool(self.gone and self.come)

    @property
    def is_rename(self) -> bool:
        """Return whether those that came are those that went under other names."""
        return self.is_swap and sorted(map(_nameless, self.gone)) == sorted(map(_nameless, self.come))

    @property
    def is_of_whole_servers(self) -> bool:
        """Return whether all tools of some servers came or went: none of those that stayed is of one of them."""
        servers = {server_of(block) for block in (*self.gone, *self.come)}
        stayed = {server_of(block) for block in self.was if block not in self.gone}
        return bool(servers) and "" not in servers and not servers & stayed


def tool_changes(both: Comparison) -> ToolChanges:
    """Compare the tools of two calls."""
    one, other = (_tool_blocks(sent) for sent in (both.before, both.after))
    was, now = ({block.role: block for block in blocks if not is_deferred(block)} for blocks in (one, other))
    late_was, late_now = ({block.role for block in blocks if is_deferred(block)} for blocks in (one, other))
    return ToolChanges(
        tuple(was.values()),
        tuple(now.values()),
        tuple(block for name, block in was.items() if name not in now and name not in late_now),
        tuple(block for name, block in now.items() if name not in was and name not in late_was),
        tuple(block for name, block in was.items() if name not in now and name in late_now),
        tuple(block for name, block in now.items() if name not in was and name in late_was),
    )


def tool_set_changes(both: Comparison, change: Change) -> ToolChanges | None:
    """Compare the tools of two calls where `change` is the first on the tools level and the set of tools differs; None
    otherwise, so that a set is reported once.
    """
    if change is not next(one for one in both.changes if one.level == "tools"):
        return None
    tool_diff = tool_changes(both)
    return tool_diff if tool_diff.gone or tool_diff.come or tool_diff.held_back or tool_diff.promoted else None


def _tool_blocks(sent: ParsedCall) -> list[Block]:
    return [block for block in sent.blocks if block.level == "tools"]


def is_deferred(block: Block) -> bool:
    """Return whether a definition stands outside of the prefix until it is asked for."""
    return isinstance(block.value, dict) and bool(block.value.get("defer_loading"))


def list_names(blocks: Sequence[Block], most: int = 4) -> str:
    """List the names of tools, for a message.

    >>> list_names(())
    ''
    """
    listed = ", ".join(block.role for block in blocks[:most])
    return listed if len(blocks) <= most else f"{listed} and {len(blocks) - most} more"


def count_tools(blocks: Sequence[Block]) -> str:
    """Count tools, for a message.

    >>> count_tools(())
    '0 tools'
    """
    return f"{len(blocks)} tool{'s' * (len(blocks) != 1)}"


def is_server_tool(block: Block) -> bool:
    """Return whether the provider runs it and no schema of it was sent."""
    value = block.value if isinstance(block.value, dict) else {}
    kind = str(value.get("type", ""))
    return bool(
        _SERVER_TOOL.match(kind) or (not kind and _SERVER_TOOL.match(block.role) and value.keys() == {block.role})
    )


def is_search_tool(block: Block) -> bool:
    """Return whether it looks for other tools."""
    value = block.value if isinstance(block.value, dict) else {}
    return bool(_SEARCH.search(block.role) or _SEARCH.search(str(value.get("type", ""))))


def _nameless(block: Block) -> bytes:
    return block.body.replace(orjson.dumps(block.role), b'""')


def server_of(block: Block) -> str:
    """Return the server that a tool's name begins with: `mcp__github` of `mcp__github__search`; empty where it names none."""
    return block.role.rpartition("__")[0]


def new_instructions(both: Comparison) -> str:
    """Return what the user or the system says in the later call only: newest messages, and new lines of the system text."""
    user_blocks = [
        block for block in new_message_blocks(both) if block.type == "text" and block.role not in ("assistant", "model")
    ]
    old_lines = {
        line for block in both.before.blocks if block.level == "system" for line in text_of(block).splitlines()
    }
    news = [
        line
        for block in both.after.blocks
        if block.level == "system"
        for line in text_of(block).splitlines()
        if line not in old_lines
    ]
    texts = [text for text in map(text_of, user_blocks) if len(text) <= _SHORT_TEXT]
    return "\n".join([*texts, *news])


def was_searched(both: Comparison, name: str) -> bool:
    """Return whether a search for tools has just brought this one."""
    latest = message_blocks(both.after)[-_RECENT:]
    calls = any(block.type == "call" and _SEARCH.search(block.body.decode("utf-8", "replace")) for block in latest)
    kinds = any(block.type == "result" and b"tool_reference" in block.body for block in latest)
    return (calls or kinds) and any(block.type == "result" and name.encode() in block.body for block in latest)


def list_edit(was: str, now: str) -> tuple[list[str], list[str]]:
    """Return the entries that came into a list in a text, and those that went; both empty where anything else differs too.

    >>> list_edit("Known: a, b, c", "Known: a, b, bc, c")
    (['bc'], [])
    >>> list_edit("Known: a, b", "Known: a, b. Use with care.")
    ([], [])
    """
    lines = _list_edit(was.split("\n"), now.split("\n"), _is_line)
    return lines if any(lines) else _list_edit(_SEPARATOR.split(was), _SEPARATOR.split(now), _is_item, 2)


_MAX_PIECES = 400
"""Pieces behind the first difference that are still compared for entries of a list."""


def _list_edit(
    one: list[str], other: list[str], is_entry: Callable[[list[str], int], bool], stride: int = 1
) -> tuple[list[str], list[str]]:
    """Return the pieces put in and those taken out, if each is an entry; every `stride`th piece is compared."""
    came: list[int] = []
    went: list[int] = []
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    if max(len(one), len(other)) - start > _MAX_PIECES:  # comparing takes the square of it
        return [], []
    for kind, a, b, c, d in SequenceMatcher(None, one[::stride], other[::stride], autojunk=False).get_opcodes():
        if kind == "replace":
            return [], []
        went += range(a * stride, b * stride, stride) if kind == "delete" else ()
        came += range(c * stride, d * stride, stride) if kind == "insert" else ()
    if not all(is_entry(other, place) for place in came) or not all(is_entry(one, place) for place in went):
        return [], []
    return [other[place] for place in came], [one[place] for place in went]


def _is_line(lines: list[str], place: int) -> bool:
    """Return whether a line has the bullet of other lines."""
    line = lines[place].lstrip()
    return bool(_BULLET.match(line)) and sum(other.lstrip()[:1] == line[:1] for other in lines) > 1


def _is_item(pieces: list[str], place: int) -> bool:
    """Return whether a piece stands between commas and is short, and begins no sentence."""
    around = [pieces[i].strip() for i in (place - 1, place + 1) if 0 < i < len(pieces)]
    return any(one in (",", ";", "|") for one in around) and 0 < len(pieces[place]) <= 80 and "." not in around[:1]


def order(both: Comparison, change: Change) -> str | None:
    """Say that the same tools stand in another order."""
    if not is_reorder(change):
        return None
    moved = next(
        now.role
        for was, now in zip(change.was, change.now, strict=True)
        if was.role != now.role or was.body != now.body
    )
    return f"the same {len(change.now)} tools stand in another order: {moved} is first to have moved"


def server_changed(both: Comparison, change: Change) -> str | None:
    """Say that all tools of a server came, went or came back together."""
    tool_diff = tool_set_changes(both, change)
    if tool_diff is None or tool_diff.is_rename or not tool_diff.is_of_whole_servers:
        return None
    what = [
        f"{list_names(tool_diff.gone)} went" * bool(tool_diff.gone),
        f"{list_names(tool_diff.come)} came" * bool(tool_diff.come),
    ]
    return f"tools of a server changed: {', '.join(filter(None, what))}"


def arrived(both: Comparison, change: Change) -> str | None:
    """Say that tools came, or that those at the end of the list went."""
    tool_diff = tool_set_changes(both, change)
    if tool_diff is None or tool_diff.is_swap:
        return None
    if tool_diff.come:
        return f"{count_tools(tool_diff.come)} appeared: {list_names(tool_diff.come)}"
    is_small = 3 * len(tool_diff.gone) <= len(tool_diff.was)
    if tool_diff.gone and is_small and tool_diff.was[-len(tool_diff.gone) :] == tool_diff.gone:
        return f"{count_tools(tool_diff.gone)} vanished from the end of the list: {list_names(tool_diff.gone)}"
    return None


def selection(both: Comparison, change: Change) -> str | None:
    """Say that another choice of tools was sent."""
    tool_diff = tool_set_changes(both, change)
    if tool_diff is None or tool_diff.is_rename or not (tool_diff.gone or tool_diff.come):
        return None
    text = f"another choice of tools: {len(tool_diff.was)} before, {len(tool_diff.now)} now"
    gone, come = (
        f"; without {list_names(tool_diff.gone)}" if tool_diff.gone else "",
        f"; with {list_names(tool_diff.come)}" if tool_diff.come else "",
    )
    return text + gone + come


_FINISHES = re.compile(
    r"^(?:final|finish|submit|answer|respond|done|complete|terminate|summar|report|structured_output)", re.IGNORECASE
)

_LAST_TURN_INSTRUCTION = re.compile(
    r"final answer|last (?:step|turn|iteration|call)|max(?:imum|\.)? (?:number of )?(?:steps|iterations|turns|tool calls)"
    r"|(?:step|iteration|turn) limit|no (?:more|further) tools?|without (?:us|call)ing (?:any )?(?:more |further )?tools?|answer now"
    r"|\bsummari[sz]e\b|wrap up|\bconclude\b",
    re.IGNORECASE,
)


def dropped(both: Comparison, change: Change) -> str | None:
    """Say that the call that is told to end has no tools, or few."""
    tool_diff = tool_set_changes(both, change)
    if tool_diff is None or tool_diff.held_back or tool_diff.promoted:
        return None
    if not tool_diff.now:
        return f"all {len(tool_diff.was)} tools are gone"
    if tool_diff.gone and _is_finish(tool_diff):
        return f"only {list_names(tool_diff.now)} is left of {len(tool_diff.was)} tools"
    if tool_diff.gone and not tool_diff.come and _LAST_TURN_INSTRUCTION.search(new_instructions(both)):
        return f"{count_tools(tool_diff.gone)} left out of the call that is told to end: {list_names(tool_diff.gone)}"
    return None


def _is_finish(tool_diff: ToolChanges) -> bool:
    return len(tool_diff.now) == 1 < len(tool_diff.was) and bool(_FINISHES.match(tool_diff.now[0].role))


def deferred(both: Comparison, change: Change) -> str | None:
    """Say that tools were deferred, or that deferred ones joined those in front."""
    tool_diff = tool_set_changes(both, change)
    if tool_diff is None:
        return None
    if not tool_diff.gone and not tool_diff.held_back and _is_promotion(both, tool_diff):
        new = list_names([*tool_diff.promoted, *tool_diff.come])
        search = " right behind a search for tools" * bool(tool_diff.come)
        return f"{new} joined the {len(tool_diff.was)} tools in front{search}"
    flips = [*tool_diff.held_back, *tool_diff.promoted]
    has_search = any(map(is_search_tool, (*tool_diff.gone, *tool_diff.come)))
    moved = len(tool_diff.gone) + len(tool_diff.come)
    if len(flips) > 1 or tool_diff.held_back or (has_search and moved > 2):
        way = (
            "deferred"
            if tool_diff.held_back or (has_search and tool_diff.gone and len(tool_diff.now) < len(tool_diff.was))
            else "sent in full"
        )
        text = f"{max(len(flips), moved)} tools are {way}"
        return f"{text}: {list_names(flips or [*tool_diff.gone, *tool_diff.come])}"
    return None


def _is_promotion(both: Comparison, tool_diff: ToolChanges) -> bool:
    if tool_diff.promoted:
        return len(tool_diff.promoted) == 1 and not tool_diff.come
    return 0 < len(tool_diff.come) <= 5 and all(was_searched(both, block.role) for block in tool_diff.come)


def schema_order(both: Comparison, change: Change) -> str | None:
    """Say that definitions mean the same with keys, or required names, in another order."""
    pairs = paired_blocks(change)
    if not pairs or not all(was.role == now.role and is_same_schema(was, now) for was, now in pairs):
        return None
    return f"{len(pairs)} definitions say the same with keys, or required names, in another order: {pairs[0][1].role}"


def is_same_schema(was: Block, now: Block) -> bool:
    """Return whether two definitions are the same JSON but for the order of keys and of `required`."""
    return is_same_value(was, now) or _sorted_required(orjson.loads(was.body)) == _sorted_required(
        orjson.loads(now.body)
    )


def _sorted_required(value: Json, key: str = "") -> Json:
    if isinstance(value, dict):
        return {name: _sorted_required(item, name) for name, item in value.items()}
    if isinstance(value, list):
        is_set = key == "required" and all(isinstance(item, str) for item in value)
        return sorted(value) if is_set else [_sorted_required(item) for item in value]
    return value


_URL = re.compile(r"\b(?:https?|wss?|file)://[^\s\"'<>)]+|\blocalhost:\d+")

_VALUE_PATTERNS = (("a time or date", MOMENT), ("an address", _URL), ("an id", ID), ("a path", PATH))

_MAX_SHORT_VALUE = 120


def volatile_value(both: Comparison, change: Change) -> str | None:
    """Say that texts in the definitions differ in nothing but values of a kind: times, addresses, ids, paths."""
    pairs = _texts(change)
    kind = next(
        (kind for kind, pattern in _VALUE_PATTERNS if pairs and all(differs_only_in(pattern, *pair) for pair in pairs)),
        "",
    )
    return f"{kind} changed in the description of {change.now[0].role}: {_difference_text(pairs[0])}" if kind else None


def short_value(both: Comparison, change: Change) -> str | None:
    """Say that one definition differs in a few words."""
    pairs = _texts(change) if len(change.now) == 1 else []
    if len(pairs) != 1:
        return None
    _, was, now = differing_span(*pairs[0])
    is_value = was.strip() and now.strip() and max(len(was), len(now)) <= _MAX_SHORT_VALUE and "\n" not in was + now
    name = change.now[0].role
    return f"a value changed in the description of {name}: {_difference_text(pairs[0])}" if is_value else None


def _texts(change: Change) -> list[tuple[str, str]]:
    """Pair the texts that differ in definitions that are otherwise equal."""
    pairs = paired_blocks(change)
    pairs_of_strings = [_differing_strings_of(was, now) for was, now in pairs]
    return [pair for texts in pairs_of_strings for pair in texts] if all(pairs_of_strings) else []


def _differing_strings_of(was: Block, now: Block) -> list[tuple[str, str]]:
    return (differing_strings(orjson.loads(was.body), orjson.loads(now.body)) or []) if was.role == now.role else []


def _difference_text(pair: tuple[str, str]) -> str:
    _, was, now = differing_span(*map(redact_text, pair))  # a secret that is cut is not known for one
    return f"{was[:40]!r} became {now[:40]!r}" if was or now else "a secret became another one"


def catalogue(both: Comparison, change: Change) -> str | None:
    """Say that the text of one definition gained or lost entries of a list."""
    pairs = paired_blocks(change)
    if len(pairs) != 1 or pairs[0][0].role != pairs[0][1].role:
        return None
    texts = differing_strings(*(orjson.loads(block.body) for block in pairs[0])) or []
    edits = [list_edit(*map(redact_text, pair)) for pair in texts]
    if not edits or not all(came or went for came, went in edits):
        return None
    came, went = ([item for edit in edits for item in edit[side]] for side in (0, 1))
    what = [f"{came[0][:40]!r} came" if came else "", f"{went[0][:40]!r} went" if went else ""]
    return f"a list in the description of {pairs[0][1].role} changed: {', '.join(filter(None, what))}"


def rewritten(both: Comparison, change: Change) -> str | None:
    """Say how many definitions are others, whose change has no narrower kind."""
    count = max(len(change.was), len(change.now))
    name = (change.now or change.was)[0].role
    return f"{count} tool definition{'s' * (count != 1)} made anew with other words: {name}"


_MODE_KINDS = r"(?:plan(?:ning)?|ask|read[- ]?only|edit|act|build|review|auto|architect|code|debug|chat|agent|safe|yolo|bypass)[- _]mode\b"

_MODE = re.compile(
    rf"\b{_MODE_KINDS}|\bmode\b\s*(?:is|=|:|changed|switched)|\brole (?:is now|changed|switched)"
    r"|\bswitch(?:ed|ing)?\s+to\s+.{0,40}\b(?:mode|agent)\b|\bpermissions?\b|\bnot (?:allowed|permitted)\b"
    r"|\byou are (?:now )?(?:in|the)\b.{0,40}\b(?:mode|agent)\b|\bhand(?:ed|ing)?[ -]?(?:off|over)\b|\btransferred to\b|\bagent\s*[:=]",
    re.IGNORECASE,
)

_MODE_ENTERED = re.compile(
    rf"\b(?:now|are|enter(?:ed|ing)?|switch(?:ed|ing)?)\s+(?:in|to|into)\s+(?:the |an? )?{_MODE_KINDS}"
    rf"|\b{_MODE_KINDS} (?:is|was) (?:now )?(?:active|on\b|enabled)",
    re.IGNORECASE,
)
"""A mode that is told, not mentioned: it explains that all tools of a server go, or that others take the place of some.
"""

_SWITCHES = re.compile(
    rb'"name":"[^"]*(?:exit_?plan|enter_?plan|plan_?mode|switch_?mode|set_?mode|transfer_to_|hand_?off|switch_?agent)',
    re.IGNORECASE,
)


def permission(both: Comparison, change: Change) -> str | None:
    """Say that tools came or went with a mode or a permission."""
    tool_diff = tool_set_changes(both, change)
    if tool_diff is None or tool_diff.is_rename or not (tool_diff.gone or tool_diff.come):
        return None
    needs_mode = tool_diff.is_swap or tool_diff.is_of_whole_servers
    sign = (_MODE_ENTERED if needs_mode else _MODE).search(new_instructions(both))
    calls = (block for block in new_message_blocks(both) if block.type == "call")
    call = next((block for block in calls if _SWITCHES.search(block.body)), None)
    if sign is None and call is None:
        return None
    moved = list_names(tool_diff.gone) + " went" if tool_diff.gone else list_names(tool_diff.come) + " came"
    return f"{moved} at the call that says {sign[0]!r}" if sign else f"{moved} at the call behind a change of mode"


def server_tool_toggled(both: Comparison, change: Change) -> str | None:
    """Say that a tool that the provider runs was switched on or off."""
    tool_diff = tool_set_changes(both, change)
    moved = [*tool_diff.gone, *tool_diff.come] if tool_diff else []
    if (
        tool_diff is None
        or not moved
        or tool_diff.held_back
        or tool_diff.promoted
        or not all(map(is_server_tool, moved))
    ):
        return None
    what = [
        f"{list_names(tool_diff.gone)} was switched off" if tool_diff.gone else "",
        f"{list_names(tool_diff.come)} was switched on" if tool_diff.come else "",
    ]
    return " and ".join(filter(None, what))


def citations_toggled(both: Comparison, change: Change) -> str | None:
    """Say that citations were switched on or off for documents that were sent before."""
    pairs = paired_blocks(change)
    if not pairs or not all(_uncited(was) == _uncited(now) for was, now in pairs):
        return None
    return f"citations were switched {'on' if _is_cited(pairs[0][1]) else 'off'} for a document that was sent before"


def _uncited(block: Block) -> Json:
    value = _document(orjson.loads(block.body))
    is_document = isinstance(value, dict) and "source" in value
    return {key: item for key, item in value.items() if key != "citations"} if is_document else block.body.hex()


def _document(value: Json) -> Json:
    """Unwrap a document of Bedrock: `{"document": {…}}`."""
    return value["document"] if isinstance(value, dict) and "document" in value else value


def _is_cited(block: Block) -> bool:
    value = _document(block.value)
    citations = value.get("citations") if isinstance(value, dict) and block.type == "document" else None
    return isinstance(citations, dict) and bool(citations.get("enabled"))
