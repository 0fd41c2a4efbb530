"""The demonstration: one task, one scripted model, three ways to build the requests."""
