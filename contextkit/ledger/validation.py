"""How well the cache rules predict recorded bills: each call is predicted before its bill is looked at, then scored.

Takes records, gives a `Scoreboard`. What a call reads is predicted from the bills of the calls before it in its lane,
from the times, and from what the record says of the call itself: its prompt where it was recorded, else its size; a
compaction, another model, an event of the client. Its own split into read and written is never among them. Beside the
prediction stands the trivial one: everything that was sent before is read.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median

from contextkit.canonical import Json, canonical
from contextkit.ledger.calls import Bodies, ModelCall, Record
from contextkit.ledger.causes import CallPair, cause_of_miss, gap_seconds, ttl_seconds
from contextkit.ledger.misses import LedgerAnalyzer, Prediction, complete_usage
from contextkit.ledger.prompts import read_body
from contextkit.ledger.verdict import is_shortfall
from contextkit.models import model_named

GAPS = ((0.0, 0.8), (0.8, 0.9), (0.9, 1.0), (1.0, 1.1), (1.1, 1.33), (1.33, float("inf")))
"""Pauses, in parts of a lifetime, of which hits and misses are counted."""


@dataclass(frozen=True, slots=True)
class Score:
    """The predictions for one model in one month, or for all."""

    source: str
    """Agent program that wrote the recording, or its format."""
    model: str
    """Model."""
    month: str
    """`2026-07`, by UTC."""
    calls: int
    """Calls that have one before them in their lane, and something to read."""
    misses: int
    """How many of them missed, by their bills."""
    agreed: int
    """How many were predicted to hit, or to miss, as they did."""
    agreed_trivial: int
    """How many hit, as the trivial prediction says of all."""
    median_error: float
    """Median of |predicted − read| / read, over calls; 1 where something was predicted and nothing read."""
    median_error_trivial: float
    """The same of the trivial prediction."""
    read_tokens: int
    """Billed as read."""
    predicted_tokens: int
    """Predicted to be."""
    predicted_tokens_trivial: int
    """Predicted to be by the trivial prediction."""

    @property
    def agreement(self) -> float | None:
        """Share of the calls predicted right; None where there is none."""
        return self.agreed / self.calls if self.calls else None

    @property
    def agreement_trivial(self) -> float | None:
        """The same of the trivial prediction."""
        return self.agreed_trivial / self.calls if self.calls else None


@dataclass(frozen=True, slots=True)
class Deviation:
    """One way in which bills and predictions differ."""

    source: str
    """Agent program that wrote the recording, or its format."""
    kind: str
    """What happened: `missed, hit predicted` or `hit, miss predicted`."""
    cause: str
    """The cause of the miss: found afterwards, or predicted."""
    calls: int
    """How many calls."""
    tokens: int
    """By how many tokens they differ together."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Hits and misses behind pauses of a length, where nothing but time could have made a difference."""

    source: str
    """Agent program that wrote the recording, or its format."""
    ttl_seconds: int
    """The lifetime as documented, or as billed; where neither is known, as a planner assumes it."""
    least: float
    """Shortest pause, from the end of the call before, in lifetimes."""
    most: float
    """Longest."""
    hits: int
    """Calls that read."""
    misses: int
    """Calls that did not."""


@dataclass(frozen=True, slots=True)
class Size:
    """Prompts whose request bodies were recorded: their tokens as counted here and as billed."""

    model: str
    """Model."""
    has_tools: bool
    """Whether the requests list tools; providers add a prompt of their own to those, and the results of tools they run."""
    calls: int
    """How many."""
    median_ratio: float
    """Median of counted / billed, over calls."""
    median_difference: float
    """Median of counted − billed, in tokens."""


@dataclass(frozen=True, slots=True)
class Scoreboard:
    """Everything."""

    total: Score
    """All calls."""
    sources: tuple[Score, ...]
    """A row a program or format."""
    scores: tuple[Score, ...]
    """A row a program, model and month."""
    deviations: tuple[Deviation, ...]
    """Where bills and predictions differ, the most tokens first."""
    lifetimes: tuple[Lifetime, ...]
    """How long entries lived."""
    sizes: tuple[Size, ...]
    """A row a model, with and without tools, of calls whose bodies were recorded."""
    calls: int
    """Calls in the recordings."""
    calls_without_bill: int
    """How many of them do not say what their prompt was billed, so that there is nothing to score."""
    calls_silent: int
    """How many had something to read at a host that has reported no read so far: what they read is unknown, and they are
    not scored."""

    def to_json(self) -> str:
        """All of it, as one JSON object."""
        return canonical(
            {
                "format": 1,
                "total": _score_json(self.total),
                "sources": [*map(_score_json, self.sources)],
                "scores": [*map(_score_json, self.scores)],
                "deviations": [asdict(one) for one in self.deviations],
                "lifetimes": [
                    {**asdict(one), "most": None if one.most == float("inf") else one.most} for one in self.lifetimes
                ],
                "sizes": [asdict(one) for one in self.sizes],
                "calls": self.calls,
                "calls_without_bill": self.calls_without_bill,
                "calls_silent": self.calls_silent,
            }
        ).decode()


def _score_json(score: Score) -> dict[str, Json]:
    return {**asdict(score), "agreement": score.agreement, "agreement_trivial": score.agreement_trivial}


