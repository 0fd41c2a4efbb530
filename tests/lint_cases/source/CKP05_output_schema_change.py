"""A schema per step, and one for the session."""

import anthropic
import openai
from google import genai
from langchain_openai import ChatOpenAI

client, claude, gemini = openai.OpenAI(), anthropic.Anthropic(), genai.Client()
llm = ChatOpenAI(model="gpt-5.1")
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


def step_of_claude(messages, is_last):
    output = {"effort": "high", "format": {"type": "json_schema", "schema": RESULT if is_last else PLAN}}
    return claude.messages.create(model="claude-opus-5", max_tokens=9, messages=messages, output_config=output)  # expect: CKP05


def step_with_a_format(messages, is_last):
    output = {"effort": "high", "format": RESULT} if is_last else {"effort": "high"}
    return claude.messages.create(model="claude-opus-5", max_tokens=9, messages=messages, output_config=output)  # expect: CKP05


def step_of_gemini(contents, phase):
    config = {"response_mime_type": "application/json"}
    if phase == "plan":
        config["response_schema"] = PLAN  # expect: CKP05
    return gemini.models.generate_content(model="gemini-3-pro", contents=contents, config=config)


def step_of_gemini_with_a_class(contents, turn):
    config = genai.types.GenerateContentConfig(response_schema=PLAN if turn == 0 else RESULT)  # expect: CKP05
    return gemini.models.generate_content(model="gemini-3-pro", contents=contents, config=config)


def node(state):
    schema = PLAN if len(state["messages"]) < 2 else RESULT
    return {"messages": [llm.with_structured_output(schema).invoke(state["messages"])]}  # expect: CKP05


def node_evenly(state):
    schema = PLAN if len(state["messages"]) < 2 else RESULT
    return {"messages": [llm.with_structured_output(ANY).invoke(state["messages"])], "schema": schema}


def step_less_verbose(history, step):
    text = {"format": ANY, "verbosity": "low" if step else "high"}
    reply = client.responses.create(model="gpt-5.1", input=history, text=text)  # expect: CKP06
    return (PLAN if step == 0 else RESULT), reply


def save_settings(store, phase):
    config = {"theme": "dark"}
    if phase == "plan":
        config["response_schema"] = PLAN
    store.put(config)
