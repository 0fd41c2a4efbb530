"""Results as they come, and in the order of their calls."""

import asyncio
import concurrent.futures


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


async def run_tools_as_they_end(calls, history):
    parts, pending = [], [asyncio.create_task(run_tool(call)) for call in calls]
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)  # expect: CKM11
        for task in done:
            parts.append({"type": "tool_result", "tool_use_id": task.get_name(), "content": task.result()})
    history.append({"role": "user", "content": parts})


async def run_tools_in_order(calls, history):
    tasks = [asyncio.create_task(run_tool(call)) for call in calls]
    done, _ = await asyncio.wait(tasks)
    assert len(done) == len(tasks)
    parts = []
    for task in tasks:
        parts.append({"type": "tool_result", "content": task.result()})
    history.append({"role": "user", "content": parts})


async def run_tools_all(calls, history):
    () = await asyncio.wait([])
    done, _ = await asyncio.wait([asyncio.create_task(run_tool(call)) for call in calls])
    by_call = {}
    for task in done:
        by_call.setdefault(task.result()["id"], []).append(task.result())
    history.append({"role": "user", "content": [by_call[call.id] for call in calls]})


def answer_calls_in_threads(client, messages, calls, pool):
    futures = {pool.submit(call.run): call for call in calls}
    for future in concurrent.futures.as_completed(futures):  # expect: CKM11
        messages.append({"role": "tool", "tool_call_id": futures[future].id, "content": future.result()})
    return client.chat.completions.create(model="gpt-5", messages=messages)


class Runner:
    def __init__(self):
        self.messages = []

    async def run_tools(self, blocks):
        tasks = [asyncio.ensure_future(self.call(block)) for block in blocks]
        done, _ = await asyncio.wait(tasks)  # expect: CKM11
        content = [{"type": "tool_result", "tool_use_id": task.result()[0], "content": task.result()[1]} for task in done]
        self.messages.append({"role": "user", "content": content})

    async def call(self, block):
        return block.id, await block.run()


def answer_calls_by_number(messages, calls, pool):
    futures = {pool.submit(call.run): i for i, call in enumerate(calls)}
    texts = [""] * len(calls)
    for future in concurrent.futures.as_completed(futures):
        texts[futures[future]] = future.result()
    messages.extend({"role": "tool", "tool_call_id": call.id, "content": text} for call, text in zip(calls, texts, strict=True))
