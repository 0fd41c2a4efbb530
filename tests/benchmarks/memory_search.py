"""How fast memory is filled and searched, beside a scan of all texts, `rank_bm25` and DuckDB's full-text search.

    python tests/benchmarks/memory_search.py                       # 100,000 documents python
    tests/benchmarks/memory_search.py --documents 10000 python tests/benchmarks/memory_search.py --trigram             #
    SQLite's own answer to scripts without spaces, for its price python tests/benchmarks/memory_search.py --embed
    # with vectors of 256 numbers python tests/benchmarks/memory_search.py --exact               # every row and every
    word scored: what the limits save, and cost python tests/benchmarks/memory_search.py --beside rank_bm25    # or
    duckdb; installed by whoever runs this

Documents are stretches of real sessions (the folder `shared` beside the checkout): consecutive lines, about 800
characters, half of them with other numbers and with every tenth longer word replaced by a rare one, so that the
vocabulary grows as it does in life. A fixed seed: two runs index the same bytes. Where the folder is absent, lines are
made of words. The index is a file, fsync included. Times of queries are told of the processor and by the clock on the
wall, which on a machine with other work says more about that work.

MRR is the mean of 1 / place of the document the query was taken from; lines recur in many documents, so that 1 is out
of reach."""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from contextkit.memory.search.document import Document
from contextkit.memory.search.index import Index
from contextkit.memory.search.ranking import by_words
from contextkit.memory.search.words import terms

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
SEED = 20_261_121
LONGER_WORD, DIGITS = re.compile(r"[A-Za-z]{5,}"), re.compile(r"\d+")
SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
N_QUERIES = 400


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    for inside in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inside)


def recorded_lines() -> list[str]:
    """Each line that real sessions hold, once, in their order."""
    found: dict[str, None] = {}
    written = [(SHARED / "pi" / "before-compaction.jsonl").read_bytes().splitlines()]
    written += [
        gzip.decompress(path.read_bytes()).splitlines() for path in sorted((SHARED / "agent-traces").rglob("*.gz"))
    ]
    written += [[gzip.decompress((SHARED / "tau-bench" / "gpt-4o-airline.json.gz").read_bytes())]]
    for record in (json.loads(line) for lines in written for line in lines):
        found.update((line[:400], None) for text in strings(record) if len(text) > 20 for line in text.splitlines())
    return [line for line in found if line.strip()]


class Corpus:
    """Documents, drawn with a seed."""

    def __init__(self, seed: int = SEED) -> None:
        self.random = random.Random(seed)
        self.lines = (
            recorded_lines() if SHARED.is_dir() else [" ".join(self._rare() for _ in range(9)) for _ in range(20_000)]
        )

    def documents(self, n: int) -> list[Document]:
        return [Document(f"entry/{number}", self._text(), 1_760_000_000.0 + number, "result") for number in range(n)]

    def _text(self) -> str:
        target = min(4_000, int(self.random.lognormvariate(6.4, 0.7)))
        first, size, kept = self.random.randrange(len(self.lines)), 0, []
        for at in count(first):
            if size >= target:
                return "\n".join(kept)
            kept.append(self._varied(self.lines[at % len(self.lines)]))
            size += len(kept[-1]) + 1
        return ""

    def _varied(self, line: str) -> str:
        if self.random.random() < 0.5:
            line = DIGITS.sub(lambda digits: str(self.random.randrange(10 ** min(len(digits[0]), 9))), line)
        if self.random.random() < 0.5:
            line = LONGER_WORD.sub(lambda word: self._rare() if self.random.random() < 0.1 else word[0], line)
        return line

    def _rare(self) -> str:
        number = min(int(self.random.paretovariate(0.6)), 10**9)
        drawn = random.Random(number)
        return "".join(drawn.choice(SYLLABLES) for _ in range(3 + number % 3))


def queries(documents: list[Document], seed: int = 7) -> dict[str, list[tuple[str, str | None]]]:
    """Kind of query → queries, each with the document it was taken from, where it was taken from one."""
    drawn = random.Random(seed)
    counted: dict[str, int] = {}
    for document in documents[:5_000]:
        for term in set(terms(document.text)):
            counted[term] = counted.get(term, 0) + 1
    common = sorted(counted, key=lambda term: -counted[term])[:60]

    def known(n_words: int, is_scattered: bool) -> Iterator[tuple[str, str]]:
        while True:
            document = drawn.choice(documents)
            spoken = [word for word in document.text.split() if terms(word)]
            if len(spoken) > 3 * n_words:
                at = drawn.randrange(len(spoken) - n_words)
                yield (
                    " ".join(drawn.sample(spoken, n_words) if is_scattered else spoken[at : at + n_words]),
                    document.id,
                )

    def of(source: Iterator[tuple[str, str]]) -> list[tuple[str, str | None]]:
        return [next(source) for _ in range(N_QUERIES)]

    return {
        "3 words in a row": of(known(3, False)),
        "8 words in a row": of(known(8, False)),
        "5 words of one document": of(known(5, True)),
        "one word of a document": of(known(1, True)),
        "common words only": [(" ".join(drawn.sample(common, drawn.randint(1, 4))), None) for _ in range(N_QUERIES)],
        "30 words of a document": of(known(30, True)),
    }


def measured(name: str, search: Callable[[str], list[str]], asked: list[tuple[str, str | None]]) -> float:
    """Print one row; gives the median in seconds."""
    taken, waited, places = [], [], []
    for query, wanted in asked:
        start, clock = time.process_time(), time.perf_counter()
        found = search(query)
        taken.append(time.process_time() - start)
        waited.append(time.perf_counter() - clock)
        places.append(1 / (found.index(wanted) + 1) if wanted in found else 0.0)
    quality = f"{statistics.mean(places):.3f}" if asked[0][1] else "—"
    busy, wall = (f"p50 {told(seconds, 0.5)} p99 {told(seconds, 0.99)} ms" for seconds in (taken, waited))
    print(f"{name:26} processor {busy}   wall {wall}   MRR {quality}")
    return statistics.median(taken)


