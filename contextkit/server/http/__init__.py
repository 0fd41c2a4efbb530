"""HTTP around the answers: the endpoints (`app`), what tests steer them with (`control`), a uvicorn that ends at once
(`listening`).
"""
