"""marker-lost-in-translation: an adapter or gateway rebuilds the blocks and leaves the markers out.

## What it does
Finds markers that were set and do not arrive: a layer turned a list of blocks into a plain string, copied only the fields it knows, or
did not recognise the model behind an ARN.

## Why it costs you
Without the marker nothing is written, so an explicit cache sees a prompt that is fresh every time, at ten to twenty times the price of
a read on Claude. The program's own code looks right; only the bytes on the wire show it. Reported for several gateways, for Bedrock
model ids that an adapter did not know, and for system messages in mid-conversation that were folded into text.

## Example
    def to_wire(block):
        return {"type": block["type"], "text": block["text"]}

## Use instead
Copy a block whole and change what must change. A request of contextkit is bytes already, and `request.send` hands them to the client
unaltered:

    def to_wire(block):
        return {**block, "type": WIRE_TYPES[block["type"]]}
    request = context.request()
    request.send(client)

## Detected by
- source: a function that rebuilds content blocks from fields it names, on the way to a call.
- requests: fewer markers on the wire than in the request recorded before the hop, or markers that vanish between two calls of one
  session.
- guard: markers that the call before carried and this one does not, before it is sent.
- provider: silent; reads and writes are 0.

## References
- https://github.com/maximhq/bifrost/issues/7360
- https://github.com/maximhq/bifrost/issues/6933
- https://github.com/strands-agents/harness-sdk/issues/2611
"""

from __future__ import annotations

from contextkit.lint.hazard import Hazard

HAZARD = Hazard("CKB10", "marker-lost-in-translation", "A", "error")
