"""output-schema-change: the schema of the answer changes, and it stands in front of the conversation.

## What it does
Finds a `response_format`, an `output_config.format`, a `response_schema` or an output tool that is another one per call of a
conversation.

## Why it costs you
The schema is rendered into the prompt, or is part of the key: OpenAI counts it like a tool, Claude drops the conversation's cache when
it changes, Gemini renders it before the contents, and an output tool changes the list of tools itself. Alternating between two schemas
is two caches that each see every second turn.

## Example
    schema = PLAN if step == 0 else RESULT
    client.responses.parse(model="gpt-6.1-sol", input=history, text_format=schema)

## Use instead
One schema for a conversation (a union of the answers), or the schema as text in the newest message, checked on arrival; what needs a
schema of its own runs in a lane of its own. OpenAI's Responses take a `configuration_update` item behind what was sent:

    context = Context(OpenAIResponses("gpt-6.1-sol", output=Plan), system=SYSTEM, tools=TOOLS)
    context.notice(OutputChanged(Result))

## Detected by
- source: a condition on the turn, or the user's text, decides the schema of the answer.
- requests: the schema differs from the call before, on Claude, OpenAI and Gemini.
- guard: the same, before it is sent.
- provider: `text_format_changed` from OpenAI; Anthropic has no word of its own for it.

## References
- https://github.com/googleapis/python-genai/issues/1148
- https://github.com/vertesia/llumiverse/issues/541
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.canonical import Json
from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.callsites import is_per_turn
from contextkit.lint.rules.chosen import cause_of, chosen
from contextkit.lint.rules.settings import differs, had_cached, is_claude
from contextkit.lint.source.rule import Flow, Hit, Pattern, View

_PATHS = {
    "anthropic_messages": ("output_config.format", "output_format"),
    "openai_chat": ("response_format",),
    "openai_responses": ("text.format",),
    "bedrock_converse": ("outputConfig.textFormat",),
    "gemini": tuple(
        f"{config}.{name}"
        for config in ("generationConfig", "generation_config")
        for name in ("responseSchema", "responseJsonSchema", "response_schema", "response_json_schema")
    ),
}
_NAMES = (
    "response_format",
    "text_format",
    "output_format",
    "response_schema",
    "response_model",
    "text.format",
    "output_config.format",
)
_MESSAGE = "the schema of the answer is chosen per call by {source}"
_RENDERS = ("openai", "azure", "google")
_PLAIN: Json = {"type": "text"}


def _structured(node: ast.Call, view: View) -> Iterator[Hit]:
    """`llm.with_structured_output(PLAN if step == 0 else RESULT)`."""
    is_one = isinstance(node.func, ast.Attribute) and node.func.attr == "with_structured_output" and bool(node.args)
    cause = cause_of(node.args[0], view) if is_one and is_per_turn(view) else ""
    if cause:
        yield Hit(node.args[0], _MESSAGE.replace("{source}", f"`{cause}`"))


def _changed(step: Step) -> Evidence | None:
    found = differs(step, _PATHS, lambda value: None if value == _PLAIN else value)
    if found is None or not (
        had_cached(step, "messages") if is_claude(step.after) else step.after.row.provider in _RENDERS
    ):
        return None
    return found.evidence(f"the schema of the answer changed between calls {step.turn - 1} and {step.turn}")


HAZARD = Hazard(
    "CKP05",
    "output-schema-change",
    "A",
    "error",
    source=(
        *chosen(_NAMES, _MESSAGE),
        Pattern((ast.Call,), _structured, ("with_structured_output",), is_near=True),
        Flow(("user", "choice"), ("output",), _MESSAGE, in_loop_only=True),
    ),
    requests=(RequestRule("step", _changed),),
    confirmed_by=("text_format_changed",),
)
