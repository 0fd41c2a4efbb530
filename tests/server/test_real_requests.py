"""What real clients sent, and what real APIs accepted, is accepted here; and each miss has an explanation."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from contextkit.ledger.ledger import Ledger
from contextkit.ledger.summary import summarise
from contextkit.providers.masking import INLINE_TOOLS, TOOL_CHANGES
from contextkit.providers.notices import BLOCKS, FIELDS
from contextkit.server import LocalServer
from tests.server.bodies import PATHS

START = 1_790_000_000.0
BETAS = sorted(
    {
        name
        for names in (*(row.headers for row in FIELDS), *BLOCKS.values(), (INLINE_TOOLS, TOOL_CHANGES))
        for name in names
    }
)
HEADERS = {"authorization": "Bearer any", "anthropic-version": "2023-06-01", "anthropic-beta": ",".join(BETAS)}
"""Recordings hold no headers: every beta is opted in to."""
HOSTS = {
    "api.anthropic.com",
    "api.openai.com",
    "generativelanguage.googleapis.com",
    "bedrock-runtime.us-east-1.amazonaws.com",
}
"""Hosts whose endpoints the local provider has."""
EXPLAINED = {
    "first_write",
    "model_changed",
    "params_changed",
    "tools_changed",
    "system_changed",
    "compaction",
    "below_minimum",
    "ttl_expired",
    "breakpoint_place",
}
CLIENTS = ("claude-code-2.1.197", "codex-0.169.0", "gemini-cli-0.61.0", "opencode-1.18.33", "pi-0.74.2", "qwen-code")


def requests_of(shared: Path, client: str) -> Iterator[tuple[float, dict[str, Any]]]:
    for line in gzip.decompress((shared / "data" / "client-requests" / f"{client}.jsonl.gz").read_bytes()).splitlines():
        row = json.loads(line)
        yield row["at"], row["request"]


def path_of(body: dict[str, Any]) -> str:
    return next(path for field, path in PATHS.items() if field in body)


def replayed(shared: Path, client: str, **named: Any) -> tuple[Ledger, LocalServer]:
    """The ledger of a client's requests, sent at their times; all of them are accepted."""
    with LocalServer(now=START, **named) as server, httpx2.Client(base_url=server.url) as http:
        for at, body in requests_of(shared, client):
            server.clock.set(START + at)
            answer = http.post(path_of(body), json=body, headers=HEADERS)
            assert answer.status_code == 200, answer.text[:500]
    return server.ledger, server


@pytest.mark.parametrize("client", CLIENTS)
def test_every_request_of_a_client_is_accepted_and_every_miss_is_explained(shared: Path, client: str) -> None:
    ledger, server = replayed(shared, client)
    summary = summarise(ledger)
    print(f"\n{client}: {len(ledger)} requests, hit rate {summary.hit_rate:.1%}")
    for miss in summary.misses:
        print(f"  +{miss.at - START:.1f} s {miss.cause}, {miss.lost_tokens:,} tokens: {miss.where}")
    for finding in server.findings:
        print(f"  {finding.text}")
    assert {miss.cause for miss in summary.misses} <= EXPLAINED
    assert not any(call.error for call in ledger)


def test_what_real_apis_accepted_is_accepted(shared: Path) -> None:
    accepted, refused = Counter[str](), Counter[str]()
    lines = gzip.decompress((shared / "data" / "agent-logs" / "recorded-pairs.jsonl.gz").read_bytes()).splitlines()
    with LocalServer(now=START) as server, httpx2.Client(base_url=server.url) as http:
        for cassette in map(json.loads, lines):
            server.reset()
            for call in cassette["calls"]:
                at = urlsplit(call["url"])
                failed = isinstance(call["response"], dict) and call["response"].get("error")
                if at.netloc not in HOSTS or "/threads/" in at.path or failed:
                    continue
                answer = http.post(at.path, json=call["request"], headers=HEADERS)
                known = answer.status_code == 200 or _names_what_was_made_before(call["request"], answer)
                assert known, (cassette["cassette"], call["url"], answer.text[:500])
                (accepted if answer.status_code == 200 else refused)[at.netloc] += 1
    print(
        f"\naccepted here, of what the real API accepted: {dict(accepted)}; names what was made before the recording: {dict(refused)}"
    )
    assert accepted.total() >= 500 and refused.total() <= 10


def _names_what_was_made_before(body: dict[str, Any], answer: httpx2.Response) -> bool:
    """Whether a response, conversation or content is named that no recorded request made."""
    named = any(body.get(name) for name in ("previous_response_id", "conversation", "cachedContent"))
    return named and "not found" in answer.text


def test_the_billing_header_of_claude_code_is_neutral_unless_it_is_significant(shared: Path) -> None:
    neutral, _ = replayed(shared, "claude-code-2.1.197")
    significant, _ = replayed(shared, "claude-code-2.1.197", billing_header="significant")
    read = {
        name: sum(call.usage.read or 0 for call in ledger if call.usage)
        for name, ledger in (("n", neutral), ("s", significant))
    }
    prompts = {
        name: sum(call.usage.prompt or 0 for call in ledger if call.usage)
        for name, ledger in (("n", neutral), ("s", significant))
    }
    assert read["n"] > read["s"] and prompts["n"] < prompts["s"]
