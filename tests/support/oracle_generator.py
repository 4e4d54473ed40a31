"""What rng_bit_generator means, counter by counter, with Python's integers.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011); how the
counters are made and results laid out is from values recorded of JAX (tests/random).
More oracles of oracle.py, which imports this module at its end.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from support.oracle import oracle

Array = np.ndarray[Any, Any]
WORD = 0xFFFFFFFF


def philox(counter: int, key: int) -> list[int]:
    """Philox-4x32-10: four words of a 128-bit counter under a 64-bit key."""
    c = [counter >> 32 * i & WORD for i in range(4)]
    k = [key & WORD, key >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & WORD, p >> 32 ^ c[3] ^ k[1], p & WORD]
        k = [k[0] + 0x9E3779B9 & WORD, k[1] + 0xBB67AE85 & WORD]
    return c


def threefry(counter: int, key: int) -> list[int]:
    """Threefry-2x32-20: two words of a 64-bit counter under a 64-bit key."""
    x = [counter & WORD, counter >> 32 & WORD]
    k = [key & WORD, key >> 32]
    k.append(k[0] ^ k[1] ^ 0x1BD11BDA)
    x = [x[0] + k[0] & WORD, x[1] + k[1] & WORD]
    for i in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            x[0] = x[0] + x[1] & WORD
            x[1] = (x[1] << r | x[1] >> 32 - r) & WORD ^ x[0]
        x = [x[0] + k[(i + 1) % 3] & WORD, x[1] + k[(i + 2) % 3] + i + 1 & WORD]
    return x


@oracle("rng_bit_generator")
def _bits(params: Any, state: Array) -> list[Array]:
    shape, dtype = params["shape"], np.dtype(params["dtype"])
    key, start = (int(w[0]) | int(w[1]) << 32 for w in (state[:2], state[2:]))
    count, wide = int(np.prod(shape)), dtype.itemsize == 8
    words: list[int]
    if params["algorithm"].name == "RNG_THREE_FRY":
        full = shape or (1,)
        axis = next((i for i, n in enumerate(full) if n % 2 == 0), int(np.argmax(full)))
        half = list(full)
        if not wide:
            half[axis] = (half[axis] + 1) // 2
        steps = int(np.prod(half)) if count else 0
        pairs = np.array([threefry(start + i & (1 << 64) - 1, key) for i in range(steps)],
                         np.uint64).reshape(*half, 2)
        if wide:
            made = pairs[..., 0] | pairs[..., 1] << np.uint64(32)
        else:
            made = np.moveaxis(pairs, -1, axis + 1)
            made = made.reshape(*half[:axis], -1, *half[axis + 1:])
        made = made[tuple(slice(n) for n in full)].reshape(shape)
    else:
        steps = -(-count * (2 if wide else 1) // 4)
        words = [w for i in range(steps) for w in philox(start + (key << 64) + i, key)]
        if wide:
            words = [a | b << 32 for a, b in zip(words[::2], words[1::2])]
        made = np.array(words[:count], np.uint64).reshape(shape)
    after = start + steps & (1 << 64) - 1
    return [np.array([*state[:2], after & WORD, after >> 32], np.uint32), made.astype(dtype)]


@oracle("optimization_barrier")
def _barrier(params: Any, *xs: Array) -> list[Array]:
    return list(xs)
