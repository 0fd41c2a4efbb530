"""Validation of bodies of the Gemini Interactions API.

Shapes are those of `google.genai.interactions` 3.6.1, checked where google-genai is installed. Rules that no type
expresses are written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contextkit.facts.parameters import keying
from contextkit.providers.gemini.validation import TOO_LONG, authenticated, invalid, window
from contextkit.providers.gemini_interactions.body import BODY, steps_of
from contextkit.providers.sdk_types import Rules, SdkType
from contextkit.providers.validation import PromptCheck, ReceivedRequest, Refusal, RequestCheck

__all__ = ["DECLARED_FIELDS", "PROMPT_CHECKS", "REQUEST_CHECKS", "TOO_LONG"]


def _create_type() -> Any:
    from google.genai.interactions import CreateModelInteractionParam

    return CreateModelInteractionParam


_RULES = Rules(closed=frozenset({"type"}), open_unions=frozenset({"tools"}))
_CREATE_TYPE = SdkType(_create_type, _RULES)
_IN_CONFIG = frozenset(
    {
        "image_config",
        "max_output_tokens",
        "seed",
        "speech_config",
        "stop_sequences",
        "temperature",
        "thinking_level",
        "thinking_summaries",
        "tool_choice",
        "top_p",
        "transcription_config",
        "video_config",
    }
)
"""Fields of `generation_config`; the table of request fields lists them beside the others."""
_TABLE = keying("gemini-interactions")
DECLARED_FIELDS = frozenset({*_TABLE.levels, *_TABLE.neutral, *BODY.block_fields, "generation_config"}) - _IN_CONFIG
"""Top-level fields of a request."""


def shape(received: ReceivedRequest) -> Iterator[Refusal]:
    """Each field has the type of the SDK; on a strict server it is declared."""
    body = received.body
    if received.is_strict:
        for name in body:
            if name not in DECLARED_FIELDS:
                yield invalid(name, "no such field")
    if "agent" in body:
        yield invalid("agent", "the local provider has no agents; name a model")
    if not isinstance(body.get("model"), str):
        yield invalid("model", "expected a value")
    try:
        yield from (
            invalid(mismatch.path, f"expected {mismatch.expected}") for mismatch in _CREATE_TYPE.mismatches(body)
        )
    except ImportError:
        return


def conversation(received: ReceivedRequest) -> Iterator[Refusal]:
    """The input ends with the user; each result answers a call, and each call has a result once the user goes on."""
    steps = steps_of(received.body.get("input"))
    if not steps:
        yield invalid("input", "expected a value")
        return
    open_calls: set[str] = set()
    for index, step in enumerate(steps):
        if not isinstance(step, dict):
            yield invalid(f"input[{index}]", "expected an object")
            return
        if step.get("type") == "function_call":
            open_calls.add(str(step.get("id")))
        elif step.get("type") == "function_result":
            if str(step.get("call_id")) not in open_calls:
                yield invalid(f"input[{index}].call_id", "no function call has this id")
            open_calls.discard(str(step.get("call_id")))
        elif open_calls and step.get("type") == "user_input":
            yield invalid(f"input[{index}]", "a function call before it has no result")
    if open_calls:
        yield invalid("input", "a function call has no result")
    if steps[-1].get("type") in ("model_output", "thought"):
        yield invalid("input", "Please ensure that multiturn requests end with a user role.")


REQUEST_CHECKS: tuple[RequestCheck, ...] = (authenticated, shape, conversation)
PROMPT_CHECKS: tuple[PromptCheck, ...] = (window,)
