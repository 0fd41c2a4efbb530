"""What is covered in a text, and what is not."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import anthropic
import pytest

from contextkit.redact import credentials_of, redact, redact_path
from contextkit.server import LocalServer
from contextkit.watcher.client import watch
from tests.privacy.kinds import TEXTS, Kind, kinds, traces_of

KINDS = kinds()
PLACES = {
    "a line of a message": '{"messages":[{"role":"user","content":"look:\\n%s\\nhere"}]}',
    "a value": '{"model":"m","text":"%s"}',
    "JSON in JSON": '{"arguments":"{\\"note\\":\\"it is %s\\"}"}',
}


@pytest.mark.parametrize("way", TEXTS)
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_secret_is_covered_wherever_it_stands_and_however_it_is_written(kind: Kind, way: str) -> None:
    for place, template in PLACES.items():
        text = TEXTS[way](kind.written)
        body = (template % (text.replace("\\", "\\\\") if place == "JSON in JSON" else text)).encode()
        covered = redact(body)
        assert len(covered) == len(body) and isinstance(json.loads(covered), dict)
        assert not [trace for trace in traces_of(kind.value) if trace in covered], (place, covered)


NAMES = (
    "api_key",
    "apiKey",
    "X-API-Key",
    "authorization",
    "password",
    "secret",
    "client_secret",
    "access_token",
    "refresh-token",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_value_of_a_field_with_a_key_like_name_is_covered(name: str) -> None:
    value = "correct horse, battery"
    assert (
        redact(json.dumps({name: value, "next": 1}).encode())
        == json.dumps({name: "*" * len(value), "next": 1}).encode()
    )
    nested = json.dumps({"text": json.dumps({name: value, "next": 1})})
    assert json.loads(json.loads(redact(nested.encode()))["text"]) == {name: "*" * len(value), "next": 1}


HARMLESS = (
    '{"max_tokens":4096,"prompt_cache_key":"session-0123456789abcdef","cache_key":"a1b2c3d4e5f6a7b8c9d0","token_count":12345678}',
    '{"logprobs":{"content":[{"token":"Hello"},{"token":" world"}]},"stop_token":"</s>","next_page_token":"abc"}',
    '{"properties":{"password":{"type":"string"},"api_key":{"type":"string"}},"required":["password","api_key","model"]}',
    '{"signature":"EqQBCkYIAxgCKkB0aGlua2luZw==","id":"toolu_01A09q90qw90lq917835lq9","call":"call_abcdefghijklmnop1234567890"}',
    "the basic understanding of a bearer of news; https://example.com:8080/a@b, user@host.com, the sk-learn package, ask-me-anything-now",
    "commit d670460b4b4aece5915caf5c68d12f560a9fe3e4, sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '{"text":"secret = os.environ[\\"X\\"]; password=getpass(); token: str = None; api_key=self.api_key; KEY_BYTES = 4096"}',
    "API_KEY=${API_KEY} PASSWORD=<your password> api_key=$KEY",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text.encode()) == text.encode()


def test_structure_of_the_json_around_a_value_is_never_covered() -> None:
    body = b'{"a":"the password: \'tis","role":"user","b":"password: \\"x","c":"\'"}'
    assert redact(body) == body


def test_two_bodies_that_share_a_prefix_share_it_after_redaction() -> None:
    first = json.dumps([{"content": kind.written} for kind in KINDS])
    for cut in range(0, len(first), 97):
        longer = (first[:cut] + ' and then "something", else').encode()
        shared = max(0, cut - 120)  # a secret that the cut goes through is another text
        assert redact(longer)[:shared] == redact(first.encode())[:shared]


def test_the_credentials_of_a_connection_are_covered_in_every_form() -> None:
    headers = [
        (b"X-Api-Key", b"correct-horse/battery"),
        (b"Cookie", b'a=1; session="staple=staple"'),
        (b"Session_Id", b"0123456789ab"),
    ]
    known = credentials_of(headers, b"/v1?key=one%2Ftwo%2Fthree&page=123456789")
    assert set(known) == {"correct-horse/battery", "staple=staple", "one/two/three", "one%2Ftwo%2Fthree"}
    for value in known:
        for way in TEXTS.values():
            covered = redact(f'{{"text":"so {way(value)} it is"}}'.encode(), known)
            assert not [trace for trace in traces_of(value) if trace in covered], covered


@pytest.mark.parametrize("value", ['ab"cd\\efghijk12', "schl\u00fcssel-geheim-\u00e4", "plain-value-123"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_credential_is_found_as_json_writes_it(value: str, is_ascii: bool) -> None:
    body = json.dumps({"t": f"it is {value} ok"}, ensure_ascii=is_ascii).encode()
    covered = redact(body, [value])
    assert (
        len(covered) == len(body)
        and json.loads(covered)["t"].count("*") >= len(value)
        and value not in json.loads(covered)["t"]
    )


@pytest.mark.parametrize(
    "name", ["helicone-auth", "x-auth", "authentication", "x-litellm-key", "x-jwt", "x-goog-iap-jwt-assertion"]
)
def test_a_header_with_a_credential_of_any_name_is_one(name: str) -> None:
    value = "custom" + "value1234abcd"
    assert value in credentials_of([(name.encode(), f"Bearer {value}".encode())])
    assert credentials_of([(b"idempotency-key", value.encode()), (b"content-type", b"application/json")]) == ()


def test_keys_in_a_path_are_covered_and_models_stay() -> None:
    for kind in KINDS:
        for way, before in product(
            ("plain", "percent-encoded", "base64"), ("/", "/v1/", "/v1beta/models/", "/a-long-name/of_a/folder/")
        ):
            path = redact_path(f"{before}{TEXTS[way](kind.written)}/messages")
            assert path.endswith("/messages") and not [
                trace for trace in traces_of(kind.value) if trace in path.encode()
            ], path
    for path in (
        "/v1beta/models/gemini-2.5-pro:generateContent",
        "/model/us.anthropic.claude-haiku-4-5-20251001-v1:0/converse",
    ):
        assert redact_path(path) == path


def test_a_watched_client_records_neither_its_own_key_nor_others(tmp_path: Path) -> None:
    key = f"correct{'-horse'}-battery"  # no pattern knows it
    with LocalServer() as server:
        plain = anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0)
        client = watch(plain, record=tmp_path / "runs.jsonl", on_break=print)
        kind = KINDS[0]
        text = f"the environment says {key}, {TEXTS['base64'](key)} and {kind.written}"
        client.messages.create(model="claude-sonnet-5-5", max_tokens=9, messages=[{"role": "user", "content": text}])
        client.close()
    recorded = (tmp_path / "runs.jsonl").read_bytes()
    assert b"the environment says" in recorded
    assert not [trace for value in (key, kind.value) for trace in traces_of(value) if trace in recorded]
