"""The first message changed."""

from datetime import datetime

import openai

gpt = openai.OpenAI()


def ask(messages):
    messages[0]["content"] = str(datetime.now())  # expect: CKS01
    return gpt.chat.completions.create(model="m", messages=messages)
