"""llama.cpp's slots: what one holds (`content`) and how much (`window`), saved states (`host`), who gets which
(`server`, `slot_cache`).
"""
