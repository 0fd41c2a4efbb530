"""Checks the source detector on small programs: ways a value takes to a prompt, and code that only looks like one.

What is in `GAPS` is judged wrong, and each test of one fails strictly: it has to leave the list once it is judged right.
"""

from __future__ import annotations

import pytest

from tests.lint.source.conftest import Lint, named

HEAD = """\
import functools, os, random, subprocess, time, uuid
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
import anthropic, openai
client = anthropic.Anthropic()
gpt = openai.OpenAI()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
TOOLS = [READ, {"name": "write", "description": "Writes.", "input_schema": {"type": "object"}}]
PHASES = {"plan": [READ], "act": TOOLS}
DAY, TEMPLATE = "%Y-%m-%d", "You are {name}. It is {now}."
class Parts:
    def __init__(self):
        self.parts = []
    def add(self, text):
        self.parts.append(text)
        return self
    def build(self):
        return "".join(self.parts)
"""
ASK = "def ask(messages):\n    return client.messages.create(system={}, messages=messages, **GIVEN)\n"
TOOLS_GIVEN = "def ask(messages, {}):\n{}    return client.messages.create(tools=tools, messages=messages, **GIVEN)\n"

# Expressions that are the system text
# ----------------------------------------------------------------------------------------------------------------------

CLOCKS = {
    'f"It is {datetime.now():%H:%M}."',
    '"It is " + str(datetime.now(timezone.utc))',
    '"It is %s." % time.time()',
    '"{}".format(datetime.now())',
    'TEMPLATE.format(name="x", now=datetime.now())',
    'TEMPLATE.format(**{"name": "x", "now": datetime.now()})',
    'TEMPLATE.replace("{now}", datetime.now().isoformat())',
    '"".join(["a", f"{datetime.now()}"])',
    '"".join(part for part in ("a", str(time.time())))',
    "f\"{datetime.now().strftime('%H:%M')}\"",
    'f"{datetime.now().time()}"',
    'Parts().add("a").add(f"{datetime.now()}").build()',
    '(lambda: f"{datetime.now()}")()',
}
NO_CLOCKS = {
    'f"{datetime.now():%Y-%m-%d}"',
    'f"{date.today()}"',
    'f"{datetime.now().date().isoformat()}"',
    'datetime.now().strftime("%A, %d %B")',
    'f"{datetime.now().year}"',
    'time.strftime("%Y-%m-%d", time.localtime())',
    'time.strftime("%Y-%m-%d")',
    '"{:%Y-%m-%d}".format(datetime.now())',
    "datetime.now().isoformat()[:10]",
    'str(datetime.now()).split(" ")[0]',
    "datetime.now().strftime(DAY)",
    'time.strftime("%H:%M", time.localtime(messages[0]["at"]))',
    '"x" if datetime.now().hour < 12 else "y"',
    'f"{len(str(datetime.now()))} characters"',
}
GAPS = {
    'f"{datetime.now().time()}"',
    'Parts().add("a").add(f"{datetime.now()}").build()',
    '(lambda: f"{datetime.now()}")()',
    'time.strftime("%Y-%m-%d")',
    '"{:%Y-%m-%d}".format(datetime.now())',
    "datetime.now().isoformat()[:10]",
    'str(datetime.now()).split(" ")[0]',
    "datetime.now().strftime(DAY)",
}


@pytest.mark.parametrize("text", named(sorted(CLOCKS), GAPS & CLOCKS))
def test_a_clock_in_the_system_text_is_found(text: str, lint: Lint) -> None:
    assert [one.code for one in lint(HEAD + ASK.format(text))] == ["CKS01"]


@pytest.mark.parametrize("text", named(sorted(NO_CLOCKS), GAPS & NO_CLOCKS))
def test_a_day_in_the_system_text_is_none(text: str, lint: Lint) -> None:
    assert lint(HEAD + ASK.format(text)) == []


# Programs of one file
# ----------------------------------------------------------------------------------------------------------------------

