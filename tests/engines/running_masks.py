"""Tool masks on a running engine: does every reply keep to its mask, and does a mask move no cached token?

    python -m tests.engines.running_masks --write-model FOLDER
    python -m tests.engines.running_masks --engine vllm --base-url http://127.0.0.1:8000 [--requests 200] [--phases none,some]

The model is random (`tiny_gguf`, `tiny_hf`), with a bias towards the beginning and the end of a call: without a mask it
hardly ever writes a call that may be made. A trial is two turns of a conversation, each in a phase of its own. What the
second turn reads from the cache is compared with what it reads where the same messages are sent without the masks; the
two differ in the number they begin with, so neither reads what the other wrote.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from contextkit import Context, Phase, Phases
from contextkit.canonical import parse
from contextkit.engines.running import RUNNING
from contextkit.providers.call_formats import FORMATS, CallFormat
from contextkit.providers.openai_compatible import OpenAICompatible
from contextkit.tools.mask import Mask
from tests.engines.tiny_gguf import N_VOCABULARY
from tests.engines.tiny_hf import write_hf

FORM = FORMATS["hermes"]
SPECIAL = ("<tool_call>", "</tool_call>")
BEGINS_CALL, ENDS_REPLY = N_VOCABULARY - 2 - len(SPECIAL), N_VOCABULARY - 1
"""Token ids of the tiny models."""
TEMPLATE = """\
{%- for message in messages -%}
{{ '<' + message.role + '>\\n' + (message.content or '') }}
{%- if loop.first and tools %}
{%- for tool in tools %}{{ '\\n' + tool.function | tojson }}{% endfor %}
{{- '\\n<tool_call>\\n{"name": "…", "arguments": {…}}\\n</tool_call>' }}
{%- endif %}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|eos|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<assistant>\\n' }}{% endif -%}
"""
"""How the tiny models are shown a conversation: tools behind the system prompt, calls as Hermes writes them."""


def _tool(name: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"name": name, "description": name, "parameters": schema}


TOOLS = [
    _tool("browser_open", page={"enum": ["home", "news"]}),
    _tool("browser_close"),
    _tool("report_send", copies={"enum": [1, 2, 3]}),
]
"""Tools whose arguments end soon, whatever the model."""
MASKED: Mapping[str, Phase] = {
    "none": Phase([], by_hand=True),
    "any": Phase(require=True, by_hand=True),
    "one": Phase(["browser_open"], require=True, by_hand=True),
    "some_required": Phase(["browser_*"], require=True, by_hand=True),
    "some": Phase(["browser_*"], by_hand=True),
}
"""A phase for each kind of mask."""
PHASES = Phases({"free": Phase(), **MASKED}, "free")
MAX_REPLY_TOKENS = 160
WORDS = [
    "look",
    "at",
    "the",
    "page",
    "again",
    "then",
    "close",
    "what",
    "is",
    "open",
    "and",
    "read",
    "all",
    "of",
    "it",
    "twice",
]


@dataclass(frozen=True)
class Outcome:
    """What came of one trial."""

    mechanism: str
    """How the mask was sent."""
    violation: str | None
    """What the reply does that its mask forbids, None where it keeps to it."""
    n_malformed: int
    """Calls of the reply whose arguments are no JSON object."""
    is_cut: bool
    """Whether the reply was cut at `MAX_REPLY_TOKENS`."""
    cached_tokens: int | None
    """Tokens read from the cache under the masks."""
    cached_tokens_unmasked: int | None
    """The same without them."""
    first_turn_tokens: int
    """Tokens of the first turn's prompt: what the second can read."""
    unmasked_violation: str | None
    """What a reply to the second turn does without the mask."""


