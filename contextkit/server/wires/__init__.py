"""Answers in each provider's words: whole and as streams of events."""