AGENT = """
class Agent:
    def __init__(self):
        self.mode, self.tools, self.messages = "plan", list(TOOLS), []
    def change(self):
        {}
    def ask(self, text):
        self.messages.append({{"role": "user", "content": text}})
        return client.messages.create(tools={}, messages=self.messages, **GIVEN)
"""
CALLED_IN_A_LOOP = """
def run(task):
    messages, tools = [{{"role": "user", "content": task}}], list(TOOLS)
    for step in range(9):
        reply = ask(messages, {})
        messages.append({{"role": "assistant", "content": reply.content}})
        if reply.stop_reason == "tool_use":
            {}
def ask(messages, tools):
    return client.messages.create(tools=tools, messages=messages, **GIVEN)
"""
KEPT = """
def fit(messages, limit):
    kept, used = [], 0
    for message in {}:
        used += len(message["content"])
        if used > limit:
            break
        kept.insert(0, message)
    return kept
"""
PRUNED = "def prune(messages):\n{}"

FOUND: dict[str, tuple[str, str]] = {
    "keywords of an update": (
        "CKS01",
        (
            "def ask(messages):\n    request = dict(GIVEN, messages=messages)\n    request.update(system=str(datetime.now()))\n"
            "    return client.messages.create(**request)\n"
        ),
    ),
    "a dict of an update": (
        "CKS01",
        (
            "def ask(messages):\n    request = dict(GIVEN, messages=messages)\n"
            '    request.update({"system": str(datetime.now())})\n    return client.messages.create(**request)\n'
        ),
    ),
    "a function that makes the builder": (
        "CKS01",
        (
            "def make():\n    return Parts()\ndef ask(messages):\n    parts = make()\n    parts.add(str(datetime.now()))\n"
            "    return client.messages.create(system=parts.build(), messages=messages, **GIVEN)\n"
        ),
    ),
    "an object where none is given": (
        "CKS01",
        (
            "class Text:\n    def build(self):\n        return str(datetime.now())\nclass A:\n    def __init__(self, text=None):\n"
            "        self.text = text or Text()\n    def ask(self, messages):\n"
            "        return client.messages.create(system=self.text.build(), messages=messages, **GIVEN)\n"
        ),
    ),
    "a field of a dataclass": (
        "CKS01",
        "@dataclass\nclass P:\n    now: str = field(default_factory=lambda: str(datetime.now()))\n"
        + ASK.format("P().now"),
    ),
    "the first message changed": (
        "CKS01",
        (
            'def ask(messages):\n    messages[0]["content"] = str(datetime.now())\n'
            '    return gpt.chat.completions.create(model="m", messages=messages)\n'
        ),
    ),
    "the first message replaced": (
        "CKS01",
        (
            'def ask(messages):\n    messages[0] = {"role": "system", "content": str(datetime.now())}\n'
            '    return gpt.chat.completions.create(model="m", messages=messages)\n'
        ),
    ),
    "a system message put in front": (
        "CKS01",
        (
            'def ask(messages):\n    messages.insert(0, {"role": "system", "content": str(datetime.now())})\n'
            '    return gpt.chat.completions.create(model="m", messages=messages)\n'
        ),
    ),
    "a call prepared": (
        "CKS01",
        (
            "send = functools.partial(client.messages.create, **GIVEN)\ndef ask(messages):\n"
            "    return send(system=str(datetime.now()), messages=messages)\n"
        ),
    ),
    "the question in front of a conversation, marked": (
        "CKB02",
        ASK.replace("messages)", "messages, question)", 1).format(
            '[{"type": "text", "text": question, "cache_control": {}}]'
        ),
    ),
    "a generator of sections": (
        "CKS01",
        'def sections():\n    yield "You are kind."\n    yield str(datetime.now())\n'
        + ASK.format('"".join(sections())'),
    ),
    "a body that is posted": (
        "CKS01",
        (
            'def ask(http, messages):\n    body = {"model": "m", "messages": [{"role": "system", "content": str(time.time())}, *messages]}\n'
            '    return http.post("https://api.example.org/v1/chat/completions", json=body)\n'
        ),
    ),
    "git by a helper": (
        "CKS04",
        'def git(*words):\n    return subprocess.run(["git", *words], capture_output=True, text=True).stdout\n'
        + ASK.format('git("status", "--short")'),
    ),
    "git by a variable": (
        "CKS04",
        (
            'def ask(messages):\n    command = ["git", "diff"]\n    text = subprocess.check_output(command, text=True)\n'
            "    return client.messages.create(system=text, messages=messages, **GIVEN)\n"
        ),
    ),
    "tools shuffled": ("CKT01", TOOLS_GIVEN.format("tools", "    random.shuffle(tools)\n")),
    "tools drawn": ("CKT01", TOOLS_GIVEN.format("n", "    tools = random.sample(TOOLS, len(TOOLS))\n")),
    "tools of a set that grows": (
        "CKT01",
        (
            "class A:\n    def __init__(self):\n        self.names = set()\n    def ask(self, messages):\n"
            "        tools = [PHASES[one] for one in self.names]\n"
            "        return client.messages.create(tools=tools, messages=messages, **GIVEN)\n"
        ),
    ),
    "tools by a mode that a method changes": ("CKT11", AGENT.format('self.mode = "act"', "PHASES[self.mode]")),
    "tools if in a mode that a method changes": (
        "CKT11",
        AGENT.format('self.mode = "act"', 'TOOLS if self.mode == "act" else TOOLS[:1]'),
    ),
    "tools that a method takes away": ("CKT11", AGENT.format("self.tools.pop()", "self.tools")),
    "tools that a method adds": ("CKT03", AGENT.format("self.tools.append(READ)", "self.tools")),
    "tools removed by state": (
        "CKT11",
        TOOLS_GIVEN.format("state", '    tools = list(TOOLS)\n    if state == "plan":\n        tools.remove(READ)\n'),
    ),
    "tools added by state": (
        "CKT11",
        TOOLS_GIVEN.format("state", '    tools = [READ]\n    if state == "act":\n        tools.extend(TOOLS)\n'),
    ),
    "tools unless read only": (
        "CKT11",
        TOOLS_GIVEN.format("read_only", '    tools = [one for one in TOOLS if not read_only or one["safe"]]\n'),
    ),
    "tools taken away around a function that sends": ("CKT11", CALLED_IN_A_LOOP.format("tools", "tools.pop(0)")),
    "tools added around a function that sends": ("CKT03", CALLED_IN_A_LOOP.format("tools", "tools.append(READ)")),
    "no tools around a function that sends": ("CKT04", CALLED_IN_A_LOOP.format("tools if step < 8 else None", "pass")),
    "a clock in a tool of a library": (
        "CKT08",
        (
            "from langchain_core.tools import StructuredTool\ndef make(function):\n"
            '    return StructuredTool.from_function(function, description=f"Was {datetime.now()}.")\n'
        ),
    ),
    "a trim that keeps what it takes": (
        "CKM05",
        (
            "def fit(messages, limit):\n    total = sum(len(one['content']) for one in messages)\n    while total > limit:\n"
            "        taken = messages.pop(0)\n        total -= len(taken['content'])\n    return messages\n"
        ),
    ),
    "the newest of a reversed list": ("CKM05", KEPT.format("reversed(messages)")),
    "the newest of a reversed slice": ("CKM05", KEPT.format("messages[::-1]")),
    "older messages by a variable": (
        "CKM06",
        PRUNED.format("    older = messages[:-6]\n    for one in older:\n        one['content'] = '[cleared]'\n"),
    ),
    "older messages by number": (
        "CKM06",
        PRUNED.format("    for n in range(len(messages) - 6):\n        messages[n]['content'] = '[cleared]'\n"),
    ),
    "older messages by a number of each": (
        "CKM06",
        PRUNED.format(
            "    for n, one in enumerate(messages):\n        if n < len(messages) - 6:\n"
            "            one['content'] = '[cleared]'\n"
        ),
    ),
    "blocks by a variable": (
        "CKA02",
        (
            "def total(responses):\n    n = 0\n    for one in responses:\n        blocks = one.content\n"
            "        for block in blocks:\n            n += one.usage.output_tokens\n    return n\n"
        ),
    ),
    "cached tokens of Responses added": (
        "CKA02",
        "def billed(usage):\n    return usage.input_tokens + usage.input_tokens_details.cached_tokens\n",
    ),
}
CLEAN: dict[str, str] = {
    "what a model was asked": ASK.format('gpt.ask(f"It is {datetime.now()}.").text'),
    "a key of a cache": ASK.format("CACHE.get(str(uuid.uuid4()))"),
    "another section": ASK.format('{"rules": "x", "now": str(datetime.now())}["rules"]'),
    "another field": ASK.format('dict(rules="x", now=str(datetime.now()))["rules"]'),
    "an object made for a process": "PARTS = Parts().add(str(datetime.now()))\n" + ASK.format("PARTS.build()"),
    "a lock in a class": (
        "class A:\n    def __init__(self):\n        self.at = str(datetime.now())\n    def ask(self, messages):\n"
        "        return client.messages.create(system=self.at, messages=messages, **GIVEN)\n"
    ),
    "a date that a reload takes": (
        "class A:\n    def reload(self):\n        self.system = str(datetime.now())\n    def ask(self, messages):\n"
        "        return client.messages.create(system=self.system, messages=messages, **GIVEN)\n"
    ),
    "an id of the metadata": (
        "def ask(messages):\n    return client.messages.create(metadata={'user_id': str(uuid.uuid4())}, messages=messages, **GIVEN)\n"
    ),
    "a message that was appended": (
        "def ask(messages):\n    messages.append({'role': 'system', 'content': str(datetime.now())})\n"
        "    return gpt.chat.completions.create(model='m', messages=messages)\n"
    ),
    "a set that is asked": TOOLS_GIVEN.format(
        "names", "    tools = [one for one in TOOLS if one['name'] in set(names)]\n"
    ),
    "a set that is counted": TOOLS_GIVEN.format("names", "    tools = TOOLS[: len(set(names))]\n"),
    "a set that is sorted": TOOLS_GIVEN.format("names", "    tools = [PHASES[one] for one in sorted(set(names))]\n"),
    "tools without doubles": TOOLS_GIVEN.format(
        "given",
        "    seen, tools = set(), []\n    for one in given:\n        if one['name'] not in seen:\n"
        "            seen.add(one['name'])\n            tools.append(one)\n",
    ),
    "tools taken away before": AGENT.format("pass", "self.tools"),
    "a mode that stays": AGENT.format("pass", "PHASES[self.mode]"),
    "tools that stay around a function that sends": CALLED_IN_A_LOOP.format("tools", "print(tools)"),
    "the last few messages": (
        "def ask(messages):\n    messages = messages[-20:]\n    return client.messages.create(messages=messages, **GIVEN)\n"
    ),
    "a text called messages": "def fit(messages: str):\n    while len(messages) > 9:\n        messages = messages[1:]\n    return messages\n",
    "money with cached tokens": (
        "def cost(usage, price):\n    fresh = usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens\n"
        "    return fresh * price\n"
    ),
}
MISSED = {
    "a call prepared", "the question in front of a conversation, marked",
    "keywords of an update", "a function that makes the builder", "an object where none is given", "a field of a dataclass",
    "the first message changed", "git by a helper", "git by a variable", "tools shuffled", "tools drawn",
    "tools by a mode that a method changes", "tools if in a mode that a method changes", "tools that a method takes away",
    "tools that a method adds", "tools removed by state", "tools taken away around a function that sends",
    "tools added around a function that sends", "no tools around a function that sends", "a clock in a tool of a library",
    "a trim that keeps what it takes", "the newest of a reversed slice", "older messages by a variable",
    "older messages by number", "older messages by a number of each",
    "cached tokens of Responses added",
}  # fmt: skip
FLAGGED = {"a text called messages"}


