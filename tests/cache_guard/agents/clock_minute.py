"""The system prompt holds the time to the minute."""

from datetime import datetime

import anthropic
from parts import CLAUDE, GUIDE, reply, text, user


def test_answers():
    client, messages = anthropic.Anthropic(), []
    for question in ("What broke?", "Since when?", "Who knows?"):
        messages.append(user(question))
        system = [text(f"It is {datetime.now():%Y-%m-%d %H:%M}. {GUIDE}", marked=True)]
        answer = client.messages.create(model=CLAUDE, max_tokens=100, system=system, messages=messages)
        messages.append(reply(answer.content[0].text))
