"""Fingerprints of recordings give the report of the originals and hold none of their text.

The oracle of the first is the report of the originals, that of the second a search for every text that went in.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
from genai_prices.data_snapshot import get_snapshot

from contextkit.cache.usage import Usage
from contextkit.errors import UnreadableLog
from contextkit.importers.registry import FORMATS, records_at, records_in
from contextkit.importers.source import Faults
from contextkit.ledger.calls import (
    BlockIds,
    Bodies,
    Exchange,
    Outline,
    Record,
    Remark,
    RemarkKind,
    Tokens,
    decode,
    encode,
)
from contextkit.ledger.fingerprint import Fingerprinter
from contextkit.ledger.misses import analyzed_calls
from contextkit.ledger.prompts import prompts_of, read_body
from contextkit.ledger.public_names import COMPACTIONS, PROGRAMS, VERDICTS
from contextkit.models import find_model, model_named, register, unregister
from contextkit.report.contents import Gathering
from contextkit.report.fixes import _MEANS, _SILENT
from contextkit.report.json import document
from contextkit.server.endpoints import diagnostics
from tests.importers.test_damage import SAMPLES, sample
from tests.report.made_up import many_sessions, with_bodies

SALT = b"the salt of these tests, 32 bytes"
OPUS = "claude-opus-4-5"


def fingerprinted(records: Iterable[Record], salt: bytes = SALT) -> list[Record]:
    """The fingerprints of `records`, written as lines and read again."""
    fingerprinter = Fingerprinter(salt)
    return [decode(encode(out)) for record in records for out in fingerprinter.feed(record)]


def report(records: Iterable[Record], by: str = "") -> dict[str, Any]:
    gathering = Gathering(by)
    gathering.add_all(analyzed_calls(records))
    read: dict[str, Any] = json.loads(document(gathering.contents("calls")))
    return read


PLACE = re.compile(r".* byte [\d,]+|(tools|system|messages) block \d+(, entry \d+)?")
INTACT = re.compile(r"prefix intact|messages intact, tools and system not in the record")


class Renamed:
    """A report with every name replaced by what stands for it in a fingerprint."""

    def __init__(self, calls: Iterable[Exchange]) -> None:
        names = Fingerprinter(SALT).names
        self.names = {"unknown": "unknown"}
        for call in calls:
            session, lane = names.identifier("session", call.session), names.agent(call.lane)
            model = names.model(call.provider, call.model)
            self.names |= {call.id: names.identifier("call", call.id), call.session: session, call.lane: lane}
            self.names |= {f"{call.session}/{call.lane}": f"{session}/{lane}", call.model: model}
            self.names[f"{call.provider}/{call.model}"] = f"{names.provider(call.provider)}/{model}"
        self.hashed = names

    def __call__(self, found: dict[str, Any], by: str = "") -> dict[str, Any]:
        for row in (*found["models"], *found["lanes"]):
            row["name"] = self.names[row["name"]]
        for row in found["groups"]:
            row["name"] = self.group(row["name"], by)
        found["groups"].sort(key=lambda row: row["name"])
        for row in found["sessions"]:
            row["name"], row["project"] = self.names[row["name"]], self.project(row["project"])
        for row in found["projects"]:
            row["project"] = self.project(row["project"])
            row["name"] = row["project"] or ""
        found["models_without_price"] = [self.unpriced(name) for name in found["models_without_price"]]
        for field in ("calls_without_writes", "calls_without_usage"):
            found[field] = {self.names[name]: n for name, n in found[field].items()}
        for miss in found["misses"]:
            for field in ("exchange_id", "lane", "session"):
                miss[field] = self.names[miss[field]]
            miss["where"] = self.evidence(miss["cause"], miss["where"])
        return found

    def project(self, name: str | None) -> str | None:
        return None if name is None else self.hashed.identifier("project", name)

    def unpriced(self, name: str) -> str:
        model, tier, rest = name.partition(" (")
        return self.names[model] + tier + rest

    def group(self, name: str, by: str) -> str:
        if by == "project":
            return name if name == "unknown" else self.hashed.identifier("project", name)
        return self.hashed.agent(name) if by == "agent" else self.names.get(name, name)

    def evidence(self, cause: str, where: str) -> str:
        if cause == "model_changed":
            return " → ".join(self.names[side] for side in where.split(" → "))
        where = where.replace("history of acme cut", "the history was compacted").replace(
            "acme mode", "a request setting"
        )
        return re.sub(r"'([^']*)'", lambda match: repr(self.names[match[1]]), where)


def without_places(found: dict[str, Any]) -> dict[str, Any]:
    """A report whose evidence names no path of a body: an outline has blocks, no paths."""
    for miss in found["misses"]:
        miss["where"] = INTACT.sub("prefix intact", PLACE.sub("place", miss["where"]))
    return found


def check_same_report(records: list[Record]) -> dict[str, Any]:
    """Check that the fingerprint of `records` gives their report, in every grouping; return that report."""
    renamed = Renamed(record for record in records if isinstance(record, Exchange))
    written = fingerprinted(records)
    for by in ("", "day", "session", "model", "agent", "project"):
        original = without_places(renamed(report(records, by), by))
        assert without_places(report(written, by)) == original
    return report(records)


# The same report
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", ["claude-code", "codex", "copilot-cli", "gemini-cli"])
def test_real_logs_give_the_same_report(agent: str, shared: Path) -> None:
    records = list(records_in([str(shared / "data" / "agent-logs" / agent)], Faults()))
    found = check_same_report(records)
    least = {"claude-code": 4_800, "codex": 1_500, "copilot-cli": 60, "gemini-cli": 17}
    assert found["total"]["calls"] >= least[agent]


def test_a_real_session_with_prompts_gives_the_same_report(shared: Path) -> None:
    records = list(records_at(str(shared / "data" / "pi" / "before-compaction.jsonl"))[1])
    found = check_same_report(records)
    assert found["total"]["calls"] == 484
    assert len({miss["cause"] for miss in found["misses"]}) >= 4


def recorded_pairs(shared: Path, folder: Path) -> Iterator[Path]:
    """Each cassette as a file of request and response bodies."""
    lines = gzip.decompress((shared / "data" / "agent-logs" / "recorded-pairs.jsonl.gz").read_bytes()).splitlines()
    for number, cassette in enumerate(map(json.loads, lines)):
        path = folder / f"{number}.jsonl"
        path.write_text("".join(json.dumps(call) + "\n" for call in cassette["calls"]), "utf-8")
        yield path


def test_real_bodies_give_the_same_report(shared: Path, tmp_path: Path) -> None:
    list(recorded_pairs(shared, tmp_path))
    records = list(records_in([str(tmp_path)], Faults()))
    assert sum(isinstance(record, Exchange) and isinstance(record.prompt, Bodies) for record in records) > 500
    check_same_report(records)


def bodies_of_clients(folder: Path, random: Random) -> Iterator[Exchange]:
    """Request bodies that six clients sent; the bills are drawn, so that every few calls something is missed."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        at, rows = 1_790_000_000.0, gzip.decompress(path.read_bytes()).splitlines()
        for number, request in enumerate(json.loads(row)["request"] for row in rows):
            provider, model = ("anthropic", OPUS) if "system" in request else ("openai", "gpt-5.1")
            at += random.choice((1.0, 20.0, 20.0, 400.0))
            read = random.choice((0, 40_000))
            usage = None if random.random() < 0.1 else Usage(9, read, writes={300: 40_000 - read}, output=5)
            name, prompt = f"{path.name}-{number}", Bodies(json.dumps(request).encode())
            yield Exchange(name, path.name, "main", at, at + 1, at + 2, provider, model, prompt, usage, None, None)


