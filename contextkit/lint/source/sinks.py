"""Where a prompt begins: the calls, arguments, keys and names through which text, tools and parameters reach a model.

Takes nothing, gives tables; the walk reads them. A new framework is a row here, or in `[tool.contextkit.lint.sinks]` of
a project.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from contextkit.lint.source.rule import Sink


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


Arguments = Mapping[str | int, Sink]
"""Name or position of an argument → as what it arrives."""

_PARAMETERS: Final[Arguments] = {
    "model": "model",
    "reasoning_effort": "effort",
    "effort": "effort",
    "output_config": "effort",
    "reasoning": "effort",
    "thinking": "thinking",
    "tool_choice": "tool_choice",
    "parallel_tool_calls": "tool_choice",
    "response_format": "output",
    "response_model": "output",
    "response_schema": "output",
    "text_format": "output",
    "output_format": "output",
    "extra_headers": "headers",
    "betas": "headers",
    "service_tier": "headers",
    "speed": "headers",
    "chat_template_kwargs": "template",
    "stream": "stream",
    "prompt_cache_key": "cache_key",
    "cache_salt": "salt",
    "prompt_cache_retention": "ttl",
    "tools": "tools",
}
_CHAT: Final[Arguments] = {**_PARAMETERS}
_ANTHROPIC: Final[Arguments] = {**_PARAMETERS, "system": "system"}
_RESPONSES: Final[Arguments] = {**_PARAMETERS, "instructions": "system", "text": "output"}
_AGENT: Final[Arguments] = {
    "tools": "tools",
    "system_prompt": "system",
    "instructions": "system",
    "instruction": "system",
}

MODEL_CALLS: Final[dict[str, Arguments]] = {
    "messages.create": _ANTHROPIC,
    "messages.stream": _ANTHROPIC,
    "messages.parse": _ANTHROPIC,
    "messages.count_tokens": {},
    "messages.tool_runner": _ANTHROPIC,
    "completions.create": _CHAT,
    "completions.parse": _CHAT,
    "completions.stream": _CHAT,
    "chat.completions.create": _CHAT,
    "responses.create": _RESPONSES,
    "responses.parse": _RESPONSES,
    "responses.stream": _RESPONSES,
    "litellm.completion": _CHAT,
    "litellm.acompletion": _CHAT,
    "litellm.responses": _RESPONSES,
    "litellm.aresponses": _RESPONSES,
    "models.generate_content": {"model": "model"},
    "models.generate_content_stream": {"model": "model"},
    "ollama.chat": _CHAT,
    "cohere.chat": {**_CHAT, "preamble": "system"},
    "chat.complete": _CHAT,
    "bedrock.converse": {"system": "system"},
    "client.converse": {"system": "system"},
    "client.converse_stream": {"system": "system"},
    "chat.send": _CHAT,
}
"""End of a call's full name → what its arguments are. These call a model."""

RESOURCES: Final[frozenset[str]] = _words(
    "messages chat completions responses beta models aio with_raw_response with_streaming_response"
)
"""Attributes of a client through which its calls go."""
MODEL_METHODS: Final[frozenset[str]] = _words("""
    generate_content generate_content_async chat_completion acompletion create_message run_sync run_stream ainvoke invoke
    astream agenerate acomplete achat complete_chat call_llm call_model chat_complete query_model get_response generate_reply
    llm_call
""")
"""Last names of methods that call a model, for the question whether a function does."""

