"""What changes the configuration of a conversation from one item on: an effort, the form of a reply.

Takes the event of a notice, gives the item of Responses that says it
(responses/response_configuration_update_item_param_param.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextkit.canonical import Json
from contextkit.providers.settings.output import format_of

_SETS: Mapping[str, Callable[[Mapping[str, Json]], dict[str, Json]]] = {
    "effort": lambda event: {"reasoning": {"effort": event["effort"]}},
    "output": lambda event: {"text": {"format": format_of(event)}},
}
"""Type of an event → what it sets."""


def updates(event: Mapping[str, Json]) -> list[Json]:
    """The item that an event is, none where it is told in words.

    >>> updates({"type": "effort", "effort": "low"}), updates({"type": "date", "date": "2026-11-22"})
    ([{'type': 'configuration_update', 'reasoning': {'effort': 'low'}}], [])
    """
    said = _SETS.get(event["type"])
    return [] if said is None else [{"type": "configuration_update", **said(event)}]
