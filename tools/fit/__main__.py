# SPDX-License-Identifier: Apache-2.0
"""Prints the coefficients of the CPU's polynomials and their errors: python -m tools.fit [TEXT of a name or file]."""

import sys

import mpmath as mp

from tools.fit.polynomials import polynomials

for polynomial in polynomials():
    if all(text in f"{polynomial.file}: {polynomial.name}" for text in sys.argv[1:]):
        found = polynomial.fit()
        suffix, digits = ("f", 9) if polynomial.bits == 24 else ("", 17)
        print(f"{polynomial.file}: {polynomial.name}; 2^{float(mp.log(found.error, 2)):.1f}")
        print("   ", ", ".join(f"{float(c):.{digits}g}{suffix}" for c in found.coefficients))
