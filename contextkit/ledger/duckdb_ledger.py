"""Ledgers larger than memory, added up by DuckDB: the same sums as `summarise` gives, by group, with the misses.

`judged_rows` gives a plain row for each call of one session, for engines that spread work over processes or machines:
calls of different sessions never meet, so the rows of all sessions are those of the whole recording.

Takes the names of ledgers, gives a `Summary`. Sums are made in SQL, at prices joined in for each provider, model and
quarter of an hour. Misses need the calls of a lane in order: DuckDB puts the lines together session by session, on disk
where memory does not hold them, and each session is judged alone. Knows no format but our own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from contextkit import prices
from contextkit.cache.usage import COUNTERS, OLD_TTLS, QUALITIES, ZERO, Usage, is_long_ttl
from contextkit.errors import MissingExtra, StorageError, UnknownModel
from contextkit.ledger.calls import Exchange, Record, decode
from contextkit.ledger.misses import AnalyzedCall, Miss, analyzed_calls, complete_usage
from contextkit.ledger.summary import (
    MOST_LANES,
    MOST_MISSES,
    MOST_RATES,
    PlaceholderOutput,
    RecordedCost,
    Row,
    Summary,
    dearest,
    unpriced_name,
)

COLUMNS: dict[str, str] = {
    "id": "string",
    "session": "string",
    "lane": "string",
    "agent": "string",
    "project": "string",
    "at": "double",
    "provider": "string",
    "model": "string",
    "fresh": "bigint",
    "read": "bigint",
    "written": "bigint",
    "write_5m": "bigint",
    "write_30m": "bigint",
    "write_1h": "bigint",
    "write_12h": "bigint",
    "output": "bigint",
    "cost_usd": "double",
    "cost_uncached_usd": "double",
    "list_cost_usd": "double",
    "billed_usd": "double",
    "output_estimate": "bigint",
    "verdict": "string",
    "cause": "string",
    "lost_tokens": "bigint",
    "lost_usd": "double",
    "where": "string",
}
"""Column of a row → its type, in the words of Spark and Arrow. Unknown is null.

`written` is all that was written to the cache, whatever the lifetime.
"""
_TTLS_OF_COLUMNS = {"write_5m": 300, "write_30m": 1800, "write_1h": 3600, "write_12h": 43200}


def judged_rows(lines: Iterable[bytes | str]) -> Iterator[dict[str, Any]]:
    """A row for each call of one session, `lines` its exchanges and what was remarked of it, in the order of the
    ledger.

    Raises `LogCorrupt` for what is no line of a ledger.
    """
    return map(_row, analyzed_calls(_records(lines)))


def _records(lines: Iterable[bytes | str]) -> Iterator[Record]:
    return (decode(line.encode("utf-8") if isinstance(line, str) else line) for line in lines)


def _row(call: AnalyzedCall) -> dict[str, Any]:
    exchange, miss = call.exchange, call.miss
    usage = call.usage or Usage()
    writes = None if usage.writes is None else dict(usage.writes)
    values = {
        "id": exchange.id,
        "session": exchange.session,
        "lane": exchange.lane,
        "agent": call.agent,
        "project": call.project,
        "at": exchange.at,
        "provider": exchange.provider,
        "model": exchange.model,
        "fresh": usage.fresh,
        "read": usage.read,
        "written": usage.written,
        **{name: None if writes is None else writes.get(ttl, 0) for name, ttl in _TTLS_OF_COLUMNS.items()},
        "output": usage.output,
        "cost_usd": call.cost_usd,
        "cost_uncached_usd": call.cost_uncached_usd,
        "list_cost_usd": call.list_cost_usd,
        "billed_usd": exchange.billed_usd,
        "output_estimate": exchange.output_estimate,
        "verdict": call.verdict,
        "cause": miss.cause if miss else None,
        "lost_tokens": miss.lost_tokens if miss else None,
        "lost_usd": miss.cost_usd if miss else None,
        "where": miss.where if miss else None,
    }
    return {name: values[name] for name in COLUMNS}


if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY, THREADS = "1GB", 4
"""DuckDB may take this much, what is more waits on disk; each of its threads holds lines in buffers."""
LONGEST_LINE = 1 << 25
"""Bytes."""
BATCH = 4096
"""Rows fetched or written at once."""
GROUPS: dict[str, str] = {
    "day": "strftime(make_timestamp(CAST(floor(began * 1e6) AS BIGINT)), '%Y-%m-%d')",
    "session": "session",
    "model": "model",
    "agent": "agent",
    "project": "CASE WHEN project = '' THEN 'unknown' ELSE project END",
}
"""What calls can be grouped by, as `summary.GROUPS`."""
_SHAPE = (
    '{"id":"VARCHAR","session":"VARCHAR","lane":"VARCHAR","at":"DOUBLE","provider":"VARCHAR","model":"VARCHAR","usage":{"fresh":"BIGINT",'
    '"read":"BIGINT","write_5m":"BIGINT","write_1h":"BIGINT","output":"BIGINT","estimated":"BOOLEAN",'
    '"service_tier":"VARCHAR"},"billed_usd":"DOUBLE","output_estimate":"BIGINT","remark":"VARCHAR",'
    '"about":"VARCHAR","text":"VARCHAR","contextkit_ledger":"BIGINT"}'
)
_CHANGED = (
    """left(right(line, 26), 8) = ',"sum":"' AND left(right(line, 18), 16) <> left(sha256(left(line, -26)), 16)"""
)
"""Whether a line has a checksum and it is not that of its content; see `row.checksum`."""
_LOADED = f"""
CREATE TABLE lines AS SELECT row_number() OVER () AS n, CASE WHEN {_CHANGED} THEN NULL ELSE json END AS body
  FROM (SELECT json, CAST(json AS VARCHAR) AS line
    FROM read_ndjson_objects($paths, ignore_errors = true, maximum_object_size = {LONGEST_LINE}));
