"""Request parameters outside the prompt's text, and where a call was sent: model, region, account, host, route key.

Takes steps, returns the first parameter that differs; knows no hazard.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import orjson

from contextkit.canonical import Json
from contextkit.ledger.calls import OTHER_PROJECT
from contextkit.lint.requests.cut import reach_of
from contextkit.lint.requests.rule import Change, Evidence, RecordedCall, Step

Paths = Mapping[str, Sequence[str]]
"""Wire → where it keeps a setting."""

CLAUDE_WIRES = ("anthropic_messages", "bedrock_converse")

_REGION = re.compile(r"^(?:us-gov|us|eu|apac|ap|jp|au|ca|sa|global)\.(?=[a-z0-9-]+\.)")

_DATED = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest)(?:-v\d+)?(?::\d+)?$|-v\d+(?::\d+)?$")

_ARN = re.compile(r"^arn:[\w-]+:bedrock:(?P<region>[\w-]*):(?P<account>\d*):")

_VERTEX = re.compile(r"^projects/(?P<account>[^/]+)/locations/(?P<region>[^/]+)/")

_NO_VENDORS = ("projects/", "models/", "accounts/", "arn:", "publishers/", "openai/gpt-oss")

_MAX_DISPLAY = 120

_PIN_SECONDS, _HOUR = 300, 3600
"""The shortest pins of gateways; the long lifetime of an entry."""


class ParameterChange(NamedTuple):
    """A setting that is another one than in the call before."""

    path: str
    """Where it stands."""
    was: Json
    """None where it was left out."""
    now: Json
    """None where it is left out."""

    def evidence(self, message: str) -> Evidence:
        """The same, as evidence."""
        return Evidence(message, path=self.path, was=display_value(self.was), now=display_value(self.now))


def display_value(value: Json) -> str:
    """A value in a message, cut where it is long; `(left out)` for none."""
    if value is None:
        return "(left out)"
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _MAX_DISPLAY else f"{text[: _MAX_DISPLAY - 1]}…"


def value_at(fields: Json, path: str) -> Json:
    """The value at a dotted path, None where there is none.

    >>> value_at({"reasoning": {"effort": "low"}}, "reasoning.effort")
    'low'
    """
    for name in path.split("."):
        fields = fields.get(name) if isinstance(fields, dict) else None
    return fields


def first_parameter_change(
    step: Step, paths: Paths, meaning: Callable[[Json], Json] = lambda value: value
) -> ParameterChange | None:
    """The first of a wire's paths whose value means something else than in the call before.

    None where another model is asked: what a conversation sends there is no change of its own.
    """
    if is_other_model(step):
        return None
    for path in paths.get(step.after.wire, ()):
        was, now = value_at(step.before.params, path), value_at(step.after.params, path)
        one, other = meaning(was), meaning(now)
        if one != other or _as_json(one) != _as_json(other):
            return ParameterChange(path, was, now)
    return None


def _as_json(value: Json) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def is_claude(sent: RecordedCall) -> bool:
    """Return whether Claude's rules hold for it."""
    return (
        sent.wire in CLAUDE_WIRES and sent.row.cache == "breakpoints" and sent.row.provider in ("anthropic", "aws", "")
    )


def had_cached(step: Step, level: str) -> bool:
    """Return whether the call before may have left something of a level, or behind it, in the cache."""
    order = ("tools", "system", "messages")
    reach = reach_of(step.before)
    return any(order.index(block.level) >= order.index(level) for block in step.before.blocks[:reach])


def has_tool_change(step: Step) -> bool:
    """Return whether the tools differ too, so that nothing is left for a parameter to break."""
    return any(change.level == "tools" and change.is_cached for change in step.changes)


def sent_model(sent: RecordedCall) -> str:
    """The model that was asked, as sent."""
    named = sent.params.get("model") or sent.params.get("modelId")
    return str(named) if isinstance(named, str) and named else sent.call.model


