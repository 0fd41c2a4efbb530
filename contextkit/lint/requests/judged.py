"""Verdicts of the judge on the calls that lint compares, and what findings take from them: tokens by cause, and their price.

`RequestJudge` judges the calls of a recording one by one, `judge_pair` two calls alone. Of a call whose earlier messages
the provider stores, only the bills say what could be read: `stored_verdict`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from contextkit.cache.usage import Usage
from contextkit.ledger.causes import NO_REMARKS
from contextkit.ledger.judge import Judge, left_tokens, lifetime_seconds
from contextkit.ledger.misses import complete_usage, list_cost_usd, row_of_call
from contextkit.ledger.parsed_call import ParsedCall, is_one_model
from contextkit.ledger.verdict import Basis, Cause, Gap, Verdict, Whose, loss_usd
from contextkit.lint.requests.rule import Step
from contextkit.lint.requests.usage import cache_key_parameters
from contextkit.providers.histories import named_in

CAUSES_OF_LEVELS: Mapping[str, tuple[Cause, ...]] = {
    "parameters": ("params_changed", "model_changed", "account_changed"),
    "breakpoints": ("no_breakpoint", "breakpoint_place", "out_of_reach"),
    "lifetime": ("ttl_expired", "cold_fan_out", "aborted", "other_server", "unknown"),
    "routing": ("other_server", "unknown", "params_changed", "account_changed"),
    "engine": ("other_server", "unknown", "params_changed"),
    "messages": ("other_server", "unknown"),
    "tools": ("other_server", "unknown"),
}
"""Level of a rule that is asked about a step as a whole → causes of the gaps whose tokens its findings bear."""


_HIDING: tuple[Cause, ...] = ("below_minimum", "compaction", "model_changed", "account_changed")
"""Causes beside which the judge does not tell what a change would have lost."""


_BEHIND_CHANGE: Cause = "breakpoint_place"
"""Cause of a loss up to a breakpoint on a block that is another one now, at the end of the earlier prompt."""


_LEAST_TOKENS = 100
"""A smaller gap may be one of estimated sizes."""


def has_lost_nothing(verdict: Verdict) -> bool:
    """Return whether a call has lost nothing to what it changed, however it is spelled and marked now; beside a bill, a
    difference within the error of estimated sizes is nothing.
    """
    least = 0 if verdict.read is None else _LEAST_TOKENS
    return not any(
        (gap.whose == "program_bytes" and gap.tokens >= least)
        or gap.cause in _HIDING
        or (gap.cause == _BEHIND_CHANGE and gap.tokens)
        for gap in verdict.gaps
    )


@dataclass(slots=True)
class Loss:
    """The loss of one call; each gap is borne by one finding."""

    verdict: Verdict
    """What the judge says of the call."""
    sent: ParsedCall
    """The call."""

    def take(self, causes: Collection[Cause]) -> int:
        """Return the tokens of the avoidable gaps of some causes, and let no later finding bear them."""
        gaps = self.verdict.gaps
        mine = [gap for gap in gaps if gap.is_avoidable and gap.cause in causes]
        self.verdict = replace(self.verdict, gaps=tuple(gap for gap in gaps if gap not in mine))
        return sum(gap.tokens for gap in mine)

    def take_changed(self, *, has_breakpoint_rule: bool = False) -> int:
        """Return the tokens that changed bytes have lost, and let no later finding bear them: those up to a breakpoint on
        a changed block as well, unless a rule on breakpoints bears them.
        """
        changed = {gap.cause for gap in self.verdict.gaps if gap.whose == "program_bytes"}
        return self.take(changed if has_breakpoint_rule else {*changed, _BEHIND_CHANGE})

    def usd(self, tokens: int) -> float | None:
        """Price of `tokens` above that of reading them; None where the bill lacks a part, or the model has no price."""
        call = self.sent.call
        usage = complete_usage(call) if call.usage else self.verdict.quote
        return None if usage is None else loss_usd(usage, tokens, partial(list_cost_usd, call))


class RequestJudge:
    """Judges the calls of a recording in the conversations that lint tells apart."""

    def __init__(self) -> None:
        self._judge = Judge()

    def feed(self, sent: ParsedCall, conversation: str, remarks: Mapping[str, str] = NO_REMARKS) -> Verdict | None:
        """Judge the next call; None where nothing says what it could have read.

        The ids in the verdict are indexes of calls (`ParsedCall.index`): recorded ids may be missing, or be the same.
        """
        call = replace(sent.call, id=str(sent.index), session=conversation)
        row, usage = row_of_call(call), complete_usage(call)
        verdict = self._judge.feed(call, row, usage, remarks)
        has_rules = bool(row.provider and sent.row.provider)
        return verdict if has_rules or usage is not None else None


def judge_pair(step: Step) -> Verdict | None:
    """Judge the later of two calls, of which nothing but these two is known."""
    if named_in(step.after.params) is not None:
        return stored_verdict(step)
    judge = RequestJudge()
    judge.feed(step.before, "")
    return judge.feed(step.after, "")


def stored_verdict(step: Step) -> Verdict | None:
    """Judge a call whose earlier messages the provider stores, by what the call before it left; None where no bill tells
    that.
    """
    usage, row = step.before.usage, step.after.row
    if usage is None or usage.prompt is None or not row.provider:
        return None
    left, bill = left_tokens(usage, step.before.row), step.after.usage
    read = bill.read if bill else None
    whose, cause = _cause_of_stored(step, lifetime_seconds(usage, row))
    lost = max(0, left - (read or 0)) if bill or whose != "unexplained" else 0
    basis: Basis = "" if whose == "unexplained" else "recorded"
    gaps = (Gap(whose, cause, lost, basis=basis),) if lost else ()
    size = left if bill is None or bill.prompt is None else bill.prompt
    length = max(left, read or 0)
    quote = Usage(left, 0, 0, 0, 0) if bill is None else None
    earlier = str(step.before.index)
    return Verdict(str(step.after.index), size, read, None, None, length, gaps, earlier, quote=quote)


def _cause_of_stored(step: Step, ttl_seconds: int) -> tuple[Whose, Cause]:
    """Whose doing it is, and why, where a call that continues a stored history reads less than was left."""
    if not is_one_model(step.before.row, step.after.row):
        return "program_use", "model_changed"
    if step.changes:
        return "program_bytes", _CHANGED[step.changes[0].level]
    if cache_key_parameters(_without_names(step.before)) != cache_key_parameters(_without_names(step.after)):
        return "program_use", "params_changed"
    return ("unexplained", "unknown") if step.gap_seconds < ttl_seconds else ("program_use", "ttl_expired")


def _without_names(sent: ParsedCall) -> ParsedCall:
    """Return a call without the fields that name its history."""
    names = ("previous_response_id", "conversation", "input")
    return replace(sent, params={name: value for name, value in sent.params.items() if name not in names})


_CHANGED: Mapping[str, Cause] = {
    "tools": "tools_changed",
    "system": "system_changed",
    "messages": "messages_changed",
}
