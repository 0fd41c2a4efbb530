"""The same phases on vLLM, SGLang and llama.cpp: the definitions stay, and a grammar of the engine keeps the model to
the phase.
"""

import openai
from provider import SYSTEM, asks, says

from contextkit import Context, Phase, Phases, Tool
from contextkit.providers.call_formats import FORMATS, name_regex
from contextkit.providers.engine_masks import ENGINES
from contextkit.providers.openai_compatible import OpenAICompatible
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

for engine in ENGINES:
    provider = OpenAICompatible("NousResearch/Hermes-3-Llama-3.1-8B", host=engine, call_format="hermes")
    context = Context(provider, system=SYSTEM, tools=TOOLS, phases=PHASES)
    context.user("Close the browser and draft the report.")
    print(f"\n{engine}: the local server checks requests as it does, and bills by its cache")
    with (
        LocalServer(REPLIES, cache=engine) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client,
    ):
        while not context.finished:
            for call in context.calls:
                context.result(call, call.run())
            request = context.request()
            reply = request.send(client)
            cached, mask = reply.usage.prompt_tokens_details.cached_tokens, request.mask
            print(
                f"  {context.phase}: {mask.mechanism}, held by the {mask.enforced_by}, {mask.cost_tokens} tokens;",
                end=" ",
            )
            print(f"{cached} of {reply.usage.prompt_tokens} tokens cached")
            context.receive(reply, request)

print(
    "\nFor engines and parsers without structural tags, an expression; the beginning of the call, as each host takes it:"
)
print(name_regex(FORMATS["hermes"], ["browser_open", "browser_close"]))
for host in ("vllm", "sglang", "llamacpp", "mistral"):
    print(
        host, *OpenAICompatible("a-model", host=host, prompt_cache_key="k").prefilled('<tool_call>\n{"name": "browser_')
    )
