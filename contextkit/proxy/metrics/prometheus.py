"""Counters of what passed, as Prometheus reads them.

Takes reports of calls, gives text. Source of the form: prometheus.io/docs/instrumenting/exposition_formats (text
0.0.4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping

from contextkit.cache.usage import Usage
from contextkit.canonical import Json
from contextkit.terminal import sanitize

_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds."""
_MOST_MODELS = 200
"""Names of models come from requests: beyond this many they are counted as `other`."""
_KINDS: Mapping[str, str] = {
    "input": "prompt",
    "read": "read",
    "write": "written",
    "output": "output",
}
"""Label → the counter of a bill; one that is unknown adds nothing."""
_HELP = {
    "calls_total": "Model calls that ended.",
    "failures_total": "Calls that did not end well, by error.",
    "unbilled_calls_total": "Calls whose bill is unknown; they are in no token counter.",
    "tokens_total": "Tokens billed: input holds read and write.",
    "misses_total": "Calls that read less than they could have, by cause.",
    "lost_tokens_total": "Tokens those calls did not read, by cause.",
    "findings_total": "Breaks of a prefix, by hazard.",
    "repairs_total": "Requests repaired, by repair.",
    "passed_total": "Requests that are no model call the proxy knows, passed on unread, by response status.",
    "refused_total": "Calls that a budget had no room for; they were not passed on.",
    "skipped_total": "Calls that were passed on and not analysed, as the queue was full.",
    "cost_usd_total": "Recorded cost of calls, their list price where none is recorded.",
}


class Metrics:
    """Everything counted so far."""

    CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self._sums: dict[str, defaultdict[tuple[tuple[str, str], ...], float]] = {
            name: defaultdict(float) for name in _HELP
        }
        self._first_bytes: dict[str, list[float]] = {}
        self._models: set[str] = set()

    def take(self, report: Json) -> None:
        """Count a call, what was passed on unread, or refused; a report of anything else is passed over."""
        if "refused" in report and "summary" not in report:
            self._add("refused_total", 1, reason="budget")
        if "passed" in report and "summary" not in report:
            self._add("passed_total", 1, status=str(report["passed"]["status"]))
        if "skipped" in report and "summary" not in report:
            self._add("skipped_total", report["skipped"]["calls"], reason="queue_full")
        row = report.get("exchange")
        if row is None:
            return
        model = self._model(row["model"])
        usage = Usage.from_json(row["usage"]) if row["usage"] else Usage()
        self._add("calls_total", 1, model=model)
        if row["error"]:
            self._add("failures_total", 1, model=model, error=row["error"][:60])
        for kind, counter in _KINDS.items():
            tokens = getattr(usage, counter)
            if tokens is not None:
                self._add("tokens_total", tokens, model=model, kind=kind)
        self._add("unbilled_calls_total", 1 if usage.prompt is None else 0, model=model)
        self._add("cost_usd_total", report["cost_usd"] or 0.0, model=model)
        self._judged(report, model)
        if row["first_byte_at"] is not None:
            self._time(model, row["first_byte_at"] - row["at"])

    def text(self) -> bytes:
        """All of it."""
        return sanitize("".join(line + "\n" for line in self._lines()), keep="\n").encode()

    def _judged(self, report: Json, model: str) -> None:
        if report["lost_tokens"]:
            self._add("misses_total", 1, model=model, cause=report["cause"])
            self._add("lost_tokens_total", report["lost_tokens"], model=model, cause=report["cause"])
        for finding in report["findings"]:
            self._add("findings_total", 1, model=model, code=finding["code"])
        for name in report["repairs"]:
            self._add("repairs_total", 1, repair=name)

    def _model(self, name: str) -> str:
        if name not in self._models and len(self._models) < _MOST_MODELS:
            self._models.add(name)
        return name if name in self._models else "other"

    def _add(self, name: str, amount: float, **labels: str) -> None:
        self._sums[name][tuple(labels.items())] += amount

    def _time(self, model: str, seconds: float) -> None:
        """Counts of each bucket, of what is beyond the last, and the sum."""
        counts = self._first_bytes.setdefault(model, [0.0] * (len(_BUCKETS) + 2))
        counts[bisect_left(_BUCKETS, seconds)] += 1
        counts[-1] += seconds

    def _lines(self) -> Iterator[str]:
        for name, sums in self._sums.items():
            yield from (f"# HELP contextkit_{name} {_HELP[name]}", f"# TYPE contextkit_{name} counter")
            yield from (f"contextkit_{name}{_labels(labels)} {_number(value)}" for labels, value in sums.items())
        yield "# HELP contextkit_first_byte_seconds From the request to the head of its response."
        yield "# TYPE contextkit_first_byte_seconds histogram"
        for model, counts in self._first_bytes.items():
            yield from _histogram(model, counts)


def _histogram(model: str, counts: list[float]) -> Iterator[str]:
    total = 0.0
    for bound, count in zip((*map(_number, _BUCKETS), "+Inf"), counts[:-1], strict=True):
        total += count
        yield f"contextkit_first_byte_seconds_bucket{_labels((('model', model), ('le', bound)))} {_number(total)}"
    yield f"contextkit_first_byte_seconds_sum{_labels((('model', model),))} {_number(counts[-1])}"
    yield f"contextkit_first_byte_seconds_count{_labels((('model', model),))} {_number(total)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    """Escaped as the format wants it.

    >>> _labels((("model", 'a"b'),))
    '{model="a\\\\"b"}'
    """
    escaped = ((name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, value in labels)
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}"
