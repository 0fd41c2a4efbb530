"""Screenshots of earlier turns are replaced by a note."""

import base64

import anthropic
from parts import CLAUDE, GUIDE, reply, text, user

PIXELS = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 3000).decode()


def test_answers():
    client, messages = anthropic.Anthropic(), []
    for number in range(3):
        for message in messages:
            if message["role"] == "user":
                message["content"] = [
                    text("[screenshot removed]") if block["type"] == "image" else block for block in message["content"]
                ]
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXELS}}
        messages.append(user([image, text(f"Click button {number}. {GUIDE[:900]}")]))
        answer = client.messages.create(
            model=CLAUDE, max_tokens=100, system=GUIDE, messages=messages, cache_control={"type": "ephemeral"}
        )
        messages.append(reply(answer.content[0].text))
