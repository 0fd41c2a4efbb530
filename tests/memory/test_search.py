"""An index finds what was stored, by words and by meaning: the same whatever the order it was filled in, whatever the
query.
"""

from __future__ import annotations

import math
import os
import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.errors import InvalidCall, NotSerialisable, StorageError, UsageError
from contextkit.memory.recall import search_tools
from contextkit.memory.search.document import Document
from contextkit.memory.search.index import PASSAGE_CHARACTERS, Index, require_module, terms
from tests.scale import n_examples

HOSTILE = [
    "",
    " ",
    '"',
    '""',
    "'",
    "*",
    "^",
    "a*",
    "NEAR(a b, 2)",
    "a AND",
    "OR",
    "NOT",
    "NOT a",
    "-a",
    "+a",
    "a:b",
    "terms:a",
    "{terms}:a",
    "(((",
    "a) OR (b",
    '"a" "',
    "\\",
    "%",
    "_",
    ";DROP TABLE words;--",
    "\x00",
    "a\x00b",
    "\ud800",
    "a\udfff",
    "🙂",
    "\u200b",
    "\u202e",
    "缓",
    "缓存",
    "café",
    "ﬁle",
    "İstanbul",
    "ß",
    "a" * 100_000,
    "w " * 5_000,
    "\n\t\r",
    "0",
    "1e309",
    "नमस्ते",
    "ภาษาไทย",
    "שלום",
    "한국어",
    "é" * 300,
]
WORDS = [
    f"{first}{second}" for first in ("ca", "lo", "mi", "re") for second in ("che", "ga", "nor", "tip", "vel", "xu")
]


def ids(index: Index, query: str, limit: int = 8) -> list[str]:
    return [found.id for found in index.search(query, limit)]


def drawn(n: int, seed: int = 1) -> list[Document]:
    """Documents of few words, so that many tie."""
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(0, 12))) for _ in range(n)]
    return [Document(f"d{number:03}", texts[number], float(number % 7), "result") for number in range(n)]


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: ascii(query)[:24])
def test_no_query_is_an_error(query: str) -> None:
    with Index() as index:
        index.add_all([Document("1", "a b terms near 缓存前缀 café file not or"), Document("2", "")])
        assert isinstance(index.search(query), list)
        assert isinstance(search_tools(index)[0].run({"query": query}), str)


@settings(max_examples=n_examples(20, 500), deadline=None)
@given(st.text(), st.lists(st.text(max_size=40), max_size=6))
def test_any_text_can_be_asked_for(query: str, texts: list[str]) -> None:
    with Index() as index:
        kept = [Document(str(number), text) for number, text in enumerate(texts) if text.isprintable()]
        index.add_all(kept)
        assert set(ids(index, query)) <= {document.id for document in kept}
        assert all(index.read(document.id) == document.text for document in kept)


SPOKEN = st.lists(
    st.sampled_from(
        [*WORDS[:8], "query", "queries", "Cafés", "x86_64", "readReference", "缓存", "存缓", "कलम", "काम", "한국어"]
    ),
    max_size=6,
).flatmap(lambda words: st.sampled_from([" ", "/", "\n", ""]).map(lambda gap: gap.join(words)))


@settings(max_examples=100, deadline=None)
@given(SPOKEN, st.lists(SPOKEN, max_size=8))
def test_what_shares_a_word_with_a_query_is_found(query: str, texts: list[str]) -> None:
    with Index() as index:
        kept = [Document(str(number), text) for number, text in enumerate(texts)]
        index.add_all(kept)
        asked = set(terms(query))
        sharing = {document.id for document in kept if asked & set(terms(document.text, has_characters=True))}
        assert sharing <= set(ids(index, query, 8))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["word ", "\n", "\n\n", ". ", "缓存", "é", "x" * 300]), min_size=1), st.integers(0, 9))
