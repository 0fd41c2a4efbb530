"""What the prompts of a test lose: its passes, judged by themselves and against the first one.

Inside a pass the judge of `contextkit report` compares a call with the earlier ones. The first call of each conversation of
a later pass is compared with its twin in the first pass: the program was the same, only the clock or the hash seed was not.
No call has a bill: what it would read is what the provider's rules let it read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from typing import Literal, get_args

from contextkit.cache_guard.recording import SentCall
from contextkit.errors import UnreadableRequest
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.changes.kinds import Kind
from contextkit.ledger.changes.settings import Setting
from contextkit.ledger.misses import MissDetector, priced_gaps, row_of_call
from contextkit.ledger.request_checks import CHECKS_BEFORE_SENDING
from contextkit.ledger.verdict import Cause, Gap, Verdict
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.requests.findings import all_codes
from contextkit.watcher.guard import parsed_body

Variant = Literal["first", "minute", "day", "seed"]
"""first: the test as it is; minute, day: the clock is moved so far at each request; seed: in a process with another hash
seed."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One run of a test."""

    name: Variant
    """What was changed for it."""
    calls: Sequence[SentCall]
    """Its calls in order."""
    findings: Sequence[Finding] = ()
    """What its requests show by themselves."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What one call loses, for one reason."""

    variant: Variant
    """The pass in which it shows."""
    number: int
    """Number of the call in its pass, from 1; 0 for a request that a provider refuses."""
    n_calls: int
    """Calls of the pass."""
    gap: Gap
    """Cause, place, both snippets and tokens."""
    code: str
    """Code of the rule; empty where there is none."""
    usd: float | None
    """What it costs; None where no price is known."""
    sent: SentCall
    """The call."""
    earlier: int = 0
    """Number of the call before it that it is compared with; 0 for its twin in the first pass, and where there is none."""

    @property
    def kind(self) -> str:
        """What a mark accepts it by."""
        return self.gap.kind or self.gap.cause


def losses(passes: Sequence[Pass]) -> list[Loss]:
    """Return what the calls of a test lose, one loss for each call and reason; `passes` begin with the first one."""
    found: list[Loss] = []
    for one in passes:
        shared = dict[int, int]()
        judged = {(loss.number, loss.kind): loss for loss in _inside(one, shared)}
        for loss in _against_first(passes[0], one, shared) if one is not passes[0] else ():
            before = judged.get((loss.number, loss.kind))
            if before is None or before.gap.tokens <= loss.gap.tokens:
                judged[loss.number, loss.kind] = loss
        found += judged.values()
    in_minute = {_key(loss) for loss in found if loss.variant != "day"}
    return [loss for loss in found if not _is_of_the_day(loss) or _key(loss) in in_minute]


def lost_tokens(found: Iterable[Loss]) -> int:
    """Return what one run loses, by the pass that loses most."""
    return round(max(_sums(found, lambda loss: loss.gap.tokens).values(), default=0))


def lost_usd(found: Iterable[Loss]) -> float | None:
    """Return what one run loses at list prices; None where a price is unknown."""
    every = list(found)
    if any(loss.usd is None for loss in every):
        return None
    return max(_sums(every, lambda loss: loss.usd or 0.0).values(), default=0.0)


def accepted_kinds() -> frozenset[str]:
    """Return what a mark can accept: kinds of change, settings, causes, checks, codes."""
    kinds = {*get_args(Kind), *get_args(Setting), *get_args(Cause), *CHECKS_BEFORE_SENDING}
    return frozenset(kinds | all_codes().hazards.keys())


def _sums(found: Iterable[Loss], size: Callable[[Loss], float]) -> Mapping[str, float]:
    sums: dict[str, float] = {}
    for loss in found:
        sums[loss.variant] = sums.get(loss.variant, 0) + size(loss)
    return sums


def _key(loss: Loss) -> tuple[str, str]:
    return loss.kind, re.sub(r"\[\d+\]| byte .*", "", loss.gap.place)


def _is_of_the_day(loss: Loss) -> bool:
    """Return whether a loss comes once a day: a date, or what differs as a clock does, and only from one day to the next."""
    return loss.kind == "date" or (loss.kind == "clock" and loss.variant == "day")


# One pass
# ----------------------------------------------------------------------------------------------------------------------

_VALUES = frozenset(
    {
        *("clock", "date", "id", "environment", "recall", "plan", "instruction_file", "volatile_end"),
        *("tool_order", "schema_order", "tool_description", "tool_catalogue", "reminder_in_system"),
    }
)
"""Kinds of change that are the program's between two conversations: a value, or an order. Other tools, or other
instructions, are another agent."""
_LEAST_CALLS = 3
"""A program that calls a model less often may call it too seldom for a cache."""
_MARKING: tuple[Cause, ...] = ("no_breakpoint", "breakpoint_place", "out_of_reach")
_SETTINGS: tuple[Cause, ...] = ("params_changed", "model_changed", "account_changed")


