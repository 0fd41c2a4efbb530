"""Hazards of pictures, attachments and blocks at the front of a history, as they show in requests."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.lint.injection.mutations.mutation import CLAUDE, Mutation
from tests.lint.injection.tape import Call, Tape, part, picture, say

Json = Any


def _data(rng: Random, size: int) -> str:
    return "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=size))


def with_picture(tape: Tape, rng: Random) -> str:
    """A picture in the first words of the user, from the first call on."""
    data = "iVBORw0KGgoAAAANSUhEUgAA" + _data(rng, 4000)
    for call in tape.calls:
        _listed(call, call.said[call.first])["content"].insert(0, picture(call, data))
    return data


def _listed(call: Call, message: Json) -> Json:
    """A message whose content is a list."""
    if isinstance(message["content"], str):
        message["content"] = [part(call, message["content"])]
    return message


def picture_left_out(tape: Tape, turn: int, rng: Random) -> int | None:
    """Pictures that were seen give way to words."""
    with_picture(tape, rng)
    text = rng.choice(("[image omitted]", "[Image: already seen]", "(image removed to save context)"))
    for call in tape.calls[turn:]:
        call.said[call.first]["content"][0] = part(call, text)
    return turn


def picture_made_anew(tape: Tape, turn: int, rng: Random) -> int | None:
    """Pictures are scaled and packed again for each request, or in another size once they are old."""
    data = with_picture(tape, rng)
    other = data[:24] + _data(rng, rng.choice((1500, 4000)))
    for call in tape.calls[turn:]:
        call.said[call.first]["content"][0] = picture(call, other)
    return turn


def first_picture(tape: Tape, turn: int, rng: Random) -> int | None:
    """The first picture of a conversation comes with a new message."""
    place = len(tape.calls[turn].said) - 1
    data = _data(rng, 3000)
    for call in tape.calls[turn:]:
        message = call.said[place] if place < len(call.said) else None
        if message is None or message["role"] != "user":
            return None
        marker = message["content"][-1].pop("cache_control", None)
        message["content"].append({**picture(call, data), **({"cache_control": marker} if marker else {})})
    return turn


def floating_attachment(tape: Tape, turn: int, rng: Random) -> int | None:
    """A file that was attached stands in the newest message of the user's side, whichever that is."""
    if turn + 1 >= len(tape.calls):
        return None
    if rng.random() < 0.5:
        data = _data(rng, 3000)
        blocks = [picture(call, data) for call in tape.calls]
    else:
        lines = "\n".join(f"{n}: {rng.choice(('const', 'let', 'return', 'import'))} value{n};" for n in range(80))
        blocks = [part(call, f"Attached file config.ts:\n{lines}") for call in tape.calls]
    for call, block in list(zip(tape.calls, blocks, strict=True))[turn:]:
        say(call, block)
    return turn + 1


_CONTEXT = "<system-reminder>\nThese skills are available:\n- review: look over a change\n- release: write its notes\n</system-reminder>"
_HOOK = "<session-start-hook>The repository is on branch main; 3 tests fail.</session-start-hook>"


def not_restored(tape: Tape, turn: int, rng: Random) -> int | None:
    """Blocks that were put before the first message are not stored, and on resume they are missing, or in other places."""
    if len(tape.calls[turn - 1].said) - tape.calls[turn - 1].first < 2:
        return None
    tape.shift(turn, rng.uniform(20, 250))
    way = rng.randrange(3)
    for i, call in enumerate(tape.calls):
        message = _listed(call, call.said[call.first])
        blocks = [_CONTEXT, _HOOK]
        if i >= turn:
            blocks = [[_HOOK], [], [_CONTEXT]][way]
        message["content"][:0] = [part(call, text) for text in blocks]
    return turn


def refused_then_dropped(tape: Tape, turn: int, rng: Random) -> int | None:
    """A call is refused for its picture, and the next is sent without it."""
    with_picture(tape, rng)
    failed = tape.calls[turn - 1]
    failed.call = replace(failed.call, error="invalid_request_error")
    for call in tape.calls[turn : turn + rng.randint(1, 3)]:
        call.said[call.first]["content"].pop(0)
    return turn


MUTATIONS = (
    Mutation("CKM18", "pictures give way to words", picture_left_out),
    Mutation("CKM18", "pictures encoded anew", picture_made_anew),
    Mutation("CKM18", "the first picture", first_picture, (CLAUDE,)),
    Mutation("CKM18", "attachment in the newest message", floating_attachment),
    Mutation("CKM22", "blocks at the front lost on resume", not_restored),
    Mutation("CKM18", "picture dropped behind a refusal", refused_then_dropped),
)
