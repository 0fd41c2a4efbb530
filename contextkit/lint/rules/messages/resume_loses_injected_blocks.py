"""resume-loses-injected-blocks: a resumed session starts with other blocks than it was left with.

## What it does
The output of a hook, a list of skills, a block on the environment was added to the first messages when the session
began, and not stored. On resuming, the code adds it anew: it says something else now, stands elsewhere, is missing,
or is a byte longer.

## Why it costs you
The difference is at the very front of the messages, so a resumed session writes its whole history at 1.25 times the
input price (twice with the one-hour lifetime, which people choose so that resuming stays cheap). Trackers hold
reports of sessions whose first call after a resume cost more than all before it.

## Example
    def load(path):
        messages = json.loads(path.read_text())
        messages[0]["content"].insert(0, {"type": "text", "text": run_session_start_hook()})
        messages[0]["content"].insert(1, {"type": "text", "text": list_skills()})
        return messages

    client.messages.create(model=MODEL, max_tokens=4096, messages=load(path))

## Use instead
Store what was sent, load it as it is, and check that it is the same:

    messages = json.loads(path.read_text())                       # with everything that was injected
    if prefix_digest(messages) != stored_digest:
        raise RuntimeError("the stored session does not give the bytes that were sent")
    messages.append({"role": "user", "content": run_session_start_hook()})

`Context.open(folder, provider)` reads stored bytes chained by digest, so a resumed session sends the same prefix or
says `LogCorrupt`.

## Detected by
- source: the loading of a session followed by functions that insert blocks into its first messages.
- requests: the first call after a resume differs in the first or second message: a block missing, moved or slightly
  changed.
- guard: the same comparison, where the guard has the earlier call on record.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- https://github.com/anthropics/claude-code/issues/44045
- https://github.com/anthropics/claude-code/issues/43657
- https://github.com/anthropics/claude-code/issues/86299
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKM22", "resume-loses-injected-blocks", "A", "warning", confirmed_by=("messages_changed", "input_changed"))
