"""Replays a recorded session of pi through `Context`, against the local provider, at its recorded times: `python -m
tests.benchmarks.replay SESSION [PROVIDER]`.

Prints calls, hit rate, dollars and misses as JSON. Placeholders stand for what the file does not hold (system prompt,
tool definitions); the rest is sent in its order and at its times: aborted and failed replies are sent and billed but
not appended, compactions are declared epochs. Requests go through the real SDK client over HTTP, or straight to the
local provider's core in this process; both see only the bytes. The replies are the recorded ones: with results in files
the comparison measures bytes and bills, not whether the model would have answered the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import singledispatchmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from contextkit.canonical import Json, canonical, parse
from contextkit.context import Context
from contextkit.errors import UnreadableReply
from contextkit.importers.pi import read_pi
from contextkit.importers.recording import (
    AssistantTurn,
    Call,
    Compacted,
    EffortChanged,
    Event,
    Image,
    ModelChanged,
    Part,
    Recording,
    Text,
    Thinking,
    ToolResultTurn,
    UserTurn,
)
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import Summary, summarise
from contextkit.log.content import is_base64
from contextkit.log.entry import Entry
from contextkit.log.variation import Variation
from contextkit.memory import FileMemory, Memory, Offload
from contextkit.memory.reference import references_of
from contextkit.models import model_named
from contextkit.providers.anthropic.messages import AnthropicMessages
from contextkit.providers.openai.chat import OpenAIChat
from contextkit.providers.openai.responses import OpenAIResponses
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request
from contextkit.server.answer import answer
from contextkit.server.endpoints.table import CHAT, MESSAGES, RESPONSES
from contextkit.server.local import LocalServer
from contextkit.server.state import Clock, State

BEGUN_AFTER_SECONDS = 2.0
"""A reply aborted sooner, with no usage recorded, had not begun: in the recorded session every later read agrees
(docs/research/replay.md)."""
LOST = "(an image that the recording does not hold)"
"""Said for an image whose data was taken out."""
SYSTEM = "You are a coding agent. (This recording does not hold its system prompt; this sentence stands for it.)"


class ReplayTransport(Protocol):
    """How a request gets its answer and its bill."""

    def send(self, context: Context, request: Request, script: Json, now: float) -> ModelCall:
        """Answer `request` with `script` at `now`, keep the reply in `context` when it is whole, and give the
        provider's row.
        """
        ...


@dataclass(slots=True)
class ReplayClock:
    """Time as it was recorded; it never goes back."""

    now: float = 0.0

    def __call__(self) -> float:
        """The time now."""
        return self.now

    def set(self, now: float) -> None:
        """Move on to `now`."""
        self.now = max(self.now, now)


@dataclass(slots=True)
class Replay:
    """One session on its way."""

    recording: Recording
    provider: Callable[[str], Provider]
    """Thinking level → the provider to ask."""
    transport: ReplayTransport
    clock: ReplayClock
    observe: Callable[[Request], None] = field(default=lambda request: None)
    """Called with every request that is sent."""
    memory: Memory | None = None
    """Where large results go; None: they stay in the window."""
    variation: Variation | None = None
    """In which forms results are told; None: as they are."""
    bills: list[ModelCall] = field(default_factory=list)
    _entries: list[int | None] = field(default_factory=list)
    """Event → entry it became."""

    def run(self) -> tuple[Context, Ledger]:
        """Say everything; the context, and its ledger with every call billed."""
        options: dict[str, Any] = {"system": SYSTEM, "tools": stand_ins(self.recording), "clock": self.clock}
        context = Context(self.provider(self.recording.effort), memory=self.memory, variation=self.variation, **options)
        for event in self.recording.events:
            self._entries.append(self._replay_event(event, context))
        ledger = Ledger()
        for ours, theirs in zip(context.ledger, self.bills, strict=True):
            ledger.append(replace(ours, usage=theirs.usage))
        return context, ledger

    @singledispatchmethod
    def _replay_event(self, event: Event, context: Context) -> int | None:
        raise TypeError(f"a recording holds no {type(event).__name__}")

    @_replay_event.register
    def _(self, event: UserTurn, context: Context) -> int | None:
        self.clock.set(event.at)
        return context.user([_neutral(part) for part in event.parts]).sequence

    @_replay_event.register
    def _(self, event: ToolResultTurn, context: Context) -> int | None:
        self.clock.set(event.at)
        if event.call_id not in {call.id for call in context.calls}:
            return None
        return context.result(event.call_id, [_neutral(part) for part in event.parts], is_error=event.is_error).sequence

    @_replay_event.register
    def _(self, event: EffortChanged, context: Context) -> int | None:
        context.provider = self.provider(event.level)
        return None

    @_replay_event.register
    def _(self, event: ModelChanged, context: Context) -> int | None:
        return None

    @_replay_event.register
    def _(self, event: Compacted, context: Context) -> int | None:
        self.clock.set(event.at)
        first_entry = (
            (entry for entry in self._entries[event.keep_from :] if entry is not None)
            if event.keep_from is not None
            else iter(())
        )
        return context.compact(event.summary, keep_from=next(first_entry, None)).sequence

    @_replay_event.register
    def _(self, event: AssistantTurn, context: Context) -> int | None:
        self.clock.set(event.started_at)
        context.interrupt("the recording holds no result")
        n, request = len(context.log), context.request()
        self.observe(request)
        self.bills.append(self.transport.send(context, request, script_of(event), event.started_at))
        self.clock.set(event.ended_at)
        return n if len(context.log) > n else None


def script_of(turn: AssistantTurn) -> Json:
    """What the local provider answers where this was recorded."""
    parts = [_scripted(part) for part in turn.parts if not (isinstance(part, Text) and not part.text)]
    stop = turn.stop if turn.stop in ("done", "calls", "truncated") else None
    script: dict[str, Json] = {"parts": parts, "stop": stop, "fault": _fault(turn, len(parts))}
    if turn.usage is not None and turn.usage.output is not None:
        script["output_tokens"] = turn.usage.output
    return script


def _fault(turn: AssistantTurn, n_parts: int) -> Json:
    if turn.stop == "error":
        return {
            "kind": "error_event",
            "after_parts": 0,
            "type": "invalid_request_error",
            "message": "the recorded call failed",
        }
    if turn.stop != "aborted":
        return None
    has_begun = turn.usage is not None or turn.ended_at - turn.started_at >= BEGUN_AFTER_SECONDS
    return {"kind": "cut", "after_parts": n_parts} if has_begun else {"kind": "never"}


def stand_ins(recording: Recording) -> list[Json]:
    """A definition for every tool the recording calls, its parameters as they were used, in order of first use."""
    names: dict[str, dict[str, Json]] = {}
    for event in recording.events:
        for part in event.parts if isinstance(event, AssistantTurn) else ():
            if isinstance(part, Call):
                names.setdefault(part.name, {}).update({name: {} for name in part.arguments})
    schemas = {name: {"type": "object", "properties": properties} for name, properties in names.items()}
    return [
        {"name": name, "description": f"The tool {name} of the recorded session.", "parameters": schemas[name]}
        for name in schemas
    ]


_SCRIPTED: dict[type, Callable[[Any], Json]] = {
    Text: lambda part: {"type": "text", "text": part.text},
    Thinking: lambda part: {"type": "thinking", "thinking": part.text, "signature": part.signature or None},
    Call: lambda part: {"type": "call", "id": part.id, "name": part.name, "arguments": part.arguments},
}
_NEUTRAL: dict[type, Callable[[Any], Json]] = {
    Text: lambda part: {"type": "text", "text": part.text or "(nothing)"},
    Image: lambda part: (
        {"type": "image", "media_type": part.media_type, "data": part.data}
        if is_base64(part.data)
        else {"type": "text", "text": LOST}
    ),
}


def _scripted(part: Part) -> Json:
    return _SCRIPTED[type(part)](part)


def _neutral(part: Part) -> Json:
    return _NEUTRAL[type(part)](part)


_WIRES = {"anthropic_messages": MESSAGES, "openai_chat": CHAT, "openai_responses": RESPONSES}
_HEADERS = {"authorization": "Bearer local", "anthropic-version": "2023-06-01"}


class Direct:
    """The provider's core, without HTTP and without an SDK."""

    def __init__(self) -> None:
        self._state = State(Clock(0.0, is_frozen=True))

    def send(self, context: Context, request: Request, script: Json, now: float) -> ModelCall:
        """Body in, body out."""
        self._state.clock.set(max(now, self._state.clock.now()))
        self._state.replies.extend([script])
        outcome = answer(self._state, _WIRES[request.wire], _HEADERS, request.body)
        bill = self._state.ledger[-1]
        if outcome.status == 200 and outcome.is_whole:
            context.receive(parse(b"".join(outcome.chunks)), request)
        elif bill.error is None:
            raise UnreadableReply(f"the local provider refused a replayed request (status {outcome.status})")
        else:
            context.failed(bill.error, request, has_begun=bill.first_byte_at is not None)
        return bill


