"""`contextkit simulate`: what it prints, what it refuses, and Ctrl-C."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import time
from itertools import product
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import openai
import pytest

from contextkit.engines.hosted import PROVIDERS
from contextkit.engines.registry import engine
from contextkit.importers.block_trace import BlockTraces, calls_of
from contextkit.ledger.ledger import Ledger
from contextkit.server import LocalServer
from tests.cli.conftest import COMMAND, Run, Start, pi_session
from tests.scale import cases

posix = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")


def a_trace(path: Path, n: int = 60, seed: int = 1) -> str:
    """Conversations behind a shared beginning, their turns mixed."""
    draw, grown, lines = random.Random(seed), [[0, 1, 2] for _ in range(8)], []
    for at in range(n):
        ids = draw.choice(grown)
        ids += range(1000 + at * 10, 1000 + at * 10 + draw.randrange(1, 5))
        lines.append(
            json.dumps(
                {"timestamp": at * 100, "input_length": 512 * len(ids) - 100, "output_length": 9, "hash_ids": ids}
            )
        )
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    return a_trace(tmp_path / "trace.jsonl")


def said(run: Run, *args: object) -> dict[str, Any]:
    ended = run("simulate", *args, "--json")
    assert (ended.code, ended.err) == (0, "")
    document = json.loads(ended.out)
    assert isinstance(document, dict)
    return document


def test_json_has_the_first_cache_on_top_and_every_cache_in_a_list(run: Run, trace: str) -> None:
    document = said(run, trace, "--cache", "sglang", "--policy", "lru,lfu", "--capacity", "10,1k,unbounded")
    rows = document["per_capacity"]
    assert [(row["policy"], row["capacity"]) for row in rows] == [
        (p, c) for p in ("lru", "lfu") for c in (10, 1000, None)
    ]
    assert {name: document[name] for name in rows[0]} == rows[0]
    assert set(rows[0]) == {
        "cache",
        "policy",
        "instances",
        "capacity",
        "requests",
        "blocks",
        "hit_blocks",
        "hit_rate",
        "tokens",
        "hit_tokens",
        "token_hit_rate",
        "evictions",
    }
    for row in rows:
        assert (row["hit_rate"], row["token_hit_rate"]) == (
            row["hit_blocks"] / row["blocks"],
            row["hit_tokens"] / row["tokens"],
        )
    assert document["block_tokens"] == [512] and document["interrupted"] is False


def test_many_capacities_are_the_same_as_each_alone(run: Run, trace: str) -> None:
    capacities = [3, 8, 13, 21, 34, 55, 89, 144, 233]
    together = said(run, trace, "--capacity", ",".join(map(str, capacities)))["per_capacity"]
    assert together == [said(run, trace, "--capacity", capacity)["per_capacity"][0] for capacity in capacities]


@pytest.mark.parametrize("cache", ["vllm", "sglang", "llamacpp", "transformers", "tiered"])
def test_every_engine_takes_a_trace(run: Run, trace: str, cache: str) -> None:
    document = said(run, trace, "--cache", cache, "--capacity", 200, "--instances", 2, "--routing", "prefix")
    assert (document["cache"], document["requests"]) == (cache, 60) and 0.3 < document["hit_rate"] < 1


def test_standard_input_and_a_ledger_say_what_the_file_says(
    run: Run, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = said(run, trace, "--capacity", 50)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(trace).read_bytes())))
    assert said(run, "-", "--capacity", 50) == expected
    with Ledger(tmp_path / "kept" / "ledger.jsonl") as ledger:
        for call in calls_of(BlockTraces().read(trace)):
            ledger.append(call)
    from_ledger = said(run, tmp_path / "kept", "--capacity", 50)
    assert (from_ledger["hit_blocks"], from_ledger["evictions"]) == (expected["hit_blocks"], expected["evictions"])


def test_standard_input_is_not_the_file_of_that_name(
    run: Run, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = said(run, trace, "--capacity", 50)
    monkeypatch.chdir(tmp_path)
    served(tmp_path / "-", "vllm", 5)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(trace).read_bytes())))
    assert said(run, "-", "--capacity", 50) == expected


def test_a_session_goes_through_a_hosted_cache_with_its_price(run: Run, tmp_path: Path) -> None:
    session = pi_session(tmp_path / "session.jsonl", 6)
    document = said(run, session, "--cache", "anthropic")
    assert document["blocks"] is None and document["requests"] == 6
    assert document["hit_rate"] == document["token_hit_rate"] >= 0
    assert document["cost_usd"] > 0 and document["cost_uncached_usd"] > 0
    assert said(run, session, "--cache", "openai", "--model", "gpt-5.6-sol")["cache"] == "openai"


def test_a_real_session_would_have_been_read_nearly_whole(run: Run, shared: Path) -> None:
    path = shared / "data" / "pi" / "before-compaction.jsonl"
    if not path.is_file():
        pytest.skip("the session is not beside this checkout")
    document = said(run, path, "--cache", "anthropic")
    assert (
        document["requests"] == 484
        and document["hit_rate"] > 0.95
        and document["cost_usd"] < document["cost_uncached_usd"] / 4
    )


def test_every_hosted_provider_has_a_name_here(run: Run, tmp_path: Path) -> None:
    session = pi_session(tmp_path / "session.jsonl", 6)
    path = Path(session)
    path.write_text(path.read_text("utf-8").replace("claude-opus-4-5", "a-model-of-ours"), "utf-8")
    names = [name for name in PROVIDERS if name not in ("anthropic", "openai")]
    ended = run("simulate", session, "--cache", ",".join(names), "--json")
    rows = json.loads(ended.out)["per_capacity"]
    assert [row["cache"] for row in rows] == names
    assert {row["requests"] for row in rows} == {6} and all(0 <= row["hit_rate"] < 1 for row in rows)
    priced = said(run, session, "--cache", "deepseek", "--model", "deepseek-v4-pro")
    assert 0 < priced["cost_usd"] <= priced["cost_uncached_usd"]


@pytest.mark.parametrize(
    "cache", ["openai", "gemini", "azure-openai", "deepseek", "xai", "kimi", "groq", "fireworks", "bedrock-nova"]
)
def test_a_model_of_another_vendor_is_not_billed_there(cache: str, run: Run, tmp_path: Path) -> None:
    session = pi_session(tmp_path / "session.jsonl", 6)
    for model in ([], ["--model", "claude-opus-4-5"]):
        ended = run("simulate", session, "--cache", cache, *model)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert (
            f"claude-opus-4-5 is a model of anthropic, not of {cache}: name one of {cache}'s with --model" in ended.err
        )
    assert run("simulate", session, "--cache", "bedrock-claude,openrouter,qwen4").code == 0


def test_dollars_that_nobody_knows_have_a_reason(run: Run, tmp_path: Path) -> None:
    session = pi_session(tmp_path / "session.jsonl", 6)
    assert run("simulate", session, "--cache", "qwen4").err == "qwen4: no dollars: prices of qwen4 are not known here\n"
    unpriced = run("simulate", session, "--cache", "openrouter").err
    assert (
        unpriced
        == "openrouter: no dollars: openrouter has no known price for model 'claude-opus-4-5': name one that has with --model\n"
    )
    calls = [
        {"timestamp": 10**15 + turn, "input": "Find it. " * (2000 + turn), "output": "ok", "session_id": "a"}
        for turn in range(3)
    ]
    (tmp_path / "agent.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls))
    ended = run("simulate", tmp_path / "agent.jsonl", "--cache", "openai", "--model", "gpt-4o")
    assert ended.code == 0 and "3 of 3 calls do not say how many tokens were generated" in ended.err
    ended = run("simulate", tmp_path / "agent.jsonl", "--cache", "openai")
    assert (
        ended.code == 0 and "openai has no known price for model 'unknown': name one that has with --model" in ended.err
    )


def test_bills_without_prompts_are_sent_to_what_can_read_them(run: Run, tmp_path: Path) -> None:
    usage = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    body = {"model": "claude-opus-4-5", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}
    reply = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "content": [],
        "usage": usage,
    }
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"request": body, "response": reply}) + "\n")
    for args in ([], ["--cache", "anthropic"]):
        ended = run("simulate", tmp_path / "pairs.jsonl", *args)
        assert ended.code == 2 and ended.err.count("\n") == 1 and "contextkit whatif FILE" in ended.err
    assert run("whatif", tmp_path / "pairs.jsonl").code == 0


def test_the_table_has_a_row_a_cache(run: Run, trace: str) -> None:
    ended = run("simulate", trace, "--cache", "sglang", "--policy", "lru,fifo", "--capacity", "40,unbounded")
    assert ended.code == 0
    assert "60 requests" in ended.out and "blocks of 512 tokens" in ended.out
    assert "counted: what these caches would hold of the trace; no bill was looked at\n" in ended.out
    rows = [line.split() for line in ended.out.splitlines() if line.startswith("sglang")]
    assert [row[:3] for row in rows] == [
        ["sglang", policy, room] for policy in ("lru", "fifo") for room in ("40", "unbounded")
    ]


def test_the_page_stands_alone_and_shows_every_line(run: Run, trace: str, tmp_path: Path) -> None:
    page = tmp_path / "curve.html"
    ended = run(
        "simulate", trace, "--cache", "sglang", "--policy", "lru,lfu", "--capacity", "10,100,unbounded", "--html", page
    )
    assert ended.code == 0
    text = page.read_text("utf-8")
    assert not re.search(r"<script|<link|<img|@import|url\(|src=", text)
    assert set(re.findall(r"https?://[^\"' <]+", text)) <= {"http://www.w3.org/2000/svg"}
    match = re.search(r"<svg viewBox.*?</svg>\n<ul>", text, re.DOTALL)
    assert match
    figure = ET.fromstring(match[0].removesuffix("\n<ul>"))
    assert len(figure.findall(".//{*}circle")) == 4
    assert "sglang lru</li>" in text and "sglang lfu</li>" in text and "<td>unbounded<td>" in text


def test_without_numpy_a_page_needs_capacities(
    run: Run, trace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    real = __import__("importlib.util").util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None if name == "numpy" else real(name, *rest))
    monkeypatch.setitem(sys.modules, "numpy", None)
    page = tmp_path / "curve.html"
    assert run("simulate", trace, "--capacity", "10,100", "--html", page).code == 0 and page.is_file()
    ended = run("simulate", trace, "--html", tmp_path / "other.html")
    assert ended.code == 2 and 'pip install "contextkit-sdk[numpy]"' in ended.err


MISTAKES = {
    "an unknown cache": (
        ["--cache", "redis"],
        "'redis' is no cache: use one of vllm, sglang, llamacpp, transformers, tiered, anthropic, openai",
    ),
    "a policy of another cache": (
        ["--policy", "slru"],
        "vllm has no policy 'slru': use one of lru",
    ),
    "an unknown routing": (["--routing", "chance"], "use one of round-robin, session, prefix"),
    "no room": (["--capacity", "0"], "is no number of blocks"),
    "room that is no number": (["--capacity", "lots"], "'lots' is no number of blocks"),
    "no cache": (["--cache", ""], "it is empty: leave it out for vllm"),
    "a model for an engine": (["--model", "gpt-5"], "--model says nothing to vllm"),
    "slots for another engine": (["--slots", "3"], "--slots says nothing to vllm"),
    "blocks for a hosted cache": (["--cache", "deepseek", "--capacity", "10"], "--capacity says nothing to deepseek"),
    "a policy for a hosted cache": (["--cache", "deepseek", "--policy", "lru"], "--policy says nothing to deepseek"),
    "a page nowhere": (["--html", "nowhere/page.html"], "there is no folder nowhere"),
    "no such option": (["--capacities", "10"], "No such option"),
    "a hosted cache for blocks": (["--cache", "anthropic"], "no call of this trace has the outline"),
    "a hosted cache beside an engine": (["--cache", "vllm,openai"], "replay one after the other"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_that_names_what_there_is(name: str, run: Run, trace: str) -> None:
    args, text = MISTAKES[name]
    ended = run("simulate", trace, *args)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert text in ended.err


def test_a_bad_line_is_named_by_file_and_line(run: Run, trace: str) -> None:
    path = Path(trace)
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines[:6], '{"timestamp": 1}', *lines[6:]]), "utf-8")
    ended = run("simulate", trace)
    assert ended.code == 2 and f"{trace}:7: no 'hash_ids'" in ended.err


def test_a_session_has_no_blocks_for_an_engine(run: Run, tmp_path: Path) -> None:
    ended = run("simulate", pi_session(tmp_path / "session.jsonl", 3))
    assert ended.code == 2 and "--cache anthropic or openai" in ended.err


@posix
@pytest.mark.parametrize("cache", cases(["vllm"], ["vllm", "sglang", "llamacpp", "transformers", "tiered"]))
def test_ctrl_c_prints_what_is_done_at_once(start: Start, tmp_path: Path, cache: str) -> None:
    """The second trace is a pipe nobody writes to: the command waits there, and does not have to be helped on."""
    document, err = interrupted(start, a_trace(tmp_path / "first.jsonl"), tmp_path / "second.jsonl", "--cache", cache)
    assert document["interrupted"] is True and document["requests"] == 60 and "replayed so far" in err


@posix
def test_ctrl_c_before_anything_was_replayed_says_so(start: Start, tmp_path: Path) -> None:
    document, err = interrupted(
        start, pi_session(tmp_path / "first.jsonl", 3), tmp_path / "second.jsonl", "--cache", "anthropic,deepseek"
    )
    assert document["interrupted"] is True and document["per_capacity"] == [] and "nothing had been replayed" in err


_READING = 0.2
"""Seconds until it reads: a signal between Python's last look for one and the call that waits goes unseen until the
call returns."""


def interrupted(start: Start, first: Any, second: Path, *options: str) -> tuple[dict[str, Any], str]:
    """What the command prints when Ctrl-C comes while it waits for its second trace."""
    os.mkfifo(second)
    command = [*COMMAND, "simulate", str(first), str(second), "--json", *options]
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        pipe = _opened(second, process)  # the command has its first trace behind it
        time.sleep(_READING)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=30)
        finally:
            os.close(pipe)
            process.kill()
    assert process.returncode == 130 and "Traceback" not in err
    return json.loads(out), err


def _opened(pipe: Path, process: subprocess.Popen[str]) -> int:
    """The pipe's writing end, as soon as somebody reads from it."""
    while process.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            time.sleep(0.02)
    pytest.fail(f"it ended too early: {process.communicate()}")


