# SPDX-License-Identifier: Apache-2.0
"""What harness.fuzz draws calls from."""