CREATE TABLE said AS SELECT * RENAME ("at" AS began) FROM
  (SELECT n, json_extract(body, '$.usage.writes') AS writes, json_extract(body, '$.usage.qualities') AS qualities,
    unnest(json_transform(body, '{_SHAPE}')) FROM lines WHERE body IS NOT NULL);
CREATE TABLE remarks AS SELECT n, remark, about, text FROM said WHERE remark IS NOT NULL;
CREATE TABLE rates (provider VARCHAR, model VARCHAR, quarter BIGINT, tier VARCHAR,
  above BIGINT, up_to BIGINT, writes_cost BOOLEAN, fresh DOUBLE,
  read DOUBLE, write_short DOUBLE, write_long DOUBLE, output DOUBLE);
CREATE TABLE free (provider VARCHAR, model VARCHAR);
CREATE TABLE missed (n BIGINT, lost BIGINT, usd DOUBLE);
"""  # noqa: S608 - what is put in is ours
_CALLS = """
CREATE TABLE calls AS
WITH whole AS (
  SELECT said.n, id, session, lane, began, said.provider, said.model, usage IS NOT NULL AS has_usage,
    usage.fresh AS fresh, usage.read AS read, usage.output AS output, coalesce(usage.estimated, false) AS estimated,
    coalesce(usage.service_tier, '') AS tier, qualities, billed_usd, output_estimate,
    {writes}
  FROM said LEFT JOIN free USING (provider, model) WHERE id IS NOT NULL),
known AS (
  SELECT *, fresh + read + {written} AS prompt, CAST(floor(began / 900) AS BIGINT) AS quarter FROM whole),
named AS (
  SELECT known.*, coalesce(agents.text, lane) AS agent, coalesce(projects.text, '') AS project,
    coalesce(programs.text, '') AS program FROM known
  LEFT JOIN (SELECT about, max_by(text, n) AS text FROM remarks WHERE remark = 'agent' GROUP BY about) agents
    ON agents.about = session || '/' || lane
  LEFT JOIN (SELECT about, max_by(text, n) AS text FROM remarks WHERE remark = 'project' GROUP BY about) projects
    ON projects.about = session
  LEFT JOIN (SELECT about, max_by(text, n) AS text FROM remarks WHERE remark = 'program' GROUP BY about) programs
    ON programs.about = session),
