"""Request bodies of the Gemini Interactions API: recognised, read as blocks, and parsed.

An input is a text, one content, a list of contents, or a list of steps: the user's input, the model's output, thoughts,
calls and their results. Field names: google.genai.interactions 3.6.1 (CreateModelInteractionParam, StepParam). Every
prefix is cached automatically; source: https://ai.google.dev/gemini-api/docs/caching.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.models import model_named
from contextkit.prompt.block import mapped
from contextkit.prompt.prompt import Grammar, Level, PromptColumns, PromptLayout
from contextkit.providers.body import BodyPart, BodyReader, parts_of_content, tool_parts
from contextkit.providers.keyed_blocks import RESULT
from contextkit.providers.provider import Parsed, Trait, expect, keyed, render_block

WIRE = "gemini_interactions"
PREVIOUS = "previous_interaction_id"
"""Field that names the stored interaction that a request continues."""
_CONTENT_TYPES = {"text": "text", "image": "image", "document": "document", "audio": "audio", "video": "video"}
_STEP_TYPES = {"thought": "thinking", "function_call": "call", "function_result": "result"}
_OWN_STEPS = frozenset({"user_input", "model_output", "thought", "function_result"})
"""Types of steps that no item of OpenAI's Responses API has."""
_OWN_FIELDS = frozenset(
    {"system_instruction", "generation_config", PREVIOUS, "response_modalities", "agent", "agent_config"}
)
_MESSAGES = {"user_input": "user", "model_output": "model"}


def _is_body(fields: Mapping[str, Json]) -> bool:
    if "input" not in fields or "messages" in fields:
        return False
    model = fields.get("model")
    if isinstance(model, str) and model.startswith(("gemini", "models/gemini")) and "instructions" not in fields:
        return "embed" not in model
    value = fields["input"]
    steps = value if isinstance(value, list) else [value]
    has_own_steps = any(isinstance(step, dict) and str(step.get("type")) in _OWN_STEPS for step in steps)
    return has_own_steps or not _OWN_FIELDS.isdisjoint(fields)


def head_parts(fields: Mapping[str, Json]) -> Iterator[BodyPart]:
    """Tools, then system text."""
    yield from tool_parts(fields)
    yield from parts_of_content("system", fields.get("system_instruction"), "system_instruction", -1, "system", {})


def step_parts(step: Json, index: int, level: Level) -> Iterator[BodyPart]:
    """The parts of a step, or of a content that stands for a step of the user."""
    path = f"input[{index}]"
    fields = mapped(step, path)
    kind = str(fields.get("type", ""))
    if kind in _MESSAGES or not kind:  # a text as input is a message without a type
        role = _MESSAGES.get(kind, "user")
        yield from parts_of_content(level, fields.get("content"), f"{path}.content", index, role, _CONTENT_TYPES)
    elif kind in _CONTENT_TYPES:
        yield BodyPart(level, path, index, "user", _CONTENT_TYPES[kind], fields)
    else:
        is_result = kind.endswith("_result")
        named = _STEP_TYPES.get(kind) or ("result" if is_result else "call" if kind.endswith("_call") else kind)
        yield BodyPart(level, path, index, "user" if kind == "function_result" else "model", named, fields)


BODY = BodyReader(
    endpoint=WIRE,
    is_body=_is_body,
    message_field="input",
    block_fields=frozenset({"tools", "system_instruction", "input"}),
    head_parts=head_parts,
    message_parts=step_parts,
    is_framed=False,
)
_GRAMMAR = Grammar(
    arrays={"tools": "tools", "system": "system_instruction", "messages": "input"},
    merges_roles=True,
    advances=lambda before, run, opens: True,
    marker=lambda ttl: b"",
    message_tokens=3,
)


def parse(body: Json) -> Parsed:
    """Parse a body into its blocks and parameters; the history that it names is not in it.

    Raises `UnreadableRequest` with the path of a value whose JSON type is wrong.
    """
    fields = expect(body, dict, "body", "an object")
    model = model_named(expect(fields.get("model"), str, "model", "a string").removeprefix("models/"), "google")
    columns = PromptColumns(
        _GRAMMAR, strips_thinking=model.strips_thinking, tool_prompt_tokens=model.tool_prompt_tokens
    )
    for part in BODY.parts(fields):
        is_result = part.type == "result"
        trait = Trait(RESULT if is_result else "", can_hold_breakpoint=False, is_thinking=part.type == "thinking")
        role = part.role if part.level == "messages" else ""
        value = _countable({"type": "text", "text": part.value} if isinstance(part.value, str) else part.value)
        is_turn = role == "user" and not is_result
        columns.append(render_block(value, part.level, role, trait, model.name, is_turn=is_turn))
    layout, params = PromptLayout(columns, len(columns)), BODY.params(fields)
    prompt = keyed("gemini-interactions", _keyed(params), columns.raised(len(columns)), columns, len(columns), ())
    return Parsed(model.name, params, layout, prompt)


def _keyed(params: Mapping[str, Json]) -> dict[str, Json]:
    """Parameters, those of the generation among them."""
    config = expect(params.get("generation_config") or {}, dict, "generation_config", "an object")
    return {**{name: value for name, value in params.items() if name != "generation_config"}, **config}


def _countable(value: Json) -> Json:
    """A block with its media as generateContent has them, the form whose tokens are counted."""
    if isinstance(value, list):
        return [_countable(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") in ("image", "document", "audio", "video"):
        media_type = value.get("mime_type") or f"{value['type']}/*"
        if "data" in value:
            return {"inlineData": {"mimeType": media_type, "data": value["data"]}}
        return {"fileData": {"mimeType": media_type, "fileUri": value.get("uri")}}
    return {name: _countable(item) if name == "result" else item for name, item in value.items()}


def steps_of(value: Json) -> list[Json]:
    """An input as steps: a text, a content or contents are a step of the user.

    >>> steps_of("hi")
    [{'type': 'user_input', 'content': [{'type': 'text', 'text': 'hi'}]}]
    """
    if isinstance(value, str):
        value = [{"type": "text", "text": value}]
    contents = value if isinstance(value, list) else [] if value is None else [value]
    if contents and all(isinstance(one, dict) and str(one.get("type")) in _CONTENT_TYPES for one in contents):
        return [{"type": "user_input", "content": contents}]
    return contents