class MaskedEngine:
    """A server of a tiny model that is sent conversations with masks."""

    def __init__(self, engine: str, url: str) -> None:
        self.engine, self.url = engine, url.rstrip("/").removesuffix("/v1")
        self._provider = OpenAICompatible("tiny", host=engine)
        self.version = RUNNING[engine](self.url).configuration().version

    def turns(self, before: str, phase: str, number: int) -> tuple[Context, Any, Any]:
        """A conversation, and the requests of its two turns, in the phases `before` and `phase`; `number` is the seed."""
        draw, bias = random.Random(number), {BEGINS_CALL: 6, ENDS_REPLY: 6, ord('"'): 5, ord("}"): 5}
        if self.engine == "llamacpp":
            bias[ord("\n")] = 6  # its own grammar lets a call begin behind the marker and a line break
        provider = OpenAICompatible(
            "tiny",
            host=self.engine,
            call_format=FORM.name,
            max_tokens=MAX_REPLY_TOKENS,
            seed=number,
            logit_bias={str(token): weight for token, weight in bias.items()},
        )
        context = Context(provider, system=f"Conversation {2 * number:08}.", tools=TOOLS, phases=PHASES)
        context.enter(before)
        context.user(" ".join(draw.choices(WORDS, k=draw.randrange(2, 20))))
        first = context.request()
        context.receive({"choices": [{"message": {"role": "assistant", "content": "Well."}}]}, first)
        context.enter(phase)
        context.user(" ".join(draw.choices(WORDS, k=draw.randrange(2, 20))))
        return context, first, context.request()

    def trial(self, phase: str, number: int) -> Outcome:
        """Run two turns, the second in `phase`; `number` must be new to the server."""
        context, first, second = self.turns(random.Random(number).choice([*PHASES]), phase, number)
        usage, one_token = self._provider.usage, {self._provider.output_field: 1}
        warm = self.answered({**parse(first.body), **one_token})
        status, answer = self.post(parse(second.body))
        violation, n_malformed, is_cut, cached = f"status {status}: {answer}", 0, False, None
        if status == 200:
            is_cut = answer["choices"][0]["finish_reason"] == "length"
            violation, n_malformed = broken(answer, second.mask.mask), malformed(answer)
            cached = usage(answer).read
            context.receive(answer, second)
            calls = [call.name for call in context.calls]
            violation = violation or forbidden(calls, second.mask.mask, may_lack=is_cut)
        self.answered({**_unmasked(first, number), **one_token})
        plain = self.answered({**_unmasked(second, number), **one_token})
        status, free = self.post(_unmasked(second, number))
        return Outcome(
            second.mask.mechanism,
            violation,
            n_malformed,
            is_cut,
            cached,
            usage(plain).read,
            warm["usage"]["prompt_tokens"],
            broken(free, second.mask.mask) if status == 200 else f"status {status}",
        )

    def answered(self, body: Mapping[str, Any]) -> Any:
        """Send a body; raises `RuntimeError` where the server refuses it."""
        status, answer = self.post(body)
        if status != 200:
            raise RuntimeError(f"{self.url} answers {status}: {answer}")
        return answer

    def post(self, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Send a body; return the status, and the answer or the text of the refusal."""
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self.url}/v1/chat/completions", json.dumps(body).encode(), headers)
        try:
            with urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, error.read().decode("utf-8", "replace")


def _unmasked(request: Any, number: int) -> dict[str, Any]:
    """The same messages without what the mask adds, in a conversation of another number."""
    body = {name: value for name, value in parse(request.body).items() if name not in request.mask.fields}
    system, *others = body["messages"]
    return {**body, "messages": [{**system, "content": f"Conversation {2 * number + 1:08}."}, *others]}


def broken(answer: Mapping[str, Any], mask: Mask, form: CallFormat = FORM) -> str | None:
    """What a reply does that its mask forbids, read from the text and from the calls the engine parsed; None if nothing.

    Of a reply that was cut, what there is must be the beginning of one that keeps to the mask.
    """
    message, is_cut = answer["choices"][0]["message"], answer["choices"][0]["finish_reason"] == "length"
    names = [call["function"]["name"] for call in message.get("tool_calls") or []]
    beginnings = {f"{form.begin}{name}{form.middle}": name for name in mask.allowed}
    rest = "" if mask.is_all else message.get("content") or ""  # where every tool is allowed, markers are words
    while (at := rest.find(form.trigger)) >= 0:
        rest = rest[at:]
        whole = next((beginning for beginning in beginnings if rest.startswith(beginning)), None)
        if whole is None:
            is_begun = is_cut and any(beginning.startswith(rest) for beginning in beginnings)
            return None if is_begun else f"writes {rest[:60]!r}"
        names.append(beginnings[whole])
        rest = rest[len(whole) :]
        rest = rest[_object_length(rest) :]
    return forbidden(names, mask, may_lack=is_cut)


def malformed(answer: Mapping[str, Any]) -> int:
    """How many calls that the engine parsed have arguments that are no JSON object; 0 of a reply that was cut."""
    choice = answer["choices"][0]
    calls = [] if choice["finish_reason"] == "length" else choice["message"].get("tool_calls") or []
    return sum(not _object_length(call["function"]["arguments"]) for call in calls)


def forbidden(names: Sequence[str], mask: Mask, *, may_lack: bool) -> str | None:
    """What is wrong with the names a reply calls; `may_lack`: a call that is required may be missing."""
    if others := {*names} - {*mask.allowed}:
        return f"calls {', '.join(sorted(others))}"
    if not names and mask.mode in ("required", "specified") and not may_lack:
        return "calls nothing"
    return None


def _object_length(text: str) -> int:
    """Length of the JSON object a text begins with, 0 where it is none; all of the text where it is not finished."""
    if not text.lstrip().startswith("{"):
        return 0
    try:
        return json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))[1]
    except ValueError:
        return len(text)


def report(title: str, outcomes: Sequence[Outcome]) -> str:
    """One line: how many replies kept to the mask, and how many read the same from the cache with and without it."""
    n = len(outcomes)
    equal = sum(one.cached_tokens == one.cached_tokens_unmasked for one in outcomes)
    return (
        f"{title} {'/'.join(sorted({one.mechanism for one in outcomes}))}: "
        f"{sum(one.violation is None for one in outcomes)} of {n} obeyed ({sum(one.is_cut for one in outcomes)} cut, "
        f"{sum(one.n_malformed for one in outcomes)} calls without an object), "
        f"cached tokens equal {equal} of {n} ({sum(one.cached_tokens or 0 for one in outcomes)} of "
        f"{sum(one.first_turn_tokens for one in outcomes)} tokens of the turn before); "
        f"without the mask {sum(one.unmasked_violation is None for one in outcomes)} obeyed"
    )


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engines.running_masks")
    parser.add_argument("--write-model", type=Path, metavar="FOLDER", help="write the model, and end")
    parser.add_argument("--engine", choices=[*RUNNING])
    parser.add_argument("--base-url")
    parser.add_argument("--requests", type=int, default=200, help="for each kind of mask")
    parser.add_argument("--phases", default=",".join(MASKED))
    parser.add_argument("--first", type=int, default=0, help="number of the first conversation: new to the server")
    given = parser.parse_args([*arguments] if arguments is not None else None)
    if given.write_model:
        write_hf(given.write_model, special=SPECIAL, template=TEMPLATE)
        return 0
    server, n_wrong = MaskedEngine(given.engine, given.base_url), 0
    for index, phase in enumerate(given.phases.split(",")):
        first = given.first + index * given.requests
        outcomes = [server.trial(phase, first + number) for number in range(given.requests)]
        print(report(f"{given.engine} {server.version} {phase}", outcomes), flush=True)
        wrong = [one for one in outcomes if one.violation or one.cached_tokens != one.cached_tokens_unmasked]
        for one in wrong[:3]:
            print(f"    {one}"[:400])
        n_wrong += len(wrong)
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
