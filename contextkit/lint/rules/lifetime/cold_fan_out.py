"""cold-fan-out: siblings start before the first of them has begun to answer, and all of them miss.

## What it does
Finds parallel calls with a common prefix whose starts lie before the first response began.

## Why it costs you
An entry becomes readable when the first response begins (Claude; SGLang when a request is through; vLLM at once). N siblings sent
together are N misses, and on Claude N writes of the same text: with eight agents on a prefix of 50,000 tokens eight writes at 1.25
times input instead of one and seven reads at a tenth or less. Reported from OpenHands and crewAI, and described in Claude Code's own
documentation.

## Example
    results = await asyncio.gather(*(ask(task) for task in tasks))

## Use instead
Send one ahead, and the others when its answer has begun. A call that generates nothing does as well:

    context.receive(await context.request(max_tokens=0).asend(client))
    results = await asyncio.gather(*(ask(context.fork(), task) for task in tasks))

## Detected by
- source: `asyncio.gather`, a task group or a pool over calls that share their head, none sent ahead.
- requests: overlapping starts of calls with a common prefix, each writing it.
- guard: the second such call, before it is sent, while the first has not begun to answer.
- provider: silent: each sibling is a first request.

## References
- https://github.com/OpenHands/software-agent-sdk/issues/2972
- https://github.com/crewAIInc/crewAI/issues/5921
- https://code.claude.com/docs/en/prompt-caching#subagents-and-the-cache
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKL03", "cold-fan-out", "A", "warning")
