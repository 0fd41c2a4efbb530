"""Fingerprints of recordings: the same calls without any text, for records that are published.

`Fingerprinter` takes records and returns records of a contextkit ledger that give the same report: bills, times,
models, and each prompt as an outline of hashed blocks. Hashes are keyed with a salt, so equal blocks stay equal and
nobody can look a guessed text up. What a record says in words is kept where it is on an allow-list
(`public_names.py`), hashed where it is an identifier, and otherwise dropped or replaced by its class.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import QUALITIES, Usage
from contextkit.ledger.calls import BlockIds, Bodies, Exchange, Outline, Record, Recorded, Remark, RemarkKind, Tokens
from contextkit.ledger.misses import complete_usage
from contextkit.ledger.prompts import Growing, Lane, outline, read_body
from contextkit.ledger.public_names import (
    PROGRAMS,
    PublicNames,
    compaction_text,
    error_class,
    event_text,
    verdict_class,
)
from contextkit.prompt.diff import common_segments

LEAST_SALT_BYTES = 16
"""A shorter salt could be guessed."""
SUM = "adds up several calls"
"""Text of every remark of kind `sum`: only that there is one matters."""
_DIGEST_BYTES, _NAME_BYTES = 16, 8
_BASE_DIGITS = 8
"""Of `Outline.base`."""
_BLOCK_BITS, _TOKEN_BITS = 59, 31
"""Sizes of hashed block and token ids: what readers of JSON and token arrays take."""
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
    chain: array[int] = field(default_factory=lambda: array("Q"))
    """Chained hash behind each token of what the last call left."""


class Fingerprinter:
    """Turns records into records without text; feed it the records of a recording in their order.

    >>> fingerprinter = Fingerprinter(b"sixteen bytes or more")
    >>> [remark.text for remark in fingerprinter.feed(Remark("setting", "msg_1", "effort low → high"))]
    ['effort low → high']
    """

    def __init__(self, salt: bytes, *, keep_models: bool = False) -> None:
        """`salt` keys every hash: records of one salt can be joined.

        Keep it secret, or forget it. Models that are in no table are hashed unless `keep_models`.
        """
        if len(salt) < LEAST_SALT_BYTES:
            raise ValueError(f"a salt has {LEAST_SALT_BYTES} bytes or more, not {len(salt)}")
        self._key = blake2b(salt, digest_size=32).digest()
        self.names = PublicNames(self._hashed_name, keep_models=keep_models)
        """What stands for names."""
        self._growing = Growing()
        self._lanes: dict[tuple[str, str], _LaneState] = {}

    def feed(self, record: Record) -> Iterator[Record]:
        """Yield what stands for a record; nothing for a remark whose kind is not on the allow-list."""
        if isinstance(record, Remark):
            yield from self._remarks(record)
        else:
            yield self._exchange(record)

    # Remarks

    def _remarks(self, remark: Remark) -> Iterator[Remark]:
        kind, about, text = remark.kind, str(remark.about), str(remark.text)
        names = self.names
        if kind == "verdict":
            yield self._on_call(kind, about, verdict_class(text))
        elif kind == "compaction":
            yield self._on_call(kind, about, compaction_text(text))
        elif kind == "setting":
            yield self._on_call(kind, about, names.setting(text))
        elif kind == "turn":
            yield self._on_call(kind, about, text if text.isascii() and text.isdigit() else "0")
        elif kind == "event":
            yield self._on_call(kind, about, event_text(text))
        elif kind == "program" and text in PROGRAMS:
            yield Remark(kind, names.identifier("session", about), text)
        elif kind == "project":
            yield Remark(kind, names.identifier("session", about), names.identifier("project", text))
        elif kind in ("agent", "sum"):
            yield from self._on_lane(kind, about, SUM if kind == "sum" else names.agent(text))

    def _on_call(self, kind: RemarkKind, about: str, text: str) -> Remark:
        return Remark(kind, self.names.identifier("call", about), text)

    def _on_lane(self, kind: RemarkKind, about: str, text: str) -> Iterator[Remark]:
        """A remark for each way to read `session/lane`: both may hold slashes, and only one is a lane of a session."""
        for at in (place for place, character in enumerate(about) if character == "/"):
            session, lane = about[:at], about[at + 1 :]
            yield Remark(kind, f"{self.names.identifier('session', session)}/{self.names.agent(lane)}", text)

    # Calls

    def _exchange(self, exchange: Exchange) -> Exchange:
        names, provider, model = self.names, str(exchange.provider), str(exchange.model)
        usage = self._usage(exchange.usage)
        return Exchange(
            id=names.identifier("call", str(exchange.id)),
            session=names.identifier("session", str(exchange.session)),
            lane=names.agent(str(exchange.lane)),
            at=_number(exchange.at) or 0.0,
            first_byte_at=_number(exchange.first_byte_at),
            ended_at=_number(exchange.ended_at),
            provider=names.provider(provider),
            model=names.model(provider, model),
            prompt=self._prompt(replace(exchange, usage=usage)),
            usage=usage,
            predicted=self._usage(exchange.predicted),
            error=None if exchange.error is None else error_class(str(exchange.error)),
            billed_usd=_number(exchange.billed_usd),
            output_estimate=_count(exchange.output_estimate),
        )

    def _usage(self, usage: Usage | None) -> Usage | None:
        """The same counters; numbers only, whatever a row held."""
        if usage is None:
            return None
        writes = None if usage.writes is None else {int(ttl): _count(tokens) for ttl, tokens in usage.writes}
        return Usage(
            _count(usage.fresh),
            _count(usage.read),
            output=_count(usage.output),
            estimated=bool(usage.estimated),
            service_tier=self.names.tier(str(usage.service_tier or "")),
            writes=writes,
            qualities={name: grade for name, grade in usage.qualities if name in _COUNTERS and grade in QUALITIES},
        )

    # Prompts

    def _prompt(self, exchange: Exchange) -> Recorded | None:
        lane = self._lanes.setdefault((exchange.session, exchange.lane), _LaneState())
        prompt = exchange.prompt
        if isinstance(prompt, BlockIds):
            return self._blocks(prompt)
        if isinstance(prompt, Tokens):
            return self._tokens(lane, prompt)
        is_billed = complete_usage(exchange) is not None
        sent = self._written(lane, exchange, is_billed=is_billed)
        if is_billed:
            lane.n_billed = lane.written.prompt.n if sent and lane.written.prompt else 0
        return sent

    def _written(self, lane: _LaneState, exchange: Exchange, *, is_billed: bool) -> Outline | None:
        """The outline of a recorded prompt, None where it cannot be read."""
        recorded = exchange.prompt
        if isinstance(recorded, Outline):
            prompt = self._growing.prompt(exchange)
            if prompt is None:
                return None
            has_entries = len(recorded.entries) == len(recorded.digests) and _are_integers(recorded.entries)
            lane.entries[recorded.keep :] = recorded.entries if has_entries else [-1] * len(recorded.digests)
            return (
                self._outline(lane, prompt, lane.entries, recorded.epoch, exchange.id) if _is_sound(recorded) else None
            )
        if not isinstance(recorded, Bodies):
            return None
        read = read_body(recorded.request, str(exchange.provider), str(exchange.model))
        if read is None or not (is_billed or self._continues(lane, read.prompt)):
            return None
        return self._outline(lane, read.prompt, [-1] * read.prompt.n, 0, exchange.id)

    @staticmethod
    def _continues(lane: _LaneState, prompt: Prompt) -> bool:
        """Whether a prompt begins with the last billed one of its lane.

        The miss detector compares recorded bodies of billed calls only. In an outline, a call without a bill that
        changed what the billed one had sent would stand between the two, so its prompt is left out.
        """
        before = lane.written.prompt
        return before is None or common_segments(before.digests, before.n, prompt.digests, prompt.n) >= lane.n_billed

    def _outline(self, lane: _LaneState, prompt: Prompt, entries: list[int], epoch: int, identity: str) -> Outline:
        """The difference to what the lane holds, its digests hashed."""
        plain = outline(lane.written.prompt, prompt, entries, epoch)
        kept = lane.written.digests[plain.keep - 1] if plain.keep else b""
        lane.written.grow(plain, identity)
        tools, system, messages = map(self._namespace, prompt.namespaces)
        return replace(
            plain,
            namespaces=(tools, system, messages),
            digests=tuple(self._hash("digest", bytes.fromhex(digest)).hex() for digest in plain.digests),
            base=self._hash("digest", kept).hex()[:_BASE_DIGITS] if plain.keep else "",
        )

    def _namespace(self, namespace: bytes) -> str:
        return self._hash("namespace", namespace).hex() if namespace else ""

    def _blocks(self, prompt: BlockIds) -> BlockIds | None:
        if not _are_integers((prompt.size, *prompt.ids)):
            return None
        ids = (_integer(self._hash("block", b"%d" % block), _BLOCK_BITS) for block in prompt.ids)
        return BlockIds(prompt.size, tuple(ids))

    def _tokens(self, lane: _LaneState, prompt: Tokens) -> Tokens | None:
        """Chained hashes in place of token ids: equal prefixes stay equal, and no token shows its frequency."""
        if not _are_integers((prompt.keep, *prompt.ids, *prompt.generated)) or not 0 <= prompt.keep <= len(lane.chain):
            return None
        del lane.chain[prompt.keep :]
        ids, generated = (self._chained(lane.chain, part) for part in (prompt.ids, prompt.generated))
        space = self._hash("space", str(prompt.space).encode()).hex() if prompt.space else ""
        return Tokens(prompt.keep, ids, generated, space, is_read_skipped=bool(prompt.is_read_skipped))

    def _chained(self, chain: array[int], ids: tuple[int, ...]) -> tuple[int, ...]:
        start = len(chain)
        for token in ids:
            before = chain[-1] if chain else 0
            chain.append(_integer(self._hash("token", b"%d %d" % (before, token)), 64))
        return tuple(state & ((1 << _TOKEN_BITS) - 1) for state in chain[start:])

    # Hashes

    def _hash(self, kind: str, value: bytes) -> bytes:
        return blake2b(value, digest_size=_DIGEST_BYTES, key=self._key, person=kind.encode()).digest()

    def _hashed_name(self, kind: str, name: str) -> str:
        return self._hash(kind, name.encode("utf-8", "surrogatepass"))[:_NAME_BYTES].hex()


def _integer(digest: bytes, bits: int) -> int:
    return int.from_bytes(digest[:8], "big") >> (64 - bits)


def _number(value: Any) -> float | None:
    """A finite number, None for anything else: a damaged row may hold text in any field."""
    return value if type(value) in (int, float) and math.isfinite(value) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int else None


def _are_integers(values: Iterable[Any]) -> bool:
    return all(type(value) is int for value in values)


def _is_sound(recorded: Outline) -> bool:
    """Whether an outline holds numbers where it should: a damaged row may hold text in any field."""
    marks = recorded.breakpoints
    return (
        _are_integers((*recorded.ends_tokens, *recorded.positions, recorded.epoch))
        and _are_integers(number for mark in marks for number in (mark.segment, mark.ttl_seconds, mark.lookback))
        and all(type(mark.is_written) is bool for mark in marks)
    )
