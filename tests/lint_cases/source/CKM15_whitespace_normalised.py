"""White space taken from what was sent, and from what was not."""

import textwrap

import openai

client = openai.OpenAI()


def turn(messages):
    reply = client.chat.completions.create(model="gpt-5.1", messages=messages)
    messages.append({"role": "assistant", "content": reply.choices[0].message.content.strip()})  # expect: CKM15


def cleaned(messages, is_reloaded):
    if is_reloaded:
        return [{**m, "content": m["content"].strip()} for m in messages]  # expect: CKM15
    return messages


def cleaned_always(messages):
    return [{**m, "content": m["content"].strip()} for m in messages]


def ingest(messages, call, output):
    messages.append({"role": "tool", "tool_call_id": call.id, "content": textwrap.dedent(output).strip()})


def shown(reply):
    return reply.choices[0].message.content.strip()


def cleaned_by_type(messages, out):
    for message in messages:
        if isinstance(message, Message):
            message.content = message.content.strip()
        out.append(message)


def without_opening(messages, opening):
    for message in messages:
        if message["content"].startswith(opening):
            message["content"] = message["content"][len(opening) :].lstrip()


class Message:
    content = ""


def turn_in_a_variable(messages):
    reply = client.chat.completions.create(model="gpt-5.1", messages=messages)
    text = reply.choices[0].message.content.strip()  # expect: CKM15
    messages.append({"role": "assistant", "content": text})


def turn_with_a_title(messages):
    reply = client.chat.completions.create(model="gpt-5.1", messages=messages)
    title = reply.choices[0].message.content.strip()
    messages.append({"role": "user", "content": title})
    return title


def turn_in_blocks(claude, messages):
    reply = claude.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)
    blocks = []
    for block in reply.content:
        blocks.append({"type": "text", "text": block.text.rstrip()})  # expect: CKM15
    messages.append({"role": "assistant", "content": blocks})


def shown_in_blocks(claude, messages):
    reply = claude.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)
    lines = []
    for block in reply.content:
        lines.append({"type": "text", "text": block.text.rstrip()})
    messages.append({"role": "assistant", "content": reply.content})
    return lines
