"""Generated sessions: what is sent call by call, how long its parts are, and how such sessions go on.

Bodies are skeletons: every block says its number, and how many tokens it stands for is in a table. Where marks go
depends on structure alone, so whoever marks bodies marks these."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.economics.rhythm import SIZES, Prior
from contextkit.models import Model, model_named
from contextkit.prompt.prompt import PromptColumns
from contextkit.providers.anthropic.messages import parse

Json = Any
MODELS = ("claude-sonnet-5-5", "claude-opus-4-8", "claude-opus-4-5", "claude-fable-5-1", "claude-haiku-4-5")
_NUMBER = re.compile(rb"#(\d+)#")


@dataclass(frozen=True)
class Law:
    """How sessions of a kind go on: known to planner and oracle, and to nobody call by call."""

    ends: float
    """Share of calls after which nothing follows."""
    gaps: tuple[tuple[float, float], ...]
    """(share, seconds): within five minutes, within an hour, longer."""
    growths: tuple[tuple[float, float], ...]
    """(share, tokens) a turn adds."""

    @property
    def prior(self) -> Prior:
        """The same in the planner's words."""
        lapsed, dead = self.gaps[1][0], self.gaps[2][0]
        return Prior(
            ((0.0, 1.0), (300.0, lapsed + dead), (3600.0, dead)), self.growths, (1 - self.ends) / self.ends, 1.0, 1e9
        )


@dataclass(frozen=True)
class Call:
    """One request."""

    body: Json
    """Its skeleton."""
    lane: int
    """Calls of a lane extend each other."""
    previous: int
    """Segments before the last reply, so those of the request that it answers; 0 for none."""
    parent: int | None
    """The call whose entries it can read; None for none."""
    common: int
    """How many segments it shares with that call."""
    shared: int = 0
    """Segments siblings send too."""
    is_last: bool = False
    """Whether its lane is known to end with it: a side call, a sibling."""


@dataclass(frozen=True)
class Session:
    """Calls in the order they are made."""

    name: str
    model: Model
    law: Law
    sizes: tuple[int, ...]
    """Tokens of each numbered block."""
    calls: tuple[Call, ...]
    kinds: frozenset[str] = field(default_factory=frozenset)
    """What happens in it."""

    @cached_property
    def prompts(self) -> tuple[PromptColumns, ...]:
        """What the cache sees of each call."""
        return tuple(sized(parse(call.body).layout.columns, self.sizes) for call in self.calls)

    @cached_property
    def numbers(self) -> tuple[dict[int, int], ...]:
        """For each call, the segment of each numbered block."""
        return tuple({_number(columns.body(place)): place for place in range(len(columns))} for columns in self.prompts)

    @cached_property
    def commons(self) -> tuple[tuple[int, ...], ...]:
        """For each call, how many segments it shares with each call before it."""
        all_digests = [columns.digests for columns in self.prompts]
        return tuple(
            tuple(_common(one, other) for other in all_digests[:index]) for index, one in enumerate(all_digests)
        )

    def shared_later(self, index: int) -> int:
        """Segments that some later call shares with this one: all of them where one goes on from its end."""
        return max((self.commons[later][index] for later in range(index + 1, len(self.calls))), default=0)

    def prompt(self, index: int, marks: tuple[Breakpoint, ...]) -> Prompt:
        """Call `index` with these marks."""
        return prompt_of(self.prompts[index], marks)


def _number(block: bytes) -> int:
    found = _NUMBER.search(block)
    return int(found[1]) if found else -1


def _common(one: list[bytes], other: list[bytes]) -> int:
    n = min(len(one), len(other))
    return next((i for i in range(n) if one[i] != other[i]), n)


def sized(columns: PromptColumns, sizes: tuple[int, ...]) -> PromptColumns:
    """The columns of a skeleton with the sizes its blocks stand for."""
    total, ends = 0, array("q")
    for index in range(len(columns)):
        number = _NUMBER.search(columns.body(index))
        total += sizes[int(number[1])] if number else 4
        ends.append(total)
    columns.ends_tokens = ends
    return columns


