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
from collections.abc import Mapping
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
    _add_ids(ids, parse(body), "")
    return ids


def _add_ids(ids: array[int], value: Json, key: str) -> None:
    """Append the tokens of a value, which stands under `key`."""
    if isinstance(value, dict) and key not in VERBATIM:
        for name, item in value.items():
            if name not in _NOT_RENDERED:
                _add_ids(ids, item, name)
    elif isinstance(value, list):
        for item in value:
            _add_ids(ids, item, key)
    elif value is not None:
        text = value if isinstance(value, str) else canonical(value).decode()  # verbatim: in its author's order
        if key in _MEDIA:
            ids.extend([_token_id(b"\0thing" + text.encode("utf-8", "surrogatepass"))] * OPENAI_IMAGE)
        elif text:
            ids.append(_token_id(b"\0key" + key.encode("utf-8", "surrogatepass")))
            ids.extend(text_ids(text))
