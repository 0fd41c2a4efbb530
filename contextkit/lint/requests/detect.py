"""The request detector: captured calls in, findings out, as they come.

Takes calls with recorded bodies and the hazards of a catalogue; groups the calls into conversations, lets the judge say
what each lost, compares it with the call that the judge compares it with, asks the rules. Keeps the last call of each
conversation whole and of those before it the blocks, which they share. Knows no rule by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from contextkit.errors import UnreadableRequest
from contextkit.ledger.calls import INFERRED_LANE, Bodies, ModelCall
from contextkit.ledger.causes import NO_REMARKS
from contextkit.ledger.parsed_call import RECENT, ParsedCall, compare, nearest, parse_call, reach_of, slim
from contextkit.ledger.verdict import Verdict
from contextkit.lint.finding import Finding
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.judged import CAUSES_OF_LEVELS, Loss, RequestJudge, has_lost_nothing, stored_verdict
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
from contextkit.lint.requests.rule import Calls, Change, Evidence, Step
from contextkit.prompt.conversations import Conversations, Placement
from contextkit.providers.histories import named_in
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
    remarks: Mapping[str, Mapping[str, str]] | None = None,
    has_costs: bool = True,
) -> Iterator[Finding]:
    """Findings of a recording, call by call; those of whole sessions at the end.

    `verdicts` maps ids of calls to the provider's own diagnosis (`verdict_of` reads it from a response), `rerouted`
    to the hosts between which an aggregator moved (`alpha → beta`), `remarks` to what happened between the call and the
    one before, by kind of remark (`KINDS_BEFORE_CALL`). Calls without a recorded body are passed over.
    """
    detector = Detector(hazards, verdicts=verdicts, rerouted=rerouted, remarks=remarks, has_costs=has_costs)
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
        remarks: Mapping[str, Mapping[str, str]] | None = None,
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
        self._verdicts = verdicts if verdicts is not None else {}  # all three may be filled as records come
        self._rerouted = rerouted if rerouted is not None else {}
        self._remarks = remarks if remarks is not None else {}
        self._judge = RequestJudge() if has_costs else None
        self._conversations = Conversations[ParsedCall]()
        self._earlier: dict[int, list[ParsedCall]] = {}
        """`id` of a conversation → its calls so far, without raw bytes."""
        self._calls: list[ParsedCall] = []
        self._places: dict[int, tuple[str, int]] = {}

    def feed(self, recorded: ModelCall) -> Iterator[Finding]:
        """The findings of one call, compared with an earlier one."""
        try:
            verdict, rerouted = self._verdicts.get(recorded.id, ""), self._rerouted.get(recorded.id, "")
            call = parse_call(recorded, self._near(recorded), index=self.n_calls, verdict=verdict, rerouted=rerouted)
        except UnreadableRequest as fault:
            self.n_unreadable += 1
            yield unreadable(recorded, fault.path, fault.what, self.n_calls + self.n_unreadable)
            return
        if call is None:
            self.n_skipped += 1
            return
        self.n_calls += 1
        self.unlisted_fields += self._unlisted.new(call.endpoint, call.params)
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
        told = self._verdict_on(call, step, place[0])
        step = None if step is None else replace(step, verdict=told)
        loss = None if told is None else Loss(told, call)
        compared = self._compared(call, step, told, place[1])
        named = [] if compared is None or (told is not None and has_lost_nothing(told)) else self._named(compared)
        rules = () if step is None else self._rules.on("step")
        evidence = [(rule, one) for rule in rules for one in evidence_of(rule, step)]
        if compared is not None:
            yield from self._of_changes(compared, named, place[0], loss, evidence)
        if step is not None:
            yield from self._of_step(step, evidence, place[0], loss, is_counted=bool(named))

    def _verdict_on(self, call: ParsedCall, step: Step | None, conversation: str) -> Verdict | None:
        """Return the verdict on a call; None where nothing says what it could have read."""
        if self._judge is None:
            return None
        if named_in(call.params) is not None:
            return None if step is None else stored_verdict(step)
        return self._judge.feed(call, conversation, self._remarks.get(call.call.id, NO_REMARKS))

    def _compared(self, call: ParsedCall, step: Step | None, told: Verdict | None, turn: int) -> Step | None:
        """The call beside the one that the judge compares it with, where that is another one than the call before."""
        earlier = self._calls[int(told.earlier_id)] if told is not None and told.earlier_id else None
        if earlier is None or (step is not None and (step.before.index == earlier.index or not step.changes)):
            return step
        if step is None and not (told and told.is_miss):
            return None
        changes = compare(earlier, call)
        if not changes:
            return step
        own = tuple(sent for sent in step.earlier if sent.index < earlier.index) if step else ()
        return Step(earlier, call, turn, changes, (*own, earlier), told)

    def _near(self, call: ModelCall) -> ParsedCall | None:
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

    def _of_call(self, call: ParsedCall, session: str, turn: int) -> Iterator[Finding]:
        for rule in self._rules.on("call"):
            for evidence in evidence_of(rule, call):
                yield finding_of(rule, evidence, call, session, turn)

    def _named(self, step: Step) -> list[tuple[Change, tuple[HazardRule, Evidence] | None]]:
        """The changes that broke the prefix, each with the rule that knows it: those of blocks that were cached, and the
        first one of all where the judge says that changed bytes are a miss.
        """
        told = step.verdict
        is_miss = told is not None and told.is_miss and any(gap.whose == "program_bytes" for gap in told.gaps)
        rules = self._rules.on("change")
        return [
            (change, _named(rules, step, change))
            for change in step.changes
            if change.is_cached or (change.is_first and is_miss)
        ]

    def _of_changes(
        self,
        step: Step,
        named: Iterable[tuple[Change, tuple[HazardRule, Evidence] | None]],
        session: str,
        loss: Loss | None,
        evidence_of_step: Iterable[tuple[HazardRule, Evidence]],
    ) -> Iterator[Finding]:
        """Changes in their order; the first bears what changed bytes have lost."""
        has_breakpoint_rule = any(rule.hazard.level == "breakpoints" for rule, _ in evidence_of_step)
        for change, named_rule in named:
            tokens, usd = _share(loss, change, has_breakpoint_rule=has_breakpoint_rule)
            if named_rule:
                yield finding_of(*named_rule, step.after, session, step.turn, change, tokens, usd)
            elif change.is_first:
                yield unnamed(step, change, session, tokens, usd)

    def _of_step(
        self,
        step: Step,
        evidence_of_rules: Iterable[tuple[HazardRule, Evidence]],
        session: str,
        loss: Loss | None,
        *,
        is_counted: bool,
    ) -> Iterator[Finding]:
        """What the step shows as a whole; the first finding of a kind bears the gaps of that kind."""
        for rule, evidence in evidence_of_rules:
            tokens, usd = _cost_of_step_rule(loss, rule, is_counted=is_counted)
            yield finding_of(rule, evidence, step.after, session, step.turn, None, tokens, usd)


def _step(placement: Placement[ParsedCall], call: ParsedCall, earlier: Sequence[ParsedCall]) -> Step | None:
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


def _cost_of_step_rule(loss: Loss | None, rule: HazardRule, *, is_counted: bool) -> tuple[int | None, float | None]:
    """Tokens and dollars of a finding about a whole step, None where unknown.

    `is_counted` says that a changed block was found. What the reference cache does not model, such as another host, loses
    nothing there: without a bill that is unknown.
    """
    if loss is None:
        return None, None
    tokens = loss.take(CAUSES_OF_LEVELS.get(rule.hazard.level, ()))
    if not tokens and not is_counted and loss.verdict.read is None:
        return None, None
    return tokens, loss.usd(tokens)


def _share(loss: Loss | None, change: Change, *, has_breakpoint_rule: bool) -> tuple[int | None, float | None]:
    if loss is None:
        return None, None
    tokens = loss.take_changed(has_breakpoint_rule=has_breakpoint_rule) if change.is_first else 0
    return tokens, loss.usd(tokens)
