"""Hazards that say what was said before in other bytes, as they show in requests."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Literal

from tests.lint.injection.mutations.mutation import CLAUDE, Mutation
from tests.lint.injection.tape import (
    Call,
    Slot,
    Tape,
    arguments,
    edit_arguments,
    in_content,
    part,
    requests,
    results,
    texts,
)

Json = Any


def completion_order(tape: Tape, turn: int, rng: Random) -> int | None:
    """Results of parallel calls stand in the order they came in, and are rebuilt in the order of the calls."""
    found = [(i, place) for i in range(len(tape.calls) - 1) if (place := _parallel(tape.calls[i])) is not None]
    if not found:
        return None
    i, place = rng.choice(found)
    call = tape.calls[i]
    items = call.said[place:] if call.wire != CLAUDE else call.said[place]["content"]
    bare = [{key: value for key, value in item.items() if key != "cache_control"} for item in items]
    marker = next((item["cache_control"] for item in items if "cache_control" in item), None)
    order = list(range(len(bare)))
    while order == sorted(order):
        rng.shuffle(order)
    mixed = [bare[k] for k in order]
    if marker:
        mixed[-1] = {**mixed[-1], "cache_control": marker}
    items[:] = mixed
    call.said[place:] = items if call.wire != CLAUDE else call.said[place:]
    return i + 1


def _parallel(call: Call) -> int | None:
    """Where two or more results stand at the end."""
    if call.wire == CLAUDE:
        last = [one.get("type") for one in call.said[-1]["content"]]
        return len(call.said) - 1 if last.count("tool_result") == len(last) > 1 else None
    n = 0
    while n < len(call.said) and (
        call.said[-1 - n].get("role") == "tool" or call.said[-1 - n].get("type") == "function_call_output"
    ):
        n += 1
    return len(call.said) - n if n > 1 else None


def merged(tape: Tape, turn: int, rng: Random) -> int | None:
    """Two messages of the user that follow one another are joined when the history is loaded."""
    joint = rng.choice(("\n\n", "\n", " "))
    for i, call in enumerate(tape.calls):
        message = call.said[call.first]
        slot = next(in_content(message))
        front = "Here is what you should know first: the user writes from a phone."
        if i >= turn:
            slot.text = f"{front}{joint}{slot.text}"
        elif call.wire == CLAUDE:
            message["content"].insert(0, part(call, front))
        else:
            call.said.insert(
                call.first,
                {**message, "content": front if isinstance(message["content"], str) else [part(call, front)]},
            )
    return turn


def new_ids(tape: Tape, turn: int, rng: Random) -> int | None:
    """Ids of calls are minted when stored messages are rendered: once on resume, or for each request."""
    is_each, seed = rng.random() < 0.5, rng.getrandbits(60)
    prefix = rng.choice(("call_", "toolu_", "chatcmpl-tool-"))
    if not requests(tape.calls[turn - 1]):
        return None
    for i, call in enumerate(tape.calls[turn:]):
        mine = Random(seed + i * is_each)
        names: dict[str, str] = {}
        _rename(call.said, partial(_minted, names, mine, prefix))
    return turn


def _minted(names: dict[str, str], rng: Random, prefix: str, old: str) -> str:
    return names.setdefault(old, f"{prefix}{rng.getrandbits(96):024x}")


def _rename(value: Json, name: Callable[[str], str]) -> None:
    if isinstance(value, list):
        for item in value:
            _rename(item, name)
    elif isinstance(value, dict):
        is_call = value.get("type") in ("tool_use", "function")
        for key, item in value.items():
            if key in ("tool_use_id", "tool_call_id", "call_id") or (key == "id" and is_call):
                value[key] = name(item)
            elif key in ("content", "tool_calls"):
                _rename(item, name)


def keys_in_another_order(tape: Tape, turn: int, rng: Random) -> int | None:
    """Arguments of earlier calls went through a store that sorts their keys, or through another dumper."""
    ways: list[Callable[[Json], Json]] = [
        lambda given: dict(sorted(given.items())),
        lambda given: {key: given[key] for key in sorted(given, key=lambda key: (len(key), key))},
        lambda given: dict(reversed(given.items())),
    ]
    way, n = rng.choice(ways), len(requests(tape.calls[turn - 1]))
    before = json.dumps([arguments(one).text for one in requests(tape.calls[turn])[:n]])
    for call in tape.calls[turn:]:
        for request in requests(call)[:n]:
            edit_arguments(request, way)
    after = json.dumps([arguments(one).text for one in requests(tape.calls[turn])[:n]])
    return turn if after != before else None


_FOLDS: tuple[Callable[[str], str], ...] = (
    str.strip,
    lambda text: "\n".join(line.rstrip() for line in text.splitlines()),
    lambda text: re.sub(r"\n{2,}", "\n", text),
    lambda text: text.replace("\t", "    "),
    lambda text: text.replace("\n", "\r\n"),
    lambda text: " ".join(text.split()),
    lambda text: re.sub(r"\n\n+", "\n\n", text.strip()),
)


def blanks_folded(tape: Tape, turn: int, rng: Random) -> int | None:
    """Stored texts are tidied when they are loaded: answers, results, or both."""
    folds = list(_FOLDS)
    rng.shuffle(folds)
    take: Callable[[Call], list[Slot]] = rng.choice(
        (lambda call: texts(call, "assistant"), results, lambda call: [*texts(call, "assistant"), *results(call)])
    )
    n = len(take(tape.calls[turn - 1]))
    fold = next(
        (fold for fold in folds if any(fold(slot.text) != slot.text for slot in take(tape.calls[turn - 1])[:n])), None
    )
    if fold is None:
        return None
    known = {slot.text for slot in take(tape.calls[turn - 1])}
    for call in tape.calls[turn:]:
        for slot in take(call):
            slot.text = fold(slot.text) if slot.text in known else slot.text
    return turn


_ACCENTS = (
    "Best regards, José Muñoz, Zürich",
    "I am Zoë, from Málaga.",
    "Ciao, è tutto perché così è facile.",
    "Größe: 42",
)


_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")


def other_letters(tape: Tape, turn: int, rng: Random) -> int | None:
    """Letters with accents are composed in one place and decomposed in another.

    A Mac's file names, a database that normalises.
    """
    text, forms = rng.choice(_ACCENTS), rng.sample(_FORMS, 2)
    for i, call in enumerate(tape.calls):
        slot = texts(call, "user")[0]
        slot.text = unicodedata.normalize(forms[i >= turn], f"{slot.text}\n{text}")
    return turn


def other_numbers(tape: Tape, turn: int, rng: Random) -> int | None:
    """Whole numbers in arguments come back from a store as floats, or floats as whole numbers."""
    n = len(requests(tape.calls[turn - 1]))
    before = json.dumps([arguments(one).text for one in requests(tape.calls[turn])[:n]])
    for call in tape.calls[turn:]:
        for request in requests(call)[:n]:
            edit_arguments(request, _floats)
    after = json.dumps([arguments(one).text for one in requests(tape.calls[turn])[:n]])
    return turn if before != after else None


def _floats(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


MUTATIONS = (
    Mutation("CKM11", "results of parallel calls in order of completion", completion_order),
    Mutation("CKM10", "messages of one role joined", merged),
    Mutation("CKM13", "ids of calls minted anew", new_ids),
    Mutation("CKM14", "keys of arguments in another order", keys_in_another_order),
    Mutation("CKM14", "white space of stored texts folded", blanks_folded),
    Mutation("CKM14", "composed and decomposed letters", other_letters),
    Mutation("CKM14", "1 becomes 1.0", other_numbers),
)
