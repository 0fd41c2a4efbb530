"""Which reasoning an API leaves out of a prompt: by rule, and where a reply says so.

Takes parameters, replies and requests; gives what the model saw. The wire keeps what the log holds: the API decides
anew each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import dataclass, replace

from contextkit.canonical import Json, parse
from contextkit.layout.divergence import path_of
from contextkit.layout.track import Track
from contextkit.models import Model
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request

_CONTEXTS: Mapping[str, bool] = {"current_turn": True, "all_turns": False}
"""`reasoning.context` → whether reasoning of earlier turns leaves the prompt when the user speaks
(shared_params/reasoning.py:19-27)."""


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
    return _CONTEXTS.get(
        str(context), model.strips_thinking or (model.provider == "openai" and model.cache == "implicit")
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as the model saw it."""

    request: Request
    """With a prompt that does not count what was left out."""
    withheld: tuple[str, ...]
    """Names of reasoning that should have been in it and was not: ids on Responses, digests of signatures on Messages.
    """
    reasons: tuple[str, ...]
    """Why, each reason once: `prefix_mismatch`, `prefix_binding_mismatch`, …"""


def seen(request: Request, provider: Provider, withheld: Mapping[str, str]) -> Seen:
    """`request` as its reply says it was read: without what was `withheld` (id, or path in the body → why), as far as
    it counted.
    """
    whys = _by_name(request.layout.track, withheld) if withheld and request.wire == provider.wire else {}
    found = named_in(request.layout.track, whys)
    if not found:
        return Seen(request, (), ())
    track = request.layout.track.rewound(request.layout.n)
    track.withhold(found.values())
    layout, other = replace(request.layout, track=track), copy(request)
    other.layout, other.prompt = layout, provider.prompt(layout, request.params)
    return Seen(other, tuple(found), tuple(dict.fromkeys(whys[name] for name in found)))


def named_in(track: Track, names: Collection[str]) -> dict[str, int]:
    """Names among `names` of reasoning that counts in a prompt → its segment."""
    known = {_name(track, index): index for index in track.pieces_thinking} if names else {}
    return {name: known[name] for name in names if name in known}


def _by_name(track: Track, withheld: Mapping[str, str]) -> dict[str, str]:
    """Why by name: Anthropic says where in this body a block stood
    (anthropic/types/beta/beta_thinking_dropped_input_transformation.py).
    """
    if not any(place.startswith("messages.") for place in withheld):
        return dict(withheld)
    at = {path_of(track, index).replace("[", ".").replace("]", ""): index for index in track.pieces_thinking}
    return {_name(track, at[place]): why for place, why in withheld.items() if place in at}


def _name(track: Track, index: int) -> str:
    """The item's id; where it has none, a digest of what seals it."""
    block = parse(track.body(index))
    sealed = str(block.get("signature") or block.get("data") or block.get("thinking"))
    return str(block.get("id") or hashlib.sha256(sealed.encode()).hexdigest()[:16])
