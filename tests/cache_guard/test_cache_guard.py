"""`pytest --cache-guard` in runs of pytest's own: planted bugs, what is accepted, and what it leaves alone."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import anthropic  # noqa: F401 - a run of `pytester` forgets what it imported itself, and libraries are not to be loaded twice
import openai
import pytest

from contextkit.cache_guard.judgement import Pass, losses, stable_body
from contextkit.cache_guard.recording import PassRecorder

pytest.importorskip("uvicorn", reason="the local provider is the extra `server`")
pytest.importorskip("time_machine", reason="the clock is moved by the extra `guard`")
pytest_plugins = "pytester"

AGENTS = Path(__file__).parent / "agents"
PLUGIN = ("-p", "contextkit.pytest_plugin", "-p", "no:cacheprovider")
GUARD = (*PLUGIN, "-p", "no:xdist", "--cache-guard")
PLANTED = {
    "clock_minute": "clock",
    "edited_history": "shortened",
    "git_text": "environment",
    "image_replaced": "attachments",
    "injected_memory": "recall",
    "mcp_order": "tool_order",
    "no_breakpoint": "no_breakpoint",
    "one_question_each": "clock",
    "question_in_the_breakpoint": "breakpoint_place",
    "standing_breakpoint": "breakpoint_place",
    "tool_hints": "tool_description",
    "tools_from_a_set": "tool_order",
}
"""Agent with a bug → the kind that its failure names."""


def accepting(text: str) -> set[str]:
    """Kinds that failures offer to accept."""
    return set(re.findall(r'cache_guard\(allow="(\w+)"', text))


def test_planted_bugs_fail_and_a_date_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a key, through both SDKs, synchronous, asynchronous and streaming."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    for agent in AGENTS.glob("*.py"):
        name = agent.name if agent.name == "parts.py" else f"test_{agent.name}"
        (pytester.path / name).write_text(agent.read_text("utf-8"), "utf-8")
    ran = pytester.runpytest_subprocess(*GUARD, timeout=250)
    ran.assert_outcomes(passed=1, failed=len(PLANTED))
    ran.stdout.no_fnmatch_line("FAILED test_clock_day.py*")
    failures = re.split(r"^_{5,} test_\w+ _{5,}$", ran.stdout.str(), flags=re.MULTILINE)[1:]
    for (name, kind), text in zip(sorted(PLANTED.items()), failures, strict=True):
        assert kind in accepting(text), f"{name}: {text}"
        assert re.search(r"^prompt cache: [\d,]+ tokens lost$", text, re.MULTILINE), text
        assert f"test_{name}.py:" in text
    clock = failures[sorted(PLANTED).index("clock_minute")]
    for line in (
        r"  call [23] of 3, one minute after call [12] \(\d times\)",
        r"  system\[0\], byte \d+:  “….*It is [\d-]+ \d\d:\d\d\. A.*” became “….*It is [\d-]+ \d\d:\d\d\. A.*”",
        r"  at \$2\.40 a million above the price of a read: \$0\.0\d+ a run",
        r"  test_clock_minute\.py:13   system = \[text\(f\"It is \{datetime\.now\(\):%Y-%m-%d %H:%M\}.*",
        r"  why: contextkit lint --explain CKS01",
        r'  accept with  @pytest\.mark\.cache_guard\(allow="clock", reason=…\)',
    ):
        assert re.search(f"^{line}$", clock, re.MULTILINE), f"{line}\n{clock}"


HEAD = "You are careful. " * 400
AGENT = f"""
import os, uuid
import openai, pytest

HEAD = {HEAD!r}

def talk(heads, client=None):
    client = client or openai.OpenAI()
    messages = []
    for number, head in enumerate(heads):
        messages = [*messages, {{"role": "user", "content": f"turn {{number}}"}}]
        client.chat.completions.create(model="gpt-6.1-sol", messages=[{{"role": "system", "content": head}}, *messages])
        messages = [*messages, {{"role": "assistant", "content": "ok"}}]
"""


def test_every_client_and_every_phase_counts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_agent=AGENT
        + """
