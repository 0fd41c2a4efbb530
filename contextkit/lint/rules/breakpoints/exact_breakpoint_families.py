"""exact-breakpoint-families: on gpt-5.6 and later only an exact breakpoint matches, and the stable instructions have none.

## What it does
Finds calls to OpenAI models from gpt-5.6 on with large, stable instructions and no explicit `prompt_cache_breakpoint`, where
conversations share the instructions and nothing else.

## Why it costs you
These models match at breakpoints only and fall back to no shorter prefix. The automatic one sits at the end of the newest eligible
message, so it serves the same conversation but not the next one: every new conversation writes the same instructions again, at 1.25
times input (2.5 times for 12 hours), and reads nothing. Through Bedrock's OpenAI-compatible endpoint a report measured no hits at all
without explicit breakpoints and 98.6 % with one. The top-level `instructions` string cannot carry a breakpoint; a developer message
can.

## Example
    client.responses.create(model="gpt-6.1-sol", instructions=LONG_INSTRUCTIONS, input=[{"role": "user", "content": question}])

## Use instead
A developer message with a breakpoint at the end of what is shared; `OpenAIResponses` and `OpenAIChat` send the system prompt like that:

    head = {"type": "input_text", "text": LONG_INSTRUCTIONS, "prompt_cache_breakpoint": {"mode": "explicit"}}
    client.responses.create(
        model="gpt-6.1-sol", input=[{"role": "developer", "content": [head]}, {"role": "user", "content": question}],
    )

## Detected by
- source: a call with a model of these families and `instructions`, or a system text, without a breakpoint.
- requests: conversations that share their head, each writing it and none reading it.
- guard: the same, from the second conversation on.
- provider: `prompt_cache_diagnostics` tells a miss when it is given the response to compare with; of breakpoints it says nothing.

## References
- https://github.com/openai/codex/issues/35300
- https://github.com/microsoft/agent-framework/issues/7157
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB13", "exact-breakpoint-families", "A", "error")