# Ledgers of `contextkit serve --cache`
# ------------------------------------------------------------------------------------------------

SERVED: dict[str, dict[str, Any]] = {
    "vllm": {"block_size": 8, "capacity_tokens": 800},
    "sglang": {"block_size": 2, "capacity_tokens": 700, "policy": "lfu"},
    "llamacpp": {"slots": 2, "host_tokens": 600},
    "transformers": {"block_size": 16, "capacity_tokens": 1600},
    "tiered": {"block_size": 16, "capacity_tokens": 160, "host_tokens": 320, "disk_tokens": 640},
}
"""Sizes at which the conversations do not fit."""
ASKED = {
    "vllm": ["--block-size", 8, "--capacity", 100],
    "sglang": ["--block-size", 2, "--capacity", 350, "--policy", "lfu"],
    "llamacpp": ["--slots", 2, "--capacity", 600],
    "transformers": ["--block-size", 16, "--capacity", 100],
    "tiered": ["--block-size", 16, "--capacity", 10, "--host-capacity", 20, "--disk-capacity", 40],
}
"""The same as options, in blocks."""


def served(path: Path, cache: Any, words: int = 60) -> Ledger:
    """Four conversations behind one beginning, three turns each, mixed, as a client had them with the server.

    Kept at `path`.
    """
    with (
        LocalServer(now=0.0, cache=cache) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any") as client,
    ):
        talks: list[list[Any]] = [[{"role": "system", "content": "Be careful. " * words}] for _ in range(4)]
        for turn, (number, talk) in product(range(3), enumerate(talks)):
            talk.append({"role": "user", "content": f"question {turn} of {number} " * 10})
            talk.append(client.chat.completions.create(model="my/own-model", messages=talk).choices[0].message)
        with Ledger(path) as kept:
            for call in server.ledger:
                kept.append(call)
        return server.ledger