def prompt_of(columns: PromptColumns, marks: tuple[Breakpoint, ...]) -> Prompt:
    keys, ends = (b"t", b"s", b"m"), (columns.level_ends[0], columns.level_ends[1])
    return Prompt(keys, ends, columns.digests, columns.ends_tokens, columns.positions, marks, len(columns))


class Writer:
    """A session being written."""

    def __init__(self, seed: int) -> None:
        self.random, self.sizes, self.calls, self.kinds = Random(seed), list[int](), list[Call](), set[str]()
        self.model = self.random.choice(MODELS)
        self.law = law(self.random)
        self.head = {"model": self.model, "max_tokens": 64, **self.tools(), **self.system()}
        self.messages: list[Json] = [self.user()]
        self.n_lanes, self.last, self.lane = 1, None, 0
        self.ends: list[tuple[int, int]] = []

    def number(self, tokens: float) -> str:
        self.sizes.append(max(1, round(tokens)))
        return f"#{len(self.sizes) - 1}#"

    def text(self, tokens: float) -> Json:
        return {"type": "text", "text": self.number(tokens)}

    def tools(self) -> Json:
        n = self.random.choice((0, 1, 4, 12))
        sizes = [self.number(self.random.randint(60, 900)) for _ in range(n)]
        tools = [
            {"name": f"t{i}", "description": size, "input_schema": {"type": "object"}} for i, size in enumerate(sizes)
        ]
        return {"tools": tools} if tools else {}

    def system(self) -> Json:
        sizes = self.random.choice(((400,), (2_500,), (8_000,), (20_000, 3_000), (45_000,)))
        return {"system": [self.text(size * self.random.uniform(0.7, 1.3)) for size in sizes]}

    def grown(self) -> float:
        shares, tokens = zip(*self.law.growths, strict=True)
        return float(self.random.choices(tokens, shares)[0]) * self.random.uniform(0.6, 1.4)

    def user(self) -> Json:
        n = self.random.choice((1, 1, 1, 2, 26)) if self.random.random() < 0.25 else 1
        tokens = self.grown() / 2
        return {"role": "user", "content": [self.text(tokens / n) for _ in range(n)]}

    def turn(self) -> None:
        """A reply and what follows it: an answer, or calls and their results."""
        n, tokens = self.random.choice((0, 0, 1, 1, 3, 8, 30)), self.grown()
        if n == 0:
            self.messages += [{"role": "assistant", "content": [self.text(tokens / 3)]}, self.user()]
            return
        said: list[Json] = [self.text(tokens / 10)]
        done: list[Json] = []
        for index in range(n):
            name = f"c{len(self.sizes)}_{index}"
            said.append({"type": "tool_use", "id": name, "name": "t0", "input": {"n": self.number(tokens / 10 / n)}})
            done.append({"type": "tool_result", "tool_use_id": name, "content": [self.text(0.8 * tokens / n)]})
            if n == 30 and self.random.random() < 0.9:  # thoughts between calls: many positions
                said.append(self.text(tokens / 100))
        if n == 30:
            self.kinds.add("wide")
        self.messages += [{"role": "assistant", "content": said}, {"role": "user", "content": done}]

    def ask(self, messages: list[Json], lane: int, parent: int | None, **more: Any) -> int:
        body = {**self.head, "messages": list(messages)}
        common = shared_segments(self.calls[parent].body, body) if parent is not None else 0
        self.calls.append(Call(body, lane, before_reply(body), parent, common, **more))
        return len(self.calls) - 1

    def go(self) -> None:
        """The next request of the main lane."""
        self.last = self.ask(self.messages, self.lane, self.last)
        self.ends.append((len(self.messages), self.last))

    def aside(self, whole: bool) -> None:
        """A side call: a title for the first message, or a question about all of it."""
        self.kinds.add("side")
        base = self.messages if whole else self.messages[:1]
        question = {"role": "user", "content": [self.text(60)]}
        self.n_lanes += 1
        self.ask(
            [*base, {"role": "assistant", "content": [self.text(80)]}, question], self.n_lanes, self.last, is_last=True
        )

    def back(self) -> None:
        """Undo: go on from where an earlier request ended, with other words."""
        self.kinds.add("fork")
        length, index = self.random.choice(self.ends[-3:])
        self.messages = [*self.messages[:length], {"role": "assistant", "content": [self.text(200)]}, self.user()]
        self.n_lanes += 1
        self.lane, self.last = self.n_lanes, index

    def fan(self, n: int) -> None:
        """Siblings from here, each with its own task."""
        self.kinds.add("fan")
        shared = [*self.messages, {"role": "assistant", "content": [self.text(150)]}]
        n_shared = n_segments({**self.head, "messages": shared})
        for _ in range(n):
            self.n_lanes += 1
            task = {"role": "user", "content": [self.text(self.random.randint(40, 400))]}
            self.ask([*shared, task], self.n_lanes, self.last, shared=n_shared, is_last=True)


