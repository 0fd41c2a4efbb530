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
    messages.append({"role": "user", "content": [tool_result(call, result)]})
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
- source: `unicodedata.normalize` where a session is loaded; what makes keys or is compared is left alone.
- requests: texts that are equal once they are unescaped and in composed form.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI).

## References
- No public report was found; the mechanism is inferred.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Change, Evidence, RequestRule, Step
from contextkit.lint.rules.respelled import Respelling, respelling
from contextkit.lint.rules.syntax import words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk


def _reformed(step: Step, change: Change) -> Evidence | None:
    if respelling(change) is not Respelling.UNICODE:
        return None
    return Evidence("an earlier text is the same once it is unescaped and in composed form")


# In code
# --------------------------------------------------------------------------------------------------------------------------

_LOADS = re.compile(r"(?:^|_)(?:load|resume|restore|reopen|rehydrate|replay|from_(?:json|store|db|disk))")
_SAID = re.compile(r"message|history|content|result|transcript|session", re.IGNORECASE)


def _on_loading(call: ast.Call, view: View) -> Iterator[Hit]:
    """Text of a stored conversation is brought into another Unicode form."""
    function = view.function()
    if view.dotted(call) != "unicodedata.normalize" or function is None or len(call.args) < 2:
        return
    if (
        _LOADS.search(function.name)
        and _SAID.search(f"{words_in(call.args[1])} {function.name}")
        and not _is_key(call, view)
    ):
        yield Hit(call, "text of a stored conversation gets another Unicode form than it was sent in")


def _is_key(call: ast.Call, view: View) -> bool:
    """Whether the new form is looked up or compared and reaches no message: `{normalize("NFKC", text): at for …}`."""
    around = view.parents()
    keys = [above.key for above in around if isinstance(above, ast.DictComp)]
    keys += [above.slice for above in around if isinstance(above, ast.Subscript)]
    is_inside = any(part is call for key in keys for part in walk(key))
    return is_inside or any(isinstance(above, ast.Compare | ast.SetComp | ast.Set) for above in around)


HAZARD = Hazard(
    "CKM29",
    "unicode-form-drift",
    "I",
    "note",
    source=(Pattern((ast.Call,), _on_loading, ("unicodedata",)),),
    requests=(RequestRule("change", _reformed, 11),),
    confirmed_by=("messages_changed", "input_changed"),
)
