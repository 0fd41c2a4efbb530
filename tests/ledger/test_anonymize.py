"""Anonymized recordings give the report of the originals and hold none of their text."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest

from contextkit.cache.usage import Usage
from contextkit.importers.registry import FORMATS, files_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.anonymize import PROGRAMS, VERDICTS, Anonymizer
from contextkit.ledger.calls import (
    BlockIds,
    Bodies,
    ModelCall,
    Outline,
    Record,
    Remark,
    RemarkKind,
    Tokens,
    decode,
    encode,
)
from contextkit.ledger.prompts import prompts_of, read_body
from contextkit.ledger.summary import Summary, summarise
from contextkit.prices import register_price
from contextkit.server.endpoints import diagnostics
from tests.report.made_up import many_sessions, with_bodies
from tests.scale import n_examples

OPUS = "claude-opus-4-5"


def anonymized(records: Iterable[Record]) -> list[Record]:
    """The anonymized records, written as lines and read again."""
    anonymizer = Anonymizer()
    return [decode(encode(out)) for record in records for out in anonymizer.feed(record)]


def figures(summary: Summary) -> object:
    total = summary.total
    return (
        (total.calls, total.usage, total.cost_usd, total.cost_uncached_usd, summary.hit_rates),
        summary.groups,
        [(miss.cause, miss.at, miss.expected_tokens, miss.lost_tokens, miss.cost_usd) for miss in summary.misses],
    )


def check_same_report(records: list[Record]) -> None:
    """Losses too, unless bodies were recorded: without their text, blocks are equal whole or not at all."""
    was, now = (figures(summarise(each, "day")) for each in (records, anonymized(records)))
    if any(isinstance(record, ModelCall) and isinstance(record.prompt, Bodies) for record in records):
        was, now = (each[:1] for each in (was, now))
    assert now == was


def recordings(shared: Path) -> Iterator[list[Record]]:
    """Every eighth file of each agent, and all with `--full`; made-up sessions, and bodies of clients."""
    for name in ("agent-logs/claude-code", "agent-logs/codex", "agent-logs/copilot-cli", "agent-logs/gemini-cli", "pi"):
        files = files_at([str(shared / "data" / name)])
        yield list(records_in(files[:: n_examples(8, 1)], Faults()))
    yield list(many_sessions(6))
    yield list(with_bodies())
    for seed in range(n_examples(1, 3)):
        yield list(bodies_of_clients(shared / "data" / "client-requests", Random(seed)))


def bodies_of_clients(folder: Path, random: Random) -> Iterator[Record]:
    """Request bodies that six clients sent; the bills are drawn, so that every few calls something is missed."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        at = 1_790_000_000.0
        for number, row in enumerate(gzip.decompress(path.read_bytes()).splitlines()):
            request = json.loads(row)["request"]
            provider, model = ("anthropic", OPUS) if "system" in request else ("openai", "gpt-5.1")
            at += random.choice((1.0, 20.0, 20.0, 400.0))
            read = random.choice((0, 40_000))
            usage = None if random.random() < 0.1 else Usage(9, read, writes={300: 40_000 - read}, output=5)
            name, prompt = f"{path.name}-{number}", Bodies(json.dumps(request).encode())
            yield ModelCall(name, path.name, "main", at, at + 1, at + 2, provider, model, prompt, usage, None, None)


def test_the_report_is_the_same_and_no_text_is_in_it(shared: Path) -> None:
    n_calls = 0
    for records in recordings(shared):
        check_same_report(records)
        check_only_public_strings(anonymized(records))
        n_calls += sum(isinstance(record, ModelCall) for record in records)
    assert n_calls > n_examples(1_000, 6_000)


OWN_MODELS = [
    ("openai", "gpt-4o-acme"),
    ("openai", "claude-acme"),
    ("openai", "acme-prod"),
    ("openai", "ft:gpt-4o-mini-2024-07-18:acme::id"),
    ("openai", "ft:GPT-4o-mini:ACME::id"),
    ("anthropic", "claude-opus-4-5-acme"),
    ("google", "gemini-2.5-pro-acme"),
]


@pytest.mark.parametrize(("provider", "model"), OWN_MODELS)
def test_a_model_of_somebody_s_own_keeps_its_list_price_and_not_its_name(provider: str, model: str) -> None:
    calls = own_calls(provider, model)
    hidden = anonymized(calls)
    assert b"acme" not in b"".join(map(encode, hidden)).lower()
    check_same_report(calls)
    was, now = summarise(calls).total, summarise(hidden).total
    assert (now.recorded, now.calls_with_price) == (was.recorded, was.calls_with_price)
    assert now.recorded.calls == 0
    assert not any(isinstance(call, ModelCall) and call.computed_usd for call in hidden)


def own_calls(provider: str, model: str) -> list[Record]:
    usages = [Usage(10_000, read, writes={300: 40_000 - read}, output=500) for read in (0, 40_000, 0)]
    return [
        ModelCall(f"c{n}", "s", "main", 1_790_000_000.0 + 20 * n, None, None, provider, model, None, usage, None, None)
        for n, usage in enumerate(usages)
    ]