placed AS (
  SELECT named.*, sums.about IS NOT NULL AS is_sum FROM named
  LEFT JOIN (SELECT DISTINCT about FROM remarks WHERE remark = 'sum') sums ON sums.about = session || '/' || lane)
SELECT placed.*, rates.model IS NOT NULL AS has_price,
  placed.fresh * rates.fresh + placed.read * rates.read + {write_cost}
    + placed.output * rates.output AS list_cost,
  coalesce(billed_usd, list_cost) AS cost,
  prompt * rates.fresh + placed.output * rates.output AS uncached,
  prompt IS NOT NULL AND ({partial} OR is_sum AND prompt > rates.up_to) AS is_partial,
  prompt IS NOT NULL AND NOT estimated AND placed.output IS NOT NULL
    AND coalesce(json_extract_string(qualities, '$.output') = 'partial', false) AS is_placeholder,
  (output_estimate - placed.output) * rates.output AS hidden
FROM placed LEFT JOIN rates ON rates.provider = placed.provider AND rates.model = placed.model
  AND rates.quarter = placed.quarter AND rates.tier = placed.tier
  AND CASE WHEN is_sum THEN 0 ELSE coalesce(prompt, 0) END > rates.above
  AND CASE WHEN is_sum THEN 0 ELSE coalesce(prompt, 0) END <= rates.up_to
"""
_SUMS = """
SELECT {name}, count(*), count(prompt), count(cost),
  {counts}, bool_or(estimated) FILTER (WHERE prompt IS NOT NULL), sum(cost), sum(uncached), count(missed.n), sum(list_cost),
  count(*) FILTER (WHERE prompt IS NOT NULL AND cost IS NULL),
  count(*) FILTER (WHERE is_partial AND billed_usd IS NULL AND cost IS NOT NULL),
  count(billed_usd), sum(billed_usd), count(list_cost) FILTER (WHERE billed_usd IS NOT NULL),
  sum(billed_usd) FILTER (WHERE list_cost IS NOT NULL), sum(list_cost) FILTER (WHERE billed_usd IS NOT NULL),
  count(*) FILTER (WHERE is_placeholder), coalesce(sum(output) FILTER (WHERE is_placeholder), 0),
  count(output_estimate) FILTER (WHERE is_placeholder), coalesce(sum(output_estimate) FILTER (WHERE is_placeholder), 0),
  sum(hidden) FILTER (WHERE is_placeholder AND billed_usd IS NULL AND cost IS NOT NULL), min(calls.n)
FROM calls LEFT JOIN missed USING (n) GROUP BY {group} ORDER BY {order}
"""
_QUALITIES = [
    f"max(CASE json_extract_string(qualities, '$.{counter}')"
    + "".join(f" WHEN '{quality}' THEN {rank}" for rank, quality in enumerate(QUALITIES) if rank)
    + " END) FILTER (WHERE prompt IS NOT NULL)"
    for counter in COUNTERS
]
"""The rank of the worst quality of each counter."""
_PARTIAL = " OR ".join(
    f"coalesce(json_extract_string(qualities, '$.{counter}') = 'partial', false)" for counter in COUNTERS
)
"""Whether a counter of a call is a lower bound."""
_SUM = (
    "CASE WHEN count({name}) FILTER (WHERE prompt IS NOT NULL) = count(prompt)"
    " THEN coalesce(sum({name}) FILTER (WHERE prompt IS NOT NULL), 0) END"
)
_BY_SESSION = """
WITH placed AS (
  SELECT n, session FROM said WHERE id IS NOT NULL
  UNION ALL SELECT remarks.n, said.session FROM remarks JOIN said ON said.id = remarks.about
    WHERE remarks.remark IN ('verdict', 'caller', 'repair', 'compaction', 'setting')
  UNION ALL SELECT n, session FROM remarks JOIN (SELECT DISTINCT session FROM said WHERE id IS NOT NULL) ON about = session
    WHERE remarks.remark = 'project'
  UNION ALL SELECT n, session FROM remarks JOIN (SELECT DISTINCT session, session || '/' || lane AS place FROM said WHERE id IS NOT NULL)
    ON about = place WHERE remarks.remark IN ('agent', 'sum'))
