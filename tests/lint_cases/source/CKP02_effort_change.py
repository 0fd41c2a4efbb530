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


def step_with_extras(history, step):
    kw = {"input": history}
    if step == 0:
        kw["reasoning_effort"] = "high"  # expect: CKP02
    return other.responses.create(model="gpt-5.1", **kw)


def step_with_named_extras(history, step):
    extra = {"reasoning_effort": "high" if step == 0 else "low"}  # expect: CKP02
    return other.chat.completions.create(model="gpt-5.1", messages=history, **extra)


def step_of_a_graph(state):
    effort = "low" if state["step"] else "high"
    return other.responses.create(model="gpt-5.1", input=state["messages"], reasoning={"effort": effort})  # expect: CKP02


def step_with_a_summary(history, step):
    reasoning = {"effort": "high", "summary": "auto" if step == 0 else "concise"}
    return other.responses.create(model="gpt-5.1", input=history, reasoning=reasoning)


def step_that_is_logged(history, step, log):
    row = {"reasoning_effort": "high" if step == 0 else "low", "step": step}
    log.write(row)
    return other.responses.create(model="gpt-5.1", input=history)


def step_of_a_model(messages, model, final):
    extra = {"reasoning_effort": "high"} if model.startswith("o") else {}
    return other.chat.completions.create(model=model, messages=messages, max_tokens=9 if final else 99, **extra)
