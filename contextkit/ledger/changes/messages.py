"""Names what changed in the message history: each function says how a change shows its kind, None where it does not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import orjson

from contextkit.canonical import Json
from contextkit.facts.load import built_in_table
from contextkit.ledger.changes.comparison import Comparison
from contextkit.ledger.changes.history import (
    MEDIA,
    added_blocks,
    bodies,
    is_answer,
    is_elided,
    is_model_switch,
    is_placeholder,
    is_same_but_blanks,
    is_still_sent,
    last_message_index,
    message_blocks,
    moved_to_newest,
    n_blocks_cut_in_front,
    n_images_lost,
    recorded_model,
    removed_blocks,
    shortened,
)
from contextkit.ledger.changes.values import FormatChange, differing_strings, format_change, paired_blocks, texts_of
from contextkit.ledger.parsed_call import ParsedCall
from contextkit.prompt.block import Block, json_bytes, text_of
from contextkit.prompt.diff import Change


def reasoning_removed(both: Comparison, change: Change) -> str | None:
    """Say that thinking of earlier turns left, also the think block within an answer's text."""
    pairs = [(text_of(was), text_of(now)) for was, now in paired_blocks(change) if was.type == "text"]
    if any("<think" in was and "<think" not in now for was, now in pairs):
        return "the thinking within an earlier answer's text is gone"
    left, before = set(map(_unsigned, change.now)), set(map(_unsigned, change.was))
    lost = [block for block in change.was if _unsigned(block) not in left]
    if not lost or any(block.type != "thinking" for block in lost):
        return None
    if any(_unsigned(block) not in before and block.type != "thinking" for block in change.now):
        return None
    fate = "changed" if any(_unsigned(block) not in before for block in change.now) else "left"
    return f"the thinking of earlier turns {fate}, {len(lost)} block{'s' * (len(lost) > 1)}"


def _unsigned(block: Block) -> bytes:
    """Its bytes without the signature of the thoughts behind it, which Gemini puts on calls and texts."""
    if block.type == "thinking" or not isinstance(block.value, dict) or "thoughtSignature" not in block.value:
        return block.body
    return json_bytes({name: value for name, value in block.value.items() if name != "thoughtSignature"})


_CONVERTED = frozenset({"thinking", "server_tool_use", "web_search_tool_result", "code_execution_tool_result"})


def converted_for_model(both: Comparison, change: Change) -> str | None:
    """Say that reasoning or server tools left the history, or came into it, in the call that changes the model."""
    touched = [block.type in _CONVERTED for block in (*removed_blocks(change), *added_blocks(change))]
    if not is_model_switch(both) or not any(touched):
        return None
    was, now = recorded_model(both.before), recorded_model(both.after)
    return f"the history was converted for the change of model from {was} to {now}"


def window_moved(both: Comparison, change: Change) -> str | None:
    """Say that the history begins later."""
    before, after = message_blocks(both.before), message_blocks(both.after)
    lost = n_blocks_cut_in_front(before, after)
    if not lost or change.at >= len(both.before.blocks) - len(before) + _MAX_OPENING + lost:
        return None
    return f"the history begins {lost} block{'s' * (lost > 1)} later than in the call before"


_MAX_OPENING = 8
"""Blocks of the first messages that may be kept in front of the window."""


_MIN_SHORTENED = 100
"""Bytes that an item has to lose, to be called shortened."""


def shortened_in_place(both: Comparison, change: Change) -> str | None:
    """Say that earlier items gave way to a placeholder, or were cut."""
    pairs = [(was, now, text_of(was), text_of(now)) for was, now in shortened(change)]
    cleared = [pair for pair in pairs if pair[0].type == "result" and is_placeholder(*pair[2:])]
    if cleared and len(cleared) == len(pairs):
        lost = sum(len(pair[2]) - len(pair[3]) for pair in cleared)
        plural = "s" * (len(cleared) > 1)
        return f"{len(cleared)} earlier tool result{plural} gave way to a placeholder, {lost:,} characters less"
    cut = [len(was.body) - len(now.body) for was, now, *texts in pairs if is_elided(*texts)]
    cut = [lost for lost in cut if lost >= _MIN_SHORTENED]
    if not cut:
        return None
    return (
        f"{len(cut)} earlier item{'s' * (len(cut) > 1)} {'were' if len(cut) > 1 else 'was'} cut by {sum(cut):,} bytes"
    )


_MAX_RESULT_PIECE = 2_000
"""Characters of a reminder behind a tool's result; more than that is the result itself that was cut."""


