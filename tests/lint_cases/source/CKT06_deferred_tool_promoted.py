"""Tools that join the list when they are found, and tools that arrive in the messages."""


class Registry:
    def __init__(self, tools):
        self.tools = tools
        for tool in tools:
            tool["defer_loading"] = False

    def after_search(self, found):
        for name in found:
            self.tool_catalog.promote(name)  # expect: CKT06

    def use(self, tool):
        tool["defer_loading"] = False  # expect: CKT06
        return tool

    def take(self, tool):
        tool.pop("defer_loading", None)  # expect: CKT06
        return tool


def announce(found, messages):
    references = [{"type": "tool_reference", "tool_name": name} for name in found]
    messages.append({"role": "user", "content": references})


def promote(user, team):
    team.promote(user)


def show_in_full(tool):
    del tool["defer_loading"]  # expect: CKT06
    return tool


def without_flags(tools):
    copies = [dict(tool) for tool in tools]
    for copy in copies:
        if "defer_loading" in copy:
            del copy["defer_loading"]
    return copies


def show_found(tools, found):
    for tool in tools:
        if tool["name"] in found and "defer_loading" in tool:
            del tool["defer_loading"]  # expect: CKT06
