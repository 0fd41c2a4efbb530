"""Prompts that somebody already cut into blocks and hashed, and the engines that serve them."""
