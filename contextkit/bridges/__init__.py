"""Bridges into the loops people already have: LangChain, pydantic-ai, the OpenAI Agents SDK, the Claude Agent SDK."""