SELECT session, n, CAST(body AS VARCHAR) AS line FROM placed JOIN lines USING (n) ORDER BY session, n
"""


@dataclass(frozen=True, slots=True)
class Added:
    """What DuckDB made of some ledgers."""

    summary: Summary
    """The sums."""
    sessions: dict[int, str]
    """`Miss.index` → whose call it was."""
    verdicts: dict[int, str]
    """`Miss.index` → the provider's own diagnosis, where it gave one."""
    n_unread: int
    """Lines that are no JSON, or were changed since they were written; they count nowhere."""
    session_rows: list[Row]
    """A row for each session, named by its id, in order of appearance; of more than `MOST_LANES` those that sent most."""
    parts: list[tuple[Row, str, str, int, int, float | None, int]]
    """For each project and program, in order of appearance: its row, both names, and of its misses how many they are,
    the tokens they lost, what those with a price cost, and how many have none."""
    about: dict[str, tuple[str, str, str, float]]
    """Session of `session_rows` → its title, program, project, and when its first call started; empty for unknown."""


def summarise_files(files: Sequence[str], by: str = "", memory: str = MEMORY) -> Added:
    """The `Summary` of the ledgers in `files`, as `summarise` gives it of their records one after another.

    `by` names a key of `GROUPS`. Where a conversation's project or an agent's name is said twice, the last one counts
    for all its calls. Raises `MissingExtra` without DuckDB, `LogCorrupt` for JSON that is no line of a ledger,
    `StorageError` where DuckDB gives up.
    """
    with _database(memory) as table:
        _load(table, files)
        _join_prices(table)
        ttls = _ttls(table)
        table.execute(_calls_query(ttls))
        dearest_misses, remarks = _judged(table)
        sessions = {index: session for index, (session, _) in remarks.items()}
        verdicts = {index: verdict for index, (_, verdict) in remarks.items() if verdict}
        return Added(
            _summary(table, by, dearest_misses, ttls),
            sessions,
            verdicts,
            _one(table, "SELECT count(*) FROM lines WHERE body IS NULL"),
            (session_rows := _sums(table, ttls, "session", "session", "min(calls.n)", MOST_LANES)),
            list(_parts(table, ttls)),
            _about(table, {row.name for row in session_rows}),
        )


def _parts(
    table: DuckDBPyConnection, ttls: Sequence[int]
) -> Iterator[tuple[Row, str, str, int, int, float | None, int]]:
    rows = _sums(table, ttls, "project || chr(10) || program", "project, program", "min(calls.n)")
    lost = {
        key: values
        for key, *values in _rows(
            table,
            "SELECT project || chr(10) || program, count(*), sum(lost), sum(usd), count(*) - count(usd) "
            "FROM calls JOIN missed USING (n) GROUP BY ALL",
        )
    }
    for row in rows:
        project, _, program = row.name.rpartition("\n")
        n, tokens, usd, n_unpriced = lost.get(row.name, (0, 0, None, 0))
        yield replace(row, name=project), project, program, int(n), int(tokens), usd, int(n_unpriced)


def _about(table: DuckDBPyConnection, sessions: set[str]) -> dict[str, tuple[str, str, str, float]]:
    found = _rows(
        table,
        "SELECT session, coalesce(any_value(titles.text), ''), any_value(program), any_value(project), min(began) "
        "FROM calls LEFT JOIN (SELECT about, max_by(text, n) AS text FROM remarks WHERE remark = 'title' GROUP BY about) "
        "titles ON titles.about = session GROUP BY session",
    )
    return {
        session: (title, program, project, at) for session, title, program, project, at in found if session in sessions
    }


def write_by_session(files: Sequence[str], to: str, memory: str = MEMORY) -> int:
    """Write the lines of the ledgers in `files` into the Parquet file `to`, each with its session and its place.

    Gives how many they are.

    Columns `session`, `n`, `line`, in the order of the first two: `judged_rows` takes one session's lines by `n`. A
    remark stands in the session it is about. Raises `MissingExtra` without DuckDB, `StorageError` where DuckDB gives
    up.
    """
    with _database(memory) as table:
        _load(table, files)
        target = to.replace("'", "''")
        table.execute(f"COPY ({_BY_SESSION}) TO '{target}' (FORMAT parquet)")
        return _one(table, f"SELECT count(*) FROM read_parquet('{target}')")  # noqa: S608 - quoted above