@pytest.fixture
def goodbye():
    talk([HEAD])
    yield
    talk(["Now " + HEAD, "Then " + HEAD])

def test_in_teardown(goodbye):
    pass

def test_in_a_copy():
    talk([HEAD, "Now " + HEAD], openai.OpenAI().with_options(timeout=9))

def test_in_every_turn():
    talk([f"{HEAD}It is 10:3{n}." for n in range(9)])

def test_fails_by_itself():
    talk([HEAD, "Now " + HEAD])
    assert 1 == 2
"""
    )
    ran = pytester.runpytest_inprocess(*GUARD, "-rA")
    ran.assert_outcomes(failed=4)
    ran.stdout.fnmatch_lines(["*call 9 of 9, after call 8 (8 times)"])
    ran.stdout.fnmatch_lines(["*assert 1 == 2*", "*cache guard*", "prompt cache: * tokens lost"])
    ran.stdout.fnmatch_lines(["FAILED *::test_fails_by_itself - assert 1 == 2"])


def test_what_a_mark_accepts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_agent=AGENT
        + """
@pytest.mark.cache_guard(allow="clock", reason="the hour is part of the game")
def test_clock():
    talk([f"{HEAD}It is 10:3{n}." for n in range(3)])

@pytest.mark.cache_guard(allow=["CKS01", "effort"], reason="the hour is part of the game")
def test_code():
    talk([f"{HEAD}It is 10:3{n}." for n in range(3)])

@pytest.mark.cache_guard(allow="tool_order", reason="another kind")
def test_another_kind():
    talk([f"{HEAD}It is 10:3{n}." for n in range(3)])

@pytest.mark.cache_guard(allow="all", reason="compares prompts", rerun=False)
def test_all():
    talk([HEAD, "Now " + HEAD])

class TestMarked:
    pytestmark = pytest.mark.cache_guard(allow="all", reason="compares prompts", rerun=False)

    def test_class(self):
        talk([HEAD, "Now " + HEAD])
"""
    )
    pytester.runpytest_inprocess(*GUARD, "--strict-markers").assert_outcomes(passed=4, failed=1)
    pytester.runpytest_inprocess(*PLUGIN, "-p", "no:xdist", "--strict-markers", "-k", "nothing").assert_outcomes()


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ('allow="clok", reason="x"', "no kind 'clok'; did you mean 'clock'[?] Known: .*tool_order"),
        ('allow="clock"', 'say why, as in reason="'),
        ('allow="clock", reason=" "', 'say why, as in reason="'),
        ("False", "takes allow=, reason= and rerun=, not False"),
        ('only="clock"', "takes allow=, reason= and rerun=, not only"),
        ("allow=3", "allow is a kind or a list of kinds, not 3"),
        ('rerun="no"', "rerun is True or False, not 'no'"),
    ],
)
def test_a_wrong_mark_is_refused_with_what_is_right(mark: str, words: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.cache_guard({mark})\ndef test_nothing(): pass")
    ran = pytester.runpytest_inprocess(*GUARD)
    ran.assert_outcomes(errors=1)
    assert re.search(f"test_nothing: @pytest.mark.cache_guard.*{words}", ran.stdout.str())


@pytest.mark.parametrize(("budget", "n_failed"), [("1000000", 0), ("10", 1), ('"$5"', 0), ('"$0.0001"', 1)], ids=str)
def test_a_budget_of_tokens_or_dollars(budget: str, n_failed: int, pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml(f"[tool.contextkit]\ncache_budget = {budget}\n")
    pytester.makepyfile(
        test_agent=AGENT
        + "@pytest.mark.cache_guard(rerun=False)\ndef test_clock():\n    talk([f'{HEAD}It is 10:3{n}.' for n in range(3)])\n"
    )
    pytester.runpytest_inprocess(*GUARD).assert_outcomes(passed=1 - n_failed, failed=n_failed)


@pytest.mark.parametrize("budget", ["-1", "true", '"a lot"', "1.5", '"5"'])
def test_a_wrong_budget_is_refused_with_what_is_right(budget: str, pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml(f"[tool.contextkit]\ncache_budget = {budget}\n")
    ran = pytester.runpytest_inprocess(*GUARD)
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    ran.stderr.fnmatch_lines(["*cache_budget is *: give tokens, such as cache_budget = 2000, or dollars, *"])


def test_a_test_keeps_its_own_replies_and_runs_once_where_it_says_so(pytester: pytest.Pytester) -> None:
    """A mocked transport answers; a test that counts its runs, or changes names with each, raises no alarm."""
    pytester.makepyfile(
        test_agent=AGENT
        + """
