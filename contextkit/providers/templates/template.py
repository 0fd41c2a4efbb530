"""Renders a request body with a model's chat template, as `transformers` and vLLM do.

Takes Jinja text, a file of it or a `tokenizer_config.json`; gives the prompt a request body becomes. Templates are
untrusted programs: they run in Jinja's immutable sandbox, see plain JSON, and reach no file. Source: transformers
5.23 `utils/chat_template_utils.py`.

`template_messages` turns a `/chat/completions` body into messages, tools and variables in the forms that vLLM and `transformers` hand to
a template: the arguments of a call as an object, reasoning under every name templates read, content as one text where
the template takes no parts. Sources: vLLM 0.33 `vllm/renderers/chat_utils/chat_message.py`, transformers 5.23
`utils/chat_template_utils.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from contextkit.canonical import Json, parse
from contextkit.errors import MissingExtra, NotSerialisable, UnreadableRequest, UsageError

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Names under which a message's reasoning comes, and templates read it."""


def template_messages(body: Mapping[str, Json], takes_parts: bool, takes_text: bool) -> list[dict[str, Json]]:
    """The messages, ready for a template. Raises `UnreadableRequest` where there are none."""
    given = body.get("messages")
    if not isinstance(given, list) or not all(isinstance(message, dict) for message in given):
        raise UnreadableRequest(
            "messages", "Input should be an array of messages: a chat template renders /chat/completions bodies"
        )
    return [_message(message, takes_parts, takes_text) for message in given]


def variables(body: Mapping[str, Json]) -> dict[str, Json]:
    """What a template reads besides messages and tools: the caller's kwargs above the request's own fields."""
    effort, tools = body.get("reasoning_effort"), body.get("tools") or None
    implied: dict[str, Json] = (
        {} if effort is None else {"reasoning_effort": effort, "enable_thinking": effort != "none"}
    )
    chosen = {"tool_choice": body["tool_choice"]} if tools and body.get("tool_choice") is not None else {}
    return {
        "documents": body.get("documents"),
        "tools": tools,
        **implied,
        **chosen,
        **(body.get("chat_template_kwargs") or {}),
    }


def _message(message: Mapping[str, Json], takes_parts: bool, takes_text: bool) -> dict[str, Json]:
    said = {name: value for name, value in message.items() if value is not None and name not in REASONING}
    said["content"] = _content(message.get("content"), takes_parts, takes_text)
    thought = next((message[name] for name in REASONING if message.get(name) is not None), None)
    if thought is not None:
        said = {"thinking": thought, **said, "reasoning_content": thought, "reasoning": thought}
    calls = said.pop("tool_calls", None)
    return {**said, **({"tool_calls": [_call(call) for call in calls]} if calls else {})}


def _content(content: Json, takes_parts: bool, takes_text: bool) -> Json:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    is_text = len(texts) == len(parts)
    return parts if takes_parts and not (is_text and takes_text) else "\n".join(texts)


def _call(call: Mapping[str, Json]) -> Json:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return dict(call)
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(written: Json) -> Json:
    """An object; what is none is an empty one, as vLLM has it."""
    try:
        value = parse(written) if isinstance(written, str) and written else written
    except NotSerialisable:
        value = None
    return value if isinstance(value, dict) else {}


Encode = Callable[[str], Sequence[int]]
"""A text → its token ids, special tokens in it as one each; `tokenizer.encode` with `add_special_tokens=False`."""
_GIVEN = frozenset(
    {
        "messages",
        "tools",
        "documents",
        "add_generation_prompt",
        "strftime_now",
        "raise_exception",
        "bos_token",
        "eos_token",
        "pad_token",
        "unk_token",
        "continue_final_message",
        "image_token",
        "video_token",
        "audio_token",
    }
)
"""Variables that are no option of a template."""
_TAG = "\uf8ff"
"""Stands behind a message that is to be gone on with, until it is cut there."""
_PROBE = "probing words"


