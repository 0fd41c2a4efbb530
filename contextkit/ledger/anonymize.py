"""Anonymizes recordings: the same calls, bills and times without any text, as a ledger that can be published.

A report of the result has the same calls, tokens, dollars and misses. Of a hidden model that no public name has the price
of, only the cost is kept: what its misses and its cache came to is unknown. Prompts become outlines of hashed blocks; ids,
sessions, agents and project folders become hashes; models and providers keep their names only where those are public,
and what a remark says is kept where it is on a list here. Nothing is public because of its form. Hashes are keyed with
a salt that is kept nowhere, so equal blocks stay equal and nobody can look a guessed text up.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from contextkit import prices
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import QUALITIES, Usage
from contextkit.errors import UnknownModel
from contextkit.facts import load
from contextkit.facts.observed import event_rates
from contextkit.ledger.calls import (
    INFERRED_LANE,
    OTHER_PROJECT,
    REROUTED,
    BlockIds,
    Bodies,
    ModelCall,
    Outline,
    Record,
    Remark,
)
from contextkit.ledger.failure_names import REFUSED
from contextkit.ledger.misses import complete_usage
from contextkit.ledger.prompts import Growing, Lane, outline, read_body
from contextkit.models import built_in_models, find_model, model_named
from contextkit.prompt.alignment import units_of
from contextkit.prompt.diff import common_segments
from contextkit.prompt.prompt import PromptLayout

COMPACTED = "the history was compacted"
"""Stands for what a recording says of a compaction."""
VERDICTS = frozenset(
    {
        *("model_changed", "tools_changed", "system_changed", "messages_changed", "unavailable"),
        *("previous_message_not_found", "comparison_response_not_found", "prompt_cache_key_changed"),
        *("service_tier_changed", "text_format_changed", "reasoning_effort_changed", "verbosity_changed"),
        *("input_changed", "cache_hit"),
    }
)
"""Diagnoses of the Anthropic and OpenAI APIs (`server/endpoints/diagnostics.py`)."""
PROGRAMS = frozenset(
    {
        *("Claude Code", "Codex", "Copilot CLI", "Gemini CLI", "Qwen Code", "opencode", "pi", "aider", "OpenHands"),
        *("Cline", "Cline or Roo Code", "SWE-agent", "Inspect"),
    }
)
"""Agent programs that hold sessions."""
SETTING_VALUES = frozenset(
    {
        *("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", "auto", "default"),
        *("standard", "fast", "flex", "priority", "batch", "true", "false"),
    }
)
"""Values of settings."""
PUBLIC_WORDS = frozenset(
    {
        *("anthropic", "amazon", "aws", "azure", "bedrock", "google", "openai", "openrouter", "vertex", "vertexai"),
        *("deepseek", "moonshotai", "moonshot", "mistralai", "mistral", "meta", "qwen", "zai", "xai", "ai", "x"),
        *("accounts", "fireworks", "models", "publishers", "us", "eu", "apac", "au", "ca", "jp", "global"),
        *("latest", "preview", "free", "nitro", "floor", "thinking", "default", "1m", "v1", "v2", "v3"),
    }
)
"""Words that hosts, routers and clients put around the name of a model."""
_RELEASE = re.compile(r"20\d{6}|20\d\d|0\d\d\d|1[0-2]\d\d|[0-3]?\d|00\d")
_ERROR = re.compile(r"(?:http_)?[1-5]\d\d(?=\b)|aborted|cut|cancelled|timeout")
_SETTING = re.compile(r"(effort|speed) (.+) → (.+)")
_NUMBERED_LANE = re.compile(rf"{INFERRED_LANE}[1-9]\d{{0,5}}")
_COUNTERS = ("fresh", "read", "writes", "output")


@dataclass(slots=True)
class _LaneState:
    """What one lane of the output holds."""

    written: Lane = field(default_factory=Lane)
    """The prompts as they were written, with their original digests."""
    entries: list[int] = field(default_factory=list)
    """Log sequence of each block of the last recorded outline."""
    n_billed: int = 0
    """Blocks of the last billed prompt, with which `written` begins; 0 where it is unknown."""


class Anonymizer:
    """Turns the records of a recording, in their order, into records without text.

    >>> [remark.text for remark in Anonymizer().feed(Remark("setting", "msg_1", "effort low → high"))]
    ['effort low → high']
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._growing = Growing()
        self._blocks: dict[bytes, int] = {}
        """Key of a block → its number."""
        self._lanes: dict[tuple[str, str], _LaneState] = {}
        self._stand_ins: dict[tuple[str, str], str] = {}
        """Provider and model that is not public → what stands for the model."""

    def feed_all(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield what stands for each of the records."""
        for record in records:
            yield from self.feed(record)

    def feed(self, record: Record) -> Iterator[Record]:
        """Yield what stands for a record; nothing for a remark that is not on the list."""
        if isinstance(record, ModelCall):
            yield self._call(record)
            return
        kind, about, text = record.kind, str(record.about), str(record.text)
        if kind in ("verdict", "compaction", "setting", "turn", "event"):
            yield Remark(kind, self.name("call", about), self._public_text(kind, text))
        elif kind == "project" or (kind == "program" and text in PROGRAMS):
            yield Remark(kind, self.name("session", about), self.name(kind, text) if kind == "project" else text)
        elif kind in ("agent", "sum"):
            # `session/lane`: both may hold slashes, and only one way to read it is a lane of a session
            for at in (place for place, character in enumerate(about) if character == "/"):
                lane = f"{self.name('session', about[:at])}/{self._agent(about[at + 1 :])}"
                yield Remark(kind, lane, self._agent(text) if kind == "agent" else "adds up several calls")

    def _public_text(self, kind: str, text: str) -> str:
        """Return the public part of what a remark says of a call."""
        if kind == "verdict":
            return text if text in VERDICTS else "other"
        if kind == "turn":
            return text if text.isascii() and text.isdigit() else "0"
        if kind == "event":
            event, _, more = text.partition(": ")
            return f"{event if event_rates(event) else 'other'}: {more if more.isascii() and more.isdigit() else ''}"
        return COMPACTED if kind == "compaction" else self._setting(text)

    def _setting(self, text: str) -> str:
        for word in (REROUTED, OTHER_PROJECT):
            was, arrow, now = text.removeprefix(word).partition(" → ")
            if text.startswith(word) and arrow:
                return f"{word}{self.name(word.strip(), was)} → {self.name(word.strip(), now)}"
        parts = [_SETTING.fullmatch(part) for part in text.split(", ")]
        named = [f"{part[1]} {self._value(part[2])} → {self._value(part[3])}" for part in parts if part]
        return ", ".join(named) if named and len(named) == len(parts) else "a request setting"

    def _value(self, value: str) -> str:
        return value if value in SETTING_VALUES else self.name("value", value)

    # Calls

    def _call(self, call: ModelCall) -> ModelCall:
        provider, usage = str(call.provider), self._usage(call.usage)
        model, computed_usd = self._model(call, usage)
        error = None if call.error is None else _ERROR.match(str(call.error))
        return ModelCall(
            id=self.name("call", str(call.id)),
            session=self.name("session", str(call.session)),
            lane=self._agent(str(call.lane)),
            at=_number(call.at) or 0.0,
            first_byte_at=_number(call.first_byte_at),
            ended_at=_number(call.ended_at),
            provider=provider if not provider or provider in _public_providers() else self.name("provider", provider),
            model=model,
            prompt=self._prompt(replace(call, usage=usage)),
            usage=usage,
            predicted=self._usage(call.predicted),
            error=None if call.error is None else error[0] if error else REFUSED if call.is_refused else "error",
            billed_usd=_number(call.billed_usd),
            output_estimate=_count(call.output_estimate),
            computed_usd=computed_usd,
            account=self.name("account", str(call.account)) if call.account else "",
            host=self.name("host", str(call.host)) if call.host else "",
        )

    def _model(self, call: ModelCall, usage: Usage | None) -> tuple[str, float | None]:
        """Return the model, or what stands for one that is not public, and the list price of the call if that is lost.

        A stand-in begins with public words, so that it goes by the rules of the model and has its list price. `usage` has
        the names of service tiers replaced. Where a name that is replaced had the price, the dollars of the call are noted.
        """
        provider, model, at = str(call.provider), str(call.model), _number(call.at) or 0.0
        billed = complete_usage(replace(call, usage=usage))
        tier = str(call.usage.service_tier or "") if call.usage else ""
        name = model if _is_public(provider, model) else self._stand_ins.get((provider, model))
        if name is None:
            name = self._stand_ins[provider, model] = self._stand_in(provider, model, at, tier)
        if billed is None:
            return name, _number(call.computed_usd)
        usd = _list_usd(provider, model, replace(billed, service_tier=tier), at)
        is_lost = usd is not None and _list_usd(provider, name, billed, at) != usd
        return name, usd if is_lost else _number(call.computed_usd)

    def _stand_in(self, provider: str, model: str, at: float, tier: str) -> str:
        hidden, rows = self.name("model", model), _price_rows(provider, model, at, tier)
        for opening in (f"{_row_name(provider, model)}-", _public_opening(provider, model)):
            if opening.strip("-") and _price_rows(provider, opening + hidden, at, tier) == rows:
                return opening + hidden
        return hidden

    def _usage(self, usage: Usage | None) -> Usage | None:
        """Return the same counters; numbers only, whatever a row held."""
        if usage is None:
            return None
        tiers = [
            tier if tier in _public_tiers() else self.name("tier", tier)
            for tier in str(usage.service_tier or "").split(" + ")
        ]
        return Usage(
            _count(usage.fresh),
            _count(usage.read),
            output=_count(usage.output),
            estimated=bool(usage.estimated),
            service_tier=" + ".join(tiers),
            writes=None if usage.writes is None else {int(ttl): _count(tokens) for ttl, tokens in usage.writes},
            qualities={name: grade for name, grade in usage.qualities if name in _COUNTERS and grade in QUALITIES},
        )

    # Prompts

    def _prompt(self, call: ModelCall) -> Outline | BlockIds | None:
        """Return the outline of what was sent; None where it cannot be read, and for token ids."""
        lane = self._lanes.setdefault((call.session, call.lane), _LaneState())
        recorded, is_billed = call.prompt, complete_usage(call) is not None
        if isinstance(recorded, BlockIds):
            if not all(type(number) is int for number in (recorded.size, *recorded.ids)):
                return None
            ids = (int.from_bytes(self._hash("block", b"%d" % block)[:7], "big") for block in recorded.ids)
            return BlockIds(recorded.size, tuple(ids))
        sent = None
        if isinstance(recorded, Outline):
            prompt = self._growing.prompt(call)
            has_entries = len(recorded.entries) == len(recorded.digests)
            lane.entries[recorded.keep :] = recorded.entries if has_entries else [-1] * len(recorded.digests)
            if prompt is not None and _is_sound(recorded, lane.entries):
                sent = self._outline(lane, prompt, lane.entries, recorded.epoch, call.id)
        elif isinstance(recorded, Bodies):
            read = read_body(recorded.request, str(call.provider), str(call.model))
            if read is not None and (is_billed or self._continues(lane, read.prompt)):
                sent = self._outline(lane, read.prompt, self._numbers(read.layout), 0, call.id)
        if is_billed:
            lane.n_billed = lane.written.prompt.n if sent and lane.written.prompt else 0
        return sent

    def _numbers(self, layout: PromptLayout) -> list[int]:
        """Number the blocks of a body in the order in which they came first: equal blocks have equal numbers."""
        keys = [unit.key for unit in units_of(layout)]
        return [self._blocks.setdefault(key, len(self._blocks)) if key else -1 for key in keys]

    @staticmethod
    def _continues(lane: _LaneState, prompt: Prompt) -> bool:
        """Return whether a prompt begins with the last billed one of its lane.

        The miss detector compares recorded bodies of billed calls only. In an outline, a call without a bill that
        changed what the billed one had sent would stand between the two, so its prompt is left out.
        """
        before = lane.written.prompt
        return before is None or common_segments(before.digests, before.n, prompt.digests, prompt.n) >= lane.n_billed

    def _outline(self, lane: _LaneState, prompt: Prompt, entries: list[int], epoch: int, call_id: str) -> Outline:
        """Return the difference to what the lane holds, its digests hashed."""
        plain = outline(lane.written.prompt, prompt, entries, epoch)
        base = self._hash("digest", lane.written.digests[plain.keep - 1]).hex() if plain.keep else ""
        lane.written.grow(plain, call_id)
        tools, system, messages = (self._hash("namespace", one).hex() if one else "" for one in prompt.namespaces)
        return replace(
            plain,
            namespaces=(tools, system, messages),
            digests=tuple(self._hash("digest", bytes.fromhex(digest)).hex() for digest in plain.digests),
            base=base[: len(plain.base)],
        )

    # Names

    def name(self, kind: str, name: str) -> str:
        """Return what stands for a name: its kind and its hash; empty where there is none."""
        return f"{kind}-{self._hash(kind, name.encode('utf-8', 'surrogatepass'))[:8].hex()}" if name else ""

    def _agent(self, name: str) -> str:
        return name if name == "main" or _NUMBERED_LANE.fullmatch(name) else self.name("agent", name)

    def _hash(self, kind: str, value: bytes) -> bytes:
        return blake2b(value, digest_size=16, key=self._key, person=kind.encode()[:16]).digest()


@lru_cache(maxsize=1024)
def _is_public(provider: str, model: str) -> bool:
    """Return whether a name is made of words of the row or genai-prices model it goes by, of hosts, and of releases.

    >>> names = ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-opus-5-9", "claude-acme")
    >>> [_is_public("anthropic", name) for name in names]
    [True, True, False]
    """
    from genai_prices.data_snapshot import get_snapshot

    if model in ("", "unknown", "all"):
        return True
    relatives = {_row_name(provider, model)}
    with suppress(LookupError):
        relatives.add(get_snapshot().find_provider_model(model, None, provider or None, None)[1].id)
    words = _words(model)
    return any(all(_is_public_word(word, name) for word in words) for name in relatives - {""})


def _is_public_word(word: str, name: str) -> bool:
    """Return whether a word of a model's name is one of the public `name`, of a host, or of a release."""
    return bool(word in _words(name) or word in PUBLIC_WORDS or _RELEASE.fullmatch(word))


@lru_cache(maxsize=1024)
def _public_opening(provider: str, model: str) -> str:
    """Return the part of a model's name before the first word that is not public; empty where there is none.

    >>> _public_opening("openai", "ft:gpt-4o-mini-2024-07-18:acme::id"), _public_opening("openai", "GPT-4o-ACME-x")
    ('ft:gpt-4o-mini-2024-07-18:', 'GPT-4o-')
    """
    row, end = _row_name(provider, model), 0
    for word in re.finditer(r"([A-Za-z0-9]+)[^A-Za-z0-9]*", model if row and model.isascii() else ""):
        if word.start() != end or not (word[1] == "ft" or _is_public_word(word[1].lower(), row)):
            break
        end = word.end()
    return model[:end]


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word] if name.isascii() else [name]


