"""One request's mask in its provider's words, and what the change into it cost.

Takes a mask, a provider and the request's own parameters; gives the fields to send and what can be looked up about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from contextkit.canonical import Json
from contextkit.layout.layout import Layout
from contextkit.layout.segment import LEVELS
from contextkit.layout.track import Track
from contextkit.providers.masking.engines import GRAMMARS
from contextkit.providers.masking.mechanisms import Endpoint, choice, telling
from contextkit.providers.provider import Provider
from contextkit.tools.mask import Mask, Permit
from contextkit.tools.tool import Tool
from contextkit.tools.toolbox import Toolbox

_MESSAGES = LEVELS.index("messages")


@dataclass(frozen=True, slots=True)
class Lowered:
    """What one request says of what may be called."""

    mask: Mask
    """What may be called."""
    mechanism: str
    """What carries it: a row of `mechanisms.py`; `nothing` without phases, `override` where the caller chose for this
    call."""
    enforced_by: str
    """`provider`, `contextkit` (a call outside the mask is refused at our side), or `nobody` without phases."""
    fields: Mapping[str, Json]
    """What is sent beside the conversation: `tool_choice`, an engine's own constraint."""
    entry: int
    """Sequence of the `phase` entry it comes from, -1 for none."""
    is_free: bool
    """Whether no cache looks at them."""
    layout: Layout | None = field(default=None, repr=False)
    """What is sent."""

    @property
    def allowed(self) -> tuple[str, ...]:
        """Names that may be called, in the order of the toolbox; empty without phases."""
        return self.mask.allowed

    @property
    def mode(self) -> str:
        """auto, required, specified or none."""
        return self.mask.mode

    @property
    def tool_choice(self) -> Json:
        """What is sent as `tool_choice`, None where it is left alone."""
        return self.fields.get("tool_choice")

    @property
    def cost_tokens(self) -> int:
        """What the change into this phase costs, once: tokens appended.

        Where a choice is forced, also the messages written anew.
        """
        if self.layout is None or self.entry < 0:
            return 0
        first, last = _span(self.layout.track, self.layout.n, self.entry)
        appended = _ends(self.layout.track, last) - _ends(self.layout.track, first)
        return appended + (0 if self.is_free else _messages(self.layout.track, first))

    def over(self, layout: Layout) -> Lowered:
        """The same, for the layout it is sent with."""
        return replace(self, layout=layout)


NOTHING = Lowered(Mask("", (), "auto", True, False), "nothing", "nobody", {}, -1, True)
"""A conversation without phases."""


def lower(permit: Permit, phase: str, provider: Provider, overrides: Mapping[str, Json], entry: int) -> Lowered:
    """The mask of `phase`, entered by the log's `entry`, in the words of `provider`.

    `overrides` are this call's own parameters.
    """
    mask, params = permit.mask(phase), {**provider.params, **overrides}
    decoding = getattr(provider, "decoding", None)  # only endpoints of self-hosted engines have one
    asked = Endpoint(provider.wire, provider.model, provider.betas, permit.is_in_band, decoding)
    told, chosen = telling(asked), choice(asked, mask, params)
    if "tool_choice" in overrides or (decoding and not overrides.keys().isdisjoint(GRAMMARS)):
        return Lowered(mask, "override", "contextkit", {}, entry, True)
    if chosen is None:
        return Lowered(mask, told.name, told.enforced_by, {}, entry, True)
    said = dict(chosen.spell(asked, mask, _allowed(mask, permit.toolbox)))
    if "tool_choice" in said:
        said["tool_choice"] = _beside(params.get("tool_choice"), said["tool_choice"])
    return Lowered(mask, chosen.name, "provider", said, entry, chosen.is_free)


def _allowed(mask: Mask, toolbox: Toolbox) -> list[Tool]:
    return [toolbox[name] for name in mask.allowed]


def _beside(given: Json, said: Json) -> Json:
    """A choice that keeps what the caller's own one says besides: whether calls may be parallel."""
    kept = given.get("disable_parallel_tool_use") if isinstance(given, Mapping) and isinstance(said, Mapping) else None
    return said if kept is None or said.get("type") == "none" else {**said, "disable_parallel_tool_use": kept}


def _span(track: Track, n: int, entry: int) -> tuple[int, int]:
    """First segment of an entry and the one behind its last; both `n` where it is not among the first `n`."""
    last = next((index + 1 for index in range(n - 1, -1, -1) if track.entries[index] == entry), n)
    first = last
    while first and track.entries[first - 1] == entry:
        first -= 1
    return first, last


def _messages(track: Track, n: int) -> int:
    """Tokens of the messages among the first `n` segments."""
    head = min(track.level_ends[_MESSAGES - 1], n)
    return _ends(track, n) - _ends(track, head)


def _ends(track: Track, n: int) -> int:
    return track.ends_tokens[n - 1] if n else 0