def billed(ledger: Ledger) -> tuple[int, int, int]:
    """(calls, tokens of prompts, tokens read)."""
    usages = [call.usage for call in ledger if call.usage]
    return len(usages), sum(usage.prompt or 0 for usage in usages), sum(usage.read or 0 for usage in usages)


def figures(row: dict[str, Any]) -> tuple[int, int, int]:
    return row["requests"], row["tokens"], row["hit_tokens"]


@pytest.mark.parametrize("name", SERVED)
def test_what_the_server_billed_is_what_its_ledger_gives(run: Run, tmp_path: Path, name: str) -> None:
    small, roomy = (
        served(tmp_path / "small.jsonl", engine(name, **SERVED[name])),
        served(tmp_path / "roomy.jsonl", name),
    )
    document = said(run, tmp_path / "small.jsonl", "--cache", name, *ASKED[name])
    assert figures(document) == billed(small)
    assert figures(said(run, tmp_path / "roomy.jsonl", "--cache", name)) == billed(roomy)
    assert billed(roomy)[2] > 0 and billed(small)[2] > 0
    size = SERVED[name].get("block_size", 1)
    assert document["block_tokens"] == [size] and document["hit_blocks"] == -(-document["hit_tokens"] // size)
    assert document["evictions"] is None if name == "llamacpp" else document["evictions"] > 0


def test_a_served_ledger_side_by_side_by_capacity_in_blocks_and_packed(run: Run, tmp_path: Path) -> None:
    ledger = served(tmp_path / "ledger.jsonl", engine("vllm", capacity_tokens=50 * 16))
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress((tmp_path / "ledger.jsonl").read_bytes()))
    for file in ("ledger.jsonl", "packed.jsonl.gz"):
        document = said(run, tmp_path / file, "--cache", "vllm,sglang", "--capacity", "50,4k")
        rows = document["per_capacity"]
        assert [(row["cache"], row["capacity"]) for row in rows] == [
            (c, n) for c in ("vllm", "sglang") for n in (50, 4000)
        ]
        assert figures(rows[0]) == billed(ledger) and rows[1]["evictions"] == 0
    *lines, last = (tmp_path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "broken.jsonl.gz").write_bytes(gzip.compress(b"".join([*lines, b"{}\n", last])))
    ended = run("simulate", tmp_path / "broken.jsonl.gz")
    assert ended.code == 2 and f"{tmp_path / 'broken.jsonl.gz'} line 13" in ended.err
    page = tmp_path / "curve.html"
    ended = run("simulate", tmp_path / "ledger.jsonl", "--capacity", "50,4k", "--html", page)
    assert ended.code == 0 and "12 requests" in ended.out and "blocks of 16 tokens" in ended.out and page.is_file()


