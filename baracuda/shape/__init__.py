"""Plans of movers: what they compute is where an element goes."""
