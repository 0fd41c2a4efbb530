"""Logs of Inspect (`inspect_ai`): `.eval`, which is a zip of JSON files, and `.json`.

Takes a source, gives one call for each event of type `model`. Prompts are not given: the events of newer logs refer
to messages that stand elsewhere.

* `output.usage` leaves the cached tokens out of `input_tokens`; reasoning tokens are inside `output_tokens`.
* `cache: read` is Inspect's own response cache: such a reply was billed by nobody and is not counted.
* A log without events says `model_usage` of each sample, one without samples that of the run: rows that are marked as
  sums, on lanes named after the model.
"""

from __future__ import annotations

import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from contextkit.importers.field_maps import FieldMap, first_at, text_at, value_at
from contextkit.importers.format import has_names
from contextkit.importers.rows import bare, rows, table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import Source, load_json
from contextkit.importers.transcript import plausible, recorded_id
from contextkit.ledger.calls import Record

FIELDS = FieldMap(
    at="timestamp",
    ended_at="completed",
    prompt="output.usage.input_tokens",
    read="output.usage.input_tokens_cache_read",
    write="output.usage.input_tokens_cache_write",
    output="output.usage.output_tokens",
    total="output.usage.total_tokens",
    reading="exclusive",
    billed_usd="output.usage.total_cost",
)
MAGIC = b"PK\3\4"
ADDED_UP = "all calls of this model"
MOST_BYTES = 1 << 30
"""What a file of the archive may unpack to: what says more of itself is no sample, and would fill the memory."""
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError),
    *(ValueError, NotImplementedError, RuntimeError, KeyError),
)
"""What `zipfile` raises for an archive whose places, sizes, names, methods, checksums or contents are wrong."""
_MEMBER = re.compile(rb"(?:header\.json|_journal/|samples/|summaries\.json)")


def is_inspect(head: bytes) -> bool:
    """Return whether a file that starts like this is a log.

    >>> is_inspect(b'{"version":2,"status":"success","eval":{"task":"t"}}'), is_inspect(b'{"version":2,"status":"success"}')
    (True, False)
    """
    if head.startswith(MAGIC):
        return _MEMBER.match(head, 30) is not None
    start = bare(head)[:512]
    return start.startswith(b"{") and has_names(start, "version status eval")


def read(source: Source) -> Iterator[Record]:
    """The calls of a log, sample by sample."""
    calls, n_cached = _Calls(source), 0
    if source.head.startswith(MAGIC):
        yield from _archive(source, calls)
    else:
        for number, log in rows(source):
            calls.header(log)
            samples = log.get("samples")
            for sample in samples if isinstance(samples, list) else ():
                yield from calls.sample(number, sample)
    yield from calls.rest()
    n_cached = calls.n_cached
    if n_cached:
        source.fault(0, f"{n_cached:,} replies came from Inspect's own response cache; not counted")
    calls.finish()


def _archive(source: Source, calls: _Calls) -> Iterator[Record]:
    """The samples of a zip, in the order they were written."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(source.whole()))
    except DAMAGE as error:
        source.fault(0, f"a damaged .eval ({error}); nothing of it was read")
        return
    with archive:
        members = archive.namelist()
        header = next((name for name in ("header.json", "_journal/start.json") if name in members), None)
        if header is not None:
            calls.header(_member(source, archive, header))
        for name in members:
            if name.startswith("samples/"):
                yield from calls.sample(0, _member(source, archive, name))


def _member(source: Source, archive: zipfile.ZipFile, name: str) -> dict[str, Any]:
    try:
        if archive.getinfo(name).file_size > MOST_BYTES:
            source.fault(0, f"a file of the .eval of more than {MOST_BYTES >> 20:,} MiB; passed over")
            return {}
        value = load_json(archive.read(name))
    except DAMAGE as error:
        source.fault(0, f"a file of the .eval that cannot be read ({type(error).__name__}); passed over")
        return {}
    return value if isinstance(value, dict) else {}


class _Calls(SessionCalls):
    """The calls of one log."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, "inspect")
        self.run, self.started, self.n_cached, self.n_rows = source.label, 0.0, 0, 0
        self.sums: dict[str, Any] = {}

    def header(self, log: dict[str, Any]) -> None:
        """What a log says of the run as a whole."""
        self.run = first_at(log, "eval.eval_id eval.run_id eval.created", recorded_id) or self.run
        self.started = first_at(log, "stats.started_at eval.created", plausible) or 0.0
        self.sums = table(value_at(log, "stats.model_usage"))

    def sample(self, number: int, sample: object) -> Iterator[Record]:
        """The calls of a sample, or their sums."""
        said = table(sample)
        session = f"{self.run}/{said.get('id')}#{said.get('epoch')}"
        events = said.get("events")
        n_before = self.n_rows
        for place, event in enumerate(events if isinstance(events, list) else ()):
            if isinstance(event, dict) and event.get("event") == "model":
                yield from self._call(number, f"{session}/{place}", session, event)
        if self.n_rows == n_before:
            yield from self._added_up(number, session, table(said.get("model_usage")))

    def rest(self) -> Iterator[Record]:
        """The sums of a log in which no sample is told."""
        if not self.n_rows:
            yield from self._added_up(0, self.run, self.sums)

    def _call(self, number: int, name: str, session: str, event: dict[str, Any]) -> Iterator[Record]:
        self.n_rows += 1
        if event.get("cache") == "read":
            self.n_cached += 1
            return
        if event.get("pending") or not self.is_new(name):
            return
        error = str(event["error"]).split("\n", 1)[0][:80] if event.get("error") else None
        yield from self._row(number, event, text_at(event, "model"), id=name, session=session, error=error)

    def _added_up(self, number: int, session: str, models: dict[str, Any]) -> Iterator[Record]:
        for model, said in models.items():
            if self.is_new(f"{session} {model}"):
                self.n_rows += 1
                yield from self.remark("sum", f"{session}/{model}", ADDED_UP)
                row, name = {"output": {"usage": said}}, f"{session}/{model}"
                yield from self._row(number, row, model, id=name, session=session, lane=model, at=self.started)

    def _row(self, number: int, row: dict[str, Any], model: str, **known: Any) -> Iterator[Record]:
        host, _, rest = model.partition("/")
        names = (host, rest) if rest else ("", model)
        yield from self.call(number, FIELDS.call(self.source, number, row, names=names, **known))