def n_segments(body: Json) -> int:
    return (
        len(body.get("tools", ())) + len(body["system"]) + sum(len(message["content"]) for message in body["messages"])
    )


def before_reply(body: Json) -> int:
    """Segments of the request that the last reply answers."""
    last = next(
        (i for i in range(len(body["messages"]) - 1, -1, -1) if body["messages"][i]["role"] == "assistant"), None
    )
    return 0 if last is None else n_segments({**body, "messages": body["messages"][:last]})


def shared_segments(one: Json, other: Json) -> int:
    """Leading segments two skeletons share."""
    heads = len(one.get("tools", ())) + len(one["system"])
    for first, second in zip(one["messages"], other["messages"], strict=False):
        same = next(
            (i for i, (a, b) in enumerate(zip(first["content"], second["content"], strict=False)) if a != b), None
        )
        heads += min(len(first["content"]), len(second["content"])) if same is None else same
        if same is not None or len(first["content"]) != len(second["content"]):
            break
    return heads


LAWS = (  # share of gaps within five minutes, within an hour, longer; share of calls that are the last
    ((0.95, 0.04, 0.01), 0.02),
    ((0.90, 0.08, 0.02), 0.05),
    ((0.75, 0.22, 0.03), 0.08),
    ((0.45, 0.50, 0.05), 0.10),
    ((0.35, 0.60, 0.05), 0.10),
    ((0.97, 0.02, 0.01), 0.20),
    ((0.90, 0.05, 0.05), 0.40),
    ((0.08, 0.02, 0.90), 0.10),
    ((0.9, 0.05, 0.05), 0.85),
)
_KINDS_OF_GROWTH = (
    ((0.66, 445.0), (0.26, 1_900.0), (0.07, 6_900.0), (0.01, 24_000.0), (0.0, 64_000.0)),
    ((0.2, 600.0), (0.6, 2_200.0), (0.2, 9_000.0), (0.0, 16_000.0), (0.0, 64_000.0)),
    ((0.9, 250.0), (0.1, 1_500.0), (0.0, 4_000.0), (0.0, 16_000.0), (0.0, 64_000.0)),
)
assert all(len(kind) == len(SIZES) for kind in _KINDS_OF_GROWTH)


def law(random: Random) -> Law:
    shares, ends = random.choice(LAWS)
    seconds = (random.choice((8.0, 25.0, 70.0)), random.choice((420.0, 900.0, 2_400.0)), 5_000.0)
    return Law(ends, tuple(zip(shares, seconds, strict=True)), random.choice(_KINDS_OF_GROWTH))


def generated(seed: int) -> Session:
    """Session number `seed`: six to a dozen calls, and a last word; every fifth is shorter, from two calls on."""
    writer = Writer(seed)
    random = writer.random
    writer.go()
    n = random.randint(5, 8)
    for _ in range(seed // 5 % 5 if seed % 5 == 3 else n):
        event = random.random()
        if len(writer.calls) > 8:
            break
        if event < 0.12:
            writer.aside(random.random() < 0.5)
        elif event < 0.20 and len(writer.calls) < 5:
            writer.fan(random.randint(2, 3))
        elif event < 0.30 and len(writer.ends) > 1:
            writer.back()
            writer.go()
            continue
        writer.turn()
        writer.go()
    writer.messages += [
        {"role": "assistant", "content": [writer.text(15)]},
        {"role": "user", "content": [writer.text(5)]},
    ]
    writer.go()
    return Session(
        f"s{seed}",
        model_named(writer.model),
        writer.law,
        tuple(writer.sizes),
        tuple(writer.calls),
        frozenset(writer.kinds),
    )
