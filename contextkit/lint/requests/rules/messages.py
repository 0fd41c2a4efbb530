"""Request rules on the message history (`CKM…`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

import orjson

from contextkit.canonical import Json
from contextkit.facts.load import built_in_table
from contextkit.ledger.judge import left_tokens
from contextkit.ledger.parsed_call import ParsedCall, reach_of
from contextkit.lint.requests.history import (
    MEDIA,
    added_blocks,
    bodies,
    front_cuts,
    is_answer,
    is_elided,
    is_image_toggled,
    is_model_switch,
    is_notice,
    is_placeholder,
    is_restored,
    is_same_but_blanks,
    is_still_sent,
    last_message_index,
    last_shortened_message,
    message_blocks,
    moved_to_newest,
    n_blocks_cut_in_front,
    n_body_bytes,
    n_images,
    n_images_lost,
    new_message_blocks,
    recorded_model,
    removed_blocks,
    shortened,
)
from contextkit.lint.requests.lifetimes import pause_text
from contextkit.lint.requests.rule import Calls, Change, Evidence, RequestRule, Step
from contextkit.lint.requests.usage import read_tokens
from contextkit.lint.requests.values import FormatChange, differing_strings, format_change, paired_blocks, texts_of
from contextkit.prompt.block import Block, json_bytes, text_of

_MIN_SNIPPET, _MAX_SNIPPET, _N_RECENT_BLOCKS, _MIN_QUOTES = 40, 80, 60, 3

_SHORT_CALL_MESSAGES = 3
"""Messages that a side call has at most, unless it repeats those of the conversation."""


@dataclass(frozen=True, slots=True)
class SideCall:
    """A call that nothing goes on from."""

    sent: ParsedCall
    """The call."""
    main: str
    """The conversation it stands beside: the longest of its session that began before it."""
    before: ParsedCall
    """The last call of that conversation in front of it."""
    behind: ParsedCall | None
    """The next one, None where none followed."""
    n_bytes: int
    """Of its messages."""
    quoted: bool
    """Whether it tells what the conversation said."""


def side_calls(calls: Calls) -> Iterator[SideCall]:
    """Every call that is alone in its conversation, in a session that has a longer one, in order.

    A question asked anew takes another way from a place where a conversation has been, and is none.
    """
    conversations = calls.conversations
    longer = {name: mine for name, mine in conversations.items() if len(mine) > 1}
    for mine in conversations.values():
        sent = mine[0]
        beside = [(len(them), name, them) for name, them in longer.items() if _is_beside(sent, them)]
        if len(mine) == 1 and beside and not any(_is_branch(sent, them) for _, _, them in beside):
            _, name, them = max(beside)
            yield _side_call(sent, name, them)


def _is_beside(sent: ParsedCall, them: Sequence[ParsedCall]) -> bool:
    return bool(sent.call.session) and them[0].call.session == sent.call.session and them[0].index < sent.index


def _is_branch(sent: ParsedCall, them: Sequence[ParsedCall]) -> bool:
    """Whether a conversation begins as it does, its last message aside: with its head, and what was said up to some
    turn.
    """
    whole, newest = _last_call_before(sent, them).blocks, last_message_index(sent)
    begun = [block for block in sent.blocks if block.message < newest]
    return (
        bool(begun) and len(begun) <= len(whole) and all(a.body == b.body for a, b in zip(begun, whole, strict=False))
    )


def _last_call_before(sent: ParsedCall, them: Sequence[ParsedCall]) -> ParsedCall:
    """The last of their calls in front of it."""
    return [one for one in them if one.index < sent.index][-1]


def _side_call(sent: ParsedCall, name: str, them: Sequence[ParsedCall]) -> SideCall:
    before = _last_call_before(sent, them)
    behind = next((one for one in them if one.index > sent.index), None)
    blocks = _message_blocks(sent)
    return SideCall(
        sent,
        name,
        before,
        behind,
        sum(len(block.body) for block in blocks),
        _has_quotes(blocks, _message_blocks(before)),
    )


def _message_blocks(sent: ParsedCall) -> list[Block]:
    return [block for block in sent.blocks if block.level == "messages"]


def _has_quotes(said: Sequence[Block], main: Sequence[Block]) -> bool:
    """Return whether words of the conversation stand in the side call, as its messages or within one of them."""
    text = "\n".join(map(text_of, said))
    snippets = [
        words[:_MAX_SNIPPET]
        for block in main[-_N_RECENT_BLOCKS:]
        if len(words := text_of(block).strip()) >= _MIN_SNIPPET
    ]
    n_quoted = sum(snippet in text for snippet in snippets)
    return n_quoted >= min(_MIN_QUOTES, max(1, len(snippets)))


def is_short(sent: ParsedCall) -> bool:
    """Return whether a call holds a question or two, no conversation."""
    return len({block.message for block in sent.blocks if block.level == "messages"}) <= _SHORT_CALL_MESSAGES


# CKM01 reasoning-stripped-on-replay
# ---------------------------------------------------------------------------------------------------------------------


def _reasoning_blocks_removed(step: Step, change: Change) -> Evidence | None:
    left, before = set(map(_unsigned, change.now)), set(map(_unsigned, change.was))
    lost = [block for block in change.was if _unsigned(block) not in left]
    if change.level != "messages" or not lost or any(block.type != "thinking" for block in lost):
        return None
    if any(_unsigned(block) not in before and block.type != "thinking" for block in change.now):
        return None
    fate = "changed" if any(_unsigned(block) not in before for block in change.now) else "left"
    return Evidence(f"the thinking of earlier turns {fate}, {len(lost)} block{'s' * (len(lost) > 1)}", lost[0].path)


def _unsigned(block: Block) -> bytes:
    """Its bytes without the signature of the thoughts behind it, which Gemini puts on calls and texts."""
    if block.type == "thinking" or not isinstance(block.value, dict) or "thoughtSignature" not in block.value:
        return block.body
    return json_bytes({name: value for name, value in block.value.items() if name != "thoughtSignature"})


def _think_text_removed(step: Step, change: Change) -> Evidence | None:
    """The think block within an answer's text is gone."""
    pairs = (
        [(text_of(was), text_of(now)) for was, now in paired_blocks(change) if was.type == "text"]
        if change.level == "messages"
        else []
    )
    if not any("<think" in was and "<think" not in now for was, now in pairs):
        return None
    return Evidence("the thinking within an earlier answer's text is gone")


