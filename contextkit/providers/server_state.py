"""Conversations that continue from what the server stores: `previous_response_id`, `conversation`, and summaries.

- `tail` writes a request whose beginning the server has: its fields, its tools and the blocks from one on. The
  bytes are copied, however long the conversation is.
- `ServerState` decides what a request names and where its input begins. The log stays the truth: where the last reply
  is not one that the server stores as this log has it, the whole input is sent.
- `Histories` maps the name of a response or conversation to its items, and completes a body that names one. What one
  holds is stored once, however many continue from it; the oldest are evicted, and with them whatever continued from
  them.
- `summed_up` splits a reply in which the server compacted what was before. `client.responses.compact` returns a summary
  alone; so does a response to an input that ends with a `compaction_trigger`; with `context_management` a summary stands
  before what the model says (responses/response_create_params.py:367, response_input_item_param.py:734). Items before
  the summary may be left out of later inputs (https://developers.openai.com/api/docs/guides/compaction).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import UsageError
from contextkit.log.entry import Entry
from contextkit.log.log import Turns
from contextkit.prompt.prompt import LEVELS, PromptLayout
from contextkit.providers.provider import Provider


def tail(layout: PromptLayout, start: int, params: bytes) -> bytes:
    """`params` is the JSON object of everything that is not a segment.

    Block `start` opens a message, and none of its level is before it.

    Tools are sent each time: the server carries over what was said, nothing else.
    """
    columns = layout.columns
    kept = PromptLayout(columns, layout.n, tuple(mark for mark in layout.breakpoints if mark.segment >= start))
    opening = columns.grammar.bracket(LEVELS[columns.levels[start]])[0]
    behind = (
        columns.ends[start - 1] + len(columns.closers[start - 1]) + 1
    )  # the bracket that closes the message before, and a comma
    fields = [params[1:-1], _tools(layout), opening + b"".join(kept.slices(behind))]
    return b"{%b}" % b",".join(field for field in fields if field)


def _tools(layout: PromptLayout) -> bytes:
    columns = layout.columns
    n = min(columns.level_ends[0], layout.n)
    return (
        bytes(columns.wire[: columns.ends[n - 1]]) + columns.closers[n - 1] + columns.grammar.bracket("tools")[1]
        if n
        else b""
    )


PREVIOUS, CONVERSATION = "previous_response_id", "conversation"
"""The two fields that name what the server keeps (responses/response_create_params.py:59,152); a request has one of
them at most."""
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
        start, why = (_behind(layout, reply), why) if not why else (0, why)
        why = why or ("" if 0 < start < layout.n else "nothing was said since the last reply")
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
        name = fields.get(CONVERSATION)
        if name is not None and (_status(error) in (0, 404) or CONVERSATION in _code(error)):
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


def _behind(layout: PromptLayout, reply: int) -> int:
    """Index of the first segment behind a reply; 0 where the reply rendered none."""
    entries = layout.columns.entries
    return next((index + 1 for index in range(layout.n - 1, -1, -1) if entries[index] == reply), 0)


def _code(error: BaseException | str) -> str:
    return str(getattr(error, "code", "") or "")


def _status(error: BaseException | str) -> int:
    """HTTP status of a refusal, 0 where there was no answer."""
    found = getattr(error, "status_code", 0)
    return found if isinstance(found, int) and found >= 400 else 0


MOST_BYTES = 1 << 26
"""What is kept: 64 MiB, some hundred long conversations."""
REFERENCE = "item_reference"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name nothing is kept under."""

    field: str
    """Where it stands: `previous_response_id`, `conversation`, `input[2].id`."""
    name: str
    """The name."""


@dataclass(slots=True)
class _Turn:
    """What was said at once."""

    name: str
    before: _Turn | None
    raw: bytes | None
    """JSON array of items; None once it went."""
    ids: tuple[str, ...]


