"""Trajectories of mini-swe-agent (`*.traj.json`) and SWE-agent (`*.traj`): their bills.

Takes a source, gives calls. Prompts are not given: of the settings and tools that a request had only some are told.

* mini-swe-agent since 1.1 of its trajectory format keeps each response in `extra.response`, one whose actions could not
  be read too: each is a call with its bill and its `cost`.
* SWE-agent, and older trajectories of the other, say only sums of the whole run (`info.model_stats`): one row that is
  marked as a sum. Its `tokens_sent` say nothing of the cache, so that what was read is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from contextkit.importers.answers import answer_of
from contextkit.importers.field_maps import FieldMap, text_at
from contextkit.importers.provider_names import provider_and_model
from contextkit.importers.rows import bare, rows, table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import Source
from contextkit.importers.transcript import dollars, plausible, recorded_id
from contextkit.ledger.calls import ModelCall, Record

FIELDS = FieldMap(output="tokens_received", billed_usd="instance_cost")
"""Of the sums of a run."""
MODELS = (
    "info.config.model.model_name info.config.model.name "
    "replay_config.agent.model.model_name replay_config.agent.model.name"
)
ADDED_UP = "all calls of a run"
_MINI = re.compile(rb'\{\s*"info"\s*:\s*\{')
_SWE = re.compile(rb'\{\s*"(?:environment"\s*:\s*"[^"]*"\s*,\s*"trajectory|trajectory)"\s*:\s*\[')


def is_swe_agent(head: bytes) -> bool:
    """Return whether a file that starts like this is such a trajectory.

    >>> is_swe_agent(b'{"info":{"model_stats":{"api_calls":1}}}'), is_swe_agent(b'{"trajectory":[{"role":"user"}]}')
    (True, False)
    """
    start = bare(head)
    is_mini = _MINI.match(start) and (b'"model_stats"' in start or b'"mini_version"' in start)
    return bool(is_mini or (_SWE.match(start) and b'"observation"' in start and b'"role"' not in start[:200]))


def read(source: Source) -> Iterator[Record]:
    """The calls of a run, or their sum."""
    calls = SessionCalls(source, "swe-agent")
    for number, run in rows(source):
        if isinstance(run.get("info"), dict):
            yield from _records(calls, number, run)
        else:
            source.fault(number, "no trajectory; passed over")
    calls.finish()


def _records(calls: SessionCalls, number: int, run: dict[str, Any]) -> Iterator[Record]:
    info = run["info"]
    stats = table(info.get("model_stats"))
    session = str(run.get("instance_id") or calls.source.label.removesuffix(".json").removesuffix(".traj"))
    asked = _model(run)
    n_calls = 0
    messages = run.get("messages")
    for place, message in enumerate(messages if isinstance(messages, list) else ()):
        extra = table(message.get("extra")) if isinstance(message, dict) else {}
        if isinstance(extra.get("response"), dict):
            n_calls += 1
            yield from _call(calls, number, f"{session}/{place}", session, asked, extra)
        elif extra.get("timestamp"):
            calls.put(plausible(extra["timestamp"]))
    count = calls.source.count(number, stats.get("api_calls"))
    if n_calls and count is not None and count > n_calls:
        calls.source.fault(number, f"{count - n_calls:,} of the calls of a run left no response; they are not counted")
    elif not n_calls and stats:
        yield from _sum(calls, number, session, asked, stats)


def _call(
    calls: SessionCalls, number: int, place: str, session: str, asked: str, extra: dict[str, Any]
) -> Iterator[Record]:
    answer = answer_of(extra["response"])
    name = recorded_id(answer and answer.id) or place
    if answer is None:
        calls.source.fault(number, "a response that is none; passed over")
    elif calls.is_new(name):
        provider, model = provider_and_model("", asked or answer.model)
        usage = answer.usage(lambda what: calls.source.fault(number, what))
        ended = plausible(extra.get("timestamp")) or plausible(answer.created)
        row = ModelCall(
            id=name,
            session=session,
            provider=provider,
            model=model,
            usage=usage and usage.with_ttls_of(provider),
            ended_at=ended,
            error=answer.error,
            billed_usd=dollars(extra.get("cost") or answer.billed_usd),
        )
        yield from calls.call(number, row)


def _sum(calls: SessionCalls, number: int, session: str, asked: str, stats: dict[str, Any]) -> Iterator[Record]:
    call = FIELDS.call(calls.source, number, stats, names=("", asked), id=session, session=session)
    if calls.is_new(f"{session} {sorted(stats.items())}"):
        yield from calls.remark("sum", f"{session}/main", ADDED_UP)
        yield from calls.call(number, call)


def _model(run: dict[str, Any]) -> str:
    """The model that was asked, by the configuration that a trajectory holds."""
    return text_at(run, MODELS)
