# SPDX-License-Identifier: Apache-2.0
"""Speed of the ops beside a device copy, PyTorch and NumPy, in one run: `python -m tools.bench --help`."""
