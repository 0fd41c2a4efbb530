"""One question a call, and a clock in the marked block: written each time, never read."""

import datetime

import anthropic
from parts import CLAUDE, GUIDE, text, user

client = anthropic.Anthropic()


def classify(ticket):
    system = [text(f"{GUIDE}\nToday is {datetime.datetime.now()}", marked=True)]
    return client.messages.create(model=CLAUDE, max_tokens=50, system=system, messages=[user(ticket)])


def test_a_ticket():
    assert classify("The printer is on fire.").content
