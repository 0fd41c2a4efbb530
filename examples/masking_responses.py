"""The same phases on OpenAI's Responses endpoint: `allowed_tools`, a parameter no cache looks at, so a change costs
nothing.
"""

from provider import SYSTEM, asks, openai_client, says

from contextkit import Context, OpenAIResponses, Phase, Phases, Tool

NAMES = ["browser_open", "browser_close", "notes_read", "report_draft", "report_send"]
DEFINITIONS = [{"name": name, "description": f"{name}.", "parameters": {"type": "object"}} for name in NAMES]
TOOLS = [Tool.raw(definition, run=lambda arguments: "done") for definition in DEFINITIONS]
PHASES = Phases(
    {
        "browse": Phase(allow=["browser_*", "notes_read"], require=True, then={"browser_close:ok": "report"}),
        "report": Phase(allow=["report_*"], then={"report_send": "browse"}),
    },
    start="browse",
)
REPLIES = [asks(("browser_close", {})), asks(("report_draft", {})), says("The draft is written.")]

context = Context(OpenAIResponses("gpt-6.1-sol", max_output_tokens=1024), system=SYSTEM * 2, tools=TOOLS, phases=PHASES)
context.user("Close the browser and draft the report.")
with openai_client(REPLIES) as client:
    while not context.finished:
        for call in context.calls:
            context.result(call, call.run())
        request = context.request()
        print(
            f"{context.phase}: {request.mask.mechanism}, {request.mask.cost_tokens} tokens; {request.params['tool_choice']}"
        )
        context.receive(request.send(client))

print(context.summary())
