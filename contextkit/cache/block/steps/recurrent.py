"""Groups that keep a state instead of tokens (Mamba, "align" mode): one block at each place where a step ended, null
blocks between.

Takes a request's table and how far a step goes, gives new blocks; knows nothing of keys but that a block has some, nor
of lookups.

Measured on vLLM 0.33.0 (`mamba_cache_mode="align"`): a step takes one block, the first one also one for each drafted
token, which move along at the table's end; the block of the step before last is given back; the state at a prompt's
last key is cached even inside a block, and when the request goes on, it writes on in that block and a copy takes over
the key. Not modelled: states exported inside a step (`num_prefill_checkpoint_blocks`), the offer of states to a
connector.
"""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.cache.block.groups import NULL, Group
from contextkit.cache.block.index.by_key import ByKey
from contextkit.cache.block.pool import Pool
from contextkit.cache.block.steps.shapes import Pending, Request, State, Step


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where a step takes blocks from."""

    pool: Pool
    """All of them."""
    index: ByKey
    """What they are cached under."""
    pending: Pending
    """What is left to the next step."""


def needed(group: Group, table: list[int], hits: list[int], step: Step, state: State, has_tail: bool) -> int:
    """New blocks a step will take.

    The engine lets a table that is longer than it need be make up for what other groups lack, and stops with an error
    where the pool is too small for that; here nothing is made up for, and such a step does not fit.
    """
    n = -(-step.end // group.size) + group.n_drafted - len(hits) - len(table)
    if has_tail:
        n = max(n, 0) + 1
    return min(max(n, 0), 1 + has_tail + (0 if state.is_allocated else group.n_drafted))


def take(group: Group, number: int, request: Request, step: Step, blocks: Blocks) -> list[int]:
    """Take them and put them into the table; gives what the table has beyond its last end."""
    table, state = request.tables[number], request.states.setdefault(number, State())
    required, before, tail = -(-step.end // group.size) + group.n_drafted, len(table), request.tails.pop(number, None)
    was_allocated, state.is_allocated = state.is_allocated, True
    if required <= before and tail is None:
        return []
    if was_allocated:
        state.last = before - 1 - group.n_drafted
    elif before:
        state.last = before - 1
    n_skipped = required - group.n_drafted - 1
    table.extend([NULL] * (n_skipped - before))
    if was_allocated:
        _move_drafts(table, range(before - group.n_drafted, min(before, n_skipped)))
    new = blocks.pool.take(max(required - len(table), 0) + (tail is not None))
    returned = table[before:]
    if tail is not None:
        copy = new.pop(0)
        returned = [*([] if was_allocated else [copy]), *returned]
        blocks.pending.copied.setdefault(number, []).extend([tail[1], copy])
        _split(table, tail, copy, blocks, is_writing_on=was_allocated)
    table.extend(new)
    return returned + new


def _move_drafts(table: list[int], places: range) -> None:
    for place in places:
        table.append(table[place])
        table[place] = NULL


def _split(table: list[int], tail: tuple[int, int], copy: int, blocks: Blocks, *, is_writing_on: bool) -> None:
    """A block that is cached up to somewhere inside it is about to be written on: whose it is keeps it, or takes the
    copy.
    """
    index, source = tail
    if is_writing_on:
        blocks.index.move(source, copy)
        blocks.pool.hold([source])
        blocks.pending.fresh.update(filter(None, [blocks.index.keys[copy]]))
    else:
        table[index] = copy
        blocks.pool.hold([copy])


def drop(group: Group, table: list[int], state: State, processed: int, pool: Pool) -> None:
    """Give back the states that no later step reads, later ones first."""
    end = min(max(processed - 1, 0) // group.size, len(table))
    places = [place for place in range(end - 1, state.n_retired - 1, -1) if table[place] != NULL]
    _give_back(table, places, pool)
    state.n_retired = max(state.n_retired, end)
    if state.last is not None and state.last < -(-processed // group.size) - 1 and table[state.last] != NULL:
        _give_back(table, [state.last], pool)


def _give_back(table: list[int], places: list[int], pool: Pool) -> None:
    if places:
        freed = [table[place] for place in places]
        for place in places:
            table[place] = NULL
        pool.release(freed)


def checkpoint(n_prompt: int, unit: int, is_last_dropped: bool) -> int:
    """Where in a prompt its state is worth keeping: the last key that leaves a token to compute.

    >>> checkpoint(50, 16, False), checkpoint(48, 16, False), checkpoint(48, 16, True)
    (48, 32, 32)
    """
    return max((n_prompt if is_last_dropped else n_prompt - 1) // unit * unit - unit * is_last_dropped, 0)
