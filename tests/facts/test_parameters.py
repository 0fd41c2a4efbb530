"""The table of request fields: as it was in the adapters, every row founded, and extended by a user's file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contextkit.errors import UsageError
from contextkit.facts import load
from contextkit.facts.parameters import Keying, keying
from contextkit.providers.endpoints import BODIES, reader_of
from contextkit.providers.request_fields import unlisted_fields
from contextkit.server.endpoints.table import CODECS

CLIENT_REQUESTS = Path(__file__).parents[3] / "shared" / "data" / "client-requests"
BEFORE = json.loads((Path(__file__).parents[1] / "golden" / "keyings.json").read_text(encoding="utf-8"))
"""The tables that the adapters held before they were data."""


@pytest.mark.parametrize("endpoint", BEFORE)
def test_a_table_is_what_it_was_in_its_adapter(endpoint: str) -> None:
    row, table = BEFORE[endpoint], keying(endpoint)
    assert table.neutral >= set(
        row["neutral"]
    )  # a field that is listed as neutral since then was neutral unlisted, too
    assert replace(table, neutral=frozenset()) == Keying(row["levels"], frozenset(), row["defaults"], row["flags"])


def _recorded_bodies(path: Path) -> Iterator[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            body = json.loads(line)["request"]
            yield json.loads(body) if isinstance(body, str) else body


@pytest.mark.skipif(not CLIENT_REQUESTS.is_dir(), reason="../shared/data/client-requests is not there")
def test_every_field_that_real_clients_send_is_listed() -> None:
    n_bodies, unlisted = 0, set()
    for path in sorted(CLIENT_REQUESTS.glob("*.jsonl.gz")):
        for body in _recorded_bodies(path):
            reader = reader_of(body, str(body.get("model", "")))
            assert reader is not None, path.name
            n_bodies += 1
            unlisted.update((reader.endpoint, name) for name in unlisted_fields(reader.endpoint, body))
    assert n_bodies > 40 and unlisted == set()


@pytest.mark.parametrize("endpoint", CODECS)
def test_every_field_of_the_sdk_is_listed(endpoint: str) -> None:
    codec = CODECS[endpoint]
    declared = codec.declared_fields
    assert declared is not None
    names = list(declared) if isinstance(declared, Iterable) else []
    body = {name: {} for name in names if name not in BODIES[endpoint].block_fields}
    assert unlisted_fields(endpoint, body) == ()


def test_a_file_of_the_users_adds_a_field_and_moves_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "facts.toml"
    file.write_text(
        '[[parameters]]\nfield = "new_field"\nlevel = "tools"\n'
        '[[parameters]]\nendpoint = "anthropic"\nfield = "thinking"\nlevel = "neutral"\n'
    )
    monkeypatch.setenv(load.VARIABLE, str(file))
    assert keying("anthropic").levels["new_field"] == keying("gemini").levels["new_field"] == 0
    assert "thinking" not in keying("anthropic").levels and keying("anthropic").is_listed("thinking")
    assert keying("openai").levels["thinking"] == 2
    monkeypatch.delenv(load.VARIABLE)
    assert not keying("anthropic").is_listed("new_field")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('field = "a"', "'level' is missing"),
        ('field = "a"\nlevel = "head"', "one of tools, system, messages, neutral"),
        ('field = "a"\nlevel = "tools"\nendpoint = "x"', "one of anthropic"),
    ],
)
def test_a_faulty_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    file = tmp_path / "facts.toml"
    file.write_text(f"[[parameters]]\n{row}\n")
    with pytest.raises(UsageError, match=message):
        load.read_facts(file)
