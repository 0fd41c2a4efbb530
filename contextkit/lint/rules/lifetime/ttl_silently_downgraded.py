"""ttl-silently-downgraded: an hour was meant, and five minutes go out.

## What it does
Finds markers whose lifetime differs from what the program intends: a feature flag, a plan or a telemetry switch quietly takes the short
one.

## Why it costs you
A one-hour head survives a lunch, a five-minute head does not. When the long lifetime is lost on the way (a client turned it off
together with its telemetry, a gateway does not know the field), the bill shows writes under the five-minute counter, and every pause
becomes a rewrite. It looks like bad luck, because each call for itself is right.

## Example
    ttl = "1h" if flags.get("long_cache") else "5m"
    marker = {"type": "ephemeral", "ttl": ttl}

## Use instead
Decide it where the session starts, and check the split that the bill reports:

    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=4096, ttl="1h"), system=SYSTEM, tools=TOOLS)
    usage = context.ledger[-1].usage
    assert not usage.write_5m

## Detected by
- source: a switch decides the lifetime of a marker: a flag, a plan, the environment.
- requests: a shorter lifetime in the body than in the call before, or a billed split that disagrees with it.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: the counters `ephemeral_5m_input_tokens` and `ephemeral_1h_input_tokens` tell which was written.

## References
- https://github.com/gpambrozio/ClaudeDocs (Claude Code's changelog: the one-hour lifetime taken back, `DISABLE_TELEMETRY`)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RecordedCall, RequestRule, Step
from contextkit.lint.rules.bills import uses_server_tools
from contextkit.lint.rules.callsites import field, mentions, text_of
from contextkit.lint.rules.marking import constant, resolved
from contextkit.lint.rules.marks import has_markers, in_messages, marks_of
from contextkit.lint.source.rule import Flow, Hit, Pattern, View

_HOUR = 3600
_LEAST_TOKENS = 500
_TTLS = ("1h", "5m")
_RETENTION = "prompt_cache_retention"
_SWITCH = re.compile(
    r"(?i)flag|feature|experiment|telemetry|tier|plan|subscri|quota|overage|gate|getenv|environ|enabled|disabled|rollout"
)


def _by_flag(node: ast.Dict, view: View) -> Iterator[Hit]:
    """`{"type": "ephemeral", "ttl": "1h" if flags.long else "5m"}`."""
    if text_of(field(node, "type")) != "ephemeral":
        return
    value = resolved(field(node, "ttl"), view)
    if (
        isinstance(value, ast.IfExp)
        and mentions(value.test, _SWITCH)
        and constant(value.body) != constant(value.orelse)
    ):
        yield Hit(
            value,
            f"the lifetime of a cache marker depends on `{ast.unparse(value.test)}`: it may change without a word",
        )


def _by_branch(node: ast.Assign, view: View) -> Iterator[Hit]:
    """`if flags.long_cache: marker["ttl"] = "1h"`."""
    branch = next((above for above in reversed(view.parents()) if isinstance(above, ast.If)), None)
    if constant(node.value) in _TTLS and branch is not None and node in branch.body and mentions(branch.test, _SWITCH):
        yield Hit(
            node,
            f"the lifetime of a cache marker depends on `{ast.unparse(branch.test)}`: it may change without a word",
        )


def _shorter(step: Step) -> Evidence | None:
    """A level that was marked for an hour is marked for five minutes."""
    if step.before.params.get(_RETENTION) == "24h" and step.after.params.get(_RETENTION) in (
        None,
        "in_memory",
        "in-memory",
    ):
        return Evidence(
            "the long retention asked for before is not asked for any more",
            path=_RETENTION,
            was="24h",
            now=str(step.after.params.get(_RETENTION)),
        )
    for is_message in (False, True):
        before, after = _longest(step.before, is_message), _longest(step.after, is_message)
        if before and after and after[0] < before[0]:
            return Evidence(
                f"marked for {after[0]:,} s where the call before asked for {before[0]:,} s",
                path=after[1],
                was=str(before[0]),
                now=str(after[0]),
            )
    return None


def _longest(sent: RecordedCall, is_message: bool) -> tuple[int, str] | None:
    marks = [(mark.ttl_seconds, mark.path) for mark in marks_of(sent) if in_messages(sent, mark) == is_message]
    return max(marks, default=None)


def _billed_short(sent: RecordedCall) -> Evidence | None:
    """Everything was marked for an hour, and a write of five minutes was billed."""
    if not has_markers(sent) or sent.usage is None or not sent.usage.write_5m or sent.usage.write_1h:
        return None
    marks = marks_of(sent)
    is_long = bool(marks) and all(mark.ttl_seconds == _HOUR for mark in marks)
    if not is_long or sent.usage.write_5m < _LEAST_TOKENS or uses_server_tools(sent):
        return None
    return Evidence(
        f"every marker asks for an hour, and {sent.usage.write_5m:,} tokens were billed as written for five minutes",
        path=marks[0].path,
        was="1h",
        now="5m",
    )


HAZARD = Hazard(
    "CKL06",
    "ttl-silently-downgraded",
    "D",
    "warning",
    source=(
        Flow(("flag",), ("ttl",), "the lifetime asked for depends on {source}: it may change without a word"),
        Pattern((ast.Dict,), _by_flag, ("ttl",), is_near=True, also=(("ephemeral",),), names=("ttl",)),
        Pattern((ast.Assign,), _by_branch, ("ephemeral",), names=("ttl",)),
    ),
    requests=(RequestRule("step", _shorter), RequestRule("call", _billed_short)),
)
