"""`prompt.lock` as text: TOML that a reviewer reads, and from which every byte comes back.

Takes locked heads by agent, gives text, and the same from text. A block of words stands there as words, anything else
as indented JSON; each is checked against its digest when it is read.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import UsageError
from contextkit.prompt.lock import LockedBlock, LockedHead, digest_of
from contextkit.prompt.prompt import LEVELS

VERSION = 1
_OPENING = """# What stands first in every prompt of each agent: written by `contextkit lock write`, held by `contextkit lock check`.
# Keep this file in version control. A change of it is a change of every prompt: review it as such.
"""
_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]*")
"""Text that TOML takes as it stands."""
_ESCAPED = re.compile(r'[\x00-\x08\x0b-\x1f\x7f"\\]')
_WORDS = {"type", "text"}


def lock_text(heads: Mapping[str, LockedHead]) -> str:
    """The text of a lock file, agents in the order of their names."""
    return "".join(
        [_OPENING, f"version = {VERSION}\n", *(line for name in sorted(heads) for line in _agent(name, heads[name]))]
    )


def read_lock(text: str, where: str) -> dict[str, LockedHead]:
    """The heads in the text of a lock file.

    Raises `UsageError`, naming the file and the place, for what `lock_text` does not write.
    """
    try:
        whole = tomllib.loads(text)
        if whole.get("version") != VERSION:
            raise UsageError(f"{where} is of version {whole.get('version')!r}, this is version {VERSION}: {_AGAIN}")
        return {str(row["name"]): _head(row, where) for row in whole.get("agent", [])}
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where} is not TOML ({error}): {_AGAIN}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{where} is not as contextkit writes it ({type(error).__name__}: {error}): {_AGAIN}"
        ) from None


_AGAIN = "take it from version control, or write it anew with `contextkit lock write`"


def shown(body: bytes) -> str:
    """A block as a person reads it: its words, or indented JSON."""
    block = parse(body)
    return str(block["text"]) if _is_words(block) else _indented(block)


def _agent(name: str, head: LockedHead) -> Iterator[str]:
    yield f"\n[[agent]]\nname = {_string(name)}\nprovider = {_string(head.provider)}\nwire = {_string(head.wire)}\n"
    yield f"model = {_string(head.model)}\nkeys = [{', '.join(map(_string, head.keys))}]\ndigest = {_string(head.digest)}\n"
    yield f"n_tokens = {head.n_tokens}\nis_estimate = {'true' if head.is_estimate else 'false'}\n"
    for block in head.blocks:
        yield f"\n[[agent.block]]  # {block.name or block.level}\npath = {_string(block.path)}\nlevel = {_string(block.level)}\n"
        yield f"digest = {_string(digest_of(block.body))}\nn_tokens = {block.n_tokens}\n{_body(parse(block.body))}\n"


def _body(block: Json) -> str:
    if _is_words(block):
        return f"type = {_string(block['type'])}\ntext = {_long(block['text'])}"
    return f"json = {_long(_indented(block))}"


def _is_words(block: Json) -> bool:
    return (
        isinstance(block, dict)
        and block.keys() == _WORDS
        and list(block) == ["type", "text"]
        and isinstance(block["text"], str)
    )


def _indented(block: Json) -> str:
    return json.dumps(block, indent=2, ensure_ascii=False)


def _string(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'.replace("\n", "\\n")


def _long(text: str) -> str:
    """Several lines: as they stand where TOML can, else escaped."""
    is_plain = "'''" not in text and not text.endswith("'") and _PLAIN.fullmatch(text) is not None
    return f"'''\n{text}'''" if is_plain else f'"""\n{_ESCAPED.sub(_escape, text)}"""'


def _escape(found: re.Match[str]) -> str:
    letter = found.group()
    return f"\\{letter}" if letter in '"\\' else f"\\u{ord(letter):04x}"


def _head(row: Mapping[str, Any], where: str) -> LockedHead:
    tools, system, messages = map(str, row["keys"])
    blocks = tuple(_block(block, f"{where}: agent {row['name']!r}, {block['path']}") for block in row.get("block", []))
    head = LockedHead(
        str(row["provider"]),
        str(row["wire"]),
        str(row["model"]),
        (tools, system, messages),
        bool(row["is_estimate"]),
        blocks,
    )
    if head.digest != row["digest"]:
        raise UsageError(f"{where}: agent {row['name']!r} is not what its digest says: {_AGAIN}")
    return head


def _block(row: Mapping[str, Any], where: str) -> LockedBlock:
    read = next(reader for key, reader in _READERS.items() if key in row)
    body = canonical(read(row))
    if digest_of(body) != row["digest"]:
        raise UsageError(f"{where} is not what its digest says: {_AGAIN}")
    return LockedBlock(str(row["path"]), LEVELS[LEVELS.index(row["level"])], body, int(row["n_tokens"]))


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Json]] = {
    "text": lambda row: {"type": row["type"], "text": row["text"]},
    "json": lambda row: parse(row["json"]),
}
"""Key under which a block stands → what reads it."""
