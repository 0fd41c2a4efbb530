"""The system prompt holds the date: it costs once a day, and is accepted."""

from datetime import datetime

import anthropic
from parts import CLAUDE, GUIDE, reply, text, user


def test_answers():
    client, messages = anthropic.Anthropic(), []
    for question in ("What broke?", "Since when?", "Who knows?"):
        messages.append(user(question))
        system = [text(f"Today is {datetime.now():%A, %d %B %Y}. {GUIDE}", marked=True)]
        answer = client.messages.create(model=CLAUDE, max_tokens=100, system=system, messages=messages)
        messages.append(reply(answer.content[0].text))