def _load(table: DuckDBPyConnection, files: Sequence[str]) -> None:
    for step in filter(str.strip, _LOADED.split(";")):
        table.execute(step, {"paths": list(files)} if "$paths" in step else None)


@contextmanager
def _database(memory: str) -> Iterator[DuckDBPyConnection]:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra("--engine duckdb", "duckdb") from None
    with TemporaryDirectory(prefix="contextkit-") as folder:
        config: dict[str, Any] = {
            "memory_limit": memory,
            "temp_directory": folder,
            "threads": min(THREADS, os.cpu_count() or 1),
        }
        table = duckdb.connect(str(Path(folder) / "report.duckdb"), config=config)
        try:
            yield table
        except duckdb.Error as error:  # its text may quote a line
            name = type(error).__name__
            raise StorageError(
                f"DuckDB gave up ({name}): free disk space, split the ledger, or shorten its lines"
            ) from None
        finally:
            table.close()


def _ttls(table: DuckDBPyConnection) -> list[int]:
    """Every lifetime that something in the ledger was written for, and those of ledgers that name none."""
    keys = _rows(table, "SELECT DISTINCT unnest(json_keys(writes)) FROM said WHERE json_type(writes) = 'OBJECT'")
    return sorted({*_TTLS_OF_COLUMNS.values(), *(int(key) for (key,) in keys if re.fullmatch(r"\d{1,9}", key))})


def _calls_query(ttls: Iterable[int]) -> str:
    """The query that makes the table `calls`, with a column of tokens for each lifetime."""
    return _CALLS.format(
        writes=",\n    ".join(f"{_write_of(ttl)} AS written_{ttl}" for ttl in ttls),
        written=" + ".join(f"written_{ttl}" for ttl in ttls),
        write_cost=" + ".join(
            f"placed.written_{ttl} * rates.{'write_long' if is_long_ttl(ttl) else 'write_short'}" for ttl in ttls
        ),
        partial=_PARTIAL,
    )


def _write_of(ttl: int) -> str:
    """Tokens that a call wrote for so long: 0 where its writes do not name the lifetime, null where it is unknown.

    A row of before writes were keyed by lifetime has `write_5m` and `write_1h`, see `Usage.from_json`.
    """
    place = f"'$.\"{ttl}\"'"
    old = "0"
    for provider, (short, long) in [*OLD_TTLS.items(), ("", (300, 3600))]:
        is_provider = f"said.provider = '{provider}'" if provider else f"said.provider NOT IN ({_OLD_PROVIDERS})"
        if ttl in (short, long):
            old = f"CASE WHEN {is_provider} THEN usage.{'write_5m' if ttl == short else 'write_1h'} ELSE 0 END"
    conditions = (
        "CASE json_type(writes)"
        f" WHEN 'OBJECT' THEN CASE WHEN json_type(writes, {place}) IS NULL THEN 0"
        f" ELSE TRY_CAST(json_extract_string(writes, {place}) AS BIGINT) END"
        " WHEN 'NULL' THEN NULL"
        f" ELSE CASE WHEN usage IS NULL THEN NULL ELSE {old} END END"
    )
    return f"CASE WHEN free.model IS NULL THEN {conditions} ELSE coalesce({conditions}, 0) END"


_OLD_PROVIDERS = ", ".join(f"'{provider}'" for provider in OLD_TTLS)


def _rows(table: DuckDBPyConnection, query: str) -> Iterator[tuple[Any, ...]]:
    """Row by row, on a connection of its own, so that others may be asked meanwhile."""
    cursor = table.cursor().execute(query)
    for batch in iter(partial(cursor.fetchmany, BATCH), []):
        yield from batch


def _one(table: DuckDBPyConnection, query: str) -> int:
    return int(next(_rows(table, query))[0])


