"""How often recorded sessions repeat themselves, and with results told in other forms: `python -m
tests.benchmarks.variation DATA`.

DATA holds `pi/`, `agent-traces/` and `tau-bench/`. A step is a call with its result; it repeats where its words,
numbers aside, look like those of one of the six steps before. Every session is said again through `Context`: as it was,
with a variation that acts in a rut only, and with one that always acts. The last columns are what moved (requests that
do not begin with the bytes of the request before), the results that did not come back exactly, and the input tokens the
other forms add. The replies are the recorded ones: whether a model would have left the rut cannot be read from a
recording."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contextkit.canonical import parse
from contextkit.context import Context
from contextkit.importers.recording import Recording
from contextkit.log.variation import Variation, repetition
from contextkit.providers.request import Request
from tests.benchmarks.recordings import recordings
from tests.benchmarks.replay import Replay, ReplayClock, direct, provider_of

MODEL = "claude-sonnet-5-5"
WAYS = {"as recorded": None, "in a rut": Variation(seed=1), "always": Variation(seed=1, is_always=True)}


@dataclass
class Watch:
    """Looks at every request before it leaves."""

    before: bytes = b""
    epoch: int = 0
    n_moved: int = 0
    n_tokens: int = 0

    def __call__(self, request: Request) -> None:
        layout = request.layout
        sent = bytes(layout.columns.wire[: layout.columns.ends[layout.n - 1]])
        if request.epoch == self.epoch:
            self.n_moved += not sent.startswith(self.before)
        self.before, self.epoch = sent, request.epoch
        self.n_tokens += layout.columns.ends_tokens[layout.n - 1]


@dataclass
class Tally:
    """The sessions of a group, told one way."""

    n_steps: int = 0
    n_repeated: int = 0
    n_moved: int = 0
    n_changed: int = 0
    n_tokens: int = 0

    def add(self, context: Context, watch: Watch, plain: Context) -> None:
        found = repetition(context.log)
        self.n_steps, self.n_repeated = self.n_steps + found.n_steps, self.n_repeated + found.n_repeated
        self.n_moved, self.n_tokens = self.n_moved + watch.n_moved, self.n_tokens + watch.n_tokens
        pairs = zip(plain.log, context.log, strict=True)
        self.n_changed += sum(
            context.restore(two) != parse(one.body)["content"] for one, two in pairs if one.kind == "result"
        )


def said(recording: Recording, variation: Variation | None) -> tuple[Context, Watch]:
    build, watch = provider_of("anthropic"), Watch()
    with direct("anthropic_messages") as road:
        replay = Replay(
            recording, lambda level: build(MODEL, level), road, ReplayClock(), observe=watch, variation=variation
        )
        return replay.run()[0], watch


def tallies(data: Path) -> Iterator[tuple[str, dict[str, Tally]]]:
    groups: dict[str, dict[str, Tally]] = {}
    for group, recording in recordings(data):
        ways = groups.setdefault(group, {name: Tally() for name in WAYS})
        plain, _ = said(recording, None)
        for name, variation in WAYS.items():
            ways[name].add(*said(recording, variation), plain)
    yield from groups.items()


def main() -> None:
    data = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data")
    if not data.is_dir():
        sys.exit(f"no folder {data}")
    print(f"{'':<12}{'results told':<14}{'steps':>6}{'repeated':>10}{'rate':>8}{'moved':>7}{'differ':>8}{'input':>9}")
    for group, ways in tallies(data):
        tokens = ways["as recorded"].n_tokens
        for name, tally in ways.items():
            rate, more = tally.n_repeated / tally.n_steps, tally.n_tokens / tokens - 1
            print(
                f"{group:<12}{name:<14}{tally.n_steps:>6}{tally.n_repeated:>10}{rate:>8.1%}{tally.n_moved:>7}{tally.n_changed:>8}{more:>9.2%}"
            )


if __name__ == "__main__":
    main()