def bare_model(name: str) -> str:
    """A model's name without region, account, vendor and date.

    >>> bare_model("eu.anthropic.claude-opus-4-5-20251101-v1:0"), bare_model("anthropic/claude-opus-4-5")
    ('claude-opus-4-5', 'claude-opus-4-5')
    """
    name = name.rpartition("/")[2]
    name = _REGION.sub("", name)
    return _DATED.sub("", name.removeprefix("anthropic.")).lower()


def is_other_model(step: Step) -> bool:
    """Return whether another model is asked than in the call before; another spelling of one name is not."""
    was, now = sent_model(step.before), sent_model(step.after)
    return bool(was and now) and bare_model(was) != bare_model(now)


def region_of(sent: RecordedCall) -> str:
    """The region that the name of the model says, empty where it says none."""
    name = sent_model(sent)
    match = _ARN.match(name) or _VERTEX.match(name)
    prefix = _REGION.match(name.rpartition("/")[2])
    return match["region"] if match else prefix[0].rstrip(".") if prefix else ""


def account_of(sent: RecordedCall) -> str:
    """The account or project that the name of the model says, empty where it says none."""
    name = sent_model(sent)
    match = _ARN.match(name) or _VERTEX.match(name)
    return match["account"] if match else ""


def accounts(step: Step) -> tuple[str, str]:
    """The account or project of both calls, by the names of their models or by their addresses.

    Empty where nothing says it.
    """
    if step.after.rerouted.startswith(OTHER_PROJECT):
        was, _, now = step.after.rerouted.removeprefix(OTHER_PROJECT).partition(" → ")
        return was, now
    return account_of(step.before), account_of(step.after)


def is_aggregated(sent: RecordedCall) -> bool:
    """Whether an aggregator passes the call on: it names the vendor before the model, or takes that aggregator's own
    fields.
    """
    name = sent.params.get("model")
    is_vendored = isinstance(name, str) and "/" in name and not name.startswith(_NO_VENDORS)
    is_told = sent.call.provider == "openrouter" or isinstance(sent.params.get("provider"), dict)
    return sent.wire.startswith("openai") and (is_told or (is_vendored and bool(sent.row.provider)))


def route_key(sent: RecordedCall) -> str:
    """What ties a call to a place: a cache key or a session's id; empty where nothing does."""
    keys = (sent.params.get(name) for name in ("prompt_cache_key", "session_id", "user"))
    return next((str(value) for value in keys if isinstance(value, str | int) and value != ""), "")


def deployment_change(step: Step) -> ParameterChange | None:
    """What says that another deployment was asked: the region in the model's name, or the host or provider that was
    recorded.
    """
    if step.after.rerouted and not step.after.rerouted.startswith(OTHER_PROJECT):
        left, _, target = step.after.rerouted.partition(" → ")
        return ParameterChange("provider", left, target)
    was, now = region_of(step.before), region_of(step.after)
    if was != now:
        return ParameterChange("model", was or None, now or None)
    one, other = step.before.call.provider, step.after.call.provider
    return ParameterChange("provider", one, other) if one and other and one != other else None


def outlives_pin(step: Step) -> bool:
    """Return whether the pause is longer than gateways remember a route, and shorter than the hour the call before paid for."""
    marked = [block.marker for block in step.before.blocks if block.marker] + [
        value_at(step.before.params, "cache_control")
    ]
    is_long = any(isinstance(marker, dict) and marker.get("ttl") == "1h" for marker in marked)
    return is_long and _PIN_SECONDS < step.gap_seconds < _HOUR


def has_new_opening(step: Step) -> bool:
    """Return whether the system text or the first message is another one than in the call before."""
    return any(
        change.level == "system" or (change.level == "messages" and _is_opening(change)) for change in step.changes
    )


def _is_opening(change: Change) -> bool:
    blocks = change.was or change.now
    return blocks[0].message <= 1


def is_extended_by(before: RecordedCall, after: RecordedCall) -> bool:
    """Return whether `after` holds all that `before` sent, in the same bytes, and more."""
    if len(after.blocks) < len(before.blocks):
        return False
    return all(
        a is b or (a.body == b.body and a.role == b.role) for a, b in zip(before.blocks, after.blocks, strict=False)
    )
