"""`contextkit explain-edit --engine llamacpp` on a real server."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.engines.llamacpp_process import LlamaServer
from tests.engines.tiny_gguf import write_gguf

HAS_SERVER = find_spec("xllamacpp") and find_spec("gguf")
needs_server = pytest.mark.skipif(not HAS_SERVER, reason="xllamacpp and gguf are not installed: extra `engines`")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_gguf(path)
    return path


@pytest.fixture
def url(model: Path) -> Iterator[str]:
    with LlamaServer(model, n_parallel=-1, n_ctx=0) as server:
        yield server.url


@needs_server
def test_the_server_reads_what_the_reference_predicts(run: Run, url: str, tmp_path: Path) -> None:
    ended = run("explain-edit", "--engine", "llamacpp", "--base-url", url, "--json", "--svg", tmp_path / "lesson.svg")
    assert (ended.code, ended.err.strip()) == (0, f"{tmp_path / 'lesson.svg'} written")
    steps = json.loads(ended.out)["steps"]
    assert [step["n_read"] for step in steps] == [step["n_predicted"] for step in steps]
    first, appended, later, before, moved = steps
    assert first["n_read"] == 0 and appended["n_read"] == first["n_tokens"] and moved["n_read"] == 0
    assert later["n_read"] < appended["n_read"] / 4 and before["n_read"] == before["n_tokens"] - 1
    assert ET.parse(tmp_path / "lesson.svg").getroot().tag.endswith("svg")


@needs_server
def test_a_second_lesson_on_the_same_server_shares_nothing_with_the_first(run: Run, url: str) -> None:
    for _ in range(2):
        ended = run("explain-edit", "--engine", "llamacpp", "--base-url", url)
        assert (ended.code, ended.err) == (0, "")
        rows = ended.out.splitlines()
        assert any(row.startswith("a turn appended") for row in rows)


@needs_server
def test_slots_that_are_too_short(run: Run, model: Path) -> None:
    with LlamaServer(model, n_parallel=2, n_ctx=1024) as server:
        ended = run("explain-edit", "--engine", "llamacpp", "--base-url", server.url)
    assert ended.code and "more than a slot holds: start the server with a larger --ctx-size" in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--base-url", "http://127.0.0.1:9"], "name its engine with --engine"),
        (["--engine", "llamacpp", "--delete", "1", "2"], "--delete says nothing to --engine"),
        (["--engine", "llamacpp", "some text"], "TEXT says nothing to --engine"),
        (["--engine", "llamacpp", "--layers", "2"], "--layers says nothing to --engine"),
        (["--api-key", "k", "--delete", "1", "2"], "--api-key is a server's"),
        (["--engine", "llamacpp", "--base-url", "http://127.0.0.1:9"], "start the server, or correct --base-url"),
        (["--engine", "llamacpp", "--base-url", "ftp://x"], "no address of a server"),
    ],
)
def test_what_cannot_be_done(run: Run, arguments: list[str], said: str) -> None:
    ended = run("explain-edit", *arguments)
    assert ended.code and said in ended.err and "Traceback" not in ended.err