def test_a_price_that_no_public_name_has_stays_as_computed_dollars() -> None:
    register_price("openai", "acme-registered", input=3.0, cache_read=0.25, output=9.0)
    calls = own_calls("openai", "acme-registered")
    hidden = anonymized(anonymized(calls))
    was, now = summarise(calls).total, summarise(hidden).total
    assert now.cost_usd == pytest.approx(was.cost_usd) and now.cost_usd
    assert (now.calls_with_price, now.recorded.calls, now.cost_uncached_usd) == (3, 0, None)


def test_blocks_keep_their_sizes_and_which_are_equal() -> None:
    calls = [record for record in with_bodies() if isinstance(record, ModelCall)]
    one, other = anonymized(calls), anonymized(calls)
    names: dict[bytes, bytes] = {}
    for call, (_, now), (_, again) in zip(calls, prompts_of(one), prompts_of(other), strict=True):  # type: ignore[arg-type]
        assert isinstance(call.prompt, Bodies)
        read = read_body(call.prompt.request, call.provider, call.model)
        assert read is not None and now is not None and again is not None
        was, n = read.prompt, read.prompt.n
        assert (now.n, now.level_ends, now.breakpoints) == (n, was.level_ends, was.breakpoints)
        assert list(now.ends_tokens[:n]) == list(was.ends_tokens[:n])
        for digest, hashed in zip(was.digests[:n], now.digests[:n], strict=True):
            assert names.setdefault(digest, hashed) == hashed != digest
        assert not {*now.digests[:n]} & {*again.digests[:n]}, "two runs share no salt"
    assert len(set(names.values())) == len(names) > 10


WORD = "Zq7secretWORDxyzzy"


def planted() -> Iterator[Record]:
    """Every text of every record, and every field of a damaged one, with a secret word."""
    for kind in (*get_args(RemarkKind), WORD):
        for text in (WORD, f"effort {WORD} → high", f"upstream {WORD} → b", f"system_changed {WORD}"):
            yield Remark(kind, f"{WORD}/{WORD}", text)
    usage = Usage(1, 2, writes={300: 3}, output=4, service_tier=f"priority + {WORD}", qualities={WORD: "partial"})
    damaged: Any = replace(usage, fresh=WORD, output=[WORD], estimated=WORD)
    body = json.dumps({"model": WORD, "messages": [{"role": "user", "content": WORD * 9}], WORD: WORD}).encode()
    outline: Any = Outline(0, (WORD, "", ""), (0, 0), (WORD,), (WORD,), (0,), (-1,), ())  # type: ignore[arg-type]
    prompts: list[Any] = [Bodies(body), outline, replace(outline, digests=("00",)), None]
    prompts += [Tokens(0, (1,), (), WORD), BlockIds(WORD, (1,)), BlockIds(16, (WORD,))]  # type: ignore[arg-type]
    for number, prompt in enumerate(prompts):
        times, bill = ([WORD] * 3, damaged) if number % 2 else ([1.0, 2.0, 3.0], usage)
        call: tuple[Any, ...] = (f"{WORD} {number}", WORD, WORD, *times, WORD, f"claude-{WORD}", prompt, bill, bill)
        yield ModelCall(*call, WORD, WORD, WORD)  # type: ignore[arg-type]


def test_no_planted_word_of_any_record_is_left() -> None:
    records = anonymized(planted())
    check_only_public_strings(records)
    text = b"\n".join(map(encode, records)).lower()
    secret = WORD.encode()
    encoded = [base64.b64encode(b"\0" * shift + secret)[4 * bool(shift) : -4] for shift in range(3)]
    assert len(records) > 12
    assert not any(one.lower() in text for one in (secret, secret.hex().encode(), *encoded))


HASHED = re.compile(r"(?:[\w.]+-)*[a-z]+-[0-9a-f]{16}(?:/(?:[a-z]+-[0-9a-f]{16}|main|conversation \d+))?")
DIGEST = re.compile(r"|[0-9a-f]{8}|[0-9a-f]{16}|[0-9a-f]{32}")
PHRASE = re.compile(
    r"main|(?:micro)?compact_boundary(?:, \w+)?|conversation \d+|\d+|adds up several calls"
    r"|(?:a summary|the history|[\w ]+ (?:compacted|compressed)).*"
    r"|a request setting|[\w :.→-]{0,80}: ?[\w./ →:]{0,60}|(?:effort|speed|upstream|project) \S+ → \S+(?:, .*)?"
)
NAMES = ("provider", "model", "service_tier", "kind", "remark", "qualities", "error")


def check_only_public_strings(records: Iterable[Record]) -> None:
    """Check that every string is a hash, a digest or one of a few phrases, and no name holds the secret word."""

    def check(value: Any, key: str = "") -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                check(inner, "qualities" if key == "qualities" else name)
        elif isinstance(value, list):
            for inner in value:
                check(inner, key)
        elif isinstance(value, str) and key in NAMES:
            assert WORD not in value and len(value) < 80, (key, value)
        elif isinstance(value, str):
            pattern = DIGEST if key in ("digests", "namespaces", "base", "sum") else PHRASE
            is_listed = value in VERDICTS | PROGRAMS or value in ("other", "auto", "manual")
            assert is_listed or pattern.fullmatch(value) or HASHED.fullmatch(value), (key, value)

    for record in records:
        check(json.loads(encode(record)))


def test_every_program_and_every_verdict_that_is_read_is_on_the_list() -> None:
    assert {known.program for known in FORMATS if known.program} == PROGRAMS
    assert {name for name, _ in (*diagnostics._ANTHROPIC, *diagnostics._OPENAI)} <= VERDICTS
