"""A large result goes to a file when it is written, and its reference into the log in its place.

Never later, which would break a prefix.

Takes the parts of a result, gives the parts that stand in the window and the references that bring the others back:
`restore(offload(x)) == x`, byte for byte. Knows nothing of conversations.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from contextkit.canonical import Json
from contextkit.errors import FileMissing, SourceChanged, UsageError
from contextkit.log.content import exact_bytes, is_binary, without_binary
from contextkit.memory.filestore import FileMemory
from contextkit.memory.preview import kind_of, preview, title_of
from contextkit.memory.reference import Reference

BYTES_PER_TOKEN = 4
"""What a threshold in tokens is in bytes; a rule of thumb, the same for every model, so that the log does not depend on
one."""
EXTRACT = (
    "Read the tool result above. Answer with what matters of it for the task: facts, numbers, names, exact wordings, and "
    "where in it the rest can be found. Call no tool. Answer with the extract alone, in at most 400 words."
)
"""What a side call is asked that reads a result whole."""
NOT_PART_OF_READING = "[This result is not part of this reading.]"
"""Stands, in such a side call, for the results of the other calls of the same reply."""
LEAST_READ_TOKENS = 2_000
"""How much one call reads where the threshold is smaller: calls of a few lines each would cost more than they spare."""
_VISUAL = frozenset({"image"})
"""Parts a model looks at: a preview in words is not what it would have seen."""


@dataclass(frozen=True, slots=True)
class Offload:
    """Which results go to a file, and how much of them stays in sight."""

    above_tokens: int = 4_000
    """A part larger than this is kept elsewhere, at four bytes a token."""
    preview_tokens: int = 400
    """How much of it is shown in its place; less than half of `above_tokens`."""
    has_images: bool = False
    """Whether images go too: the model then reads their size, and no longer sees them."""
    keeps_sources: bool = True
    """Whether content that names its source is stored as well; if not, only its digest is kept, and it must be fetched
    again."""
    read_tokens: int | None = None
    """How much one call of `read_reference` returns; `above_tokens` if None, but 2,000 at least."""

    def __post_init__(self) -> None:
        for name in "above_tokens", "preview_tokens", *(("read_tokens",) if self.read_tokens is not None else ()):
            if type(getattr(self, name)) is not int:
                raise UsageError(f"{name}={getattr(self, name)!r}: a number of tokens")
        if self.preview_tokens < 1 or self.above_tokens < 2 * self.preview_tokens:
            raise UsageError(
                f"above_tokens={self.above_tokens}, preview_tokens={self.preview_tokens}: a preview is at most half of what it stands for"
            )

        if self.read_tokens is not None and self.read_tokens < 1:
            raise UsageError(f"read_tokens={self.read_tokens}: 1 or more, or None for above_tokens")

    @property
    def above_bytes(self) -> int:
        """`above_tokens`, as the size of a part is measured."""
        return self.above_tokens * BYTES_PER_TOKEN

    @property
    def read_bytes(self) -> int:
        """How much one call of `read_reference` returns."""
        tokens = max(self.above_tokens, LEAST_READ_TOKENS) if self.read_tokens is None else self.read_tokens
        return tokens * BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Offloaded:
    """A result, part of it kept elsewhere."""

    content: list[Json]
    """The parts that stand in the window."""
    references: tuple[Reference, ...]
    """What brings the others back."""


def offload(
    parts: list[Json],
    files: FileMemory,
    rule: Offload,
    *,
    is_error: bool = False,
    source: str | None = None,
    tool: str = "",
    call: str = "",
) -> Offloaded:
    """`parts` with the large ones stored in `files`, durable when this returns.

    `tool` and `call` (its arguments, shortened) say in lists where a reference comes from. Raises what
    `FileMemory.keep` raises; then nothing of the result is changed.
    """
    content, references = list(parts), []
    for index, part in enumerate(parts):
        found = _content(part, rule)
        if found is None or len(found[1]) <= rule.above_bytes:
            continue
        reference = replace(_referred(index, part, *found, is_error, source), tool=tool, call=call)
        if source is None or rule.keeps_sources:
            files.keep(found[1])
        references.append(reference)
        content[index] = {"type": "text", "text": preview_text(reference, found[1], rule)}
    return Offloaded(content, tuple(references))


def store_binary(parts: list[Json], files: FileMemory, *, tool: str = "", call: str = "") -> Offloaded:
    """`parts` with the documents that no provider takes in files, whatever their size.

    Raises what `FileMemory.keep` raises.
    """
    content, references = list(parts), list[Reference]()
    for index, part in enumerate(parts):
        data = exact_bytes(part.get("data", "")) if is_binary(part) else None
        if data is not None:
            files.keep(data)
            reference = replace(_referred(index, part, "data", data, False, None), kind="binary", tool=tool, call=call)
            references.append(reference)
            content[index] = _text(
                f"[Binary data, {len(data):,} bytes, kept outside as {reference.id}: it is no text and cannot be shown]"
            )
    return Offloaded(without_binary(content), tuple(references))


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def size_of(part: Json, rule: Offload) -> int:
    """Bytes of a part that could go to a file; 0 where nothing of it may."""
    found = _content(part, rule)
    return 0 if found is None else len(found[1])


def restore(
    content: Iterable[Json],
    references: Iterable[Reference],
    files: FileMemory,
    fetch: Callable[[str], bytes] | None = None,
) -> list[Json]:
    """The parts as they were. Raises like `bytes_of`.

    >>> files = FileMemory("memory://restore")
    >>> parts = [{"type": "text", "text": "row\\n" * 20_000}]
    >>> kept = offload(parts, files, Offload())
    >>> len(kept.content[0]["text"]) < 3_000, restore(kept.content, kept.references, files) == parts
    (True, True)
    """
    parts = list(content)
    for reference in references:
        value = bytes_of(reference, files, fetch)
        text = value.decode() if reference.field == "text" else base64.b64encode(value).decode()
        parts[reference.part] = {**dict(reference.form), reference.field: text}
    return parts


def bytes_of(reference: Reference, files: FileMemory, fetch: Callable[[str], bytes] | None = None) -> bytes:
    """The content: from the store, else from its source through `fetch`.

    Raises `FileMissing` where it is in neither place, `FileErased` where it was erased, `SourceChanged` where the
    source now says something else.
    """
    try:
        return files.version(reference.digest)
    except FileMissing as missing:
        if reference.source is None:
            raise
        if fetch is None:
            where = (
                f"{reference.source}, and only its digest here: give Memory(…, fetch=…) a function that gets its bytes"
            )
            raise FileMissing(f"the content of reference {reference.id} is at its source, {where}") from missing
    value = fetch(reference.source)
    if not isinstance(value, bytes):
        raise UsageError(
            f"fetch({reference.source!r}) gives bytes, not {type(value).__name__}: the digest is over them"
        )
    if sha256(value).hexdigest() != reference.digest:
        raise SourceChanged(
            f"{reference.source} no longer says what reference {reference.id} names: it was changed since"
        )
    return value


def preview_text(reference: Reference, content: bytes, rule: Offload) -> str:
    """What stands in the window: what it is, its head and tail, and how the rest is read."""
    head = f"[Kept outside: {_about(reference)}]"
    shown = preview(content, reference.kind, rule.preview_tokens * BYTES_PER_TOKEN)
    return "\n".join([head, shown, _rest(reference)])


def extract_text(reference: Reference, extract: str) -> str:
    """What stands in the window where a side call read the content whole and returned an extract."""
    head = f"[Read by a side call, and kept outside: {_about(reference)}. Its extract:]"
    return "\n".join([head, extract, _rest(reference)])


def extracted(body: Mapping[str, Json], extract: str) -> dict[str, Json]:
    """Body of a result whose first large part stands as an extract, the others as previews.

    `body` is that of the branch that read it; `restore` gives the whole parts of either.
    """
    references = [Reference.of(reference) for reference in body["references"]]
    content = list(body["content"])
    first = next((one for one in references if one.kind != "binary"), references[0])
    content[first.part] = _text(extract_text(first, extract))
    kept = {name: value for name, value in body.items() if name not in ("whole", "drops_reasoning", "content")}
    return {**kept, "content": content, "residency": {**body["residency"], "kind": "delegate"}}


def _about(reference: Reference) -> str:
    source = f", from {reference.source}" if reference.source else ""
    size = f"{reference.n_bytes:,} bytes, about {reference.n_bytes // BYTES_PER_TOKEN:,} tokens"
    return f"reference {reference.id}, {reference.kind}, {size}{source}"


def _rest(reference: Reference) -> str:
    return f'[The rest: read_reference(id="{reference.id}", start_line=…)]'


def _content(part: Json, rule: Offload) -> tuple[str, bytes] | None:
    """The field of a part that may go, and its bytes; None where nothing may."""
    if part["type"] == "text":
        return "text", part["text"].encode()
    if "data" not in part or (part["type"] in _VISUAL and not rule.has_images):
        return None
    data = exact_bytes(part["data"])
    return None if data is None else ("data", data)


def _referred(index: int, part: Json, field: str, content: bytes, is_error: bool, source: str | None) -> Reference:
    form = tuple((key, value) for key, value in part.items() if key != field)
    named = Reference(
        sha256(content).hexdigest(), len(content), kind_of(content, part.get("media_type"), is_error=is_error), index
    )
    return replace(named, form=form, field=field, source=source, title=title_of(content, named.kind, source))
