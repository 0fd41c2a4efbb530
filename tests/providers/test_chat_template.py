"""A chat template is rendered as `transformers` renders it, and sees what vLLM shows it."""

from __future__ import annotations

import importlib.util
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from contextkit.errors import UnreadableRequest, UsageError

pytest.importorskip("jinja2", reason="chat templates need the extra `templates`")

from contextkit.providers.chat_template import Template, template_messages, variables
from tests.providers.chat_templates import BODY, FAMILIES, MESSAGES, TOOL

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
ODDITIES = {
    "json": "{{ messages | tojson }}|{{ tools | tojson(indent=2) }}|{{ messages[0] | tojson(separators=(',', ':')) }}|{{ 1.5 | tojson }}",
    "loop controls": "{% for m in messages %}{% if loop.index0 == 1 %}{% continue %}{% endif %}"
    "{% if loop.index0 == 3 %}{% break %}{% endif %}{{ m.role }},{% endfor %}",
    "generation": "{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}\n{% endfor %}",
    "blocks and blanks": "  {% for m in messages %}\n    {{ m.role }}\n  {% endfor %}\n{%- if tools %}  x{% endif -%}\n  y",
    "names": "{{ bos_token }}{% for m in messages %}{{ m['role'] }}:{{ m.get('reasoning') }}:{{ m.thinking }};{% endfor %}{{ eos_token }}",
    "namespace": "{% set ns = namespace(n=0, d=dict(a=1)) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n, ns.d.a }}",
    "refuses": "{{ raise_exception('Conversation roles must alternate') }}",
}
ALL = {**FAMILIES, **ODDITIES}


def of(text: str) -> Template:
    return Template(text, **TOKENS)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("generation", [True, False])
def test_it_renders_as_transformers_does(name: str, generation: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    oracle = pytest.importorskip(
        "transformers.utils.chat_template_utils", reason="the oracle is the package transformers: not installed"
    )

    class Noon(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Noon:
            return cls(2026, 11, 20, 12)

    monkeypatch.setattr(oracle, "datetime", Noon)
    template, seen = of(ALL[name]), template_messages(BODY, takes_parts=False, takes_text=True)
    try:
        given = {"tools": BODY["tools"], "chat_template": ALL[name], "add_generation_prompt": generation}
        (expected,), _ = oracle.render_jinja_template([seen], **given, **TOKENS)
    except Exception:  # noqa: BLE001 - whatever it raises, ours refuses too
        with pytest.raises(UsageError):
            template.render(BODY, at=NOON, generation=generation)
    else:
        assert template.render(BODY, at=NOON, generation=generation) == expected


@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="the oracle is the package transformers: not installed"
)
@pytest.mark.skipif(
    "CONTEXTKIT_TEMPLATES" not in os.environ, reason="CONTEXTKIT_TEMPLATES, a folder of models' own templates: not set"
)
def test_templates_of_models_are_rendered_as_transformers_does() -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    for path in sorted(Path(os.environ["CONTEXTKIT_TEMPLATES"]).glob("*.jinja")):
        text, seen = path.read_text(encoding="utf-8"), template_messages(BODY, takes_parts=False, takes_text=True)
        template = of(text)
        template.__dict__["_forms"] = (False, True)  # the oracle is handed texts
        if "strftime_now" not in text:
            try:
                (expected,), _ = render_jinja_template([seen], tools=[TOOL], chat_template=text, **TOKENS)
            except Exception:  # noqa: BLE001 - a template that refuses this conversation
                with pytest.raises(UsageError):
                    template.render({**BODY, "tools": [TOOL]}, generation=False)
            else:
                assert template.render({**BODY, "tools": [TOOL]}, generation=False) == expected, path.name


def test_what_a_template_sees_is_what_vllm_shows_it() -> None:
    seen = template_messages(BODY, takes_parts=False, takes_text=True)
    assert seen[2]["content"] == "" and seen[2]["tool_calls"][0]["function"]["arguments"] == {"q": "gpu é"}
    assert {seen[2][name] for name in ("reasoning", "reasoning_content", "thinking")} == {"Let me look."}
    assert MESSAGES[2]["tool_calls"][0]["function"]["arguments"] == '{"q":"gpu é"}', "the body is left as it was"
    written = ("{torn", "[1]", "", None)
    torn = [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": text}}]} for text in written]
    assert [
        row["tool_calls"][0]["function"]["arguments"] for row in template_messages({"messages": torn}, False, True)
    ] == [{}] * 4
    said = variables({**BODY, "reasoning_effort": "none", "tool_choice": "auto", "chat_template_kwargs": {"a": 1}})
    assert (said["enable_thinking"], said["reasoning_effort"], said["tool_choice"], said["a"]) == (
        False,
        "none",
        "auto",
        1,
    )
    assert "tool_choice" not in variables({"messages": [], "tool_choice": "auto"}), (
        "without tools there is nothing to choose"
    )


def test_content_comes_in_the_form_a_template_takes() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}},
        {"type": "text", "text": "b"},
    ]
    body = {"messages": [{"role": "user", "content": parts}]}
    each = "{% for part in m.content %}[{{ part.text if part.type == 'text' else part.type }}]{% endfor %}"
    looping = "{% for m in messages %}" + each + "{% endfor %}"
    assert Template("{% for m in messages %}{{ m.content }}{% endfor %}").render(body) == "a\nb"
    assert Template(looping).render(body) == "[a][image_url][b]"
    assert Template(looping).render({"messages": [{"role": "user", "content": "a"}]}) == "[a]"


