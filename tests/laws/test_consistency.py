"""Invariant 13: the proxy, `watch`, the local provider's ledger, `report` and `lint --requests` agree on every call.

Each client's recorded bodies are sent through a watched SDK client, the proxy and the local provider; `report` and
`lint --requests` read the same bodies with the provider's answers. All five must assign each call the same conversation
(the same call before it), and name the same cause of a miss.

Inherent differences:

- `watch` takes the clients of Anthropic's and OpenAI's SDKs, so it has no view of Gemini and Bedrock calls.
- `watch` and `lint` report what changed in a prompt; a first write, a prompt below the minimum and an expired lifetime
  are causes in a ledger, and no findings. Where a ledger names a change, a finding on the same call names it too.
- `watch` stores the last requests of conversations in 64 MB, at most 1,024 of them, and so do the proxy in 512 MB and the
  local provider: one that was not used for longer begins anew there.
- Where only a header names the session, a body that was recorded without headers has no name: a compaction that keeps
  nothing of the text is then a conversation of its own. No recording here has one.
- A transcript (Claude Code, Codex rollouts) holds no request bodies: only `report` reads it, and its lanes are what the
  client recorded, so there is nothing to compare it with.
"""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx2
import pytest

from contextkit import Ledger, watch
from contextkit.importers.registry import records_at
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.misses import analyzed_calls
from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.requests.detect import RequestDetector
from contextkit.proxy.call_analyzer import CallAnalyzer
from contextkit.proxy.journal import Journal
from contextkit.proxy.observer import Departed, Ended, Passed
from contextkit.server import LocalServer
from tests.scale import cases, n_examples
from tests.server.proxied import passing
from tests.server.test_real_requests import CLIENTS, HEADERS, HOSTS, path_of, requests_of

CHANGES = {
    "tools": "tools_changed",
    "system": "system_changed",
    "messages": "messages_changed",
    "parameters": "params_changed",
}
"""Level of a finding → the cause that a ledger gives it."""
MODEL_CHANGED = "CKP01"
PATIENCE_SECONDS = 10.0
Call = tuple[str, dict[str, Any]]
"""Path and body of a request."""


@dataclass
class View:
    """The opinion of one part of the package on each call of a replay."""

    before: list[int | None]
    """The call before each in its conversation; None for the first."""
    causes: list[set[str]]
    """Why each missed."""


class Analyzer:
    """The proxy's observer, with its analysis in this process."""

    def __init__(self, path: Path) -> None:
        self.analysis = CallAnalyzer(Journal(path), print)
        self.reports: list[dict[str, Any]] = []

    def departed(self, call: Departed) -> None:
        self.analysis.departed(call)

    def ended(self, call: Ended) -> None:
        self.reports.append(json.loads(self.analysis.ended(call)))

    def passed(self, request: Passed) -> None:
        self.analysis.passed(request)


class Observer:
    """Hands calls to the analyzer of the present replay."""

    analyzer: Analyzer

    def departed(self, call: Departed) -> None:
        self.analyzer.departed(call)

    def ended(self, call: Ended) -> None:
        self.analyzer.ended(call)

    def passed(self, request: Passed) -> None:
        self.analyzer.passed(request)


@dataclass
class Stage:
    """A local provider with a proxy before it."""

    server: LocalServer
    observer: Observer
    url: str


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    observer = Observer()
    with LocalServer() as server, passing(server.url, observer=observer) as url:
        yield Stage(server, observer, url)


def before_of(names: Sequence[object]) -> list[int | None]:
    last: dict[object, int] = {}
    before = []
    for index, name in enumerate(names):
        before.append(last.get(name))
        last[name] = index
    return before


def ledger_view(calls: Sequence[ModelCall]) -> View:
    causes = [{call.miss.cause} if call.miss else set() for call in analyzed_calls(calls)]
    return View(before_of([(call.session, call.lane) for call in calls]), causes)


def lint_view(calls: Sequence[ModelCall]) -> View:
    detector = RequestDetector(hazards())
    causes = [changes_in(list(detector.feed(call))) for call in calls]
    return View(before_of([(call.session, call.lane) for call in calls]), causes)


def changes_in(findings: Sequence[Finding]) -> set[str]:
    """The causes that findings name."""
    causes = set()
    for finding in findings:
        if finding.code == MODEL_CHANGED:
            causes.add("model_changed")
        elif isinstance(finding.place, RequestPlace) and finding.place.level in CHANGES:
            causes.add(CHANGES[finding.place.level])
    return causes


class Refused(Exception):
    """The local provider refuses a recorded body."""