def reminder_removed(both: Comparison, change: Change) -> str | None:
    """Say that text of what was the newest message is gone, and nothing new stands in its place."""
    if not change.was or not _was_newest(both, change):
        return _reminder_moved_on(both, change)
    lost = [block for block in removed_blocks(change) if not is_still_sent(both, block)]
    new = [
        block for block in added_blocks(change) if not lost or block.message <= lost[-1].message
    ]  # what the user says next is no replacement
    is_block = bool(lost) and not new and all(block.type == "text" and block.role != "assistant" for block in lost)
    is_part = len(lost) == len(new) == 1 and _is_shorter_part(lost[0], new[0])
    if not is_block and not is_part:
        return None
    n_characters = sum(len(text_of(block)) for block in lost) - sum(len(text_of(block)) for block in new)
    if n_characters <= 0:
        return None
    return f"{n_characters:,} characters that the newest message of the call before carried are not in it any more"


def _was_newest(both: Comparison, change: Change) -> bool:
    """Whether the message was the last the user's side said: the end of the call before, with messages of one role
    taken together.
    """
    last = last_message_index(both.before)
    return all(block.message >= last - 1 for block in change.was)


def _reminder_moved_on(both: Comparison, change: Change) -> str | None:
    """Text that stood at the end of the newest message stands at the end of the new one."""
    moved = moved_to_newest(both, change)
    if not moved or any(block.type != "text" or block.role == "assistant" for block in moved):
        return None
    return "the text at the end of the call before has left its message for the newest one"


def _is_shorter_part(was: Block, now: Block) -> bool:
    """Return whether a piece was taken from the end or the beginning of what the user or a tool said.

    Of a result no large one.
    """
    whole, left = text_of(was), text_of(now)
    is_part = bool(left.strip()) and (whole.startswith(left.rstrip()) or whole.endswith(left.lstrip()))
    return (
        is_part
        and was.role != "assistant"
        and was.type == now.type
        and (was.type == "text" or len(whole) - len(left) <= _MAX_RESULT_PIECE)
    )


_TEXT_KEYS = frozenset({"type", "text"})

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})


def shape_changed(both: Comparison, change: Change) -> str | None:
    """Say that the same text is a string once and a list of blocks once."""
    pairs = paired_blocks(change)
    if not pairs or not all(_is_shape_flip(*pair) for pair in pairs):
        return None
    return "the same text, once as a string and once as a list of blocks"


def _is_shape_flip(was: Block, now: Block) -> bool:
    one, other = orjson.loads(was.body), orjson.loads(now.body)
    return was.role == now.role and _as_plain_text(one) == _as_plain_text(other) and _has_shape_flip(one, other)


def _has_shape_flip(was: Json, now: Json) -> bool:
    """Return whether a string stands where a block or a list stands, at the same place."""
    if isinstance(was, str) or isinstance(now, str):
        return type(was) is not type(now)
    if isinstance(was, dict) and isinstance(now, dict):
        return any(_has_shape_flip(was.get(key), now.get(key)) for key in was.keys() & now.keys())
    return False


def _as_plain_text(value: Json) -> Json:
    """A list of one text block, and a text block, as its string."""
    if isinstance(value, list):
        return _as_plain_text(value[0]) if len(value) == 1 else [_as_plain_text(item) for item in value]
    if isinstance(value, dict):
        kind = value.get("type", "text")
        is_text = (
            isinstance(value.get("text"), str)
            and value.keys() <= _TEXT_KEYS
            and isinstance(kind, str)
            and kind in _TEXT_TYPES
        )
        return value["text"] if is_text else {key: _as_plain_text(item) for key, item in value.items()}
    return value


def order_changed(both: Comparison, change: Change) -> str | None:
    """Say that results, or calls, stand in another order, all of which stood there before."""
    touched = (*change.was, *change.now)
    if any(block.type not in ("result", "call") for block in touched):
        return None
    earlier, newest = message_blocks(both.before), max(block.message for block in message_blocks(both.before))
    # What the later call adds behind may say the same again; one that stands there more or less often did not move.
    later = [block for block in message_blocks(both.after) if block.message <= newest]
    was, now = (Counter(block.body for block in blocks) for blocks in (earlier, later))
    if any(not was[body] or was[body] != now[body] for body in bodies(touched)):
        return None
    return f"the {touched[0].type}s of one turn stand in another order"


