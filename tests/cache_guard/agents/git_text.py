"""The state of the repository stands in the system prompt, and the agent changes files; streaming."""

import openai
from parts import GPT, GUIDE, reply, user


def test_answers():
    client, messages, changed = openai.OpenAI(), [], ["src/main.py"]
    for question in ("Rename it.", "And the tests?", "Commit."):
        messages.append(user(question))
        status = "\n".join(f" M {path}" for path in changed)
        system = {"role": "system", "content": f"{GUIDE}\nCurrent branch: main\nGit status:\n{status}\n"}
        stream = client.chat.completions.create(model=GPT, messages=[system, *messages], stream=True)
        messages.append(reply("".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)))
        changed.append(f"tests/test_{len(changed)}.py")
