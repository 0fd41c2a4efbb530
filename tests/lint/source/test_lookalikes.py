"""What looks like a value in the prompt and is none, what is one in disguise, and how long both may take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig
from contextkit.lint.source.detect import find_in_code
from tests.lint.source.conftest import named

ADD = (
    "class A:\n    def send(self, client):\n"
    "        return client.messages.create(model='m', system=self.system_prompt, messages=self.messages)\n"
    "    def add(self, content, role='system'):\n        if role == 'system':\n            self.system_prompt = content\n"
    "        else:\n            self.messages.append({'role': role, 'content': content})\n"
)
MARK = (
    "def mark(messages):\n    last = messages[-1]\n    if isinstance(last['content'], str):\n"
    "        last['content'] = [{'type': 'text', 'text': last['content'], 'cache_control': {'type': 'ephemeral'}}]\n"
)
HEAD = "import datetime, subprocess, sys, time, uuid\n"
_LEVELS = ("CKM", "CKS", "CKT")
RULES = "Be brief. " * 30
TURN = "    messages.append({'role': 'user', 'content': text})\n    return client.messages.create(model='m', messages=messages)\n"
NOW = "def now():\n    return datetime.datetime.now()\ndef dated():\n    return now().strftime('%A, %B %d')\n"
LOAD = "def load(name):\n    return open(name).read()\n"
DESCRIBED = (
    "def tool():\n    return {'name': 'read', 'description': f'Reads. It is {time.time()}.', 'input_schema': {}}\n"
    "def sys_prompt():\n    system_prompt = 'You have ' + tool()['description']\n    return system_prompt\n"
)
CLEAN = {
    "a date in a prompt of a session": NOW + "def sys_prompt():\n    return dated()\n"
    "class A:\n    def __init__(self):\n        self.prompt = sys_prompt()\n",
    "a date that is taken again on a reload": NOW + "class A:\n    def reload(self):\n"
    "        self.messages.update_system_prompt(dated())\n",
    "a clock where something failed": "def sys_prompt(load):\n    try:\n        system_prompt = load()\n    except OSError:\n"
    "        system_prompt = f'It is {time.time()}.'\n    return system_prompt\n",
    "a set that a function of ours is told": "def run_length(tools):\n    return len(tools)\n"
    "def sys_prompt(names):\n    return run_length(tools=set(names))\n",
    "a template that is told everything": LOAD + "def sys_prompt(name):\n    context = {'now': time.time()}\n"
    "    system_prompt = load(name).format(**context)\n    return system_prompt\n",
    "a message's own text": "def take(messages):\n    messages.append({'role': 'user', 'content': str(time.time())})\n"
    "    system_message = messages.pop(0)\n    return system_message\n",
    "when a message came": "def sys_prompt(text):\n    note = {'role': 'user', 'content': text, 'timestamp': time.time()}\n"
    "    system_prompt = note\n    return system_prompt\n",
    "an age to sort by": "def sys_prompt(files):\n    now = time.time()\n    best = sorted(files, key=lambda one: now - one.age)\n"
    "    system_prompt = ' '.join(best)\n    return system_prompt\n",
    "a key to look up": "def sys_prompt(texts, cache):\n    key = (str(uuid.uuid4()), 1)\n    system_prompt = cache.get(key)\n"
    "    return system_prompt\n",
    "another key of a dict": "def parts():\n    return {'stable': 'x', 'now': str(time.time())}\n"
    "def sys_prompt():\n    made = parts()\n    system_prompt = made['stable']\n    return system_prompt\n",
    "a page that was fetched": "def sys_prompt(url):\n    system_prompt = subprocess.run(['curl', url], capture_output=True).stdout\n"
    "    return system_prompt\n",
    "a result that is kept": "class A:\n    def get_system_prompt(self):\n        if self._made:\n            return self._made\n"
    "        self._made = f'It is {datetime.date.today()}'\n        return self._made\n",
    "a row of a database": "def keep(store):\n    store.update_run(instructions=str(time.time()))\n",
    "the machine at the end": "def sys_prompt():\n"
    "    return {'role': 'system', 'content': f'You are an agent. It runs on {sys.platform}.'}\n",
    "the version of a program": "def version():\n    return subprocess.check_output(['git', 'describe'])\n"
    "def sys_prompt():\n    system_prompt = f'Tool {version()}'\n    return system_prompt\n",
    "a system message where there is none yet": "def ask(client, messages, text):\n"
    "    if not any(one['role'] == 'system' for one in messages):\n"
    "        messages.insert(0, {'role': 'system', 'content': f'It is {time.time()}.'})\n" + TURN,
    "a message of the user's, by a word": ADD + "    def ask(self):\n        self.add(str(time.time()), 'user')\n",
    "a message of the user's, by a keyword": ADD
    + "    def ask(self):\n        self.add(str(time.time()), role='user')\n",
    "files named in a text": "import os\ndef sys_prompt(folder):\n    files = ', '.join(os.listdir(folder))\n"
    "    return [{'name': 'read', 'description': f'Reads one of {files}.', 'input_schema': {}}]\n",
    "a list for its marker, straight to Claude": "from anthropic import Anthropic\n" + MARK,
    "a folder that is a setting": "class A:\n    def __init__(self, cwd):\n        self.cwd = cwd\n"
    "    def sys_prompt(self):\n        return {'role': 'system', 'content': f'In {self.cwd}. ' + RULES}\n",
    "fields of a span": "import platform\ndef sys_prompt(span):\n"
    "    span([('system', platform.system()), ('machine', platform.machine())])\n",
    "an id beside a request": "def sys_prompt(text, ask):\n"
    "    request = {'system': text, 'messages': [], 'metadata': {'at': time.time()}, 'trace_id': str(uuid.uuid4())}\n"
    "    return put(request)\ndef put(form):\n    form['messages'].insert(0, {'role': 'system', 'content': form})\n    return form\n",
    "a mapping with headers": "def sys_prompt(ask):\n    given = {'text': 'x', 'headers': {'Date': str(time.time())}}\n"
    "    system_prompt = ask(given)\n    return system_prompt\n",
    "tools beside a request": "def note(metadata, names):\n    metadata['tools'] = list(set(names))\n",
    "how long to wait for it": "def get(client, url, **more):\n    return client.get(url, **more).text\n"
    "def sys_prompt(client, until):\n    system_prompt = get(client, 'x', timeout=until - time.time())\n    return system_prompt\n",
    "what a server says": "def sys_prompt(session):\n"
    "    system_prompt = session.post('x', f'{time.time()}').json()\n    return system_prompt\n",
    "what a model says": "def sys_prompt(llm):\n    system_prompt = llm.invoke(f'It is {time.time()}.').text\n    return system_prompt\n",
    "messages without their system prompt": "def strip_system_prompt(messages):\n    return messages[1:]\n"
    "def make(messages):\n    return strip_system_prompt([*messages, str(time.time())])\n",
    "a place to be found again": "def sys_prompt(text, query):\n    placeholder = str(uuid.uuid4())\n"
    "    system_prompt = text.replace('{q}', placeholder).replace('{c}', query).replace(placeholder, '{q}')\n    return system_prompt\n",
}
FOUND = {
    "a key of a dict": (
        "CKS01",
        (
            "def parts():\n    return {'stable': 'x', 'now': str(time.time())}\n"
            "def sys_prompt():\n    made = parts()\n    system_prompt = made['now']\n    return system_prompt\n"
        ),
    ),
    "the day of a clock of ours": (
        "CKS02",
        NOW + "def ask(client, messages, text):\n    system = dated()\n" + TURN.replace("'m',", "'m', system=system,"),
    ),
    "instructions that a framework asks for": (
        "CKS02",
        (
            "from pydantic_ai import Agent\nagent = Agent('m')\n@agent.instructions\n"
            "def dated():\n    return f'The date is {datetime.date.today()}.'\n"
        ),
    ),
    "a function handed over as instructions": (
        "CKS02",
        (
            "from agents import Agent\ndef dated(context, agent):\n"
            "    return f'The date is {datetime.date.today()}.'\nagent = Agent(instructions=dated)\n"
        ),
    ),
    "instructions in a word": (
        "CKS02",
        (
            "from agents import Agent\n"
            "agent = Agent(instructions=lambda *given: f'The date is {datetime.date.today()}.')\n"
        ),
    ),
    "a date put in before each call of the model": (
        "CKS02",
        (
            "def wrap_model_call(request, handler):\n"
            "    return handler(request.override(system_prompt=f'{datetime.date.today()}'))\n"
        ),
    ),
    "a set given to a model of ours": (
        "CKT01",
        (
            "class Model:\n    def generate(self, messages, tools):\n"
            "        raise NotImplementedError\n"
            "def ask(model: Model, messages, names):\n"
            "    return model.generate(messages, tools=list(set(names)))\n"
        ),
    ),
    "a date for a loop and for what is kept": (
        "CKS02",
        (
            NOW
            + "def sys_prompt(text, inputs, show):\n    for one in inputs:\n        show(one, {'role': 'system', 'content': text})\n"
            "    system_prompt = text\n    return system_prompt\ndef give(inputs, show):\n    return sys_prompt(dated(), inputs, show)\n"
        ),
    ),
    "a date where the history is read": (
        "CKS02",
        (
            NOW + "class A:\n    def whole(self):\n"
            "        return [{'role': 'system', 'content': dated()}, *self.done_messages]\n"
        ),
    ),
    "a template with a place for it": (
        "CKS01",
        (
            LOAD
            + "def sys_prompt(name):\n    system_prompt = load(name).format(now=time.time())\n    return system_prompt\n"
        ),
    ),
    "a clock in what a tool says": ("CKS01, CKT08", DESCRIBED),
    "a clock by the second and by the day": (
        "CKS01",
        (
            "def sys_prompt():\n    now = datetime.datetime.now()\n"
            "    system_prompt = f'{now} in {now.year}'\n    return system_prompt\n"
        ),
    ),
    "the machine in front": (
        "CKS04",
        f"def sys_prompt():\n    return {{'role': 'system', 'content': f'On {{sys.platform}}. {RULES}'}}\n",
    ),
    "a role by its name": (
        "CKS01",
        "def sys_prompt(ChatMessage, Role):\n    return ChatMessage(role=Role.SYSTEM, content=str(time.time()))\n",
    ),
    "a system message in front of each request": (
        "CKS01",
        (
            "def ask(client, messages, text):\n    messages.insert(0, {'role': 'system', 'content': f'It is {time.time()}.'})\n"
            + TURN
        ),
    ),
    "a system message by a word": ("CKS01", ADD + "    def ask(self):\n        self.add(str(time.time()), 'system')\n"),
    "a system message by default": ("CKS01", ADD + "    def ask(self):\n        self.add(str(time.time()))\n"),
    "a message of any role": ("CKS01", ADD + "    def ask(self, role):\n        self.add(str(time.time()), role)\n"),
    "a message behind a history that may be empty": (
        "CKS01",
        (
            "def ask(client, text, messages=None):\n    messages = messages or []\n"
            "    messages.insert(0, {'role': 'system', 'content': f'It is {time.time()}.'})\n" + TURN
        ),
    ),
    "a note behind the first message": (
        "CKS01",
        (
            "def ask(client, messages, text):\n    messages.insert(1, {'role': 'user', 'content': f'It is {time.time()}.'})\n"
            + TURN
        ),
    ),
    "a folder that was asked for": (
        "CKS04",
        (
            "import os\nclass A:\n    def __init__(self, cwd=None):\n        self.cwd = cwd or os.getcwd()\n"
            f"    def sys_prompt(self):\n        return {{'role': 'system', 'content': f'In {{self.cwd}}. {RULES}'}}\n"
        ),
    ),
    "a folder of nobody knows where": (
        "CKS04",
        (
            "class A(Base):\n    def sys_prompt(self):\n"
            f"        return {{'role': 'system', 'content': f'In {{self.cwd}}. {RULES}'}}\n"
        ),
    ),
    "a text that goes with headers": (
        "CKS01",
        (
            "def sys_prompt(ask):\n    given = {'text': str(time.time()), 'headers': {}}\n"
            "    system_prompt = ask(given)\n    return system_prompt\n"
        ),
    ),
    "what a server is asked with": (
        "CKS01",
        (
            "def sys_prompt(session, cache):\n    asked = f'{time.time()}'\n"
            "    system_prompt = session.post('x', asked).text + asked\n    return system_prompt\n"
        ),
    ),
    "an id that stays": (
        "CKS03",
        (
            "def sys_prompt(text):\n    tag = str(uuid.uuid4())\n    system_prompt = text.replace('{q}', tag)\n"
            "    return system_prompt\n"
        ),
    ),
    "messages as pairs": (
        "CKS01",
        (
            "def make(history):\n    from langchain_openai import ChatOpenAI\n"
            "    ChatOpenAI().invoke([('system', f'It is {time.time()}'), *history, ('user', 'hi')])\n"
        ),
    ),
    "a set of what was a list": (
        "CKT01",
        (
            "def plain(one):\n    if one and isinstance(one, list):\n"
            "        return {plain(part) for part in one}\n    return one\n"
            "def make(tools):\n    return {'model': 'm', 'tools': plain(tools), 'messages': []}\n"
        ),
    ),
}
FLAGGED = (
    "a template that is told everything",
    "a result that is kept",
    "a message of the user's, by a word",
    "a message of the user's, by a keyword",
    "a place to be found again",
)
"""Reported all the same."""
MISSED = ("a set given to a model of ours",)
"""Not reported all the same."""


@pytest.fixture
def codes(tmp_path: Path) -> Callable[..., list[str]]:
    def lint(source: str, config: LintConfig | None = None) -> list[str]:
        path = tmp_path / "app.py"
        path.write_text(HEAD + source, encoding="utf-8")
        return [
            finding.code
            for finding in find_in_code([path], config or LintConfig(), hazards())
            if finding.code[:3] in _LEVELS
        ]

    return lint


@pytest.mark.parametrize("name", named(CLEAN, FLAGGED))
def test_what_only_looks_like_it_is_not_reported(name: str, codes: Callable[..., list[str]]) -> None:
    assert codes(CLEAN[name]) == []


@pytest.mark.parametrize("name", named(FOUND, MISSED))
def test_what_does_not_look_like_it_is(name: str, codes: Callable[..., list[str]]) -> None:
    code, source = FOUND[name]
    expected = code.split(", ")
    assert sorted(codes(source, LintConfig(select=("CK", *expected)))) == expected


def test_each_call_made_twice_is_followed_in_time(codes: Callable[..., list[str]]) -> None:
    steps = "".join(f"def f{i}(a, b):\n    return f{i - 1}(f{i - 1}(a, b), f{i - 1}(b, a)) + a\n" for i in range(1, 40))
    deep = "def sys_prompt(x):\n    system_prompt = f39(x, str(time.time()))\n    return system_prompt\n"
    plain = "def get_system_prompt():\n    system_prompt = f'It is {time.time()}.'\n    return system_prompt\n"
    found = codes(f"import time\ndef f0(a, b):\n    return a + b\n{steps}{deep}{plain}")
    assert (
        "CKS01" in found
    )  # without a memory of what each call gives, 2 to the 39th calls come first: the test's timeout ends it
