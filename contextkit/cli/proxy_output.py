"""What the terminal shows of calls that passed: a line each, a line a break, and at the end what it came to.

Takes reports, gives text. Writing is done in a thread of its own: a terminal that stands still holds no call up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.ledger.figures import dollars
from contextkit.terminal import echo, echo_error, sanitize, sanitize_json


def lines_of(report: Json) -> Iterator[str]:
    """A call, and what it broke.

    >>> usage = {"fresh": 3, "read": 900, "writes": {"300": 97}, "output": 20}
    >>> row = {"model": "claude-sonnet-5-5", "session": "proxy-1", "usage": usage, "error": None}
    >>> times = {"at": 1.0, "first_byte_at": 1.25, "ended_at": 2.0}
    >>> print(*lines_of({"call": row | times, "hit_rate": 0.9, "cause": None, "lost_tokens": 0, "repairs": [], "findings": []}))
    claude-sonnet-5-5    90.0 %  read      900  write       97  fresh        3     250 /   1000 ms  proxy-1
    """
    row, usage, rate = report["call"], report["call"]["usage"], report["hit_rate"]
    cells = [f"{row['model'] or 'unknown model':<18}"]
    if usage is None:
        cells.append("bill unknown")
    else:
        share = "  ? %" if rate is None else f"{rate:>5.1%}".replace("%", " %")
        parts = {"read": usage["read"], "write": Usage.from_json(usage).written, "fresh": usage["fresh"]}
        cells += [f"{share:>7}", *(f"{name} {'?' if n is None else f'{n:,}':>8}" for name, n in parts.items())]
    ends = row["first_byte_at"], row["ended_at"]
    times = ("     ?" if end is None else f"{(end - row['at']) * 1000:>6.0f}" for end in ends)
    cells += [f"{' / '.join(times)} ms", row["session"]]
    if row["error"]:
        cells.append(row["error"])
    if report["lost_tokens"]:
        cells.append(f"missed {report['lost_tokens']:,} ({report['cause']})")
    if report["repairs"]:
        cells.append(f"repaired: {', '.join(report['repairs'])}")
    yield "  ".join(cells)
    for finding in report["findings"]:
        text = f"  ! {finding['code']} {finding['message']}: "
        if "path" in finding:
            text += f"{finding['path']} byte {finding['offset']}"
        if finding.get("was") or finding.get("now"):
            text += f", was {finding['was']!r}, now {finding['now']!r}"
        if tokens := finding["cost_tokens"]:
            text += f"; about {tokens:,} tokens billed again instead of read"
            text += f", {dollars(finding['cost_usd'])}" if finding["cost_usd"] else ""
        yield text


def summary_of(report: Json) -> Iterator[str]:
    """What it came to, line by line."""
    breaks = ", ".join(f"{code} × {n}" for code, n in sorted(report["breaks"].items(), key=lambda pair: -pair[1]))
    calls, passed = report["summary"]["total"]["calls"], report.get("passed", 0)
    yield f"{calls} call{'' if calls == 1 else 's'} · {report['text']}"
    if refused := report.get("refused"):
        yield f"refused, as the budget had no room: {refused} call{'' if refused == 1 else 's'}"
    if n_capped := report.get("capped"):
        yield f"output limit lowered to what the budget had left: {n_capped} call{'' if n_capped == 1 else 's'}"
    if sockets := report.get("websockets"):
        yield f"not read: {sockets} web socket{'' if sockets == 1 else 's'}, whose calls are in none of these figures"
    if passed:
        yield f"passed on unread: {passed} other request{'' if passed == 1 else 's'}"
    skipped = report.get("skipped")
    if skipped:
        calls = f"{skipped['calls']:,} request{'' if skipped['calls'] == 1 else 's'} or responses"
        yield f"not analysed: {calls}, {skipped['bytes']:,} bytes: more came than could be analysed (--queue-mb)"
    if breaks:
        yield f"breaks: {breaks}"


_COUNTED = {"refused": "refused", "websocket": "websockets", "capped": "capped"}
"""Kind of report that the summary adds up → its field there."""


class ConsoleOutput:
    """Standard output, written elsewhere."""

    def __init__(self, *, is_json: bool, is_quiet: bool) -> None:
        """Everything as JSON, or nothing but the first and the last word."""
        self._is_json, self._is_quiet, self._has_begun = is_json, is_quiet, False
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._texts: SimpleQueue[str | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="contextkit-terminal", daemon=True)
        self._thread.start()

    def began(self, url: str, upstream: str, record: str = "") -> None:
        """It listens."""
        self._has_begun = True
        if self._is_json:
            self._texts.put(sanitize_json(canonical({"url": url, "upstream": upstream}).decode()))
            return
        self._texts.put(f"{url} → {upstream}")
        if not self._is_quiet:
            destination = f"recording to {record}" if record else "recording nothing (--record runs.jsonl would)"
            self._texts.put(f"{destination}; give a client this address as its base URL; Ctrl-C ends it")

    def report(self, report: Json) -> None:
        """A call, the summary, or trouble."""
        kind = next((kind for kind in _PLAIN if kind in report), "call")
        if kind in self._counts:
            self._counts[kind] += 1
        elif kind == "summary":
            report = {**report, **{_COUNTED[name]: n for name, n in self._counts.items() if n}}
        if "skipped" in report and kind == "call":
            return  # the summary tells how many they were
        if kind == "trouble":
            echo_error(f"contextkit: {report['trouble']}")
        elif not self._has_begun:
            return  # it never listened: there is nothing to sum up
        elif self._is_json:
            self._texts.put(sanitize_json(canonical(report).decode()))
        elif kind == "capped" and self._counts[kind] > 1:
            return  # told once; the line of each call and the summary tell the rest
        elif kind == "summary" or not self._is_quiet:
            self._texts.put("\n".join(sanitize(line, keep="") for line in _PLAIN[kind](report)))

    def close(self) -> None:
        """Write what is left, as far as somebody reads."""
        self._texts.put(None)
        self._thread.join(2.0)

    def _write(self) -> None:
        while (text := self._texts.get()) is not None:
            try:
                echo(text)
            except (BrokenPipeError, ValueError):
                return  # nobody reads any more; calls go on


_PLAIN: dict[str, Callable[[Json], Iterator[str]]] = {
    "trouble": lambda report: iter([report["trouble"]]),
    "summary": summary_of,
    "passed": lambda report: iter([f"  passed on unread: {report['passed']['text']}"]),
    "refused": lambda report: iter([f"  refused: {report['refused']['path']}: {report['refused']['text']}"]),
    "capped": lambda report: iter([f"  {report['capped']['path']}: {report['capped']['text']}; said once"]),
    "websocket": lambda report: iter([f"  not read: {report['websocket']['path']}: {report['websocket']['text']}"]),
    "call": lines_of,
}
"""Key that a report has → its lines."""
