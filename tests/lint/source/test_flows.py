"""A value that varies is followed to the prompt through whatever Python code does with it; look-alikes are left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contextkit.lint.finding import CodePlace, Finding
from tests.lint.source.conftest import named

HEAD = """
import datetime, functools, os, random, string, time, uuid
import anthropic
from datetime import date
client = anthropic.Anthropic()

def now(): return datetime.datetime.now()
"""
NOW = "datetime.datetime.now()"

ASK = "client.messages.create(model='m', messages=messages, system=system)"

VARYING = {
    "f-string": f"system = f'It is {{{NOW}}}'",
    "format": f"system = 'It is {{}}'.format({NOW})",
    "percent": f"system = 'It is %s' % {NOW}",
    "plus": f"system = 'It is ' + str({NOW})",
    "join": f"system = ' '.join(['It is', str({NOW})])",
    "augmented": f"system = 'It is '\n    system += str({NOW})",
    "list that grows": f"parts = ['It is']\n    parts.append(str({NOW}))\n    system = ' '.join(parts)",
    "list of blocks": f"system = [{{'type': 'text', 'text': str({NOW})}}]",
    "comprehension": f"system = ''.join(str(part) for part in [1, {NOW}])",
    "or": f"system = messages[0]['x'] or str({NOW})",
    "branch": f"system = 'fixed'\n    if messages:\n        system = str({NOW})",
    "try": f"try:\n        system = str({NOW})\n    except ValueError:\n        system = ''",
    "dict value": f"parts = {{'text': str({NOW})}}\n    system = parts['text']",
    "dict item set": f"parts = {{}}\n    parts['now'] = str({NOW})\n    system = parts['now']",
    "attribute set": f"messages.note = str({NOW})\n    system = messages.note",
    "textwrap": f"import textwrap\n    system = textwrap.dedent(str({NOW}))",
    "jinja2": f"import jinja2\n    system = jinja2.Template('It is {{{{ now }}}}').render(now={NOW})",
    "string.Template": f"system = string.Template('It is $now').substitute(now={NOW})",
    "nested function": f"def inner():\n        return str({NOW})\n    system = inner()",
    "lambda": f"make = lambda: str({NOW})\n    system = make()",
    "unknown wrapper": f"import somewhere\n    system = somewhere.wrap(str({NOW}))",
    "match": f"match messages:\n        case []:\n            system = str({NOW})\n        case _:\n            system = ''",
}


@pytest.mark.parametrize("body", VARYING.values(), ids=VARYING.keys())
def test_a_clock_reaches_the_system_prompt(seen: Callable[..., list[tuple[str, str]]], body: str) -> None:
    found = seen(f"{HEAD}\ndef ask(messages):\n    {body}\n    {ASK}\n")
    assert [code for code, _ in found] == ["CKS01"]
    assert ".now()" in found[0][1]


STABLE = {
    "length": "system = f'{len(str(time.time())) > 3}'",
    "comparison": "system = 'late' if time.time() > 3 else 'early'",
    "not": f"system = str(not {NOW})",
    "overwritten": f"system = str({NOW})\n    system = 'fixed'",
    "raised": "system = 'fixed'\n    if not messages:\n        raise ValueError(f'{time.time()}')",
    "branch that leaves": f"system = 'fixed'\n    if messages:\n        system = str({NOW})\n        return",
    "sorted set": "system = ','.join(sorted({'a', 'b'}))",
    "other key of a dict": f"parts = {{'at': {NOW}, 'role': 'x'}}\n    system = parts['role']",
    "frozen by comment": f"system = str({NOW})  # contextkit: frozen",
    "a system message behind the conversation": f"system = ''\n    messages.append({{'role': 'system', 'content': str({NOW})}})",
    "another message of a copied history": "messages = [{'role': 'user', 'content': str("
    + NOW
    + ")}]\n    system = ''\n"
    "    for one in messages.copy():\n        if one['role'] == 'system':\n            system += one['content']",
    "a trace": f"system = ''\n    span.set_attribute('system_prompt', str({NOW}))",
}


@pytest.mark.parametrize("name", named(STABLE))
def test_a_look_alike_is_left_alone(seen: Callable[..., list[tuple[str, str]]], name: str) -> None:
    body = STABLE[name]
    top = f"STARTED = f'{{{NOW}}}'\n@functools.lru_cache\ndef cached():\n    return str({NOW})\n"
    assert seen(f"{HEAD}\n{top}\ndef ask(messages, span):\n    {body}\n    {ASK}\n") == []


def test_wrappers_in_other_modules_are_followed(lint: Callable[..., list[Finding]]) -> None:
    (finding,) = lint(
        **{
            "pkg/__init__": "from .prompts import build\n",
            "pkg/clock": "import time\ndef stamp(form='%H:%M'):\n    return time.strftime(form)\n",
            "pkg/prompts": "from .clock import stamp\ndef line(text):\n    return f'- {text}'\ndef build():\n    return line(stamp())\n",
        },
        app="import anthropic\nimport pkg\ndef ask(m):\n    anthropic.Anthropic().messages.create(system=pkg.build(), messages=m)\n",
    )
    assert isinstance(finding.place, CodePlace)
    assert finding.place.file.endswith("clock.py")
    assert [step.note for step in finding.trail] == [
        "time.strftime(form)",
        "through `stamp`",
        "given as `text`",
        "through `line`",
        "`system=` of `create`",
    ]


STAMP = "import time\ndef stamp():\n    return str(time.time())\n"
FIXED = "def stamp():\n    return 'never'\n"
USES = (
    "\nasync def ask(client, messages):\n    return await client.messages.create(system=stamp(), messages=messages)\n"
)


def test_a_folder_in_a_package_needs_no_init_of_its_own(lint: Callable[..., list[Finding]]) -> None:
    (finding,) = lint(
        "from stamps import stamp",
        **{
            "pkg/__init__": "",
            "pkg/a/utils": STAMP,
            "pkg/b/utils": FIXED,
            "pkg/b/c/app": "from ...a.utils import stamp" + USES,
            "pkg/b/app": "from pkg.b.utils import stamp" + USES,
            "pkg/not-a-name/app": "from utils import stamp" + USES,
        },
    )
    assert [step.file.rpartition("pkg")[2].replace("\\", "/") for step in finding.trail] == [
        "/a/utils.py",
        "/b/c/app.py",
    ]


@pytest.mark.parametrize("stem", ["utils", "utils/clock"])
def test_files_of_one_name_in_several_folders_are_told_apart(stem: str, lint: Callable[..., list[Finding]]) -> None:
    name = stem.replace("/", ".")
    init = {f"{folder}/utils/__init__": "" for folder in "abcd"} if "/" in stem else {}
    found = lint(
        **init,
        **{f"a/{stem}": FIXED, f"b/{stem}": STAMP, f"c/{stem}": FIXED, f"d/{stem}": STAMP},
        **{f"{folder}/app": f"from {name} import stamp{USES}" for folder in "abc"},
        **{"d/app": f"import {name}{USES}".replace("stamp", f"{name}.stamp")},
    )
    assert [finding.trail[-1].file.replace("\\", "/")[-8:] for finding in found] == ["b/app.py", "d/app.py"]


def test_an_argument_handed_down_is_found_where_it_is_made(seen: Callable[..., list[tuple[str, str]]]) -> None:
    low = f"def low(messages, text, *, extra=''):\n    system = text + extra\n    {ASK}\n"
    found = seen(
        f"{HEAD}\n{low}\ndef middle(messages, **more):\n    low(messages, 'x', **more)\n\n"
        f"def top(m):\n    middle(m, extra=str(time.time()))\n"
    )
    assert found == [("CKS01", "time.time()")]


def test_a_callable_as_default_is_called(seen: Callable[..., list[tuple[str, str]]]) -> None:
    assert seen(f"{HEAD}\ndef ask(messages, clock=datetime.datetime.now):\n    system = str(clock())\n    {ASK}\n") == [
        ("CKS01", "clock()")
    ]


def test_an_object_built_for_each_call_freezes_nothing(seen: Callable[..., list[tuple[str, str]]]) -> None:
    body = """
    class Prompt:
        def __init__(self):
            self.at = datetime.datetime.now()
        def text(self):
            return f"{self.at}"
    def ask(messages):
        prompt = Prompt()
        client.messages.create(system=prompt.text(), messages=messages)
    """
    assert seen(HEAD + _dedent(body)) == [("CKS01", NOW)]


def _dedent(text: str) -> str:
    import textwrap

    return textwrap.dedent(text)


SINKS = {
    "anthropic": "anthropic.Anthropic().messages.stream(system=X, messages=m)",
    "openai responses": "import openai\n    openai.OpenAI().responses.create(instructions=X, input=m)",
    "openai chat": "c.chat.completions.create(messages=[{'role': 'system', 'content': X}, *m])",
    "developer role": "c.chat.completions.create(messages=[{'role': 'developer', 'content': X}] + m)",
    "litellm": "import litellm\n    litellm.completion(model='m', messages=[{'role': 'system', 'content': X}] + m)",
    "a fresh list": "messages = []\n    messages.append({'role': 'system', 'content': X})\n    messages.extend(m)",
    "insert at the front": "messages = list(m)\n    messages.insert(0, {'role': 'system', 'content': X})",
    "langchain message": "from langchain_core.messages import SystemMessage\n    c.invoke([SystemMessage(content=X), *m])",
    "langchain tuple": "from langchain_core.prompts import ChatPromptTemplate\n"
    "    ChatPromptTemplate.from_messages([('system', X), ('user', '{q}')])",
    "openai-agents function": "import agents\n    def dynamic(ctx, agent):\n        return X\n"
    "    agents.Agent(name='a', instructions=dynamic)",
    "openai-agents lambda": "import agents\n    agents.Agent(name='a', instructions=lambda ctx, agent: X)",
    "instructor": "import instructor\n"
    "    instructor.from_provider('m').chat.completions.create(messages=[{'role': 'system', 'content': X}, *m])",
    "request dict": "body = {'model': 'm', 'messages': m, 'system': X}",
    "kwargs": "kwargs = dict(c)\n    kwargs['system'] = X\n    c.messages.create(model='m', messages=m, **kwargs)",
    "a wrapper's keyword": "c.ask(system_prompt=X)",
    "a function's name": "def build_system_prompt():\n        return X\n    build_system_prompt()",
}


@pytest.mark.parametrize("name", named(SINKS))
def test_the_system_prompt_of_each_api_is_known(seen: Callable[..., list[tuple[str, str]]], name: str) -> None:
    found = seen(f"{HEAD}\ndef ask(c, m):\n    {SINKS[name].replace('X', 'str(time.time())')}\n")
    assert found == [("CKS01", "time.time()")]


AGENTS = {
    "create_agent": "from langchain.agents import create_agent\n    create_agent('m', [], system_prompt=X)",
    "langgraph": "from langgraph.prebuilt import create_react_agent\n    create_react_agent('m', [], prompt=X)",
    "pydantic-ai": "from pydantic_ai import Agent\n    Agent('m', instructions=X)",
    "openai-agents": "import agents\n    agents.Agent(name='a', instructions=X)",
    "google-adk": "from google.adk.agents import LlmAgent\n    LlmAgent(name='a', instruction=X)",
    "strands": "from strands import Agent\n    Agent(system_prompt=X)",
    "smolagents": "from smolagents import CodeAgent\n    CodeAgent(tools=[], model=m, instructions=X)",
    "dspy": "import dspy\n    dspy.Signature('q -> a', X)",
    "contextkit": "from contextkit import Context\n    Context(provider=m, system=X)",
}


@pytest.mark.parametrize("body", AGENTS.values(), ids=AGENTS.keys())
def test_what_an_agent_is_made_with_lives_as_long_as_the_agent(
    seen: Callable[..., list[tuple[str, str]]], body: str
) -> None:
    made = body.replace("\n    ", "\n        ")
    anew = f"{HEAD}\ndef run(m):\n    {body}\n"
    once = f"{HEAD}\nclass App:\n    def __init__(self, m):\n        {made}\n"
    clock, folder = "str(time.time())", "os.getcwd() + 'You are an agent.'"
    assert seen(anew.replace("X", clock)) == [("CKS01", "time.time()")]
    assert seen(once.replace("X", clock)) == []
    assert seen(once.replace("X", folder)) == [("CKS04", "os.getcwd()")]


OTHERS = {
    "set in bind_tools": ("CKT01", "c.bind_tools({*c.a, *c.b})"),
    "clock in a tool call": (
        "CKT08",
        (
            "from langchain_core.tools import StructuredTool\n"
            "    tool = StructuredTool(name='x', description=f'At {time.time()}')\n"
            "    c.bind_tools([tool]).invoke(m)"
        ),
    ),
}


@pytest.mark.parametrize("name", named(OTHERS))
def test_other_kinds_reach_other_sinks(seen: Callable[..., list[tuple[str, str]]], name: str) -> None:
    code, body = OTHERS[name]
    assert [found for found, _ in seen(f"{HEAD}\ndef ask(c, m, query):\n    {body}\n")] == [code]


def test_a_prompt_built_by_the_constructor_alone_is_frozen(seen: Callable[..., list[tuple[str, str]]]) -> None:
    body = (
        f"class A:\n    def __init__(self):\n        self.p = build_system_prompt()\n"
        f"def build_system_prompt():\n    return f'{{{NOW}}}'\n"
    )
    assert seen(HEAD + body) == []
    assert seen(HEAD + body + "def turn():\n    return build_system_prompt()\n") == [("CKS01", NOW)]
