"""What is covered in a text, and what is not."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import time
import zlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import anthropic
import pytest

from contextkit.facts.load import built_in_table
from contextkit.redact import credentials_of, redact, redact_path
from contextkit.server import LocalServer
from contextkit.watcher.client import watch
from tests.privacy.kinds import TEXTS, kinds, traces_of, written
from tests.scale import cases

KINDS = kinds()
ROWS = {row["name"]: row for row in built_in_table("redact.toml")["secrets"]}
PLACES = {
    "a line of a message": '{"messages":[{"role":"user","content":"look:\\n%s\\nhere"}]}',
    "a value": '{"model":"m","text":"%s"}',
    "JSON in JSON": '{"arguments":"{\\"note\\":\\"it is %s\\"}"}',
}


@pytest.mark.parametrize("way", TEXTS)
def test_a_secret_is_covered_wherever_it_stands_and_however_it_is_written(way: str) -> None:
    for kind, (place, template) in product(KINDS, PLACES.items()):
        text = TEXTS[way](kind.written)
        body = (template % (text.replace("\\", "\\\\") if place == "JSON in JSON" else text)).encode()
        covered = redact(body)
        assert len(covered) == len(body) and isinstance(json.loads(covered), dict)
        assert not [trace for trace in traces_of(kind.value) if trace in covered], (kind.name, place, covered)


def bodies(text: str) -> Iterator[bytes]:
    """A text in every place of a request."""
    once = json.dumps(text)[1:-1]
    for place, template in PLACES.items():
        yield (template % (json.dumps(once)[1:-1] if place == "JSON in JSON" else once)).encode()


@pytest.mark.parametrize("way", TEXTS)
def test_the_example_of_a_row_is_covered_and_its_counterexample_stays(way: str) -> None:
    for name, row in ((name, row) for name, row in ROWS.items() if "example" in row):
        example, values = written(row["example"])
        values = [value for value in values if len(value) >= 8]  # shorter parts are found in anything
        for body in bodies(TEXTS[way](example)):
            covered = redact(body)
            assert len(covered) == len(body) and isinstance(json.loads(covered), dict)
            assert covered != body and not [one for value in values for one in traces_of(value) if one in covered], name
        for body in bodies(TEXTS[way](row["counter"])):
            assert redact(body) == body, name


def test_a_row_of_the_table_is_whole() -> None:
    keys = {"name", "where", "pattern", "value", "behind", "sign", "example", "counter", "source"}
    places = {"name", "variable", "parameter", "header", "path", "text", "key"}
    for row in ROWS.values():
        assert row.keys() <= keys and row["where"] in places and row["source"]
        assert row.keys() >= {"example", "counter"} or row["where"] in ("header", "path")


def test_of_a_list_of_leaked_secrets_at_most_ten_pass() -> None:
    passed, n = [], 0
    lines = (Path(__file__).parent / "leaked.txt").read_text(encoding="utf-8").splitlines()
    for line in lines[2:]:
        kind, _, template = line.partition(" | ")
        text, values = written(template.replace("\\n", "\n"))
        n += 1
        covered = [redact(text.encode()), redact(json.dumps({"text": f"a line\n{text}\nanother"}).encode())]
        if [value for value in values if len(value) >= 4 and any(value.encode() in body for body in covered)]:
            passed.append(kind)
    assert n >= 150 and len(passed) <= 10, passed


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


def test_the_value_of_a_field_with_a_key_like_name_is_covered() -> None:
    value = "correct horse, battery"
    for name in NAMES:
        said, covered = {name: value, "next": 1}, {name: "*" * len(value), "next": 1}
        assert redact(json.dumps(said).encode()) == json.dumps(covered).encode()
        nested = json.dumps({"text": json.dumps(said)})
        assert json.loads(json.loads(redact(nested.encode()))["text"]) == covered


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


def test_what_only_looks_like_a_secret_stays() -> None:
    for text in HARMLESS:
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


@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_credential_is_found_as_json_writes_it(is_ascii: bool) -> None:
    for value in ('ab"cd\\efghijk12', "schl\u00fcssel-geheim-\u00e4", "plain-value-123"):
        body = json.dumps({"t": f"it is {value} ok"}, ensure_ascii=is_ascii).encode()
        covered = redact(body, [value])
        text = json.loads(covered)["t"]
        assert len(covered) == len(body) and text.count("*") >= len(value) and value not in text


def test_a_header_with_a_credential_of_any_name_is_one() -> None:
    value = "custom" + "value1234abcd"
    for name in ("helicone-auth", "x-auth", "authentication", "x-litellm-key", "x-jwt", "x-goog-iap-jwt-assertion"):
        assert value in credentials_of([(name.encode(), f"Bearer {value}".encode())]), name
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


# Each in a text: what came before, the secret, what came after
PLACES_OF_FIELDS = (
    ("Cookie: theme=dark; session=", "<A24>", "; lang=en"),
    ("curl -H 'Cookie: a=b; c=", "<A12>", "' https://example.com"),
    ('curl -b "a=b; c=', "<A12>", '" https://example.com'),
    ("curl -u admin:", "<P12>", " https://example.com"),
    ("curl -X POST \\\n  --user admin:", "<P12>", " https://example.com"),
    ("<password>", "<P12>", "</password>"),
    ('<ns:Password type="text">', "<P12>", "</ns:Password>"),
    ('<input name="password" value="', "<P12>", '"/>'),
    ('<add key="ApiKey" value="', "<A24>", '"/>'),
    ("| SecretAccessKey | ", "<B40>", " |"),
    ("<td>SecretAccessKey</td><td>", "<B40>", "</td>"),
    ("ENV API_KEY ", "<A24>", ""),
    ("ENV API_KEY=", "<A24>", ""),
    ("set -x API_KEY ", "<A24>", ""),
    ("setenv API_KEY ", "<A24>", ""),
    ('{"env": [{"name": "API_KEY", "value": "', "<A24>", '"}]}'),
    ("- name: DB_PASSWORD\n  value: ", "<P12>", "\n"),
    ('["run", "--password", "', "<P12>", '"]'),
    ("--token ", "<A24>", ""),
    ('{"api_key": {"type": "string", "default": "', "<A24>", '"}}'),
    ('{"api_key": {"const": "', "<A24>", '"}}'),
    ('{"api_key": {"anyOf": [{"type": "string"}], "enum": ["', "<A24>", '", "none"]}}'),
    ('{"api_key": {"examples": ["none", "', "<A24>", '"]}}'),
    ('{"password": "a \\"quoted\\" ', "<P12>", '"}'),
    ("api key: sk-\x1b[31mant-api03-", "<A20>", "\x1b[0m"),
)


def test_a_value_is_covered_wherever_a_name_announces_it() -> None:
    for before, template, after in PLACES_OF_FIELDS:
        secret, values = written(template)
        text = before + secret + after
        assert values[0].encode() not in redact(text.encode()), text
        for body in bodies(text):
            covered = redact(body)
            assert len(covered) == len(body) and json.loads(covered)
            assert values[0].encode() not in covered, text


@pytest.mark.parametrize("color", ["\x1b[1;31m", "\\u001b[1;31m", "\\x1b[1;31m", "\\033[1;31m", "\\e[0m"])
def test_a_color_code_inside_a_key_hides_nothing(color: str) -> None:
    (first, second), body = written("<A20> <A20>")[1], "log: sk-ant-%s%s%s, done"
    text = body % (first, color, second)
    for covered in (redact(text.encode()), redact(json.dumps({"text": text}).encode())):
        assert first.encode() not in covered and second.encode() not in covered and b"done" in covered


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(*chunks: bytes) -> bytes:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0))
    pixels = b"".join(b"\0" + bytes((13 * line * column) % 251 for column in range(64)) for line in range(64))
    return (
        b"\x89PNG\r\n\x1a\n"
        + header
        + b"".join(chunks)
        + _chunk(b"IDAT", zlib.compress(pixels, 0))
        + _chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("form", ["zTXt", "iTXt", "plain iTXt", "tEXt", "gzip"])
def test_metadata_of_images_and_compressed_text_are_read(form: str) -> None:
    text = written("the key is sk-ant-api03-<A40>, keep it")[0].encode()

    def file(text: bytes) -> bytes:
        packed = zlib.compress(text, 9)
        return {
            "zTXt": _png(_chunk(b"zTXt", b"Comment\0\0" + packed)),
            "iTXt": _png(_chunk(b"iTXt", b"Comment\0\1\0en\0\0" + packed)),
            "plain iTXt": _png(_chunk(b"iTXt", b"Comment\0\0\0en\0\0" + text)),
            "tEXt": _png(_chunk(b"tEXt", b"Comment\0" + text)),
            "gzip": gzip.compress(text, mtime=0),
        }[form]

    body = json.dumps({"data": base64.b64encode(file(text)).decode(), "next": 1}).encode()
    covered = redact(body)
    assert len(covered) == len(body) and json.loads(covered)["next"] == 1 and covered != body
    stars = json.loads(covered)["data"]
    whole = base64.b64decode(stars.replace("*", "A"))
    assert (
        text[12:] not in whole
        and zlib.compress(text, 9)[4:] not in whole
        and gzip.compress(text, mtime=0)[20:-8] not in whole
    )
    harmless = json.dumps({"data": base64.b64encode(file(b"a photo of a key" * 4)).decode()}).encode()
    assert redact(harmless) == harmless


HOSTILE = (
    *(
        "\\",
        '"',
        "'",
        "{",
        "[",
        "<",
        "%41",
        "&amp;",
        "a",
        "A1",
        "-",
        ".",
        "=",
        ":",
        "/",
        "key",
        "token ",
        "auth_",
        "\x1b[0m",
    ),
    *(
        '"password":"',
        '"password":{',
        '"password":["',
        '"password":{"default":',
        "<password ",
        "password='",
        "api_key=",
        "x=key&",
    ),
    *(
        '\\"',
        '"token":"\\',
        "--password ",
        "ENV ",
        "set -x ",
        "curl ",
        "curl -u ",
        "curl -b a=",
        "cookie: a=b; ",
        "://",
        "://a:",
    ),
    *(
        "eyJ-",
        "eyJhbGciOi.",
        "SG.",
        "sk-",
        "AKIA",
        "dp.st.",
        "-----BEGIN PRIVATE KEY-----",
        "Private-Lines: 1",
        "otpauth://",
    ),
    *(
        "QUFB",
        "c2stYW50LQ",
        "H4sI",
        "bearer ",
        "basic ",
        "mysql ",
        "mnemonic: abc ",
        " login -",
        "convertto-securestring",
        ":$6$",
    ),
)


def seconds(text: bytes) -> float:
    begun = time.process_time()
    redact(text)
    return time.process_time() - begun


def test_time_grows_linearly() -> None:
    """Four times the length takes at most ten times as long: a square would take sixteen."""
    examples = [written(row["example"])[0] for row in ROWS.values() if "example" in row]
    pieces = [*HOSTILE, *(text[: len(text) * part // 3] for text in examples for part in (1, 2))]
    for piece in cases(HOSTILE[::12], pieces):
        few, many = (piece.encode() * (n // len(piece)) for n in (10_000, 40_000))
        limit = 10 * max(seconds(few), 0.005)
        assert any(seconds(many) <= limit for _ in range(3)), piece  # a busy machine is slow now and then


@pytest.mark.parametrize("distance", [3_900, 4_060, 4_096, 4_099, 60_000])
def test_what_is_far_from_an_escape_stays_and_a_value_near_it_is_covered(distance: int) -> None:
    value = "".join(f"{number:04x}" for number in range(300))
    filler = "some words of prose. " * (distance // 21)
    body = json.dumps({"a": "PLACE" + filler, "password": value, "b": filler * 2}).replace("PLACE", "x\\/y").encode()
    covered = redact(body)
    assert covered == body.replace(value.encode(), b"*" * len(value))


def test_a_long_value_is_covered_to_its_end_and_an_escape_in_front_of_a_credential_stays() -> None:
    value = "".join(f"{number:05d}k" for number in range(3_500))
    body = json.dumps({"password": value[:8_190] + "\n" + value[8_190:]}).encode()
    assert set(json.loads(redact(body))["password"]) <= {"*"}
    assert json.loads(redact(b'{"text":"x\\nabcdefgh-key1"}', ["nabcdefgh-key1"]))["text"].startswith("x\n")