def told(seconds: list[float], share: float) -> str:
    return f"{sorted(seconds)[min(int(len(seconds) * share), len(seconds) - 1)] * 1e3:7.2f}"


def hashed(texts: list[str]) -> list[list[float]]:
    """A stand-in for an embedding model: terms hashed to 256 signed places."""
    made = []
    for text in texts:
        vector = [0.0] * 256
        for term in terms(text):
            drawn = random.Random(term)
            for _ in range(4):
                vector[drawn.randrange(256)] += drawn.choice((-1.0, 1.0))
        made.append(vector)
    return made


def scan(documents: list[Document]) -> Callable[[str], list[str]]:
    """What one writes without an index: each text asked for each word, the ones with most hits first."""
    lowered = [(document.id, document.text.lower()) for document in documents]

    def search(query: str) -> list[str]:
        asked = query.lower().split()
        scored = [(sum(word in text for word in asked), name) for name, text in lowered]
        return [name for _, name in sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[:8]]

    return search


def rank_bm25(documents: list[Document]) -> Callable[[str], list[str]]:
    """The package of this name, over the same terms."""
    from rank_bm25 import BM25Okapi

    model, names = BM25Okapi([terms(document.text) for document in documents]), [document.id for document in documents]
    return lambda query: model.get_top_n(terms(query), names, n=8)


def duckdb(documents: list[Document]) -> Callable[[str], list[str]]:
    """DuckDB's extension `fts`."""
    import duckdb as duck

    db = duck.connect()
    db.execute("SET threads = 1")
    db.execute("INSTALL fts; LOAD fts; CREATE TABLE document (id VARCHAR, text VARCHAR)")
    db.execute(
        "INSERT INTO document SELECT unnest(?), unnest(?)",
        [[one.id for one in documents], [one.text for one in documents]],
    )
    db.execute("PRAGMA create_fts_index('document', 'id', 'text', stopwords='none')")
    scored = "SELECT id, fts_main_document.match_bm25(id, ?) AS score FROM document"
    sql = f"SELECT id FROM ({scored}) WHERE score IS NOT NULL ORDER BY score DESC LIMIT 8"
    return lambda query: [name for (name,) in db.execute(sql, [query]).fetchall()]


OTHERS: dict[str, Callable[[list[Document]], Callable[[str], list[str]]]] = {
    "scan": scan,
    "rank_bm25": rank_bm25,
    "duckdb": duckdb,
}


def trigram(documents: list[Document], folder: Path) -> None:
    db = sqlite3.connect(folder / "trigram.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    for tokenizer in ("ascii", "trigram"):
        start = time.perf_counter()
        db.execute(f"CREATE VIRTUAL TABLE {tokenizer}_words USING fts5(terms, content='', tokenize='{tokenizer}')")
        for first in range(0, len(documents), 5_000):
            db.execute("BEGIN")
            batch = documents[first : first + 5_000]
            spelt = (document.text if tokenizer == "trigram" else " ".join(terms(document.text)) for document in batch)
            db.executemany(f"INSERT INTO {tokenizer}_words (terms) VALUES (?)", ((text,) for text in spelt))
            db.execute("COMMIT")
        (n_bytes,) = db.execute(f"SELECT sum(length(block)) FROM {tokenizer}_words_data").fetchone()
        print(f"FTS5 {tokenizer:8} {time.perf_counter() - start:6.1f} s   {n_bytes / 1e6:7.1f} MB of index")
    db.close()


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--documents", type=int, default=100_000)
    reader.add_argument("--trigram", action="store_true")
    reader.add_argument("--embed", action="store_true")
    reader.add_argument("--exact", action="store_true")
    reader.add_argument("--beside", default="scan", choices=sorted(OTHERS))
    given = reader.parse_args()
    if given.exact:
        by_words.ROWS_SCORED = by_words.ROWS_READ = by_words.MAX_TERMS = 10**9
    documents = Corpus().documents(given.documents)
    n_bytes = sum(len(document.text.encode()) for document in documents)
    print(
        f"{len(documents):,} documents, {n_bytes / 1e6:.1f} MB, Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}"
    )
    with tempfile.TemporaryDirectory() as folder:
        if given.trigram:
            return trigram(documents, Path(folder))
        path = Path(folder) / "index.db"
        with Index(path, embed=hashed if given.embed else None) as index:
            start, clock = time.process_time(), time.perf_counter()
            index.add_all(documents)
            wall = time.perf_counter() - clock
            size = path.stat().st_size / 1e6
            print(
                f"indexed in {time.process_time() - start:.1f} s of the processor, {wall:.1f} s by the clock; {size:.1f} MB on disk"
            )
            start = time.perf_counter()
            index.add_all(documents)
            print(f"offered again: nothing new, {time.perf_counter() - start:.1f} s")
            asked = queries(documents)
            ours = [
                measured(kind, lambda query: [found.id for found in index.search(query)], asked[kind]) for kind in asked
            ]
        start = time.perf_counter()
        search = OTHERS[given.beside](documents)
        print(f"\nbeside it, {given.beside}: ready in {time.perf_counter() - start:.1f} s; 40 queries of each kind")
        theirs = [measured(kind, search, asked[kind][:40]) for kind in asked]
        ratios = ", ".join(f"{other / own:.0f}" for own, other in zip(ours, theirs, strict=True))
        print(f"ratio of medians, {given.beside} / contextkit: {ratios}")
    return None


if __name__ == "__main__":
    main()