# CKM03 switch-dependent-history-rewrite
# ---------------------------------------------------------------------------------------------------------------------

_CONVERTED = frozenset({"thinking", "server_tool_use", "web_search_tool_result", "code_execution_tool_result"})


def _history_converted_at_switch(step: Step, change: Change) -> Evidence | None:
    """Reasoning or server tools leave the history, or come into it, in the call that changes the model."""
    touched = [block.type in _CONVERTED for block in (*removed_blocks(change), *added_blocks(change))]
    if change.level != "messages" or not is_model_switch(step) or not any(touched):
        return None
    return Evidence(
        f"the history was converted for the change of model from {recorded_model(step.before)} to {recorded_model(step.after)}"
    )


def _history_restored_after_switch(step: Step, change: Change) -> Evidence | None:
    """The call behind the switch sends again what stood there before it."""
    was_switch = len(step.earlier) > 1 and recorded_model(step.earlier[-2]) != recorded_model(step.before)
    if change.level != "messages" or is_model_switch(step) or not (was_switch and is_restored(step, change)):
        return None
    return Evidence("the history was converted for one call at a change of model and is now as before it")


# CKM04 sliding-window
# ---------------------------------------------------------------------------------------------------------------------


def _sliding_window(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages":
        return None
    before, after = message_blocks(step.before), message_blocks(step.after)
    lost = n_blocks_cut_in_front(before, after)
    if not lost or change.at >= len(step.before.blocks) - len(before) + _MAX_OPENING + lost:
        return None
    return Evidence(f"the history begins {lost} block{'s' * (lost > 1)} later than in the call before")


_MAX_OPENING = 8
"""Blocks of the first messages that may be kept in front of the window."""

# CKM05 trim-to-cap-without-slack
# ---------------------------------------------------------------------------------------------------------------------


def _trim_to_cap_without_slack(step: Step, change: Change) -> Evidence | None:
    """The front was cut, then kept for some calls, and is cut now."""
    if change.level != "messages" or len(step.earlier) < 3:
        return None
    lost = front_cuts(step)
    last = next((back for back, n in enumerate(reversed(lost[:-1]), 1) if n), 0)
    if not lost[-1] or last < 2:
        return None
    return Evidence(
        f"the front of the history was cut {last} calls ago, and is cut again by {lost[-1]} block{'s' * (lost[-1] > 1)}"
    )


# CKM06 old-tool-result-pruned
# ---------------------------------------------------------------------------------------------------------------------


def _old_tool_result_pruned(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages":
        return None
    pairs = [(text_of(was), text_of(now)) for was, now in shortened(change) if was.type == "result"]
    cleared = [pair for pair in pairs if is_placeholder(*pair)]
    if not cleared or len(cleared) < len(pairs):
        return None
    lost = sum(len(was) - len(now) for was, now in cleared)
    return Evidence(
        f"{len(cleared)} earlier tool result{'s' * (len(cleared) > 1)} gave way to a placeholder, {lost:,} characters less"
    )


# CKM07 aggregate-budget-rewrites-sent-items
# ---------------------------------------------------------------------------------------------------------------------

_LARGE_ITEM, _ENDING_CHARACTERS = 2_000, 24


def _aggregate_budget_rewrites_sent_items(step: Step, change: Change) -> Evidence | None:
    """Earlier items are cut in the call that brings a large new one."""
    if change.level != "messages" or not _elided_pairs(change):
        return None
    cut = [pair for one in step.changes if one.level == "messages" for pair in _elided_pairs(one)]
    lost = sum(len(was.body) - len(now.body) for was, now in cut)
    new = max((n_body_bytes([block]) for block in new_message_blocks(step)), default=0)
    if (
        new < max(_LARGE_ITEM, lost // 3)
        or _is_advancing_window(step, cut)
        or (4 * lost < new and _is_fade(step, cut, new))
    ):
        return None
    return Evidence(
        f"{len(cut)} earlier item{'s' * (len(cut) > 1)} lost {lost:,} bytes in the call that brought one of {new:,}"
    )


def _elided_pairs(change: Change) -> list[tuple[Block, Block]]:
    return [(was, now) for was, now in shortened(change) if is_elided(text_of(was), text_of(now))]


def _is_advancing_window(step: Step, cut: list[tuple[Block, Block]]) -> bool:
    """Return whether calls before cut other items and left the same mark on them: a window that moves on, whatever
    came.
    """
    marks = {_ending(now) for _, now in cut}
    first = cut[0][0].path
    earlier = takewhile(lambda block: block.path != first, message_blocks(step.before))
    return any(_ending(block) in marks for block in earlier if block.type == cut[0][0].type)


def _is_fade(step: Step, cut: list[tuple[Block, Block]], new: int) -> bool:
    """Whether newer results of the same size were left alone, and what came is none out of the usual: only age was
    asked.
    """
    kind, last = cut[0][0].type, max(was.message for was, _ in cut)
    alike = [block for block in message_blocks(step.before) if block.type == kind and len(block.body) >= _LARGE_ITEM]
    usual = sorted(len(block.body) for block in alike)[len(alike) // 2] if alike else 0
    return new < 2 * usual and any(block.message > last for block in alike)


def _ending(block: Block) -> str:
    """The last letters of a text, digits left out: the mark of what is missing."""
    return re.sub(r"\d+", "", text_of(block)[-_ENDING_CHARACTERS:])


# CKM08 recency-window-advances
# ---------------------------------------------------------------------------------------------------------------------

_MIN_SHORTENED = 100
"""Bytes that a message has to lose, to be called shortened."""


def _shortened_blocks(change: Change) -> list[Block]:
    """Blocks of which less is said now."""
    pairs = shortened(change) if change.level == "messages" else []
    return [
        now
        for was, now in pairs
        if is_elided(text_of(was), text_of(now)) and len(was.body) - len(now.body) >= _MIN_SHORTENED
    ]


def _recency_window_advanced(step: Step, change: Change) -> Evidence | None:
    """The step before shortened earlier messages, this one goes on behind them."""
    faded, before = _shortened_blocks(change), last_shortened_message(step)
    if not faded or not 0 <= before < faded[0].message:
        return None
    distance, moved = last_message_index(step.after) - faded[-1].message, faded[-1].message - before
    return Evidence(f"messages are shortened up to {distance} from the newest, {moved} further than in the call before")


def _recency_window_started(step: Step, change: Change) -> Evidence | None:
    """Shape only: older messages are shortened, newer ones are not, and nothing large came."""
    faded = _shortened_blocks(change)
    if not faded or faded[-1].message >= last_message_index(step.before):
        return None
    distance = last_message_index(step.after) - faded[-1].message
    return Evidence(f"messages {distance} or more behind the newest were shortened in place")


# CKM09 ephemeral-reminder-then-removed
# ---------------------------------------------------------------------------------------------------------------------

_MAX_RESULT_PIECE = 2_000
"""Characters of a reminder behind a tool's result; more than that is the result itself that was cut."""


def _ephemeral_reminder_then_removed(step: Step, change: Change) -> Evidence | None:
    """Text of what was the newest message is gone, and nothing new stands in its place."""
    if change.level != "messages" or not change.was or not _was_newest(step, change):
        return _reminder_moved_on(step, change)
    lost = [block for block in removed_blocks(change) if not is_still_sent(step, block)]
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
    return Evidence(
        f"{n_characters:,} characters that the newest message of the call before carried are not in it any more"
    )


def _was_newest(step: Step, change: Change) -> bool:
    """Whether the message was the last the user's side said: the end of the call before, with messages of one role
    taken together.
    """
    last = last_message_index(step.before)
    return all(block.message >= last - 1 for block in change.was)


def _reminder_moved_on(step: Step, change: Change) -> Evidence | None:
    """Text that stood at the end of the newest message stands at the end of the new one."""
    moved = moved_to_newest(step, change)
    if not moved or any(block.type != "text" or block.role == "assistant" for block in moved):
        return None
    return Evidence("the text at the end of the call before has left its message for the newest one", moved[0].path)


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


# CKM10 content-shape-flip
# ---------------------------------------------------------------------------------------------------------------------

_TEXT_KEYS = frozenset({"type", "text"})

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})


def _content_shape_flip(step: Step, change: Change) -> Evidence | None:
    pairs = paired_blocks(change)
    if change.level == "tools" or not pairs or not all(_is_shape_flip(*pair) for pair in pairs):
        return None
    return Evidence("the same text, once as a string and once as a list of blocks")


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
        is_text = (
            isinstance(value.get("text"), str)
            and value.keys() <= _TEXT_KEYS
            and value.get("type", "text") in _TEXT_TYPES
        )
        return value["text"] if is_text else {key: _as_plain_text(item) for key, item in value.items()}
    return value


# CKM11 parallel-result-order
# ---------------------------------------------------------------------------------------------------------------------


def _parallel_result_order(step: Step, change: Change) -> Evidence | None:
    """Results, or calls, all of which stood there before and stand there still."""
    touched = (*change.was, *change.now)
    if change.level != "messages" or any(block.type not in ("result", "call") for block in touched):
        return None
    earlier, newest = message_blocks(step.before), max(block.message for block in message_blocks(step.before))
    # What the later call adds behind may say the same again; one that stands there more or less often did not move.
    later = [block for block in message_blocks(step.after) if block.message <= newest]
    was, now = (Counter(block.body for block in blocks) for blocks in (earlier, later))
    if any(not was[body] or was[body] != now[body] for body in bodies(touched)):
        return None
    return Evidence(f"the {touched[0].type}s of one turn stand in another order")


# CKM12 same-role-merge
# ---------------------------------------------------------------------------------------------------------------------


def _same_role_merge(step: Step, change: Change) -> Evidence | None:
    change = change if change.now else _with_next(step, change)
    if (
        change.level != "messages"
        or not change.was
        or not change.now
        or not _has_one_role(change)
        or not is_same_but_blanks(change)
    ):
        return None
    was, now = _n_messages(step, change)
    if was == now and len(change.was) == len(change.now):
        return None
    n, m, what = (
        (was, now, "messages of one role")
        if was != now
        else (len(change.was), len(change.now), "text blocks of one message")
    )
    return Evidence(f"{n} {what} became {m} with the same words")


def _with_next(step: Step, change: Change) -> Change:
    """The end of a message that seems gone, beside the same blocks at the front of the next message, where they are."""
    behind = step.after.blocks[change.at : change.at + len(change.was)] if change.is_first else ()
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


def _n_messages(step: Step, change: Change) -> tuple[int, int]:
    """Messages that both sides stand in, the one before them counted where one side goes on in it."""
    was, now = (_message_starts(sent, blocks) for sent, blocks in ((step.before, change.was), (step.after, change.now)))
    before = int(not (was[0] and now[0]))
    return sum(was) + before, sum(now) + before


def _message_starts(sent: ParsedCall, blocks: Sequence[Block]) -> list[bool]:
    """For each of its neighbouring blocks, whether a message begins with it."""
    at = next(i for i, block in enumerate(sent.blocks) if block is blocks[0])
    return [i == 0 or sent.blocks[i - 1].message != sent.blocks[i].message for i in range(at, at + len(blocks))]


# CKM13 call-id-regenerated
# ---------------------------------------------------------------------------------------------------------------------

_CALL_FIELDS = built_in_table("fields.toml")["calls"]

_ID_FIELDS = frozenset(_CALL_FIELDS["ids"])


def _call_id_regenerated(step: Step, change: Change) -> Evidence | None:
    pairs = paired_blocks(change)
    if change.level != "messages" or not pairs or not all(_differs_in_id(*pair) for pair in pairs):
        return None
    return Evidence(
        f"{len(pairs)} block{'s' * (len(pairs) > 1)} of earlier turns differ{'s' * (len(pairs) == 1)} only in ids"
    )


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


# CKM14 args-key-order-drift
# ---------------------------------------------------------------------------------------------------------------------


def _args_key_order_drift(step: Step, change: Change) -> Evidence | None:
    if format_change(change) is not FormatChange.ORDER:
        return None
    what = "arguments of an earlier call" if any(block.type == "call" for block in change.was) else "an earlier item"
    return Evidence(f"JSON in the {what} says the same with other keys first or other blanks")


# CKM15 whitespace-normalised
# ---------------------------------------------------------------------------------------------------------------------


def _whitespace_normalised(step: Step, change: Change) -> Evidence | None:
    is_blank_gone = (
        change.level == "messages"
        and len(change.was) != len(change.now)
        and _is_text_only(change)
        and is_same_but_blanks(change)
    )
    if format_change(change) is not FormatChange.BLANKS and not is_blank_gone:
        return None
    was, now = texts_of(change)
    return Evidence(
        f"an earlier text is the same but for white space, {len(was):,} characters long then and {len(now):,} now"
    )


def _is_text_only(change: Change) -> bool:
    return all(block.type == "text" for block in (*change.was, *change.now))


# CKM17 tool-call-re-rendered
# ---------------------------------------------------------------------------------------------------------------------

_N_CALLS_STUCK = 4
"""Calls in a row that read up to the same place."""

_GROWTH, _NEAR_SHARE, _BLOCK_TOKENS = 1.2, 0.12, 128
"""How much their prompts grow; how near to the first call of a tool reading stops, as a share; tokens of a block of an
engine's cache."""


def _tool_call_re_rendered(calls: Calls) -> Iterator[Evidence]:
    """The call from which on it is plain that a conversation is read up to its first call of a tool, and no further."""
    for mine in calls.conversations.values():
        billed = [sent for sent in mine if sent.usage is not None and sent.row.cache != "breakpoints"]
        runs = (billed[i : i + _N_CALLS_STUCK] for i in range(len(billed) - _N_CALLS_STUCK + 1))
        stuck = next((run[-1] for run in runs if _is_stuck(run)), None)
        if stuck is not None:
            text = (
                f"{_N_CALLS_STUCK} calls in a row read {_read_tokens(stuck):,} tokens, up to the first call of a tool, "
                "while their bodies only grew"
            )
            yield Evidence(text, stuck.blocks[_first_call(stuck)].path, sent=stuck)


def _is_stuck(run: Sequence[ParsedCall]) -> bool:
    reads, sizes = [_read_tokens(sent) for sent in run], [n_body_bytes(sent.blocks) for sent in run]
    is_same = min(reads) > 0 and max(reads) - min(reads) <= _BLOCK_TOKENS and sizes[-1] >= _GROWTH * sizes[0]
    return is_same and all(_is_extended(a, b) for a, b in pairwise(run)) and all(map(_is_read_up_to_first_call, run))


def _read_tokens(sent: ParsedCall) -> int:
    return (sent.usage.read or 0) if sent.usage else 0


def _is_extended(before: ParsedCall, after: ParsedCall) -> bool:
    return [block.body for block in before.blocks] == [block.body for block in after.blocks[: len(before.blocks)]]


def _is_read_up_to_first_call(sent: ParsedCall) -> bool:
    """Return whether what was read is about what stands in front of the first call."""
    usage, first = sent.usage, _first_call(sent)
    billed = sum(n or 0 for n in (usage.fresh, usage.read, usage.write_5m, usage.write_1h)) if usage else 0
    share = n_body_bytes(sent.blocks[:first]) / max(1, n_body_bytes(sent.blocks)) if first >= 0 else -1.0
    return billed > 0 and share > 0 and abs(_read_tokens(sent) / billed - share) <= _NEAR_SHARE


def _first_call(sent: ParsedCall) -> int:
    """Index of its block, -1 where no tool was called."""
    return next((i for i, block in enumerate(sent.blocks) if block.type == "call"), -1)


# CKM18 image-replaced-later
# ---------------------------------------------------------------------------------------------------------------------


def _image_replaced_later(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages":
        return None
    n = (
        len(change.was)
        if _is_image_removed(change)
        else change.now and (n_images_lost(change) or _n_images_replaced_beside(step, change))
    )
    if not n:
        return None
    return Evidence(f"{n} image{'s' * (n > 1)} of earlier messages {'gave way to text' if change.now else 'are gone'}")


def _is_image_removed(change: Change) -> bool:
    return not change.now and all(n_images_lost(change) and block.type == "image" for block in change.was)


def _n_images_replaced_beside(step: Step, change: Change) -> int:
    """Images that the message lost where a text of it, which is another part, says now that they are gone."""
    added = [
        text_of(now).removeprefix(text_of(was))
        for was, now in paired_blocks(change)
        if text_of(now).startswith(text_of(was))
    ]
    if not any(len(text) < 300 and _IMAGE_WORDS.search(text) and _REMOVED_WORDS.search(text) for text in added):
        return 0
    beside = (one for one in step.changes if one.was and one.was[0].message == change.was[0].message)
    return sum(map(n_images_lost, beside))


_IMAGE_WORDS = re.compile(r"image|screenshot|picture|photo", re.IGNORECASE)

_REMOVED_WORDS = re.compile(r"remov|omit|clear|prun|elid|expire|strip|no longer|old|previous|deleted", re.IGNORECASE)

# CKM19 image-re-encoded
# ---------------------------------------------------------------------------------------------------------------------

_MIN_DATA = 40
"""Characters from which on a string may be the data of an image; shorter ones that differ are its media type."""


def _image_re_encoded(step: Step, change: Change) -> Evidence | None:
    pairs = paired_blocks(change) if change.level == "messages" else []
    if not pairs or not all(_is_re_encoded(*pair) for pair in pairs):
        return None
    was, now = pairs[0]
    return Evidence(
        f"the image at the same place has other data: {len(was.body):,} bytes were sent, {len(now.body):,} are now"
    )


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


# CKM20 image-presence-toggle
# ---------------------------------------------------------------------------------------------------------------------


def _image_presence_toggle(step: Step) -> Evidence | None:
    """The first image came, or the last one went, on a provider whose message cache it invalidates, and the bill does not
    say that everything the call before left was read.
    """
    if not is_image_toggled(step):
        return None
    left = left_tokens(step.before.usage, step.before.row) if step.before.usage else 0
    read = read_tokens(step.after)
    if left and read is not None and read >= left:
        return None
    was, now = n_images(step.before), n_images(step.after)
    return Evidence(
        f"images in the messages: {was} in the call before, {now} now", path="messages", was=str(was), now=str(now)
    )


# CKM21 attachments-float-to-tail
# ---------------------------------------------------------------------------------------------------------------------

_LARGE_TEXT = 1_000
"""Bytes from which on a block of text that moves is an attached file."""


def _attachments_float_to_tail(step: Step, change: Change) -> Evidence | None:
    floats = [block for block in moved_to_newest(step, change) if _is_attachment(block)]
    if floats:
        return Evidence(
            f"{len(floats)} attachment{'s' * (len(floats) > 1)} moved on to the newest message", floats[0].path
        )
    moved = _moved_attachments(step, change) if change.level == "messages" else []
    if not moved:
        return None
    was, now = moved[0]
    return Evidence(f"{len(moved)} attachment{'s' * (len(moved) > 1)} moved from {was.path} to {now.path}")


def _moved_attachments(step: Step, change: Change) -> list[tuple[Block, Block]]:
    """Attachments that left their message, each with itself in a later one, an answer between: two messages made of one
    are no move.
    """
    after = message_blocks(step.after)
    lost = {block.body: block for block in change.was if _is_attachment(block) and not is_still_sent(step, block)}
    answers = [block.message for block in after if is_answer(block)] if lost else []
    pairs = [(lost[block.body], block) for block in after if block.body in lost]
    return [(was, now) for was, now in pairs if any(was.message < answer < now.message for answer in answers)]


def _is_attachment(block: Block) -> bool:
    return block.type in MEDIA or (block.type == "text" and block.role == "user" and len(block.body) >= _LARGE_TEXT)


# CKM22 resume-loses-injected-blocks
# ---------------------------------------------------------------------------------------------------------------------


def _injected_block_changed(step: Step, change: Change) -> Evidence | None:
    """Blocks of the first or second message are missing, new, moved or altered."""
    blocks = (*change.was, *change.now)
    if change.level != "messages" or any(
        block.message > 1 or block.type not in ("text", "document") for block in blocks
    ):
        return None
    how = "altered" if change.was and change.now else "missing" if change.was else "new"
    return Evidence(f"a block of the first messages is {how}, {pause_text(step)} after the call before")


def _earlier_message_changed(step: Step, change: Change) -> Evidence | None:
    if change.level != "messages" or not change.is_first:
        return None
    return Evidence(
        "an earlier message is not as it was sent; only its shape is known, as when history is put together anew"
    )


# CKM23 dangling-reference-scrub
# ---------------------------------------------------------------------------------------------------------------------


def _reference_scrubbed(step: Step, change: Change) -> Evidence | None:
    pairs = [(text_of(was), text_of(now)) for was, now in paired_blocks(change)] if change.level == "messages" else []
    if not pairs or not all(is_notice(*pair) for pair in pairs):
        return None
    return Evidence(f"an earlier {change.was[0].type} gave way to a notice that something is missing")


def _reference_restored(step: Step, change: Change) -> Evidence | None:
    """A notice gave way to what stood there before it."""
    pairs = [(text_of(was), text_of(now)) for was, now in paired_blocks(change)] if change.level == "messages" else []
    if (
        not pairs
        or not all(is_notice(now, was) for was, now in pairs)
        or not is_restored(step, change, len(step.earlier))
    ):
        return None
    return Evidence("a notice that something is missing gave way to what stood there before it")


# CKM24 poisoned-block-retained
# ---------------------------------------------------------------------------------------------------------------------

_REFUSALS = re.compile(r"invalid|bad_?request|unprocessable|unsupported|too_large|\b4(?:00|13|22)\b", re.IGNORECASE)
"""Errors that say something about the request; a call that was given up or met a busy server says nothing."""


def _block_removed_after_refusal(step: Step, change: Change) -> Evidence | None:
    """A file or image left the history in the call behind one that was refused."""
    lost = [block for block in removed_blocks(change) if block.type in MEDIA] if change.level == "messages" else []
    if not lost or not _REFUSALS.search(step.before.call.error or ""):
        return None
    return Evidence(f"{lost[0].type} at {lost[0].path} was left out after {step.before.call.error}", lost[0].path)


def _block_alternates(step: Step, change: Change) -> Evidence | None:
    """A block that came back, or one that goes for the second time."""
    if change.level != "messages" or len(step.earlier) < 2 or (change.was and change.now and not _has_media(change)):
        return None
    moved = [block for block in (*added_blocks(change), *removed_blocks(change)) if block.type in MEDIA]
    is_back = not removed_blocks(change) and is_restored(step, change)
    if not is_back and not (moved and _is_in_turn(step, moved)):
        return None
    return Evidence(f"{(moved or change.now)[0].type} is there and not there in turn, from call to call")


def _is_in_turn(step: Step, moved: Sequence[Block]) -> bool:
    """Whether blocks were sent, then left out, then sent in the same message again: what came late and went once is not
    that.
    """
    wanted = {(block.body, block.message) for block in moved}
    calls = [
        {(block.body, block.message) for block in message_blocks(sent)} for sent in (*step.earlier[-4:], step.after)
    ]
    held = ["1" if wanted <= one else "0" for one in calls if wanted <= one or not wanted & one]
    return bool(re.search("10+1", "".join(held)))


def _has_media(change: Change) -> bool:
    return any(block.type in MEDIA for block in (*change.was, *change.now))


# CKM25 side-call-divergent-prefix
# ---------------------------------------------------------------------------------------------------------------------

_LARGE_SIDE_CALL = 8_000
"""Bytes of messages from which on a side call would rather have read the session's prefix."""


def _side_call_divergent_prefix(calls: Calls) -> Iterator[Evidence]:
    for aside in side_calls(calls):
        if aside.n_bytes >= _LARGE_SIDE_CALL and aside.quoted:
            yield Evidence(_divergence_text(aside), path="messages", sent=aside.sent)


def _divergence_text(aside: SideCall) -> str:
    return (
        f"a call of {aside.n_bytes:,} bytes retells {aside.main} and shares no prefix with it: nothing of that was read"
    )


# CKM26 side-call-pollutes-lane
# ---------------------------------------------------------------------------------------------------------------------

_CACHE_KEY = "prompt_cache_key"


def _side_call_pollutes_lane(calls: Calls) -> Iterator[Evidence]:
    for aside in side_calls(calls):
        key = aside.sent.params.get(_CACHE_KEY)
        if key is not None and key == aside.before.params.get(_CACHE_KEY):
            yield Evidence(
                f"a call that continues nothing has the cache key of {aside.main}",
                path=_CACHE_KEY,
                now=str(key),
                sent=aside.sent,
            )
        elif is_short(aside.sent) and _writes_entry(aside):
            text = f"a single call beside {aside.main} writes a cache entry that no other call reads"
            yield Evidence(text, path="messages", sent=aside.sent)


def _writes_entry(aside: SideCall) -> bool:
    """Return whether it asked for an entry behind its messages, and was not told that it wrote none."""
    sent, usage = aside.sent, aside.sent.usage
    is_marked = sent.params.get("cache_control") is not None or any(
        block.level == "messages" and block.marker for block in sent.blocks
    )
    is_told = usage is not None and not (usage.write_5m or 0) + (usage.write_1h or 0)
    return sent.row.cache == "breakpoints" and is_marked and reach_of(sent) > 0 and not is_told


# CKM27 compaction-too-early
# ---------------------------------------------------------------------------------------------------------------------


def _compaction_too_early(step: Step, change: Change) -> Evidence | None:
    """Many messages gave way to a text about them."""
    if change.level != "messages" or change.was[:1] == () or change.was[0].message > 2 or not _is_fold(change):
        return None
    times = 1 + sum(_shrank(a, b) for a, b in zip(step.earlier, step.earlier[1:], strict=False))
    filled = _window_share(step.before)
    what = f"{len(change.was)} blocks were folded into {len(change.now)} at {filled:.0%} of the model's window"
    return Evidence(f"{what}, time {times} in this conversation: what stands behind them is written again")


def _is_fold(change: Change) -> bool:
    new = added_blocks(change)
    is_told = bool(new) and all(block.type == "text" for block in new)
    return (
        is_told
        and len({block.message for block in change.was}) >= 3
        and 2 * n_body_bytes(change.now) < n_body_bytes(change.was)
    )


def _shrank(before: ParsedCall, after: ParsedCall) -> bool:
    one, other = message_blocks(before), message_blocks(after)
    return bool(one and other) and one[0].body != other[0].body and 2 * n_body_bytes(other) < n_body_bytes(one)


def _window_share(sent: ParsedCall) -> float:
    """How much of the window a call took, by its bill, else by its bytes."""
    usage = sent.usage
    billed = sum(n or 0 for n in (usage.fresh, usage.read, usage.write_5m, usage.write_1h)) if usage else 0
    return (billed or n_body_bytes(sent.blocks) / sent.row.bytes_per_token) / max(1, sent.row.window_tokens)


# CKM28 server-side-edit-without-floor
# ---------------------------------------------------------------------------------------------------------------------


def _server_side_edit_without_floor(sent: ParsedCall) -> Evidence | None:
    configured = sent.params.get("context_management")
    edits = configured.get("edits") if isinstance(configured, dict) else None
    for index, edit in enumerate(edits if isinstance(edits, list) else ()):
        if (
            isinstance(edit, dict)
            and str(edit.get("type")).startswith("clear_tool_uses")
            and edit.get("clear_at_least") is None
        ):
            path = f"context_management.edits[{index}]"
            return Evidence(
                "tool results are cleared by the server with no least amount, so that a few tokens may cost the cache",
                path,
            )
    return None


# CKM29 unicode-form-drift
# ---------------------------------------------------------------------------------------------------------------------


def _unicode_form_drift(step: Step, change: Change) -> Evidence | None:
    if format_change(change) is not FormatChange.UNICODE:
        return None
    return Evidence("an earlier text is the same once it is unescaped and in composed form")


# CKM30 number-format-drift
# ---------------------------------------------------------------------------------------------------------------------


def _number_format_drift(step: Step, change: Change) -> Evidence | None:
    if format_change(change) is not FormatChange.NUMBERS:
        return None
    return Evidence("values of an earlier item are numerically equal and written otherwise")


RULES: Mapping[str, tuple[RequestRule, ...]] = {
    "CKM01": (
        RequestRule("change", _reasoning_blocks_removed, 19),
        RequestRule("change", _think_text_removed, 21),
    ),
    "CKM03": (
        RequestRule("change", _history_converted_at_switch, 4),
        RequestRule("change", _history_restored_after_switch, 4),
    ),
    "CKM04": (RequestRule("change", _sliding_window, 46),),
    "CKM05": (RequestRule("change", _trim_to_cap_without_slack, 45),),
    "CKM06": (RequestRule("change", _old_tool_result_pruned, 24),),
    "CKM07": (RequestRule("change", _aggregate_budget_rewrites_sent_items, 30),),
    "CKM08": (
        RequestRule("change", _recency_window_advanced, 28),
        RequestRule("change", _recency_window_started, 35),
    ),
    "CKM09": (RequestRule("change", _ephemeral_reminder_then_removed, 18),),
    "CKM10": (RequestRule("change", _content_shape_flip, 5),),
    "CKM11": (RequestRule("change", _parallel_result_order, 10),),
    "CKM12": (RequestRule("change", _same_role_merge, 4),),
    "CKM13": (RequestRule("change", _call_id_regenerated, 8),),
    "CKM14": (RequestRule("change", _args_key_order_drift, 12),),
    "CKM15": (RequestRule("change", _whitespace_normalised, 14),),
    "CKM17": (RequestRule("session", _tool_call_re_rendered),),
    "CKM18": (RequestRule("change", _image_replaced_later, 17),),
    "CKM19": (RequestRule("change", _image_re_encoded, 9),),
    "CKM20": (RequestRule("step", _image_presence_toggle),),
    "CKM21": (RequestRule("change", _attachments_float_to_tail, 15),),
    "CKM22": (
        RequestRule("change", _injected_block_changed, 60),
        RequestRule("change", _earlier_message_changed, 90),
    ),
    "CKM23": (
        RequestRule("change", _reference_scrubbed, 20),
        RequestRule("change", _reference_restored, 20),
    ),
    "CKM24": (
        RequestRule("change", _block_removed_after_refusal, 16),
        RequestRule("change", _block_alternates, 16),
    ),
    "CKM25": (RequestRule("session", _side_call_divergent_prefix),),
    "CKM26": (RequestRule("session", _side_call_pollutes_lane),),
    "CKM27": (RequestRule("change", _compaction_too_early, 44),),
    "CKM28": (RequestRule("call", _server_side_edit_without_floor),),
    "CKM29": (RequestRule("change", _unicode_form_drift, 11),),
    "CKM30": (RequestRule("change", _number_format_drift, 11),),
}
"""Code → its rules."""
