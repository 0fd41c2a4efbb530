"""Tasks of Cline and Roo Code, and of what descends from them (`tasks/<id>/ui_messages.json`): their bills.

Takes a source, gives one call for each message `api_req_started`. Prompts are not given: `api_conversation_history.json`
beside it holds the messages, not the system prompt.

* The text of such a message is JSON: `tokensIn`, `tokensOut`, `cacheReads`, `cacheWrites`, `cost`.
* Cline's `tokensIn` leaves the cached tokens out, but for hosts of which it takes the counters as they come. Roo Code,
  known by `apiProtocol`, puts them in: for `openai` always, for `anthropic` since 3.29.5 (November 2025). Less input
  than cached tokens can only leave them out.
* `deleted_api_reqs` and `subagent_usage` add up several calls: rows that are marked as sums. `condense_context` says only
  what the summary cost.
* The model stands in the message (`modelInfo`), else in `task_metadata.json`, else in the texts of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from contextkit.importers.field_maps import FieldMap, first_at, text_at
from contextkit.importers.rows import bare, rows, table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import STDIN, Source, is_packed, load_json
from contextkit.importers.spans import Counts, Reading
from contextkit.importers.transcript import plausible
from contextkit.ledger.calls import Record

FIELDS = FieldMap(prompt="tokensIn", read="cacheReads", write="cacheWrites", output="tokensOut", billed_usd="cost")
ROO_INCLUDES = 1_761_955_200.0
"""The first of November 2025: since then Roo Code's input holds the cached tokens of Anthropic's models too."""
WHOLE_PROMPT = frozenset(("openai", "litellm", "doubao", "fireworks", "hicap", "lmstudio", "qwen", "xai", "zai"))
"""Cline's names of hosts whose input holds the cached tokens."""
SUMS = {
    "deleted_api_reqs": "all calls that were deleted from the task at once",
    "subagent_usage": "all calls of a group of sub-agents",
}
CALL, CONDENSED = "api_req_started", "condense_context"
_MODEL = re.compile(rb"<model>([^<\\]{1,200})</model>")


def is_cline(head: bytes) -> bool:
    """Return whether a file that starts like this holds a task's messages.

    >>> is_cline(b'[{"ts":1767225610000,"type":"say","say":"text","text":""}]'), is_cline(b'[{"ts":1}]')
    (True, False)
    """
    start = bare(head)[:4096]
    return start.startswith(b"[") and b'"ts"' in start and re.search(rb'"type"\s*:\s*"(?:say|ask)"', start) is not None


def read(source: Source) -> Iterator[Record]:
    """The calls of a task in their order."""
    calls = SessionCalls(source, "cline")
    task = source.label if source.name == STDIN else Path(source.name).absolute().parent.name
    models = _Models(source)
    for number, message in rows(source):
        kind = str(message.get("say"))
        if "ts" not in message or "type" not in message:
            source.fault(number, "no message of a task; passed over")
        elif message["type"] == "say" and (kind in (CALL, CONDENSED) or kind in SUMS):
            yield from _records(calls, number, message, task, kind, models)
    calls.finish()


def _records(
    calls: SessionCalls, number: int, message: dict[str, Any], task: str, kind: str, models: _Models
) -> Iterator[Record]:
    said = table(message.get("contextCondense")) if kind == CONDENSED else table(message.get("text"))
    at = plausible(message.get("ts"))
    is_call = "tokensIn" in said or "tokensOut" in said or "cancelReason" in said or kind == CONDENSED
    if not is_call:
        if message.get("text") and not said:
            calls.source.fault(number, "a request whose text is no JSON; passed over")
        return
    name = f"{task}/{message['ts']}"
    if not calls.is_new(f"{name} {message.get('text')}"):
        return
    names = models.of(message, at)
    counts = FIELDS.counts(calls.source, number, said)
    reason = said.get("cancelReason")
    call = FIELDS.call(
        calls.source,
        number,
        said,
        names=names,
        billed=(counts, _reading(counts, said, names[0], at)),
        id=name,
        session=task,
        lane="main" if kind == CALL else kind,
        at=at or 0.0,
        error=str(reason).replace("user_cancelled", "aborted") if reason else None,
    )
    if kind in SUMS:
        yield from calls.remark("sum", f"{task}/{kind}", SUMS[kind])
    yield from calls.call(number, call)
    if kind == CONDENSED:
        calls.remark_next("compaction", "the history was condensed")


def _reading(counts: Counts, said: dict[str, Any], host: str, at: float | None) -> Reading:
    protocol = said.get("apiProtocol")
    if counts.cached > (counts.prompt or 0):
        return "exclusive"
    if protocol is None:
        return "inclusive" if host in WHOLE_PROMPT else "exclusive"
    return "inclusive" if protocol == "openai" or at is None or at >= ROO_INCLUDES else "exclusive"


class _Models:
    """Which host and model a task asked, as the files beside its messages say it."""

    def __init__(self, source: Source) -> None:
        self.uses: list[tuple[float, str, str]] = []
        self.named = ""
        if source.name == STDIN:
            return
        folder = Path(source.name).absolute().parent
        for use in _beside(source, folder / "task_metadata.json").get("model_usage") or []:
            names = text_at(use, "model_provider_id"), text_at(use, "model_id")
            self.uses.append((first_at(use, "ts", plausible) or 0.0, *names))
        conversation = folder / "api_conversation_history.json"
        if not self.uses and conversation.is_file():
            found = _MODEL.findall(conversation.read_bytes())
            self.named = found[-1].decode("utf-8", "replace") if found else ""

    def of(self, message: dict[str, Any], at: float | None) -> tuple[str, str]:
        """The host and the model of a call."""
        if named := text_at(message, "modelInfo.modelId"):
            return text_at(message, "modelInfo.providerId"), named
        before = [use for use in self.uses if at is None or use[0] <= at + 1] or self.uses[:1]
        return before[-1][1:] if before else ("", self.named)


def _beside(source: Source, path: Path) -> dict[str, Any]:
    """What a file beside the messages says; nothing where there is none that can be read."""
    if not path.is_file() or is_packed(str(path)):
        return {}
    try:
        value = load_json(path.read_bytes())
    except orjson.JSONDecodeError:
        source.fault(0, f"{path.name} beside it is no JSON: models are unknown where the messages do not name them")
        return {}
    return value if isinstance(value, dict) else {}
