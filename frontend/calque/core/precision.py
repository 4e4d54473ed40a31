"""How exactly float32 operands of products are multiplied, a parameter of dot_general.

Public as calque.lax.Precision.  GPUs have units that round operands to 11 bits (TF32); what solves
equations or decomposes asks for `EXACT`, whatever the user's products are.
"""
from __future__ import annotations

import enum
from typing import Any


class Precision(enum.Enum):
    """How exactly float32 operands are multiplied; the CPU always multiplies them exactly,
    CUDA by TF32 (DEFAULT), three TF32s (HIGH) or exactly (HIGHEST).

    Example:
      >>> from calque import lax
      >>> lax.Precision("high")
      Precision.HIGH
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return _PRECISIONS.get(value) if isinstance(value, (str, type(None))) else None

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    __str__ = __repr__


_PRECISIONS: dict[Any, Precision] = {
    **dict.fromkeys((None, "default", "fastest", "bfloat16", "BF16_BF16_F32"), Precision.DEFAULT),
    **dict.fromkeys(("high", "bfloat16_3x", "tensorfloat32", "TF32_TF32_F32"), Precision.HIGH),
    **dict.fromkeys(("highest", "float32", "F32_F32_F32"), Precision.HIGHEST)}
EXACT = (Precision.HIGHEST, Precision.HIGHEST)
