"""Web search for some turns, and for the whole session."""

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
WEB = {"type": "web_search_20250305", "name": "web_search"}
OFFERS_SEARCH = True


def ask(messages, question):
    tools = [*TOOLS]
    if "news" in question:
        tools.append({"type": "web_search_20250305", "name": "web_search"})  # expect: CKT13
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)  # also: CKT03


def reply(messages, wants_search):
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        tools=[*TOOLS, *([{"type": "web_search_20250305", "name": "web_search"}] if wants_search else [])],  # expect: CKT13
        messages=messages,
    )


def respond(messages):
    tools = [*TOOLS]
    if OFFERS_SEARCH:
        tools.append({"type": "web_search_20250305", "name": "web_search"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def describe(wants_search):
    tools = [*TOOLS]
    if wants_search:
        tools.append({"type": "web_search_20250305", "name": "web_search"})
    return len(tools)


WEB = {"type": "web_fetch_20250910", "name": "web_fetch"}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}


def spread(messages, options):
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        tools=[READ, *([WEB] if options.fetch else [])],  # expect: CKT13
        messages=messages,
    )


def added_up(messages, wants_news):
    tools = [READ]
    if wants_news:
        tools += [WEB]  # expect: CKT13
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def always_there(messages, wants_news):
    tools = [READ]
    tools += [WEB]
    if wants_news:
        messages = [*messages, {"role": "user", "content": f"Use {WEB['name']}."}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)
