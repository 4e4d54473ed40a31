"""Layouts of blocks of numbers of a few bits, as in GGUF files.  Start reading at `KINDS`."""
from __future__ import annotations

from dataclasses import dataclass

from calque.core.errors import explain

GROUP = 32  # numbers that share a scale
ACTIVATIONS = ("float32", "int8")  # what a matrix of blocks is multiplied by
FEW_ROWS, LONGEST = 16, 1 << 15  # rows, and their numbers, that are rounded to int8


@dataclass(frozen=True, slots=True)
class Kind:
    """How many numbers a block holds, and in how many bytes."""

    numbers: int
    bytes: int


KINDS = {"q8_0": Kind(GROUP, 34), "q4_0": Kind(GROUP, 18), "q4_1": Kind(GROUP, 20),
         "q4_k": Kind(8 * GROUP, 144)}


def rounds(rows: int, numbers: int, activations: str) -> bool:
    """Whether a product of so many rows rounds them: it is faster for few rows only."""
    return activations == "int8" and rows <= FEW_ROWS and numbers <= LONGEST


def check_activations(name: str, activations: str) -> None:
    """Raise where it is no word of ACTIVATIONS."""
    if activations not in ACTIVATIONS:
        raise ValueError(explain(f"{name}: activations is {activations!r}.",
                                 fix=f"give one of {', '.join(ACTIVATIONS)}."))
