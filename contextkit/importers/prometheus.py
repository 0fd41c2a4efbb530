"""Scrapes of the `/metrics` page of vLLM and SGLang: how much of what was sent came out of the prefix cache, interval
by interval.

Takes a source in the Prometheus text format, gives one row for each engine and interval between two scrapes. A row is
no call: it adds up all that ended in the interval, so it is never judged a miss (a remark `sum` says so). Writing costs
an engine nothing, so writes are 0.

* vLLM: `prefix_cache_queries_total` and `prefix_cache_hits_total`, in tokens (`gpu_` before them in older versions).
  SGLang: `prompt_tokens_total` and `cached_tokens_total`, all cache sources added. Both: `generation_tokens_total`.
* A file may hold several scrapes: a series that comes again begins the next one, and so does a comment or a line with a
  date.
* A scrape's time is that of its samples, else of the comment before it, else the file's own date.
* The first scrape is where counting starts. A file with one scrape only is compared with the file before it of the same
  name but for
  its digits (`metrics-001.prom`, `metrics-002.prom`); where there is none its row is all since the server was started.
* That prefix caching is off is a fault, once for each engine: vLLM's `cache_config_info` says so, no prompt was looked up
  while tokens were generated, or none of many tokens was read since the server was started.
* Counters that fall are a server that was started again: a fault, and the new count is the growth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from contextkit.cache.usage import Usage
from contextkit.importers.source import STDIN, Source
from contextkit.importers.transcript import EARLIEST, moment, plausible
from contextkit.ledger.calls import ModelCall, Record, Remark

Place = tuple[str, str, str]
"""Engine, model, and which of several engines of one server."""
METERS: dict[str, dict[str, str]] = {
    "vllm": {
        "prefix_cache_queries": "sent",
        "gpu_prefix_cache_queries": "sent",
        "prefix_cache_hits": "read",
        "gpu_prefix_cache_hits": "read",
        "generation_tokens": "output",
    },
    "sglang": {"prompt_tokens": "sent", "cached_tokens": "read", "generation_tokens": "output"},
}
"""Engine → its counter, without `_total` → what it counts, in tokens."""
_SAMPLE = re.compile(r"^(vllm|sglang)[:_](\w+?)(?:_total)?(?:\{(.*)\})?\s+(\S+)(?:\s+(-?[\d.]+))?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|(?<![\d.])1[5-9]\d{8}(?:\.\d+|\d{3})?(?![\d.])"
)
_RANKS = ("tp_rank", "pp_rank")
"""Labels of the parts of one engine, which all count the same tokens."""
_OPTIONS = {
    "vllm": "start vLLM with `--enable-prefix-caching`",
    "sglang": "start SGLang without `--disable-radix-cache`",
}
MANY_TOKENS = 100_000
"""Sent since a server was started: if none of them was read, it is said."""
UNTIMED = "its scrapes say no time; the file's own date stands in"


def is_scrape(head: bytes) -> bool:
    """Return whether a file that starts like this is such a page.

    >>> is_scrape(b"# HELP vllm:prompt_tokens_total Tokens"), is_scrape(b'{"vllm:": 1}')
    (True, False)
    """
    return not head.lstrip().startswith((b"{", b"[")) and _LINE.search(head) is not None


_LINE = re.compile(rb"(?m)^(?:# (?:HELP|TYPE) )?(?:vllm|sglang)[:_]\w+[ {]")


@dataclass(slots=True)
class _Scrape:
    """What one look at the counters saw."""

    line: int
    at: float | None = None
    seen: set[str] = field(default_factory=set)
    counts: dict[Place, dict[str, float]] = field(default_factory=dict)
    is_caching_off: bool = False
    """Whether the engine's configuration, as the page has it, says so."""


def read(source: Source) -> Iterator[Record]:
    """The intervals between the scrapes of a file, in its order."""
    server = re.sub(r"\d+", "#", source.name)
    key = ("prometheus", server)
    is_first = key not in source.faults.left
    intervals: _Intervals = source.faults.left.setdefault(
        key, _Intervals("stdin" if server == STDIN else Path(server).name)
    )
    intervals.source = source
    n_scrapes = 0
    for scrape in _scrapes(source):
        n_scrapes += 1
        yield from intervals.until(scrape)
    if n_scrapes == 1 and is_first:
        yield from intervals.since_start()


