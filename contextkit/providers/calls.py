"""A request body as a call for conversation matching: its blocks, and the names that its client put into it.

Sources of the names: Claude Code 2.1.197 writes its session into `metadata.user_id`; Codex 0.169.0 writes session,
thread (one for each agent) and context window (a new one after each compaction) into `client_metadata`, and the session
into `prompt_cache_key` (recorded requests of both). The headers in which clients repeat these names, or say more, are
rows of `facts/clients.toml`. What a body says stands before what a header says, so that a recorded body gives the same
names as the request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from contextkit.errors import UnreadableRequest
from contextkit.facts.load import built_in_table, client
from contextkit.prompt.block import Block
from contextkit.providers.body import BodyReader
from contextkit.providers.endpoints import reader_of
from contextkit.providers.server_state import named_in

SESSION_NAMES = (
    "session",
    "session_id",
    "sessionId",
    "conversation_id",
    "conversationId",
    "thread_id",
    "chat_id",
    "x-session-id",
)
"""Names under which recorders and requests give the session."""
_CODEX = client("codex")
_NAMING_FIELDS = ("session_field", "agent_field", "window_field")
_USER_ID_SESSION: str = client("claude-code")["user_id_session"]
_IN_METADATA = (*SESSION_NAMES, "trace_id")


@dataclass(frozen=True, slots=True)
class ClientNames:
    """The names that a client put into a request; empty where it put none."""

    session: str = ""
    """Its session."""
    agent: str = ""
    """The sub-agent of the session; empty for the main agent."""
    window: str = ""
    """The context window of the agent: another one after each compaction."""


NO_NAMES = ClientNames()


def client_names(fields: Mapping[str, Any], in_headers: ClientNames = NO_NAMES) -> ClientNames:
    """The names in a request body; those that it lacks from the headers of the request.

    >>> client_names({"client_metadata": {"session_id": "s", "thread_id": "t", "x-codex-window-id": "t:1"}})
    ClientNames(session='s', agent='t', window='t:1')
    >>> client_names({"metadata": {"session_id": "s"}}, ClientNames("s", "reviewer"))
    ClientNames(session='s', agent='reviewer', window='')
    """
    session = session_in(fields)
    agent = window = ""
    own = fields.get(_CODEX["metadata_field"])
    if isinstance(own, dict):
        named, thread, window = (_text(own.get(_CODEX[name])) for name in _NAMING_FIELDS)
        agent = "" if thread in (named, session) else thread
        session = named or session
    if in_headers is not NO_NAMES:
        session = session or in_headers.session
        agent = agent or in_headers.agent
        window = window or in_headers.window
    return ClientNames(session, agent, window) if session or agent or window else NO_NAMES


_NAMES = ("session", "agent", "window", "parent")
_HEADER_ROWS = [row for row in built_in_table("clients.toml")["clients"] if "session_headers" in row]
_HEADERS = frozenset(
    header
    for row in _HEADER_ROWS
    for header in (*(one for name in _NAMES for one in row.get(f"{name}_headers", ())), row.get("metadata_header"))
)


def names_in_headers(headers: Iterable[tuple[str, str]]) -> ClientNames:
    """The names in the headers of a request, of the first client in `facts/clients.toml` whose session header is there.

    No other header is looked at.

    >>> names_in_headers([("X-Claude-Code-Session-Id", "s"), ("X-Claude-Code-Agent-Id", "a"), ("X-Api-Key", "k")])
    ClientNames(session='s', agent='a', window='')
    >>> names_in_headers([("session-id", "s"), ("thread-id", "s"), ("x-codex-window-id", "s:0")])
    ClientNames(session='s', agent='', window='s:0')
    >>> names_in_headers([("x-session-id", "child"), ("x-parent-session-id", "s")])
    ClientNames(session='s', agent='child', window='')
    """
    values = {lower: value for name, value in headers if value and (lower := name.lower()) in _HEADERS}
    if not values:
        return NO_NAMES
    for row in _HEADER_ROWS:
        own = _json_object(values.get(row.get("metadata_header", ""), ""))
        session, agent, window, parent = (
            _first_text(values, tuple(row.get(f"{name}_headers", ()))) or _text(own.get(_METADATA_NAMES[name]))
            for name in _NAMES
        )
        if session and parent:
            return ClientNames(parent, session, window)
        if session:
            return ClientNames(session, "" if agent == session else agent, window)
    return NO_NAMES


_METADATA_NAMES = {"session": "session_id", "agent": "thread_id", "window": "window_id", "parent": ""}
"""Name → its key in Codex's JSON header; the thread that started another one is of the same session."""


