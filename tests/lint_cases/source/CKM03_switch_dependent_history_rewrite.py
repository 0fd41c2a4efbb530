"""A history converted for one call, and converted for good."""

import anthropic

client = anthropic.Anthropic()


def strip_reasoning(message):
    return {**message, "content": message["content"][-1:]}


def replay(history, model, last_model):
    if model != last_model:
        history = [strip_reasoning(message) for message in history]  # expect: CKM03
    return client.messages.create(model=model, max_tokens=4096, messages=history)


def replay_kept(session, model):
    if model != session.model:
        session.history = [strip_reasoning(message) for message in session.history]
        session.model = model
    return client.messages.create(model=model, max_tokens=4096, messages=session.history)
