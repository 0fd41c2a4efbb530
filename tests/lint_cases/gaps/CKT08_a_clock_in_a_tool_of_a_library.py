"""A clock in a tool of a library."""

from datetime import datetime

from langchain_core.tools import StructuredTool


def make(function):
    return StructuredTool.from_function(function, description=f"Was {datetime.now()}.")  # expect: CKT08
