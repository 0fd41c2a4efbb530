"""A conversation in a file, as request bodies in order.

Takes a body, a list of them, lines of either (a recorder's `{"request": …}` rows too), or the log of a `Context`; gives
bodies. What a line holds besides a chat request (a reply, an error) is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from contextkit.canonical import Json, parse
from contextkit.errors import NotSerialisable, UsageError

_INSIDE = ("request", "body", "request_body", "kwargs", "input")
"""Fields under which recorders keep a body."""


def bodies_in(path: Path) -> list[Mapping[str, Json]]:
    """The bodies of a file, or of a folder that `Context.open` wrote.

    Raises `UsageError` where there is none with messages.
    """
    file = path / "log.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"{file} is no file: give a request body as JSON, lines of them, or the folder of a Context")
    values = list(_values(file.read_bytes(), file))
    is_log = values and isinstance(values[0], Mapping) and values[0].get("kind") == "opened" and "digest" in values[0]
    found = [_logged(file)] if is_log else [body for value in values if (body := _body(value)) is not None]
    if not found:
        raise UsageError(f"{file}: no /chat/completions body in it; each has messages")
    return found


def _values(raw: bytes, file: Path) -> Iterator[Json]:
    """One JSON value, its items where it is a list, or one a line."""
    try:
        value = parse(raw)
    except NotSerialisable:
        for number, line in enumerate(filter(None, raw.splitlines()), 1):
            try:
                yield parse(line)
            except NotSerialisable as fault:
                raise UsageError(f"{file}, line {number}: no JSON ({fault})") from None
        return
    yield from value if isinstance(value, list) else [value]


def _body(value: Json) -> Mapping[str, Json] | None:
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("messages"), list):
        return value
    return next((found for name in _INSIDE if (found := _body(value.get(name))) is not None), None)


def _logged(file: Path) -> Mapping[str, Json]:
    """What the conversation of a log would send next, in the words every engine takes; the log is only read."""
    from contextkit.log.log import Log
    from contextkit.log.turns import Turns
    from contextkit.providers.openai_compatible import OpenAICompatible
    from contextkit.providers.rendering import PromptStore

    with Log.open(file) as log:
        provider = OpenAICompatible("any", host="vllm")
        body: Mapping[str, Json] = parse(PromptStore().layout(log, Turns.over(log), provider).body(b"{}"))
        return body
