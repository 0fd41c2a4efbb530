"""Requests as the token ids a self-hosted engine would compute.

Takes a parsed request, gives integers, the same ones on every machine and whatever tokenizer is installed; knows
nothing of caches.

Assumed, all of it, since no chat template and no vocabulary of a model is at hand. Template: the fields it reads besides
the messages (`[template]` of facts/fields.toml), then tools and messages in order; a boundary token and the role open a
message, a token for its key opens each text in it, a boundary token ends the prompt. Nulls, ids and what is empty are
not rendered, so a reply that comes back with or without an SDK's extra fields gives the tokens it was generated as.
Vocabulary: a run of up to five letters with the blank before it, up to three digits, two signs, four blanks, three bytes
of other scripts; its id is a hash of those bytes. An image, a file or a sound is `OPENAI_IMAGE` equal tokens. A count is
near a real tokenizer's, and never equal to it; the place where two prompts diverge is exact to the token.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b

from contextkit.canonical import Json, canonical, parse
from contextkit.facts.load import built_in_table
from contextkit.log.content import OPENAI_IMAGE
from contextkit.prompt.normal_form import VERBATIM
from contextkit.prompt.prompt import PromptLayout

_PIECE = re.compile(rb" ?[A-Za-z]{1,5}|[0-9]{1,3}| ?[!-/:-@\[-`{-~]{1,2}|[\x80-\xff]{1,3}|\s{1,4}|[\x00-\x1f\x7f]")
_FIELDS = built_in_table("fields.toml")["template"]
_READ_BY_TEMPLATE: tuple[str, ...] = tuple(_FIELDS["read"])
_NOT_RENDERED = frozenset(_FIELDS["not_rendered"])
_MEDIA = frozenset(_FIELDS["media"])


@lru_cache(maxsize=65_536)
def _token_id(piece: bytes) -> int:
    """A number for a token; never negative: engine models give negative ids to unnamed tokens."""
    return int.from_bytes(blake2b(piece, digest_size=4).digest()) >> 1


_BOUNDARY = _token_id(b"\0message")
"""Stands between two messages, ends a prompt, and is the last token of a reply."""


def text_ids(text: str) -> array[int]:
    """The tokens of a text.

    >>> len(text_ids("You are careful.")), text_ids("You are careful.")[:2] == text_ids("You are")
    (5, True)
    """
    return array("i", map(_token_id, _PIECE.findall(text.encode("utf-8", "surrogatepass"))))


def prompt_ids(layout: PromptLayout, params: Mapping[str, Json]) -> array[int]:
    """The tokens of a request."""
    read = {name: params[name] for name in _READ_BY_TEMPLATE if params.get(name) is not None}
    head = text_ids(canonical(read, sort=True).decode()) if read else array("i")
    return head + reply_ids(layout)


def reply_ids(layout: PromptLayout) -> array[int]:
    """The tokens of tools and messages, a boundary behind them."""
    ids, columns = array("i"), layout.columns
    for index in range(layout.n):
        if columns.roles[index]:
            ids.append(_BOUNDARY)
            ids.extend(text_ids(columns.roles[index]))
        ids.extend(_block_ids(columns.body(index)))
    ids.append(_BOUNDARY)
    return ids


@lru_cache(maxsize=16_384)
def _block_ids(body: bytes) -> array[int]:
    """The tokens of a block; cached, since a conversation repeats it in every call."""
    ids = array("i")
    for piece in _leaves(parse(body), ""):
        ids.extend(piece)
    return ids


def _leaves(value: Json, key: str) -> Iterator[array[int]]:
    return _TOKENS_BY_TYPE[type(value)](value, key)


def _of_dict(value: dict[str, Json], key: str) -> Iterator[array[int]]:
    if key in VERBATIM:  # what an author or a model ordered: rendered as it stands
        yield from _of_text(canonical(value).decode(), key)
        return
    for name, item in value.items():
        if name not in _NOT_RENDERED:
            yield from _leaves(item, name)


def _of_list(value: list[Json], key: str) -> Iterator[array[int]]:
    for item in value:
        yield from _leaves(item, key)


def _of_text(value: str, key: str) -> Iterator[array[int]]:
    if key in _MEDIA:
        yield array("i", [_token_id(b"\0thing" + value.encode("utf-8", "surrogatepass"))]) * OPENAI_IMAGE
    elif value:
        yield array("i", [_token_id(b"\0key" + key.encode("utf-8", "surrogatepass"))]) + text_ids(value)


def _of_null(value: None, key: str) -> Iterator[array[int]]:
    return iter(())


_TOKENS_BY_TYPE: dict[type, Callable[[Json, str], Iterator[array[int]]]] = {
    dict: _of_dict,
    list: _of_list,
    str: _of_text,
    type(None): _of_null,
    **dict.fromkeys((int, float, bool), lambda value, key: _of_text(canonical(value).decode(), key)),
}
