"""Counts against two tokenizers and real pictures' headers; what is not text never counts by its size."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from contextkit.errors import NotSerialisable
from contextkit.models import model_named
from contextkit.prompt.tokens import TokenCounter, chunks, counter_for

SESSION = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "pi" / "before-compaction.jsonl"
RANKS_FILE = hashlib.sha1(b"https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken").hexdigest()
"""The name tiktoken gives the ranks in its cache folder."""
SAMPLES = [
    "",
    " ",
    "hello world",
    "def f(x):\n    return x  # naïve\n",
    "日本語のテキスト。" * 40,
    "🙂🙃" * 300,
    "a" * 40_000,
    "x  y   z\t\n\n  " * 2_000,
    "the quick brown fox " * 5_000,
    "<|endoftext|> is text here",
    "\ud800 alone",
    "0123456789" * 4_000,
    "don't we'll THEY'RE\r\n" * 900,
]
by_size = TokenCounter("bytes", 4.0)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TokenCounter:
    """A counter on bpe-openai's ranks: tiktoken finds none."""
    if find_spec("bpe_openai") is None:
        pytest.skip("needs the extra offline-tokens (bpe-openai)")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return TokenCounter("o200k_base", 4.0)


@pytest.fixture(scope="module")
def cached_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as tiktoken leaves it after a download, made of the ranks bpe-openai carries."""
    spec = find_spec("bpe_openai")
    if spec is None or spec.origin is None:
        pytest.skip("needs the extra offline-tokens (bpe-openai)")
    folder = tmp_path_factory.mktemp("ranks")
    ranks = (Path(spec.origin).parent / "data" / "o200k_base.tiktoken.gz").read_bytes()
    (folder / RANKS_FILE).write_bytes(gzip.decompress(ranks))
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("counting must not use the network")

    monkeypatch.delenv("CONTEXTKIT_TIKTOKEN_DOWNLOAD", raising=False)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


# Text


def test_both_tokenizers_count_the_same(
    exact: TokenCounter, cached_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(cached_ranks))
    other = TokenCounter("o200k_base", 4.0)
    assert not exact.is_estimate
    assert not other.is_estimate
    assert type(other._encode.__self__).__module__.startswith("tiktoken")  # type: ignore[union-attr]
    assert [exact.count(text(sample)) for sample in SAMPLES] == [other.count(text(sample)) for sample in SAMPLES]


def test_a_text_cut_in_pieces_counts_as_tiktoken_counts_the_whole(
    exact: TokenCounter, cached_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiktoken

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(cached_ranks))
    whole = tiktoken.get_encoding("o200k_base")
    prose = Path(__file__).read_text(encoding="utf-8") * 8
    assert len(list(chunks(prose))) > 3
    assert exact.count(prose) == len(whole.encode_ordinary(prose))


def test_pieces_make_up_the_text() -> None:
    for sample in SAMPLES:
        assert "".join(chunks(sample)) == sample.replace("\ud800", "\ufffd")


def test_long_and_repetitive_text_is_counted(exact: TokenCounter) -> None:
    assert exact.count("a" * 3_000_000) > 100_000
    assert exact.count("word " * 600_000) == pytest.approx(600_000, rel=0.01)


def test_size_alone_is_an_estimate_and_says_so() -> None:
    assert by_size.is_estimate
    assert by_size.count(text("é" * 10)) == 5
    assert by_size.count([text("abc"), text("de")]) == 2  # rounded up once, over the whole


def test_without_ranks_it_is_an_estimate_and_nothing_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    counter = TokenCounter("o200k_base", 4.0)
    assert counter.is_estimate
    assert counter.count(text("sixteen letters!")) == 4
    assert list(tmp_path.iterdir()) == []


def test_ranks_that_were_torn_are_not_at_hand(
    cached_ranks: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / RANKS_FILE).write_bytes((cached_ranks / RANKS_FILE).read_bytes()[:-100])
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert TokenCounter("o200k_base", 4.0).is_estimate
    assert (tmp_path / RANKS_FILE).is_file()


def test_models_that_count_alike_share_a_counter() -> None:
    assert counter_for(model_named("gpt-5")) is counter_for(model_named("gpt-6-sol"))
    assert counter_for(model_named("claude-opus-4-5")).is_estimate
    newer, older = counter_for(model_named("claude-opus-5")), counter_for(model_named("claude-opus-4-5"))
    assert newer.count(text("x" * 9_000)) == pytest.approx(1.3 * older.count(text("x" * 9_000)), rel=0.01)


# What counts


def test_markers_ids_and_proofs_count_nothing() -> None:
    for extra in (
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}},
        {"id": "toolu_01A", "tool_use_id": "toolu_01B", "call_id": "call_1", "tool_call_id": "call_2"},
        {"signature": "S" * 4_000},
        {"encrypted_content": "E" * 4_000},
        {"citations": [{"type": "char_location", "cited_text": "c" * 400}]},
        {"status": "completed"},
    ):
        assert by_size.count(text("some words") | extra) == by_size.count(text("some words")), extra
    assert by_size.count({"type": "redacted_thinking", "data": "R" * 4_000}) == 0


def test_arguments_and_schemas_count_with_their_keys() -> None:
    frame = by_size.count({"type": "tool_use", "id": "t", "name": "", "input": {}})
    call = {"type": "tool_use", "id": "t", "name": "find", "input": {"type": "1234", "id": "5678", "long": ["abcd"]}}
    assert by_size.count(call) - frame == pytest.approx((4 + 8 + 6 + 8) / 4, abs=1)
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    assert by_size.count({"name": "", "input_schema": schema}) == -(-len("typeobjectpropertiescitytypestring") // 4)
    assert by_size.count({"type": "function", "name": "", "parameters": schema}) == by_size.count(
        {"name": "", "input_schema": schema}
    )


def test_the_items_of_a_request_are_no_arguments() -> None:
    items = [{"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}]
    assert by_size.count({"input": items}) == by_size.count(items)


def test_numbers_and_truths_count_one_each() -> None:
    assert by_size.count([1, 2.5, True, False, None]) == 4


def test_what_is_not_json_is_an_error() -> None:
    with pytest.raises(NotSerialisable, match="set has no JSON form"):
        by_size.count({"content": {1, 2}})


# What is not text


def png(width: int, height: int) -> bytes:
    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + b"\0" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    metadata = b"\xff\xe1" + struct.pack(">H", 60_002) + b"m" * 60_000
    table = b"\xff\xc4" + struct.pack(">H", 4) + b"tt"
    return b"\xff\xd8" + metadata + table + b"\xff\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9


def webp(name: bytes, body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + name + struct.pack("<I", len(body)) + body


PICTURES = {
    "png": png(300, 200),
    "jpeg": jpeg(300, 200),
    "gif": b"GIF89a" + struct.pack("<HH", 300, 200) + b"\0" * 3,
    "webp lossy": webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 300 | 0x4000, 200 | 0x8000)),
    "webp lossless": webp(b"VP8L", b"\x2f" + struct.pack("<I", 299 | 199 << 14)),
    "webp extended": webp(b"VP8X", b"\0\0\0\0" + (299).to_bytes(3, "little") + (199).to_bytes(3, "little")),
}


def image(data: bytes | str) -> dict[str, Any]:
    letters = data if isinstance(data, str) else base64.b64encode(data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": letters}}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
def test_a_picture_counts_by_its_pixels(picture: bytes) -> None:
    assert by_size.count(image(picture)) == 80  # 300 x 200 / 750
    assert by_size.count({"type": "tool_result", "content": [image(picture)]}) == 80 + by_size.count(
        {"type": "tool_result", "content": []}
    )


def test_a_large_or_unreadable_picture_counts_the_most() -> None:
    for source in (
        image(png(4_000, 3_000)),
        image(b"no picture at all"),
        image(PICTURES["png"][:12]),
        image(b"\xff\xd8" + b"\0" * 40),
        image("not base64, ä"),
        {"type": "image", "source": {"type": "url", "url": "https://example.com/" + "long" * 2_000}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    ):
        assert by_size.count(source) == 1600


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000, "detail": "high"}},
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 90_000, "detail": "auto"},
        {"type": "input_image", "file_id": "file_1"},
    ],
)
def test_an_openai_picture_counts_the_same_whatever_it_weighs(part: dict[str, Any]) -> None:
    assert by_size.count(part) == 765


def test_a_pdf_counts_by_its_pages() -> None:
    pages = b"%PDF-1.7 << /Type /Pages /Count 2 >> << /Type /Page >> << /Type/Page /Parent 1 0 R >>" + b"\0" * 100_000
    data = base64.b64encode(pages).decode()
    assert (
        by_size.count({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}})
        == 4_000
    )
    assert by_size.count({"type": "input_file", "file_data": f"data:application/pdf;base64,{data}"}) == 4_000
    assert by_size.count({"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}"}}) == 4_000
    assert by_size.count({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}) == 2_000
    assert by_size.count({"type": "file", "file": {"file_id": "file_1"}}) == 2_000


def test_a_text_document_counts_as_text() -> None:
    document = {
        "type": "document",
        "title": "four",
        "source": {"type": "text", "media_type": "text/plain", "data": "x" * 400},
    }
    assert by_size.count(document) == 101


def test_sound_counts_by_its_length() -> None:
    second = base64.b64encode(b"\0" * 16_000).decode()
    assert by_size.count(
        {"type": "input_audio", "input_audio": {"data": second * 6, "format": "mp3"}}
    ) == pytest.approx(60, abs=1)


def test_a_block_of_the_wrong_shape_is_counted_all_the_same() -> None:
    keys = ("source", "file", "file_data", "input_audio", "image_url", "data", "media_type")
    kinds = ("image", "document", "base64", "file", "input_file", "input_audio", "image_url", "redacted_thinking")
    for kind in kinds:
        for content in (None, "x", 1, ["x"], {}):
            assert by_size.count({"type": kind} | dict.fromkeys(keys, content)) >= 0


# Over time and machines


def test_the_same_count_in_every_process(tmp_path: Path) -> None:
    """Under other hash seeds, and for a text counted before or not."""
    program = (
        "from contextkit.prompt.tokens import TokenCounter as C;"
        "block = {'type': 'tool_use', 'name': 'n', 'input': {'b': 'word ' * 9000, 'a': [1]}};"
        "c = [C('o200k_base', 4.0), C('bytes', 3.28)]; print([k.count(block) for k in c] + [k.count(block) for k in c])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1", "TIKTOKEN_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout)
    block = {"type": "tool_use", "name": "n", "input": {"b": "word " * 9000, "a": [1]}}
    here = [TokenCounter("o200k_base", 4.0).count(block), TokenCounter("bytes", 3.28).count(block)]
    assert found[:2] == found[2:] == here


def test_a_counter_forgets_before_it_grows_without_end(exact: TokenCounter) -> None:
    for n in range(70_000):
        exact.count(f"{n}")
    assert len(exact._remembered) <= 65_536


def session() -> Iterator[dict[str, Any]]:
    if not SESSION.is_file():
        pytest.skip(f"needs the session {SESSION.name} in shared/data/pi beside the repository")
    with SESSION.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def as_claude(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "toolCall":
        return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["arguments"]}
    return {key: value for key, value in block.items() if key != "thinkingSignature"}


def test_the_estimate_grows_as_the_bill_of_a_real_session_does() -> None:
    """Prompt growth between consecutive calls: within 2 % over all, half of the calls within 10 %."""
    counter = counter_for(model_named("claude-opus-4-5"))
    pairs: list[tuple[int, int]] = []
    billed, predicted, is_clean = 0, 0, False
    for record in session():
        message = record.get("message")
        if message is None or message["role"] == "bashExecution":
            is_clean = False  # a compaction, another model, output the log holds in another form
            continue
        blocks = [as_claude(block) for block in message["content"]]
        if message["role"] != "assistant":
            predicted += counter.count(
                [{"type": "tool_result", "content": blocks}] if message["role"] == "toolResult" else blocks
            )
            continue
        usage = message["usage"]
        size = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
        if message["stopReason"] in ("aborted", "error") or not size:
            is_clean = False
            continue
        if is_clean and size > billed:
            pairs.append((predicted, size - billed))
        billed, predicted, is_clean = size, counter.count(blocks), True
    assert len(pairs) > 400
    assert sum(ours for ours, _ in pairs) == pytest.approx(sum(theirs for _, theirs in pairs), rel=0.02)
    errors = sorted(abs(ours - theirs) / theirs for ours, theirs in pairs)
    assert errors[len(errors) // 2] < 0.10


@pytest.mark.timed
def test_the_estimate_is_fast() -> None:
    """At least 5 MB a second; the margin to what it does is a hundredfold."""
    messages = [{"role": "user", "content": [text("lorem ipsum dolor sit amet " * 40)]} for _ in range(5_000)]
    start = time.perf_counter()
    by_size.count(messages)
    assert time.perf_counter() - start < 1.0