def test_bodies_of_real_clients_give_the_same_report(shared: Path) -> None:
    causes = set()
    for seed in range(5):
        calls = list[Record](bodies_of_clients(shared / "data" / "client-requests", Random(seed)))
        causes |= {miss["cause"] for miss in check_same_report(calls)["misses"]}
    assert causes >= {"first_write", "params_changed", "ttl_expired", "unknown"}


@pytest.mark.parametrize("seed", range(40))
def test_drawn_recordings_give_the_same_report(seed: int) -> None:
    records = list(drawn(Random(seed)))
    check_same_report(records)


def test_drawn_recordings_have_every_cause() -> None:
    found = [miss["cause"] for seed in range(40) for miss in report(drawn(Random(seed)))["misses"]]
    assert set(found) >= {
        *("first_write", "below_minimum", "model_changed", "compaction", "params_changed", "tools_changed"),
        *("system_changed", "messages_changed", "ttl_expired", "cold_fan_out", "out_of_reach", "aborted", "unknown"),
    }


MODELS = (OPUS, OPUS, OPUS, "claude-acme-internal", "gpt-5.1", "our-deployment")


def drawn(random: Random) -> Iterator[Record]:
    """Conversations on several lanes that grow, change and pause at random, with bills that say what was read."""
    at, lanes = 1_790_000_000.0, [Conversation(random) for _ in range(3)]
    model = random.choice(MODELS)
    provider = "openai" if "gpt" in model else "anthropic"
    yield Remark("project", "s/1", "/home/ada/acme")
    yield Remark("agent", "s/1/lane 1", "reviewer")
    for number in range(40):
        lane = random.randrange(3)
        body = lanes[lane].next_body(model)
        at += random.choice((0.1, 5.0, 20.0, 20.0, 400.0, 4_000.0))
        size = random.choice((300, 8_000, 40_000, 40_000))
        read = random.choice((0, 0, size // 2, size))
        usage: Usage | None = Usage(3, read, writes={random.choice((300, 300, 3600)): size - read}, output=7)
        if random.random() < 0.1:
            usage = Usage(size % 900, 0, writes={}, output=7)
        elif random.random() < 0.15:
            usage = None if random.random() < 0.5 else Usage(3, None, writes={}, output=0)
        name, sent = f"call {number}", "{torn" if random.random() < 0.03 else json.dumps(body)
        if random.random() < 0.05:
            yield Remark("compaction", name, random.choice(("auto", "history of acme cut")))
        if random.random() < 0.05:
            yield Remark("setting", name, random.choice(("effort low → high", "acme mode")))
        if random.random() < 0.1:
            yield Remark("verdict", name, random.choice(("system_changed", "unavailable")))
        first = at + random.choice((0.5, 30.0)) if random.random() < 0.8 else None
        error = None if random.random() < 0.8 else "overloaded_error"
        if error and usage and random.random() < 0.7:
            first, usage = None, Usage(usage.fresh, usage.read, writes=usage.writes, output=0)
        asked = random.choice(MODELS) if random.random() < 0.05 else model
        prompt = None if random.random() < 0.03 else Bodies(sent.encode())
        yield Exchange(name, "s/1", f"lane {lane}", at, first, at + 31, provider, asked, prompt, usage, None, error)


class Conversation:
    """One growing request body."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.system, self.tools = "You are careful. " * 2_000, [{"name": "a", "input_schema": {}}]
        self.said = ["hello " * 500]
        self.choice: str | None = None

    def next_body(self, model: str) -> dict[str, Any]:
        random = self.random
        self.said += [random.choice(("yes ", "no ")) * random.choice((3, 300)) for _ in range(2)]
        if random.random() < 0.06:
            self.said += ["more"] * 50
        change = random.random()
        if change < 0.05:
            self.system += "x"
        elif change < 0.1:
            self.tools = [*self.tools, {"name": f"tool{len(self.tools)}", "input_schema": {}}]
        elif change < 0.2:
            self.said[random.randrange(len(self.said))] += "y"
        elif change < 0.25:
            self.said = self.said[: random.randrange(1, len(self.said)) | 1]
        elif change < 0.3:
            self.choice = random.choice((None, "any", "none"))
        marked: list[dict[str, Any]] = [
            {"role": ("user", "assistant")[n % 2], "content": [{"type": "text", "text": text}]}
            for n, text in enumerate(self.said)
        ]
        marked[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
        body = {"model": model, "max_tokens": 9, "system": self.system, "tools": self.tools, "messages": marked}
        return body | ({"tool_choice": {"type": self.choice}} if self.choice else {})


def test_a_call_without_a_bill_is_not_what_the_next_is_compared_with() -> None:
    """Of bodies the detector compares billed calls; one without a bill that changed the system text is in between."""
    calls = list[Record]()
    bill = Usage(1, 0, writes={300: 9_000})
    sent = [("rules", "one", bill), ("RULES", "one", None), ("rules", "ONE", None), ("rules", "ONE", bill)]
    for number, (system, last, usage) in enumerate(sent):
        marked = {"type": "text", "text": last, "cache_control": {"type": "ephemeral"}}
        said = [{"role": "user", "content": [{"type": "text", "text": "hello"}, marked]}]
        body = json.dumps({"model": OPUS, "max_tokens": 9, "system": system, "messages": said}).encode()
        at = 20.0 * number
        calls.append(
            Exchange(f"c{number}", "s", "main", at, at, at, "anthropic", OPUS, Bodies(body), usage, None, None)
        )
    found = check_same_report(calls)
    assert [miss["cause"] for miss in found["misses"]] == ["first_write", "messages_changed"]
    assert prompts(fingerprinted(calls))[1:3] == [None, None]


def test_recordings_without_prompts_give_the_same_report() -> None:
    check_same_report(list(many_sessions(6)))


def test_prompts_keep_their_shape(shared: Path) -> None:
    """Everything a cache counts with: sizes, positions, breakpoints and which prefixes are equal."""
    pi = list(records_at(str(shared / "data" / "pi" / "before-compaction.jsonl"))[1])
    calls = [record for record in pi if isinstance(record, Exchange)]
    written = [record for record in fingerprinted(pi) if isinstance(record, Exchange)]
    names: dict[bytes, bytes] = {}
    for (_, was), (_, now) in zip(prompts_of(calls), prompts_of(written), strict=True):
        assert was is not None and now is not None
        n = was.n
        assert (now.n, now.level_ends, now.breakpoints) == (n, was.level_ends, was.breakpoints)
        assert list(now.ends_tokens[:n]) == list(was.ends_tokens[:n])
        assert list(now.positions[:n]) == list(was.positions[:n])
        for one, other in zip(was.digests[:n], now.digests[:n], strict=True):
            assert names.setdefault(one, other) == other
    assert len(set(names.values())) == len(names) and not set(names) & set(names.values())


def test_a_body_becomes_the_outline_of_its_prompt() -> None:
    calls = [record for record in with_bodies() if isinstance(record, Exchange)]
    written = [record for record in fingerprinted(calls) if isinstance(record, Exchange)]
    for call, (_, now) in zip(calls, prompts_of(written), strict=True):
        assert isinstance(call.prompt, Bodies)
        read = read_body(call.prompt.request, call.provider, call.model)
        assert read is not None and now is not None
        assert list(now.ends_tokens[: now.n]) == list(read.prompt.ends_tokens[: read.prompt.n])
        assert now.breakpoints == read.prompt.breakpoints


# Token and block ids
# --------------------------------------------------------------------------------------------------------------


def with_prompt(number: int, prompt: Tokens | BlockIds, lane: str = "main") -> Exchange:
    return Exchange(f"c{number}", "s", lane, number, None, None, "vllm", "m", prompt, None, None, None)


def prompts(records: Iterable[Record]) -> list[Any]:
    return [record.prompt for record in records if isinstance(record, Exchange)]


def test_tokens_keep_their_prefixes_and_nothing_else() -> None:
    first, second, third = prompts(
        fingerprinted(
            [
                with_prompt(0, Tokens(0, (5, 5, 5, 7), (9,), "abcd")),
                with_prompt(1, Tokens(5, (8,), (), "abcd")),
                with_prompt(2, Tokens(0, (5, 5, 6, 5), (), ""), lane="other"),
            ]
        )
    )
    assert (len(first.ids), len(first.generated), second.keep, len(second.ids)) == (4, 1, 5, 1)
    assert third.ids[:2] == first.ids[:2] and not set(third.ids[2:]) & set(first.ids)
    assert len(set(first.ids)) == 4, "a token that is repeated is not to be counted"
    assert first.space == second.space != "abcd" and third.space == ""
    assert all(0 <= token < 1 << 31 for token in (*first.ids, *third.ids))


def test_a_lane_of_tokens_that_lacks_a_call_has_no_prompt() -> None:
    assert prompts(fingerprinted([with_prompt(0, Tokens(3, (1,), ()))])) == [None]


def test_equal_blocks_stay_equal() -> None:
    first, second = prompts(
        fingerprinted([with_prompt(0, BlockIds(16, (1, 2, 3))), with_prompt(1, BlockIds(16, (1, 2, 4)))])
    )
    assert first.ids[:2] == second.ids[:2] and first.ids[2] != second.ids[2]
    assert first.size == 16 and not set(first.ids) & {1, 2, 3}


# Salts
# --------------------------------------------------------------------------------------------------------------


HASH = re.compile(rb'(?<=["-])[0-9a-f]{16,32}(?=["/])')


def hashes(records: Iterable[Record]) -> set[bytes]:
    """The hashes in a fingerprint; checksums of rows are none."""
    return {found for record in records for found in HASH.findall(re.sub(rb',"sum":.*', b"", encode(record)))}


def test_two_salts_share_nothing_and_one_salt_everything() -> None:
    records = [*with_bodies(), *many_sessions(3)]
    one, other = fingerprinted(records), fingerprinted(records, b"another salt of 16 or more")
    assert len(hashes(one)) > 50 and not hashes(one) & hashes(other)
    assert fingerprinted(records) == one


def test_a_short_salt_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Fingerprinter(b"short")


# No text
# --------------------------------------------------------------------------------------------------------------

WORD = "Zq7secretWORDxyzzy"
QUOTED = re.compile(rb'("{1,2})(\w+)\1(\s*:\s*)\1((?:[^"\\]|\\.)*)\1')
"""`"key": "value"` of JSON, also inside CSV, where quotes are doubled."""
LABEL = re.compile(rb'()\b(\w+)(=)"([^"]*)"')
"""`key="value"` of Prometheus."""
NEW_FIELD = "a field that nobody knows"
MOST_FIELDS = 40
"""Fields of one name that are tried one by one where the file is not read with a word in all of them."""


def keys_of(content: bytes) -> list[str]:
    """The names of fields with text, in the file or, of a database, in its columns."""
    texts = _columns(content) if content.startswith(b"SQLite") else [content]
    pairs = [match[2] for text in texts for match in (*QUOTED.finditer(text), *LABEL.finditer(text))]
    return [NEW_FIELD, *dict.fromkeys(key.decode() for key in pairs)]


def _columns(content: bytes) -> list[bytes]:
    return re.findall(rb"\{\".*?\}", content, re.DOTALL)


def planted(content: bytes, keys: set[str]) -> bytes:
    """The file with a secret word in the text of each of these fields; `key#3` is the fourth field of a name."""
    n = Counter[str]()

    def plant(match: re.Match[bytes]) -> bytes:
        key = match[2].decode()
        n[key] += 1
        if key not in keys and f"{key}#{n[key] - 1}" not in keys:
            return match[0]
        at = match.end(4) - match.start()
        return match[0][:at] + b" " + WORD.encode() + match[0][at:]

    text = LABEL.sub(plant, QUOTED.sub(plant, content))
    return text.replace(b'{"', b'{"%b":"%b","' % ((WORD.encode(),) * 2)) if NEW_FIELD in keys else text


def planted_file(path: Path, content: bytes, keys: set[str]) -> None:
    """Write the file; a database is changed cell by cell."""
    if not content.startswith(b"SQLite"):
        path.write_bytes(planted(content, keys))
        return
    path.write_bytes(content)
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info('{table}')")]
            for column in columns:
                cells = list(database.execute(f'SELECT rowid, "{column}" FROM "{table}"'))
                for row, cell in cells:
                    text = cell.encode() if isinstance(cell, str) else cell
                    if isinstance(text, bytes) and text.startswith(b"{"):
                        changed = planted(text, keys)
                        value = changed.decode() if isinstance(cell, str) else changed
                        database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (value, row))
        database.commit()


def is_read(path: Path, name: str, n_calls: int) -> bool:
    try:
        known, records = records_at(str(path), Faults())
        return known.name == name and sum(isinstance(record, Exchange) for record in records) >= n_calls
    except UnreadableLog:
        return False


def with_secrets(name: str, content: bytes, tmp_path: Path) -> tuple[Path, set[str]]:
    """A sample with a secret word in every field whose text its reader does not need, and those fields."""
    path = tmp_path / f"{WORD} {name}"
    path.write_bytes(content)
    known, records = records_at(str(path), Faults())
    n_calls = sum(isinstance(record, Exchange) for record in records)
    keys: set[str] = set()

    def take(key: str) -> bool:
        planted_file(path, content, keys | {key})
        if is_read(path, known.name, n_calls):
            keys.add(key)
        return key in keys

    for key in keys_of(content):
        if not take(key):
            for number in range(MOST_FIELDS):
                take(f"{key}#{number}")
    planted_file(path, content, keys)
    return path, keys


def spellings(secret: bytes) -> set[bytes]:
    """A text as it may stand in a file: raw, as hex digits, and in base64 wherever it begins; in lower case."""
    encoded = {base64.b64encode(b"\0" * shift + secret)[4 * bool(shift) : -4] for shift in range(3)}
    return {one.lower() for one in (secret, secret.hex().encode(), *encoded)}


@pytest.mark.parametrize("name", [name for name in SAMPLES if "prt_" not in name])  # a part alone is no call
def test_no_planted_word_is_in_a_fingerprint(name: str, tmp_path: Path) -> None:
    path, keys = with_secrets(name, sample(name, tmp_path), tmp_path)
    records = list(records_at(str(path), Faults())[1])
    assert any(isinstance(record, Exchange) for record in records)
    assert NEW_FIELD in keys or len(keys) > 2 or name in ("mooncake", "kv-cache-tester", "langfuse-observations.csv")
    written = fingerprinted(records)
    check_only_public_strings(written)
    text = b"\n".join(map(encode, written)).lower()
    for spelling in spellings(b"secretWORDxyzzy"):
        assert spelling not in text


def test_no_planted_word_of_any_record_is_in_a_fingerprint() -> None:
    """Every text of every record, whatever an importer writes there."""
    records = [*ours_planted()]
    assert sum(WORD.encode() in encode(record) for record in records) == len(records) > 12
    written = fingerprinted(records)
    check_only_public_strings(written)
    text = b"\n".join(map(encode, written)).lower()
    assert not any(spelling in text for spelling in spellings(WORD.encode()))


def ours_planted() -> Iterator[Record]:
    kinds: tuple[RemarkKind, ...] = get_args(RemarkKind)
    for kind in (*kinds, WORD):
        for text in (WORD, f"effort {WORD} → high", f"upstream {WORD} → b", f"system_changed {WORD}"):
            yield Remark(kind, f"{WORD}/{WORD}", text)  # type: ignore[arg-type]
    usage = Usage(1, 2, writes={300: 3}, output=4, service_tier=f"priority + {WORD}", qualities={WORD: "partial"})
    damaged: Any = replace(usage, fresh=WORD, output=[WORD], estimated=WORD)
    body = json.dumps({"model": WORD, "messages": [{"role": "user", "content": WORD * 9}], WORD: WORD}).encode()
    outline = Outline(0, (WORD, "", ""), (0, 0), (WORD,), (WORD,), (0,), (-1,), ())  # type: ignore[arg-type]
    prompts: list[Any] = [Bodies(body), outline, replace(outline, digests=("00",)), Tokens(0, (WORD,), (), WORD)]
    prompts += [Tokens(0, (1,), (), WORD), BlockIds(WORD, (1,)), BlockIds(16, (WORD,)), None]  # type: ignore[arg-type]
    for number, prompt in enumerate(prompts):
        bill = damaged if number % 2 else usage
        times: list[Any] = [WORD] * 3 if number % 2 else [1.0, 2.0, 3.0]
        yield Exchange(
            f"{WORD} {number}",
            WORD,
            WORD,
            *times,
            WORD,
            f"claude-{WORD}",
            prompt,
            bill,
            bill,
            WORD,
            WORD,
            WORD,  # type: ignore[arg-type]
        )


HASHED = re.compile(
    r"(?:call|session|agent|project|upstream|value|provider|tier|model)-[0-9a-f]{16}(?:/(?:agent-[0-9a-f]{16}|main))?"
)
DIGESTS = re.compile(r"(?:[0-9a-f]{32})?|[0-9a-f]{8}|[0-9a-f]{16}")
FIELDS = {
    *("id", "session", "lane", "at", "first_byte_at", "ended_at", "provider", "model", "prompt", "usage", "predicted"),
    *("error", "billed_usd", "output_estimate", "sum", "remark", "about", "text", "kind", "keep", "namespaces"),
    *("level_ends", "digests", "ends_tokens", "positions", "entries", "breakpoints", "epoch", "base", "segment"),
    *("ttl_seconds", "lookback", "is_written", "size", "ids", "generated", "space", "is_read_skipped", "fresh", "read"),
    *("writes", "write_5m", "write_1h", "output", "estimated", "qualities", "service_tier"),
}
WORDS = {
    *("main", "outline", "blocks", "tokens", "billed", "partial", "estimated", "unknown", "adds up several calls"),
    *(
        "verdict",
        "program",
        "project",
        "agent",
        "compaction",
        "setting",
        "turn",
        "event",
        "sum",
        "other",
        "the history was compacted",
    ),
}


def check_only_public_strings(records: Iterable[Record]) -> None:
    """Check that every string of a fingerprint is a hash or one of a few words."""

    def check(value: Any, key: str = "") -> None:
        if isinstance(value, dict):
            assert all(name in FIELDS or (key == "writes" and name.isdecimal()) for name in value), value
            for name, inner in value.items():
                check(inner, name)
        elif isinstance(value, list):
            for inner in value:
                check(inner, key)
        elif isinstance(value, str):
            assert is_public(value, key), (key, value)

    for record in records:
        check(json.loads(encode(record)))


def is_public(value: str, key: str) -> bool:
    if key in ("provider", "model"):
        name = value if "-model-" in value else ""
        return not value or bool(HASHED.fullmatch(value)) or bool(name) or value in KNOWN_NAMES or is_spelt_known(value)
    if key == "service_tier":
        return all(HASHED.fullmatch(part) or part in TIERS for part in value.split(" + "))
    if key in ("digests", "namespaces", "base", "sum", "space"):
        return DIGESTS.fullmatch(value) is not None
    if key == "error":
        return value in {"aborted", "cut", "error", "timeout"} or bool(
            re.fullmatch(r"\d{3}|[a-z]+(_[a-z]+)*_error|[A-Za-z]+Error", value)
        )
    words = WORDS | (VERDICTS | COMPACTIONS if key == "text" else set())
    numbered = re.fullmatch(r"conversation \d+", value.rpartition("/")[2])
    setting = re.fullmatch(r"(effort|speed|upstream|project) \S+ → \S+(, .*)?|a request setting", value)
    if key == "text" and value in PROGRAMS:
        return True
    event = re.fullmatch(rf"\d{{1,9}}|({EVENTS}|other): [\w:.→ ]{{0,60}}|resume: after /(exit|quit)", value)
    return value in words or bool(HASHED.fullmatch(value) or numbered or (key == "text" and (setting or event)))


EVENTS = "resume|thinking|slash command|skill|tool search|MCP change|many blocks|permission mode|client version|image|API error"


TIERS = {"priority", "flex", "batch", "fast", "standard", "geo-us", "scale", "provisioned", "ultrafast"}
KNOWN_NAMES = {*(provider.id for provider in get_snapshot().providers), "vllm", "sglang", "unknown"}


def is_spelt_known(name: str) -> bool:
    """Whether genai-prices or the model table knows a name, without any word of somebody's own."""
    return WORD.lower() not in name.lower() and (find_model(name) is not None or is_listed(name))


def is_listed(name: str) -> bool:
    try:
        return bool(get_snapshot().find_provider_model(name, None, None, None))
    except LookupError:
        return False


def shared_windows(one: bytes, other: bytes) -> list[bytes]:
    """Runs of eight bytes that stand in both texts."""
    numpy = pytest.importorskip("numpy")

    def runs(text: bytes) -> Iterator[Any]:
        return (numpy.frombuffer(text[at : len(text) - (len(text) - at) % 8], "u8") for at in range(8))

    mine = numpy.unique(numpy.concatenate([*runs(one)]))
    found = []
    for theirs in runs(other):
        places = numpy.searchsorted(mine, theirs).clip(max=len(mine) - 1)
        found += [run.tobytes() for run in theirs[mine[places] == theirs]]
    return found


@pytest.mark.parametrize("agent", ["claude-code", "codex", "copilot-cli", "gemini-cli", "pi", "client-requests"])
def test_no_eight_bytes_of_real_logs_are_in_a_fingerprint(agent: str, shared: Path) -> None:
    """No hash holds eight bytes of the logs, or of what stands in them as hex digits; all other strings are listed."""
    data = shared / "data"
    folder = data / agent if (data / agent).is_dir() else data / "agent-logs" / agent
    paths = [path for path in sorted(folder.iterdir()) if ".json" in path.name][:15]
    if agent == "client-requests":
        records = list[Record](bodies_of_clients(folder, Random(1)))
    else:
        records = list(records_in(map(str, paths), Faults()))
    written = fingerprinted(records)
    check_only_public_strings(written)
    logs = b"\n".join(
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in paths
    )
    digits = [run[at:] for run in re.findall(rb"[0-9a-f]{16,}", logs) for at in (0, 1)]
    unhexed = b"\0".join(bytes.fromhex(run[: len(run) & ~1].decode()) for run in digits)
    hashed = b"\0".join(bytes.fromhex(one.decode()) for one in hashes(written))
    assert len(hashed) > 100
    assert shared_windows(logs[-800:], logs)
    assert not shared_windows(hashed, logs)
    assert not shared_windows(hashed, unhexed)


# The allow-list
# --------------------------------------------------------------------------------------------------------------


def test_every_verdict_of_a_provider_is_on_the_list() -> None:
    known = {name for name, _ in (*diagnostics._ANTHROPIC, *diagnostics._OPENAI)}
    assert {*known, *_MEANS, *_SILENT} - {""} <= VERDICTS


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("anthropic", "claude-opus-4-5-20251101"),
        ("openrouter", "anthropic/claude-opus-4.5"),
        ("aws", "us.anthropic.claude-haiku-4-5-20251001-v1:0"),
        ("openai", "gpt-4o-2024-08-06"),
        ("google", "models/gemini-2.5-pro"),
        ("anthropic", "claude-opus-4-5[1m]"),
        ("", "unknown"),
    ],
)
def test_names_of_listed_models_stay(provider: str, model: str) -> None:
    names = Fingerprinter(SALT).names
    assert (names.provider(provider), names.model(provider, model)) == (provider, model)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o-acme"),
        ("openai", "ft:gpt-4o-mini-2024-07-18:acme::id"),
        ("azure", "acme-prod"),
        ("acme", "acme-llama"),
        (
            "aws",
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        ("fireworks", "accounts/acme/models/llama-v3p1-8b"),
        ("anthropic", "clаude-opus-4-5"),
    ],
)
def test_names_of_deployments_are_hashed(provider: str, model: str) -> None:
    names = Fingerprinter(SALT).names
    hidden = names.provider(provider) + names.model(provider, model)
    assert not re.search(r"acme|prod|arn|1234|а", hidden)
    assert list(names.hidden_models) == [names.model(provider, model)]
    assert Fingerprinter(SALT, keep_models=True).names.model(provider, model) == model


def test_the_name_of_a_registered_model_is_hashed() -> None:
    register(replace(model_named(OPUS), name="acme-llama"))
    try:
        assert "acme" not in Fingerprinter(SALT).names.model("anthropic", "acme-llama")
    finally:
        unregister("acme-llama")


def test_a_remark_of_an_unknown_kind_is_dropped() -> None:
    assert fingerprinted([Remark("mood", "c", "effort low → high")]) == []  # type: ignore[arg-type]


def test_what_a_remark_says_is_kept_where_it_is_known() -> None:
    texts = ("effort low → high", "effort low → odd, speed standard → fast", "upstream alpha → beta", "odd thing")
    said = [remark.text for remark in fingerprinted([Remark("setting", "c", text) for text in texts])]  # type: ignore[union-attr]
    assert said[0] == texts[0] and said[3] == "a request setting"
    assert re.fullmatch(r"effort low → value-[0-9a-f]{16}, speed standard → fast", said[1])
    assert re.fullmatch(r"upstream upstream-[0-9a-f]{16} → upstream-[0-9a-f]{16}", said[2])


def test_every_program_whose_sessions_are_read_may_be_told() -> None:
    assert {known.program for known in FORMATS if known.program} == PROGRAMS
