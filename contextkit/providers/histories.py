"""Histories that a provider stores: `previous_response_id`, `conversation`, and replies that sum up what was before.

- `Histories` maps the name of a response or conversation to its items, and completes a body that names one. What one holds
  is stored once, however many continue from it; the oldest are evicted, and with them whatever continued from them.
- `summed_up` splits a reply in which the server compacted what was before. `client.responses.compact` returns a summary
  alone; so does a response to an input that ends with a `compaction_trigger`; with `context_management` a summary stands
  before what the model says (responses/response_create_params.py:367, response_input_item_param.py:734). Items before the
  summary may be left out of later inputs (https://developers.openai.com/api/docs/guides/compaction).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from contextkit.canonical import Json, canonical, parse
from contextkit.providers.parameters import value_at

PREVIOUS, CONVERSATION = "previous_response_id", "conversation"
"""The two fields that name what the server keeps (responses/response_create_params.py:59,152); a request has one of
them at most."""


MOST_BYTES = 1 << 26
"""What is kept: 64 MiB, some hundred long conversations."""


REFERENCE = "item_reference"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A name nothing is kept under."""

    field: str
    """Where it stands: `previous_response_id`, `conversation`, `input[2].id`."""
    name: str
    """The name."""


@dataclass(slots=True)
class _Turn:
    """What was said at once."""

    name: str
    before: _Turn | None
    raw: bytes | None
    """JSON array of items; None once it went."""
    ids: tuple[str, ...]


