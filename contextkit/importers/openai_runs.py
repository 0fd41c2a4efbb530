"""Runs of an agent kept as their messages in OpenAI's format: tau-bench's results, and lists of conversations with
`messages`.

Takes a source, gives one call for each assistant message, the messages before it as its request. Bills, models and
times are in none of these; a run that names its model or dates its messages is believed.

* A run is `{"task_id", "trial", "traj": […]}` (tau-bench, github.com/sierra-research/tau-bench) or `{"messages": […]}`.
* What was sent had tools and settings too, which no run holds: a body has the model, where that is known, and the
  messages.
* An assistant message that nothing comes before is a greeting of the agent's program and no call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from contextkit.importers.provider_names import UNKNOWN, provider_and_model
from contextkit.importers.read_once import ReadOnce
from contextkit.importers.rows import bare, rows
from contextkit.importers.source import Source
from contextkit.importers.transcript import EARLIEST, plausible
from contextkit.ledger.calls import Bodies, ModelCall, Record

MESSAGES = ("traj", "messages", "trajectory")
"""Names of the list of messages in a run."""
NAMES = ("id", "task_id", "trial", "conversation_id", "session_id")
"""What tells one run from another."""
WRAPPERS = {"runs": 2, "simulations": 2}
_NEAR = 200


def is_openai_runs(head: bytes) -> bool:
    """Return whether a file that starts like this holds such runs.

    >>> is_openai_runs(b'[{"task_id":0,"traj":[{"role":"system"}]}]'), is_openai_runs(b'{"request":{"messages":[{"role":"user"}]}}')
    (True, False)
    """
    start = bare(head)
    first = start.lstrip(b"[ \r\n\t")[:_NEAR].replace(b" ", b"").replace(b"\n", b"")
    is_run = (
        b'"traj"' in start
        or first.startswith(b'{"messages":[')
        or (first.startswith(b'{"task_id"') and b'"messages"' in start)
    )
    return start[:1] in (b"{", b"[") and is_run and b'"role"' in start and b'"contextkit_ledger"' not in start


def read(source: Source) -> Iterator[Record]:
    """The calls of all runs, run by run."""
    once, n_untimed, names = ReadOnce(source, "openai run", "runs were"), 0, dict[str, int]()
    for line, run in rows(source, WRAPPERS):
        messages = next((run[key] for key in MESSAGES if isinstance(run.get(key), list)), None)
        if messages is None or not all(isinstance(message, dict) and "role" in message for message in messages):
            source.fault(line, "no run with a list of messages; passed over")
            continue
        said = [*map(orjson.dumps, messages)]
        if once.is_new(f"{[run.get(key) for key in NAMES]} {b','.join(said).decode()}"):
            n_untimed += not any(plausible(message.get("timestamp")) for message in messages)
            yield from _calls(_named(source, run, names), run, messages, said)
    once.finish()
    if n_untimed:
        source.fault(0, f"{n_untimed:,} of its runs say no time; their calls are put a second apart")


def _named(source: Source, run: dict[str, Any], names: dict[str, int]) -> str:
    """A name for a session that no other run of the file has."""
    said = [f"{key} {run[key]}" for key in NAMES if isinstance(run.get(key), str | int)]
    name = f"{source.label} {' '.join(said) or 'run'}"
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 and said else f"{name} #{names[name]}"


def _calls(session: str, run: dict[str, Any], messages: list[dict[str, Any]], said: list[bytes]) -> Iterator[Record]:
    """A call for each assistant message; a body grows by what was said since the one before."""
    model_said = run.get("model")
    named = model_said if isinstance(model_said, str) else ""
    provider, model = provider_and_model("", named) if named else ("openai", UNKNOWN)
    front = b'{"model":%b,"messages":[' % orjson.dumps(named) if named else b'{"messages":['
    sent, number, last = bytearray(), 0, EARLIEST
    for message, spelling in zip(messages, said, strict=True):
        own = plausible(message.get("timestamp"))
        last = own or last
        if message["role"] == "assistant" and sent:
            number, last = number + 1, own or last + 1
            yield ModelCall(
                id=f"{session}/{number}",
                session=session,
                at=last,
                provider=provider,
                model=model,
                prompt=Bodies(front + bytes(sent) + b"]}"),
            )
        sent += (b"," if sent else b"") + spelling