def test_two_served_ledgers_of_one_name_keep_their_conversations_apart(run: Run, tmp_path: Path) -> None:
    one, other = (served(tmp_path / folder / "ledger.jsonl", "vllm", words) for folder, words in (("a", 60), ("b", 90)))
    document = said(run, tmp_path / "a", tmp_path / "b")
    assert document["tokens"] == billed(one)[1] + billed(other)[1]


def test_an_option_goes_to_the_engines_that_have_it(run: Run, tmp_path: Path) -> None:
    """As with a block trace."""
    served(tmp_path / "ledger.jsonl", "vllm")
    given = ["--slots", "2", "--host-capacity", "40", "--block-size", "16", "--capacity", "30"]
    document = said(run, tmp_path / "ledger.jsonl", "--cache", "vllm,llamacpp,tiered", *given)
    sizes = {"vllm": ["--block-size", "16"], "llamacpp": ["--slots", "2"], "tiered": ["--block-size", "16"]}
    for row in document["per_capacity"]:
        more = ["--host-capacity", "40"] if row["cache"] == "tiered" else []
        alone = ["--cache", row["cache"], *sizes[row["cache"]], *more, "--capacity", "30"]
        assert figures(row) == figures(said(run, tmp_path / "ledger.jsonl", *alone))


def test_the_host_tier_holds_twice_the_capacity(run: Run, tmp_path: Path) -> None:
    served(tmp_path / "ledger.jsonl", "vllm")
    asked = tmp_path / "ledger.jsonl", "--cache", "tiered", "--block-size", "16", "--capacity", "20"
    rows = [said(run, *asked, *more) for more in ([], ["--host-capacity", "40"], ["--host-capacity", "4000"])]
    assert figures(rows[0]) == figures(rows[1]) != figures(rows[2])


