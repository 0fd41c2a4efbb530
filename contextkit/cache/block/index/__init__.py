"""What a pool of blocks is kept in: the queue of free ones (`free_queue`), and who serves which key (`by_chain`,
`by_key`).
"""
