"""Renders a request body with a model's chat template, as `transformers` and vLLM do (extra `templates`).

Templates are untrusted programs: they run in Jinja's immutable sandbox, get plain JSON, and reach no file. They receive
messages, tools and variables in the forms that vLLM and `transformers` give them: the arguments of a call as an object,
reasoning under every name templates read, content as one text where the template takes no parts. Sources: transformers
5.23 `chat_template_utils`, vLLM 0.33 `chat_utils`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from contextkit.canonical import Json, parse
from contextkit.errors import MissingExtra, NotSerialisable, UnreadableRequest, UsageError

REASONING = ("reasoning_content", "reasoning", "thinking")
"""Names under which a message's reasoning comes, and templates read it."""


def template_messages(body: Mapping[str, Json], takes_parts: bool, takes_text: bool) -> list[dict[str, Json]]:
    """Return the messages as a template takes them. Raises `UnreadableRequest` if the body has none."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise UnreadableRequest(
            "messages", "Input should be an array of messages: a chat template renders /chat/completions bodies"
        )
    return [_message(message, takes_parts, takes_text) for message in messages]


def variables(body: Mapping[str, Json]) -> dict[str, Json]:
    """Return the other variables of a template; `chat_template_kwargs` override the request's own fields."""
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
    result = {name: value for name, value in message.items() if value is not None and name not in REASONING}
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    is_text = len(texts) == len(parts)
    result["content"] = parts if takes_parts and not (is_text and takes_text) else "\n".join(texts)
    thought = next((message[name] for name in REASONING if message.get(name) is not None), None)
    if thought is not None:
        result = {"thinking": thought, **result, "reasoning_content": thought, "reasoning": thought}
    calls = result.pop("tool_calls", None)
    return {**result, **({"tool_calls": [_call(call) for call in calls]} if calls else {})}


def _call(call: Mapping[str, Json]) -> Json:
    """Return a call with its arguments as an object; an empty one for any other value, as vLLM does."""
    function = call.get("function")
    if not isinstance(function, Mapping):
        return dict(call)
    arguments = function.get("arguments")
    try:
        arguments = parse(arguments) if isinstance(arguments, str) and arguments else arguments
    except NotSerialisable:
        arguments = None
    return {**call, "function": {**function, "arguments": arguments if isinstance(arguments, dict) else {}}}


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
"""Variables that the caller or the renderer provides; no options of a template."""
_TAG = "\uf8ff"
"""Marks the end of a message that the model continues; the prompt is cut there."""
_PROBE = "probing words"


class Template:
    """A chat template with the special tokens of its model.

    >>> text = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
    >>> template = Template(text)
    >>> template.render({"messages": [{"role": "user", "content": "Hi"}]})
    '<user>Hi<assistant>'
    """

    def __init__(self, source: str | Path, **tokens: str) -> None:
        """Compile Jinja text, or the template in a `.jinja` file or a `tokenizer_config.json`.

        `tokens` are `bos_token` and the like. Raises `UsageError` for any other source, `MissingExtra` without Jinja.
        """
        text, from_file = (source, {}) if isinstance(source, str) and "{" in source else _read(Path(source))
        self.text = text
        self.tokens: Mapping[str, str] = {**from_file, **tokens}
        self._compiled = _compiled(text)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Variables of the template that `chat_template_kwargs` can set."""
        from jinja2 import meta

        environment = self._compiled.environment
        return tuple(
            sorted(meta.find_undeclared_variables(environment.parse(self.text)) - _GIVEN - environment.globals.keys())
        )

    def render(self, body: Mapping[str, Json], *, at: datetime | None = None, generation: bool | None = None) -> str:
        """Return the prompt that a `/chat/completions` body becomes at a moment (by default now).

        `generation`: whether the prompt ends with the opening of a reply (None: as the body asks). Raises `UsageError`
        if the template refuses the conversation, `UnreadableRequest` for a body of another endpoint.
        """
        messages = template_messages(body, *self._forms)
        is_continued = bool(body.get("continue_final_message"))
        if is_continued and messages and isinstance(messages[-1]["content"], str):
            messages[-1]["content"] += _TAG
        opens_reply = body.get("add_generation_prompt", not is_continued) if generation is None else generation
        prompt = self._rendered(messages, {**variables(body), "add_generation_prompt": opens_reply}, at)
        return prompt[: prompt.rindex(_TAG)] if is_continued and _TAG in prompt else prompt

    @cached_property
    def _forms(self) -> tuple[bool, bool]:
        """Return whether the template takes content as parts, and as one text: both are rendered to see."""
        parts = self._probed([{"type": "text", "text": _PROBE}])
        is_printed = "'text'" in parts or '"text"' in parts  # as Python or JSON values
        return _PROBE in parts and not is_printed, _PROBE in self._probed(_PROBE)

    def _probed(self, content: Json) -> str:
        """Render one message with this content; empty where the template refuses it."""
        try:
            return self._rendered([{"role": "user", "content": content}], {"add_generation_prompt": False}, None)
        except UsageError:
            return ""

    def _rendered(self, messages: list[Any], values: Mapping[str, Json], at: datetime | None) -> str:
        from jinja2 import TemplateError

        moment = at or datetime.now(UTC)
        variables = {"tools": None, "documents": None, **self.tokens, **values, "strftime_now": moment.strftime}
        try:
            prompt: str = self._compiled.render(messages=messages, **variables)
        except (
            TemplateError,
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as fault:
            reason = str(fault)
            if not reason or reason not in self.text:  # any other text than the template's own may quote the prompt
                reason = type(fault).__name__
            raise UsageError(f"the template refuses this conversation: {reason}") from fault
        return prompt


def _read(path: Path) -> tuple[str, dict[str, str]]:
    if not path.is_file():
        raise UsageError(f"{path} is no file: give a template's text, its .jinja file, or a tokenizer_config.json")
    try:
        text = path.read_text(encoding="utf-8")
        template = (text, {}) if path.suffix != ".json" else _configured(path, json.loads(text))
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no UTF-8 text: give a .jinja file, or a tokenizer_config.json") from None
    except json.JSONDecodeError as fault:
        raise UsageError(f"{path}: no JSON ({fault}): give a whole tokenizer_config.json") from None
    if not template[0].strip():
        raise UsageError(
            f"{path} holds an empty template, which prints no conversation: give the one the model was trained with"
        )
    return template


def _configured(path: Path, config: Any) -> tuple[str, dict[str, str]]:
    """Return template and special tokens of a `tokenizer_config.json` or `chat_template.json`."""
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
        """Tag `{% generation %}`: marks training text; a prompt holds its content."""

        tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)

    def refuse(reason: str) -> None:
        raise TemplateError(reason)

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