@pytest.mark.parametrize("name", named(FOUND, MISSED))
def test_a_hazard_is_found_in_a_program(name: str, lint: Lint) -> None:
    code, text = FOUND[name]
    assert [one.code for one in lint(HEAD + text)] == [code]


@pytest.mark.parametrize("name", named(CLEAN, FLAGGED))
def test_a_program_that_looks_like_one_is_left(name: str, lint: Lint) -> None:
    assert [one.code for one in lint(HEAD + CLEAN[name])] == []


# Programs of several files
# ----------------------------------------------------------------------------------------------------------------------

STAMP = "from datetime import datetime\ndef stamp():\n    return str(datetime.now())\n"
TIMED = "from datetime import datetime\nfrom {} import Base\nclass Timed(Base):\n    def build(self):\n        return str(datetime.now())\n"
BASE = (
    "import anthropic\nclient = anthropic.Anthropic()\nclass Base:\n    def build(self):\n        return 'x'\n    def ask(self, messages):\n"
    "        return client.messages.create(system=self.build(), messages=messages, cache_control={}, model='m', max_tokens=9)\n"
)
FILES: dict[str, tuple[list[str], dict[str, str]]] = {
    "an import": (["CKS01"], {"app": HEAD + "from times import stamp\n" + ASK.format("stamp()"), "times": STAMP}),
    "a module": (["CKS01"], {"app": HEAD + "import times\n" + ASK.format("times.stamp()"), "times": STAMP}),
    "a package that hands it on": (
        ["CKS01"],
        {
            "app": HEAD + "from pkg import stamp\n" + ASK.format("stamp()"),
            "pkg/__init__": "from .times import stamp\n",
            "pkg/times": STAMP,
        },
    ),
    "a star": (["CKS01"], {"app": HEAD + "from times import *\n" + ASK.format("stamp()"), "times": STAMP}),
    "a subclass elsewhere": (["CKS01"], {"base": BASE, "timed": TIMED.format("base")}),
    "a subclass elsewhere, beside a prompt": (
        ["CKS01"],
        {"base": BASE, "timed": TIMED.format("base") + "system = 'x'\n"},
    ),
    "a class of the same name elsewhere": (
        [],
        {
            "base": BASE,
            "timed": "from datetime import datetime\nclass Base:\n    def build(self):\n        return datetime.now()\n",
        },
    ),
}