class Sdk:
    """The real client, over real HTTP; replies that break off are streamed, so that their beginning arrives."""

    def __init__(self, server: LocalServer, client: Any, errors: tuple[type[Exception], ...]) -> None:
        self._server, self._client, self._errors = server, client, errors

    def send(self, context: Context, request: Request, script: Json, now: float) -> ModelCall:
        """Through `client.post`."""
        self._server.clock.set(max(now, self._server.clock.now()))
        self._server.script([script])
        n = len(self._server.ledger)
        try:
            if script["fault"] is None:
                context.receive(request.send(self._client), request)
            else:
                for _ in context.stream(request.stream(self._client), request):
                    pass
        except self._errors:
            if len(self._server.ledger) == n or script["fault"] is None:
                raise
        return self._server.ledger[-1]


@contextmanager
def direct(wire: str) -> Iterator[ReplayTransport]:
    """Open a transport without HTTP."""
    yield Direct()


@contextmanager
def sdk(wire: str) -> Iterator[ReplayTransport]:
    """Open a server on loopback, and the client that speaks `wire`."""
    with LocalServer(now=0.0, is_frozen=True) as server:
        client, errors = _CLIENTS[wire](server)
        with client:
            yield Sdk(server, client, errors)


def _anthropic(server: LocalServer) -> tuple[Any, tuple[type[Exception], ...]]:
    import anthropic
    import httpx2

    client = anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0)
    return client, (anthropic.APIError, httpx2.HTTPError, UnreadableReply)


