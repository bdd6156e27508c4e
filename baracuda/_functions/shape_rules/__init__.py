# SPDX-License-Identifier: Apache-2.0
"""Shape inference: a rule for each family of functions, which gives the shapes of results and the scalars of C."""