def test_passages_put_together_are_the_text(parts: list[str], first: int) -> None:
    once = "".join(parts)
    text = (once * (2 * PASSAGE_CHARACTERS // len(once) + 2))[first:]
    with Index() as index:
        index.add(Document("1", text))
        assert len(text) > PASSAGE_CHARACTERS and index.read("1") == text
        found = index.search("word 缓存 é")
        assert all(text[hit.start : hit.end] in text and hit.end - hit.start <= PASSAGE_CHARACTERS for hit in found)


def test_a_word_behind_hundreds_of_others_finds_its_text() -> None:
    with Index() as index:
        index.add_all(Document(f"d{number}", f"common{number % 300} all") for number in range(600))
        index.add(Document("rare", "the zebra crossed"))
        query = " ".join([*(f"common{number} all/common{number}" for number in range(300)), "unheard", "zebra"])
        assert "rare" in ids(index, query, 601)
        assert ids(index, " ".join(f"unheard{number}" for number in range(300))) == []


def test_a_word_with_vowel_signs_is_one_word() -> None:
    with Index() as index:
        index.add_all([Document("pen", "मेरी कलम"), Document("work", "यह काम है।")])
        assert ids(index, "काम") == ids(index, "काम।") == ["work"] and ids(index, "कलम") == ["pen"]


def test_every_word_of_a_text_finds_it() -> None:
    latin = "Café naïve ﬁle İstanbul readReference max_tokens src/a-b.py x86_64 caches HTTPServer"
    text = f"{latin} 缓存前缀失效 カタカナ 한국어를 ภาษาไทย हिन्दी שלום"
    with Index() as index:
        index.add(Document("1", text))
        asked = [
            "cafe",
            "NAIVE",
            "file",
            "istanbul",
            "reference",
            "readReference",
            "tokens",
            "max_tokens",
            "a-b.py",
            "x86_64",
            "cache",
        ]
        asked += ["httpserver", "缓", "前缀", "存前缀", "カナ", "한국", "ภาษา", "हिन्दी", "שלום"]
        assert [query for query in asked if ids(index, query) != ["1"]] == []
        assert ids(index, "失效缓") == ["1"] and ids(index, "存缓") == []


def test_the_same_documents_give_the_same_answers_whatever_the_order_and_the_batches(tmp_path: Path) -> None:
    documents, queries = drawn(240), [*WORDS, "cache loga", "minor revel caxu", "xu", "mi"]
    answers = []
    for seed in (1, 2, 3):
        rng = random.Random(seed)
        shuffled = rng.sample(documents, len(documents))
        with Index(tmp_path / f"{seed}.db") as index:
            index.add_all([Document("stale", "cache loga minor"), Document("d003", "an earlier text")])
            while shuffled:
                n = rng.choice((1, 7, 60))
                batch, shuffled = shuffled[:n], shuffled[n:]
                index.add_all(batch)
            index.remove("stale", "never there")
            answers.append([index.search(query, 20) for query in queries])
    with Index() as index:
        index.add_all(documents)
        answers.append([index.search(query, 20) for query in queries])
    assert answers[0] == answers[1] == answers[2] == answers[3]


def test_the_seed_of_hashes_changes_nothing() -> None:
    program = "from tests.memory.test_search import answers; print(answers())"
    root, seed = Path(__file__).resolve().parents[2], str(1 + (os.environ.get("PYTHONHASHSEED") == "1"))
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environment, cwd=root, capture_output=True, encoding="utf-8", check=True)
    assert ran.stdout.strip() == answers() and "SearchHit(" in ran.stdout


def answers() -> str:
    """What an index of random documents finds."""
    with Index() as index:
        index.add_all(drawn(60))
        return str([index.search(word) for word in WORDS])


def test_a_long_text_is_found_by_its_best_passage_and_says_the_line() -> None:
    lines = [f"line {number} of the report" for number in range(1, 900)]
    lines[640] = "here the zebra crossed"
    with Index() as index:
        index.add_all([Document("long", "\n".join(lines)), Document("short", "zebra")])
        found = {one.id: one for one in index.search("zebra crossed")}["long"]
        text = index.read("long")
        assert (
            text == "\n".join(lines)
            and "zebra crossed" in text[found.start : found.end]
            and "zebra crossed" in found.snippet
        )
        assert text[: found.start].count("\n") + 1 == found.line <= 641
        read = str(search_tools(index)[1].run({"id": "long", "start_line": 641, "n_lines": 1}))
        assert read.startswith("here the zebra crossed\n")


def test_the_same_document_twice_is_kept_once_and_another_text_replaces_it(tmp_path: Path) -> None:
    with Index(tmp_path / "index.db") as index:
        assert index.add(Document("1", "old words")) and not index.add(Document("1", "old words"))
        assert index.add(Document("1", "new words")) and len(index) == 1
        assert ids(index, "old") == [] and ids(index, "new") == ["1"] and "1" in index and "2" not in index
        assert index.add_all([Document("2", "first"), Document("2", "last")]) == 1 and index.read("2") == "last"
        assert index.remove("1") == 1 and ids(index, "words") == []
    with Index(tmp_path / "index.db") as index:
        assert ids(index, "last") == ["2"]


def test_what_was_added_survives_a_kill(tmp_path: Path) -> None:
    """The process dies between two documents of one transaction; the first would have replaced what was added."""
    program = (
        "import os, sys\n"
        "from contextkit.memory.search.document import Document\nfrom contextkit.memory.search.index import Index\n"
        "class At:\n"
        "    n_read = 0\n"
        "    def __float__(self):\n"
        "        self.n_read += 1\n"  # first for the digest, then to be written
        "        return 0.0 if self.n_read == 1 else os._exit(9 if index._connection.in_transaction else 1)\n"
        "index = Index(sys.argv[1])\nindex.add(Document('1', 'acknowledged'))\n"
        "index.add_all([Document('1', 'begun'), Document('2', 'begun', at=At())])"
    )
    path = tmp_path / "index.db"
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9
    with Index(path) as index:
        assert ids(index, "acknowledged") == ["1"] and ids(index, "begun") == [] and len(index) == 1


def test_threads_may_fill_and_search_at_once(tmp_path: Path) -> None:
    with Index(tmp_path / "index.db") as index, Index(tmp_path / "index.db") as second:
        kept = {name: [Document(f"{name}{n}", f"word{n} all") for n in range(30)] for name in "abc"}
        work = [
            threading.Thread(target=one.add_all, args=(kept[name],))
            for name, one in (("a", index), ("b", second), ("c", index))
        ]
        for thread in work:
            thread.start()
        while any(thread.is_alive() for thread in work):
            index.search("word3 all")
        assert len(index) == len(second) == 90 and sorted(ids(second, "word3")) == ["a3", "b3", "c3"]


def test_what_stands_in_the_window_can_be_left_out() -> None:
    with Index() as index:
        index.add_all(Document(f"d{number:03}", "cache") for number in range(300))
        kept = {f"d{number:03}" for number in range(299)}
        assert [found.id for found in index.search("cache", leave_out=kept)] == ["d299"]


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ([[1.0]], "one for each"),
        ([[1.0], [1.0, 2.0]], "of 2 numbers where"),
        ([[1.0], [math.nan]], "NaN"),
        ([[], []], "of 0 numbers"),
    ],
)
def test_vectors_that_cannot_be_compared_are_refused(vectors: list[list[float]], said: str) -> None:
    with Index(embed=lambda texts: vectors) as index:
        with pytest.raises(UsageError, match=said):
            index.add_all([Document("1", "a"), Document("2", "b")])
        assert len(index) == 2  # the texts were kept before; the next call asks for their vectors again


