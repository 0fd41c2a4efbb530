"""volatile-tool-description: a tool's description holds a value that changes.

## What it does
A description names the working folder, a session's address, a temporary path, the user, today's date or a number of
documents. The author meant to help the model; the definition is now different for every session, day or call.

## Why it costs you
Descriptions are rendered before system and messages. A few changed characters in one of them end the reusable prefix
there: on Anthropic all three levels are computed again, on OpenAI everything from that tool on. If the value differs
per session, no two sessions share their tools and system, which are often the largest part that could be shared.

## Example
    tools = [{
        "name": "run_shell",
        "description": f"Run a command in {os.getcwd()}. Today is {date.today()}.",
        "input_schema": COMMAND_SCHEMA,
    }]
    client.messages.create(model=MODEL, max_tokens=2048, tools=tools, messages=messages)

## Use instead
Make descriptions constants and let the value arrive later: in the first user message, in a notice, or as what the
tool answers.

    tools = [{"name": "run_shell", "description": "Run a command in the session's folder.", "input_schema": COMMAND_SCHEMA}]
    messages = [{"role": "user", "content": f"Folder: {folder}"}, *messages]

With contextkit: a constant docstring under `@tool`, and `context.notice(f"The folder is {folder}.")`.

## Detected by
- source: a clock, date, id, place, environment or person value that reaches a description, or a `__doc__` edited at
  run time.
- requests: name and schema of a tool are equal and its description differs in a short span.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/87137
- https://github.com/gpambrozio/ClaudeDocs (Claude Code changelog: dynamic content removed from tool descriptions)
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT08", "volatile-tool-description", "A", "error", confirmed_by=("tools_changed",))