import httpx2
RUNS = []

@pytest.mark.cache_guard(rerun=False)
def test_once():
    RUNS.append(1)
    assert RUNS == [1] or os.environ.get("PYTHONHASHSEED") == "1"
    talk([HEAD, HEAD])

def test_mocked(tmp_path):
    def answer(request):
        message = {"role": "assistant", "content": "from the mock"}
        return httpx2.Response(200, json={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    client = openai.OpenAI(http_client=httpx2.Client(transport=httpx2.MockTransport(answer)), api_key="x")
    for _ in range(2):
        said = client.chat.completions.create(
            model="gpt-6.1-sol",
            messages=[{"role": "system", "content": f"{HEAD}Work in {tmp_path}."}, {"role": "user", "content": str(uuid.uuid4())}],
        )
        assert said.choices[0].message.content == "from the mock"

def test_the_module_goes_on():
    assert RUNS == [1]
"""
    )
    pytester.runpytest_inprocess(*GUARD, "--strict-markers").assert_outcomes(passed=3)


def test_without_the_package_that_moves_the_clock_a_line_says_so(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import sys\nsys.modules['time_machine'] = None")
    pytester.makepyfile(test_agent=AGENT + "def test_kept():\n    talk([HEAD, HEAD])\n")
    ran = pytester.runpytest_subprocess(*GUARD, timeout=200)
    ran.assert_outcomes(passed=1)
    ran.stdout.fnmatch_lines(['--cache-guard did not move the clock: pip install "contextkit-sdk?guard?"'])


def test_a_failure_hides_keys_of_the_source_and_the_second_process_keeps_its_hands_off(
    pytester: pytest.Pytester,
) -> None:
    key = "sk-ant-api03-" + "Ab3dEf9hIj" * 9
    pytester.makepyfile(
        test_agent=AGENT
        + f"""
import datetime, logging, time

@pytest.fixture(scope="session")
def started():
    return time.time()

def test_line():
    logging.warning("logged")
    key = "{key}"; talk([HEAD + f"The time is {{datetime.datetime.now()}}"])

def test_session(started):
    talk([f"{{HEAD}}Started at {{started}}."])
"""
    )
    ran = pytester.runpytest_inprocess(*GUARD, "--log-file=run.log")
    ran.assert_outcomes(failed=2)
    text = ran.stdout.str()
    assert key[:24] not in text and 'key = "sk-***' in text
    failures = text.partition("short test summary")[0]  # where CI is set, pytest prints them whole again below
    assert failures.count("fix: Freeze the system text") == 2 and "from a set" not in text
    logged = Path("run.log").read_bytes()
    assert b"\0" not in logged and b"logged" in logged


def test_workers_and_fixtures_of_wider_scopes(pytester: pytest.Pytester) -> None:
    """Fixtures of a module are set up once, whatever is run again; findings come home from workers."""
    pytest.importorskip("xdist")
    pytester.makepyfile(
        test_agent=AGENT
        + """
N = []

@pytest.fixture(scope="module")
def client():
    N.append(1)
    with openai.OpenAI() as made:
        yield made
    assert N == [1]

def test_clock(client):
    import datetime
    talk([f"{HEAD}It is {datetime.datetime.now():%H:%M}."], client)

def test_kept(client):
    assert N == [1]
    talk([HEAD, HEAD], client)
"""
    )
    ran = pytester.runpytest_subprocess(*PLUGIN, "--cache-guard", "-n1", timeout=200)
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(["*call 1 of 1, one minute later"])


def test_without_the_option_nothing_is_watched(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_agent=AGENT
        + """
def test_no_key():
    with pytest.raises(openai.OpenAIError):
        openai.OpenAI()
"""
    )
    made = openai._base_client.SyncAPIClient.__init__
    pytester.runpytest_inprocess(*GUARD).assert_outcomes(failed=1)
    assert openai._base_client.SyncAPIClient.__init__ is made, "the guard goes with the run"
    pytester.runpytest_inprocess(*PLUGIN, "-p", "no:xdist").assert_outcomes(passed=1)


def test_names_that_each_run_has_are_left_out(tmp_path: Path) -> None:
    body = f'{{"a":"{tmp_path.as_posix()}/x and http://127.0.0.1:43211/v1"}}'.encode()
    assert b"43211" not in stable_body(body)
    assert tmp_path.name.encode() not in stable_body(body)


# Recordings
# ---------------------------------------------------------------------------------------------------------------------

CLEAN_CLIENTS = (
    "2026-11-27/claude_code_2.1.332_refused_then_retry",
    "2026-11-27/pi_1.6.0_responses_gpt55",
    "2026-11-27/pi_1.6.0_system_effort_last",
    "opencode-1.18.33",
    "pi-0.74.2",
    "qwen-code",
)
"""Recorded clients whose user neither switched a model nor a setting, nor compacted."""
PATHS = {"input": "/v1/responses", "system": "/v1/messages"}
"""Field of a request → the path it is sent to; `/v1/chat/completions` for the others."""


def replayed(bodies: list[dict[str, Any]]) -> Pass:
    """One pass whose calls are recorded requests, five seconds apart."""
    now = [1_800_000_000.0]
    recorder = PassRecorder(lambda: now[0])
    for body in bodies:
        path = next((path for field, path in PATHS.items() if field in body), "/v1/chat/completions")
        call = recorder.start("POST", path, json.dumps(body, ensure_ascii=False).encode())
        assert call is not None
        now[0] += 3
        call.began(200, {"content-type": "application/json"})
        now[0] += 2
        call.ended(is_whole=True)
    return Pass("first", recorder.calls, recorder.findings)


def as_claude(body: dict[str, Any]) -> dict[str, Any]:
    """A request of OpenAI's chat format as one of Claude's, with breakpoints on the system text and the last message."""
    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": message["content"], **mark} for message in body["messages"][:1]]
    messages = []
    for message in body["messages"][1:]:
        parts: list[dict[str, Any]] = [{"type": "text", "text": message["content"]}] if message["content"] else []
        for call in message.get("tool_calls") or ():
            asked = {"name": call["function"]["name"], "input": json.loads(call["function"]["arguments"])}
            parts.append({"type": "tool_use", "id": call["id"], **asked})
        if message["role"] == "tool":
            parts = [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]
        messages.append({"role": "assistant" if message["role"] == "assistant" else "user", "content": parts})
    messages[-1]["content"][-1] |= mark
    return {"model": "claude-sonnet-5-5", "max_tokens": 9, "system": system, "messages": messages}


def test_clean_recordings_raise_no_alarm(shared: Path) -> None:
    """Six recorded clients, and seven real conversations with tools, each in two formats."""
    recordings = []
    for name in CLEAN_CLIENTS:
        with gzip.open(shared / "data" / "client-requests" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        recordings.append([row.get("request", row) for row in rows])
    with gzip.open(shared / "data" / "tau-bench" / "gpt-4o-airline.json.gz", "rt", encoding="utf-8") as file:
        runs = json.load(file)[:7]
    for run in runs:
        said = run["traj"]
        turns = [number for number, message in enumerate(said) if message["role"] == "assistant"]
        bodies = [{"model": "gpt-6.1-sol", "messages": said[:number]} for number in turns]
        recordings += [bodies, [as_claude(body) for body in bodies]]
    assert len(recordings) == 20
    for bodies in recordings:
        one = replayed(bodies)
        assert len(one.calls) == len(bodies)
        assert losses([one]) == []
        later = Pass("minute", one.calls)
        assert losses([one, later]) == []
