"""A schema per step, and one for the session."""

import openai

client = openai.OpenAI()
PLAN, RESULT, ANY = ({"type": "json_schema", "name": name} for name in ("plan", "result", "any"))


def step(history, step_number):
    schema = PLAN if step_number == 0 else RESULT
    return client.chat.completions.create(model="gpt-5.1", messages=history, response_format=schema)  # expect: CKP05


def step_evenly(history, step_number):
    label = "plan" if step_number == 0 else "result"
    history.append({"role": "user", "content": f"Give the {label}."})
    return client.chat.completions.create(model="gpt-5.1", messages=history, response_format=ANY)


def converse(history):
    for n in range(9):
        reply = client.chat.completions.create(model="gpt-5.1", messages=history, response_format=PLAN if n == 8 else ANY)  # expect: CKP05
        history.append(reply.choices[0].message)


def converse_about(history, n):
    for _ in range(9):
        reply = client.chat.completions.create(model="gpt-5.1", messages=history, response_format=PLAN if n == 8 else ANY)
        history.append(reply.choices[0].message)
