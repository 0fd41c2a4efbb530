"""Checks requests against a budget before they leave, and charges what their responses were billed.

Takes request bodies and the bytes of responses of any endpoint; each HTTP request is one attempt, retries included.
A body that cannot be read is estimated by its size. A gate may lower the output limit of a request to what the budget
has left (`Cap`).
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, parse
from contextkit.content_encoding import UndecodableBody, decoded
from contextkit.errors import BudgetExceeded, NotSerialisable, UnreadableRequest
from contextkit.importers.billed import model_in
from contextkit.ledger.budget import Budget, Hold, PlannedCall, Reservation, is_covered, planned_call
from contextkit.ledger.transport import Call, Watcher, as_sdk_error
from contextkit.models import Model, find_model, model_named
from contextkit.providers.client_names import NO_NAMES, ClientNames
from contextkit.providers.endpoints import BODIES, PARSERS, endpoint_of
from contextkit.providers.histories import all_named_in
from contextkit.providers.parameters import Splice, limit_paths, limit_splices, spliced
from contextkit.providers.paths import FOLLOWED, is_free, wire_of
from contextkit.providers.response_facts import MOST_BYTES, ResponseBytes, ResponseSummary, response_bytes
from contextkit.redact import redact_path
from contextkit.terminal import sanitize

ReadResponse = Callable[[str, str, str, bytes, bool], Usage | None]
"""(content type, content encoding, bytes, whether all came) → the usage a response reports."""
_MOST_STORED = 10_000
"""Responses, and items of them, whose size is remembered, for requests that name one a server stores."""
MIN_OUTPUT = 1_024
"""Fewest tokens of output that a gate lowers a limit to: an agent's step is cut off with fewer."""
_UNKNOWN_MOST = 8_192
"""Most tokens of output that are asked for where a request sets no limit, and the most its model takes is not known."""
_NO_LIMIT = "/backend-api/codex/"
"""Part of the paths of a host of Responses that refuses an output limit with 400 (ChatGPT's own, for Codex:
https://github.com/RayBytes/ChatMock/issues/103)."""
_UNREADABLE = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError, UnreadableRequest)


@dataclass(frozen=True, slots=True)
class Cap:
    """An output limit that was lowered to what a budget has left."""

    field: str
    """Its field: `max_tokens`, `generationConfig.maxOutputTokens`."""
    before: int | None
    """What the request asked for; None where it set no limit."""
    after: int
    """What it asks for now."""
    body: bytes = b""
    """The request's body with it."""
    splices: tuple[Splice, ...] = ()
    """What differs from the body as it came."""

    def __str__(self) -> str:
        """`max_tokens lowered from 32,000 to 8,100: the budget's worst case`."""
        was = "set" if self.before is None else f"lowered from {self.before:,}"
        return f"{self.field} {was} to {self.after:,}: the budget's worst case"