def replay(
    stage: Stage,
    calls: Sequence[Call],
    folder: Path,
    headers: Sequence[dict[str, str]] | None = None,
    *,
    is_recorded: bool = False,
) -> dict[str, View]:
    """The five views of calls that are sent one after the other.

    `headers` are the client's own for each call; `is_recorded` writes them beside the bodies that `report` reads.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stage.server.reset()
    stage.observer.analyzer = analyzer = Analyzer(folder / "proxy.jsonl")
    findings: list[Finding] = []
    findings_of: list[list[Finding]] = []
    pairs = []
    client = anthropic.Anthropic(base_url=stage.url, api_key="any", max_retries=0)
    watched = watch(client, on_break=findings.append, record=folder / "watch.jsonl")
    try:
        for index, (path, body) in enumerate(calls):
            findings.clear()
            own = headers[index] if headers else {}
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
            answer: httpx2.Response = watched._client.post(stage.url + path, content=content, headers=HEADERS | own)
            if answer.status_code != 200:
                raise Refused(answer.text[:200])
            findings_of.append([*findings])
            pair = pair_of(stage.server.ledger[-1], stage.server.url + path, body, answer.text)
            pairs.append({**pair, "headers": own} if is_recorded else pair)
        patience = time.monotonic() + PATIENCE_SECONDS
        while len(analyzer.reports) < len(calls) and time.monotonic() < patience:
            time.sleep(0.005)
    finally:
        watched.close()
        client.close()
        [*analyzer.analysis.close(time.time())]
    recording = folder / "pairs.jsonl"
    recording.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), "utf-8")
    reported = [record for record in records_at(str(recording))[1] if isinstance(record, ModelCall)]
    rows = [report["call"] for report in analyzer.reports]
    views = {
        "ledger": ledger_view([*stage.server.ledger]),
        "proxy": View(
            before_of([(row["session"], row["lane"]) for row in rows]),
            [{report["cause"]} - {None} for report in analyzer.reports],
        ),
        "report": ledger_view(reported),
        "lint": lint_view(reported),
    }
    recorded = [*Ledger.read(folder / "watch.jsonl")]
    if len(recorded) == len(calls):  # fewer where some are of endpoints that it has no view of
        views["watch"] = ledger_view(recorded)
        views["watch findings"] = View(views["watch"].before, [*map(changes_in, findings_of)])
    # The ledger that the proxy wrote is read again as `report` reads it.
    views["proxy's ledger"] = ledger_view([*Ledger.read(folder / "proxy.jsonl")])
    return views


def pair_of(row: ModelCall, url: str, body: dict[str, Any], answer: str) -> dict[str, Any]:
    response = json.loads(answer) if answer.startswith(("{", "[")) else answer
    times = {"at": row.at, "first_byte": row.first_byte_at, "ended_at": row.ended_at}
    return {"url": url, **times, "request": body, "response": response}


def disagreements(views: dict[str, View]) -> list[str]:
    """What the views disagree on, call by call."""
    truth = views["ledger"]
    lines = []
    for index, causes in enumerate(truth.causes):
        befores = {name: view.before[index] for name, view in views.items()}
        if len(set(befores.values())) > 1:
            lines.append(f"call {index} continues {befores}")
        for name, view in views.items():
            is_ledger = name not in ("lint", "watch findings")
            changes = causes & {*CHANGES.values(), "model_changed"}
            if view.causes[index] != causes if is_ledger else not changes <= view.causes[index]:
                lines.append(f"call {index}: {sorted(causes)} in the ledger, {sorted(view.causes[index])} in {name}")
    return lines


@pytest.mark.parametrize("client", CLIENTS)
def test_every_view_of_a_client_is_the_same(stage: Stage, shared: Path, tmp_path: Path, client: str) -> None:
    calls = [(path_of(body), body) for _, body in requests_of(shared, client)]
    views = replay(stage, calls, tmp_path)
    different = disagreements(views)
    print(f"\n{client}: {len(calls)} calls in {len(views)} views, {len(different)} disagreements")
    assert not different, "\n".join(different)
    if client == "claude-code-2.1.197":  # a sub-agent is a conversation of its own
        assert all(view.before[7:11] == [6, None, 8, 7] for view in views.values())


def test_a_sub_agent_of_codex_is_a_conversation_of_its_own_and_compaction_is_none(
    stage: Stage, shared: Path, tmp_path: Path
) -> None:
    bodies = [body for _, body in requests_of(shared, "codex-0.169.0")]
    main, other = bodies[:9], bodies[9:]
    thread = other[0]["client_metadata"]["thread_id"]
    names = {name: main[0]["client_metadata"][name] for name in ("session_id",)}
    agent = [
        {
            **body,
            "prompt_cache_key": main[0]["prompt_cache_key"],
            "client_metadata": {**body["client_metadata"], **names, "thread_id": thread},
        }
        for body in other
    ]
    calls = [("/v1/responses", body) for body in (*main[:3], agent[0], main[3], agent[1], *main[4:])]
    views = replay(stage, calls, tmp_path)
    assert not disagreements(views)
    for view in views.values():
        assert view.before == [None, 0, 1, None, 2, 3, 4, 6, 7, 8, 9]


def claude_code(session: str, agent: str = "") -> dict[str, str]:
    agents = {"x-claude-code-agent-id": agent} if agent else {}
    return {"x-claude-code-session-id": session, **agents}


def codex(thread: str) -> dict[str, str]:
    return {"session-id": thread, "thread-id": thread, "x-codex-window-id": f"{thread}:0"}


def opencode(session: str) -> dict[str, str]:
    return {"x-session-id": session, "x-session-affinity": session}


NAMED = {
    "claude-code-2.1.197": [claude_code("s", "a1" if index in (8, 9) else "") for index in range(15)],
    "codex-0.169.0": [codex("s" if index < 9 else "t") for index in range(11)],
    "opencode-1.18.33": [opencode("s" if index < 5 else "t") for index in range(6)],
    "pi-0.74.2": [{"session_id": "s" if index < 5 else "t"} for index in range(7)],
}
"""Client → the headers in which it names session and agent (`facts/clients.toml`), of each of its recorded requests."""


@pytest.mark.parametrize("client", cases([name for name in NAMED if not name.startswith("claude")], NAMED))
def test_a_body_recorded_without_headers_is_of_the_same_conversation(
    stage: Stage, shared: Path, tmp_path: Path, client: str
) -> None:
    calls = [(path_of(body), body) for _, body in requests_of(shared, client)]
    views = replay(stage, calls, tmp_path, NAMED[client])
    assert not disagreements(views)
    assert {call.session for call in stage.server.ledger} >= {"s"} or "prompt_cache_key" in calls[0][1]


def test_headers_tell_agents_apart_that_are_asked_the_same(stage: Stage, tmp_path: Path) -> None:
    def call(*texts: str) -> Call:
        roles = ("user", "assistant")
        messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(texts)]
        fields = {"model": "claude-sonnet-5", "max_tokens": 64, "system": "Review one file. " * 400}
        return "/v1/messages", {**fields, "messages": messages}

    calls = [call("Go."), call("Go."), call("Go.", "Yes.", "On."), call("Go.", "Yes.", "On."), call("Go.")]
    headers = [claude_code("s", name) for name in ("a", "b", "a", "b", "")]
    views = replay(stage, calls, tmp_path, headers, is_recorded=True)
    assert not disagreements(views)
    for view in views.values():
        assert view.before == [None, None, 0, 1, None]
    assert [call.lane for call in stage.server.ledger] == ["a", "b", "a", "b", "main"]


def test_many_conversations_at_once_are_the_same_in_every_view(stage: Stage, tmp_path: Path) -> None:
    def call(number: int, *texts: str) -> Call:
        question = f"What is {number} times {number + 1}?"
        roles = ("user", "assistant")
        messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate((question, *texts))]
        return "/v1/messages", {"model": "claude-sonnet-5", "max_tokens": 64, "messages": messages}

    n = n_examples(25, 100)
    calls = [call(number) for number in range(n)] + [call(number, "Wait.", "Well?") for number in range(n)]
    views = replay(stage, calls, tmp_path)
    assert not disagreements(views)
    assert views["watch"].before == [*[None] * n, *range(n)]


def test_every_view_of_recorded_pairs_is_the_same(stage: Stage, shared: Path, tmp_path: Path) -> None:
    lines = gzip.decompress((shared / "data" / "agent-logs" / "recorded-pairs.jsonl.gz").read_bytes()).splitlines()
    n = Counter[str]()
    different = []
    for number, cassette in enumerate(map(json.loads, lines[:: n_examples(4, 1)])):
        calls = []
        for call in cassette["calls"]:
            address = urlsplit(call["url"])
            is_error = isinstance(call["response"], dict) and call["response"].get("error")
            if address.netloc in HOSTS and "/threads/" not in address.path and not is_error:
                calls.append((address.path, call["request"]))
        if len(calls) < 2:
            continue
        try:
            views = replay(stage, calls, tmp_path / str(number))
        except Refused:
            n["refused"] += len(calls)  # a name that was made before the recording began
            continue
        lines_of = disagreements(views)
        n["calls"] += len(calls)
        n["calls that agree"] += len(calls) - len(
            {line.partition(":")[0].partition(" continues")[0] for line in lines_of}
        )
        different += [f"{cassette['cassette']}: {line}" for line in lines_of]
    print(f"\n{dict(n)}")
    assert n["calls"] > n_examples(60, 250)
    assert not different, "\n".join(different)