CONSTRUCTORS: Final[dict[str, Arguments]] = {
    "SystemMessage": {0: "system", "content": "system"},
    "SystemMessagePromptTemplate.from_template": {0: "system", "template": "system"},
    "SystemPromptPart": {0: "system", "content": "system"},
    "ChatPromptTemplate.from_messages": {},
    "create_agent": {**_AGENT, 1: "tools", "model": "model"},
    "create_react_agent": {1: "tools", "tools": "tools", "prompt": "system", "state_modifier": "system"},
    "create_deep_agent": {**_AGENT, 0: "tools"},
    "bind_tools": {0: "tools", "tools": "tools", "tool_choice": "tool_choice"},
    "with_structured_output": {0: "output", "schema": "output"},
    "Agent": {
        **_AGENT,
        "description": "system",
        "static_instruction": "system",
        "global_instruction": "system",
        "goal": "system",
        "backstory": "system",
    },
    "LlmAgent": {**_AGENT, "static_instruction": "system", "global_instruction": "system"},
    "AssistantAgent": {**_AGENT, "system_message": "system"},
    "ConversableAgent": {**_AGENT, "system_message": "system"},
    "ChatAgent": {"system_message": "system", 0: "system", "tools": "tools"},
    "CodeAgent": _AGENT,
    "ToolCallingAgent": _AGENT,
    "GenerateContentConfig": {
        "system_instruction": "system",
        "tools": "tools",
        "response_schema": "output",
        "thinking_config": "thinking",
    },
    "GenerativeModel": {"system_instruction": "system", "tools": "tools"},
    "with_instructions": {0: "system"},
    "Context": {"system": "system", "tools": "tools"},
    "Context.open": {"system": "system", "tools": "tools"},
    "ChatMessage.from_system": {0: "system", "text": "system"},
    "dspy.Signature": {1: "system", "instructions": "system"},
    "ChatCompletionSystemMessageParam": {"content": "system"},
    "ChatCompletionDeveloperMessageParam": {"content": "system"},
    "set_system_prompt": {-1: "system"},
    "set_system_message": {-1: "system"},
    "update_system_prompt": {-1: "system"},
    "update_system_message": {-1: "system"},
    "anthropic.Anthropic": {"default_headers": "headers"},
    "openai.OpenAI": {"default_headers": "headers"},
}
"""Last name (or last two) of a call → what its arguments are. These make an agent or a message; -1 is the last by
position."""
MAKERS: Final[frozenset[str]] = _words("""
    langchain langchain_core langchain_classic langgraph langgraph_prebuilt deepagents agents pydantic_ai pydantic_ai_harness google
    strands smolagents crewai autogen_agentchat autogen_core autogen camel haystack dspy llama_index agno phi litellm openai anthropic
    contextkit
""")
"""Packages that define classes of these names: a class of another tree that is called so may be a widget."""

TOOL_MAKERS: Final[re.Pattern[str]] = re.compile(
    r"^(?:\w*Tool|tool|function_tool|\w*ToolParam|FunctionDeclaration|ToolDefinition|FunctionDefinition|StructuredTool|from_function"
    r"|ToolSpec|beta_tool|FunctionTool)$"
)
"""Last name of a call that makes a tool definition."""
TOOL_ARGUMENTS: Final[Arguments] = {
    "description": "tool",
    "tool_description": "tool",
    "description_override": "tool",
    "args_schema": "schema",
    "input_schema": "schema",
    "inputSchema": "schema",
    "parameters": "schema",
    "params_json_schema": "schema",
    "parameters_json_schema": "schema",
}
"""What its arguments are."""

