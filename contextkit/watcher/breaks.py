"""The broken prefix of two request bodies given by hand, for assertions in tests, and findings as texts of a failing test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest, UsageError
from contextkit.ledger.changes.kinds import gaps_between
from contextkit.ledger.parsed_call import ParsedCall
from contextkit.lint.finding import Finding, RequestPlace
from contextkit.lint.requests.findings import Spot, all_codes, findings_of_gaps
from contextkit.watcher.guard import parsed_body


def breaks(before: Any, after: Any) -> str:
    """Describe how `after` breaks the prefix of `before`, in several lines; empty where it does not.

    Both are bytes, a mapping, a contextkit `Request` or `PromptLayout`. Raises `UsageError` for anything else and
    `UnreadableRequest` for an unknown body; either names the argument.
    """
    one, other = _read("before", before), _read("after", after)
    if one.endpoint != other.endpoint:
        return f"  the requests are of two endpoints: {one.endpoint}, then {other.endpoint}"
    gaps = gaps_between(_all_cached(one), other)
    return listed(findings_of_gaps(gaps, other.call, Spot("", 2, ""), all_codes(), "guard"))


def _all_cached(sent: ParsedCall) -> ParsedCall:
    """Treat a call without breakpoints as if it had one at its end."""
    if any(block.marker is not None for block in sent.blocks) or not sent.blocks:
        return sent
    return replace(sent, blocks=[*sent.blocks[:-1], sent.blocks[-1].marked({"type": "ephemeral"})])


def _read(side: str, value: Any) -> ParsedCall:
    """Parse one of two bodies; an error names the argument."""
    try:
        body = _bytes_of(value)
        if not body.strip():
            raise UnreadableRequest("body", "empty")
        return parsed_body(body, "", at=0.0)
    except UnreadableRequest as error:
        raise UnreadableRequest(side if error.path == "body" else f"{side}.{error.path}", error.what) from None
    except UsageError as error:
        raise UsageError(f"{side}: {error}") from None


def listed(findings: Iterable[Finding]) -> str:
    """Format findings for a failing test: repeated ones once with their count, and where to read more.

    Empty where there are none.
    """
    together: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        together.setdefault((finding.code, _INDEX.sub("[]", _path_of(finding))), []).append(finding)
    texts = [
        "\n".join([format_finding(same[0]), *([f"  times   {len(same)}"] if len(same) > 1 else [])])
        for same in together.values()
    ]
    if not texts:
        return ""
    code, *more = dict.fromkeys(code for code, _ in together)
    others = f" (or {', '.join(more)})" if more else ""
    return "\n".join([*texts, f"why, and what to do: contextkit lint --explain {code}{others}"])


_INDEX = re.compile(r"\[\d+\]")
"""Index in a path; it moves with the conversation: `messages[4]` in one turn is `messages[6]` in the next."""


def _path_of(finding: Finding) -> str:
    return finding.place.path if isinstance(finding.place, RequestPlace) else str(finding.place)


def format_finding(finding: Finding) -> str:
    """Format a finding for a failing test: level, path, byte offset, and a window of both sides."""
    place = finding.place
    if not isinstance(place, RequestPlace):
        return f"{finding.code} {finding.message} at {place}"
    lines = [
        f"{finding.code}{_name_of(finding.code)}: {finding.message}",
        f"  level   {place.level}",
        f"  path    {place.path}",
        f"  offset  byte {place.offset}",
        f"  before  {place.was!r}",
        f"  after   {place.now!r}",
        *([f"  sent    {place.caller}"] if place.caller else []),
    ]
    return "\n".join(lines)


def _name_of(code: str) -> str:
    hazard = all_codes().hazards.get(code)
    return f" {hazard.name}" if hazard else ""


def _bytes_of(value: Any) -> bytes:
    """Return a request as bytes: itself, its body, or as an SDK would serialize it."""
    body = getattr(value, "body", None)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(body, bytes):
        return body
    if callable(body):  # a layout: it holds blocks only
        return bytes(body(b"{}"))
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), default=_dumped).encode(
            "utf-8", "surrogatepass"
        )
    raise UsageError(f"a request is a dict, bytes, a Request or a PromptLayout, not {type(value).__name__}")


def _dumped(value: Any) -> Json:
    """Serialize a model of the SDK as the SDK does; any other iterable as a list."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", exclude_unset=True, by_alias=True)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise UsageError(f"{type(value).__name__} in a request body has no JSON form")