def _inside(one: Pass, shared: dict[int, int]) -> Iterator[Loss]:
    """Judge the calls of a pass in order; put the length that each shares with an earlier one into `shared`, by its number."""
    detector, sizes = MissDetector(), Counter[str]()
    numbers = {sent.call.id: number for number, sent in enumerate(one.calls, 1)}
    unread = Counter[str]()
    for number, sent in enumerate(one.calls, 1):
        session = sent.call.session
        sizes[session] += 1
        verdict = detector.judge(_with_body(sent))
        if verdict is None:
            continue
        shared[number] = verdict.shared or 0
        earlier = numbers.get(verdict.earlier_id, 0)
        is_own = bool(earlier) and one.calls[earlier - 1].call.session == session
        for gap, usd in _priced(verdict, sent):
            is_change = gap.whose == "program_bytes" and (is_own or gap.kind in _VALUES)
            is_setting = gap.cause in _SETTINGS and is_own and gap.tokens > 0
            is_unread = gap.cause in _MARKING and gap.tokens >= row_of_call(sent.call).min_tokens
            unread[gap.cause] += is_unread
            if is_change or is_setting or (is_unread and unread[gap.cause] >= _LEAST_CALLS - 1):
                yield _loss(one, number, gap, usd, earlier)
    for finding in one.findings:
        place = finding.place
        where, sender = (place.path, place.caller) if isinstance(place, RequestPlace) else (str(place), "")
        gap = Gap("program_use", "rules", 0, where, finding.message, kind=finding.code)
        yield Loss(one.name, 0, len(one.calls), gap, finding.code, None, SentCall(ModelCall(""), b"", sender))


# Two passes
# ----------------------------------------------------------------------------------------------------------------------


def _against_first(first: Pass, one: Pass, shared: Mapping[int, int]) -> Iterator[Loss]:
    """Judge the first call of each conversation of a pass as if its twin in the first pass had been sent before it.

    A call that shares more with an earlier one of its own pass has the same change, which costs once.
    """
    numbers = {id(sent): number for number, sent in enumerate(one.calls, 1)}
    for was, sent in _twins(_beginnings(first), _beginnings(one)):
        detector = MissDetector()
        for which in (was, sent):
            call = replace(which.call, id=str(id(which)), session="", host="", account="")
            verdict = detector.judge(_with_body(replace(which, call=call)))
        number = numbers[id(sent)]
        if verdict is None or shared.get(number, 0) > (verdict.shared or 0):
            continue
        for gap, usd in _priced(verdict, sent):
            least = row_of_call(sent.call).min_tokens
            is_head = gap.cause in ("tools_changed", "system_changed")
            is_front = gap.cause == "messages_changed" and gap.tokens >= least and not _has_replies(sent)
            is_unread = gap.cause in _MARKING and gap.cause != "no_breakpoint" and gap.tokens >= least
            if is_head or is_front or is_unread:
                yield _loss(one, number, gap, usd, 0)


def _beginnings(one: Pass) -> list[SentCall]:
    """Return the first call of each conversation."""
    return list({sent.call.session: sent for sent in reversed(one.calls)}.values())[::-1]


def _twins(first: Sequence[SentCall], later: Sequence[SentCall]) -> Iterator[tuple[SentCall, SentCall]]:
    """Pair calls of two passes that are not the same: those that are leave first, as calls that run side by side come in any
    order.
    """
    bodies = Counter(stable_body(sent.body) for sent in later)
    rest = []
    for sent in first:
        body = stable_body(sent.body)
        if bodies[body]:
            bodies[body] -= 1
        else:
            rest.append(sent)
    for sent in later:
        body = stable_body(sent.body)
        if bodies[body]:
            bodies[body] -= 1
            was = next((one for one in rest if one.call.model == sent.call.model), None)
            if was is not None:
                rest.remove(was)
                yield was, sent


def _has_replies(sent: SentCall) -> bool:
    """Return whether a request begins with a history: what a test puts into it may be of the test's own making."""
    try:
        return any(block.role in ("assistant", "model") for block in parsed_body(sent.body, "", at=0.0).blocks)
    except UnreadableRequest:
        return False


# Parts
# ----------------------------------------------------------------------------------------------------------------------

_FOLDERS = "|".join(
    {re.escape(json.dumps(str(path))[1:-1]) for path in (Path(gettempdir()), Path(gettempdir()).resolve())}
)
_SLASH = r"(?:/|\\\\)"
_TEMPORARY = re.compile(
    (
        rf"(?:[\w.:/\\-]*{_SLASH}pytest-of-[^/\\\"]+{_SLASH}pytest-\d+(?:{_SLASH}popen-gw\d+)?|(?:{_FOLDERS}){_SLASH}tmp\w{{8}}\b)"
        rf"(?:{_SLASH}[\w.\[\]-]*?\d+\b)?"
    ).encode()
)
"""Folder of one run of a test, as `tmp_path` and `tempfile` name it."""
_LOCAL_PORT = re.compile(rb"\b(127\.0\.0\.1|localhost):\d{4,5}\b")


def stable_body(body: bytes) -> bytes:
    """Return a body without the names that every run of a test has by itself: temporary folders, ports on loopback."""
    return _LOCAL_PORT.sub(rb"\1:0", _TEMPORARY.sub(b"TEMPORARY", body))


def _with_body(sent: SentCall) -> ModelCall:
    return replace(sent.call, prompt=Bodies(stable_body(sent.body)))


def _priced(verdict: Verdict, sent: SentCall) -> Iterator[tuple[Gap, float | None]]:
    """Yield the gaps that are the program's doing, with their price."""
    return (one for one in priced_gaps(verdict, sent.call) if one[0].whose in ("program_bytes", "program_use"))


def _loss(one: Pass, number: int, gap: Gap, usd: float | None, earlier: int) -> Loss:
    sent = one.calls[number - 1]
    return Loss(one.name, number, len(one.calls), gap, all_codes().of_gap(gap, sent.call), usd, sent, earlier)