def _join_prices(table: DuckDBPyConnection) -> None:
    """The price of each model at each quarter of an hour somebody asked it, and which models are free to write."""
    quarter_of, tier_of = "CAST(floor(began / 900) AS BIGINT)", "coalesce(usage.service_tier, '')"
    query = f"SELECT DISTINCT provider, model, {quarter_of}, {tier_of} FROM said WHERE id IS NOT NULL"  # noqa: S608 - names are ours
    rates: list[tuple[Any, ...]] = []
    for provider, model, quarter, tier in _rows(table, query):
        try:
            writes_cost, tiers = prices.price_rows(provider, model, quarter * 900.0, tier)
        except UnknownModel:
            continue  # the summary names the model
        ends = [1 << 62, *(above for above, _ in tiers)]
        rates += [
            (provider, model, quarter, tier, above, end, writes_cost, *per)
            for end, (above, per) in zip(ends, tiers, strict=False)
        ]
        rates = _written(table, "rates", rates, BATCH)
    _written(table, "rates", rates)
    models = list(_rows(table, "SELECT DISTINCT provider, model FROM said WHERE id IS NOT NULL"))
    _written(table, "free", [pair for pair in models if _is_free_to_write(*pair)])


def _is_free_to_write(provider: str, model: str) -> bool:
    """As the judge sees it: a bill that says nothing of writes is whole."""
    bill = Usage(fresh=1, read=0, output=0)
    return complete_usage(Exchange("", "", "", 0.0, None, None, provider, model, None, bill, None, None)) is not None


def _written(
    table: DuckDBPyConnection, name: str, rows: list[tuple[Any, ...]], least: int = 1
) -> list[tuple[Any, ...]]:
    """What is left to write: nothing, or `rows` while they are fewer than `least`."""
    if len(rows) < least:
        return rows
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        marks = ", ".join(["(" + ", ".join("?" * len(part[0])) + ")"] * len(part))
        table.execute(f"INSERT INTO {name} VALUES {marks}", [value for row in part for value in row])  # noqa: S608 - names are ours
    return []


_Remarks = dict[int, tuple[str, str]]
"""Place of a miss → whose call it was, and the provider's own diagnosis."""


def _judged(table: DuckDBPyConnection) -> tuple[list[Miss], _Remarks]:
    """The misses, the dearest where they are too many, and whose they are.

    Each that lost something is noted in `missed`.
    """
    dearest_misses, remarks, lost = list[Miss](), _Remarks(), list[tuple[Any, ...]]()
    for session, lines in groupby(_rows(table, _BY_SESSION), key=lambda line: line[0]):
        places = list[int]()
        for call in analyzed_calls(record for _, n, body in lines if (record := _placed(places, n, body))):
            if call.miss:
                place = places[call.index]
                dearest_misses.append(replace(call.miss, index=place))
                remarks[place] = session, call.verdict
                lost += [(place, call.miss.lost_tokens, call.miss.cost_usd)] if call.miss.lost_tokens else []
        if len(dearest_misses) > 2 * MOST_MISSES:
            dearest_misses = dearest(dearest_misses, MOST_MISSES)
            remarks = {miss.index: remarks[miss.index] for miss in dearest_misses}
        lost = _written(table, "missed", lost, BATCH)
    _written(table, "missed", lost)
    return _in_order(table, dearest(dearest_misses, MOST_MISSES), remarks)


def _placed(places: list[int], n: int, body: str) -> Any:
    record = decode(body.encode("utf-8"))
    if isinstance(record, Exchange):
        places.append(n)
    return record


def _in_order(table: DuckDBPyConnection, dearest_misses: list[Miss], remarks: _Remarks) -> tuple[list[Miss], _Remarks]:
    """The misses in the order of the ledger, each with its place among the calls."""
    wanted = {miss.index for miss in dearest_misses}
    numbered = "SELECT n, row_number() OVER (ORDER BY n) - 1 FROM said WHERE id IS NOT NULL"
    places = {n: place for n, place in _rows(table, numbered) if n in wanted}
    ordered = sorted((replace(miss, index=places[miss.index]) for miss in dearest_misses), key=lambda miss: miss.index)
    return ordered, {place: remarks[n] for n, place in places.items()}


