"""Indexing: gather, scatter and masked, what chooses elements; accumulate, what adds to them."""
