"""image-presence-toggle: the conversation goes from no image to some, or back.

## What it does
The first image enters a conversation of text, or the last one leaves it. Nothing before it was touched, and still the
messages are computed again.

## Why it costs you
Anthropic's table of what invalidates a cache lists adding or removing an image anywhere in the prompt: tools and
system stay, the level of the messages goes. The longer the conversation before the first screenshot, the more this
one call costs, at 1.25 times the input price. A conversation that gains and loses its only image over and over pays
each time.

## Example
    content = [{"type": "text", "text": question}]
    if attach_screen:
        content.append({"type": "image", "source": screenshot()})        # the first image, after forty turns of text
    messages.append({"role": "user", "content": content})
    client.messages.create(model=MODEL, max_tokens=2048, messages=messages)

## Use instead
Expect one rewrite and do not repeat it: once an image is in, leave it in. Where looking at pictures is a side task,
give it a conversation of its own and bring back words:

    seen = client.messages.create(model=MODEL, max_tokens=500, messages=[{"role": "user", "content": [image, ASK_WHAT_IS_SHOWN]}])
    messages.append({"role": "user", "content": f"The screen shows: {seen.content[0].text}"})

With contextkit that is `context.spawn("What does the screen show?")`, a lane with a cache of its own.

## Detected by
- source: not visible; whether an image comes is known only when the program runs.
- requests: the number of images goes from none to some, or from some to none, between two calls to Anthropic.
- guard: the same comparison, before the call leaves.
- provider: `messages_changed` (Anthropic), `input_changed` (OpenAI), where an image was taken out.

## References
- https://platform.claude.com/docs/en/build-with-claude/prompt-caching#what-invalidates-the-cache
- https://github.com/zeroclaw-labs/zeroclaw/issues/10701
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard
from contextkit.lint.requests.rule import Evidence, RequestRule, Step
from contextkit.lint.rules.history import is_image_toggled, n_pictures


def _toggled(step: Step) -> Evidence | None:
    """The first image came, or the last one went, on a provider whose message cache it invalidates."""
    if not is_image_toggled(step):
        return None
    was, now = n_pictures(step.before), n_pictures(step.after)
    return Evidence(
        f"images in the messages: {was} in the call before, {now} now", path="messages", was=str(was), now=str(now)
    )


HAZARD = Hazard(
    "CKM20",
    "image-presence-toggle",
    "D",
    "warning",
    requests=(RequestRule("step", _toggled),),
    confirmed_by=("messages_changed", "input_changed"),
)
