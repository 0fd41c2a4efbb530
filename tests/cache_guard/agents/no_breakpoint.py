"""A growing conversation with a vendor that caches at breakpoints only, and none is set."""

import anthropic
from parts import CLAUDE, GUIDE, reply, user


def test_answers():
    client, messages = anthropic.Anthropic(), []
    for question in ("What broke?", "Since when?", "Who knows?"):
        messages.append(user(question))
        answer = client.messages.create(model=CLAUDE, max_tokens=100, system=GUIDE, messages=messages)
        messages.append(reply(answer.content[0].text))
