"""What hosts of a language model's artifact share: prompts in the pieces that there are programs
for, and how each of a session's sequences is sampled.

The artifact is that of `calque.models.Llama`: functions `prefill`, `decode` and `clear`, and
leaves of the state such as `lengths` and `logits`.  Start reading at `pieces`.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calque.runtime.aot import Artifact
from calque.runtime.session import INITIAL_STATE, Session

Array = np.ndarray[Any, Any]
_LEAVES = {"lengths", "last", "logits", "temperature", "top_k", "top_p", "seed", "capacity", "stop"}


def is_language_model(artifact: Artifact) -> bool:
    """Whether an artifact has the functions and the state of a language model."""
    functions = artifact.functions
    initial = functions.get(INITIAL_STATE)
    return ({"prefill", "decode", "clear"} <= functions.keys() and initial is not None
            and initial.state is not None and {*initial.state.results.values()} >= _LEAVES)


def chunk_sizes(artifact: Artifact) -> list[int]:
    """How many tokens the programs of prefill take, smallest first."""
    return sorted(int(str(a.shape[0])) for f in artifact.every if f.record.name == "prefill"
                  for a in f.record.args if a.path == "tokens")


def pieces(prompt: Sequence[int] | Array, sizes: Sequence[int]) -> Iterator[tuple[Array, int]]:
    """A prompt in pieces of the sizes that there are programs for.

    Args:
      prompt: tokens.
      sizes: smallest first.

    Returns:
      An iterator of (int32[size], how many of them count).

    Example:
      >>> from calque.runtime.generation import pieces
      >>> [(p.tolist(), n) for p, n in pieces([1, 2, 3, 4, 5, 6], [2, 4])]
      [([1, 2, 3, 4], 4), ([5, 6], 2)]
    """
    tokens = np.asarray(prompt, np.int32)
    while tokens.size:
        size = next((n for n in sizes if n >= tokens.size), sizes[-1])
        piece, tokens = tokens[:size], tokens[size:]
        padded = np.zeros(size, np.int32)
        padded[:piece.size] = piece
        yield padded, piece.size


def set_sampling(session: Session, sequence: int, temperature: float, top_k: int, top_p: float,
                 seed: int) -> None:
    """Set how the tokens of a sequence are chosen.

    Args:
      session: of a language model's artifact.
      sequence: its number.
      temperature, top_k, top_p, seed: as `calque.models.generate` takes them.
    """
    for name, value in (("temperature", temperature), ("top_k", top_k), ("top_p", top_p),
                        ("seed", seed)):
        held = session.read(name)
        if held[sequence] != held.dtype.type(value):
            held[sequence] = value
            session.write(name, held)
