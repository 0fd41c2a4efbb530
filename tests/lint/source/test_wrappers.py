"""The ways a value takes to a prompt in programs: each is followed, and what only looks like one is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contextkit.lint.catalogue import hazards
from contextkit.lint.finding import Finding
from tests.lint.source.conftest import named

HEAD = (
    "import functools, time\nfrom dataclasses import dataclass, field\nfrom datetime import datetime as dt\nimport anthropic\n"
    "client = anthropic.Anthropic()\n"
)
ASK = "    return client.messages.create(model='m', max_tokens=9, system=system, messages=messages)\n"
MADE = "import time\nclass B:\n    def build(self):\n        return f'{time.time()}'\n"
STAMP = "import time\ndef stamp():\n    return f'{time.time()}'\n"
CALLED = "class P:\n    def __call__(self, text):\n        return f'{text} {dt.now()}'\n"
AS_TEXT = "class P:\n    def __str__(self):\n        return f'It is {dt.now()}'\n"
BUILDER = (
    "class P:\n    def __init__(self):\n        self.parts = []\n    def add(self, part):\n        self.parts.append(part)\n"
    "        return self\n    def build(self):\n        return ' '.join(self.parts)\n"
)
PARAMS = "def ask(messages):\n    params = {'messages': messages}\n"
SPREAD = "    return client.messages.create(model='m', max_tokens=9, **params)\n"
PREPARED = (
    "def ask(messages):\n    create = functools.partial(client.messages.create, system=f'{dt.now()}')\n"
    "    return create(model='m', max_tokens=9, messages=messages)\n"
)
HEIR = "import time\nfrom app import B\nclass A(B):\n    def build(self):\n        return f'{time.time()}'\n"
BASE = (
    "class B:\n    def build(self):\n        raise NotImplementedError\n    def ask(self, messages):\n        system = self.build()\n"
    "        return client.messages.create(model='m', max_tokens=9, system=system, messages=messages)\n"
)
TEMPLATE = (
    "from langchain_core.prompts import ChatPromptTemplate, SystemMessagePromptTemplate\nGUIDE = 'It is {time}. {{no}}'\n"
    "prompt = ChatPromptTemplate.from_messages([('system', %s), ('human', 'At {asked}: {question}')])\n"
)
ASKED = "def ask(model, said):\n    chain = %s | model\n    return chain.invoke({'question': said, 'asked': dt.now(), %s})\n"

FOLLOWED: dict[str, tuple[str, dict[str, str]]] = {
    "a star import": ("from helpers import *\ndef ask(messages):\n    system = stamp()\n" + ASK, {"helpers": STAMP}),
    "a star import of a package": (
        "from pkg import stamp\ndef ask(messages):\n    system = stamp()\n" + ASK,
        {"pkg/__init__": "from .a import *\n", "pkg/a": STAMP},
    ),
    "super": (
        "from base import B\nclass A(B):\n    def build(self):\n        return 'x' + super().build()\n"
        "def ask(a: A, messages):\n    system = a.build()\n" + ASK,
        {"base": MADE},
    ),
    "what is made where none is given": (
        "from base import B\nclass A:\n    def __init__(self, b=None):\n        self.b = b or B()\n"
        "    def ask(self, messages):\n        system = self.b.build()\n    " + ASK,
        {"base": MADE},
    ),
    "what is made if none is given": (
        "from base import B\ndef ask(messages, b=None):\n    b = B() if b is None else b\n"
        "    system = b.build()\n" + ASK,
        {"base": MADE},
    ),
    "a method written over one that does nothing": ("from made import A\n" + BASE, {"made": HEIR}),
    "a field of a dataclass": (
        "@dataclass\nclass P:\n    now: str = field(default_factory=lambda: f'{dt.now()}')\ndef ask(messages):\n"
        "    p = P()\n    system = f'It is {p.now}'\n" + ASK,
        {},
    ),
    "a dict by its name": (
        "def ask(messages):\n    params = dict(system=f'{dt.now()}', messages=messages)\n" + SPREAD,
        {},
    ),
    "an update by keyword": (PARAMS + "    params.update(system=f'{dt.now()}')\n" + SPREAD, {}),
    "a dict added to a dict": (PARAMS + "    params |= {'system': f'{dt.now()}'}\n" + SPREAD, {}),
    "a call prepared": (PREPARED, {}),
    "a lambda with a name": (
        "now = lambda: dt.now().isoformat()\ndef ask(messages):\n    system = f'{now()}'\n" + ASK,
        {},
    ),
    "a source prepared": (
        "now = functools.partial(dt.now, None)\ndef ask(messages):\n    system = f'{now()}'\n" + ASK,
        {},
    ),
    "positions handed on": (
        "def build(*parts):\n    return fill(*parts)\ndef fill(text, now):\n    return f'{text} {now}'\n"
        "def ask(messages):\n    system = build('x', dt.now())\n" + ASK,
        {},
    ),
    "keywords handed on": (
        "def build(**parts):\n    return fill(**parts)\ndef fill(text='', now='', **more):\n    return f'{text} {now}'\n"
        "def ask(messages):\n    system = build(text='x', now=dt.now())\n" + ASK,
        {},
    ),
    "a function for each item": (
        "def line(x):\n    return f'{x} {dt.now()}'\ndef ask(messages):\n"
        "    system = ' '.join(map(line, ['a']))\n" + ASK,
        {},
    ),
    "a place of a template": (TEMPLATE % "'It is {time}'" + ASKED % ("prompt", "'time': dt.now()"), {}),
    "a template filled in by a function": (TEMPLATE % "GUIDE" + "filled = prompt.partial(time=dt.now)\n", {}),
    "an object that is called": (CALLED + "def ask(messages):\n    make = P()\n    system = make('x')\n" + ASK, {}),
    "an object that is called, kept": (
        CALLED + "class A:\n    def __init__(self):\n        self.make = P()\n    def ask(self, messages):\n"
        "        system = self.make('x')\n    " + ASK,
        {},
    ),
    "an object that is called, of another file": (
        "from parts import P\ndef ask(make: P, messages):\n    system = make('x')\n" + ASK,
        {"parts": "import time\n" + CALLED.replace("dt.now()", "time.time()")},
    ),
    "an object as text": (AS_TEXT + "def ask(messages):\n    p = P()\n    system = f'{p}'\n" + ASK, {}),
    "an object by str": (AS_TEXT + "def ask(p: P, messages):\n    system = 'x' + str(p)\n" + ASK, {}),
    "an object given its base's text": (
        AS_TEXT + "class Q(P):\n    pass\ndef ask(messages):\n    system = f'{Q()}'\n" + ASK,
        {},
    ),
    "a field of an object made here": (
        "def ask(messages):\n    given = Args(now=dt.now().isoformat(), name='x')\n"
        "    system = f'It is {given.now}'\n" + ASK,
        {},
    ),
    "a builder": (BUILDER + "def ask(messages):\n    system = P().add(f'{dt.now()}').build()\n" + ASK, {}),
    "a template of a system message": (
        TEMPLATE % "'x'" + "system = SystemMessagePromptTemplate.from_template(GUIDE)\n"
        "def ask(model):\n    return model.invoke([system.format_messages(time=dt.now())])\n",
        {},
    ),
}
LEFT: dict[str, str] = {
    "another field of an object made here": (
        "def ask(messages):\n    given = Args(now=dt.now().isoformat(), name='x')\n    system = f'You are {given.name}'\n"
        + ASK
    ),
    "an object that took the place of another": (
        "def ask(messages):\n    given = Args(now=dt.now().isoformat())\n    given = Args(now='2020')\n"
        "    system = f'It is {given.now}'\n" + ASK
    ),
    "a builder's step that keeps nothing": (
        "class P:\n    def log(self, now):\n        print(now)\n        return self\n    def text(self):\n        return 'x'\n"
        "def ask(messages):\n    system = P().log(dt.now()).text()\n" + ASK
    ),
    "the zone of time": "def ask(messages):\n    system = f'All times are {time.strftime(\"%Z\")}'\n" + ASK,
    "a time that was given": (
        "def ask(messages, begun):\n    system = 'Begun ' + time.strftime('%Y-%m-%d %H:%M', time.localtime(begun))\n"
        + ASK
    ),
    "an object called that says something else": (
        "class P:\n    def __init__(self, at):\n        self.at = at\n    def __call__(self, text):\n        return f'Be {text}.'\n"
        "def ask(messages):\n    make = P(dt.now())\n    system = make('brief')\n" + ASK
    ),
    "an object whose text is another": (
        "class P:\n    def __init__(self, at):\n        self.at = at\n    def __str__(self):\n        return 'x'\n"
        "def ask(messages):\n    p = P(dt.now())\n    system = f'{p}'\n" + ASK
    ),
    "a builder that keeps a text": (
        BUILDER + "def ask(messages):\n    system = P().add('x').build()\n    print(dt.now())\n" + ASK
    ),
    "a value made once for a class": (
        "class P:\n    now = f'{dt.now()}'\ndef ask(messages):\n    p = P()\n    system = f'It is {p.now}'\n" + ASK
    ),
    "an argument given beside what is spread": (
        "def make(text, **more):\n    return send(text, **more)\ndef send(system, at=0, **more):\n    messages = [at]\n"
        + ASK
        + "def ask():\n    return make('x', at=time.time())\n"
    ),
    "another keyword than the one that arrives": (
        "def make(**more):\n    return send(**more)\ndef send(system='', at=0):\n    messages = [at]\n"
        + ASK
        + "def ask():\n    return make(at=time.time())\n"
    ),
    "a template that was given": (
        "import jinja2\ndef make(template):\n    given = {'at': dt.now()}\n"
        "    system_prompt = jinja2.Template(template).render(**given)\n    return system_prompt\n"
    ),
    "a lambda for something else": (
        "now = lambda: dt.now().isoformat()\ndef ask(messages):\n    system = 'x'\n    print(now())\n" + ASK
    ),
    "a dict of something else": (
        "def ask(messages):\n    report = dict(system=f'{dt.now()}', disk='x')\n    system = 'x'\n    print(report)\n"
        + ASK
    ),
    "an update of something else": "def ask(messages, row):\n    row.update(system=f'{dt.now()}')\n    system = 'x'\n"
    + ASK,
    "a place of the user's message": TEMPLATE % "GUIDE" + ASKED % ("prompt", "'time': 'noon'"),
    "a template filled in once": TEMPLATE % "GUIDE" + "filled = prompt.partial(time=dt.now())\n",
    "a place that is none": TEMPLATE % "GUIDE" + ASKED % ("prompt", "'no': dt.now(), 'time': 'noon'"),
    "a method of another base": BASE + "class A:\n    def build(self):\n        return f'{time.time()}'\n",
}
MISSED = (
    "a builder",
    "a field of a dataclass",
    "a place of a template",
    "a template filled in by a function",
    "an object that is called, of another file",
    "an object by str",
    "a template of a system message",
)
"""Not followed all the same."""


@pytest.mark.parametrize("name", named(FOLLOWED, MISSED))
def test_a_clock_is_followed_to_the_prompt(name: str, lint: Callable[..., list[Finding]]) -> None:
    app, files = FOLLOWED[name]
    assert "CKS01" in {finding.code for finding in lint(HEAD + app, None, tuple(hazards()), **files)}


@pytest.mark.parametrize("name", named(LEFT))
def test_what_does_not_arrive_is_left_alone(name: str, lint: Callable[..., list[Finding]]) -> None:
    found = lint(HEAD + LEFT[name], None, tuple(hazards()))
    assert not {finding.code for finding in found} & {"CKS01", "CKS02", "CKS03"}


DAYS = ("pendulum.now().format('dddd, MMMM D, YYYY')", "pendulum.now().format('[at] YYYY-MM-DD')")


@pytest.mark.parametrize("made", named(DAYS, DAYS))
def test_a_format_without_a_time_of_day_makes_a_clock_a_date(made: str, lint: Callable[..., list[Finding]]) -> None:
    found = lint(f"{HEAD}import pendulum\ndef ask(messages):\n    system = {made}\n{ASK}", None, tuple(hazards()))
    assert {finding.code for finding in found} & {"CKS01", "CKS02"} == {"CKS02"}


@pytest.mark.parametrize(
    "made", ["pendulum.now().format('YYYY-MM-DD HH:mm')", "f'It is {dt.now()} in {{}}.'.format('COMMON')"]
)
def test_a_format_with_a_time_of_day_stays_a_clock(made: str, lint: Callable[..., list[Finding]]) -> None:
    found = lint(f"{HEAD}import pendulum\ndef ask(messages):\n    system = {made}\n{ASK}", None, tuple(hazards()))
    assert {finding.code for finding in found} & {"CKS01", "CKS02"} == {"CKS01"}
