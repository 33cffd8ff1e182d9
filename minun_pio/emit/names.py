# SPDX-License-Identifier: Apache-2.0
"""Names of networks' tensors as C++ identifiers."""

from __future__ import annotations

import re

from minun_pio.config.names import why_not
from minun_pio.errors import MinunError

_KEYWORD_TEXT = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
explicit export extern false float for friend goto if inline int long main minun mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
return short signed sizeof static static_assert static_cast std struct switch template this
thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
wchar_t while xor xor_eq
"""
_KEYWORDS = frozenset(_KEYWORD_TEXT.split())


def check_model_name(name: str) -> None:
    """A model's name is a namespace and a file name. Raises MinunError when it cannot be."""
    reason = why_not(name)
    if reason:
        raise MinunError("emit.model-name", f"the model's name is '{name}', {reason}")


class Identifiers:
    """Gives each tensor one identifier, unlike all others given before."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._taken = set(taken) | _KEYWORDS

    def constant(self, name: str) -> str:
        """`fc1.weight` -> `kFc1Weight`."""
        words = [w for w in re.split(r"[^A-Za-z0-9]+", name) if w]
        return self._unique("k" + "".join(w[0].upper() + w[1:] for w in words)[:48])

    def member(self, name: str) -> str:
        """`input.1` -> `input_1`."""
        text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "tensor"
        return self._unique((text if not text[0].isdigit() else f"t{text}")[:48].rstrip("_"))

    def _unique(self, text: str) -> str:
        found, k = text, 2
        while found in self._taken:
            found, k = f"{text}_{k}", k + 1
        self._taken.add(found)
        return found
