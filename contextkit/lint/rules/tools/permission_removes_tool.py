"""permission-removes-tool: a mode, a role or a permission takes tools out of the list.

## What it does
Plan mode hides the tools that write, a deny rule removes one, switching to another agent of the same conversation
brings another set. The filter stands in the request builder, so each change of mode is a change of the prompt's first
level.

## Why it costs you
Entering and leaving a mode costs the whole conversation twice: tools, system and messages are written again at 1.25
times the input price on Anthropic, where reading them would cost a tenth. On OpenAI the list of tools keys the prefix
too. Modes tend to be switched late, when the history is longest.

## Example
    def tools_for(mode):
        return [tool for tool in TOOLS if mode.allows(tool.name)]

    reply = client.messages.create(model=MODEL, max_tokens=2048, tools=tools_for(session.mode), messages=messages)

## Use instead
Describe every tool always, enforce the permission when a call arrives, and tell the model at the tail:

    messages.append({"role": "user", "content": "Plan mode: propose changes, write nothing."})
    ...
    if not session.mode.allows(call.name):
        result = {"is_error": True, "content": f"{call.name} is not available in plan mode"}

On OpenAI `tool_choice` of type `allowed_tools` restricts the choice without touching the prefix. In contextkit:
`context.notice(...)` for the mode, and `call.deny("plan mode")` for what comes anyway.

## Detected by
- source: tools filtered by a mode, a role or permissions where the request is built.
- requests: a subset of the tools goes or returns at the very call at which the text names a mode, or another agent
  takes over.
- guard: the same comparison, before the call leaves.
- provider: `tools_changed` (Anthropic and OpenAI).

## References
- https://github.com/anomalyco/opencode/issues/50055
- https://github.com/OpenBMB/PilotDeck/issues/279
- https://github.com/GCWing/OpenBitFun/issues/925
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKT11", "permission-removes-tool", "A", "warning", confirmed_by=("tools_changed",))
