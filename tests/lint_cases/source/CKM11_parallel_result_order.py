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


async def run_side_by_side(tool_uses, tool_results):
    tasks = [asyncio.create_task(run_one(tool_use, tool_results)) for tool_use in tool_uses]  # expect: CKM11
    await asyncio.gather(*tasks)


async def run_each_into_its_own(tool_uses, tool_results):
    kept = [[] for _ in tool_uses]
    tasks = [asyncio.create_task(run_one(tool_use, kept[i])) for i, tool_use in enumerate(tool_uses)]
    await asyncio.gather(*tasks)
    for results in kept:
        tool_results.extend(results)


async def run_one(tool_use, results):
    results.append(await tool_use.run())
