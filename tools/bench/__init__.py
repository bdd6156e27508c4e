# SPDX-License-Identifier: Apache-2.0
"""Speed of the ops against a device copy, PyTorch and NumPy, in one run: `python -m tools.bench --help`."""
