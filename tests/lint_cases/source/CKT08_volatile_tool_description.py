"""Descriptions that hold a value, and descriptions that do not."""

import os
from datetime import date, datetime


def shell_tool():
    return {
        "name": "run_shell",
        "description": f"Run a command in {os.getcwd()}.",  # expect: CKT08
        "input_schema": {"type": "object"},
    }


def news_tool():
    today = date.today()  # expect: CKT08
    return {"name": "news", "description": "News up to " + str(today), "input_schema": {"type": "object"}}


def constant_tool(folder):
    log(os.getcwd(), date.today())
    return {"name": "run_shell", "description": "Run a command in the session's folder.", "input_schema": {"type": "object"}}


def documented(tool):
    tool.__doc__ = "Tells the time."
    return tool


def log(*values):
    print(*values)


def calendar_tool():
    start = {"type": "string", "description": f"ISO time; now is {datetime.now().isoformat()}"}  # expect: CKT08
    return {"name": "create_event", "description": "Creates an event.", "parameters": {"type": "object", "properties": {"start": start}}}


def calendar_call(call, calendar):
    started = datetime.now()
    calendar.create(**call.arguments)
    start = {"type": "string", "description": "ISO time; ask for the time where it is not known."}
    log(datetime.now() - started)
    return {"name": "create_event", "description": "Creates an event.", "parameters": {"type": "object", "properties": {"start": start}}}
