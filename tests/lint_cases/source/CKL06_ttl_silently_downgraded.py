"""A lifetime that a switch decides."""

import os


def marker(flags):
    ttl = "1h" if flags.get("long_cache") else "5m"  # expect: CKL06
    return {"type": "ephemeral", "ttl": ttl}


def marker_without_telemetry():
    return {"type": "ephemeral", "ttl": "5m" if os.environ.get("DISABLE_TELEMETRY") else "1h"}  # expect: CKL06


def marker_for_long():
    return {"type": "ephemeral", "ttl": "1h"}


def marker_of_head(is_head):
    return {"type": "ephemeral", "ttl": "1h" if is_head else "5m"}


def entry(flags):
    return {"type": "record", "ttl": 300 if flags.short else 3600}


def marker_of_plan(user):
    marker = {"type": "ephemeral"}
    if user.plan == "pro":
        marker["ttl"] = "1h"  # expect: CKL06
    return marker


def marker_of_place(block, is_head):
    marker = {"type": "ephemeral"}
    if is_head and block["type"] == "text":
        marker["ttl"] = "1h"
    return marker
