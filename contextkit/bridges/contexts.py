"""Keeps the conversations of a framework as `Context`s, and sends what they render instead of what the framework rendered.

A framework keeps its own message list and sends all of it with every call. `ContextBridge` takes each request body where
the SDK's client sends it, finds the conversation it goes on with by their common prefix, appends what is new to that
conversation's `Context`, and sends the body of `context.request()` with the framework's parameters. The response passes
unchanged and is kept as received. So residency, lifetimes, and memory work below a loop that knows nothing of them.

Nothing that was sent is rendered anew without a trace. A list whose beginning was replaced by a summary, and goes on as
before behind it, is a declared prefix reset (`epoch`) of the same log. A list that was changed elsewhere is a fork at the
last common entry. Other tools or another system prompt are a declared prefix reset in a fork, as an agent that was handed
over to may hand back. Tools in another order are no change.

Frameworks have their own modules beside this one; this one knows none of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from secrets import token_hex
from threading import RLock
from typing import Any

from contextkit.bridges.hook import ClientHook
from contextkit.canonical import Json, canonical, parse
from contextkit.content_encoding import Decoder, UndecodableBody
from contextkit.context.context import Context
from contextkit.errors import BudgetExceeded, ContextKitError, InvalidCall, UsageError
from contextkit.facts.parameters import is_listed
from contextkit.ledger.budget import Budget
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.transport import Call, as_sdk_error
from contextkit.log.entry import Kind
from contextkit.log.log import Log
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory import Memory
from contextkit.prompt.normal_form import normal
from contextkit.providers.adoption import adopt
from contextkit.providers.anthropic.messages import AnthropicMessages
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.providers.histories import named_in
from contextkit.providers.openai.chat import OpenAIChat
from contextkit.providers.openai.responses import OpenAIResponses
from contextkit.providers.paths import FOLLOWED, wire_of
from contextkit.providers.provider import Provider, Turn
from contextkit.providers.request import Request
from contextkit.terminal import sanitize
from contextkit.tools.adopt import adopted
from contextkit.tools.tool import Tool
from contextkit.watcher.budget import BudgetedCall, BudgetGate

MOST_CONVERSATIONS = 64
"""Conversations of which the log is in memory; the least recent of more is forgotten and adopted anew."""
MOST_BYTES = 1 << 28
"""Decoded bytes of one response that are read."""
_PLACED = ("cache_control", "prompt_cache_options", "prompt_cache_breakpoint")
"""Top-level fields in which a framework asks for caching; the conversation places its own breakpoints."""
_OWN = ("prompt_cache_options", "prompt_cache_key")
"""Fields of the provider that stay where the framework does not set them."""


def _provider_of(wire: str, body: Mapping[str, Json], options: Mapping[str, Any]) -> Provider:
    """An adapter for a body, with its parameters and lifetime."""
    if wire == "anthropic_messages":
        return AnthropicMessages(body["model"], **options)
    if wire == "openai_responses":
        return OpenAIResponses(body["model"], **options)
    first = body["messages"][0].get("role") if body.get("messages") else None
    role = {"system_role": first} if first in ("system", "developer") else {}
    return OpenAIChat(body["model"], **role, **options)


@dataclass(frozen=True, slots=True)
class _Received:
    """A request body, read."""

    provider: Provider
    """An adapter for it, with its parameters."""
    params: Mapping[str, Json]
    """Its parameters, those that ask for caching left out."""
    system: Json
    tools: list[Json]
    turns: list[Turn]
    digests: list[bytes]
    """Digest of each turn."""
    head: bytes
    """Digest of model, system prompt and tools, whatever the order of the tools."""


@dataclass(slots=True, eq=False)
class Conversation:
    """A `Context` that follows a message list."""

    context: Context
    """The conversation."""
    head: bytes
    """Digest of its model, system prompt and tools."""
    digests: list[bytes] = field(default_factory=list)
    """Digest of each turn of the list, and of the last reply."""
    sequences: list[int] = field(default_factory=list)
    """Sequence of the entry that keeps each of them."""
    is_in_flight: bool = False
    """Whether a request of it was sent and its response has not ended."""

    def n_common(self, digests: list[bytes]) -> int:
        """Turns that the list and this conversation share from the start on."""
        n = 0
        for own, other in zip(self.digests, digests, strict=False):
            if own != other:
                break
            n += 1
        return n

    def add(self, digest: bytes, sequence: int) -> None:
        """Add a turn."""
        self.digests.append(digest)
        self.sequences.append(sequence)


def digest_of(kind: str, body: Mapping[str, Json]) -> bytes:
    """The digest by which a turn is recognised when a framework sends it again.

    Of a reply its text and calls: frameworks send replies back without thinking, ids, or empty blocks.
    """
    if kind == "assistant":
        calls = [[call["id"], call["name"], call["arguments"]] for call in body["calls"]]
        # text: ChatAnthropic strips it at the end
        return _digest([kind, body["text"].strip(), calls])
    if kind == "result":
        return _digest([kind, body["call_id"], bool(body.get("is_error")), normal(body["content"])])
    return _digest([kind, normal(body["content"])])


def _digest(value: Json) -> bytes:
    return blake2b(canonical(value, sort=True), digest_size=16).digest()


class ContextBridge(ClientHook):
    """Conversations of a framework, each kept as a `Context`: residency, lifetimes and budgets below its own loop.

    >>> bridge = ContextBridge(ttl="auto")
    >>> len(bridge.ledger), bridge.conversations, [tool.name for tool in bridge.tools]
    (0, [], [])
    """

    def __init__(
        self,
        record: str | os.PathLike[str] | None = None,
        *,
        memory: Memory | FileMemory | None = None,
        ttl: str | None = "auto",
        budget: Budget | None = None,
    ) -> None:
        """`record` names a ledger to append to; `memory` keeps large results, by its `residency`.

        The agent needs the tools of the memory (`bridge.tools`); the adapters of the frameworks say how it gets them.
        `ttl` is that of the adapters (`docs/explanation/planner.md`), None for the endpoint's own. `budget` limits all
        conversations. Raises `StorageError` where the ledger cannot be opened.
        """
        if not isinstance(budget, Budget | None):
            raise UsageError(f"budget is a contextkit.Budget, not {type(budget).__name__}")
        self.ledger = Ledger() if record is None else Ledger.open(record)
        """Every call: its bill, the outline of its prompt, the prediction."""
        self.memory = None if memory is None else Memory.of(memory)
        """Where large results are; None without."""
        self.conversations: list[Conversation] = []
        """Conversations, the one used last at the end."""
        self._ttl, self._budget = ttl, budget
        self._gate = None if budget is None else BudgetGate(budget, f"bridge-{token_hex(4)}")
        self._n_begun = 0
        self._seen: dict[bytes, tuple[Kind, Json]] = {}
        """Digest of a turn → kind and body of the entry that keeps it, in any conversation."""
        self._lock = RLock()
        self._warned: set[str] = set()
        self.watcher = self

    def close(self) -> None:
        """A client is closed; the bridge goes on."""

    @property
    def tools(self) -> list[Tool]:
        """The tools of the memory, which the agent has to have: `read_reference` leads back to every large result."""
        return [] if self.memory is None else self.memory.tools()

    @property
    def contexts(self) -> list[Context]:
        """The conversations' contexts, the one used last at the end."""
        return [conversation.context for conversation in self.conversations]

    # Watching a client
    # ------------------------------------------------------------------------------------------------------------------

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """Take a request about to be sent; None for what is no model call, and where it has to go as it is.

        Raises `BudgetExceeded` where it could cost more than the budget has left.
        """
        wire = wire_of(method, path)
        if not body or wire not in FOLLOWED:
            return self._unmanaged(method, path, body)
        with self._lock:
            try:
                fields = parse(body)
                if named_in(fields) is not None:
                    raise UsageError("it continues a conversation that the provider stores")
                received = self._read(wire, fields)
                conversation = self._followed(received)
                return self._call(conversation, received.params)
            except BudgetExceeded as exceeded:
                raise as_sdk_error(exceeded, wire.partition("_")[0]) from None
            except (ContextKitError, ValueError, KeyError, TypeError, AttributeError) as fault:
                self._warn(f"a call is sent as the framework made it: {fault}")
                return self._unmanaged(method, path, body)

    def _unmanaged(self, method: str, path: str, body: bytes | None) -> Call | None:
        """A request that is sent as the framework made it: a budget counts it, or refuses what cannot be priced."""
        admission = None if self._gate is None else self._gate.admit(method, path, body)
        return None if admission is None or body is None else BudgetedCall(admission, None, body)

    def _call(self, conversation: Conversation, params: Mapping[str, Json]) -> ManagedCall:
        request = conversation.context.request(**_overrides(conversation.context.provider, params))
        request.reserve()
        conversation.is_in_flight = True
        return ManagedCall(request, partial(self._ended, conversation, request), conversation.context.provider)

    def _read(self, wire: str, fields: Mapping[str, Json]) -> _Received:
        params = {
            name: value for name, value in fields.items() if name not in ("model", *_PLACED) and value is not None
        }
        named = {"wire": wire, "model": fields["model"]}
        lifetime = {} if self._ttl is None else {"ttl": self._ttl}
        provider = _provider_of(wire, fields, {**lifetime, **_declared(wire, _without_prompt(wire, params))})
        own = {name: value for name, value in provider.parse(fields).params.items() if name not in ("model", *_PLACED)}
        system, tools, turns = adopt(provider, fields)
        digests = [digest_of(turn.kind, turn.body) for turn in turns]
        rows = sorted(canonical(tool, sort=True) for tool in tools)
        head = _digest([named, normal(system), [row.decode() for row in rows]])
        return _Received(provider, own, system, tools, turns, digests, head)

    def _followed(self, received: _Received) -> Conversation:
        """The conversation that holds exactly these turns now."""
        conversation, n = self._going_on(received)
        if conversation is None:
            conversation = self._begun(received, None, 0)
        elif n < len(conversation.digests) or conversation.is_in_flight or conversation.head != received.head:
            reset = None if conversation.is_in_flight else self._reset(conversation, received)
            conversation, n = (
                (conversation, reset) if reset is not None else (self._begun(received, conversation, n), n)
            )
        self._append(conversation, received, n)
        self._use_head(conversation, received)
        if conversation in self.conversations:
            self.conversations.remove(conversation)
        self.conversations.append(conversation)
        del self.conversations[:-MOST_CONVERSATIONS]
        return conversation

    def _going_on(self, received: _Received) -> tuple[Conversation | None, int]:
        """The conversation that shares most with the list, and how many turns; of two the one with the same head."""
        best, best_key, n_best = None, (False, 0, False), 0
        for conversation in self.conversations:
            if conversation.context.provider.wire != received.provider.wire:
                continue
            n, is_same = conversation.n_common(received.digests), conversation.head == received.head
            is_whole = is_same and n == len(conversation.digests) and n > 0
            key = (is_whole, n, is_same)
            if key >= best_key and (n or self._shares_reply(conversation, received)):
                best, best_key, n_best = conversation, key, n
        return best, n_best

    @staticmethod
    def _shares_reply(conversation: Conversation, received: _Received) -> bool:
        replies = {
            digest for turn, digest in zip(received.turns, received.digests, strict=True) if turn.kind == "assistant"
        }
        return conversation.head == received.head and not replies.isdisjoint(conversation.digests)

    def _reset(self, conversation: Conversation, received: _Received) -> int | None:
        """Declare that a new beginning stands for the turns before those that both lists end with.

        Returns how many turns of the list the conversation holds then; None where the lists do not fit so, and nothing
        was changed.
        """
        if conversation.head != received.head:
            return None
        place = _common_end(conversation.digests, received.digests)
        if place is None:
            return None
        at, first = place
        beginning = received.turns[:at]
        if any(turn.kind != "user" for turn in beginning):
            return None
        context, keep_from = conversation.context, conversation.sequences[first]
        summary = [part for turn in beginning for part in turn.body["content"]]
        try:
            entry = context.compact(summary, keep_from)
        except InvalidCall:  # it would keep results without the reply that called for them
            return None
        conversation.digests = [*received.digests[:at], *conversation.digests[first:]]
        conversation.sequences = [entry.sequence] * at + conversation.sequences[first:]
        return len(conversation.digests)

    def _begun(self, received: _Received, other: Conversation | None, n: int) -> Conversation:
        """A new conversation: a fork of `other` behind its first `n` turns, or empty."""
        self._n_begun += 1
        lane = "main" if self._n_begun == 1 else f"conversation-{self._n_begun}"
        options: dict[str, Any] = {
            "ledger": self.ledger,
            "session": "bridge",
            "lane": lane,
            "memory": self.memory,
            "budget": self._budget,
        }
        if other is None or not n:
            tools = adopted(received.tools, ())
            context = Context(received.provider, system=received.system or None, tools=tools, **options)
            return Conversation(context, received.head)
        log: Log = other.context.log.fork(other.sequences[n - 1])
        context = Context(received.provider, log=log, **options)
        return Conversation(context, other.head, other.digests[:n], other.sequences[:n])

    def _append(self, conversation: Conversation, received: _Received, n: int) -> None:
        """Append the turns from `n` on."""
        replies = [index for index, turn in enumerate(received.turns) if turn.kind == "assistant"]
        last_reply = replies[-1] if replies else -1
        for index in range(n, len(received.turns)):
            turn, digest = received.turns[index], received.digests[index]
            entry = conversation.context._append_turn(
                *self._seen.get(digest, (turn.kind, turn.body)), is_new=index > last_reply
            )
            self._seen[digest] = turn.kind, parse(entry.body)
            conversation.add(digest, entry.sequence)

    @staticmethod
    def _use_head(conversation: Conversation, received: _Received) -> None:
        """Declare another system prompt or other tools, and take the adapter of another model."""
        context = conversation.context
        if conversation.head == received.head:
            return
        before = context._head()
        if context.provider.model.name != received.provider.model.name:
            context.switch(received.provider)
        if canonical(before[0]) != canonical(received.system):
            context.resystem(received.system)
        was, now = (sorted(canonical(one, sort=True) for one in tools) for tools in (before[1], received.tools))
        if was != now:
            context.retool(adopted(received.tools, ()))
        conversation.head = received.head

    def _ended(self, conversation: Conversation, request: Request, response: Json, error: str, has_begun: bool) -> None:
        """Keep a response; a call that came to nothing is in the ledger."""
        with self._lock:
            conversation.is_in_flight = False
            context = conversation.context
            if error:
                context.failed(error, request, has_begun=has_begun)
                return
            try:
                entry = context.receive(response, request)
            except ContextKitError as fault:
                self._warn(f"a response was not kept: {fault}")
                if conversation in self.conversations:
                    self.conversations.remove(conversation)
                return
            if entry is not None and entry.kind == "assistant":
                body = parse(entry.body)
                digest = digest_of("assistant", body)
                conversation.add(digest, entry.sequence)
                self._seen[digest] = "assistant", body

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(sanitize(message), stacklevel=2)


