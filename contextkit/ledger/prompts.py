"""Recorded prompts: request bodies parsed, and outlines expanded.

`read_body` parses a recorded request body with the parser of its endpoint, so that two bodies can be compared. A model
without a row is treated as a usual one of its endpoint. `outline` stores a prompt as its difference from the prompt
before; `Growing` and `prompts_of` rebuild the prompts, at the cost of what each call added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from contextkit.cache.prompt import Prompt
from contextkit.canonical import Json, parse
from contextkit.errors import LogCorrupt, NotSerialisable, UnknownModel, UnreadableRequest
from contextkit.ledger.body_json import BodyJson, continued_body, whole_body
from contextkit.ledger.calls import ModelCall, Outline
from contextkit.ledger.changes.settings import keyed_settings
from contextkit.models import find_model
from contextkit.prompt.diff import common_bytes, common_segments
from contextkit.prompt.prompt import PromptLayout

if TYPE_CHECKING:
    from contextkit.providers.body import BodyReader
    from contextkit.providers.body_items import RenderedItems
    from contextkit.providers.endpoints import ParseBody
    from contextkit.providers.provider import Parsed

MOST_BYTES = 64 << 20
"""Larger bodies are not read: no provider takes them."""
MEMO_BYTES = 32 << 20
"""Blocks that are kept cut: two bodies of one conversation say most things in the same words."""


@dataclass(frozen=True, slots=True)
class Read:
    """A body, understood."""

    layout: PromptLayout
    """Its segments, with their bytes."""
    prompt: Prompt
    """What the cache sees."""
    settings: Mapping[str, Json]
    """Path → value of each setting of the body that keys a cache."""
    body: BodyJson
    """The body, for one that continues it."""
    items: RenderedItems
    """Its tools, system parts and messages, for a body that continues it."""


def read_body(raw: bytes, provider: str, model: str, near: Sequence[Read] = ()) -> Read | None:
    """The prompt of a request body; None where it is no model call, or cannot be read.

    What it has in front in common with an earlier body of `near` is neither read nor rendered again.
    """
    from contextkit.providers.endpoints import reader_of  # most recordings hold no bodies
    from contextkit.providers.rendered_blocks import memoize_blocks

    if len(raw) > MOST_BYTES:
        return None
    memoize_blocks(MEMO_BYTES)
    if len(near) > 1:
        near = sorted(near, key=lambda read: -common_bytes(read.body.raw, raw))
    try:
        grown = continued_body(raw, near[0].body, parse) if near else None
        fields = grown.fields if grown else parse(raw)
        body = reader_of(fields, f"{provider} {model}".lower()) if isinstance(fields, dict) else None
        items = [read.items for read in near]
        parsed = _parser(body, model)(_with_row(fields, body, model), near=items) if body else None
    except (UnreadableRequest, UnknownModel, NotSerialisable, *MISFITS):
        return None  # a body that nobody can read proves nothing
    if parsed is None or body is None:
        return None
    settings = keyed_settings(parsed.params, body.endpoint, parsed.layout.columns.raised(parsed.layout.n))
    whole = grown or whole_body(raw, fields, body.message_field)
    return Read(parsed.layout, parsed.prompt, settings, whole, parsed.items)


def _parser(body: BodyReader, model: str) -> ParseBody:
    """The parser of a body; only Claude's own hosts take the billing header out of the prompt."""
    from contextkit.providers.endpoints import PARSERS, has_billing_header_in_prompt

    parse_body: Callable[..., Parsed] = PARSERS[body.endpoint]
    is_in_prompt = has_billing_header_in_prompt(body.endpoint, model)
    return partial(parse_body, billing_header="significant") if is_in_prompt else parse_body