NAMES: Final[dict[str, Sink]] = {
    **dict.fromkeys(
        _words("""
    system_prompt system_message system_instruction system_instructions sys_prompt system_msg system_text systemPrompt
    system_content system_prompt_text base_system_prompt agent_system_prompt developer_message developer_prompt
    system_prompt_parts system_parts systemInstruction full_system_prompt agent_instructions system_blocks
"""),
        "system",
    ),
    "prompt_cache_key": "cache_key",
    "cache_salt": "salt",
    "chat_template_kwargs": "template",
}
"""Variables, attributes, keys and keyword arguments that are a prompt whoever reads them."""
KEYWORDS: Final[dict[str, Sink]] = {
    **NAMES,
    "instructions": "system",
    "tools": "tools",
    "tool_choice": "tool_choice",
    "reasoning_effort": "effort",
    "input_schema": "schema",
}
"""Keyword arguments of any call, and keys of a dict that also names a model or messages."""
VAGUE: Final[frozenset[str]] = frozenset({"instructions", "tools"})
"""Keywords that others use as well: a recipe has instructions, a report lists tools."""
TAKES_PROMPTS: Final[re.Pattern[str]] = re.compile(
    r"(?i)^(?!.*tool_?choice|.*tool$).*(?:agent|assistant|request|session|run|create|respon|realtime|model|param|llm|chat|thread|config|execut|complet|generat|invoke|stream|ask|bind)"
)
"""A call of such a name means a prompt by them."""
COUNTS: Final[re.Pattern[str]] = re.compile(r"breakdown|estimate|measure|count_|_tokens$")
"""A function of such a name makes a prompt to count it."""
STORES: Final[re.Pattern[str]] = re.compile(r"^_*a?(?:update|save|insert|upsert|store|record|log|persist|write|sync)_")
"""A call of such a name keeps it in a database."""
KEEPS: Final[re.Pattern[str]] = re.compile(r"^_?[A-Z]\w*(?:Settings|Preset|Config|Schema|Row|Record|Update|Form)$")
"""A class of such a name keeps what somebody set; what a model is sent is read from there."""
REQUEST_KEYS: Final[dict[str, Sink]] = {**KEYWORDS, **_PARAMETERS, "system": "system"}  # type: ignore[dict-item]
"""Keys of a dict that is a request: it has `model`, `messages`, `input` or `contents`."""
REQUEST_MARKS: Final[frozenset[str]] = frozenset({"messages", "input", "contents", "max_tokens"})
"""A dict with `model` and one of these is a request."""

CONVERSATION_ID: Final[re.Pattern[str]] = re.compile(
    r"(?:^|_)(?:session|conversation|thread|chat|dialog)_?(?:id|key|uuid)$", re.IGNORECASE
)
"""Names of the id of a conversation, which is what a cache key is to be made of."""

SYSTEM_ROLES: Final[frozenset[str]] = frozenset({"system", "developer"})
"""Values of `role`."""
SPEAKERS: Final[frozenset[object]] = SYSTEM_ROLES | {
    "user",
    "human",
    "assistant",
    "ai",
    "tool",
    "function",
    "model",
    "placeholder",
    "bot",
}
"""First items of the pairs that messages are written as."""
CONTENT_KEYS: Final[frozenset[str]] = frozenset({"content", "text", "parts"})
"""Where a message keeps its text."""
SCHEMA_KEYS: Final[frozenset[str]] = frozenset({"input_schema", "inputSchema", "parameters", "parametersJsonSchema"})
"""Where a tool definition keeps its schema."""
MARKER_KEYS: Final[frozenset[str]] = frozenset({"cache_control", "cachePoint", "prompt_cache_breakpoint"})
"""A block with one of these carries a marker."""

PROMPT_FUNCTION: Final[re.Pattern[str]] = re.compile(
    r"^_*(?!(?:add|append|insert|update|upsert|replace|set|apply|inject|strip|remove|drop|split|extract|pop|delete|clear|has|is|check"
    r"|validate|count|log|save|store|hash|find)_(?!\w+_(?:in)?to_))(?:a?(?:build|get|make|create|render|compose|format|generate|assemble|construct|load|prepare|compute|resolve|default|with|to)_+)?"
    r"(?:\w+_)?(?:system_(?:prompt|message|instructions?|text|blocks)|sys_prompt|instructions_prompt|agent_instructions)(?:_text|_string|_content)?$"
)
"""A function of this name gives back a system prompt; one that puts it somewhere or takes it out gives back what it was
done to."""
TOOLS_FUNCTION: Final[re.Pattern[str]] = re.compile(
    r"^_*(?:build|make|prepare|assemble|render|convert|format|to)_(?:\w+_)?(?:tools|tool_(?:definitions|schemas|params|specs|list)|tools_(?:param|list|schema))$"
    r"|^_*get_(?:openai_|anthropic_|all_|available_)?(?:tool_(?:definitions|schemas|params|specs)|tools_schema)$"
)
"""A function of this name gives back a request's tools."""
PROMPT_DECORATORS: Final[frozenset[str]] = frozenset({"system_prompt", "instructions", "dynamic_prompt"})
"""Last name of a decorator whose function gives back a system prompt, once for each run."""
TOOL_PROPERTIES: Final[dict[str, Sink]] = {
    "description": "tool",
    "tool_description": "tool",
    "input_schema": "schema",
    "args_schema": "schema",
}
"""A property or method of this name in a tool's class is a part of its definition."""

