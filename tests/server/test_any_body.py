"""No request body gives a 5xx or a closed connection: whatever stands in any field, the answer is 2xx or the provider's own
4xx, in JSON.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import httpx2
import pytest

from contextkit.server import LocalServer
from tests.mutations import damage, dumped, mutate
from tests.scale import n_examples
from tests.server.bodies import BODIES, ENDPOINTS, HEADERS, WHOLE, clients_bodies

RAW = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "null": "null",
    "a text": '"x"',
    "a number": "5",
    "NaN": '{"a":NaN}',
    "a lone surrogate": '{"model":"\\ud800"}',
    "a key twice": '{"model":"a","model":5}',
    "800 levels": '{"a":' * 800 + "{}" + "}" * 800,
    "5,000 levels": "[" * 5000 + "]" * 5000,
    "1e999": '{"max_tokens":1e999}',
    "not UTF-8": "\udcff",
}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside."""
    for key, item in (
        value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    ):
        yield value, key
        yield from places(item)


def shape_of(path: str, answer: httpx2.Response) -> None:
    """Fails unless the answer is 2xx, or a 4xx as the provider words it."""
    if answer.status_code < 300:
        return
    assert 400 <= answer.status_code < 500, (path, answer.status_code, answer.text[:300])
    error = answer.json()
    if path.startswith("/_contextkit"):
        assert isinstance(error["error"], str)
    elif "/converse" in path:
        assert error["__type"] and error["message"]
    elif "messages" in path or "invoke" in path or "Predict" in path:
        assert error["type"] == "error" and error["error"]["type"] and error["error"]["message"]
    else:
        assert error["error"]["message"]


def send(http: httpx2.Client, path: str, bodies: Iterable[bytes]) -> None:
    for body in bodies:
        shape_of(path, http.post(path, content=body, headers=HEADERS))


FEW = 20


@pytest.fixture
def most() -> int:
    return n_examples(FEW, 5_000)


def test_a_whole_body_is_answered(http: httpx2.Client) -> None:
    statuses = {path: http.post(path, json=body, headers=HEADERS).status_code for path, body in WHOLE.items()}
    assert statuses == dict.fromkeys(WHOLE, 200)


def test_any_bytes(http: httpx2.Client) -> None:
    for path in {path for path, _ in BODIES.values()}:
        send(http, path, [text.encode("utf-8", "surrogateescape") for text in RAW.values()])


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llamacpp"])
def test_a_damaged_body_sent_to_an_engine(engine: str, most: int) -> None:
    with LocalServer(now=1000.0, cache=engine) as server, httpx2.Client(base_url=server.url, timeout=30.0) as http:
        for name in ("/v1/chat/completions", "/v1/responses", "functions", "search"):
            path, body = BODIES[name]
            more = {
                "cache_salt": "a",
                "response_format": {"type": "structural_tag", "format": {"type": "triggered_tags", "tags": [{}]}},
            }
            draws = (Random(f"{engine} {name} {number}") for number in range(most // 2))
            send(http, path, (damaged(draw, copy.deepcopy({**body, **more})) for draw in draws))


def test_a_system_message_without_content_is_read(http: httpx2.Client) -> None:
    effort = {"role": "system", "output_config": {"effort": "low"}}
    body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}, effort]}
    beta = {**HEADERS, "anthropic-beta": "mid-conversation-output-config-2026-07-01"}
    assert http.post("/v1/messages", json=body, headers=beta).status_code == 200
    body["messages"][-1] = {"role": "system"}
    assert http.post("/v1/messages", json=body, headers=beta).status_code == 400


@pytest.mark.parametrize("path", WHOLE)
def test_required_fields_of_every_block(http: httpx2.Client, path: str) -> None:
    bodies = []
    for index in range(len(list(places(WHOLE[path])))):
        body = copy.deepcopy(WHOLE[path])
        container, key = list(places(body))[index]
        if isinstance(container, dict) and key in (
            "type",
            "role",
            "model",
            "messages",
            "input",
            "text",
            "id",
            "call_id",
            "tool_call_id",
        ):
            bodies += [(body, container, key)] if container.get(key) not in ("object", "url") else []
    for body, container, key in bodies:
        was, container[key] = container[key], 7
        response = http.post(path, content=json.dumps(body), headers=HEADERS)
        assert response.status_code in (400, 404), (key, was if len(str(was)) < 40 else "")


# Several values wrong at once, also in what clients send and in what refers to stored objects
# ---------------------------------------------------------------------------------------------------------------------

RESET_EACH = 200
"""Bodies after which the server forgets what it stored."""


@pytest.mark.parametrize("name", ENDPOINTS)
def test_no_damaged_body_gets_a_5xx(name: str, server: LocalServer, http: httpx2.Client, most: int) -> None:
    path, body = ENDPOINTS[name]
    wholes = [body, *clients_bodies(path)]
    headers = {**HEADERS, "content-type": "application/json", "anthropic-beta": "context-management-2025-06-27"}
    for number in range(most if most == FEW else most // sum(path == other for other, _ in ENDPOINTS.values())):
        if number % RESET_EACH == 0:
            server.reset()
            names = stored(http)
        draw = Random(f"{name} {number}")
        raw = damaged(draw, json.loads(named(json.dumps(draw.choice(wholes)), names)))
        method = "PATCH" if "{content}" in path else "POST"
        shape_of(path, http.request(method, named(path, names), content=raw, headers=headers))


def stored(http: httpx2.Client) -> dict[str, str]:
    """What paths and bodies name → its id, stored now."""
    made: dict[str, tuple[str, Any, str]] = {
        "{conversation}": ("/v1/conversations", {}, "id"),
        "{response}": ("/v1/responses", {"model": "gpt-6.1-sol", "input": "hi"}, "id"),
        "{content}": (*BODIES["content"], "name"),
    }
    return {
        name: http.post(path, json=body, headers=HEADERS).json()[field] for name, (path, body, field) in made.items()
    }


def named(text: str, names: dict[str, str]) -> str:
    for name, identifier in names.items():
        text = text.replace(name, identifier)
    return text


def damaged(draw: Random, body: Any) -> bytes:
    """A body with one to three values wrong, or bytes of it."""
    held = [body]
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        mutate(draw, held if draw.random() < 0.02 else body)
    raw = dumped(held[0] if held else None)
    return damage(draw, raw) if draw.random() < 0.15 else raw
