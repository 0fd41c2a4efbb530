"""Which reasoning the Responses API leaves out of a prompt: by rule, and where a reply says so.

Takes parameters, replies and requests; gives what the model saw. The wire keeps what the log holds: the API decides anew each time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, replace

from contextkit.canonical import Json, parse
from contextkit.layout.track import Track
from contextkit.models import Model
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request

_CONTEXTS: Mapping[str, bool] = {"current_turn": True, "all_turns": False}
"""`reasoning.context` → whether reasoning of earlier turns leaves the prompt when the user speaks (shared_params/reasoning.py:19-27)."""


def strips(wire: str, model: Model, params: Mapping[str, Json]) -> bool:
    """Whether earlier thinking leaves the prompt when a new user turn arrives.

    On Responses the parameter says so, else the model's family: `all_turns` from gpt-5.6 on, `current_turn` before
    (shared_params/reasoning.py:24; for gpt-6 assumed as for gpt-5.6).

    >>> from contextkit.models import model_named
    >>> [strips("openai_responses", model_named(name), {}) for name in ("gpt-5.5", "gpt-5.6-sol", "gpt-6.1-sol")]
    [True, False, False]
    """
    if wire != "openai_responses":
        return model.strips_thinking
    asked = params.get("reasoning")
    context = asked.get("context") if isinstance(asked, Mapping) else None
    return _CONTEXTS.get(str(context), model.strips_thinking or (model.provider == "openai" and model.cache == "implicit"))


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as the model saw it."""

    request: Request
    """With a prompt that does not count what was left out."""
    withheld: tuple[str, ...]
    """Ids of reasoning that should have been in it and was not."""
    reasons: tuple[str, ...]
    """Why, each reason once: `prefix_mismatch`, `model_mismatch`, …"""


def seen(request: Request, provider: Provider, withheld: Mapping[str, str]) -> Seen:
    """`request` as its reply says it was read: without what was `withheld` (id → why), as far as it was counted."""
    found = named_in(request.layout.track, withheld) if withheld and request.wire == provider.wire else {}
    if not found:
        return Seen(request, (), ())
    track = request.layout.track.rewound(request.layout.n)
    track.withhold(found.values())
    layout, other = replace(request.layout, track=track), copy(request)
    other.layout, other.prompt = layout, provider.prompt(layout, request.params)
    return Seen(other, tuple(found), tuple(dict.fromkeys(withheld[name] for name in found)))


def named_in(track: Track, names: Collection[str]) -> dict[str, int]:
    """Ids among `names` of reasoning that counts in a prompt → its segment."""
    ids = {str(parse(track.body(index)).get("id")): index for index in track.pieces_thinking}
    return {name: ids[name] for name in names if name in ids}
