"""60 tools or 6, the definitions never move: phases on Claude, told in a notice at the tail and refused at our side."""

from provider import SYSTEM, anthropic_client, asks, says

from contextkit import AnthropicMessages, Context, Phase, Phases, Tool

NAMES = ["browser_open", "browser_close", "notes_read", "report_draft", "report_send"]
DEFINITIONS = [{"name": name, "description": f"{name}.", "parameters": {"type": "object"}} for name in NAMES]
TOOLS = [Tool.raw(definition, run=lambda arguments: "done") for definition in DEFINITIONS]
PHASES = Phases(
    {
        "browse": Phase(allow=["browser_*", "notes_read"], then={"browser_close:ok": "report"}),
        "report": Phase(allow=["report_*"], then={"report_send": "browse"}),
    },
    start="browse",
)
REPLIES = [asks(("report_send", {}), ("browser_close", {})), asks(("report_draft", {})), says("The draft is written.")]

print(PHASES.mermaid())
context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system=SYSTEM, tools=TOOLS, phases=PHASES)
context.user("Close the browser and draft the report.")
with anthropic_client(REPLIES) as client:
    while not context.finished:
        for call in context.calls:  # a call outside the mask is answered already
            context.result(call, call.run())
        request = context.request()
        print(
            f"{context.phase}: {request.mask.mechanism}, {request.mask.cost_tokens} tokens; may call {', '.join(request.mask.allowed)}"
        )
        context.receive(request.send(client))

for entry in context.log:
    print(f"{entry.sequence} {entry.kind:<10} {entry.body.decode()[:110] if entry.kind in ('phase', 'result') else ''}")
print(context.summary())
