# SPDX-License-Identifier: Apache-2.0
"""Plans of ops that copy elements to other coordinates: concat, flip, roll, permute, pad, repeat, slices, windows."""