def _row_name(provider: str, model: str) -> str:
    """Return the name of the built-in row whose rules a model goes by; empty where there is none."""
    row = find_model(model)
    name = row.name if row else model_named(model, provider).source.removeprefix("assumed after ").partition(":")[0]
    return name if any(name == one.name for one in built_in_models()) else ""


def _price_rows(provider: str, model: str, at: float, tier: str) -> object:
    """Return the list prices of a model, None where it has none."""
    try:
        return prices.price_rows(provider, model, at, tier)
    except UnknownModel:
        return None


def _list_usd(provider: str, model: str, usage: Usage, at: float) -> float | None:
    try:
        return prices.cost_usd(provider, model, usage, at)
    except UnknownModel:
        return None


@lru_cache(maxsize=1)
def _public_providers() -> frozenset[str]:
    from genai_prices.data_snapshot import get_snapshot

    hosts: dict[str, str] = load.built_in_table("models.toml")["hosts"]
    rows = {row.provider for row in built_in_models()}
    engines = ("vllm", "sglang", "llama.cpp", "ollama", "lmstudio", "azure-openai", "copilot")
    return frozenset({*(one.id for one in get_snapshot().providers), *hosts, *hosts.values(), *rows, *engines})


@lru_cache(maxsize=1)
def _public_tiers() -> frozenset[str]:
    rows = load.built_in_table("prices.toml")["service_tiers"]
    return frozenset({*(row["tier"] for row in rows), *SETTING_VALUES, "scale", "provisioned", "ptu", "geo-eu"})


def _number(value: Any) -> float | None:
    """Return a finite number, None for anything else: a damaged row may hold text in any field."""
    return value if type(value) in (int, float) and math.isfinite(value) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int else None


def _is_sound(recorded: Outline, entries: Iterable[Any]) -> bool:
    """Return whether an outline holds numbers where it should."""
    marks = [(mark.segment, mark.ttl_seconds, mark.lookback) for mark in recorded.breakpoints]
    numbers = (
        *recorded.ends_tokens,
        *recorded.positions,
        recorded.epoch,
        *entries,
        *(n for mark in marks for n in mark),
    )
    return all(type(number) is int for number in numbers) and all(
        type(mark.is_written) is bool for mark in recorded.breakpoints
    )
