"""Functions on arrays: which there are (spec), arrays of frameworks (arrays), problems (layouts), calls (dispatch)."""