@dataclass(frozen=True, slots=True)
class _LimitedBody:
    """A request body, as far as its output limit is concerned."""

    wire: str
    body: bytes
    fields: Mapping[str, Json]
    model: Model
    chat_field: str

    def most(self, call: PlannedCall) -> PlannedCall:
        """The call with a limit that its model takes, where it sets none."""
        most = max(self.model.max_output_tokens or _UNKNOWN_MOST, call.least_output // call.n_answers)
        has_limit = call.has_output_limit
        return call if has_limit else replace(call, output_tokens=min(call.output_tokens, most * call.n_answers))

    def cap(self, call: PlannedCall, capped: PlannedCall) -> Cap | None:
        """The body that asks for the output of `capped`; None where its bytes cannot say that."""
        before, after = (one.output_tokens // one.n_answers for one in (call, capped))
        splices = limit_splices(self.wire, self.body, self.fields, after, self.chat_field)
        if not splices:
            return None
        path = limit_paths(self.wire, self.fields, self.chat_field)[0]
        was = before if call.has_output_limit else None
        return Cap(".".join(path), was, after, spliced(self.body, splices), splices)


class BudgetGate:
    """One client, or one proxy, that spends from a budget."""

    def __init__(
        self,
        budget: Budget,
        session: str,
        *,
        sdk: str = "",
        clock: Callable[[], float] = time.time,
        read_response: ReadResponse | None = None,
        allow_unpriced: bool = False,
        caps_output: bool = False,
    ) -> None:
        """`session`: what a budget per session is spent by; `sdk`: the package whose client is watched, so that what is
        raised passes through it; `read_response` reads endpoints that are not in `FOLLOWED`, whose calls are charged
        their most without it; `allow_unpriced` lets requests pass, uncounted, that may be billed nobody knows what;
        `caps_output`: the output limit of a request is lowered to what the budget has left before it is refused.
        """
        self._allow_unpriced, self._caps_output = allow_unpriced, caps_output
        self._budget, self._session, self._clock, self._read_response = budget, session, clock, read_response
        self._sdk = sdk
        self._stored: OrderedDict[str, int] = OrderedDict()
        """Id of a response → tokens of its prompt and output: what a request that names it continues from; id of one of
        its items → the most that it has."""

    def warm_up(self) -> None:
        """Load what the first request needs: tokens and prices take seconds."""
        self._planned("openai_responses", "/v1/responses", b'{"model":"gpt-6.1-sol","input":"hello"}', "")

    def is_unpriced(self, method: str, path: str, *, is_upgrade: bool = False) -> bool:
        """Return whether a request is refused whatever the budget has left: it may be billed, and nobody knows what.

        A switch to a web socket of the Responses API is not: each of its frames is a `POST` to be admitted.
        """
        if is_upgrade:
            return not self._allow_unpriced and wire_of("POST", path) != "openai_responses"
        return not (self._allow_unpriced or wire_of(method, path) or is_free(method, path))

    def admit(
        self,
        method: str,
        path: str,
        body: bytes | None,
        encoding: str = "",
        *,
        is_upgrade: bool = False,
        is_signed: bool = False,
    ) -> Admission | None:
        """Set aside what a request may cost; None where it costs nothing, or whoever sends it did so already.

        `body` is None where it cannot be read before it is sent; `is_upgrade`: it switches to another protocol;
        `is_signed`: a signature covers its body, so that nothing of it may be changed. Otherwise the body to send is that
        of the admission's `cap`, where it has one.

        Raises `BudgetExceeded` where it could cost more than the budget has left, or cannot be priced.
        """
        if is_covered(self._budget):
            return None
        wire = wire_of(method, path)
        try:
            if self.is_unpriced(method, path, is_upgrade=is_upgrade) or (
                wire and body is None and not self._allow_unpriced
            ):
                raise unpriced(method, path, is_upgrade=is_upgrade)
            if not wire or body is None:
                return None
            planned, asked = self._planned(wire, path, body, encoding)
            claimed = self._budget.claim(planned)  # a context has set it aside, and charges it
            if claimed is not None:
                return Claimed(self, claimed, wire)
            if self._budget.usd is not None and not planned.has_price and not self._allow_unpriced:
                raise _without_price(planned.model)
            planned = self._with_history(planned, asked)
            is_open = encoding.lower() in ("", "identity") and not is_signed and _NO_LIMIT not in path
            hold, cap = self._held(planned, asked if self._caps_output and is_open else None)
        except BudgetExceeded as exceeded:
            raise as_sdk_error(exceeded, self._sdk) from None
        return Admission(self, hold, wire, None if wire in FOLLOWED else self._read_response, planned.model, cap)

    def answered(self, name: str, usage: Usage | None, n_planned: int, items: Iterable[Json] = ()) -> None:
        """Remember how long the conversation is that a response ends, and its items are.

        A request that only prepares state may be billed nothing: what it prepared is as long as was planned.
        """
        n_output = (usage.output or 0) if usage else 0
        n_tokens = (usage.with_unknown_writes_as_zero().prompt or n_planned) + n_output if usage else 0
        if name and n_tokens:
            self._stored[name] = n_tokens
            ids = (item.get("id") for item in items if isinstance(item, Mapping))
            self._stored.update({one: n_output for one in ids if isinstance(one, str)})
            while len(self._stored) > _MOST_STORED:
                self._stored.popitem(last=False)

    def _held(self, planned: PlannedCall, asked: _LimitedBody | None) -> tuple[Hold, Cap | None]:
        """Reserve a call, with less output where it does not fit and `asked` can be changed."""
        limits = ((self._budget, self._session),)
        try:
            return Hold(limits, planned), None
        except BudgetExceeded:
            if asked is None or not asked.fields:
                raise
            hold = Hold(limits, asked.most(planned), is_capped=True)
            cap = asked.cap(planned, hold.call)
            if cap is None and hold.call.output_tokens < planned.output_tokens:
                hold.release()
                raise
            return hold, cap

    def _planned(self, wire: str, path: str, body: bytes, encoding: str) -> tuple[PlannedCall, _LimitedBody]:
        fields = _fields(body, encoding)
        model = str(fields.get("model") or model_in(path) or model_in(unquote(path))).removeprefix("models/")
        row = find_model(model)
        provider = row.provider if row else wire.partition("_")[0]
        spoken, prompt, params = _prompt_of(wire, fields, model, provider)
        now, rules = self._clock(), model_named(model, provider)
        call = planned_call(provider, rules, prompt, params, now, wire=spoken, min_output=MIN_OUTPUT)
        if not prompt.n:
            per_token = row.bytes_per_token if row else 4.0
            call = replace(call, prompt_tokens=math.ceil(len(body) / per_token))
        prompts = fields.get("prompt") if wire == "openai_completions" else None
        if isinstance(prompts, list) and not all(type(token) is int for token in prompts):
            call = call.times(max(1, len(prompts)))
        if isinstance(
            prompts, list
        ):  # ids of tokens, of one prompt or of each, may be shorter than what they stand for
            n_ids = sum(len(one) if isinstance(one, list) else 1 for one in prompts)
            call = replace(call, prompt_tokens=max(call.prompt_tokens, n_ids))
        is_openai = model_named(model, "").provider in ("openai", "azure") or "/openai/deployments/" in path
        chat_field = "max_completion_tokens" if is_openai else "max_tokens"
        return replace(call, model=model), _LimitedBody(spoken, body, fields, rules, chat_field)

    def _with_history(self, call: PlannedCall, asked: _LimitedBody) -> PlannedCall:
        """The call with what a server keeps of its prompt: as it was billed, or else all that the window holds.

        Raises `BudgetExceeded` where the window is not known.
        """
        named, is_unknown = all_named_in(asked.fields), asked.model.is_assumed
        sizes = [self._stored.get(one.name) for one in named]
        if None not in sizes:
            return replace(call, prompt_tokens=call.prompt_tokens + sum(size or 0 for size in sizes))
        if is_unknown and not self._allow_unpriced:
            field = sanitize(named[sizes.index(None)].field)
            raise BudgetExceeded(
                f"a call to {sanitize(call.model)!r} names what the server keeps ({field}), which this budget has not seen, and "
                "no window is known of the model, so what it may cost cannot be said; nothing was sent",
                in_code="send the whole conversation, or register_model(…)",
                in_shell="send the whole conversation, or give the model a row (contextkit proxy --models)",
            )
        n_window = 0 if is_unknown else asked.model.window_tokens
        return replace(call, prompt_tokens=max(call.prompt_tokens, n_window), is_prompt_known=is_unknown)


class Admission:
    """One request that may be sent, from its first byte to the last of its response."""

    __slots__ = (
        "_body",
        "_encoding",
        "_gate",
        "_hold",
        "_kind",
        "_model",
        "_read",
        "_status",
        "_text",
        "_wire",
        "cap",
        "was_sent",
    )

    def __init__(
        self,
        gate: BudgetGate,
        hold: Hold,
        wire: str,
        read: ReadResponse | None,
        model: str,
        cap: Cap | None = None,
    ) -> None:
        self._gate, self._hold, self._wire, self._read, self._model = gate, hold, wire, read, model
        self.cap = cap
        """How its output limit was lowered, with the body to send; None where it is sent as it came."""
        self._text: ResponseBytes | None = None
        self._body = bytearray()
        self._kind = self._encoding = ""
        self._status = 0
        self.was_sent = False
        """Whether the request may have reached the provider."""

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """Start the response."""
        self._status, self.was_sent = status, True
        self._kind, self._encoding = headers.get("content-type", ""), headers.get("content-encoding", "")
        if self._wire in FOLLOWED:
            self._text = response_bytes(self._wire, self._kind, self._encoding)

    def feed(self, chunk: bytes) -> None:
        """Read a chunk of the response."""
        if self._text is not None:
            self._text.feed(chunk)
            if self._text.has_ended and self._wire == "openai_responses":  # the next request may name it already
                self._remember(self._text.summary(is_closed=False))
        elif self._read is not None and len(self._body) <= MOST_BYTES:
            self._body += chunk

    def ended(self, *, is_whole: bool) -> None:
        """No more will come: charge the call, unless its status says that it was not billed, or it never left."""
        if self._status >= 300 or not self.was_sent:
            self._hold.release()
            return
        if self._text is not None:
            summary = self._text.summary(is_closed=is_whole)
            usage = self._remember(summary)
        elif self._read is not None:
            usage = self._read(self._model, self._kind, self._encoding, bytes(self._body), is_whole)
        else:
            usage = None
        self._hold.settle(usage)

    def _remember(self, summary: ResponseSummary) -> Usage | None:
        """Tell the gate how long the conversation is now; return the usage."""
        usage = summary.usage
        if usage is not None and not summary.is_complete:
            usage = replace(usage, output=None)
        self._gate.answered(summary.id, usage, self._hold.call.prompt_tokens, summary.items or ())
        return usage

    def release(self) -> None:
        """It is not sent after all."""
        self._hold.release()


class Claimed(Admission):
    """One attempt to send a request for which a context has set aside what it may cost: it hears of attempts that are
    lost, and charges the reply.
    """

    __slots__ = ("_reservation",)

    def __init__(self, gate: BudgetGate, reservation: Reservation, wire: str) -> None:
        super().__init__(gate, Hold((), reservation.call), wire, None, reservation.call.model)
        self._reservation = reservation

    def ended(self, *, is_whole: bool) -> None:
        """No more will come: an attempt that left and was not answered may have been billed."""
        if self.was_sent and not self._status:
            self._reservation.n_lost += 1
        elif 0 < self._status < 300:
            self._reservation.n_answered += 1
        super().ended(is_whole=is_whole)


class BudgetedWatcher:
    """Keeps back requests that a budget has no room for; another watcher sees the rest."""

    def __init__(self, gate: BudgetGate, inner: Watcher) -> None:
        self._gate, self._inner = gate, inner

    def start(self, method: str, path: str, body: bytes | None, names: ClientNames = NO_NAMES) -> Call | None:
        """Check a request that is about to be sent. Raises `BudgetExceeded`, and what the other watcher raises."""
        admission = self._gate.admit(method, path, body)
        if admission is None or body is None:
            return self._inner.start(method, path, body, names)
        try:
            return BudgetedCall(admission, self._inner.start(method, path, body, names), body)
        except BaseException:
            admission.release()
            raise

    def close(self) -> None:
        """Close the client."""
        self._inner.close()


class BudgetedCall:
    """A request on its way that is charged to a budget, and is perhaps looked at by another watcher as well."""

    def __init__(self, admission: Admission, inner: Call | None, body: bytes) -> None:
        self._admission, self._inner, self._is_over = admission, inner, False
        self.body = body if inner is None else inner.body
        """What is to be sent."""

    def began(self, status: int, headers: Mapping[str, str]) -> None:
        """Start the response."""
        self._admission.began(status, headers)
        if self._inner is not None:
            self._inner.began(status, headers)

    def feed(self, chunk: bytes) -> None:
        """Read a chunk of the response."""
        self._admission.feed(chunk)
        if self._inner is not None:
            self._inner.feed(chunk)

    def ended(self, *, is_whole: bool, error: str = "", was_sent: bool = True) -> None:
        """No more will come; the first call counts."""
        if not self._is_over:
            self._is_over = True
            self._admission.was_sent = self._admission.was_sent or was_sent
            self._admission.ended(is_whole=is_whole)
        if self._inner is not None:
            self._inner.ended(is_whole=is_whole, error=error, was_sent=was_sent)


def _fields(body: bytes, encoding: str) -> dict[str, Json]:
    """Parse a body as an object; empty where it is none."""
    try:
        fields = parse(decoded(body, encoding, MOST_BYTES) if encoding else body)
    except (NotSerialisable, UndecodableBody):
        return {}
    return fields if isinstance(fields, dict) else {}


def unpriced(method: str, path: str, *, is_upgrade: bool) -> BudgetExceeded:
    """Return the refusal of a request that may be billed, and that nobody can price before it is sent."""
    what = f"{method} {sanitize(redact_path(path.partition('?')[0]))}"
    why = "may be billed, and what it costs cannot be said before it is sent"
    if is_upgrade:
        why = "asks for a web socket, whose calls cannot be counted: send them as POST over HTTP"
    return BudgetExceeded(
        f"{what} {why}, so a budget does not let it pass; nothing was sent",
        in_code="watch(client, budget=…, allow_unpriced=True) lets such requests pass uncounted",
        in_shell="--budget-allow-unpriced lets such requests pass uncounted",
    )


def _without_price(model: str) -> BudgetExceeded:
    """Return the refusal of a call whose dollars nobody can count; `model` is empty where its body cannot be read."""
    what = f"no price is known of {sanitize(model)!r}" if model else "a call's body cannot be read, or names no model"
    return BudgetExceeded(
        f"{what}, so a budget of dollars does not let it pass; nothing was sent",
        in_code="register_price(…), or watch(client, budget=…, allow_unpriced=True) lets such requests pass uncounted",
        in_shell="give the model a row (contextkit proxy --models), or --budget-allow-unpriced lets such requests pass uncounted",
    )


_EMPTY = Prompt((b"", b"", b""), (0, 0), [], [], [], (), 0)


def _prompt_of(wire: str, fields: dict[str, Json], model: str, provider: str) -> tuple[str, Prompt, Mapping[str, Json]]:
    """Return the endpoint that a body speaks, its prompt and its parameters.

    An empty prompt where it cannot be read; the endpoint is empty for a vendor's own that is not known.
    """
    spoken = wire
    try:
        if wire in _VENDORS:
            spoken = endpoint_of(fields, f"{provider} {model}".lower())
        if spoken not in BODIES:
            return spoken, _EMPTY, fields
        parsed = PARSERS[spoken]({**fields, BODIES[spoken].model_field: model})
    except _UNREADABLE:
        return spoken, _EMPTY, fields
    return spoken, parsed.prompt, parsed.params


_VENDORS = ("bedrock_invoke", "vertex_raw")
"""Wires whose bodies are those of the vendor of the model."""
