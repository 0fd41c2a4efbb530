"""Generated conversations: a list of operations, and what carries them out on a `Context` against the local provider.

An operation is a tuple, its name first, so that hypothesis can show and shrink it. One that makes no sense yet is made
to: a turn answers open calls first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from contextkit import Context
from contextkit.cache.usage import ZERO, Usage
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request
from tests.laws.wires import Server, answer

Json = Any
Operation = tuple[Any, ...]

SYSTEM = "You are a careful researcher; you say where a number comes from. " * 60
TOOLS: list[Json] = [
    {
        "name": "search",
        "description": "Search the web.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
    {
        "name": "add",
        "description": "Add numbers.",
        "parameters": {"type": "object", "properties": {"b": {"type": "number"}, "a": {}}},
    },
]
MORE_TOOLS: list[Json] = [
    *TOOLS,
    {"name": "clock", "description": "Tell the time.", "parameters": {"type": "object", "properties": {}}},
]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.one_of(
    st.text(_CHARACTERS, min_size=1, max_size=20).filter(str.strip),
    st.sampled_from(
        [
            "Grüße 👩‍👩‍👧 — 日本語",
            'quo"te\\ \n\t',
            "Error: no",
            "data:x",
            "\u2028 \x7f <|im_end|>",
            "x" * 900,
            "word " * 400,
        ]
    ),
)
PARTS = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.just({"type": "image", "media_type": "image/png", "data": PNG}),
    st.just({"type": "image", "url": "https://example.com/cat.png"}),
    st.just({"type": "document", "media_type": "application/pdf", "data": "JVBERi0=", "title": "report.pdf"}),
    st.just({"type": "document", "media_type": "text/plain", "data": "plain words"}),
    st.just({"type": "document", "url": "https://example.com/report.pdf"}),
)
CONTENT = TEXT | st.lists(PARTS, min_size=1, max_size=3)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([10**20, -(2**63) - 1, 1e-7, 1.0, 1e300, 0.1 + 0.2]), TEXT
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["query", "b", "a", "é"]), LEAVES | st.lists(LEAVES, max_size=2), max_size=3
)
VALUES = st.one_of(TEXT, st.lists(PARTS, min_size=1, max_size=2), st.none(), ARGUMENTS, TEXT.map(ValueError))
SPEECH = st.one_of(
    st.tuples(st.just("text"), TEXT),
    st.tuples(st.just("thinking"), TEXT, st.sampled_from(["c2ln", "EqQBCg=="])),
    st.tuples(st.just("call"), st.sampled_from(["search", "add"]), ARGUMENTS),
)
REPLIES = st.lists(SPEECH, min_size=1, max_size=5)
NEUTRAL: dict[str, Json] = {
    "anthropic_messages": {"max_tokens": 77},
    "openai_chat": {"temperature": 0.5},
    "openai_responses": {"temperature": 0.5},
    "bedrock_converse": {"inferenceConfig": {"maxTokens": 77}},
    "gemini": {"generationConfig": {"temperature": 0.5}},
}
"""Wire → parameters that no cache looks at."""
CHANGED: dict[str, Json] = {
    "anthropic_messages": {"tool_choice": {"type": "none"}},
    "openai_chat": {"parallel_tool_calls": False},
    "openai_responses": {"parallel_tool_calls": False},
    "bedrock_converse": {"toolConfig": {"toolChoice": {"any": {}}}},
    "gemini": {"generationConfig": {"thinkingConfig": {"thinkingBudget": 9}}},
}
"""Wire → parameters that some level is keyed on."""

SAYING = (
    st.tuples(st.just("user"), CONTENT),
    st.tuples(st.just("notice"), TEXT),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 30.0])),
    st.tuples(st.just("turn"), REPLIES, st.lists(CONTENT, max_size=2), st.booleans()),
    st.tuples(st.just("turn"), REPLIES, st.just([]), st.just(False)),
    st.tuples(
        st.just("results"), st.integers(0, 99), st.lists(VALUES, min_size=1, max_size=4), st.lists(CONTENT, max_size=1)
    ),
    st.tuples(st.just("burst"), st.integers(15, 60)),
    st.tuples(st.just("failed"), st.sampled_from(["overloaded_error", "aborted"])),
    st.tuples(st.just("preview")),
)
"""What never breaks a prefix."""
BREAKING = (
    st.tuples(st.just("compact"), CONTENT, st.integers(0, 3)),
    st.tuples(st.just("resystem"), TEXT),
    st.tuples(st.just("retool"), st.booleans()),
    st.tuples(st.just("changed"), st.sampled_from(["neutral", "changed"])),
    st.tuples(st.just("wait"), st.just(100_000.0)),
)
"""What does, or might."""


def operations(*kinds: st.SearchStrategy[Operation]) -> st.SearchStrategy[list[Operation]]:
    """Conversations made of operations of these kinds."""
    return st.lists(st.one_of(*kinds), min_size=1, max_size=10)


@dataclass
class Sent:
    """One request that left."""

    request: Request
    body: bytes
    """As it was when it left."""
    wire: bytes
    """Its segments, without marks."""
    billed: Usage
    after: int


@dataclass
class Conversation:
    """A context on its way, and everything it has sent."""

    provider: Provider
    folder: Any = None
    clock_at: float = 1_000_000.0
    server: Server = field(default_factory=Server)
    sent: list[Sent] = field(default_factory=list)
    n_calls: int = 0
    overrides: dict[str, Json] = field(default_factory=dict)
    system: Any = SYSTEM

    def __post_init__(self) -> None:
        given: dict[str, Any] = {"system": self.system, "tools": TOOLS, "clock": lambda: self.clock_at}
        make: Callable[..., Context] = (
            Context if self.folder is None else lambda provider, **more: Context.open(self.folder, provider, **more)
        )
        self.context = make(self.provider, **given)
        self.context.user("Find the three cheapest GPUs.")

    def run(self, given: Sequence[Operation]) -> Conversation:
        """Carry out all of them, and ask once more at the end."""
        for operation in given:
            getattr(self, f"_{operation[0]}")(*operation[1:])
        self._turn([("text", "That is all.")], [], False)
        self.request_again()
        return self

    def request_again(self) -> Sent:
        """A request for what has been said by now, billed, its reply cut off."""
        self._settle()
        sent = self._send(self.context.request())
        self.context.failed("cut", sent.request, has_begun=True)
        return sent

    def _send(self, request: Request) -> Sent:
        grown = request.layout
        body = request.body
        wire = bytes(grown.columns.wire[: grown.n_bytes])
        billed = self.server.bill(request.wire, body, self.clock_at)
        self.sent.append(Sent(request, body, wire, billed, request.after))
        return self.sent[-1]

    def _settle(self) -> None:
        for call in self.context.calls:
            self.context.result(call, "done")
        if not self.context._turns.has_pending_user and not self.context._turns.ordered:
            self.context.user("Go on.")

    def _user(self, content: Json) -> None:
        self.context.user(content)

    def _notice(self, text: str) -> None:
        self.context.notice(text)

    def _wait(self, seconds: float) -> None:
        self.clock_at += seconds

    def _burst(self, n: int) -> None:
        self.context.user([{"type": "text", "text": f"line {i}"} for i in range(n)])

    def _preview(self) -> None:
        if not self.context.calls:
            self.context.request()

    def _failed(self, error: str) -> None:
        self._settle()
        self.context.failed(error, self.context.request(**self.overrides))

    def _turn(self, said: Sequence[Any], late: Sequence[Json], looks: bool) -> None:
        self._settle()
        request = self.context.request(**self.overrides)
        sent = self._send(request)
        for content in late:
            self.context.user(content)
        if looks:
            self.context.request()
        self.context.receive(answer(request.wire, f"r{len(self.sent)}", self._numbered(said), sent.billed), request)
        self.clock_at += 2.0

    def _numbered(self, said: Sequence[Any]) -> list[Json]:
        numbered: list[Json] = []
        for kind, *rest in said:
            self.n_calls += kind == "call"
            numbered.append((kind, f"call_{self.n_calls}", *rest) if kind == "call" else (kind, *rest))
        return numbered

    def _results(self, seed: int, values: list[Any], between: list[Json]) -> None:
        calls = self.context.calls
        Random(seed).shuffle(calls)
        for index, call in enumerate(calls):
            for content in between[: 1 if index == 0 else 0]:
                self.context.user(content)
            self.context.result(call, values[index % len(values)])

    def _compact(self, summary: Json, n_kept: int) -> None:
        self._settle()
        replies = [entry.sequence for entry in self.context.log if entry.kind == "assistant"]
        self.context.compact(summary, replies[-n_kept] if 0 < n_kept <= len(replies) else None)

    def _resystem(self, text: str) -> None:
        self.context.resystem(text + SYSTEM)

    def _retool(self, more: bool) -> None:
        self.context.retool(MORE_TOOLS if more else TOOLS)

    def _changed(self, kind: str) -> None:
        self.overrides = {} if self.overrides else {"neutral": NEUTRAL, "changed": CHANGED}[kind][self.provider.wire]


def spent(conversation: Conversation) -> Usage:
    """Everything billed so far."""
    return sum((sent.billed for sent in conversation.sent), ZERO)
