"""An index finds what was kept: by words, by links, by meaning.

The same whatever the order it was filled in; whatever is asked.
"""

from __future__ import annotations

import math
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit.errors import InvalidCall, NotSerialisable, StorageError, UsageError
from contextkit.memory.recall.toolset import search_tools
from contextkit.memory.search.database import require_module
from contextkit.memory.search.document import Document
from contextkit.memory.search.index import Index
from contextkit.memory.search.passages import cut, line_numbers, snippet
from contextkit.memory.search.ranking.by_words import by_words
from contextkit.memory.search.words import query_groups, query_terms, terms

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
    """Documents of few words, so that many tie; every third links to the one before."""
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(0, 12))) for _ in range(n)]
    links = [(f"d{number - 1:03}",) if number % 3 == 0 else () for number in range(n)]
    return [Document(f"d{number:03}", texts[number], float(number % 7), "result", links[number]) for number in range(n)]


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: ascii(query)[:24])
def test_no_query_is_an_error(query: str) -> None:
    with Index() as index:
        index.add_all([Document("1", "a b terms near 缓存前缀 café file not or"), Document("2", "")])
        assert isinstance(index.search(query), list)
        assert isinstance(search_tools(index)[0].run({"query": query}), str)


@settings(max_examples=60, deadline=None)
@given(st.text(), st.lists(st.text(max_size=40), max_size=6))
def test_any_text_can_be_asked_for_and_what_it_says_is_found(query: str, texts: list[str]) -> None:
    with Index() as index:
        kept = [Document(str(number), text) for number, text in enumerate(texts) if text.isprintable()]
        index.add_all(kept)
        found = ids(index, query)
        assert {document.id for document in kept if set(query_terms(query)) & set(terms(document.text))} <= set(found)


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
            index.add_all([Document("stale", "cache loga minor"), Document("d003", "an earlier text", links=("d100",))])
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
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_search import drawn, WORDS\nfrom contextkit.memory.search.index import Index\n"
        "index = Index(); index.add_all(drawn(60)); print([index.search(word) for word in WORDS])"
    )
    command = [sys.executable, "-c", program, str(Path(__file__).parent)]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in "12"]
    ran = [subprocess.run(command, env=one, capture_output=True, text=True, check=True) for one in environments]
    assert ran[0].stdout == ran[1].stdout and "SearchHit(" in ran[0].stdout


def test_words_are_ranked_as_the_formula_of_bm25_says() -> None:
    spoken = [WORDS[number % 5 : number % 5 + 1 + number % 4] * (1 + number % 3) for number in range(40)]
    documents = [Document(f"d{number}", " ".join(said)) for number, said in enumerate(spoken)]
    texts = {document.id: terms(document.text) for document in documents}
    mean = sum(map(len, texts.values())) / len(texts)

    def score(text: list[str], asked: list[str]) -> float:
        counted, total = Counter(text), 0.0
        for term in asked:
            n = sum(term in other for other in texts.values())
            rarity = max(math.log((len(texts) - n + 0.5) / (n + 0.5)), 1e-6)
            total += rarity * counted[term] * 2.2 / (counted[term] + 1.2 * (0.25 + 0.75 * len(text) / mean))
        return total

    with Index() as index:
        index.add_all(documents)
        for query in ("cache", "lochega", "caga capnor canor", "cativel cavel caxu", "catip"):
            asked = query_terms(query)
            matching = [(-round(score(said, asked), 9), name) for name, said in texts.items() if set(asked) & set(said)]
            expected = [name for _, name in sorted(matching)]
            with index._database.reading() as connection:
                assert [place.id for place in by_words(connection, query_groups(query))] == expected