def test_a_disk_is_a_third_tier(run: Run, tmp_path: Path) -> None:
    """A disk that holds everything reads what a pool without end reads; one of a block, of what was used last, adds nothing."""
    draw, prompts, lines = Random(3), [[n] for n in range(20)], []
    for second in range(600):
        prompt = draw.choice(prompts)
        prompt.append(20 + second)
        row = {"timestamp": second, "input_length": 512 * len(prompt), "output_length": 1, "hash_ids": prompt}
        lines.append(json.dumps(row))
    (tmp_path / "trace.jsonl").write_text("\n".join(lines), "utf-8")
    trace, tiers = tmp_path / "trace.jsonl", ["--cache", "tiered", "--capacity", 40, "--host-capacity", 80]
    endless = said(run, trace)
    rows = [said(run, trace, *tiers, *disk) for disk in ([], *(["--disk-capacity", n] for n in (1, 200, 400, 10_000)))]
    hits = [row["hit_blocks"] for row in rows]
    assert hits[0] == hits[1] < hits[2] < hits[3] < hits[4] == endless["hit_blocks"]
    alone = said(run, trace, "--cache", "vllm", "--capacity", 200)
    assert hits[2] == alone["hit_blocks"]  # what the tiers above hold, the lowest has too
    assert rows[4]["evictions"] == 0 < rows[3]["evictions"] < rows[2]["evictions"]


