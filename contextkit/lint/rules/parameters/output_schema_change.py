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

    context = Context(OpenAIResponses("gpt-6.1-sol", text={"format": ANY_ANSWER}), system=SYSTEM, tools=TOOLS)

## Detected by
- source: a schema that is not constant flows into the answer's format of a call in a loop.
- requests: the schema differs from the call before.
- guard: the same, before it is sent.
- provider: `text_format_changed` from OpenAI; Anthropic has no word of its own for it.

## References
- https://github.com/googleapis/python-genai/issues/1148
- https://github.com/vertesia/llumiverse/issues/541
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKP05", "output-schema-change", "A", "error", confirmed_by=("text_format_changed",))