HISTORY: Final[re.Pattern[str]] = re.compile(
    r"^_*(?:chat_|conversation_|message_|full_|agent_|all_|new_|api_|openai_|anthropic_|llm_|formatted_|prior_|previous_|input_)?"
    r"(?:messages|history|msgs|conversation|transcript|dialogue|input_items)(?:_list|_history|_copy)?$"
)
"""A variable, attribute or key of this name is the running list of messages."""
RUNNING: Final[re.Pattern[str]] = re.compile(r"(?:^|_)(?:messages|history|transcript|conversation_log|chat_log|msgs)$")
"""What a function is given, or reads, that makes a request of a conversation."""
IN_FRONT: Final[frozenset[Sink]] = frozenset({"system", "front"})
"""What stands in front of the messages, and is written anew for a request: a function with such an arrival is asked for
the names above."""
SELDOM: Final[re.Pattern[str]] = re.compile(
    r"(?:^|_)(?:reload|refresh|resume|restore|switch|compact|reset|clear|init|setup|begin|start)(?:_|$)"
)
"""A function of such a name is not called for each request."""
TOOLS: Final[re.Pattern[str]] = re.compile(
    r"^_*(?:\w+_)?(?:tools|tool_definitions|tool_defs|tool_schemas|tool_specs|tool_list|tools_list|toolset|functions_schema|tool_params)$",
    re.IGNORECASE,
)
"""A variable, attribute or key of this name is a list of tools."""
REGISTRY: Final[re.Pattern[str]] = re.compile(
    r"(?:^|_)(?:tool_?)?(?:registry|toolbox)$|(?:^|_)tools?_(?:map|by_name|dict)$", re.IGNORECASE
)
"""A variable or attribute of this name holds tools by their names."""
PROMPT: Final[re.Pattern[str]] = re.compile(
    r"^_*(?:\w+_)?(?:system|sys)_?(?:prompt|message|instructions?|text|content|blocks|msg)\w*$|^instructions$|^system$"
)
"""A variable, attribute or key of this name is system text."""

PER_TURN: Final[re.Pattern[str]] = re.compile(
    r"^_*(?:a|async_)?(?:run|step|turn|chat|respond|reply|call|invoke|generate|complete|completion|handle|ask|send|answer|stream|execute|"
    r"request|query|create|predict|process|act|think|forward|on_message|__call__|loop|next|converse|(?:before|wrap|modify)_model)(?:_\w+)?$"
)
"""A function of this name is called for each turn."""
GROWS: Final[re.Pattern[bytes]] = re.compile(
    rb"\.(?:append|extend|add_\w*message\w*|add_user\w*)\(|messages\s*\+?=|history\s*\+?=|\binput\("
)
"""A loop whose body says this is a conversation: what was made before it is frozen for it."""
CONVERSES: Final[re.Pattern[bytes]] = re.compile(
    rb"(?:messages|msgs|history|conversation|transcript|contents|input_items)(?=\.(?:append|extend)\(|\s*\+=)"
    rb"|(?=\.add_(?:\w*message|user)\w*\()"
)
"""The end of what is added to, the messages themselves or what holds them: who does that and calls a model goes through
turns."""
TALKS: Final = (b"messages", b"msgs", b"history", b"conversation", b"transcript", b"contents", b"input_items", b".add_")
"""One of these stands in it, which is found sooner."""
