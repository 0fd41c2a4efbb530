"""A request and its response, however they were recorded, as one call and what is remarked of it.

Takes what a reader found of one call, gives records: whose call it is, what it was billed, when it was, what the
provider said of it. Headers are never taken; credentials inside a body are blotted out. Knows no format.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from contextkit.cache.usage import Usage, tier_fields
from contextkit.canonical import canonical
from contextkit.importers.billed import cloud_in, host_in, model_in, provider_of
from contextkit.importers.growing import GrowingBodies
from contextkit.importers.source import STDIN, Source, load_json
from contextkit.importers.transcript import plausible, recorded_id
from contextkit.ledger.calls import OTHER_PROJECT, REROUTED, Bodies, ModelCall, Record, Remark, lane_name
from contextkit.ledger.parsed_call import BodyParser, ParsedCall
from contextkit.prompt.conversations import Conversations
from contextkit.providers.client_names import NO_NAMES, ClientNames, session_in
from contextkit.providers.endpoints import endpoint_of
from contextkit.providers.histories import Histories, Unknown, named_in
from contextkit.providers.response_facts import ResponseFacts
from contextkit.providers.usage import streamed_counters, usage_fields_of, usage_of

MAIN = "main"
BLOT = "[not kept]"
"""Stands where a credential stood."""
_SECRETS = frozenset(
    {
        "api_key",
        "apiKey",
        "headers",
        "extra_headers",
        "default_headers",
        "authorization",
        "Authorization",
        "authorization_token",
        "x-api-key",
        "aws_access_key_id",
        "aws_secret_access_key",
        "aws_session_token",
        "azure_ad_token",
        "access_token",
    }
)
"""Fields of a body, or of a tool or server it lists, that may hold credentials."""
_LISTING = ("tools", "mcp_servers")
MOST_CONVERSATIONS, MOST_BYTES = 4_096, 1 << 26
"""Conversations whose latest call is stored, and bytes of them together."""
MOST_ANSWERS = 1 << 16
"""Responses whose conversation is remembered, for requests that name the one before."""


@dataclass(frozen=True, slots=True)
class Body:
    """A request body."""

    fields: dict[str, Any]
    """What it says."""
    raw: bytes | None = None
    """Its bytes, None where only what they say was recorded."""


def body_of(given: Any, bodies: GrowingBodies | None = None) -> Body | None:
    """The body in what a recorder kept of a request, its text or its JSON; None for what is no call of a model.

    `bodies` knows those that were read before: of one that goes on with them only the new part is parsed.
    """
    fields, raw = given, None
    if isinstance(given, str | bytes):
        raw = given if isinstance(given, bytes) else given.encode("utf-8", "surrogatepass")
        try:
            fields = bodies.parsed(raw) if bodies else load_json(raw)
        except orjson.JSONDecodeError:
            return None
    return Body(fields, raw) if isinstance(fields, dict) and endpoint_of(fields, "") else None


@dataclass(slots=True)
class Pair:
    """A request and its response, as a reader found them in a recording."""

    line: int
    """Where it stands."""
    body: Body | None = None
    """What was sent, None where it was not recorded."""
    answer: ResponseFacts | None = None
    """Its response."""
    url: str = ""
    """Who was called; only looked at."""
    provider: str = ""
    """Who was called, in the recorder's words."""
    model: str = ""
    """Which model, where neither body says."""
    id: str = ""
    """The recorder's own id."""
    session: str = ""
    """The conversation, in the recorder's words."""
    lane: str = ""
    """Its branch, likewise."""
    in_headers: ClientNames = NO_NAMES
    """What the headers of the request name."""
    at: float | None = None
    """When it started."""
    first_byte_at: float | None = None
    """When the response began."""
    ended_at: float | None = None
    """When it was complete."""
    error: str | None = None
    """Why it did not end well, where no response says."""


