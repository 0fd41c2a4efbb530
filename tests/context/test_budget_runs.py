"""Random runs under a budget: wrong usage, cut streams, retries, parallel calls, resumes. What the provider really
billed never exceeds the limit, also where prompts are up to a tenth larger than they were counted.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import pytest

from contextkit import AnthropicMessages, Budget, Context, Request
from contextkit.cache.usage import Usage
from contextkit.errors import BudgetExceeded, UnreadableReply
from contextkit.prices import cost_usd

MODEL = "claude-sonnet-5-5"
RUNS = 40
FULL_RUNS = 10_000


class StatusError(Exception):
    """As the SDKs raise it: an answer with an error status."""

    status_code = 529


class Provider:
    """A provider that bills what it likes to, within what was asked for, and does not always say so."""

    def __init__(self, chance: random.Random, undercount: float) -> None:
        self.chance, self.undercount = chance, undercount
        self.usages: list[Usage] = []
        self._lock = Lock()

    @property
    def tokens(self) -> int:
        return sum((usage.prompt or 0) + (usage.output or 0) for usage in self.usages)

    @property
    def usd(self) -> float:
        return sum(cost_usd("anthropic", MODEL, usage, 1000.0) or 0.0 for usage in self.usages)

    def bill(self, request: Request) -> Usage:
        """Bill one attempt."""
        with self._lock:
            estimated = request.predicted.prompt or 0
            prompt = int(estimated * (1 + self.chance.random() * self.undercount))
            read = self.chance.choice([0, 0, prompt // 2, prompt])
            written = self.chance.choice([0, prompt - read])
            output = self.chance.choice([0, 1, request.params["max_tokens"] // 2, request.params["max_tokens"]])
            usage = Usage(prompt - read - written, read, output=output, writes={300: written})
            self.usages.append(usage)
            return usage

    def counters(self, usage: Usage) -> dict[str, Any]:
        """What the reply says of its bill: the truth, parts of it, or nothing."""
        counters: dict[str, Any] = {
            "input_tokens": usage.fresh,
            "cache_read_input_tokens": usage.read,
            "cache_creation_input_tokens": usage.written,
            "output_tokens": usage.output,
        }
        way = self.chance.random()
        if way < 0.6:
            return counters
        if way < 0.7:
            return {}
        if way < 0.8:
            return dict.fromkeys(counters, 0)
        if way < 0.9:
            return {name: count for name, count in counters.items() if name != self.chance.choice(list(counters))}
        return {**counters, "output_tokens": -5}

    def reply(self, request: Request, n: int) -> dict[str, Any]:
        usage = self.counters(self.bill(request))
        content = [{"type": "text", "text": "ok"}]
        names = {"id": f"msg_{n}", "type": "message", "role": "assistant", "model": MODEL}
        return {**names, "content": content, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}

    def events(self, request: Request, n: int) -> Any:
        """A stream, cut anywhere or whole."""
        message = self.reply(request, n)
        start = {**message, "content": [], "stop_reason": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": message["usage"]},
            {"type": "message_stop"},
        ]
        end = self.chance.choice([len(events), self.chance.randrange(len(events))])
        yield from events[:end]
        if end < len(events) and self.chance.random() < 0.5:
            raise ConnectionResetError("gone")


class Client:
    """Takes prepared bytes, as the SDKs' clients do."""

    def __init__(self, provider: Provider) -> None:
        self.provider, self.request, self.number = provider, None, 0

    timeout = None

    def post(self, path: str, *, content: bytes, stream: bool = False, **options: Any) -> Any:
        chance = self.provider.chance
        way = chance.random()
        self.number += 1
        if way < 0.1:
            raise StatusError
        if way < 0.2:
            self.provider.bill(self.request)  # type: ignore[arg-type]
            raise TimeoutError
        name = chance.randrange(10**9)
        return self.provider.events(self.request, name) if stream else self.provider.reply(self.request, name)  # type: ignore[arg-type]


def send(context: Context, provider: Provider, n_tries: int = 2) -> None:
    """One turn, tried again after a failure."""
    client = Client(provider)
    for _ in range(n_tries):
        request = client.request = context.request()  # type: ignore[assignment]
        try:
            if provider.chance.random() < 0.5:
                context.receive(request.send(client), request)
            else:
                stream = context.stream(request.stream(client), request)
                for n, _event in enumerate(stream):
                    if n == 2 and provider.chance.random() < 0.2:
                        stream.close()
                        return
        except (StatusError, TimeoutError, ConnectionResetError, UnreadableReply):
            continue
        return


def run(seed: int) -> None:
    """One random run."""
    chance = random.Random(seed)
    provider = Provider(chance, chance.choice([0.0, 0.0, 0.1]))
    limits: dict[str, Any] = {
        "usd": chance.choice([None, chance.uniform(0.001, 0.05)]),
        "tokens": chance.choice([None, chance.randrange(100, 8_000)]),
    }
    if limits == {"usd": None, "tokens": None}:
        limits["tokens"] = 4_000
    limits["per"] = chance.choice(["session", "day"])
    max_tokens = chance.choice([1, 50, 400])
    adapter = AnthropicMessages(MODEL, max_tokens=max_tokens)
    context = Context(adapter, system="Be brief.", budget=Budget(**limits), clock=lambda: 1000.0)
    context.user("Hello " * chance.randrange(1, 200))
    lanes = [context]
    refused: BudgetExceeded | None = None
    for _ in range(chance.randrange(4, 14)):
        lane = chance.choice(lanes)
        step = chance.random()
        try:
            if step < 0.5:
                lane.user("more " * chance.randrange(1, 50))
                send(lane, provider)
            elif step < 0.65:
                branches = context.fan_out(chance.randrange(1, 4))
                lanes += branches
                for branch in branches:
                    branch.user("branch")
                with ThreadPoolExecutor(4) as pool:
                    for done in [pool.submit(send, branch, provider) for branch in branches]:
                        done.result()
            elif step < 0.75:
                lanes.append(context.spawn("a task"))
            elif step < 0.9:
                in_flight(lanes, provider)
            else:
                again = Context(
                    adapter, log=context.log, ledger=context.ledger, clock=lambda: 1000.0, budget=Budget(**limits)
                )
                lanes, context = [again], again
        except BudgetExceeded as error:
            refused = error
    assert refused is None or refused.would_be > refused.limit >= 0
    if limits["tokens"] is not None:
        assert provider.tokens <= limits["tokens"], seed
    if limits["usd"] is not None:
        assert provider.usd <= limits["usd"] + 1e-9, seed


def in_flight(lanes: list[Context], provider: Provider) -> None:
    """Several calls at once over another transport; what comes of each is learned in another order."""
    sent = []
    try:
        for lane in provider.chance.sample(lanes, min(3, len(lanes))):
            lane.user("at once")
            request = lane.request()
            dict(request)
            sent.append((lane, request))
    finally:
        provider.chance.shuffle(sent)
        for lane, request in sent:
            way = provider.chance.random()
            if way < 0.6:
                lane.receive(provider.reply(request, provider.chance.randrange(10**9)), request)
            elif way < 0.8:
                provider.bill(request)
                lane.failed(TimeoutError(), request)
            elif way < 0.9:
                lane.failed(StatusError(), request)
            else:
                provider.bill(request)
                lane.failed("broke off", request, has_begun=True)


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:.*so its output is capped")
def test_no_run_exceeds_its_budget(request: pytest.FixtureRequest) -> None:
    for seed in range(FULL_RUNS if request.config.getoption("--full") else RUNS):
        run(seed)