def _summary(table: DuckDBPyConnection, by: str, dearest_misses: list[Miss], ttls: Sequence[int]) -> Summary:
    sums = partial(_sums, table, ttls)
    has_sessions = _one(table, "SELECT count(DISTINCT session) FROM calls") > 1
    lane = "session || '/' || lane" if has_sessions else "lane"
    has_tokens = "prompt + coalesce(output, 0) > 0"
    is_unpriced = f"NOT has_price AND billed_usd IS NULL AND {has_tokens}"
    unpriced = f"SELECT model, tier FROM calls WHERE {is_unpriced} GROUP BY ALL ORDER BY min(n)"  # noqa: S608 - ours
    groups = sums(GROUPS[by], GROUPS[by], "1") if by else []
    total = sums("'all'", "()", "1")
    return Summary(
        total=total[0] if total else Row("all", 0, 0, 0, ZERO, None, None, 0),
        models=tuple(sums("model", "model", "min(calls.n)")),
        lanes=tuple(sums(lane, "session, lane", "min(calls.n)", MOST_LANES)),
        misses=tuple(dearest_misses),
        hit_rates=tuple(_rates(table)),
        models_without_price=tuple(unpriced_name(*row) for row in _rows(table, unpriced)),
        groups=tuple(groups),
    )


def _sums(
    table: DuckDBPyConnection, ttls: Sequence[int], name: str, group: str, order: str, most: int = 0
) -> list[Row]:
    counts = [_SUM.format(name=name) for name in ("fresh", "read", *(f"written_{ttl}" for ttl in ttls), "output")]
    query = _SUMS.format(
        name=name,
        counts=", ".join([*counts, *_QUALITIES]),
        group=group,
        order=f"sum(prompt) DESC NULLS LAST LIMIT {most}" if most else order,
    )
    rows = _rows(table, query)
    return [_duck_row(row, ttls) for row in (sorted(rows, key=lambda row: row[-1]) if most else rows)]


def _duck_row(values: tuple[Any, ...], ttls: Sequence[int]) -> Row:
    name, calls, billed, priced, *counts, estimated, cost, uncached, n_misses = values[:-_N_LATER]
    list_cost, unpriced, partial, *recorded_and_placeholders, _ = values[-_N_LATER:]
    n_recorded, recorded_usd, n_comparable, comparable_usd, recorded_list_usd = recorded_and_placeholders[:5]
    n_placeholders, tokens, n_estimated, tokens_estimated, hidden_usd = recorded_and_placeholders[5:]
    numbers = [None if count is None else int(count) for count in counts]
    qualities = zip(COUNTERS, numbers[-len(COUNTERS) :], strict=True)
    fresh, read, *written, output = numbers[: -len(COUNTERS)]
    usage = Usage(
        fresh,
        read,
        output=output,
        estimated=bool(estimated),
        writes=zip(ttls, written, strict=True),
        qualities={counter: QUALITIES[rank] for counter, rank in qualities if rank},
    )
    return Row(
        name,
        calls,
        billed,
        priced,
        usage,
        cost,
        uncached,
        n_misses,
        list_cost,
        unpriced,
        partial,
        RecordedCost(n_recorded, recorded_usd, n_comparable, comparable_usd, recorded_list_usd),
        PlaceholderOutput(n_placeholders, int(tokens), n_estimated, int(tokens_estimated), hidden_usd),
    )


_N_LATER = 14
"""Columns of `_SUMS` behind the misses."""


def _rates(table: DuckDBPyConnection) -> Iterator[float | None]:
    """The hit rate of each call, or of as many neighbours together as `Summary.hit_rates` says."""
    n = _one(table, "SELECT count(*) FROM calls")
    together = 1
    while n >= 2 * MOST_RATES * together:
        together *= 2
    numbered = "SELECT read / nullif(prompt, 0) AS rate, row_number() OVER (ORDER BY n) - 1 AS place FROM calls"
    query = f"SELECT avg(rate) FROM ({numbered}) GROUP BY place // {together} ORDER BY place // {together}"  # noqa: S608 - a number of ours
    return (row[0] for row in _rows(table, query))
