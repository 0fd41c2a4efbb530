"""A usage copied by two of its fields."""


def as_dict(reply):
    return {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}  # expect: CKA03


def as_record(response, record):
    usage = response.usage
    return record.TokenUsage(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)  # expect: CKA03


def asked_for(response):
    usage = getattr(response, "usage", None)
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens} if usage else None  # expect: CKA03


def asked_of_settings(limits):
    usage = getattr(limits, "usage", None)
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens} if usage else None


def with_reads(reply):
    usage = reply.usage
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "read": getattr(usage, "cache_read_input_tokens", None),
    }


def with_raw(reply):
    usage = reply.usage
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "raw": usage}


def of_settings(limits):
    return {"input_tokens": limits.input_tokens, "output_tokens": limits.output_tokens}


def of_our_own(response):
    return {"prompt_tokens": response.usage.prompt_tokens, "completion_tokens": response.usage.completion_tokens, "cost": response.cost}


def of_a_dict_that_never_comes(response):
    if not isinstance(response, dict):
        return {}
    usage = response.get("usage", {})
    return {"prompt_tokens": usage.get("prompt_tokens", 0), "completion_tokens": usage.get("completion_tokens", 0)}


def text_of(response):
    return response.choices[0].message.content


def of_a_stream(response):
    counted = []
    try:
        counted.append({"prompt_tokens": response.usage.prompt_tokens, "completion_tokens": response.usage.completion_tokens})
    except AttributeError:
        for chunk in response:
            counted.append({"prompt_tokens": chunk.usage.prompt_tokens, "completion_tokens": chunk.usage.completion_tokens})  # expect: CKA03
    return counted
