"""Recorded request/response pairs of other projects' tests, against contextkit: what is parsed, accepted, predicted.

Takes the corpus `recorded-pairs.jsonl.gz`, gives a `Report`; run as a script it prints one:
`python -m tests.conformance.cassettes ../shared/data/agent-logs/recorded-pairs.jsonl.gz`.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2

from contextkit.importers.registry import records_at
from contextkit.importers.source import Faults
from contextkit.ledger.calls import ModelCall
from contextkit.models import find_model
from contextkit.providers.masking import INLINE_TOOLS, TOOL_CHANGES
from contextkit.providers.notices import BLOCKS, FIELDS
from contextkit.server import LocalServer

BETAS = {
    name
    for names in (*(row.headers for row in FIELDS), *BLOCKS.values(), (INLINE_TOOLS, TOOL_CHANGES))
    for name in names
}
HEADERS = {"authorization": "Bearer any", "anthropic-version": "2023-06-01", "anthropic-beta": ",".join(sorted(BETAS))}
"""Recordings hold no headers: every beta is opted in to."""
HOSTS = {
    "api.anthropic.com": "anthropic",
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "google",
    "bedrock-runtime.us-east-1.amazonaws.com": "bedrock",
}
"""Hosts whose endpoints the local provider has."""

Bill = tuple[int | None, int | None, int | None]
"""Whole prompt, read from the cache, generated."""


@dataclass
class Report:
    """The comparison of a corpus."""

    n_cassettes: int = 0
    n_calls: int = 0
    n_billed: int = 0
    """Calls whose response says what they cost."""
    unparsed: list[str] = field(default_factory=list)
    """Cassettes with a call that no record came of."""
    other_usage: list[str] = field(default_factory=list)
    """Calls whose usage is not the provider's."""
    accepted: Counter[str] = field(default_factory=Counter)
    """Host → requests that the local provider answered."""
    names_earlier: Counter[str] = field(default_factory=Counter)
    """Host → requests refused as they name a response, conversation or content that no recorded request made."""
    refused: list[str] = field(default_factory=list)
    """Requests that the real API answered and the local provider does not."""
    n_retired: int = 0
    """Accepted requests that name a model that is retired at the time of the replay."""
    n_reads_compared: int = 0
    n_reads_equal: int = 0
    """Calls where the prediction and the bill agree on whether anything was read."""
    above: list[str] = field(default_factory=list)
    """Calls that read in the prediction and not in the bill, or more than billed by 5 % and by 5 points of the prompt."""
    larger: list[str] = field(default_factory=list)
    """Calls where that is so in tokens only, as the prompt is estimated larger, or by less than 5 %."""
    errors: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Group → predicted prompt tokens over billed ones, less 1."""

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self.n_cassettes} cassettes, {self.n_calls} calls, {self.n_billed} with a bill"
        yield f"parsed: all but {len(self.unparsed)}; usage equal to the provider's: all but {len(self.other_usage)}"
        yield f"accepted {dict(self.accepted)}, {self.n_retired} with a retired model"
        yield f"refused {len(self.refused)}, and as they name what was made before {dict(self.names_earlier)}"
        yield f"reads agree in {self.n_reads_equal} of {self.n_reads_compared}"
        yield f"read predicted above the bill: {len(self.above)}; in tokens only: {len(self.larger)}"
        for group, errors in sorted(self.errors.items()):
            size = median(map(abs, errors))
            yield f"token error {group}: {len(errors)} calls, median {median(errors):+.1%}, median size {size:.1%}"
        for name in ("unparsed", "other_usage", "refused", "above"):
            yield from (f"{name}: {text}" for text in getattr(self, name)[:10])


def cassettes(path: Path) -> Iterator[dict[str, Any]]:
    """The corpus, one cassette after another."""
    return (json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines())


def compared(path: Path, *, is_full: bool = True, start: float = 1_790_000_000.0) -> Report:
    """Compare the corpus; every tenth cassette unless `is_full`."""
    report = Report()
    corpus = list(cassettes(path))[:: 1 if is_full else 10]
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalServer(now=start) as server,
        httpx2.Client(base_url=server.url, timeout=60) as http,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for cassette in corpus:
            report.n_cassettes += 1
            calls = [call for call in cassette["calls"] if "/threads/" not in call["url"]]
            _parse(report, cassette["cassette"], calls, Path(folder) / "pairs.jsonl")
            server.reset()
            for call in calls:
                _replay(report, cassette["cassette"], call, server, http)
    return report


def _parse(report: Report, name: str, calls: list[dict[str, Any]], file: Path) -> None:
    file.write_text("".join(json.dumps(call) + "\n" for call in calls), "utf-8")
    records = [record for record in records_at(file, Faults())[1] if isinstance(record, ModelCall)] if calls else []
    report.n_calls += len(calls)
    bills = [bill for call in calls if (bill := bill_of(call["response"])) is not None]
    report.n_billed += len(bills)
    left = Counter(_whole(record) for record in records if record.usage is not None)
    n_failed = sum(_has_failed(call) for call in calls)
    if len(records) < len({json.dumps([call["request"], call["response"]]) for call in calls}) - n_failed:
        report.unparsed.append(f"{name}: {len(records)} of {len(calls)}")
    for bill in dict.fromkeys(bills):
        equal = next((usage for usage in left if _is_same(bill, usage)), None)
        if equal is not None:
            del left[equal]
            continue
        parts = [usage for usage in left if all(here is not None for here in usage)]  # of one response's calls
        if tuple(map(sum, zip(*parts, strict=True))) != bill and not any(
            _is_same(bill, _added(one, other)) for one in parts for other in parts if one is not other
        ):
            report.other_usage.append(f"{name}: {bill} is not in {list(left)}")


def _whole(call: ModelCall) -> Bill:
    usage = call.usage
    assert usage is not None
    parts = (usage.fresh, usage.read, usage.write_5m or 0, usage.write_1h or 0)
    return None if None in parts else sum(part or 0 for part in parts), usage.read, usage.output


def _added(one: Bill, other: Bill) -> Bill:
    whole, read, output = ((left or 0) + (right or 0) for left, right in zip(one, other, strict=True))
    return whole, read, output


def _is_same(bill: Bill, usage: Bill) -> bool:
    """Whether a usage says what a bill says.

    What the bill leaves open may be anything; where it does not say what was read, the whole prompt may be unknown too.
    """
    if bill[1] is None and usage[:2] == (None, None):
        return bill[2] in (usage[2], None)
    return all(there in (here, None) for there, here in zip(bill, usage, strict=True))


def _has_failed(call: dict[str, Any]) -> bool:
    return isinstance(call["response"], dict) and bool(call["response"].get("error"))


def _replay(report: Report, name: str, call: dict[str, Any], server: LocalServer, http: httpx2.Client) -> None:
    at = urlsplit(call["url"])
    if at.netloc not in HOSTS or _has_failed(call):
        return
    host = HOSTS[at.netloc]
    before = len(server.ledger)
    answer = http.post(at.path, json=call["request"], headers=HEADERS)
    if answer.status_code != 200:
        names = any(call["request"].get(key) for key in ("previous_response_id", "conversation", "cachedContent"))
        if names and "not found" in answer.text:
            report.names_earlier[host] += 1
        else:
            report.refused.append(f"{name} {call['url']}: {answer.text[:300]}")
        return
    report.accepted[host] += 1
    model = find_model(str(call["request"].get("model") or unquote(at.path).removeprefix("/model/").partition("/")[0]))
    report.n_retired += bool(model and model.retired_on and model.retired_on < "2026-09-21")
    bill, row = bill_of(call["response"]), server.ledger[-1] if len(server.ledger) > before else None
    if bill is None or row is None or row.usage is None or row.usage.prompt is None or not bill[0]:
        return
    read, billed_read = row.usage.read or 0, bill[1] or 0
    report.n_reads_compared += 1
    report.n_reads_equal += bool(read) == bool(billed_read)
    if read > billed_read:
        share, billed_share = read / row.usage.prompt, billed_read / bill[0]
        text = f"{name}: {read} ({share:.0%}) read in the prediction, {billed_read} ({billed_share:.0%}) in the bill"
        is_above = billed_read == 0 or (read > 1.05 * billed_read and share > billed_share + 0.05)
        (report.above if is_above else report.larger).append(text)
    group = (
        f"{host}, {'with' if call['request'].get('tools') or call['request'].get('toolConfig') else 'without'} tools"
    )
    report.errors[group].append(row.usage.prompt / bill[0] - 1)


# The bill, read independently of contextkit
# -----------------------------------------------------------------------------------------------------


def bill_of(response: Any) -> Bill | None:
    """The bill of a response, None where it has none."""
    counts: dict[str, Any] = {}
    for event in _events(response):
        for holder in (event, event.get("message"), event.get("response")):
            for key in ("usage", "usageMetadata"):
                found = holder.get(key) if isinstance(holder, dict) else None
                counts.update({k: v for k, v in found.items() if v is not None} if isinstance(found, dict) else {})
    if not any(isinstance(count, int) and count for count in counts.values()):
        return None
    details = counts.get("prompt_tokens_details") or counts.get("input_tokens_details") or {}
    if "prompt_tokens" in counts:
        return counts["prompt_tokens"], details.get("cached_tokens"), counts.get("completion_tokens")
    if "promptTokenCount" in counts:
        output = counts.get("candidatesTokenCount", 0) + counts.get("thoughtsTokenCount", 0)
        beside = counts.get("toolUsePromptTokenCount", 0)
        return counts["promptTokenCount"] + beside, counts.get("cachedContentTokenCount", 0), output
    if "inputTokens" in counts:
        read, written = counts.get("cacheReadInputTokens"), counts.get("cacheWriteInputTokens")
        return counts["inputTokens"] + (read or 0) + (written or 0), read, counts.get("outputTokens")
    if "total_tokens" in counts or "input_tokens_details" in counts:
        return counts["input_tokens"], details.get("cached_tokens"), counts.get("output_tokens")
    if "input_tokens" in counts:
        read, written = counts.get("cache_read_input_tokens"), counts.get("cache_creation_input_tokens")
        return counts["input_tokens"] + (read or 0) + (written or 0), read, counts.get("output_tokens")
    return None


def _events(response: Any) -> Iterator[dict[str, Any]]:
    if isinstance(response, dict):
        yield response
    elif isinstance(response, str):
        for line in response.splitlines():
            data = line.removeprefix("data:").strip()
            if line.startswith("data:") and data.startswith("{"):
                yield json.loads(data)


if __name__ == "__main__":
    print(*compared(Path(sys.argv[1])).lines(), sep="\n")
