"""Old results of tools are shortened where they stand."""

import openai
from parts import GPT, GUIDE, REPORT, user


def call(number):
    function = {"name": "read", "arguments": f'{{"path": "log{number}"}}'}
    return {"role": "assistant", "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}


def test_answers():
    client, messages = openai.OpenAI(), [{"role": "system", "content": GUIDE}, user("Why is the build slow?")]
    for number in range(4):
        client.chat.completions.create(model=GPT, messages=messages)
        for message in messages:
            if message["role"] == "tool" and len(message["content"]) > 200:
                message["content"] = message["content"][:100] + "… [shortened]"
        messages += [call(number), {"role": "tool", "tool_call_id": f"call_{number}", "content": REPORT}]
        messages += [
            call(number + 10),
            {"role": "tool", "tool_call_id": f"call_{number + 10}", "content": REPORT[:150]},
        ]
