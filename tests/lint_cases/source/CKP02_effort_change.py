"""An effort per step, and one for the session."""

import anthropic
import openai

client = anthropic.Anthropic()
other = openai.OpenAI()
EFFORT = "high"


def step(messages, is_simple):
    effort = "low" if is_simple else "high"
    return client.messages.create(
        model="claude-opus-5",
        max_tokens=9,
        output_config={"effort": effort},  # expect: CKP02
        messages=messages,
    )


def run(history, turn):
    request = {"model": "gpt-5.1", "input": history}
    if turn > 3:
        request["reasoning"] = {"effort": "low"}  # expect: CKP02
    return other.responses.create(**request)


def step_evenly(messages, is_simple):
    if is_simple:
        messages.append({"role": "user", "content": "Be brief."})
    return client.messages.create(model="claude-opus-5", max_tokens=9, output_config={"effort": EFFORT}, messages=messages)


def step_if_supported(messages, supports_effort):
    effort = {"effort": EFFORT} if supports_effort else None
    return client.messages.create(model="claude-opus-5", max_tokens=9, output_config=effort, messages=messages)