SERVED_MISTAKES = {
    "another engine's option": (
        ["--cache", "llamacpp", "--block-size", "4"],
        "--block-size says nothing to llamacpp: leave it out",
    ),
    "a disk of another engine": (["--disk-capacity", "4"], "--disk-capacity says nothing to vllm: leave it out"),
    "another engine's policy": (["--policy", "lfu"], "vllm has no policy 'lfu': use one of lru"),
    "a host said twice": (
        ["--cache", "llamacpp", "--capacity", "4", "--host-tokens", "0"],
        "--capacity and --host-tokens say the same in blocks and in tokens",
    ),
    "a window without its memory": (["--cache", "llamacpp", "--window", "64"], "a window takes memory window"),
    "no end": (["--capacity", "unbounded"], "give a number of blocks"),
    "many instances": (["--instances", "2"], "--instances says nothing to a ledger of token ids"),
    "a hosted cache": (["--cache", "openai"], "no call of this trace has the outline"),
}


def test_what_a_served_ledger_cannot_be_asked(run: Run, trace: str, tmp_path: Path) -> None:
    served(tmp_path / "ledger.jsonl", "vllm", 5)
    for args, text in SERVED_MISTAKES.values():
        ended = run("simulate", tmp_path / "ledger.jsonl", *args)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1) and text in ended.err
    mixed: list[tuple[list[Any], str]] = [
        ([tmp_path / "ledger.jsonl", trace], "trace.jsonl: no token ids, which the other ledgers have"),
        ([trace, "--block-size", 4], "--block-size is for ledgers of contextkit serve --cache"),
    ]
    for given, text in mixed:
        ended = run("simulate", *given)
        assert ended.code == 2 and text in ended.err
