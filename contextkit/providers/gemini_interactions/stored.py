"""Interactions that the local provider stores, as Google does where `store` is not false.

A request that names `previous_interaction_id` continues its steps; tools, system instruction and generation settings are
those of the request alone (https://ai.google.dev/gemini-api/docs/interactions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from contextkit.canonical import Json
from contextkit.providers.gemini_interactions.body import PREVIOUS, steps_of
from contextkit.providers.openai.stored import MAX_STORED, Stored
from contextkit.providers.openai.stored_requests import StoredAnswer, StoredRequest
from contextkit.providers.validation import ReceivedRequest, Refusal


def resolved(stored: Stored, received: ReceivedRequest) -> ReceivedRequest | Refusal:
    """A request with the steps of the interaction that it continues."""
    name = received.body.get(PREVIOUS)
    if name is None:
        return received
    steps = stored.histories.items(name) if isinstance(name, str) else None
    if steps is None:
        return _missing(name)
    body = {field: value for field, value in received.body.items() if field != PREVIOUS}
    body["input"] = [*steps, *steps_of(received.body.get("input"))]
    return replace(received, body=body, body_as_sent=received.body)


def store(stored: Stored, received: ReceivedRequest, interaction: Mapping[str, Json]) -> None:
    """Store the input of a request and its interaction, unless the request opts out."""
    body = received.body if received.body_as_sent is None else received.body_as_sent
    if body.get("store") is False:
        return
    steps = [*steps_of(body.get("input")), *interaction["steps"]]
    stored.histories.keep(interaction["id"], steps, body.get(PREVIOUS))
    stored.responses[interaction["id"]] = interaction
    if len(stored.responses) > MAX_STORED:
        stored.responses.popitem(last=False)


def interaction(request: StoredRequest) -> StoredAnswer:
    """`GET` and `DELETE /interactions/{id}`."""
    stored = request.stored.responses.get(request.name)
    if stored is None:
        return _missing(request.name)
    if request.method == "GET":
        return stored
    del request.stored.responses[request.name]
    request.stored.histories.forget(request.name)
    return {}


def _missing(name: str) -> Refusal:
    return Refusal(404, "NOT_FOUND", f"Interaction with id '{name}' not found.")
