"""calque.clear_caches forgets whatever is remembered between calls."""
from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque.core.memo import Memo, Recent, _every
from calque.dispatch import eager

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


def test_a_recent_memo_holds_the_latest_and_gives_what_others_hold() -> None:
    class Value:
        pass

    memo = Recent(2)
    first, second = Value(), Value()
    for key, value in (("a", first), ("b", second), ("c", Value()), ("d", Value())):
        memo.keep(key, value)
    assert list(memo) == ["c", "d"]
    assert memo.find("a") is first and list(memo) == ["d", "a"]  # it counts as the latest now
    del first
    gc.collect()
    assert memo.find("a") is not None and memo.find("b") is second and memo.find("c") is None
    assert list(memo) == ["a", "b"]
    calque.clear_caches()
    assert memo.find("b") is None and not memo


def test_programs_of_dropped_functions_go(monkeypatch: Any) -> None:
    """Each took 57 KB: all but the latest are gone with the functions."""
    monkeypatch.setattr(eager, "_memory", Recent(3))

    def programs() -> int:
        gc.collect()
        return sum(isinstance(o, eager.Compiled) for o in gc.get_objects())

    before, kept = programs(), []
    for i in range(10):
        f = calque.jit(lambda x, i=i: x * (2.0 + i / 7) + i)
        f(np.float32(1.0))
        if i < 2:
            kept.append(f)
    del f
    assert programs() - before == 3 + len(kept)
    assert [float(f(np.float32(1.0))) for f in kept] == [2.0, np.float32(1 * (2 + 1 / 7)) + 1]


def test_arrays_that_a_dropped_function_captured_go() -> None:
    def held(call: bool) -> bool:
        x = jnp.ones(1000) * 3
        alive = weakref.ref(x)
        f = calque.jit((lambda c: lambda: c * 2)(x))
        if call:
            f().block_until_ready()
        del x, f
        gc.collect()
        return alive() is not None

    assert not held(False) and not held(True)
