"""What the adapters of wires whose messages are lists of blocks named by a key (Bedrock Converse, Gemini) have in
common.
"""