class Histories:
    """Items by the name of the response, or of the conversation, that holds them.

    >>> kept = Histories()
    >>> kept.keep("resp_1", [{"role": "user", "content": "hi"}])
    >>> kept.whole({"previous_response_id": "resp_1", "input": "and?"})["input"]
    [{'role': 'user', 'content': 'hi'}, {'role': 'user', 'content': 'and?'}]
    >>> kept.whole({"previous_response_id": "resp_2", "input": "and?"})
    Unknown(field='previous_response_id', name='resp_2')
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._n_bytes = most_bytes, 0
        self._order: deque[_Turn] = deque()
        self._named: dict[str, _Turn] = {}
        self._places: dict[str, _Turn] = {}

    def keep(self, name: str, items: Iterable[Json], before: str | None = None) -> None:
        """Under `name` stands what stood under `before`, then `items`.

        `before` may be `name` itself. Nothing where it is not known.
        """
        if before is not None and before not in self._named:
            return
        listed = list(items)
        ids = tuple(item["id"] for item in listed if isinstance(item, dict) and isinstance(item.get("id"), str))
        said = _Turn(name, self._named.get(before) if before else None, canonical(listed), ids)
        self._named[name] = said
        self._places.update(dict.fromkeys(ids, said))
        self._order.append(said)
        self._n_bytes += len(said.raw or b"")
        while self._n_bytes > self._most:
            self._drop(self._order.popleft())

    def follow(self, name: str, body: Mapping[str, Json], output: Iterable[Json]) -> None:
        """Under the response `name` stands what `body` asked with, and what came."""
        said, before = self.new_input(body), named_in(body)
        if isinstance(said, list | str):
            listed = [{"role": "user", "content": said}] if isinstance(said, str) else said
            self.keep(name, [*listed, *output], before.name if before else None)

    def forget(self, name: str) -> None:
        """Nothing stands under `name`; what went on from it stays."""
        self._named.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._named

    def items(self, name: str) -> list[Json] | None:
        """Everything under `name`, in order; None where it is not known, or a part of it went."""
        said, parts = self._named.get(name), list[bytes]()
        if said is None:
            return None
        while said is not None:
            if said.raw is None:
                return None
            parts.append(said.raw)
            said = said.before
        return [item for raw in reversed(parts) for item in parse(raw)]

    def item(self, name: str) -> Json:
        """The item with this id, None where it is not known."""
        place = self._places.get(name)
        held = [] if place is None or place.raw is None else parse(place.raw)
        return next((item for item in held if isinstance(item, dict) and item.get("id") == name), None)

    def whole(
        self, body: Mapping[str, Json], beside: Mapping[str, list[Json]] = MappingProxyType({})
    ) -> dict[str, Json] | Unknown:
        """`body` with its whole input, and without the name of what it goes on from; `beside` holds items of names that
        are not kept here.

        Itself, copied, where it leans on nothing.
        """
        before = named_in(body)
        held = [] if before is None else beside[before.name] if before.name in beside else self.items(before.name)
        if before is not None and held is None:
            return before
        said = self.new_input(body)
        if isinstance(said, Unknown):
            return said
        fields = {name: value for name, value in body.items() if name not in (PREVIOUS, CONVERSATION)}
        return {**fields, "input": [*(held or ()), *said]} if held or said is not body.get("input") else fields

    def new_input(self, body: Mapping[str, Json]) -> Json:
        """Return the input of `body` as a list, with items in the place of references.

        `Unknown` where one is not known.
        """
        given = body.get("input")
        listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
        if not isinstance(listed, list) or not any(map(_is_reference, listed)):
            return given if named_in(body) is None else listed or []
        found = [self.item(str(item.get("id"))) if _is_reference(item) else item for item in listed]
        missing = next((index for index, item in enumerate(found) if item is None), None)
        return found if missing is None else Unknown(f"input[{missing}].id", str(listed[missing].get("id")))

    def _drop(self, said: _Turn) -> None:
        self._n_bytes -= len(said.raw or b"")
        said.raw, said.before = None, None
        for name in said.ids:
            if self._places.get(name) is said:
                del self._places[name]
        if self._named.get(said.name) is said:
            del self._named[said.name]


def named_in(body: Mapping[str, Json]) -> Unknown | None:
    """Return the stored state that a body continues, known or not; None if the body is complete."""
    previous = body.get(PREVIOUS)
    if isinstance(previous, str) and previous:
        return Unknown(PREVIOUS, previous)
    conversation = body.get(CONVERSATION)
    name = conversation.get("id") if isinstance(conversation, dict) else conversation
    return Unknown(CONVERSATION, name) if isinstance(name, str) and name else None


def all_named_in(body: Mapping[str, Json]) -> list[Unknown]:
    """Return everything that a body puts into its prompt by name: the state it continues, items of its input, a stored
    prompt (responses/response_prompt_param.py), Gemini's cached content.

    >>> [one.field for one in all_named_in({"previous_response_id": "resp_1", "input": [{"id": "msg_1"}], "prompt": {"id": "p"}})]
    ['previous_response_id', 'input[0].id', 'prompt.id']
    """
    continued, items = named_in(body), body.get("input")
    listed = items if isinstance(items, list) else []
    nested = {".".join(path): value_at(body, path) for path in _STORED_PROMPTS}
    return [
        *([continued] if continued else []),
        *(Unknown(f"input[{at}].id", str(item.get("id"))) for at, item in enumerate(listed) if _is_reference(item)),
        *(Unknown(field, str(name)) for field, name in nested.items() if name),
    ]


_STORED_PROMPTS = (
    ("prompt", "id"),
    ("cachedContent",),
    ("cached_content",),
    ("extra_body", "google", "cached_content"),
)


def _is_reference(item: Json) -> bool:
    """A reference may leave its type out (responses/response_input_item_param.py)."""
    return isinstance(item, dict) and (
        item.get("type") == REFERENCE or (item.get("type") is None and "id" in item and "role" not in item)
    )


def summed_up(body: Mapping[str, Json]) -> tuple[list[Json], list[Json]] | None:
    """Items that stand for everything before, and items said behind them; None where nothing was summed up.

    >>> said = [{"type": "compaction", "encrypted_content": "…"}, {"type": "message", "role": "assistant", "content": "Done."}]
    >>> [len(part) for part in summed_up({"native": {"wire": "openai_responses", "body": said}, "stop": "done"})]
    [1, 1]
    """
    native = body["native"]
    items = list(native["body"])
    if body["stop"] == "compacted":
        return items, []
    if native["wire"] != "openai_responses":
        return None
    places = [index for index, item in enumerate(items) if item.get("type") == "compaction"]
    return ([items[places[-1]]], items[places[-1] + 1 :]) if places else None
