"""A loop over LiteLLM: `litellm_loop.py MODEL PROMPT…`, with a model such as anthropic/claude-sonnet-5-5."""

import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

LOOK = {
    "name": "look",
    "description": "Return a page of the notes.",
    "parameters": {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]},
}
messages = [{"role": "system", "content": "You read notes. " * 300}]
for prompt in sys.argv[2:]:
    messages.append({"role": "user", "content": prompt})
    while True:
        tools = [{"type": "function", "function": LOOK}]
        reply = litellm.completion(model=sys.argv[1], messages=messages, tools=tools).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls or ():
            page = "The tide was measured at the pier at noon. " * 40
            messages.append({"role": "tool", "tool_call_id": call.id, "content": page})
        if not reply.tool_calls:
            break
    print(reply.content)
