"""Bridges into existing agent loops: LangChain, pydantic-ai, the OpenAI Agents SDK, LiteLLM, the Claude Agent SDK, and any
client of anthropic's or openai's SDK.
"""
