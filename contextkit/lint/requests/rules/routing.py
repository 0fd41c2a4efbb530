"""Request rules on routing (`CKR…`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from contextkit.canonical import Json
from contextkit.lint.requests.parameters import (
    CLAUDE_WIRES,
    ParameterChange,
    accounts,
    deployment_change,
    first_parameter_change,
    had_cached,
    has_new_opening,
    is_aggregated,
    is_extended_by,
    is_other_model,
    outlives_pin,
    route_key,
    value_at,
)
from contextkit.lint.requests.rule import Calls, Evidence, RecordedCall, RequestRule, Step

# CKR01 load-balancer-spread
# ---------------------------------------------------------------------------------------------------------------------


def _load_balancer_spread(step: Step) -> Evidence | None:
    """The same model in another region, or on another platform."""
    if is_other_model(step) or is_aggregated(step.after) or outlives_pin(step) or not had_cached(step, "tools"):
        return None
    difference = deployment_change(step)
    return (
        difference.evidence(f"the next call went to another place: {difference.was} before, {difference.now} now")
        if difference
        else None
    )


# CKR02 affinity-shorter-than-ttl
# ---------------------------------------------------------------------------------------------------------------------


def _affinity_shorter_than_ttl(step: Step) -> Evidence | None:
    """Another place answers behind a pause that the paid hour would have covered."""
    if is_other_model(step) or not outlives_pin(step):
        return None
    difference = deployment_change(step)
    text = f"another place answers after {step.gap_seconds:.0f} seconds, though the entry was paid for an hour"
    return difference.evidence(text) if difference else None


# CKR03 upstream-host-switch
# ---------------------------------------------------------------------------------------------------------------------


def _upstream_host_switch(step: Step) -> Evidence | None:
    """The recorded host differs, or the request itself asks for another first host."""
    if is_other_model(step) or not is_aggregated(step.after) or outlives_pin(step):
        return None
    if has_new_opening(step) and not route_key(step.after):
        return None  # the key that the aggregator derives is another one: that is the cause
    difference = deployment_change(step) or _requested_host_change(step)
    return (
        difference.evidence(f"{difference.now} serves this call, {difference.was} the one before")
        if difference
        else None
    )


def _requested_host_change(step: Step) -> ParameterChange | None:
    was, now = _first_host(step.before), _first_host(step.after)
    return ParameterChange("provider.order", was, now) if was is not None and now is not None and was != now else None


def _first_host(sent: RecordedCall) -> Json:
    """The host a request asks for first."""
    for name in ("order", "only"):
        hosts = value_at(sent.params, f"provider.{name}")
        if isinstance(hosts, list) and hosts:
            return hosts[0]
    return None


# CKR04 cache-key-missing
# ---------------------------------------------------------------------------------------------------------------------

_PROVIDERS_WITH_KEY = ("openai", "x-ai", "fireworks", "mistral", "azure")
"""Providers whose cache is one machine's, and whose key says which."""

_FRESH_SECONDS = 300


def _cache_key_missing(calls: Calls) -> Iterator[Evidence]:
    """Without a key, calls that go on from one another read everything here and nothing there."""
    for mine in calls.conversations.values():
        if (
            mine[0].row.cache != "implicit"
            or mine[0].row.provider not in _PROVIDERS_WITH_KEY
            or any(map(route_key, mine))
        ):
            continue
        lost = _calls_without_read(mine)
        if lost and len(lost) < _n_continuations(mine):
            text = (
                f"{len(lost)} of {_n_continuations(mine)} calls read nothing of the call before them, "
                "and no key says where it was served"
            )
            yield Evidence(text, path="prompt_cache_key", sent=lost[0])


def _continuations(mine: Sequence[RecordedCall]) -> list[tuple[RecordedCall, RecordedCall]]:
    """Neighbours of which the later has all of the earlier and should have read it."""
    return [
        (a, b)
        for a, b in pairwise(mine)
        if a.usage and b.usage and b.usage.read is not None and _was_there(a, b) and is_extended_by(a, b)
    ]


def _was_there(before: RecordedCall, after: RecordedCall) -> bool:
    usage = before.usage
    size = (usage.fresh or 0) + (usage.read or 0) if usage else 0
    return size >= 2 * before.row.min_tokens and 0 <= after.call.at - before.call.at <= _FRESH_SECONDS


def _n_continuations(mine: Sequence[RecordedCall]) -> int:
    return len(_continuations(mine))


def _calls_without_read(mine: Sequence[RecordedCall]) -> list[RecordedCall]:
    return [after for _, after in _continuations(mine) if after.usage and after.usage.read == 0]


# CKR05 cache-key-overshared
# ---------------------------------------------------------------------------------------------------------------------

_MAX_CALLS_PER_MINUTE = 15

_CACHE_KEY, _DERIVED = "prompt_cache_key", "auto"
"""The parameter, and the value that has contextkit derive it."""