def _json_object(text: str) -> dict[str, Any]:
    """The object in a text; empty where it is none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def session_in(fields: Mapping[str, Any]) -> str:
    """The session that a request body names: a session id, Claude Code's user id, the key of its cached prefixes.

    >>> session_in({"metadata": {"user_id": "user_1_account_2_session_3"}}), session_in({"prompt_cache_key": "k"})
    ('3', 'k')
    """
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):
        named = _first_text(metadata, _IN_METADATA) or _session_in_user(_text(metadata.get("user_id")))
        if named:
            return named
    conversation = fields.get("conversation")
    stated = conversation.get("id") if isinstance(conversation, dict) else conversation
    return _first_text(fields, SESSION_NAMES) or _text(stated) or _text(fields.get("prompt_cache_key"))


@lru_cache(maxsize=256)
def _session_in_user(user: str) -> str:
    """The session that Claude Code writes into the user id, as text or as JSON."""
    if user.startswith("{"):
        return _first_text(_json_object(user), SESSION_NAMES)
    _, mark, session = user.rpartition(_USER_ID_SESSION)
    return session if mark else ""


def _first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class BodyCall:
    """A request body; satisfies `PromptCall` of `prompt/conversations.py`."""

    endpoint: str
    """The wire format; empty where it is not known."""
    model: str
    """The requested model."""
    blocks: tuple[Block, ...]
    """All blocks in cache order; none of a body that cannot be read."""
    session: str = ""
    """The session, recorded or named by the client."""
    agent: str = ""
    """The sub-agent, named by the client."""
    window: str = ""
    """The context window, named by the client."""
    previous: str = ""
    """The name of the stored history that it continues."""
    names: tuple[str, ...] = ()
    """Names that a later request may refer to."""
    n_bytes: int = 0
    """Size of the message blocks."""


_RECENT = 8
_NOT_A_REQUEST = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError, UnreadableRequest)


@dataclass(frozen=True, slots=True)
class _Read:
    """A body that was cut."""

    messages: list[Any]
    cuts: list[list[Block]]
    """The blocks of each message."""
    sizes: list[int]
    """The bytes of each message's blocks."""


class BlockReader:
    """Cuts request bodies into blocks; the messages a recent body had before are not cut again."""

    def __init__(self) -> None:
        self._recent: OrderedDict[int, _Read] = OrderedDict()
        self._number = 0

    def call(
        self,
        fields: Mapping[str, Any],
        hint: str,
        model: str,
        *,
        session: str = "",
        name: str = "",
        in_headers: ClientNames = NO_NAMES,
    ) -> BodyCall:
        """The call of a parsed body.

        `hint` is provider and model, for a body whose keys do not tell its endpoint; `session` is the recorded session,
        `name` the id of the response, `in_headers` what the headers of the request name.
        """
        own = client_names(fields, in_headers)
        stored = named_in(fields)
        previous = stored.name if stored else ""
        names = tuple(filter(None, (name, previous)))
        endpoint = ""
        blocks: tuple[Block, ...] = ()
        n_bytes = 0
        try:
            body = reader_of(fields, hint)
            if body is not None:
                endpoint = body.endpoint
                blocks, n_bytes = self._blocks(body, fields)
        except _NOT_A_REQUEST:
            pass  # the provider refuses it; it is a conversation of its own
        return BodyCall(
            endpoint, model, blocks, session or own.session, own.agent, own.window, previous, names, n_bytes
        )

    def _blocks(self, body: BodyReader, fields: Mapping[str, Any]) -> tuple[tuple[Block, ...], int]:
        messages = body.messages(fields)
        n_system = body.n_system_messages(messages)
        key, n = 0, 0
        for number, read in self._recent.items():
            same = _n_same(messages, read.messages)
            if same > n:
                key, n = number, same
        known = self._recent.pop(key) if n else _Read([], [], [])
        cuts, sizes = known.cuts[:n], known.sizes[:n]
        for index, message in enumerate(messages[n:], n):
            blocks = list(body.message_blocks(message, index, "system" if index < n_system else "messages"))
            cuts.append(blocks)
            sizes.append(sum(len(block.body) for block in blocks))
        self._number += 1
        self._recent[self._number] = _Read(messages, cuts, sizes)
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return (*body.head_blocks(fields), *(block for blocks in cuts for block in blocks)), sum(sizes)


def _n_same(one: list[Any], other: list[Any]) -> int:
    """Leading messages that are equal."""
    most = min(len(one), len(other))
    if not most or one[0] != other[0]:
        return 0
    if one[: most - 1] == other[: most - 1]:  # the usual case, at once: a marker that moved changes the last message
        return most if one[most - 1] == other[most - 1] else most - 1
    return next((i for i in range(most) if one[i] != other[i]), most)