def test_a_reply_that_was_begun_is_gone_on_with() -> None:
    body = {**BODY, "messages": [*MESSAGES, {"role": "assistant", "content": "Go"}], "continue_final_message": True}
    assert of(FAMILIES["stable"]).render(body).endswith("<|user|>Thanks<|end|>\n<|assistant|>Go")


def test_it_is_read_from_the_files_models_come_with(tmp_path: Path) -> None:
    plain, config, named, empty = (
        tmp_path / name for name in ("chat.jinja", "tokenizer_config.json", "named.json", "empty.json")
    )
    plain.write_text("{{ messages[0].content }}", encoding="utf-8")
    config.write_text(
        json.dumps({"chat_template": "{{ bos_token }}", "bos_token": {"content": "<b>"}, "add_bos_token": True})
    )
    rows = [{"name": "default", "template": "plain {{ 1 }}"}, {"name": "tool_use", "template": "tools {{ 1 }}"}]
    named.write_text(json.dumps({"chat_template": rows}))
    empty.write_text("{}")
    assert [Template(path).render(BODY) for path in (plain, str(plain), config, named)] == ["You are careful."] * 2 + [
        "<b>",
        "tools 1",
    ]
    for source, says in (
        (empty, "holds no chat_template"),
        (tmp_path / "none.jinja", "is no file"),
        ("{% if %}", "no Jinja template"),
    ):
        with pytest.raises(UsageError, match=says):
            Template(source)


def test_a_template_reaches_nothing_and_its_refusal_quotes_nobody() -> None:
    for text in ("{{ messages.append(1) }}", "{{ cycler.__init__.__globals__.os }}", "{{ messages[9].content.x }}"):
        with pytest.raises(UsageError, match="refuses this conversation"):
            Template(text).render(BODY)
    with pytest.raises(UsageError) as caught:
        Template("{{ raise_exception('Role ' ~ messages[1].content) }}").render(BODY)
    assert "Find it" not in str(caught.value)
    with pytest.raises(UsageError, match="Only users"):
        Template("{{ raise_exception('Only users') }}").render(BODY)
    with pytest.raises(UnreadableRequest):
        Template("{{ messages }}").render({"input": "Go."})