def _openai(server: LocalServer) -> tuple[Any, tuple[type[Exception], ...]]:
    import httpx2
    import openai

    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
    return client, (openai.APIError, httpx2.HTTPError, UnreadableReply)


_CLIENTS: dict[str, Callable[[LocalServer], tuple[Any, tuple[type[Exception], ...]]]] = {
    "anthropic_messages": _anthropic,
    "openai_chat": _openai,
    "openai_responses": _openai,
}
TRANSPORTS = {"sdk": sdk, "direct": direct}
"""Name → how requests travel."""


# Providers

MODELS = {"anthropic": "claude-opus-4-5", "openai-chat": "gpt-5.6-sol", "openai-responses": "gpt-5.6-sol"}
"""Provider → the model asked where none is named."""
MAX_TOKENS = 21_000
"""The most that the typed methods send without streaming, rounded."""
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 20_000}
"""Thinking level of a recording → tokens; a model that takes efforts gets the level itself."""


def provider_of(name: str) -> Callable[[str, str], Provider]:
    """(model, thinking level) → the provider that asks it, for a name of `MODELS`."""
    return _PROVIDERS[name]


def _messages(model: str, level: str) -> Provider:
    # the models before adaptive thinking are those that still accept prefill
    takes_budget = model_named(model).accepts_prefill
    if level not in BUDGETS:
        return AnthropicMessages(model, max_tokens=MAX_TOKENS)
    if takes_budget:
        return AnthropicMessages(
            model, max_tokens=MAX_TOKENS, thinking={"type": "enabled", "budget_tokens": BUDGETS[level]}
        )
    return AnthropicMessages(model, max_tokens=MAX_TOKENS, output_config={"effort": _EFFORT[level]})


_EFFORT = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}