class Template:
    """A chat template, with the special tokens and the tokenizer of its model where they are given.

    >>> text = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    >>> template = Template(text)
    >>> template.render({"messages": [{"role": "user", "content": "Hi"}]})
    '<user>Hi<assistant>'
    """

    def __init__(self, source: str | Path, *, encode: Encode | None = None, **tokens: str) -> None:
        """`source` is Jinja text, or the path of a file of it or of a `tokenizer_config.json`.

        `tokens` are `bos_token` and the like.

        Raises `UsageError` where it is none of them, `MissingExtra` without Jinja.
        """
        text, found = (source, {}) if isinstance(source, str) and "{" in source else _read(Path(source))
        self.text = text
        self.tokens: Mapping[str, str] = {**found, **tokens}
        self.encode = encode
        self._compiled = _compiled(text)

    def with_text(self, text: str) -> Template:
        """The same with another text."""
        return Template(text, encode=self.encode, **self.tokens)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Variables it reads that `chat_template_kwargs` can set."""
        from jinja2 import meta

        environment = self._compiled.environment
        return tuple(
            sorted(meta.find_undeclared_variables(environment.parse(self.text)) - _GIVEN - environment.globals.keys())
        )

    def render(
        self,
        body: Mapping[str, Json],
        *,
        at: datetime | None = None,
        generation: bool | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> str:
        """The prompt that a `/chat/completions` body becomes at a moment (now without one).

        `generation`: whether the beginning of a reply stands last (None: as the body says); `options` go above the
        body's own kwargs. Raises `UsageError` where the template refuses the conversation, `UnreadableRequest` for a
        body of another endpoint.
        """
        messages = template_messages(body, *self._forms)
        is_continued = bool(body.get("continue_final_message"))
        if is_continued and messages and isinstance(messages[-1]["content"], str):
            messages[-1]["content"] += _TAG
        asked = body.get("add_generation_prompt", not is_continued) if generation is None else generation
        said = self._rendered(messages, {**variables(body), **(options or {}), "add_generation_prompt": asked}, at)
        return said[: said.rindex(_TAG)] if is_continued and _TAG in said else said

    def ids(self, body: Mapping[str, Json], *, at: datetime | None = None) -> Sequence[int]:
        """The token ids of a request. Raises `UsageError` without a tokenizer."""
        if self.encode is None:
            example = "lambda text: tokenizer.encode(text, add_special_tokens=False)"
            raise UsageError(f"this template has no tokenizer: Template(…, encode={example})")
        return self.encode(self.render(body, at=at))

    def n_tokens(self, body: Mapping[str, Json], *, at: datetime | None = None) -> int:
        """The size of a request's prompt in the model's own tokens."""
        return len(self.ids(body, at=at))

    @cached_property
    def _forms(self) -> tuple[bool, bool]:
        """Whether it takes content as parts, and as one text: found out by rendering both."""
        parts = [{"type": "text", "text": _PROBE}]
        return self._takes(parts) and not self._takes_repr(parts), self._takes(_PROBE)

    def _takes(self, content: Json) -> bool:
        try:
            return _PROBE in self._rendered(
                [{"role": "user", "content": content}], {"add_generation_prompt": False}, None
            )
        except UsageError:
            return False

    def _takes_repr(self, parts: Json) -> bool:
        """Whether parts are printed as they stand in Python or JSON."""
        said = self._rendered([{"role": "user", "content": parts}], {"add_generation_prompt": False}, None)
        return "'text'" in said or '"text"' in said

    def _rendered(self, messages: list[Any], given: Mapping[str, Json], at: datetime | None) -> str:
        from jinja2 import TemplateError

        moment = at or datetime.now(UTC)
        seen = {"tools": None, "documents": None, **self.tokens, **given, "strftime_now": moment.strftime}
        try:
            said: str = self._compiled.render(messages=messages, **seen)
        except (
            TemplateError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as fault:
            raise UsageError(f"the template refuses this conversation: {self._reason(fault)}") from fault
        return said

    def _reason(self, fault: Exception) -> str:
        """What the template itself says; other texts may quote the prompt."""
        said = str(fault)
        return said if said and said in self.text else type(fault).__name__


def _read(path: Path) -> tuple[str, dict[str, str]]:
    if not path.is_file():
        raise UsageError(f"{path} is no file: give a template's text, its .jinja file, or a tokenizer_config.json")
    try:
        text = path.read_text(encoding="utf-8")
        found = (text, {}) if path.suffix != ".json" else _configured(path, json.loads(text))
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no UTF-8 text: give a .jinja file, or a tokenizer_config.json") from None
    except json.JSONDecodeError as fault:
        raise UsageError(f"{path}: no JSON ({fault}): give a whole tokenizer_config.json") from None
    if not found[0].strip():
        raise UsageError(
            f"{path} holds an empty template, which prints no conversation: give the one the model was trained with"
        )
    return found


def _configured(path: Path, config: Any) -> tuple[str, dict[str, str]]:
    """The template and special tokens of a `tokenizer_config.json`, or of a `chat_template.json`."""
    named = config.get("chat_template") if isinstance(config, Mapping) else None
    if isinstance(named, list):  # several templates: the one for tools takes what the other takes
        by_name = {row["name"]: row["template"] for row in named}
        named = by_name.get("tool_use", by_name.get("default"))
    if not isinstance(named, str):
        raise UsageError(f"{path} holds no chat_template: newer models keep it in chat_template.jinja beside this file")
    tokens = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in config.items()
        if name.endswith("_token")
    }
    return named, {name: value for name, value in tokens.items() if isinstance(value, str)}


@lru_cache(maxsize=32)
def _compiled(text: str) -> Any:
    try:
        from jinja2 import TemplateError, nodes
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise MissingExtra("chat templates", "templates") from None

    class Generation(Extension):
        """`{% generation %}` marks what a model is trained on; in a prompt it is what stands inside."""

        tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)

    def refuse(said: str) -> None:
        raise TemplateError(said)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _as_json
    environment.globals["raise_exception"] = refuse
    try:
        return environment.from_string(text)
    except TemplateError as fault:
        raise UsageError(f"no Jinja template: {fault} (line {getattr(fault, 'lineno', '?')})") from None


def _as_json(
    value: Json,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
