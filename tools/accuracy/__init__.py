"""How far the elementwise functions are from the true value: python -m tools.accuracy --help"""