def _chat(model: str, level: str) -> Provider:
    return OpenAIChat(model, reasoning_effort=_EFFORT[level]) if level in _EFFORT else OpenAIChat(model)


def _responses(model: str, level: str) -> Provider:
    return OpenAIResponses(model, reasoning={"effort": _EFFORT[level]}) if level in _EFFORT else OpenAIResponses(model)


_PROVIDERS: dict[str, Callable[[str, str], Provider]] = {
    "anthropic": _messages,
    "openai-chat": _chat,
    "openai-responses": _responses,
}


# Results in files

Replayed = tuple[Context, Ledger]
"""A conversation, and every call with its bill."""
PREVIEW_SHARE = 5
"""A preview is at most the fifth part of the smallest result it stands for, and never more than `Offload` shows by
itself."""


@dataclass(frozen=True, slots=True)
class Windows:
    """What one replay sent."""

    calls: int
    """How many were billed."""
    window_tokens: int
    """Input tokens of all calls: the window, summed over the calls."""
    cost_usd: float | None
    """What they cost at list prices; None where the model has none."""
    n_misses: int
    """Calls that lost something they could have read."""


@dataclass(frozen=True, slots=True)
class Offloading:
    """The two beside one another."""

    plain: Windows
    """Every result in the window."""
    offloaded: Windows
    """Large ones in files."""
    n_results: int
    """Results said."""
    n_offloaded: int
    """Those of them that went to files, in part at least."""
    n_restored: int
    """Results that come back exactly as the plain conversation has them; all of them, or something is broken."""


@contextmanager
def memory_above(above_tokens: int) -> Iterator[Memory]:
    """A memory for results of more than `above_tokens`, in a folder that is gone afterwards."""
    rule = Offload(above_tokens, max(1, min(above_tokens // PREVIEW_SHARE, Offload().preview_tokens)))
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Memory(FileMemory(folder), offload=rule, todo=None, recitation=None, has_file_tool=False)


def compared(plain: Replayed, offloaded: Replayed) -> Offloading:
    """The figures of two replays of one recording; every result of the second is restored and compared with the first."""
    pairs = [(one, other) for one, other in zip(plain[0].log, offloaded[0].log, strict=True) if one.kind == "result"]
    restored = sum(_content(one) == offloaded[0].restore(other) for one, other in pairs)
    n_offloaded = sum(any(references_of(other)) for _, other in pairs)
    return Offloading(windows(plain[1]), windows(offloaded[1]), len(pairs), n_offloaded, restored)


def windows(ledger: Ledger) -> Windows:
    """What the calls of a ledger held."""
    summary = summarise(ledger)
    sizes = [call.usage.prompt or 0 for call in ledger if call.usage is not None]
    return Windows(len(sizes), sum(sizes), summary.cost_usd, len(summary.losses))


def _content(entry: Entry) -> list[object]:
    return list(parse(entry.body)["content"])


def figures_of(summary: Summary, ledger: Ledger) -> Json:
    """Collect the figures of a replay for `json.dumps`."""
    counters = ("fresh", "read", "write_5m", "write_1h", "output")
    return {
        "calls": summary.calls,
        "hit_rate": summary.hit_rate,
        "cost_usd": summary.cost_usd,
        "cost_usd_uncached": summary.cost_uncached_usd,
        "misses": [asdict(miss) for miss in summary.misses],
        "per_call": [{name: getattr(call.usage, name) for name in counters} for call in ledger],
    }


def replayed(
    path: Path,
    name: str,
    via: str = "direct",
    observe: Callable[[Request], None] = lambda request: None,
) -> tuple[Context, Ledger]:
    """Replay the session at `path` on a provider of `MODELS`; return the conversation and every call with its bill."""
    build, model = provider_of(name), MODELS[name]
    with TRANSPORTS[via](build(model, "off").wire) as transport:
        return Replay(read_pi(path), lambda level: build(model, level), transport, ReplayClock(), observe=observe).run()


def main() -> None:
    path, name = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "anthropic"
    _, ledger = replayed(path, name, "sdk")
    print(canonical(figures_of(summarise(ledger), ledger)).decode())


if __name__ == "__main__":
    main()
