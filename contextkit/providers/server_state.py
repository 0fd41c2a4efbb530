"""Requests that continue from what the server stores: what they name, and where their input begins.

`tail` writes a request whose beginning the server has: its fields, its tools and the blocks from one on. The bytes are
copied, however long the conversation is. `ServerState` decides what a request names. The log stays the truth: where the
last reply is not one that the server stores as this log has it, the whole input is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import UsageError
from contextkit.log.entry import Entry
from contextkit.log.log import Turns
from contextkit.prompt.prompt import LEVELS, PromptLayout
from contextkit.providers.histories import CONVERSATION, PREVIOUS
from contextkit.providers.provider import Provider


def tail(layout: PromptLayout, start: int, params: bytes) -> bytes:
    """`params` is the JSON object of everything that is not a segment.

    Block `start` opens a message, and none of its level is before it.

    Tools are sent each time: the server carries over what was said, nothing else.
    """
    columns = layout.columns
    kept = PromptLayout(columns, layout.n, tuple(mark for mark in layout.breakpoints if mark.segment >= start))
    opening = columns.grammar.bracket(LEVELS[columns.levels[start]])[0]
    tools, n_tools = b"", min(columns.level_ends[0], layout.n)
    if n_tools:
        closing = columns.closers[n_tools - 1] + columns.grammar.bracket("tools")[1]
        tools = bytes(columns.wire[: columns.ends[n_tools - 1]]) + closing
    behind = (
        columns.ends[start - 1] + len(columns.closers[start - 1]) + 1
    )  # the bracket that closes the message before, and a comma
    fields = [params[1:-1], tools, opening + b"".join(kept.slices(behind))]
    return b"{%b}" % b",".join(field for field in fields if field)


_NOT_FOUND = "previous_response_not_found"


_IN_VAIN = 2
"""So many replies in a row that the server does not have: it keeps none of them (a project without data retention)."""


_P = TypeVar("_P", bound=Provider)


@dataclass(frozen=True, slots=True)
class Continuing:
    """An adapter's option: requests go on from what the server keeps."""

    conversation: str | None = None
    """Id of the conversation to write into; None: from the last response, by its id."""


def continuing(continues: bool, conversation: str | None, params: Mapping[str, Json]) -> Continuing | None:
    """The option an adapter was given. Raises `UsageError` for both ways at once, and for either without a store."""
    if not continues and conversation is None:
        return None
    if continues and conversation is not None:
        raise UsageError("continues=True and conversation=… exclude each other: the endpoint takes one of them")
    if params.get("store") is False:
        raise UsageError("store=False: the server keeps nothing to go on from; leave store out")
    return Continuing(conversation)


def option_of(provider: Provider) -> Continuing | None:
    """Return how `provider` continues stored state; None for every adapter without the option."""
    found: Continuing | None = getattr(provider, "continuing", None)
    return found


def apart(provider: _P) -> _P:
    """The adapter for a branch: it writes into no conversation of its parent's."""
    option = option_of(provider)
    if option is None or option.conversation is None:
        return provider
    other = copy(provider)
    setattr(other, "continuing", None)  # noqa: B010 - no member of the protocol: one adapter has it
    return other


@dataclass(frozen=True, slots=True)
class Continued:
    """How one request goes on."""

    fields: Mapping[str, Json]
    """`previous_response_id`, or `conversation`, or neither."""
    start: int
    """First segment behind the tools that is sent; 0: all of them."""
    whole: str
    """Why the whole input is sent; empty where it is not."""
    is_kept: bool
    """Whether the server keeps the reply behind exactly what the log says."""
    state: ServerState = field(repr=False, compare=False)
    """Whose request it is."""

    def body(self, layout: PromptLayout, params: Mapping[str, Json]) -> bytes:
        """The request body."""
        fields = canonical({**params, **self.fields})
        return tail(layout, self.start, fields) if self.start else layout.body(fields)

    def stored(self, model: str, reply_id: str) -> dict[str, Json]:
        """Return the fields of the reply's entry that the next request needs; empty if it cannot continue from here."""
        self.state.answered(self.fields)
        if not self.is_kept or not reply_id:
            return {}
        written = {CONVERSATION: self.fields[CONVERSATION]} if CONVERSATION in self.fields else {}
        return {"stored": {"id": reply_id, "model": model, **written}}

    def failed(self, error: BaseException | str) -> None:
        """The request came to nothing; a text says why where no exception does."""
        self.state.failed(self.fields, error)


