# SPDX-License-Identifier: Apache-2.0
"""What attention needs: ALiBi, rotary position embedding, the KV cache."""