class _Intervals:
    """Follows the counters of a server from scrape to scrape, and from file to file."""

    source: Source
    """The file that is being read."""

    def __init__(self, server: str) -> None:
        self.server, self.at, self.n = server, 0.0, 0
        self.counts: dict[Place, dict[str, float]] = {}
        self.remarked: set[Place] = set()
        self.without_cache: set[Place] = set()

    def until(self, scrape: _Scrape) -> Iterator[Record]:
        """The rows of the interval that a scrape ends."""
        if scrape.at is not None and not self.source.is_new(
            b"scrape", f"{self.server} {scrape.at} {scrape.counts}".encode()
        ):
            self.source.fault(scrape.line, "a scrape that was read before; passed over")
            return
        at = self._time(scrape)
        for place, counts in scrape.counts.items():
            before = self.counts.get(place)
            if before is not None:
                yield from self._row(scrape.line, place, _growth(self.source, scrape.line, counts, before), self.at, at)
            self.counts[place] = counts
            self._check_caching(scrape, place)
        self.at = at

    def _check_caching(self, scrape: _Scrape, place: Place) -> None:
        counts, engine = scrape.counts[place], place[0]
        sent, read = counts.get("sent"), counts.get("read")
        if scrape.is_caching_off:
            what = 'prefix caching is off (enable_prefix_caching="False")'
        elif engine == "vllm" and sent == 0 and counts.get("output"):
            what = "prefix caching seems off (tokens were generated, no prompt was looked up)"
        elif sent is not None and sent >= MANY_TOKENS and read == 0:
            what = f"prefix caching may be off, or no two prompts begin alike (0 of {sent:,.0f} tokens read)"
        else:
            return
        if place not in self.without_cache:
            self.without_cache.add(place)
            self.source.fault(scrape.line, f"{what}: {_OPTIONS[engine]}")

    def since_start(self) -> Iterator[Record]:
        """The rows of the only scrape there is."""
        self.source.fault(0, "one scrape only: its row is all since the server was started")
        for place, counts in self.counts.items():
            yield from self._row(0, place, _growth(self.source, 0, counts, {}), self.at, self.at)

    def _time(self, scrape: _Scrape) -> float:
        at = scrape.at if scrape.at is not None else _dated(self.source)
        if scrape.at is None:
            self.source.fault(0, UNTIMED)
        if at < self.at:
            self.source.fault(
                scrape.line,
                "earlier than the scrape before it: a wrong clock, or scrapes out of order; taken as it stands",
            )
        return at

    def _row(self, line: int, place: Place, grown: dict[str, float], start: float, end: float) -> Iterator[Record]:
        usage = _usage(self.source, line, grown)
        if usage is None:
            return
        engine, model, number = place
        lane = f"{model} engine {number}" if number else model
        if place not in self.remarked:
            self.remarked.add(place)
            yield Remark("sum", f"{self.server}/{lane}", "all that ended between two scrapes")
        self.n += 1
        yield ModelCall(
            id=f"scrape/{self.n}",
            session=self.server,
            lane=lane,
            at=start,
            ended_at=end,
            provider=engine,
            model=model,
            usage=usage,
        )


def _growth(source: Source, line: int, counts: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """How much each counter grew; a server that was started again counts from zero.

    One that generated tokens and never looked a prompt up has no prefix cache: what was sent is not known.
    """
    has_fallen = any(count < before.get(meter, 0) for meter, count in counts.items())
    if has_fallen:
        source.fault(line, "counters fell: the server was started again; counted anew from here")
    grown = {meter: count - (0 if has_fallen else before.get(meter, 0)) for meter, count in counts.items()}
    if counts.get("sent") == 0 and counts.get("output"):
        del grown["sent"]
    return grown


def _usage(source: Source, line: int, grown: dict[str, float]) -> Usage | None:
    """The tokens of an interval, None where nothing ended in it."""
    sent, read, output = (
        None if grown.get(meter) is None else round(grown[meter]) for meter in ("sent", "read", "output")
    )
    if not (sent or read or output):
        return None
    if sent is None or read is None:
        return Usage(output=output)
    if read > sent:
        source.fault(line, "more read from the cache than was sent; its counts are unknown")
        return Usage(output=output)
    return Usage(fresh=sent - read, read=read, write_5m=0, write_1h=0, output=output)


def _scrapes(source: Source) -> Iterator[_Scrape]:
    """Each look at the counters of a file."""
    scrape: _Scrape | None = None
    dated: float | None = None
    before = b""
    for number, raw in source.lines():
        if raw == before:
            continue  # said twice: of one sample alone nothing was counted in between
        before = raw
        line = raw.decode("utf-8", "replace")
        sample = _SAMPLE.match(line)
        if sample is None:
            when = _date_of(line)
            if when is not None:
                dated = when
                if scrape is not None and scrape.counts:
                    yield scrape
                    scrape = None
            elif line.startswith(("vllm", "sglang")):
                source.fault(number, "no sample; passed over")
            continue
        series = line[: sample.start(4)].rstrip()
        if scrape is not None and series in scrape.seen:
            yield scrape
            scrape, dated = None, None
        if scrape is None:
            scrape = _Scrape(number, dated)
        scrape.seen.add(series)
        _take(source, number, sample, scrape)
    if scrape is not None:
        yield scrape


def _take(source: Source, number: int, sample: re.Match[str], scrape: _Scrape) -> None:
    """Put a sample where it counts."""
    engine, name, written, value, when = sample.groups()
    if when is not None and scrape.at is None:
        scrape.at = plausible(float(when))
    labels: dict[str, str] = dict(_LABEL.findall(written or ""))
    if name == "cache_config_info" and labels.get("enable_prefix_caching", "").lower() == "false":
        scrape.is_caching_off = True
    meter = METERS[engine].get(name)
    if meter is None:
        return
    if any(labels.get(rank, "0") != "0" for rank in _RANKS) or labels.get("cache_source") == "total":
        return
    try:
        count = float(value)
    except ValueError:
        count = math.nan
    if not (math.isfinite(count) and count >= 0):
        source.fault(number, "no count; passed over")
        return
    place: Place = (engine, labels.get("model_name", "unknown"), labels.get("engine", labels.get("dp_rank", "")))
    counts = scrape.counts.setdefault(place, {})
    counts[meter] = counts.get(meter, 0.0) + count


def _date_of(line: str) -> float | None:
    """The time that a comment, or a line of its own, says."""
    if line.startswith(("# HELP", "# TYPE")) or not (line.startswith("#") or line[:1].isdigit()):
        return None
    found = _DATE.search(line)
    if found is None:
        return None
    text = found[0].replace(",", ".")
    return moment(text) if "-" in text else plausible(float(text))


def _dated(source: Source) -> float:
    """When a file was written last; the first time we believe for what has no file."""
    return EARLIEST if source.name == STDIN else Path(source.name).stat().st_mtime