@dataclass(slots=True)
class _Lane:
    """Where a lane stands."""

    at: float = 0.0
    """When its last call started."""
    places: dict[str, str] = field(default_factory=dict)
    """Whom a router passed its last call on to, and whose project that was, by the words a move begins with."""


@dataclass(slots=True)
class Pairs:
    """Turns the calls of one source into records, in their order."""

    source: Source
    conversations: Conversations[ParsedCall] = field(
        default_factory=lambda: Conversations(MOST_CONVERSATIONS, most_bytes=MOST_BYTES)
    )
    parser: BodyParser = field(default_factory=BodyParser)
    n_conversations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Conversations of each session and agent."""
    bodies: GrowingBodies = field(default_factory=GrowingBodies)
    lanes: dict[tuple[str, str], _Lane] = field(default_factory=dict)
    answered: OrderedDict[str, tuple[str, str]] = field(default_factory=OrderedDict)
    """Id of a response → session and lane."""
    histories: Histories = field(default_factory=Histories)
    """What responses hold, for requests that say only what is new."""
    at: float = 0.0
    """When the call before started."""
    n_known: int = 0
    """Calls that were read before."""

    def records(self, pair: Pair) -> Iterator[Record]:
        """The remarks on one call, then the call; nothing for one that was counted before."""
        raw, fields = _cleaned(pair.body) if pair.body else (None, dict[str, Any]())
        answer = pair.answer or ResponseFacts()
        if not self._is_new(pair, answer, raw):
            self.n_known += 1
            return
        session, lane = self._place(pair, fields, answer)
        raw = self._whole(raw, fields, answer)
        times = self._times(pair, answer, self.lanes.setdefault((session, lane), _Lane()))
        identity = recorded_id(answer.id) or recorded_id(pair.id) or f"{self.source.label}:{pair.line}"
        model = _requested_model(fields) or model_in(pair.url) or _text(pair.model) or answer.model or "unknown"
        model = model.removeprefix("models/")
        error = answer.error or pair.error or ("cut" if answer.is_stream and not answer.has_ended else None)
        provider = self._provider(pair, fields, answer, model)
        prompt = Bodies(raw) if raw is not None else None
        yield from self._remarks(identity, session, lane, answer, pair.url)
        bills = list(self._bills(pair, answer, identity, lane, model, provider, fields))
        billed_usd = answer.billed_usd if len(bills) == 1 else None  # a cost of several calls is that of none of them
        for name, part, asked, usage in bills:
            yield ModelCall(
                name,
                session,
                part,
                *times,
                provider,
                asked,
                prompt,
                usage,
                None,
                error,
                billed_usd,
                account=pair.in_headers.account,
                host=host_in(pair.url),
            )
            prompt = None
        self.answered[identity] = session, lane
        if len(self.answered) > MOST_ANSWERS:
            self.answered.popitem(last=False)

    def finish(self) -> None:
        """Report what concerns the source as a whole."""
        if self.n_known:
            self.source.fault(
                0, f"{self.n_known:,} calls stand in it, or in a file read before, more than once; counted once"
            )

    def _is_new(self, pair: Pair, answer: ResponseFacts, raw: bytes | None) -> bool:
        name = recorded_id(answer.id) or recorded_id(pair.id)
        if name:
            return self.source.is_new(b"response", name.encode("utf-8", "surrogatepass"))
        when = pair.at or pair.ended_at
        if when is None:
            return True
        counts = sorted(answer.counts.items(), key=repr)
        return self.source.is_new(b"pair", repr((when, counts, hash(raw))).encode())

    def _whole(self, raw: bytes | None, fields: dict[str, Any], answer: ResponseFacts) -> bytes | None:
        """The body with what its response went on from, where the recording holds that; else as it was sent."""
        whole = self.histories.whole(fields) if named_in(fields) else fields
        if (
            answer.items is not None
            and answer.id
            and fields.get("store") is not False
            and not isinstance(whole, Unknown)
        ):
            self.histories.follow(answer.id, fields, answer.items)
        return raw if whole is fields or isinstance(whole, Unknown) else _spelled(whole)

    def _place(self, pair: Pair, fields: Mapping[str, Any], answer: ResponseFacts) -> tuple[str, str]:
        """Session and lane: as recorded, else of the response it continues, else by its text."""
        before = self.answered.get(_text(fields.get("previous_response_id")))
        named = session_in(fields)
        recorded = pair.session or ("" if named else pair.in_headers.session)
        session = recorded or named or answer.session
        if before and session in ("", before[0]):
            return before
        if pair.lane or not fields:
            return session or self.source.label, pair.lane or MAIN
        model = _requested_model(fields) or model_in(pair.url) or pair.model
        hint = f"{pair.provider} {model}".lower()
        sent = ModelCall(id="", session=recorded or answer.session, lane="", model=model)
        call, n_bytes = self.parser.parse(sent, fields, hint, in_headers=pair.in_headers)
        placement = self.conversations.place(call, (recorded,), n_bytes=n_bytes)
        conversation = placement.conversation
        if conversation.name is None:
            agent = call.agent if session else ""
            self.n_conversations[session, agent] += 1
            conversation.name = self._name(session, agent, self.n_conversations[session, agent])
            if placement.relation == "branch" and placement.parent and placement.parent.name:
                self.lanes[conversation.name] = _Lane(self.lanes[placement.parent.name].at)
        return conversation.name

    def _name(self, session: str, agent: str, number: int) -> tuple[str, str]:
        """Session and lane of a conversation that is number `number` of the agent in its session."""
        if session:
            return session, lane_name(agent, number)
        return self.source.label if number == 1 else f"{self.source.label}#{number}", MAIN

    def _times(self, pair: Pair, answer: ResponseFacts, lane: _Lane) -> tuple[float, float | None, float | None]:
        at = pair.at if pair.at is not None else plausible(answer.created)
        if at is None:
            at = pair.ended_at
        if at is None:
            self.source.fault(
                pair.line, "no time, or one of a clock that was never set; the time of the call before stands in"
            )
            at = self.at or _written(self.source)
        elif at < lane.at - 1:
            self.source.fault(
                pair.line, "earlier than the call before it: a wrong clock, or lines out of order; taken as it stands"
            )
        first, ended = pair.first_byte_at, pair.ended_at
        if ended is not None and ended < at:
            self.source.fault(pair.line, "ended before it started; when it ended is unknown")
            ended = None
        is_refused = bool(answer.error) and not answer.is_stream and not answer.counts
        if first is not None and (is_refused or not at <= first <= (ended or first)):
            first = None  # an error that is the whole answer begins no response
        lane.at = self.at = at
        return at, first, ended

    def _provider(self, pair: Pair, fields: Mapping[str, Any], answer: ResponseFacts, model: str) -> str:
        shape = usage_fields_of(answer.counts)
        wire = shape.name if shape else endpoint_of(fields, model.lower())
        if answer.id.startswith("gen-") and answer.upstream:
            wire = "openrouter_generation"
        return provider_of(pair.url, _text(pair.provider), wire, model, _text(fields.get("anthropic_version")))

    def _remarks(self, identity: str, session: str, lane: str, answer: ResponseFacts, url: str) -> Iterator[Remark]:
        if answer.verdict:
            yield Remark("verdict", identity, answer.verdict)
        project, region = cloud_in(url)
        places = self.lanes[session, lane].places
        for word, place in ((REROUTED, answer.upstream or region), (OTHER_PROJECT, project)):
            was = places.setdefault(word, place) if place else place
            if was != place:
                yield Remark("setting", identity, f"{word}{was} → {place}")
                places[word] = place

    def _bills(
        self,
        pair: Pair,
        answer: ResponseFacts,
        identity: str,
        lane: str,
        model: str,
        provider: str,
        fields: Mapping[str, Any],
    ) -> Iterator[tuple[str, str, str, Usage | None]]:
        """Id, lane, model and bill: one, or one for each of several calls that the server made for this one."""
        is_stream = answer.is_stream or "/converse-stream" in pair.url  # a response may be joined before it is recorded
        steps = answer.counts.get("iterations")
        if not isinstance(steps, list) or len(steps) < 2 or not all(isinstance(step, dict) for step in steps):
            steps = [answer.counts]
        for number, counters in enumerate(steps, 1):
            step: Mapping[str, Any] = counters
            kind = _text(step.get("type")) or "message"
            part = lane if kind in ("message", "compaction") else f"{lane} {kind}"
            step = streamed_counters(step, model) if is_stream else step
            usage = usage_of({**tier_fields(answer.counts), **step}, lambda what: self.source.fault(pair.line, what))
            if usage is not None and usage.write_5m and "cacheDetails" not in step and _asks_for_an_hour(fields):
                usage = usage.with_written(0, usage.write_5m)  # Bedrock's sum says nothing of how long
            usage = answer.as_far_as_received(usage)
            yield (
                f"{identity}/{number}" if number > 1 else identity,
                part,
                _text(step.get("model")) or model,
                _at_home(usage, provider),
            )


def _cleaned(body: Body) -> tuple[bytes, dict[str, Any]]:
    """The bytes that were sent, without credentials, and what they say."""
    cleaned = without_secrets(body.fields)
    return (body.raw if body.raw is not None and cleaned is body.fields else _spelled(cleaned)), cleaned


def _at_home(usage: Usage | None, provider: str) -> Usage | None:
    """A host whose prices nobody lists is one's own: there nothing is billed as written, so what is not said of writes
    is nothing.
    """
    if usage is None or provider or usage.read is None or usage.write_5m is not None:
        return usage and usage.with_ttls_of(provider)
    return usage.with_unknown_writes_as_zero()


def _asks_for_an_hour(fields: Mapping[str, Any]) -> bool:
    """Return whether a Converse body has cache points, and each is to last an hour."""
    messages = fields.get("messages")
    tools = fields.get("toolConfig")
    lists = [
        fields.get("system"),
        tools.get("tools") if isinstance(tools, dict) else None,
        *(one.get("content") for one in (messages if isinstance(messages, list) else ()) if isinstance(one, dict)),
    ]
    parts = (part for listed in lists if isinstance(listed, list) for part in listed if isinstance(part, dict))
    lasts = [point.get("ttl") for part in parts if isinstance(point := part.get("cachePoint"), dict)]
    return bool(lasts) and all(ttl == "1h" for ttl in lasts)


def _written(source: Source) -> float:
    """When a file was written last: the only time there is, where its lines hold none."""
    path = Path(source.name)
    return path.stat().st_mtime if source.name != STDIN and path.is_file() else 0.0


def _requested_model(fields: Mapping[str, Any]) -> str:
    """The model a request names; boto3 has another word for it."""
    return _text(fields.get("model")) or _text(fields.get("modelId"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _spelled(fields: dict[str, Any]) -> bytes:
    """As the SDKs write it: compact, keys in their order."""
    try:
        return orjson.dumps(fields)
    except TypeError:
        return canonical(fields)


def without_secrets(fields: dict[str, Any]) -> dict[str, Any]:
    """`fields` with every credential blotted out, itself where it holds none.

    >>> without_secrets({"model": "m", "mcp_servers": [{"name": "a", "authorization_token": "t"}]})
    {'model': 'm', 'mcp_servers': [{'name': 'a', 'authorization_token': '[not kept]'}]}
    """
    cleaned = fields
    for name in _LISTING:
        listed = fields.get(name)
        if isinstance(listed, list) and any(isinstance(one, dict) and not _SECRETS.isdisjoint(one) for one in listed):
            cleaned = {**cleaned, name: [_blotted(one) if isinstance(one, dict) else one for one in listed]}
    return cleaned if _SECRETS.isdisjoint(cleaned) else _blotted(cleaned)


def _blotted(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: BLOT if name in _SECRETS and value else value for name, value in fields.items()}
