"""System prompt and tools of every conversation here; what another process opens a folder with."""

from __future__ import annotations

from contextkit import tool

SYSTEM = "You are a careful researcher; you say where a number comes from. " * 120
"""Long enough to be cached by every model used here."""


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def shout(text: str) -> str:
    """Say it louder; refuses to shout nothing."""
    if not text:
        raise ValueError("nothing to shout")
    return text.upper()


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


@tool
async def forecast(city: str, days: int = 1) -> str:
    """The weather to come."""
    return f"sun in {city} after {days}"