def test_common_words_alone_give_the_newest_that_hold_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextkit.memory.search.ranking.by_words.ROWS_SCORED", 3)
    with Index() as index:
        index.add_all(
            [Document(f"d{number}", "error file" if number % 2 else "error", float(number)) for number in range(20)]
        )
        assert ids(index, "error", 4) == ["d19", "d18", "d17", "d16"]
        with index._database.reading() as connection:
            assert [place.id for place in by_words(connection, [["error"], ["file"]], 3)] == ["d19", "d17", "d15"]
        index.add(Document("rare", "error zebra", 0.0))
        assert ids(index, "error zebra")[0] == "rare"


def test_links_lead_from_what_matches_to_what_does_not() -> None:
    with Index() as index:
        index.add(Document("entry/1", "GPU prices are at https://example.org/gpus.", kind="assistant"))
        index.add(Document("ref-7", "H100 2.10 per hour", kind="reference", links=("https://example.org/gpus",)))
        index.add(Document("entry/9", "cheapest card chosen", links=("ref-7",)))
        index.add(Document("entry/10", "unrelated"))
        found = {one.id: one.by for one in index.search("where are GPU prices")}
        assert found == {"entry/1": ("words", "links"), "ref-7": ("links",), "entry/9": ("links",)}


def test_a_name_that_stands_everywhere_leads_nowhere() -> None:
    with Index() as index:
        index.add_all(
            [Document(f"d{number}", "filler" if number else "needle", links=("README.md",)) for number in range(40)]
        )
        assert ids(index, "needle") == ["d0"]


def test_copies_stand_behind_what_says_something_else() -> None:
    with Index() as index:
        index.add_all(
            [Document(f"copy{number}", "cache miss after the tool list was sorted again") for number in range(10)]
        )
        index.add(
            Document("other", "a cache miss can come from a clock in the system prompt of an agent that runs at night")
        )
        assert "other" in ids(index, "cache miss", 2)


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


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab .\n\r\u2028缓é"), max_size=400), st.integers(2, 60))
def test_passages_put_together_are_the_text(text: str, size: int) -> None:
    pieces = list(cut(text, size))
    assert "".join(piece for _, piece in pieces) == text and all(
        text.startswith(piece, start) for start, piece in pieces
    )
    assert all(len(piece) <= size for _, piece in pieces)
    numbers = line_numbers(text, [start for start, _ in pieces])
    assert numbers == sorted(numbers) and numbers[0] == 1
    assert len(snippet(text, {"a": 1.0}, size)) <= size + 4


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
    program = (
        "import os, sys\nfrom contextkit.memory.search.document import Document\nfrom contextkit.memory.search.index import Index\n"
        "index = Index(sys.argv[1])\nindex.add(Document('1', 'acknowledged'))\n"
        "with index._database.writing() as connection:\n"
        "    connection.execute('DELETE FROM document')\n    os._exit(9)"
    )
    path = tmp_path / "index.db"
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == 9
    with Index(path) as index:
        assert ids(index, "acknowledged") == ["1"] and len(index) == 1


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


def test_meaning_finds_what_words_do_not() -> None:
    near = {"automobile": [1.0, 0.1, 0.0], "car": [0.9, 0.2, 0.0], "banana": [0.0, 0.1, 1.0]}

    def embed(texts: list[str]) -> list[list[float]]:
        return [near[text] for text in texts]

    with Index(embed=embed) as index:
        index.add_all([Document("1", "automobile"), Document("2", "banana")])
        found = index.search("car")
        assert [(one.id, one.by) for one in found] == [("1", ("meaning",)), ("2", ("meaning",))]


def test_many_vectors_are_compared_by_signs_first_and_exactly_then() -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[rng.gauss(0, 1) for _ in range(32)] for rng in (random.Random(text) for text in texts)]

    with Index(embed=embed) as index:
        index.add_all(Document(f"d{number}", f"text{number}") for number in range(600))
        index.remove("d5", "d599")
        index.add(Document("d600", "text600"))
        assert all(index.search(f"text{number}")[0].id == f"d{number}" for number in (0, 77, 598, 600))
        assert "d5" not in ids(index, "text5")


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