def messages_merged(both: Comparison, change: Change) -> str | None:
    """Say that messages of one role became more, or fewer, with the same words."""
    change = change if change.now else _with_next(both, change)
    if not change.was or not change.now or not _has_one_role(change) or not is_same_but_blanks(change):
        return None
    was, now = _n_messages(both, change)
    if was == now and len(change.was) == len(change.now):
        return None
    n, m, what = (
        (was, now, "messages of one role")
        if was != now
        else (len(change.was), len(change.now), "text blocks of one message")
    )
    return f"{n} {what} became {m} with the same words"


def _with_next(both: Comparison, change: Change) -> Change:
    """The end of a message that seems gone, beside the same blocks at the front of the next message, where they are."""
    behind = both.after.blocks[change.at : change.at + len(change.was)] if change.is_first else ()
    return (
        replace(change, now=tuple(behind))
        if [one.body for one in behind] == [one.body for one in change.was]
        else change
    )


def _has_one_role(change: Change) -> bool:
    """Return whether one role says all of it, in text, or in blocks that kept their bytes."""
    blocks = (*change.was, *change.now)
    is_text = all(block.type == "text" for block in blocks)
    return len({block.role for block in blocks}) == 1 and (
        is_text or [one.body for one in change.was] == [one.body for one in change.now]
    )


def _n_messages(both: Comparison, change: Change) -> tuple[int, int]:
    """Messages that both sides stand in, the one before them counted where one side goes on in it."""
    was, now = (_message_starts(sent, blocks) for sent, blocks in ((both.before, change.was), (both.after, change.now)))
    before = int(not (was[0] and now[0]))
    return sum(was) + before, sum(now) + before


def _message_starts(sent: ParsedCall, blocks: Sequence[Block]) -> list[bool]:
    """For each of its neighbouring blocks, whether a message begins with it."""
    at = next(i for i, block in enumerate(sent.blocks) if block is blocks[0])
    return [i == 0 or sent.blocks[i - 1].message != sent.blocks[i].message for i in range(at, at + len(blocks))]


_CALL_FIELDS = built_in_table("fields.toml")["calls"]

_ID_FIELDS = frozenset(_CALL_FIELDS["ids"])


def ids_changed(both: Comparison, change: Change) -> str | None:
    """Say that blocks of earlier turns differ in ids alone."""
    pairs = paired_blocks(change)
    if not pairs or not all(_differs_in_id(*pair) for pair in pairs):
        return None
    return f"{len(pairs)} block{'s' * (len(pairs) > 1)} of earlier turns differ{'s' * (len(pairs) == 1)} only in ids"


def _differs_in_id(was: Block, now: Block) -> bool:
    return was.role == now.role and _body_without_ids(was) == _body_without_ids(now)


def _body_without_ids(block: Block) -> bytes:
    return orjson.dumps(_without_ids(orjson.loads(block.body)))


def _without_ids(value: Json) -> Json:
    """Without its ids; those inside a call's arguments are the model's own words and stay."""
    if not isinstance(value, dict):
        return value
    return {
        key: _without_ids(item) if key in _CALL_FIELDS["objects"] else item
        for key, item in value.items()
        if key not in _ID_FIELDS
    }


def json_rewritten(both: Comparison, change: Change) -> str | None:
    """Say that JSON means the same with other keys first, other blanks or other digits."""
    form = format_change(change)
    if form is FormatChange.NUMBERS:
        return "values of an earlier item are numerically equal and written otherwise"
    if form is not FormatChange.ORDER:
        return None
    what = (
        "the arguments of an earlier call" if any(block.type == "call" for block in change.was) else "an earlier item"
    )
    return f"JSON in {what} says the same with other keys first or other blanks"


def text_rewritten(both: Comparison, change: Change) -> str | None:
    """Say that a text differs in white space, escapes or composed letters alone."""
    form = format_change(change)
    if form is FormatChange.UNICODE:
        return "an earlier text is the same once it is unescaped and in composed form"
    is_blank_gone = len(change.was) != len(change.now) and _is_text_only(change) and is_same_but_blanks(change)
    if form is not FormatChange.BLANKS and not is_blank_gone:
        return None
    was, now = texts_of(change)
    return f"an earlier text is the same but for white space, {len(was):,} characters long then and {len(now):,} now"


def _is_text_only(change: Change) -> bool:
    return all(block.type == "text" for block in (*change.was, *change.now))


