"""The request detector: captured calls in, findings out, as they come.

Takes calls with recorded bodies and the hazards of a catalogue; groups the calls into conversations, compares each
with the one before it, asks the rules, prices what they found. Keeps the last call of each conversation whole and of
those before it the blocks, which they share. Knows no rule by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from contextkit.errors import UnreadableRequest
from contextkit.ledger.calls import INFERRED_LANE, Bodies, ModelCall
from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.cost import Cost, Costs
from contextkit.lint.requests.cut import RECENT, compare, cut, nearest, reach_of, slim
from contextkit.lint.requests.naming import (
    Group,
    HazardRule,
    Rules,
    agreement,
    evidence_of,
    finding_of,
    grouped,
    unnamed,
    unreadable,
    verdict_of,
)
from contextkit.lint.requests.rule import Calls, Change, Evidence, RecordedCall, Step
from contextkit.prompt.conversations import Conversations, Placement
from contextkit.providers.request_fields import UnlistedFields

__all__ = [
    "Calls",
    "Detector",
    "Group",
    "agreement",
    "compare",
    "find_in_requests",
    "grouped",
    "reach_of",
    "verdict_of",
]


def find_in_requests(
    calls: Iterable[ModelCall],
    hazards: Iterable[Hazard],
    *,
    verdicts: Mapping[str, str] | None = None,
    rerouted: Mapping[str, str] | None = None,
    has_costs: bool = True,
) -> Iterator[Finding]:
    """Findings of a recording, call by call; those of whole sessions at the end.

    `verdicts` maps ids of calls to the provider's own diagnosis (`verdict_of` reads it from a response), `rerouted`
    to the hosts between which an aggregator moved (`alpha → beta`). Calls without a recorded body are passed over.
    """
    detector = Detector(hazards, verdicts=verdicts, rerouted=rerouted, has_costs=has_costs)
    for call in calls:
        yield from detector.feed(call)
    yield from detector.finish()


class Detector:
    """The detector under way: for whoever has one call at a time."""

    def __init__(
        self,
        hazards: Iterable[Hazard],
        *,
        verdicts: Mapping[str, str] | None = None,
        rerouted: Mapping[str, str] | None = None,
        has_costs: bool = True,
    ) -> None:
        self.n_calls = 0
        """Calls looked at."""
        self.n_skipped = 0
        """Calls without a recorded body, or whose body is no model call."""
        self.n_unreadable = 0
        """Bodies that could not be read: one `CK000` each."""
        self.unlisted_fields: list[str] = []
        """A sentence for each request field that no table lists, once."""
        self._unlisted = UnlistedFields()
        self._rules = Rules(hazards)
        self._verdicts = verdicts if verdicts is not None else {}  # both may be filled as records come
        self._rerouted = rerouted if rerouted is not None else {}
        self._costs = Costs() if has_costs else None
        self._conversations = Conversations[RecordedCall]()
        self._earlier: dict[int, list[RecordedCall]] = {}
        """`id` of a conversation → its calls so far, without raw bytes."""
        self._calls: list[RecordedCall] = []
        self._places: dict[int, tuple[str, int]] = {}

    def feed(self, recorded: ModelCall) -> Iterator[Finding]:
        """The findings of one call, compared with the call before it in its conversation."""
        try:
            verdict, rerouted = self._verdicts.get(recorded.id, ""), self._rerouted.get(recorded.id, "")
            call = cut(recorded, self._near(recorded), index=self.n_calls, verdict=verdict, rerouted=rerouted)
        except UnreadableRequest as fault:
            self.n_unreadable += 1
            yield unreadable(recorded, fault.path, fault.what, self.n_calls + self.n_unreadable)
            return
        if call is None:
            self.n_skipped += 1
            return
        self.n_calls += 1
        self.unlisted_fields += self._unlisted.new(call.wire, call.params)
        pool = _pool_of(recorded)
        placement = self._conversations.place(call, pool)
        conversation = placement.conversation
        earlier = self._earlier.setdefault(id(conversation), [])
        step = _step(placement, call, earlier)
        self._calls.append(slim(call))
        earlier.append(self._calls[-1])
        place = _name_of(*pool, conversation.number), conversation.n_calls
        self._places[call.index] = place
        yield from self._of_call(call, *place)
        if step is not None:
            yield from self._of_step(step, place[0])

    def _near(self, call: ModelCall) -> RecordedCall | None:
        """The latest call that shares the most bytes with `call`: cutting can begin where they differ."""
        if not isinstance(call.prompt, Bodies):
            return None
        return nearest(self._conversations.recent(_pool_of(call), RECENT), call.prompt.request)

    def finish(self) -> Iterator[Finding]:
        """What all calls together show."""
        calls = Calls(self._calls, {index: name for index, (name, _) in self._places.items()})
        for rule in self._rules.on("session") if self._calls else ():
            for evidence in evidence_of(rule, calls):
                sent = evidence.sent or self._calls[-1]
                yield finding_of(rule, evidence, sent, *self._places[sent.index])

    def _of_call(self, call: RecordedCall, session: str, turn: int) -> Iterator[Finding]:
        for rule in self._rules.on("call"):
            for evidence in evidence_of(rule, call):
                yield finding_of(rule, evidence, call, session, turn)

    def _of_step(self, step: Step, session: str) -> Iterator[Finding]:
        """Changes in their order, then what the step shows as a whole.

        The first break bears the cost of the step's changes.
        """
        named = [
            (change, _named(self._rules.on("change"), step, change)) for change in step.changes if change.is_cached
        ]
        evidence_of_rules = [
            (rule, evidence) for rule in self._rules.on("step") for evidence in evidence_of(rule, step)
        ]
        cost = self._costs.of(step) if self._costs and (named or evidence_of_rules) else None
        if cost is not None and cost.is_same:
            named = []
        for change, named_rule in named:
            tokens, usd = _share(cost, change)
            if named_rule:
                yield finding_of(*named_rule, step.after, session, step.turn, change, tokens, usd)
            elif change.is_first:
                yield unnamed(step, change, session, tokens, usd)
        for rule, evidence in evidence_of_rules:
            tokens, usd = _cost_of_step_rule(cost, evidence, is_counted=bool(named and cost and cost.tokens))
            yield finding_of(rule, evidence, step.after, session, step.turn, None, tokens, usd)


def _step(placement: Placement[RecordedCall], call: RecordedCall, earlier: Sequence[RecordedCall]) -> Step | None:
    before = placement.before
    if before is None:
        return None
    return Step(before, call, placement.conversation.n_calls, compare(before, call), (*earlier[:-1], before))


def _pool_of(call: ModelCall) -> tuple[str, str]:
    """Session and lane as recorded; a lane that a reader inferred is matched again with those it was told from."""
    return call.session, "main" if call.lane.startswith(INFERRED_LANE) else call.lane


def _name_of(session: str, lane: str, number: int) -> str:
    """The name of a conversation: the session, its lane unless that is `main`, a number from the second on."""
    name = session or "unnamed"
    if lane not in ("", "main"):
        name = f"{name}/{lane}"
    return name if number == 1 else f"{name}#{number}"


def _named(rules: Sequence[HazardRule], step: Step, change: Change) -> tuple[HazardRule, Evidence] | None:
    """The first rule that knows a change, and why."""
    return next(((rule, evidence) for rule in rules for evidence in evidence_of(rule, step, change)), None)


def _cost_of_step_rule(cost: Cost | None, evidence: Evidence, *, is_counted: bool) -> tuple[int | None, float | None]:
    if cost is None:
        return evidence.lost_tokens, None
    tokens = cost.of_step_rule(evidence, is_counted)
    return tokens, None if tokens is None else cost.usd(tokens)


def _share(cost: Cost | None, change: Change) -> tuple[int | None, float | None]:
    if cost is None:
        return None, None
    tokens = cost.tokens if change.is_first else 0
    return tokens, cost.usd(tokens)