class Histories:
    """Items by the name of the response, or of the conversation, that holds them.

    >>> kept = Histories()
    >>> kept.keep("resp_1", [{"role": "user", "content": "hi"}])
    >>> kept.whole({"previous_response_id": "resp_1", "input": "and?"})["input"]
    [{'role': 'user', 'content': 'hi'}, {'role': 'user', 'content': 'and?'}]
    >>> kept.whole({"previous_response_id": "resp_2", "input": "and?"})
    Unknown(field='previous_response_id', name='resp_2')
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._n_bytes = most_bytes, 0
        self._order: deque[_Turn] = deque()
        self._named: dict[str, _Turn] = {}
        self._places: dict[str, _Turn] = {}

    def keep(self, name: str, items: Iterable[Json], before: str | None = None) -> None:
        """Under `name` stands what stood under `before`, then `items`.

        `before` may be `name` itself. Nothing where it is not known.
        """
        if before is not None and before not in self._named:
            return
        listed = list(items)
        ids = tuple(item["id"] for item in listed if isinstance(item, dict) and isinstance(item.get("id"), str))
        said = _Turn(name, self._named.get(before) if before else None, canonical(listed), ids)
        self._named[name] = said
        self._places.update(dict.fromkeys(ids, said))
        self._order.append(said)
        self._n_bytes += len(said.raw or b"")
        while self._n_bytes > self._most:
            self._drop(self._order.popleft())

    def follow(self, name: str, body: Mapping[str, Json], output: Iterable[Json]) -> None:
        """Under the response `name` stands what `body` asked with, and what came."""
        said, before = self.new_input(body), named_in(body)
        if isinstance(said, list | str):
            listed = [{"role": "user", "content": said}] if isinstance(said, str) else said
            self.keep(name, [*listed, *output], before.name if before else None)

    def forget(self, name: str) -> None:
        """Nothing stands under `name`; what went on from it stays."""
        self._named.pop(name, None)

    def items(self, name: str) -> list[Json] | None:
        """Everything under `name`, in order; None where it is not known, or a part of it went."""
        said, parts = self._named.get(name), list[bytes]()
        if said is None:
            return None
        while said is not None:
            if said.raw is None:
                return None
            parts.append(said.raw)
            said = said.before
        return [item for raw in reversed(parts) for item in parse(raw)]

    def item(self, name: str) -> Json:
        """The item with this id, None where it is not known."""
        place = self._places.get(name)
        held = [] if place is None or place.raw is None else parse(place.raw)
        return next((item for item in held if isinstance(item, dict) and item.get("id") == name), None)

    def whole(self, body: Mapping[str, Json]) -> dict[str, Json] | Unknown:
        """`body` with its whole input, and without the name of what it goes on from.

        Itself, copied, where it leans on nothing.
        """
        before = named_in(body)
        held = [] if before is None else self.items(before.name)
        if before is not None and held is None:
            return before
        said = self.new_input(body)
        if isinstance(said, Unknown):
            return said
        fields = {name: value for name, value in body.items() if name not in (PREVIOUS, CONVERSATION)}
        return {**fields, "input": [*(held or ()), *said]} if held or said is not body.get("input") else fields

    def new_input(self, body: Mapping[str, Json]) -> Json:
        """Return the input of `body` as a list, with items in the place of references.

        `Unknown` where one is not known.
        """
        given = body.get("input")
        listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
        if not isinstance(listed, list) or not any(map(_is_reference, listed)):
            return given if named_in(body) is None else listed or []
        found = [self.item(str(item.get("id"))) if _is_reference(item) else item for item in listed]
        missing = next((index for index, item in enumerate(found) if item is None), None)
        return found if missing is None else Unknown(f"input[{missing}].id", str(listed[missing].get("id")))

    def _drop(self, said: _Turn) -> None:
        self._n_bytes -= len(said.raw or b"")
        said.raw, said.before = None, None
        for name in said.ids:
            if self._places.get(name) is said:
                del self._places[name]
        if self._named.get(said.name) is said:
            del self._named[said.name]


def named_in(body: Mapping[str, Json]) -> Unknown | None:
    """Return the stored state that a body continues, known or not; None if the body is complete."""
    previous = body.get(PREVIOUS)
    if isinstance(previous, str) and previous:
        return Unknown(PREVIOUS, previous)
    conversation = body.get(CONVERSATION)
    name = conversation.get("id") if isinstance(conversation, dict) else conversation
    return Unknown(CONVERSATION, name) if isinstance(name, str) and name else None


def _is_reference(item: Json) -> bool:
    """A reference may leave its type out (responses/response_input_item_param.py)."""
    return isinstance(item, dict) and (
        item.get("type") == REFERENCE or (item.get("type") is None and "id" in item and "role" not in item)
    )


def summed_up(body: Mapping[str, Json]) -> tuple[list[Json], list[Json]] | None:
    """Items that stand for everything before, and items said behind them; None where nothing was summed up.

    >>> said = [{"type": "compaction", "encrypted_content": "…"}, {"type": "message", "role": "assistant", "content": "Done."}]
    >>> [len(part) for part in summed_up({"native": {"wire": "openai_responses", "body": said}, "stop": "done"})]
    [1, 1]
    """
    native = body["native"]
    items = list(native["body"])
    if body["stop"] == "compacted":
        return items, []
    if native["wire"] != "openai_responses":
        return None
    places = [index for index, item in enumerate(items) if item.get("type") == "compaction"]
    return ([items[places[-1]]], items[places[-1] + 1 :]) if places else None
