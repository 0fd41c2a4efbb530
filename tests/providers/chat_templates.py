"""Small chat templates with the habits of real ones, and a conversation that meets each habit."""

from __future__ import annotations

from typing import Any

HEAD = "{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}</tools>\n{% endif %}"
CALLS = "{% for call in m.tool_calls or [] %}<call>{{ call.function.name }}{{ call.function.arguments | tojson }}</call>{% endfor %}"
LAST_USER = (
    "{% set ns = namespace(last=0) %}"
    "{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
)
THOUGHT = "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"


def chat(
    thought: str = THOUGHT,
    *,
    head: str = HEAD,
    content: str = "{{ m.content }}",
    opening: str = "<|assistant|>",
    before: str = "",
) -> str:
    """A template that writes messages one after another."""
    loop = f"{{% for m in messages %}}<|{{{{ m.role }}}}|>{thought}{content}{CALLS}<|end|>\n{{% endfor %}}"
    return f"{before}{head}{loop}{{% if add_generation_prompt %}}{opening}{{% endif %}}"


STABLE = chat()
DROPS = chat(LAST_USER + "{% if loop.index0 > ns.last or preserve_thinking %}" + THOUGHT + "{% endif %}")
"""As Qwen's: reasoning goes when a new user message comes, unless an option keeps it."""
DROPS_HARD = chat(LAST_USER + "{% if loop.index0 > ns.last %}" + THOUGHT + "{% endif %}")
"""The same without the option: only an edit helps."""
DATED = chat(before="Today: {{ date_string if date_string is defined else strftime_now('%d %b %Y') }}\n")
"""As Llama's: a date at the front, which an option fixes."""
DATED_HARD = chat(before="Today: {{ strftime_now('%d %b %Y') }}\n")
PRINTS_CHOICE = chat(before="{% if tool_choice %}Choice: {{ tool_choice }}\n{% endif %}")
"""As Kimi's newest."""
FLOATS = (
    "{% for m in messages %}{% if m.role == 'user' and loop.last %}" + HEAD + "{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""As Mistral's: tools stand before the last user message."""
OPENS = chat("", opening="<|assistant|><think>\n\n</think>\n\n")
"""As with thinking switched off: an empty thought opens the newest turn only."""
TRIMS = chat(content="{% if loop.last %}{{ m.content }}{% else %}{{ m.content | trim }}{% endif %}")
FAMILIES = {
    "stable": STABLE,
    "drops": DROPS,
    "drops_hard": DROPS_HARD,
    "dated": DATED,
    "dated_hard": DATED_HARD,
    "prints_choice": PRINTS_CHOICE,
    "floats": FLOATS,
    "opens": OPENS,
    "trims": TRIMS,
}

TOOL = {
    "type": "function",
    "function": {"name": "search", "description": "Search <the> web & more.", "parameters": {"type": "object"}},
}
OTHER = {"type": "function", "function": {"name": "fetch", "description": "Fetch.", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":"gpu é"}'}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are careful."},
    {"role": "user", "content": "Find it. "},
    {"role": "assistant", "content": None, "reasoning_content": "Let me look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "found & done"},
    {"role": "assistant", "content": "It is there.", "reasoning_content": "So I say it."},
    {"role": "user", "content": "Thanks"},
]
BODY = {"model": "m", "messages": MESSAGES, "tools": [TOOL, OTHER]}
