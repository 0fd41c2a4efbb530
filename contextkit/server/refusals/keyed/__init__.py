"""What Bedrock Converse and Gemini refuse: shapes as their SDKs describe them, and the order of a conversation."""