@pytest.mark.parametrize("name", named(FILES, {"a star", "a subclass elsewhere"}))
def test_a_value_of_another_file_is_followed(name: str, lint: Lint) -> None:
    codes, files = FILES[name]
    assert [one.code for one in lint(**{"app": "", **files})] == codes


# Requests that mark nothing
# ----------------------------------------------------------------------------------------------------------------------

GROWING = """
class Agent:
    def ask(self, text):
        self.history.append({{"role": "user", "content": text}})
        return client.messages.create(model={}, max_tokens=9, messages=self.history)
"""
OWN = "import anthropic\nclient = anthropic.{}\n" + GROWING
BEDROCK = (
    'import boto3\nruntime = boto3.client("bedrock-runtime")\nOTHER = "anthropic.claude-x"\ndef run(task):\n'
    "    messages = [{{}}]\n    while True:\n        messages.append(runtime.converse(modelId={}, messages=messages))\n"
)
CALL = "import anthropic\nclient = anthropic.Anthropic()\ndef ask(messages):\n    return client.messages.create(model='claude-x', messages=messages{})\n"
UNMARKED: dict[str, tuple[int, dict[str, str]]] = {
    "nothing marked": (1, {"app": OWN.format("Anthropic()", '"claude-x"')}),
    "a client of Vertex": (1, {"app": OWN.format("AnthropicVertex()", '"claude-x"')}),
    "marked in another package": (
        1,
        {"app": OWN.format("Anthropic()", '"claude-x"'), "other/marks": "cache_control = 1\n"},
    ),
    "marked in the same package": (
        0,
        {"pkg/__init__": "", "pkg/app": OWN.format("Anthropic()", '"claude-x"'), "pkg/marks": "cache_control = 1\n"},
    ),
    "another vendor's endpoint": (
        0,
        {"app": OWN.format('Anthropic(base_url="https://api.example.org/anthropic")', '"claude-x"')},
    ),
    "another model on the endpoint": (0, {"app": OWN.format("Anthropic()", '"glm-5"')}),
    "Claude on Bedrock": (1, {"app": BEDROCK.format('"anthropic.claude-x"')}),
    "another model on Bedrock": (0, {"app": BEDROCK.format('"meta.llama4"')}),
    "tools offered": (1, {"app": CALL.format(", tools=TOOLS")}),
    "no tools": (0, {"app": CALL.format("")}),
    "tools that are none": (0, {"app": CALL.format(", tools=None")}),
    "an empty list of tools": (0, {"app": CALL.format(", tools=[]")}),
}


@pytest.mark.parametrize("name", named(UNMARKED, {"another model on Bedrock", "an empty list of tools"}))
def test_a_request_that_marks_nothing(name: str, lint: Lint) -> None:
    n_found, files = UNMARKED[name]
    assert [one.code for one in lint(**{"app": "", **files})] == ["CKB01"] * n_found