def _cache_key_overshared(calls: Calls) -> Iterator[Evidence]:
    """One key over several conversations with more calls in a minute than a machine takes."""
    by_key: dict[str, list[tuple[str, RecordedCall]]] = {}
    for name, mine in calls.conversations.items():
        for sent in mine:
            key = sent.params.get(_CACHE_KEY)
            if isinstance(key, str) and sent.row.cache == "implicit":
                by_key.setdefault(key, []).append((name, sent))
    for key, used in by_key.items():
        first = _first_overflow(sorted(used, key=lambda pair: pair[1].call.at))
        if first is not None:
            n_conversations = len({name for name, _ in used})
            text = f"more than {_MAX_CALLS_PER_MINUTE} calls of {n_conversations} conversations in one minute have the same key"
            yield Evidence(text, path=_CACHE_KEY, now=key, sent=first)


def _first_overflow(used: Sequence[tuple[str, RecordedCall]]) -> RecordedCall | None:
    """The first call that is one too many within a minute, where it is not all one conversation."""
    for place in range(_MAX_CALLS_PER_MINUTE, len(used)):
        window = used[place - _MAX_CALLS_PER_MINUTE : place + 1]
        if window[-1][1].call.at - window[0][1].call.at < 60 and len({name for name, _ in window}) > 1:
            return window[-1][1]
    return None


# CKR06 cache-key-reset
# ---------------------------------------------------------------------------------------------------------------------

_KEY_PATHS = dict.fromkeys(("openai_chat", "openai_responses"), ("prompt_cache_key", "session_id"))


def _cache_key_reset(step: Step) -> Evidence | None:
    difference = None if step.after.wire in CLAUDE_WIRES else first_parameter_change(step, _KEY_PATHS)
    if difference is None or difference.was is None or difference.now is None:
        return None
    return difference.evidence(f"the key that says where the prefix lies is another one at call {step.turn}")


# CKR07 derived-key-drifts
# ---------------------------------------------------------------------------------------------------------------------


def _derived_key_drifts(step: Step) -> Evidence | None:
    """The opening that an aggregator hashes differs, no id is sent, and where a host was recorded it is another one."""
    if not is_aggregated(step.after) or is_other_model(step) or route_key(step.after) or not has_new_opening(step):
        return None
    host = deployment_change(step)
    if host is not None:
        return host.evidence(
            f"the opening changed without a session id, and {host.now} serves the call instead of {host.was}"
        )
    return Evidence("the opening changed, and without a session id the route is derived from it", path="session_id")


# CKR08 isolation-boundary
# ---------------------------------------------------------------------------------------------------------------------

_ISOLATION_PATHS = dict.fromkeys(("openai_chat", "openai_responses"), ("prompt_cache_isolation_key",))


def _isolation_boundary(step: Step) -> Evidence | None:
    """Another account or project in the model's name or the address, or another key of isolation."""
    was, now = accounts(step)
    if was and now and was != now and not is_other_model(step):
        return ParameterChange("model", was, now).evidence(
            f"account {now} is asked after {was}, and their caches are apart"
        )
    difference = first_parameter_change(step, _ISOLATION_PATHS)
    return (
        difference.evidence("the key that keeps caches apart is another one than in the call before")
        if difference
        else None
    )


# CKR09 stream-vs-nonstream-lane
# ---------------------------------------------------------------------------------------------------------------------

_MIN_CALLS = 2

_SOON_SECONDS = 300


def _stream_vs_nonstream_lane(calls: Calls) -> Iterator[Evidence]:
    """Of calls that go on from one another, only those that stream read, or only those that do not."""
    for mine in calls.conversations.values():
        lanes = {is_stream: _readers(mine, is_stream) for is_stream in (True, False)}
        reads = {is_stream: [sent for sent in lane if _read_tokens(sent)] for is_stream, lane in lanes.items()}
        for is_stream, lane in lanes.items():
            if len(lane) >= _MIN_CALLS and not reads[is_stream] and len(reads[not is_stream]) >= _MIN_CALLS:
                kind = "that stream" if is_stream else "that do not stream"
                yield Evidence(
                    f"none of the {len(lane)} calls {kind} read anything, while the others did",
                    path="stream",
                    sent=lane[-1],
                )


def _readers(mine: Sequence[RecordedCall], is_stream: bool) -> list[RecordedCall]:
    """Calls of one kind that go on from the call before, soon after it, and whose bill is known."""
    soon = [(a, b) for a, b in pairwise(mine) if b.usage is not None and b.call.at - a.call.at <= _SOON_SECONDS]
    return [b for a, b in soon if bool(b.params.get("stream")) is is_stream and is_extended_by(a, b)]


def _read_tokens(sent: RecordedCall) -> int:
    return (sent.usage.read or 0) if sent.usage else 0


RULES: Mapping[str, tuple[RequestRule, ...]] = {
    "CKR01": (RequestRule("step", _load_balancer_spread),),
    "CKR02": (RequestRule("step", _affinity_shorter_than_ttl),),
    "CKR03": (RequestRule("step", _upstream_host_switch),),
    "CKR04": (RequestRule("session", _cache_key_missing),),
    "CKR05": (RequestRule("session", _cache_key_overshared),),
    "CKR06": (RequestRule("step", _cache_key_reset),),
    "CKR07": (RequestRule("step", _derived_key_drifts),),
    "CKR08": (RequestRule("step", _isolation_boundary),),
    "CKR09": (RequestRule("session", _stream_vs_nonstream_lane),),
}
"""Code → its rules."""
