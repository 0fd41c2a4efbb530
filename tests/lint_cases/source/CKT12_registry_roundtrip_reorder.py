"""Definitions from a database, as they come and in one form."""

import json

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]


def ask(cursor, messages):
    cursor.execute("select definition from tools")
    tools = [row[0] for row in cursor.fetchall()]  # expect: CKT12
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def ask_about_rows(cursor, messages):
    cursor.execute("select text from notes")
    messages.append({"role": "user", "content": str(cursor.fetchall())})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def ask_in_order(cursor, messages):
    cursor.execute("select definition from tools")
    tools = sorted(row[0] for row in cursor.fetchall())
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def ask_in_one_form(cursor, messages):
    rows = cursor.execute("select definition from tools order by name").fetchall()
    tools = [json.loads(json.dumps(row[0], sort_keys=True)) for row in rows]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def ask_in_another_form(cursor, messages):
    rows = cursor.execute("select definition from tools order by name").fetchall()  # expect: CKT12
    tools = [json.loads(json.dumps(row[0])) for row in rows]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)