MISFITS = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What parsing JSON of another form raises."""


def _with_row(fields: dict[str, Json], body: BodyReader, model: str) -> dict[str, Json]:
    """`fields` with the name of a model whose rules are known."""
    requested = fields.get(body.model_field)
    name = requested if isinstance(requested, str) and requested else model
    return {**fields, body.model_field: row_near(name) or name or _DEFAULT_MODELS[body.endpoint]}


_DEFAULT_MODELS = {
    "anthropic_messages": "claude-sonnet-4-6",
    "bedrock_converse": "claude-sonnet-4-6",
    "openai_chat": "gpt-5.1",
    "openai_responses": "gpt-5.1",
    "gemini": "gemini-2.5-pro",
}
"""Endpoint → the model that an unnamed one is treated as."""


def row_near(model: str) -> str | None:
    """Name of the row a model goes by, its vendor's prefix and its date left out; None where the table has none.

    >>> row_near("anthropic/claude-opus-4.5"), row_near("us.anthropic.claude-haiku-4-5-20251001-v1:0"), row_near("gpt-4o-2024-08-06")
    ('claude-opus-4-5', 'claude-haiku-4-5', 'gpt-4o')
    """
    row = find_model(model)
    return row.name if row else None


def is_without_head(call: ModelCall) -> bool:
    """Return whether a recording holds only the messages of a call, as a transcript does: neither tools, nor system text,
    nor breakpoints.
    """
    prompt = call.prompt
    return isinstance(prompt, Outline) and prompt.level_ends[1] == 0 and not prompt.breakpoints


_BASE_DIGITS = 8
"""Of `Outline.base`."""


class Growing:
    """Follows the lanes of a recording and rebuilds each call's prompt as it comes."""

    __slots__ = ("_broken", "_lanes")

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._broken: set[tuple[str, str]] = set()
        """Lanes that miss a call: what continues them by length alone may continue something else."""

    def prompt(self, call: ModelCall) -> Prompt | None:
        """The prompt a cache saw, None where no outline was recorded, or the call that it continues is missing from
        the recording.

        It borrows the arrays of its lane, which only grow behind it. Costs what the call added.
        """
        outline, lane = call.prompt, (call.session, call.lane)
        if not isinstance(outline, Outline) or (lane in self._broken and outline.keep and not outline.base):
            return None
        try:
            prompt = self.whole_prompt(call)
        except LogCorrupt:
            self._broken.add(lane)
            return None
        self._broken.discard(lane)
        return prompt

    def whole_prompt(self, call: ModelCall) -> Prompt | None:
        """`prompt`, but raises `LogCorrupt` where an outline keeps segments that its lane does not have."""
        if not isinstance(call.prompt, Outline):
            return None
        return self._lanes.setdefault((call.session, call.lane), Lane()).grow(call.prompt, call.id)


def prompts_of(calls: Iterable[ModelCall]) -> Iterator[tuple[ModelCall, Prompt | None]]:
    """Each call with its prompt, as `Growing.whole_prompt` gives it."""
    growing = Growing()
    return ((call, growing.whole_prompt(call)) for call in calls)


class Lane:
    """What one lane has grown to: the arrays that differences are applied to."""

    __slots__ = ("digests", "ends_tokens", "positions", "prompt")

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.ends_tokens: list[int] = []
        self.positions: list[int] = []
        self.prompt: Prompt | None = None
        """The last prompt, on these arrays."""

    def grow(self, outline: Outline, call_id: str) -> Prompt:
        """The prompt `outline` stands for.

        Raises `LogCorrupt` where it does not fit what the lane holds, which then stays as it was.
        """
        self._check(outline, call_id)
        try:
            digests = [bytes.fromhex(digest) for digest in outline.digests]
            tools, system, messages = map(bytes.fromhex, outline.namespaces)
        except (TypeError, ValueError) as error:
            raise LogCorrupt(
                f"call {call_id!r} has an outline that cannot be read ({type(error).__name__}: {error})"
            ) from None
        if outline.keep < len(self.digests):  # earlier prompts keep the arrays that they borrowed
            keep = outline.keep
            self.digests, self.ends_tokens, self.positions = (
                self.digests[:keep],
                self.ends_tokens[:keep],
                self.positions[:keep],
            )
        self.digests.extend(digests)
        self.ends_tokens.extend(outline.ends_tokens)
        self.positions.extend(outline.positions)
        self.prompt = Prompt(
            (tools, system, messages),
            outline.level_ends,
            self.digests,
            self.ends_tokens,
            self.positions,
            outline.breakpoints,
            len(self.digests),
        )
        return self.prompt

    def _check(self, outline: Outline, call_id: str) -> None:
        if not isinstance(outline.keep, int) or not 0 <= outline.keep <= len(self.digests):
            raise LogCorrupt(
                f"call {call_id!r} keeps {outline.keep} segments of a lane that has {len(self.digests)}: "
                "a call before it is missing, or lanes were mixed"
            )
        if outline.keep and not self.digests[outline.keep - 1].hex().startswith(outline.base):
            raise LogCorrupt(
                f"call {call_id!r} keeps other segments than its lane has: a call before it is missing, or lanes were mixed"
            )
        if not len(outline.digests) == len(outline.ends_tokens) == len(outline.positions):
            raise LogCorrupt(f"call {call_id!r} has an outline whose columns differ in length")


def outline(previous: Prompt | None, prompt: Prompt, entries: Sequence[int], epoch: int) -> Outline:
    """`prompt` as a difference to `previous`, the prompt recorded before it in its lane.

    `entries` has one log sequence a segment.

    Leading segments with equal digests are kept: a changed namespace does not shorten them. O(log n + new segments).
    """
    keep = common_segments(previous.digests, previous.n, prompt.digests, prompt.n) if previous else 0
    new = range(keep, prompt.n)
    tools, system, messages = (namespace.hex() for namespace in prompt.namespaces)
    return Outline(
        keep=keep,
        namespaces=(tools, system, messages),
        level_ends=prompt.level_ends,
        digests=tuple(prompt.digests[i].hex() for i in new),
        ends_tokens=tuple(prompt.ends_tokens[i] for i in new),
        positions=tuple(prompt.positions[i] for i in new),
        entries=tuple(entries[i] for i in new),
        breakpoints=prompt.breakpoints,
        epoch=epoch,
        base=prompt.digests[keep - 1].hex()[:_BASE_DIGITS] if keep else "",
    )
