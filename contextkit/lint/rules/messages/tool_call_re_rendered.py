"""tool-call-re-rendered: a server parses a tool call to JSON and its template prints it again in other bytes.

## What it does
The model writes a call in its own syntax. The server turns that into `tool_calls` of the API; on the next request the
chat template prints it back from the parsed form: other blanks, another order of keys, escaped characters, numbers in
another notation.

## Why it costs you
The cache of the engine holds what the model wrote; the next prompt holds what the template prints. They part at the
first tool call, and stay apart there for the whole session, however long it grows: every step prefills all of it but
the beginning. On a local machine that is the difference between an instant reply and seconds to minutes of prefill.

## Example
    reply = client.chat.completions.create(model="local", messages=messages, tools=TOOLS)
    messages.append(reply.choices[0].message.model_dump(exclude_none=True))
    # the model wrote {"path":"a.py","line":3}; the template prints {"path": "a.py", "line": 3}

## Use instead
Keep the span the model emitted and put it back verbatim: an engine or proxy that stores it by the id of the call, a
template that prints `arguments` as the string it is given, or a completion endpoint where you hold the text yourself:

    prompt += raw_output + render_result(result)         # nothing earlier is rendered a second time
    client.completions.create(model="local", prompt=prompt)

Compare two rendered prompts (`/apply-template` in llama.cpp, `/v1/chat/completions/render` in vLLM) once per model.
contextkit keeps the arguments as received; what a template makes of them is out of its hands.

## Detected by
- source: not visible; the cause is a parser and a template in the server.
- requests: what is read stops at the first call of a tool for the rest of the session, while the bodies only grow.
- guard: not visible; it shows in what the engine reports as cached.
- provider: silent; engines report a number of cached tokens and no cause.

## References
- https://github.com/Luce-Org/lucebox/issues/151
- https://github.com/youssofal/MTPLX/issues/121
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM17", "tool-call-re-rendered", "A", "warning")
