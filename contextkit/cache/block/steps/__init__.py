"""What passes between the steps of the engine (`shapes`), and the groups that keep a state instead of tokens
(`recurrent`).
"""
