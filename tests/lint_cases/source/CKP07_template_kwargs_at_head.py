"""Arguments of the template per step, and for the session."""

from datetime import date

import openai

client = openai.OpenAI(base_url="http://localhost:8000/v1")
KWARGS = {"enable_thinking": True, "preserve_thinking": True}


def step(history, is_hard):
    request = {"model": "qwen", "messages": history}
    request["chat_template_kwargs"] = {"enable_thinking": True if is_hard else False}  # expect: CKP07
    return client.chat.completions.create(**request)


def run(history):
    while True:
        history.append({"role": "user", "content": input()})
        request = {
            "model": "qwen",
            "messages": history,
            "chat_template_kwargs": {"date_string": str(date.today())},  # expect: CKP07
        }
        client.chat.completions.create(**request)


def step_evenly(history, is_hard):
    history.append({"role": "user", "content": "Think well." if is_hard else "Go on."})
    request = {"model": "qwen", "messages": history, "chat_template_kwargs": KWARGS}
    return client.chat.completions.create(**request)


def ask(history, step):
    return client.chat.completions.create(
        model="qwen",
        messages=history,
        extra_body={"chat_template_kwargs": {"enable_thinking": step == 0}},  # expect: CKP07
    )


def ask_dated(history):
    body = {"chat_template_kwargs": {"date_string": str(date.today())}}  # expect: CKP07
    return client.chat.completions.create(model="qwen", messages=history, extra_body=body)


def ask_sampled(history, step):
    body = {"top_k": 1 if step == 0 else 20, "chat_template_kwargs": KWARGS}
    return client.chat.completions.create(model="qwen", messages=history, extra_body=body)


class Chat:
    def __init__(self):
        self.body = {"chat_template_kwargs": {"date_string": date.today().isoformat()}}

    def ask(self, history):
        return client.chat.completions.create(model="qwen", messages=history, extra_body=self.body)
