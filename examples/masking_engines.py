"""The same phases on vLLM, SGLang and llama.cpp: the definitions stay, and a grammar of the engine keeps the model to the phase."""

from dataclasses import replace

import openai
from provider import SYSTEM, asks, says

from contextkit import Context, OpenAIChat, Phase, Phases, Tool
from contextkit.models import model_named, register
from contextkit.providers.masking.engines import ENGINES, engine_fields, engine_row, prefilled
from contextkit.providers.masking.formats import FORMATS, name_regex
from contextkit.server import LocalServer

NAMES = ["browser_open", "browser_close", "notes_read", "report_draft", "report_send"]
DEFINITIONS = [{"name": name, "description": f"{name}.", "parameters": {"type": "object"}} for name in NAMES]
TOOLS = [Tool.raw(definition, run=lambda arguments: "done") for definition in DEFINITIONS]
PHASES = Phases(
    {
        "browse": Phase(allow=["browser_*", "notes_read"], require=True, then={"browser_close:ok": "report"}),
        "report": Phase(allow=["report_*"], then={"report_draft": "done"}),
        "done": Phase(allow=[]),
    },
    start="browse",
)
REPLIES = [asks(("browser_close", {})), asks(("report_draft", {})), says("The draft is written.")]
MODEL, FORMAT = "Qwen/Qwen3-8B", FORMATS["qwen"]
register(replace(model_named("gpt-4o"), name=MODEL, provider="self-hosted"))

for engine in ENGINES:
    context = Context(OpenAIChat(MODEL, system_role="system"), system=SYSTEM, tools=TOOLS, phases=PHASES)
    context.user("Close the browser and draft the report.")
    print(f"\n{engine}: the local server checks requests as it does, and bills by its cache")
    with LocalServer(REPLIES, cache=engine) as server, openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        while not context.finished:
            mask = context.request().mask.mask
            allowed = [tool for tool in TOOLS if tool.name in mask.allowed]
            request = context.request(**engine_fields(engine, mask, allowed, FORMAT))
            reply = request.send(client)
            cached = reply.usage.prompt_tokens_details.cached_tokens
            print(f"  {context.phase}: {engine_row(engine, mask).mechanism}; {cached} of {reply.usage.prompt_tokens} tokens cached")
            context.receive(reply, request)
            for call in context.calls:
                context.result(call, call.run())

print("\nFor engines and parsers without structural tags, an expression; for all, the beginning of the call:")
print(name_regex(FORMAT, ["browser_open", "browser_close"]))
browsing = Context(OpenAIChat(MODEL), tools=TOOLS, phases=Phases({"browse": Phase(allow=["browser_*"], require=True)}, start="browse"))
browsing.user("Open the page.")
for name, form in FORMATS.items():
    message, fields = prefilled("vllm", browsing.request().mask.mask, form)
    print(f"{name}: the reply begins {message['content']!r}, with {fields}")
