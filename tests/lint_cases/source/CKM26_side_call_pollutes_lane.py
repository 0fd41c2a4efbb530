"""A title under the session's key, and under its own."""

import openai

client = openai.OpenAI()


def title(session, text):
    return client.responses.create(
        model="gpt-5.1", instructions="Give a title of four words.", input=text, prompt_cache_key=session.id,  # expect: CKM26
    )


def title_apart(text):
    return client.responses.create(model="gpt-5.1", instructions="Give a title of four words.", input=text, prompt_cache_key="titles")


def answer(session, text):
    return client.responses.create(model="gpt-5.1", instructions="You help.", input=text, prompt_cache_key=session.id)
