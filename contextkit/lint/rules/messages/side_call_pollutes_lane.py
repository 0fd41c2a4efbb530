"""side-call-pollutes-lane: a side call uses the session's cache key or writes entries that nobody reads.

## What it does
Between two turns a helper asks something else (a title, a classification, a check) with the same `prompt_cache_key`
or session header, or with the cache markers that the common request builder adds. Its prompt is another one.

## Why it costs you
Markers on a one-time prompt buy a write, 1.25 times the input price on Anthropic and on OpenAI since 5.6, that is
never read. On hosts where the key or session id decides on which machine a request lands, the side call counts toward
the roughly 15 requests a minute per prefix that OpenAI advises, and the next main call may find its machine busy or
its slot taken: llama.cpp keeps one prompt per slot.

## Example
    def title(messages):
        return client.responses.create(
            model=MODEL, prompt_cache_key=session.id,
            instructions="Give a title of four words.", input=text_of(messages[:2]),
        )

    reply = client.responses.create(model=MODEL, prompt_cache_key=session.id, instructions=SYSTEM, input=messages)

## Use instead
A lane of its own for each kind of side call, and no marker on what is sent once:

    client.responses.create(
        model=MODEL, prompt_cache_key="titles", prompt_cache_options={"mode": "explicit"},     # explicit and none marked: no write
        instructions="Give a title of four words.", input=text_of(messages[:2]),
    )

`context.spawn(task)` gives a sub-agent a log and a lane of its own, and its cost stands in the same summary.

## Detected by
- source: the session's `prompt_cache_key` passed to a call in a helper function that names, judges or summarises.
- requests: a single call under the session's key that continues nothing, or one that is marked behind its messages
  and is never read.
- guard: not visible; that an entry is never read shows only afterwards.
- provider: silent; the side call has nothing to be compared with, and the next main call only goes on.

## References
- https://github.com/anomalyco/opencode/issues/43249
- https://github.com/nearai/ironclaw/issues/6990
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.cut import reach_of
from contextkit.lint.requests.rule import Evidence, RequestRule
from contextkit.lint.rules.asides import Aside, asides, is_short
from contextkit.lint.rules.openings import Calls
from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction, keyword, model_calls, words_in
from contextkit.lint.source.rule import Hit, Pattern, View

_KEY = "prompt_cache_key"


def _in_lane(calls: Calls) -> Iterator[Evidence]:
    for aside in asides(calls):
        key = aside.sent.params.get(_KEY)
        if key is not None and key == aside.before.params.get(_KEY):
            yield Evidence(
                f"a call that continues nothing has the cache key of {aside.main}",
                path=_KEY,
                now=str(key),
                sent=aside.sent,
            )
        elif is_short(aside.sent) and _writes(aside):
            text = f"a single call beside {aside.main} writes a cache entry that no other call reads"
            yield Evidence(text, path="messages", sent=aside.sent)


def _writes(aside: Aside) -> bool:
    """Whether it asked for an entry behind its messages, and was not told that it wrote none."""
    sent, usage = aside.sent, aside.sent.usage
    is_marked = sent.params.get("cache_control") is not None or any(
        block.level == "messages" and block.marker for block in sent.blocks
    )
    is_told = usage is not None and not (usage.write_5m or 0) + (usage.write_1h or 0)
    return sent.row.cache == "breakpoints" and is_marked and reach_of(sent) > 0 and not is_told


# In code
# --------------------------------------------------------------------------------------------------------------------------

_SIDE = re.compile(r"summar|judge|evaluat|classif|suggest|(?:^|_)titles?|name_session|name_conversation", re.IGNORECASE)


def _under_the_key(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A helper's call has the key of the session."""
    if not _SIDE.search(function.name):
        return
    for call in model_calls(function, view):
        key = keyword(call, "prompt_cache_key")
        if (
            key is not None
            and re.search(r"session|conversation|thread|chat", words_in(key))
            and not isinstance(key, ast.JoinedStr)
        ):
            yield Hit(
                key,
                f"{function.name}() continues nothing and has the session's cache key: it takes the main calls' place",
            )


HAZARD = Hazard(
    "CKM26",
    "side-call-pollutes-lane",
    "A",
    "warning",
    source=(Pattern(FUNCTIONS, _under_the_key, ("prompt_cache_key",), is_near=True),),
    requests=(RequestRule("session", _in_lane),),
)
