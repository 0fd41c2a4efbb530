"""unicode-form-drift: non-ASCII text leaves in another Unicode or escape form than it was first sent in.

## What it does
One serialiser escapes (`ensure_ascii=True`), another does not; a database or file system normalises accents to the
composed or the decomposed form; slashes or surrogate pairs are escaped differently. The text looks the same before
and after loading.

## Why it costs you
If the escapes stand inside a string that the model sees (the arguments of a call on OpenAI, JSON printed into a
tool's result), or the normal form differs, other bytes make other tokens, and everything behind them is computed
again; on Anthropic that is written at 1.25 times the input price. Escapes of the request body itself vanish when it
is parsed and do no harm there. No public report was found, so this is inferred.

## Example
    result = json.dumps(rows, ensure_ascii=False)              # first sending
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": result}]})
    ...
    restored = unicodedata.normalize("NFC", json.dumps(store.load(call.id)))      # after a restart: escaped and normalised

## Use instead
One serialiser for everything that reaches a prompt, normalising only before the first sending, and storing what came
out:

    def as_text(value):
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    store.save(call.id, as_text(rows))                         # text, not a value to be serialised again

`context.result(call, rows)` writes the result once, by contextkit's canonical form, and reads back those bytes.

## Detected by
- source: `json.dumps` with differing `ensure_ascii` in one program, or `unicodedata.normalize` where a session is
  loaded.
- requests: texts that are equal once they are unescaped and in composed form.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- No public report was found; the mechanism is inferred.
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.rules.respelled import Respelling, respelling
from contextkit.lint.trace.rule import Change, Evidence, RequestRule, Step


def _reformed(step: Step, change: Change) -> Evidence | None:
    if respelling(change) is not Respelling.UNICODE:
        return None
    return Evidence("an earlier text is the same once it is unescaped and in composed form")


HAZARD = Hazard(
    "CKM29", "unicode-form-drift", "I", "note", requests=(RequestRule("change", _reformed, 11),),
    confirmed_by=("messages_changed", "input_changed"),
)  # fmt: skip