def image_changed(both: Comparison, change: Change) -> str | None:
    """Say that images of earlier messages are gone, gave way to text, or have other data."""
    pairs = paired_blocks(change)
    if pairs and all(_is_re_encoded(*pair) for pair in pairs):
        was, now = pairs[0]
        sizes = f"{len(was.body):,} bytes were sent, {len(now.body):,} are now"
        return f"the image at the same place has other data: {sizes}"
    n = len(change.was) if _is_image_removed(change) else 0
    if change.now and not n:
        n = n_images_lost(change) or _n_images_replaced_beside(both, change)
    if not n:
        return None
    return f"{n} image{'s' * (n > 1)} of earlier messages {'gave way to text' if change.now else 'are gone'}"


def _is_image_removed(change: Change) -> bool:
    return not change.now and all(n_images_lost(change) and block.type == "image" for block in change.was)


def _n_images_replaced_beside(both: Comparison, change: Change) -> int:
    """Images that the message lost where a text of it, which is another part, says now that they are gone."""
    added = [
        text_of(now).removeprefix(text_of(was))
        for was, now in paired_blocks(change)
        if text_of(now).startswith(text_of(was))
    ]
    if not any(len(text) < 300 and _IMAGE_WORDS.search(text) and _REMOVED_WORDS.search(text) for text in added):
        return 0
    beside = (one for one in both.changes if one.was and one.was[0].message == change.was[0].message)
    return sum(map(n_images_lost, beside))


_IMAGE_WORDS = re.compile(r"image|screenshot|picture|photo", re.IGNORECASE)

_REMOVED_WORDS = re.compile(r"remov|omit|clear|prun|elid|expire|strip|no longer|old|previous|deleted", re.IGNORECASE)


_MIN_DATA = 40
"""Characters from which on a string may be the data of an image; shorter ones that differ are its media type."""


def _is_re_encoded(was: Block, now: Block) -> bool:
    """Return whether only data differs: strings without blanks inside of a picture or a result that holds one."""
    values = orjson.loads(was.body), orjson.loads(now.body)  # without markers, which come and go
    pairs_of_strings = differing_strings(*values) if was.type == now.type else None
    is_media = was.type in MEDIA or any(
        word in was.body for word in (b'"image', b"data:image", b'"inline_data', b'"inlineData')
    )
    data = [pair for pair in pairs_of_strings or () if any(map(_is_image_data, pair))]
    return (
        is_media and bool(data) and all("/" in one for one, other in pairs_of_strings or () if (one, other) not in data)
    )


def _is_image_data(text: str) -> bool:
    return len(text) >= _MIN_DATA and not any(char.isspace() for char in text[:400])


_LARGE_TEXT = 1_000
"""Bytes from which on a block of text that moves is an attached file."""


def attachments_moved(both: Comparison, change: Change) -> str | None:
    """Say that attachments moved to a later message."""
    floats = [block for block in moved_to_newest(both, change) if _is_attachment(block)]
    if floats:
        return f"{len(floats)} attachment{'s' * (len(floats) > 1)} moved on to the newest message"
    moved = _moved_attachments(both, change)
    if not moved:
        return None
    was, now = moved[0]
    return f"{len(moved)} attachment{'s' * (len(moved) > 1)} moved from {was.path} to {now.path}"


def _moved_attachments(both: Comparison, change: Change) -> list[tuple[Block, Block]]:
    """Attachments that left their message, each with itself in a later one, an answer between: two messages made of one
    are no move.
    """
    after = message_blocks(both.after)
    lost = {block.body: block for block in change.was if _is_attachment(block) and not is_still_sent(both, block)}
    answers = [block.message for block in after if is_answer(block)] if lost else []
    pairs = [(lost[block.body], block) for block in after if block.body in lost]
    return [(was, now) for was, now in pairs if any(was.message < answer < now.message for answer in answers)]


def _is_attachment(block: Block) -> bool:
    return block.type in MEDIA or (block.type == "text" and block.role == "user" and len(block.body) >= _LARGE_TEXT)


def first_messages_changed(both: Comparison, change: Change) -> str | None:
    """Say that blocks of the first or second message are missing, new, moved or altered."""
    blocks = (*change.was, *change.now)
    if any(block.message > 1 or block.type not in ("text", "document") for block in blocks):
        return None
    how = "altered" if change.was and change.now else "missing" if change.was else "new"
    return f"a block of the first messages is {how}"


def edited(both: Comparison, change: Change) -> str | None:
    """Say that an earlier message is not as it was sent, where its change has no narrower kind."""
    n = len({block.message for block in change.was})
    return (
        f"{n} earlier message{'s' * (n != 1)} {'are' if n != 1 else 'is'} not as sent before"
        if n
        else "a message was put in"
    )
