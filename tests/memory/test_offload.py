"""What is large goes to a file and comes back byte for byte; what is shown in its place tells what it is."""

from __future__ import annotations

import base64
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.errors import FileMissing, InvalidCall, NotText, SourceChanged, UsageError
from contextkit.memory import FileMemory, Memory, Offload, Reference
from contextkit.memory.offload import bytes_of, offload, restore
from contextkit.memory.preview import kind_of, preview
from contextkit.memory.reference import References, passage
from tests.scale import n_examples

_numbers = count()
RULE = Offload(above_tokens=20, preview_tokens=10)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
DATA = st.binary(max_size=300).map(lambda value: base64.b64encode(value).decode())
PARTS = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.builds(lambda data: {"type": "image", "media_type": "image/png", "data": data}, DATA | st.text(max_size=200)),
    st.builds(lambda data: {"type": "document", "media_type": "application/pdf", "data": data, "title": "a.pdf"}, DATA),
    st.just({"type": "document", "url": "https://example.com/" + "x" * 200}),
    st.just({"type": "native", "wire": "elsewhere", "block": {"type": "note", "text": "x" * 300}}),
)


def store() -> FileMemory:
    return FileMemory(f"memory://offload-{next(_numbers)}")


@settings(max_examples=n_examples(20, 500), deadline=None)
@given(st.lists(PARTS, max_size=4), st.booleans(), st.booleans())
def test_every_part_comes_back_as_it_was(parts: list[Any], is_error: bool, has_images: bool) -> None:
    files = store()
    found = offload(parts, files, Offload(20, 10, has_images=has_images), is_error=is_error)
    again = [Reference.of(reference.body) for reference in found.references]
    assert restore(found.content, again, files) == parts
    for part, shown in zip(parts, found.content, strict=True):
        assert shown == part or shown["text"].startswith("[Kept outside: reference ")


def test_a_small_result_is_left_alone_and_an_image_stays_in_sight() -> None:
    parts = [{"type": "text", "text": "x" * 80}, {"type": "image", "media_type": "image/png", "data": "A" * 4_000}]
    assert offload(parts, store(), RULE).content == parts


def test_a_page_whose_address_is_kept_can_be_fetched_again_and_is_checked() -> None:
    rule, url, page = Offload(20, 10, keeps_sources=False), "https://example.com/a", "line\n" * 200
    files = store()
    reference = offload([{"type": "text", "text": page}], files, rule, source=url).references[0]
    with pytest.raises(FileMissing):
        bytes_of(reference, files)
    assert bytes_of(reference, files, lambda source: page.encode() if source == url else b"") == page.encode()
    with pytest.raises(SourceChanged, match="no longer says"):
        bytes_of(reference, files, lambda source: b"something else")


def test_the_model_reads_on_where_it_stopped() -> None:
    memory = Memory(store(), offload=Offload(above_tokens=500, preview_tokens=20))
    text = "\n".join(f"row {number}" for number in range(1, 3_001))
    reference = offload([{"type": "text", "text": text}], memory.files, RULE).references[0]
    memory.references.add(reference)
    read = next(tool for tool in memory.tools() if tool.name == "read_reference").run
    first = str(read({"id": reference.id, "n_lines": 3}))
    assert first == "row 1\nrow 2\nrow 3\n[lines 1 to 3 of 3000; go on with start_line=4]"
    seen, line = [], 1
    while line:
        *rows, end = str(read({"id": reference.id, "start_line": line, "n_lines": 5_000})).splitlines()
        assert sum(map(len, rows)) <= 8_000
        seen += rows
        line = int(end.rpartition("=")[2].rstrip("]")) if "go on" in end else 0
    assert "\n".join(seen) == text


@pytest.mark.parametrize("arguments", [{"start_line": 0}, {"start_line": 1_001}, {"n_lines": 0}])
def test_a_range_that_is_none_is_refused_in_words(arguments: dict[str, int]) -> None:
    with pytest.raises(InvalidCall):
        passage("a\n" * 1_000, **{"start_line": 1, "n_lines": 1, "most_bytes": 50, **arguments})


def test_a_reference_nobody_knows_names_those_there_are() -> None:
    known = References([Reference("ab" * 32, 1, "text")])
    assert known.named("AB" * 8).digest == "ab" * 32
    for name in "", "ab", "ab" * 7 + "cd", "zz":
        with pytest.raises(FileMissing, match="abababababababab"):
            known.named(name)


def test_what_is_no_text_cannot_be_read_by_lines() -> None:
    memory = Memory(store())
    data = base64.b64encode(b"%PDF-1.7 \xff\xfe" * 5_000).decode()
    kept = offload([{"type": "document", "media_type": "application/pdf", "data": data}], memory.files, Offload())
    memory.references.add(kept.references[0])
    with pytest.raises(NotText):
        next(tool for tool in memory.tools() if tool.name == "read_reference").run({"id": kept.references[0].id})


def test_a_preview_larger_than_half_of_what_it_stands_for_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="preview"):
        Offload(above_tokens=100, preview_tokens=60)


ERROR = (
    "Traceback (most recent call last)\n"
    + "".join(f'  File "a.py", line {i}\n' for i in range(5_000))
    + "ValueError: boom"
)
CSV = "name,price\n" + "".join(f"a{i},{i}\n" for i in range(5_000))
JSON = '{"status":"ok","rows":[' + ",".join('{"id":%d}' % i for i in range(5_000)) + '],"total":5000}'  # noqa: UP031
HTML = (
    "<!doctype html><html><head><title>Prices</title><script>x()</script></head><body><h1>GPUs</h1>"
    + "<p>one two</p>" * 3_000
)
KINDS = {
    "error": (ERROR, ["Traceback", "ValueError: boom", "line 4999"]),
    "csv": (CSV, ["name,price", "a0,0", "a4999,4999"]),
    "json": (JSON, ['status: "ok"', "5,000 items", '{"id":0}', "total: 5000"]),
    "html": (HTML, ["Title: Prices", "GPUs", "one two"]),
    "text": ("The beginning. " + "word " * 9_000 + "The end.", ["The beginning.", "The end."]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_shows_what_tells_the_kind(kind: str) -> None:
    text, wanted = KINDS[kind]
    assert kind_of(text.encode(), is_error=kind == "error") == kind
    shown = preview(text.encode(), kind, 800)
    assert all(one in shown for one in wanted), shown
    assert "x()" not in shown and len(shown) <= 1_000


@given(st.binary(max_size=2_000), st.sampled_from([*KINDS, "pdf", "image", "binary"]))
def test_a_preview_of_anything_is_short_and_raises_nothing(content: bytes, kind: str) -> None:
    kind_of(content)
    assert len(preview(content, kind, 200)) <= 500
