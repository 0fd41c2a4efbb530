"""Definitions made anew when a connection comes back, and definitions that are kept."""


class Registry:
    def __init__(self, server):
        self.server = server
        self.tools = []

    async def on_tool_list_changed(self):
        self.tools = [render(tool) for tool in await self.server.describe()]  # expect: CKT10

    async def reconnect(self):
        await self.server.connect()
        self.tools = await self.load()  # expect: CKT10

    async def load(self):
        return [render(tool) for tool in await self.server.describe()]


class Kept:
    def __init__(self, server, tools):
        self.server = server
        self.tools = tools

    async def reconnect(self):
        await self.server.connect()
        tools = self.tools
        self.tools = tools


def render(tool):
    return {"name": tool.name, "description": tool.text, "input_schema": tool.schema}
