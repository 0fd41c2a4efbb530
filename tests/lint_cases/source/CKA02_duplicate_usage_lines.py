"""Usage of one response that is counted several times, and usage that is counted once."""


def total_by_block(responses):
    total = 0
    for response in responses:
        for block in response.content:
            if block.type == "text":
                total += response.usage.output_tokens  # expect: CKA02
    return total


class Counter:
    def __init__(self):
        self.input_tokens = 0

    def count(self, response):
        for choice in response.choices:
            self.input_tokens += response.usage.prompt_tokens  # expect: CKA02
            choice.show()


def billed(usage):
    return usage.prompt_tokens + usage.prompt_tokens_details.cached_tokens + usage.completion_tokens  # expect: CKA02


def billed_by_google(usage):
    return usage["promptTokenCount"] + usage.get("cachedContentTokenCount", 0)  # expect: CKA02


def calls_of(response, counts):
    for call in response.choices[0].message.tool_calls:
        counts["output"] += response.usage.completion_tokens  # expect: CKA02
        counts[call.function.name] = 1


def reads_once(lines):
    calls = {(line["requestId"], line["message"]["id"]): line["message"]["usage"] for line in lines if "requestId" in line}
    return sum(usage["cache_read_input_tokens"] for usage in calls.values())


def output_of_ledger(rows):
    return sum(row["usage"]["output_tokens"] for row in rows)


def once_each(lines):
    total, seen = 0, set()
    for line in lines:
        if line["message"]["id"] not in seen:
            total += line["message"]["usage"]["output_tokens"]
            seen.add(line["message"]["id"])
    return total


def total_of(responses):
    total = 0
    for response in responses:
        total += response.usage.output_tokens
        for block in response.content:
            print(block)
    return total


def parts_of(messages):
    total = 0
    for message in messages:
        for part in message.parts:
            total += part.usage.output_tokens
    return total


def billed_by_anthropic(usage):
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def uncached(usage):
    return usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens


def counted(calls):
    usage = {"input_tokens": 0, "output_tokens": 0}
    for response in calls:
        usage["input_tokens"] += response.usage.input_tokens
        usage["output_tokens"] += response.usage.output_tokens
    return usage


def billed_by_responses(usage):
    return usage.input_tokens + usage.input_tokens_details.cached_tokens  # expect: CKA02
