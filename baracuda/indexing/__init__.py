"""Indexing plans: gather, scatter, masked, and accumulate (scatter-add, index-add)."""
