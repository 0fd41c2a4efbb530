"""A document, then the question with its time, and the breakpoint behind both."""

from datetime import datetime

import anthropic
from parts import CLAUDE, GUIDE, text, user


def ask(question):
    blocks = [text(GUIDE), text(f"Retrieved at {datetime.now()}: {question}", marked=True)]
    return anthropic.Anthropic().messages.create(model=CLAUDE, max_tokens=50, messages=[user(blocks)])


def test_a_question():
    assert ask("Who may read the files?").content