@dataclass(slots=True)
class _Sums:
    """A score that grows."""

    counts: Counter[str] = field(default_factory=Counter)
    errors: array[float] = field(default_factory=lambda: array("d"))
    errors_trivial: array[float] = field(default_factory=lambda: array("d"))

    def score(self, source: str, model: str, month: str) -> Score:
        counts = self.counts
        return Score(
            source=source,
            model=model,
            month=month,
            calls=len(self.errors),
            misses=counts["misses"],
            agreed=counts["agreed"],
            agreed_trivial=len(self.errors) - counts["misses"],
            median_error=median(self.errors) if self.errors else 0.0,
            median_error_trivial=median(self.errors_trivial) if self.errors else 0.0,
            read_tokens=counts["read"],
            predicted_tokens=counts["predicted"],
            predicted_tokens_trivial=counts["trivial"],
        )


class Validation:
    """Scores records as they come."""

    def __init__(self) -> None:
        self._analyzer = LedgerAnalyzer(self._examine)
        self._sums: defaultdict[tuple[str, str, str], _Sums] = defaultdict(_Sums)
        self._deviations: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        self._lifetimes: defaultdict[tuple[str, int, int], Counter[bool]] = defaultdict(Counter)
        self._source, self._calls, self._without_bill, self._silent = "", 0, 0, 0
        self._programs: dict[str, str] = {}
        self._sizes: defaultdict[tuple[str, bool], list[tuple[int, int]]] = defaultdict(list)

    def add(self, source: str, records: Iterable[Record]) -> None:
        """The records of a file of the format `source`."""
        self._source = source
        for record in records:
            if isinstance(record, ModelCall):
                self._calls += 1
                self._without_bill += record.usage is None
                self._add_size(record)
            elif record.kind == "program":
                self._programs[record.about] = record.text
            self._analyzer.feed(record)

    def _add_size(self, call: ModelCall) -> None:
        usage = complete_usage(call)
        if not isinstance(call.prompt, Bodies) or usage is None or not usage.prompt:
            return
        body = read_body(call.prompt.request, call.provider, call.model)
        if body is not None:
            sizes = self._sizes[call.model, body.prompt.level_ends[0] > 0]
            sizes.append((body.prompt.n_tokens, usage.prompt))

    def _examine(self, prediction: Prediction) -> None:
        if prediction.is_silent:
            self._silent += 1
            return
        pair, expected = prediction.pair, prediction.expected_tokens
        call, read = prediction.now.call, prediction.now.usage.read or 0
        source = self._programs.get(call.session, self._source)
        predicted, cause = prediction.read_tokens, prediction.cause
        trivial = prediction.trivial_tokens
        is_miss, is_predicted = is_shortfall(expected, read), is_shortfall(expected, predicted)
        month = datetime.fromtimestamp(call.at, UTC).strftime("%Y-%m")
        for key in (
            (source, call.model, month),
            (source, "all", ""),
            ("all", "all", ""),
        ):
            sums = self._sums[key]
            sums.counts.update(
                misses=is_miss, agreed=is_miss == is_predicted, read=read, predicted=predicted, trivial=trivial
            )
            sums.errors.append(abs(predicted - read) / (read or predicted or 1))
            sums.errors_trivial.append(abs(trivial - read) / (read or trivial or 1))
        if is_miss != is_predicted:
            kind = "missed, hit predicted" if is_miss else "hit, miss predicted"
            told = cause_of_miss(pair, expected)[0] if is_miss and pair else str(cause)
            self._deviations[source, kind, told].update(calls=1, tokens=abs(predicted - read))
        if pair and cause in (None, "ttl_expired"):
            self._add_lifetime(source, pair, is_miss=is_miss)

    def _add_lifetime(self, source: str, pair: CallPair, *, is_miss: bool) -> None:
        ttl, is_billed = ttl_seconds(pair)
        if not (is_billed or pair.row is None or pair.row.is_lifetime_documented):
            ttl = model_named(pair.now.call.model, pair.now.call.provider).default_ttl_seconds
        part = gap_seconds(pair)[1] / ttl
        index = next((i for i, (least, most) in enumerate(GAPS) if least <= part < most), None)
        if index is not None:
            self._lifetimes[source, ttl, index][is_miss] += 1

    def scoreboard(self) -> Scoreboard:
        """The scores so far."""
        scores = [self._sums[key].score(*key) for key in sorted(self._sums)]
        total = next((score for score in scores if score.source == "all"), _Sums().score("all", "all", ""))
        deviations = [
            Deviation(*key, counts["calls"], counts["tokens"]) for key, counts in sorted(self._deviations.items())
        ]
        return Scoreboard(
            total=total,
            sources=tuple(score for score in scores if score.source != "all" and score.model == "all"),
            scores=tuple(score for score in scores if score.model != "all"),
            deviations=tuple(sorted(deviations, key=lambda one: (one.source, -one.tokens))),
            lifetimes=tuple(
                Lifetime(source, ttl, *GAPS[index], counts[False], counts[True])
                for (source, ttl, index), counts in sorted(self._lifetimes.items())
            ),
            sizes=tuple(
                Size(
                    model,
                    has_tools,
                    len(sizes),
                    median(counted / billed for counted, billed in sizes),
                    median(counted - billed for counted, billed in sizes),
                )
                for (model, has_tools), sizes in sorted(self._sizes.items())
            ),
            calls=self._calls,
            calls_without_bill=self._without_bill,
            calls_silent=self._silent,
        )


def validate(recordings: Sequence[tuple[str, Iterable[Record]]]) -> Scoreboard:
    """Score recordings, given as (format, records).

    >>> validate([]).total.calls
    0
    """
    validation = Validation()
    for source, records in recordings:
        validation.add(source, records)
    return validation.scoreboard()
