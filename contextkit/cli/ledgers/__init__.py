"""What `contextkit report` does with whole ledgers: write one out of any recordings, and have an engine add up those
larger than memory.
"""