class ServerState:
    """What one context knows of the server's side beside its log: what was lost there, and which conversations were
    begun.
    """

    __slots__ = ("_branched_at", "_in_vain", "_log", "_lost", "_n_fed", "_written")

    def __init__(self, log: Sequence[Entry]) -> None:
        self._log = log
        self._n_fed = 0
        """Entries of the log that were fed."""
        self._lost: set[str] = set()
        """Ids of responses and conversations that the server does not have, or holds in an unknown state."""
        self._written: set[str] = set()
        """Conversations that a reply of this log was written into, those of its parents too."""
        self._branched_at = 0
        """Sequence of the entry at which this log left its parent."""
        self._in_vain = 0

    def feed(self, entry: Entry) -> None:
        """Take the next entry of the log."""
        if entry.kind == "opened":
            self._branched_at = entry.sequence
        elif entry.kind == "assistant" and b'"stored":' in entry.body:
            name = (parse(entry.body).get("stored") or {}).get(CONVERSATION)
            if name is not None:
                self._written.add(name)

    def request(
        self, provider: Provider, turns: Turns, layout: PromptLayout, params: Mapping[str, Json], is_warming: bool
    ) -> Continued | None:
        """Return how the request that sends `layout` continues stored state.

        None for an adapter without the option. Reads the last reply only.
        """
        option = option_of(provider)
        if option is None:
            return None
        for entry in self._log[self._n_fed :]:
            self.feed(entry)
        self._n_fed = len(self._log)
        is_kept = not turns.passing and not turns.shown_once and params.get("store") is not False
        reply, why = self._reply(provider.model.name, turns)
        start = 0
        if not why:
            entries = layout.columns.entries  # the first segment behind the reply; 0 where that rendered none
            start = next((index + 1 for index in range(layout.n - 1, -1, -1) if entries[index] == reply), 0)
            why = "" if 0 < start < layout.n else "nothing was said since the last reply"
        if option.conversation is None:
            fields = {} if why else {PREVIOUS: self._stored(reply)["id"]}
            return Continued(fields, 0 if why else start, why, is_kept, self)
        return self._in_conversation(option.conversation, reply, start, why, is_kept, is_warming)

    def answered(self, fields: Mapping[str, Json]) -> None:
        """A request with these fields was answered."""
        if PREVIOUS in fields:
            self._in_vain = 0
        if fields.get(CONVERSATION) is not None:
            self._written.add(fields[CONVERSATION])

    def failed(self, fields: Mapping[str, Json], error: BaseException | str) -> None:
        """A request with these fields was not: what the server says it does not have is not named again.

        A call that ended without an answer may have been written into its conversation all the same, so nothing more is
        written there.
        """
        if PREVIOUS in fields and _code(error) == _NOT_FOUND:
            self._lost.add(fields[PREVIOUS])
            self._in_vain += 1
        name, status = fields.get(CONVERSATION), getattr(error, "status_code", 0)
        is_refusal = isinstance(status, int) and status >= 400
        if name is not None and (not is_refusal or status == 404 or CONVERSATION in _code(error)):
            self._lost.add(name)

    def share(self, other: ServerState) -> None:
        """Tell a branch what is known to be lost."""
        other._lost, other._in_vain = self._lost, self._in_vain

    def _reply(self, model: str, turns: Turns) -> tuple[int, str]:
        """The last reply, and why it cannot be gone on from."""
        reply = turns.last_assistant
        if reply is None:
            return -1, "no reply yet"
        body = parse(self._log[reply].body)
        stored = body.get("stored")
        if turns.n_before_last_assistant is None or (turns.epoch and turns.ordered[0] > body["after"]):
            return reply, "an epoch began since the last reply"
        if stored is None:
            return reply, "the server does not keep the last reply, or keeps it behind other words"
        if stored["model"] != model:
            return reply, "another model wrote the last reply"
        if stored["id"] in self._lost or self._in_vain >= _IN_VAIN:
            return reply, "the server does not have the last reply"
        return reply, ""

    def _in_conversation(
        self, name: str, reply: int, start: int, why: str, is_kept: bool, is_warming: bool
    ) -> Continued:
        """Into the conversation while it says what the log says.

        Without it from the first request on that would not fit.
        """
        is_empty = name not in self._written
        if name in self._lost:
            why = f"what {name} holds is not known"
        elif is_empty:
            fields = {} if is_warming else {CONVERSATION: name}
            return Continued(fields, 0, "the conversation is empty", is_kept and not is_warming, self)
        elif not why and (self._stored(reply).get(CONVERSATION) != name or reply < self._branched_at):
            why = "the last reply was not written into this conversation by this log"
        elif is_warming:
            why = "a prewarm would be written into the conversation"
        return Continued({}, 0, why, False, self) if why else Continued({CONVERSATION: name}, start, "", is_kept, self)

    def _stored(self, reply: int) -> Mapping[str, Json]:
        found: Mapping[str, Json] = parse(self._log[reply].body)["stored"]
        return found


def _code(error: BaseException | str) -> str:
    return str(getattr(error, "code", "") or "")
