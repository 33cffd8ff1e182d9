# SPDX-License-Identifier: Apache-2.0
"""Number formats and their exact arithmetic. The rounding rules are in docs/numerics.md."""
