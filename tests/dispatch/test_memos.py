"""calque.clear_caches forgets whatever is remembered between calls."""
from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque.core.memo import Memo, _every

# Module-level containers that grow with use and are no memory of programs: what is true of a file,
# a class or a function of the user's as long as it lives.
KEPT = {
    "calque.core.source._ours_cache": "whether a file is ours",
    "calque.api.custom_derivatives._signatures": "signatures of functions, weakly",
    "calque.core.memo._every": "the memos themselves",
    "calque.dispatch.jit._caches": "a memo for each function, weakly",
    "calque.runtime.device._hal_devices": "devices that were opened",
}


def sizes() -> dict[str, int]:
    return {f"{name}.{key}": len(value)
            for name, module in list(sys.modules.items()) if name.startswith("calque")
            for key, value in vars(module).items()
            if isinstance(value, dict) and not key.startswith("__")
            or type(value).__name__ in ("WeakKeyDictionary", "WeakValueDictionary")}


def work(x: Any) -> None:
    """Operators, functions of several operations, jit, grad and trees, small and large."""
    big = jnp.ones((300, 300)) + jnp.arange(300.0)
    for v in (x, big):
        calque.jit(lambda v: jnp.sin(v) * 2)(v)
        calque.grad(lambda v: jnp.sum(jnp.tanh(v)))(v)
        (v + 1).sum(), jnp.var(v), v[None, :1] * v, jnp.sort(v)
    calque.tree_util.tree_map(lambda a: a + 1, {"a": x, "b": [x, (x,)]})


def test_nothing_is_left() -> None:
    x = jnp.asarray(np.arange(4.0, dtype=np.float32))
    work(x)  # imports what is imported late
    calque.clear_caches()
    gc.collect()
    before = sizes()
    work(x)
    grown = {name for name, n in sizes().items() if n > before.get(name, 0)} - set(KEPT)
    assert len(grown) >= 5  # executables, plans, types of results, ...
    calque.clear_caches()
    left = {name: n for name, n in sizes().items()
            if n > before.get(name, 0) and name not in KEPT}
    assert not left, "keep it in a Memo"
    assert all(not memo for memo in list(_every.values()))


def test_the_oldest_go_first() -> None:
    memo = Memo(2)
    assert [memo.keep(k, k + 1) for k in range(3)] == [1, 2, 3]
    assert memo == {1: 2, 2: 3}
