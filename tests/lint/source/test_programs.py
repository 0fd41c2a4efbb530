"""Checks the source detector on expressions that are a system text, on programs of several files, and on calls without a breakpoint."""

from __future__ import annotations

import pytest

from contextkit.lint.config import LintConfig
from tests.lint.source.conftest import Lint, named

HEAD = """\
import time
from datetime import date, datetime, timezone
import anthropic
client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
DAY = "%Y-%m-%d"
TEMPLATE = "You are {name}. It is {now}."
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
}
NO_CLOCKS = {
    'f"{datetime.now():%Y-%m-%d}"',
    'f"{date.today()}"',
    'f"{datetime.now().date().isoformat()}"',
    'datetime.now().strftime("%A, %d %B")',
    'f"{datetime.now().year}"',
    'time.strftime("%Y-%m-%d", time.localtime())',
    'time.strftime("%H:%M", time.localtime(messages[0]["at"]))',
    '"x" if datetime.now().hour < 12 else "y"',
    'f"{len(str(datetime.now()))} characters"',
    'time.strftime("%Y-%m-%d")',
    '"{:%Y-%m-%d}".format(datetime.now())',
    "datetime.now().isoformat()[:10]",
    'str(datetime.now()).split(" ")[0]',
    "datetime.now().strftime(DAY)",
}


@pytest.mark.parametrize("text", sorted(CLOCKS))
def test_a_clock_in_the_system_text_is_found(text: str, lint: Lint) -> None:
    assert [one.code for one in lint(HEAD + ASK.format(text))] == ["CKS01"]


@pytest.mark.parametrize("text", sorted(NO_CLOCKS))
def test_a_day_in_the_system_text_is_none(text: str, lint: Lint) -> None:
    assert lint(HEAD + ASK.format(text)) == []


LOOP = """
import anthropic
from datetime import datetime
client = anthropic.Anthropic()
def ask(messages, text):
    messages.append({"role": "user", "content": text})
    system = f"Be kind. It is {datetime.now()}"
    reply = client.messages.create(model="claude-sonnet-5-5", max_tokens=9, system=system, messages=messages)
    messages.append({"role": "assistant", "content": reply.content})
"""


@pytest.mark.parametrize(
    "caller",
    [
        "",
        "def main():\n    messages = []\n    while True:\n        ask(messages, input())\n",
        "messages = []\nwhile True:\n    ask(messages, input())\n",
    ],
    ids=["nobody in view", "a loop", "the module"],
)
def test_a_function_that_adds_to_the_history_it_is_given_is_a_turn(caller: str, lint: Lint) -> None:
    assert [one.code for one in lint(LOOP + caller)] == ["CKS01", "CKB01"]


def test_a_second_value_of_a_text_shows_where_the_first_is_hidden(lint: Lint) -> None:
    text = HEAD + "import uuid\n" + ASK.format('f"{datetime.now()} {uuid.uuid4()}"')
    assert [one.code for one in lint(text)] == ["CKS01"]
    assert [one.code for one in lint(text, LintConfig(ignore=("CKS01",)))] == ["CKS03"]
    assert [one.code for one in lint(text.replace("**GIVEN)", "**GIVEN)  # noqa: CKS01"))] == ["CKS03"]


def test_a_comment_in_a_text_hides_nothing(lint: Lint) -> None:
    text = HEAD + ASK.format('f"""Be kind. # noqa\n{datetime.now()}"""')
    assert [one.code for one in lint(text)] == ["CKS01"]


@pytest.mark.parametrize(
    "text", ["f" + "()" * 3_000, "f" + ".a" * 3_000, "0" + " + 1" * 3_000], ids=["calls", "attributes", "sums"]
)
def test_a_file_that_is_nested_too_deeply_does_not_end_the_run(text: str, lint: Lint) -> None:
    found = lint(f"x = {text}\nmessages = [x]\n", other=HEAD + ASK.format("str(datetime.now())"))
    assert {one.code for one in found} - {"CK000"} == {"CKS01"}


def test_files_of_one_name_are_all_looked_at(lint: Lint) -> None:
    ask = HEAD + ASK.format("str(datetime.now())")
    assert [one.code for one in lint("", **{"a/agent": ask, "b/agent": ask})] == ["CKS01", "CKS01"]


def test_a_function_that_nobody_in_a_package_calls_is_not_looked_at(lint: Lint) -> None:
    package = dict.fromkeys(("pkg/__init__", "pkg/a", "pkg/b", "pkg/c"), "")
    ask = HEAD + ASK.format("str(datetime.now())")
    assert lint("", **package, **{"pkg/d": ask}) == []
    assert [one.code for one in lint("", **package | {"pkg/d": ask, "pkg/c": "from pkg.d import ask\nask([])\n"})] == [
        "CKS01"
    ]


# Programs of several files
# ----------------------------------------------------------------------------------------------------------------------

STAMP = "from datetime import datetime\ndef stamp():\n    return str(datetime.now())\n"
TIMED = "from datetime import datetime\nfrom {} import Base\nclass Timed(Base):\n    def build(self):\n        return str(datetime.now())\n"
BASE = (
    "import anthropic\nclient = anthropic.Anthropic()\nclass Base:\n    def build(self):\n        return 'x'\n"
    "    def ask(self, messages):\n"
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
CALL = (
    "import anthropic\nclient = anthropic.Anthropic()\ndef ask(messages):\n"
    "    return client.messages.create(model='claude-x', messages=messages{})\n"
)
GIVEN_TOOLS = CALL.format(", tools=tools").replace("(messages)", "(messages, tools)")
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
    "tools offered": (1, {"app": CALL.format(", tools=TOOLS") + "TOOLS = [{}]\n"}),
    "tools of a call": (1, {"app": CALL.format(", tools=registry.specs()")}),
    "tools that a caller gives": (
        1,
        {"app": GIVEN_TOOLS + "def step(messages):\n    return ask(messages, tools=[{}])\n"},
    ),
    "tools that nobody gives": (0, {"app": GIVEN_TOOLS}),
    "tools of an unknown name": (0, {"app": CALL.format(", tools=TOOLS")}),
    "no tools": (0, {"app": CALL.format("")}),
    "tools that are none": (0, {"app": CALL.format(", tools=None")}),
    "an empty list of tools": (0, {"app": CALL.format(", tools=[]")}),
}


@pytest.mark.parametrize("name", UNMARKED)
def test_a_request_that_marks_nothing(name: str, lint: Lint) -> None:
    n_found, files = UNMARKED[name]
    assert [one.code for one in lint(**{"app": "", **files})] == ["CKB01"] * n_found


# Prices
# ----------------------------------------------------------------------------------------------------------------------

PRICE = "import openai\nPRICE = 1.25\ndef cost({}):\n    return {} * PRICE\n"
BILLED = PRICE.format("usage", "usage.prompt_tokens")
COUNTED = PRICE.format("n", "n")
SHOW = "def show(reply):\n    print(cost({}))\n"
MAIN = "def main(client):\n    show(client.ask())\n"
PRICED: dict[str, tuple[int, str]] = {
    "read from a bill": (1, BILLED + SHOW.format("reply.usage")),
    "read by a caller": (1, COUNTED + SHOW.format("reply.usage.prompt_tokens") + MAIN),
    "of an estimate": (0, COUNTED + SHOW.format("len(reply) // 4") + MAIN),
}


@pytest.mark.parametrize("name", PRICED)
def test_input_tokens_that_are_priced(name: str, lint: Lint) -> None:
    n_found, text = PRICED[name]
    assert [one.code for one in lint(text)] == ["CKA03"] * n_found