def test_an_index_says_what_it_cannot_open(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, but long enough to be taken for one" * 40)
    with pytest.raises(StorageError, match=r"text\.db.*delete it"):
        Index(tmp_path / "text.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(StorageError, match="something else"):
        Index(tmp_path / "other.db")
    with pytest.raises(StorageError, match="folder"):
        Index(tmp_path / "none" / "index.db")
    closed = Index()
    closed.close()
    closed.close()
    with pytest.raises(UsageError, match="new Index"):
        closed.search("a")
    with Index() as index, pytest.raises(NotSerialisable):
        index.add(Document("1", "\ud800"))


def test_sqlite_without_the_module_is_named() -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(UsageError, match="needs SQLite's FTS9 module"):
        require_module(connection, "fts9")
    connection.close()


def test_the_tools_speak_to_the_model() -> None:
    with Index() as index:
        search, read = search_tools(index)
        assert "Try other words" in str(search.run({"query": "zebra"}))
        index.add(Document("entry/3", "the zebra\ncrossed", 86_400.0, "result"))
        assert search.run({"query": "zebra", "limit": -5}) == "entry/3 line 1 (result, 1970-01-02): the zebra crossed"
        assert str(read.run({"id": " entry/3 "})).startswith("the zebra\ncrossed")
        with pytest.raises(InvalidCall, match="entry/4"):
            read.run({"id": "entry/4"})


def test_an_index_of_version_1_is_rebuilt_from_its_own_texts(tmp_path: Path) -> None:
    old = sqlite3.connect(tmp_path / "search.db")
    old.executescript("""
        CREATE TABLE document (row INTEGER PRIMARY KEY, id TEXT, digest BLOB, at REAL, kind TEXT);
        CREATE TABLE passage (row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, start INTEGER, line INTEGER, at REAL, text TEXT);
        CREATE TABLE term (term TEXT PRIMARY KEY, passages INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE fed (log TEXT PRIMARY KEY, sequence INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
        CREATE VIRTUAL TABLE words USING fts5(terms, content='', tokenize='ascii');
        INSERT INTO document VALUES (1, 'page', x'00', 5.0, 'page');
        INSERT INTO passage VALUES (1, 'page', 6, 1, 5.0, 'zebra'), (2, 'page', 0, 1, 5.0, 'first ');
        PRAGMA user_version = 1;
    """)
    old.close()
    for _ in range(2):
        with Index(tmp_path / "search.db") as index:
            [hit] = index.search("zebras")
            assert (hit.id, hit.kind, hit.at, index.read("page")) == ("page", "page", 5.0, "first zebra")


def test_words_and_meaning_are_fused() -> None:
    vectors = {"car": [1.0, 0.1], "automobile": [0.9, 0.2], "car park": [0.1, 1.0], "banana": [-1.0, 0.0]}
    with Index(embed=lambda texts: [vectors[text] for text in texts]) as index:
        index.add_all(Document(text, text) for text in vectors if text != "car")
        hits = [(hit.id, hit.by) for hit in index.search("car")]
        assert hits == [("car park", ("words", "meaning")), ("automobile", ("meaning",))]
        index.remove("automobile")
        assert [hit.id for hit in index.search("car")] == ["car park"]
