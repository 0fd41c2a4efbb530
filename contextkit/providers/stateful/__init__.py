"""State on the server: requests that carry only what is new, the bodies of such requests put together again, reasoning
that leaves.
"""
