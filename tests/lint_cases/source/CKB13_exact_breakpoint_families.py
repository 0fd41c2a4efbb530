"""Instructions that no breakpoint closes."""

from pathlib import Path

import openai

client = openai.OpenAI()
INSTRUCTIONS = Path("instructions.md").read_text()
BRIEF = "Answer in one sentence."


def ask(question):
    return client.responses.create(
        model="gpt-6.1-sol",
        instructions=INSTRUCTIONS,  # expect: CKB13
        input=[{"role": "user", "content": question}],
    )


def ask_briefly(question):
    return client.responses.create(model="gpt-6.1-sol", instructions=BRIEF, input=question)


def ask_any(model, question):
    return client.responses.create(model=model, instructions=INSTRUCTIONS, input=question)


def ask_until_right(question):
    hint = ""
    while True:
        reply = client.responses.create(model="gpt-6.1-sol", instructions=BRIEF + hint, input=question)
        if len(reply.output_text) < 80:
            return reply
        hint = "\nThat was too long."


def ask_with_params(question, tools):
    params = {"model": "gpt-6.1-sol", "instructions": INSTRUCTIONS, "tools": tools}
    return client.responses.create(input=question, **params)  # expect: CKB13


def ask_by_family(question):
    params = dict(model="gpt-5.6", instructions=INSTRUCTIONS)
    return client.responses.create(input=question, **params)  # expect: CKB13


def ask_before_the_family(question):
    return client.responses.create(model="gpt-5.5", instructions=INSTRUCTIONS, input=question)
