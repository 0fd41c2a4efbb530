"""What a request names besides its prompt: session, agent and context window, account and host.

Sources of the names: Claude Code 2.1.197 writes its session into `metadata.user_id`; Codex 0.169.0 writes session,
thread (one for each agent) and context window (a new one after each compaction) into `client_metadata`, and the session
into `prompt_cache_key` (recorded requests of both). The headers in which clients repeat these names, or say more, are
rows of `facts/clients.toml`. What a body says stands before what a header says, so that a recorded body gives the same
names as the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

import orjson

from contextkit.facts.load import built_in_table, client

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
    """What a request names; empty where it names nothing."""

    session: str = ""
    """Its session."""
    agent: str = ""
    """The sub-agent of the session; empty for the main agent."""
    window: str = ""
    """The context window of the agent: another one after each compaction."""
    account: str = ""
    """Stands for the API key that it was sent with; empty for none, and for a token that is renewed now and then."""
    host: str = ""
    """Who was asked: `api.anthropic.com`."""


NO_NAMES = ClientNames()


def client_names(fields: Mapping[str, Any], in_headers: ClientNames = NO_NAMES) -> ClientNames:
    """Return the names in a request body; those that it lacks from the headers of the request.

    >>> client_names({"client_metadata": {"session_id": "s", "thread_id": "t", "x-codex-window-id": "t:1"}})
    ClientNames(session='s', agent='t', window='t:1', account='', host='')
    >>> client_names({"metadata": {"session_id": "s"}}, ClientNames("s", "reviewer", host="localhost"))
    ClientNames(session='s', agent='reviewer', window='', account='', host='localhost')
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
    elif not (session or agent or window):
        return NO_NAMES
    return ClientNames(session, agent, window, in_headers.account, in_headers.host)


_NAMES = ("session", "agent", "window", "parent")
_HEADER_ROWS = [row for row in built_in_table("clients.toml")["clients"] if "session_headers" in row]
_HEADERS = frozenset(
    header
    for row in _HEADER_ROWS
    for header in (*(one for name in _NAMES for one in row.get(f"{name}_headers", ())), row.get("metadata_header"))
)


def names_in_headers(headers: Iterable[tuple[str, str]], host: str = "") -> ClientNames:
    """Return what the headers of a request to `host` name.

    Session, agent and window are those of the first client in `facts/clients.toml` whose session header is there.

    >>> names_in_headers([("X-Claude-Code-Session-Id", "s"), ("X-Claude-Code-Agent-Id", "a")], "api.anthropic.com")
    ClientNames(session='s', agent='a', window='', account='', host='api.anthropic.com')
    >>> names_in_headers([("session-id", "s"), ("thread-id", "s"), ("x-codex-window-id", "s:0")]).window
    's:0'
    >>> names_in_headers([("x-session-id", "child"), ("x-parent-session-id", "s")]).agent
    'child'
    >>> names_in_headers([("X-Api-Key", "sk-ant-api03-0123456789")]).account
    'd9d93430'
    """
    wanted = _HEADERS | _KEY_HEADERS.keys()
    values = {lower: value for name, value in headers if value and (lower := name.lower()) in wanted}
    account = next((found for name in _KEY_HEADERS if (found := _account(values.get(name, "")))), "")
    named = _named_in_headers(values) if values.keys() & _HEADERS else NO_NAMES
    return replace(named, account=account, host=host) if account or host else named


_KEY_HEADERS = dict.fromkeys(("x-api-key", "api-key", "x-goog-api-key", "authorization"))
"""Headers that hold an API key."""
_RENEWED = ("eyJ", "sk-ant-oat", "ya29.", "AWS4-", "bedrock-api-key-", "tid=", "ghu_", "ghs_")
"""How credentials begin that stand for the same account for a while only: JSON web tokens, Claude and Google OAuth, Amazon's
signatures and the keys of Bedrock that hold one, GitHub Copilot, tokens of GitHub's apps."""
_MIN_KEY_CHARACTERS, _MIN_KEY_ALPHABET = 16, 6


def _account(header: str) -> str:
    """Return the first hex digits of the digest of an API key; empty for what is none, was blotted out, or is renewed.

    Keys are long and random, so that their digest does not give them away.
    """
    scheme, *rest = header.split(None, 1) or [""]
    key = rest[0].strip() if rest and scheme.lower() == "bearer" else header.strip()
    if len(key) < _MIN_KEY_CHARACTERS or len(set(key)) < _MIN_KEY_ALPHABET or key.startswith(_RENEWED):
        return ""
    return "" if " " in key else sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _named_in_headers(values: Mapping[str, str]) -> ClientNames:
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
    """Return the object in a text; empty where it is none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def session_in(fields: Mapping[str, Any]) -> str:
    """Return the session that a request body names: a session id, Claude Code's user id, the key of its cached prefixes.

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
    """Return the session that Claude Code writes into the user id, as text or as JSON."""
    if user.startswith("{"):
        return _first_text(_json_object(user), SESSION_NAMES)
    _, mark, session = user.rpartition(_USER_ID_SESSION)
    return session if mark else ""


def _first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
