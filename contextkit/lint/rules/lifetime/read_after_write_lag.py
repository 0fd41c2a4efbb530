"""read-after-write-lag: the call right behind the first still misses.

## What it does
Finds two calls with equal bytes, a few seconds apart, that both write.

## Why it costs you
The entry should be readable once the first response begins; in practice some requests come too early, or land on a machine that has not
heard of it. Reported for Claude, undocumented for OpenAI's time from write to read. It is the provider's side, so nothing in the
program is to be mended; only short sessions feel it, because it costs one more write of the head.

## Example
    first = client.messages.create(**body)
    second = client.messages.create(**body)

## Use instead
Nothing, or a short wait after a warm-up; do not go looking for a change that is not there:

    context.receive(context.request(max_tokens=0).send(client))
    time.sleep(2)

## Detected by
- source: not visible.
- requests: bytes that go on, a few seconds after the first response began, and a second write of what was written.
- guard: named as what explains a bill that comes back short of the prediction.
- provider: silent: the text is the same.

## References
- https://github.com/anthropics/anthropic-sdk-python/issues/1451
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.bills import began, is_kept, read, written
from contextkit.lint.rules.marks import has_markers, reach

_SOON_SECONDS = 5.0
_LEAST_TOKENS = 500
_NOTHING = 0.1


def _not_there_yet(step: Step) -> Evidence | None:
    got, there, start = read(step.after), written(step.before), began(step.before)
    if got is None or start is None or there < _LEAST_TOKENS or not has_markers(step.after) or not is_kept(step):
        return None
    waited = step.after.exchange.at - start
    seen = reach(step)
    is_found = seen.last >= 0 and seen.best >= seen.last
    if (
        not 0 <= waited <= _SOON_SECONDS
        or not is_found
        or got > _NOTHING * there
        or step.before.usage == step.after.usage
    ):
        return None
    return Evidence(
        f"{waited:.1f} s after the answer to the call before began, and {there:,} tokens that it wrote were not read: they "
        "were not there yet",
        path=step.before.blocks[seen.last].path,
    )


HAZARD = Hazard("CKL04", "read-after-write-lag", "B", "note", requests=(RequestRule("step", _not_there_yet),))
