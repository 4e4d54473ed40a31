"""Layouts of blocks of numbers of a few bits, as in GGUF files.  Start reading at `KINDS`."""
from __future__ import annotations

from dataclasses import dataclass

GROUP = 32  # numbers that share a scale


@dataclass(frozen=True, slots=True)
class Kind:
    """How many numbers a block holds, and in how many bytes."""

    numbers: int
    bytes: int


KINDS = {"q8_0": Kind(GROUP, 34), "q4_0": Kind(GROUP, 18), "q4_1": Kind(GROUP, 20),
         "q4_k": Kind(8 * GROUP, 144)}
