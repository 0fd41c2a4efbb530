"""Results as they come, and in the order of their calls."""

import asyncio


async def run_tools(calls, messages):
    results = []
    for done in asyncio.as_completed([call.run() for call in calls]):  # expect: CKM11
        results.append(await done)
    messages.append({"role": "user", "content": results})


async def run_tools_in_order(calls, messages):
    results = []
    for done in asyncio.as_completed([call.run() for call in calls]):
        results.append(await done)
    results.sort(key=lambda result: [call.id for call in calls].index(result["tool_use_id"]))
    messages.append({"role": "user", "content": results})


async def fetch(pages):
    texts = []
    for done in asyncio.as_completed(pages):
        texts.append(await done)
    return texts
