"""Implements `contextkit template check`: whether a chat template keeps each prompt a prefix of the next.

An engine has cached, after a call, its prompt and what it generated: both are rendered and compared with the next
prompt, character by character. A cause is established by removing it: if two bodies without one difference agree for
longer, that difference was a cause; then the search goes on without it.

Input is a request body, a list of them, lines of either (a recorder's `{"request": …}` rows too), or the log of a
`Context`. A line that holds something else (a reply, an error) is skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path
from types import NoneType

import click

from contextkit.canonical import Json, parse
from contextkit.cli.terminal import for_programs
from contextkit.errors import NotSerialisable, UsageError
from contextkit.prompt.normal_form import normal
from contextkit.providers.chat_template import REASONING, Template
from contextkit.terminal import echo, echo_json

Body = Mapping[str, Json]
_BODY_FIELDS = ("request", "body", "request_body", "kwargs", "input")
"""Fields under which recorders store a body."""
_THOUGHT = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
_SNIPPET = 32
"""Characters printed of each side."""
_OPTION = "find an option of the template that prevents it (--set tries one), or edit the template"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two consecutive calls."""

    before: Body
    after: Body

    @property
    def answered(self) -> Body:
        """The earlier body with its reply, as the later one holds it."""
        messages, n = self.after["messages"], len(self.before["messages"])
        is_answered = len(messages) > n and messages[n].get("role") == "assistant"
        return {**self.before, "messages": [*self.before["messages"], messages[n]]} if is_answered else self.before

    @property
    def is_same_history(self) -> bool:
        """Return whether the later body begins with the messages of the earlier one."""
        n = len(self.before["messages"])
        return bool(normal(self.after["messages"][:n]) == normal(self.before["messages"]))

    def map_messages(self, change: Callable[[Mapping[str, Json]], Json]) -> Pair:
        """Change every message of both bodies; a None drops it."""
        before, after = (
            {**body, "messages": [new for message in body["messages"] if (new := change(message)) is not None]}
            for body in (self.before, self.after)
        )
        return Pair(before, after)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why two prompts diverge, and the pair of calls without it."""

    name: str
    why: str
    advice: str
    without: Callable[[Pair], Pair] = lambda pair: pair


def _equal_fields(*names: str) -> Callable[[Pair], Pair]:
    def equal(pair: Pair) -> Pair:
        rest = {name: value for name, value in pair.after.items() if name not in names}
        return replace(pair, after={**rest, **{name: pair.before[name] for name in names if name in pair.before}})

    return equal


def _same_history(pair: Pair) -> Pair:
    first = pair.before["messages"]
    return replace(pair, after={**pair.after, "messages": [*first, *pair.after["messages"][len(first) :]]})


def _without_thinking(message: Mapping[str, Json]) -> Json:
    rest = {name: value for name, value in message.items() if name not in REASONING}
    if message.get("role") == "assistant" and isinstance(text := rest.get("content"), str):
        rest["content"] = _THOUGHT.sub("", text)
    return rest


def _stripped(message: Mapping[str, Json]) -> Json:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": content.strip()}
    if isinstance(content, list):
        parts = [{**part, "text": part["text"].strip()} if part.get("text") else part for part in content]
        return {**message, "content": parts}
    return message


def _without_tools(pair: Pair) -> Pair:
    before, after = (
        {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
        for body in (pair.before, pair.after)
    )
    return Pair(before, after)


THINKING = Cause(
    "thinking",
    "reasoning of earlier turns leaves the prompt, or was not sent back",
    f"send reasoning back with the reply; if the template drops it, {_OPTION}",
    lambda pair: pair.map_messages(_without_thinking),
)
CAUSES: tuple[Cause, ...] = (
    Cause(
        "kwargs",
        "the request's own template variables changed between the calls",
        "keep chat_template_kwargs, reasoning_effort and documents the same for a whole conversation",
        _equal_fields("chat_template", "chat_template_kwargs", "reasoning_effort", "documents"),
    ),
    Cause(
        "tools",
        "the tools changed, or came in another order, and they are printed first",
        "send the same tools in the same order with every call; forbid some of them with phases",
        _equal_fields("tools"),
    ),
    Cause(
        "tool_choice",
        "the template prints tool_choice into the prompt, and it changed",
        "leave tool_choice as it is; phases with call_format=… constrain a model by a grammar instead",
        _equal_fields("tool_choice"),
    ),
    Cause(
        "history",
        "a message that was sent before was sent differently, or is missing",
        "send it unchanged: contextkit's log only grows",
        _same_history,
    ),
    THINKING,
    Cause(
        "whitespace",
        "white space around a message is trimmed in one place and not in another",
        "strip the text before it is sent",
        lambda pair: pair.map_messages(_stripped),
    ),
    Cause(
        "tools_float",
        "the tools are printed with the last user message and move on with it",
        _OPTION,
        _without_tools,
    ),
    Cause(
        "system_float",
        "the system message is printed with the last user message and moves on with it",
        _OPTION,
        lambda pair: pair.map_messages(
            lambda message: None if message.get("role") in ("system", "developer") else message
        ),
    ),
)
"""Removed in turn."""
GENERATION = Cause("generation_prompt", "the opening of a reply differs from the same reply in the history", _OPTION)
TEMPLATE = Cause("template", "the template prints a message differently once it is not among the last", _OPTION)
DATE = Cause("date", "the template prints the date, so the prompt changes from there on when the day does", _OPTION)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a prompt stops being a prefix of the next one."""

    was: str
    """The earlier prompt, or prompt and reply."""
    now: str
    offset: int
    """Characters that both share."""
    is_generation: bool = False
    """Whether only the opening of the reply differs."""
    reply_chars: int = 0
    """Characters of the reply after `was`, lost with it."""

    @property
    def lost(self) -> int:
        """Characters that are computed again."""
        return len(self.was) - self.offset + self.reply_chars

    @property
    def snippets(self) -> tuple[str, str]:
        """What follows the shared characters in each prompt."""
        end = self.offset + _SNIPPET
        return self.was[self.offset : end], self.now[self.offset : end]

    @property
    def place(self) -> list[str]:
        """The start of both snippets without white space: recognizes the same place in other prompts."""
        return ["".join(side.split())[:12] for side in self.snippets]


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, and where it shows first."""

    cause: str
    why: str
    calls: tuple[int, ...]
    """Calls whose prompt is not a prefix of the next, from 0; none for a change that is still to come."""
    offset: int
    """Characters of the first of these prompts that stay valid."""
    message: int
    """The last message that begins before `offset`; -1 for none."""
    lost_chars: int
    was: str
    now: str
    advice: str


def check_template(template: Template, bodies: Sequence[Body], at: datetime) -> list[Finding]:
    """Return what keeps the prompt of each call from being a prefix of the next; empty if all are.

    Raises `UsageError` if the template refuses them.
    """
    findings: dict[str, Finding] = {}
    for index, (before, after) in enumerate(pairwise(bodies)):
        pair = Pair(before, after)
        for cause, divergence in _causes(template, pair, at):
            old = findings.get(cause.name)
            calls = (*(old.calls if old else ()), index)
            new = old or _finding(cause, pair.answered, divergence)
            findings[cause.name] = replace(new, calls=tuple(dict.fromkeys(calls)))
    last = bodies[-1]
    today, tomorrow = (template.render(last, at=moment) for moment in (at, at + timedelta(days=1)))
    if divergence_of_days := _divergence(today, tomorrow):
        findings.setdefault("date", _finding(DATE, last, divergence_of_days))
    if "tool_choice" in template.options and last.get("tools"):
        prompts = [template.render({**last, "tool_choice": choice}, at=at) for choice in ("auto", "required")]
        if divergence_of_choices := _divergence(*prompts):
            choice = next(cause for cause in CAUSES if cause.name == "tool_choice")
            findings.setdefault("tool_choice", _finding(choice, last, divergence_of_choices))
    return list(findings.values())


def _causes(template: Template, pair: Pair, at: datetime) -> Iterator[tuple[Cause, Divergence]]:
    """Yield each cause of a pair with its divergence; each is removed before the next is looked for."""
    candidates = list(CAUSES)
    while divergence := _compare(template, pair, at):
        remaining = [
            (lost, index)
            for index, cause in enumerate(candidates)
            if (lost := _lost_without(cause, template, pair, at, divergence)) is not None
        ]
        if not remaining:
            around = slice(max(divergence.offset - 10, 0), divergence.offset + 10)
            is_thought = "think" in divergence.was[around].lower() and divergence.was[around] != divergence.now[around]
            if divergence.is_generation or not is_thought:
                yield GENERATION if divergence.is_generation else TEMPLATE, divergence
            elif THINKING in candidates:
                yield THINKING, divergence
            return
        cause = candidates.pop(min(remaining)[1])
        yield cause, divergence
        pair = cause.without(pair)


def _lost_without(cause: Cause, template: Template, pair: Pair, at: datetime, divergence: Divergence) -> int | None:
    """Return how many characters are lost without a cause, -1 for none; None if that changes nothing."""
    without = cause.without(pair)
    if without == pair or (cause is THINKING and not pair.is_same_history):
        return None
    try:
        other = _compare(template, without, at)
    except UsageError:
        return None
    if other is None:
        return -1
    return other.lost if other.lost <= divergence.lost and other.place != divergence.place else None


def _compare(template: Template, pair: Pair, at: datetime) -> Divergence | None:
    """Return where the later prompt leaves the earlier one or its reply; None if it continues both."""
    was, now = template.render(pair.before, at=at), template.render(pair.after, at=at)
    with_reply = was
    if pair.answered is not pair.before:
        with_reply = template.render(pair.answered, at=at, generation=False).rstrip()
    divergence = _divergence(was, now)
    if divergence is None:
        return _divergence(with_reply, now)
    closed = template.render(pair.before, at=at, generation=False)
    if len(closed) <= divergence.offset and was.startswith(closed):
        return replace(divergence, is_generation=True)
    return replace(divergence, reply_chars=max(len(with_reply) - len(was), 0))


def _divergence(was: str, now: str) -> Divergence | None:
    offset = len(commonprefix((was, now)))  # noqa: RUF071 - characters are what is compared
    return None if offset == len(was) else Divergence(was, now, offset)


def _finding(cause: Cause, body: Body, divergence: Divergence) -> Finding:
    """The finding of a cause in a body, of no calls yet."""
    place, message = 0, -1
    for index, row in enumerate(body["messages"]):
        content = row.get("content")
        texts = [content, *(row.get(name) for name in REASONING)]
        texts += [part.get("text") for part in content] if isinstance(content, list) else []
        texts += [(call.get("function") or {}).get("name") for call in row.get("tool_calls") or ()]
        starts = [divergence.was.find(text.strip(), place) for text in texts if isinstance(text, str) and text.strip()]
        start = min((start for start in starts if start >= 0), default=None)
        if start is None:
            continue
        if start > divergence.offset:
            break
        place, message = start, index
    was, now = divergence.snippets
    return Finding(cause.name, cause.why, (), divergence.offset, message, divergence.lost, was, now, cause.advice)


def calls_in(path: Path) -> list[Body]:
    """Return the bodies of a file, or of a folder that `Context.open` wrote; the first is cut at each reply.

    Raises `UsageError` if there is none with messages.
    """
    file = path / "log.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"{file} is no file: give a request body as JSON, lines of them, or the folder of a Context")
    values = list(_values(file.read_bytes(), file))
    is_log = values and isinstance(values[0], Mapping) and values[0].get("kind") == "opened" and "digest" in values[0]
    bodies = [_logged(file)] if is_log else [body for value in values if (body := _body(value)) is not None]
    if not bodies:
        raise UsageError(f"{file}: no /chat/completions body in it; each has messages")
    for number, body in enumerate(bodies, 1):
        _check_body(body, f"{file}, body {number}")
    messages = bodies[0]["messages"]
    replies = [index for index, message in enumerate(messages) if message.get("role") == "assistant" and index]
    return [*({**bodies[0], "messages": messages[:index]} for index in replies), *bodies]


def _values(raw: bytes, file: Path) -> Iterator[Json]:
    """Yield one JSON value, the items of a list, or the value on each line."""
    try:
        value = parse(raw)
    except NotSerialisable:
        for number, line in enumerate(filter(None, raw.splitlines()), 1):
            try:
                yield parse(line)
            except NotSerialisable as fault:
                raise UsageError(f"{file}, line {number}: no JSON ({fault})") from None
        return
    yield from value if isinstance(value, list) else [value]


def _body(value: Json) -> Body | None:
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("messages"), list) and value["messages"]:
        return value
    return next((body for name in _BODY_FIELDS if (body := _body(value.get(name))) is not None), None)


def _check_body(body: Body, where: str) -> None:
    """Raise `UsageError`, naming the place, for a value of another type than the endpoint takes."""
    for at, message in enumerate(body["messages"]):
        place = f"{where}: messages[{at}]"
        _check_type(place, message, dict)
        content = _check_type(f"{place}.content", message.get("content"), str, list, NoneType)
        for index, part in enumerate(content if isinstance(content, list) else ()):
            _check_type(f"{place}.content[{index}]", part, dict)
            _check_type(f"{place}.content[{index}].text", part.get("text"), str, NoneType)
        calls = _check_type(f"{place}.tool_calls", message.get("tool_calls"), list, NoneType)
        for index, call in enumerate(calls or ()):
            _check_type(f"{place}.tool_calls[{index}]", call, dict)
            _check_type(f"{place}.tool_calls[{index}].function", call.get("function"), dict, NoneType)
    _check_type(f"{where}: chat_template_kwargs", body.get("chat_template_kwargs"), dict, NoneType)
    tools = _check_type(f"{where}: tools", body.get("tools"), list, NoneType)
    for index, tool in enumerate(tools or ()):
        _check_type(f"{where}: tools[{index}]", tool, dict)


_TYPES: Mapping[type, str] = {dict: "an object", list: "a list", str: "text"}


def _check_type(place: str, value: Json, *kinds: type) -> Json:
    """Return the value; raises `UsageError` if it is of none of the types."""
    if not isinstance(value, kinds):
        text, names = json.dumps(value, ensure_ascii=False), [_TYPES[kind] for kind in kinds if kind is not NoneType]
        raise UsageError(f"{place} must be {' or '.join(names)}, not {text[:_SNIPPET]}")
    return value


def _logged(file: Path) -> Body:
    """Return the body that the conversation of a log would send next; the log is only read."""
    from contextkit.log.log import Log, Turns
    from contextkit.providers.openai_compatible import OpenAICompatible
    from contextkit.providers.rendering import PromptStore

    with Log.open(file) as log:
        provider = OpenAICompatible("any", host="vllm")
        body: Body = parse(PromptStore().layout(log, Turns.over(log), provider).body(b"{}"))
        return body


def _paragraph(finding: Finding) -> str:
    calls = ", ".join(map(str, finding.calls[:8])) + f" and {len(finding.calls) - 8} more" * (len(finding.calls) > 8)
    when = f"calls {calls}" if finding.calls else "not in these calls, but to come"
    where = "before the first message" if finding.message < 0 else f"at message {finding.message}"
    return (
        f"{finding.cause}: {finding.why}\n"
        f"  {when}: the prompt is valid up to character {finding.offset:,} ({where}); "
        f"{finding.lost_chars:,} characters after it are computed again\n"
        f"  was {finding.was!r}\n  now {finding.now!r}\n  do: {finding.advice}"
    )


@click.group("template")
def command() -> None:
    """Check what a model's own chat template makes of a conversation (extra `templates`).

    \b
    contextkit template check chat_template.jinja body.json
    """


@command.command("check")
@click.argument("template", type=click.Path(exists=True, dir_okay=False))
@click.argument("conversation", type=click.Path(exists=True))
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="NAME=JSON",
    help="A variable of the template; overrides those of the requests.",
)
@click.option("--now", type=click.DateTime(), help="The moment prompts are rendered at, for templates that print it.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def check(template: str, conversation: str, options: tuple[str, ...], now: datetime | None, as_json: bool) -> None:
    """Find where the prompts of a conversation stop being prefixes of the next, and why; exit with 1 where they do.

    TEMPLATE is a .jinja file or a tokenizer_config.json. CONVERSATION is a /chat/completions body, a list or lines of
    them in order, or the folder of a Context. One body alone is cut at each reply.

    \b
    contextkit template check chat_template.jinja body.json
    contextkit template check tokenizer_config.json requests.jsonl --set preserve_thinking=true
    """
    variables = dict(map(_option, options))
    bodies = [
        {**body, "chat_template_kwargs": {**(body.get("chat_template_kwargs") or {}), **variables}}
        for body in calls_in(Path(conversation))
    ]
    chat_template = Template(Path(template))
    findings = check_template(chat_template, bodies, now or datetime.now(UTC))
    if as_json:
        for_programs()
        rows = [asdict(finding) for finding in findings]
        echo_json(json.dumps({"calls": len(bodies), "is_stable": not findings, "findings": rows}, ensure_ascii=False))
    elif findings:
        echo("\n\n".join(map(_paragraph, findings)))
        if chat_template.options:
            echo(f"\noptions of this template: {', '.join(chat_template.options)}")
    else:
        echo(f"every prompt of {len(bodies)} calls is a prefix of the next")
    if findings:
        raise click.exceptions.Exit(1)


def _option(text: str) -> tuple[str, object]:
    """Split `NAME=JSON`; a value that is not JSON is text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text}: write NAME=JSON, as in preserve_thinking=true")
    try:
        return name, parse(value)
    except NotSerialisable:
        return name, value
