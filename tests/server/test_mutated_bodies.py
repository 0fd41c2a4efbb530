"""Thousands of damaged request bodies for every endpoint, with fixed seeds.

The answer is 2xx, or the provider's own 4xx in JSON: never a 5xx, a closed connection or a wait without end.
"""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from contextkit.server import LocalServer
from tests.mutations import damage, dumped, mutate
from tests.server.test_any_body import BODIES, PATHS
from tests.server.test_corruption import HEADERS

N_BODIES = 5_000
"""Damaged bodies for each path in the long version."""
N_BODIES_REDUCED = 20
MOST_SECONDS = 20.0
"""A reply that takes longer is a wait without end."""
MOST_ITEMS = 6
"""Of a list in a body that a client sent: the damage is the same in a long one, and takes longer."""
RESET_EACH = 200
"""Bodies after which the server forgets what it stored."""
_CLAUDE, _GEMINI = "anthropic.claude-sonnet-5-5", "/v1beta/models/gemini-2.5-pro"
_SAME_BODY = {
    "converse-stream": (f"/model/{_CLAUDE}/converse-stream", f"/model/{_CLAUDE}/converse"),
    "invoke-with-response-stream": (f"/model/{_CLAUDE}/invoke-with-response-stream", "invoke"),
    "streamGenerateContent": (f"{_GEMINI}:streamGenerateContent", f"{_GEMINI}:generateContent"),
    "Foundry count": ("/anthropic/v1/messages/count_tokens", "count_tokens"),
}
"""Endpoints that take a body of another one: name → (path, whose body)."""
_MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "a conversation's metadata": ("/v1/conversations/{conversation}", {"metadata": {"a": "b"}}),
    "a conversation's items": (
        "/v1/conversations/{conversation}/items",
        {
            "items": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "3"},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "e"},
            ]
        },
    ),
    "a response in a conversation": (
        "/v1/responses",
        {
            "model": "gpt-6.1-sol",
            "conversation": "{conversation}",
            "input": [{"type": "function_call_output", "call_id": "c", "output": "3"}],
        },
    ),
    "a response behind a response": (
        "/v1/responses",
        {"model": "gpt-6.1-sol", "previous_response_id": "{response}", "input": [{"role": "user", "content": "more"}]},
    ),
    "compact with everything": (
        "/v1/responses/compact",
        {
            "model": "gpt-6.1-sol",
            "instructions": "brief",
            "reasoning": {"effort": "low"},
            "text": {"verbosity": "low"},
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
            "prompt_cache_key": "k",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "3"},
            ],
        },
    ),
    "a cached content": ("/v1beta/{content}", {"ttl": "300s"}),
}
_NO_POST = ("clock", "script")
"""What steers the server is no endpoint of a provider."""
ENDPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: one for name, one in BODIES.items() if name not in _NO_POST},
    **{name: (path, BODIES[whose][1]) for name, (path, whose) in _SAME_BODY.items()},
    **_MORE,
}
_HEADERS = {**HEADERS, "content-type": "application/json", "anthropic-beta": "context-management-2025-06-27"}


class Connection:
    """One client of the server, which says when the connection was closed on it."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.address = urlsplit(server.url).netloc
        self.connection = http.client.HTTPConnection(self.address, timeout=MOST_SECONDS)
        self.names: dict[str, str] = {}

    def post(self, path: str, body: bytes, method: str = "POST") -> tuple[int, bytes]:
        self.connection.request(method, path, body, _HEADERS)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def begin(self) -> None:
        """Forget what was stored, and store what the paths and bodies name."""
        self.server.reset()
        made = {
            "conversation": ("/v1/conversations", {}, "id"),
            "response": ("/v1/responses", {"model": "gpt-6.1-sol", "input": "hi"}, "id"),
            "content": BODIES["content"] + ("name",),
        }
        for kind, (path, body, field) in made.items():
            self.names[f"{{{kind}}}"] = json.loads(self.post(path, json.dumps(body).encode())[1])[field]

    def named(self, text: str) -> str:
        for name, stored in self.names.items():
            text = text.replace(name, stored)
        return text


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with LocalServer(now=1000.0) as server:
        made = Connection(server)
        yield made
        made.connection.close()


@pytest.fixture
def n_bodies(request: pytest.FixtureRequest) -> int:
    return N_BODIES if request.config.getoption("--full") else N_BODIES_REDUCED


@pytest.mark.parametrize("name", ENDPOINTS)
def test_no_damaged_body_gets_a_5xx(name: str, connection: Connection, n_bodies: int) -> None:
    path, body = ENDPOINTS[name]
    wholes = [body, *_clients_bodies(path)]
    n_bodies = n_bodies // sum(path == other for other, _ in ENDPOINTS.values())
    statuses: dict[int, int] = {}
    failures = []
    for number in range(n_bodies):
        if number % RESET_EACH == 0:
            connection.begin()
        draw = Random(f"{name} {number}")
        raw = damaged(draw, json.loads(connection.named(json.dumps(draw.choice(wholes)))))
        method = "PATCH" if "{content}" in path else "POST"
        status, said = connection.post(connection.named(path), raw, method)
        statuses[status] = statuses.get(status, 0) + 1
        if not is_understood(status, said):
            failures.append(f"{name} {number}: {status} {said[:200]!r} to {raw[:300]!r}")
    print(f"{name}: {n_bodies:,} damaged bodies, {dict(sorted(statuses.items()))}")
    assert not failures, "\n".join(failures[:10])


def is_understood(status: int, said: bytes) -> bool:
    """Whether the answer is a success, or a refusal with words."""
    if status < 300:
        return True
    if not 400 <= status < 500:
        return False
    error = json.loads(said)
    message = error.get("message") or error["error"]["message"]
    return isinstance(message, str) and bool(message)


def damaged(draw: Random, body: Any) -> bytes:
    """A body with one to three values wrong, or bytes of it."""
    held = [body]
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        mutate(draw, held if draw.random() < 0.02 else body)
    raw = dumped(held[0] if held else None)
    return damage(draw, raw) if draw.random() < 0.15 else raw


def _clients_bodies(path: str) -> list[Any]:
    """The last body that each client of real life sent to the endpoint, shortened; none where they are not at hand."""
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "client-requests"
    found = []
    for file in sorted(folder.glob("*.jsonl.gz")):
        body = json.loads(gzip.decompress(file.read_bytes()).splitlines()[-1])["request"]
        if path == next(path for field, path in PATHS.items() if field in body):
            found.append(
                {name: value[-MOST_ITEMS:] if isinstance(value, list) else value for name, value in body.items()}
            )
    return found