def _common_end(own: list[bytes], other: list[bytes]) -> tuple[int, int] | None:
    """Where in `other`, and where in `own`, what both go on with begins; None where there is no such place.

    >>> _common_end([b"1", b"2", b"3", b"4"], [b"summary", b"3", b"4", b"5"])
    (1, 2)
    """
    for at in range(1, len(other)):
        if other[at] in own:
            first = own.index(other[at])
            if first > 0 and own[first:] == other[at : at + len(own) - first]:
                return at, first
    return None


_PROMPTS: Mapping[str, tuple[str, ...]] = {
    "anthropic_messages": ("system", "tools", "messages"),
    "openai_chat": ("tools", "messages"),
    "openai_responses": ("instructions", "tools", "input"),
}


def _without_prompt(wire: str, params: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters among the fields of a body; streaming is asked for call by call."""
    return {name: value for name, value in params.items() if name not in (*_PROMPTS[wire], "stream", "stream_options")}


def _overrides(provider: Provider, params: Mapping[str, Json]) -> dict[str, Json]:
    """What makes the parameters of a request those of the framework's body, the cache's own fields aside."""
    absent = {name: None for name in provider.params if name not in (*params, "model", *_OWN)}
    return _declared(provider.wire, {**absent, **params})


def _declared(wire: str, params: Mapping[str, Json]) -> dict[str, Json]:
    """Parameters of a framework, those that no table lists in `extra_body`: a framework's own field is no typo."""
    listed = {name: value for name, value in params.items() if value is None or is_listed(wire, name)}
    extra = {name: value for name, value in params.items() if name not in listed}
    return {**listed, "extra_body": extra} if extra else listed


class ManagedCall:
    """One request that a conversation rendered, and its response."""

    def __init__(self, request: Request, finish: Callable[[Json, str, bool], None], provider: Provider) -> None:
        """`finish` is called once, with the response, the error, and whether a response began."""
        self._finish, self._provider = finish, provider
        self._chunks: list[bytes] = []
        self._status, self._encoding = 0, ""
        self._is_stream = self._is_over = False
        self.body = request.body
        """The bytes that are sent."""

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """Start the response."""
        self._status, self._encoding = status, headers.get("content-encoding", "")
        self._is_stream = headers.get("content-type", "").startswith("text/event-stream")

    def feed(self, chunk: bytes) -> None:
        """Keep a chunk of the response, as received."""
        self._chunks.append(chunk)

    def ended(self, *, is_whole: bool, error: str = "", was_sent: bool = True) -> None:
        """End the response; only the first call has an effect."""
        if self._is_over:
            return
        self._is_over = True
        if not self._status:
            self._finish(None, error or "unreachable", False)
        elif self._status >= 400:
            self._finish(None, str(self._status), False)
        else:
            response = self._response()
            self._finish(response, "" if response is not None else error or "cut", True)

    def _response(self) -> Json:
        """The whole response; None where it did not come to its end."""
        try:
            data = Decoder(self._encoding, MOST_BYTES).feed(b"".join(self._chunks))
            if not self._is_stream:
                return parse(data)
            lines = (line[5:].strip() for line in data.splitlines() if line.startswith(b"data:"))
            response = self._provider.joined([parse(line) for line in lines if line and line != b"[DONE]"])
        except (ContextKitError, UndecodableBody):
            return None
        return response if self._provider.is_complete(response) else None
