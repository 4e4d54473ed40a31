"""Chains of calls that nobody waits for, behind slow ones: each gives what it gives when every
step is waited for.

IREE records some command buffers while what fills their arguments is still queued, and its CPU
queue cannot look into memory that is not there yet: "transient buffer has not been committed"
(lowering/compiler/server has the cure).
"""
from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, runtime, tree

SIZES = (1, 2, 9, 100)  # arrays of a state: a call of the last has 200 bindings
State = list[Any]
_SHAPES = ((4,), (), (3, 5), (2, 2, 2), (40, 40))


def _state(size: int, seed: int) -> State:
    draw = np.random.default_rng(seed)
    return [jnp.asarray(draw.uniform(-1, 1, _SHAPES[i % len(_SHAPES)]).astype(np.float32))
            for i in range(size)]


def _slow(t: State, i: Any) -> State:
    z = lax.fori_loop(0, 25, lambda _, x: jnp.tanh(x @ x), jnp.full((160, 160), 0.01) * t[0].sum())
    return [x * 0.5 + z[0, 0] for x in t]


def _scaled(t: State, i: Any) -> State:
    return [x / (2 + i) for x in t]


def _sliced(t: State, i: Any) -> State:
    """Sizes and places that the host reads: recorded anew at each call."""
    return [x if not x.ndim else lax.dynamic_update_slice(
        x, x[:1] * 2, (i,) + (0,) * (x.ndim - 1)) for x in t]


def _branched(t: State, i: Any) -> State:
    return lax.cond(i > 1, lambda s: [jnp.sin(x) for x in s], lambda s: [x + 1 for x in s], t)


def _looped(t: State, i: Any) -> State:
    return lax.while_loop(lambda c: c[0] < i, lambda c: (c[0] + 1, [jnp.cos(x) for x in c[1]]),
                          (0, t))[1]


def _mapped(t: State, i: Any) -> State:
    def step(x: Any) -> Any:
        return x.at[0].set(i * 0.25).at[-1].add(x[0])
    return [calque.vmap(step)(x) if x.ndim > 1 else x - 1 for x in t]


_KINDS: dict[str, Callable[..., State]] = {
    f.__name__: f for f in (_slow, _scaled, _sliced, _branched, _looped, _mapped)}


@functools.cache
def _jitted(kind: str, donates: bool) -> Any:
    return calque.jit(_KINDS[kind], donate_argnums=(0,) if donates else ())


def _between(t: State, what: str, i: int) -> State:
    """Eager work on a state, whose arrays may be under way (exact: NumPy does it for small arrays
    that are there)."""
    if what == "add":
        return tree.map(lambda x: x + 1.0, t)
    if what == "view":
        return [x.reshape(-1).reshape(x.shape) for x in t]
    if what == "pick":
        return [x * x.reshape(-1)[i % x.size] for x in t]
    if what == "one":
        return [abs(t[0]), *t[1:]]
    return t


def _plan(draw: random.Random) -> list[tuple[str, bool, str, int]]:
    """Calls: kind, whether the argument is donated, the work behind it, a number."""
    first = ("_slow", False, draw.choice(["", "add"]), 1)
    return [first, *[(draw.choice([*_KINDS, "_scaled", "_sliced"]), draw.random() < 0.3,
                      draw.choice(["", "", "add", "view", "pick", "one"]), draw.randrange(3))
                     for _ in range(draw.randrange(2, 9))]]


def _run(size: int, seed: int, plan: list[tuple[str, bool, str, int]], waits: bool
         ) -> list[np.ndarray]:
    t, kept = _state(size, seed), []
    for n, (kind, donates, between, i) in enumerate(plan):
        t = _jitted(kind, donates)(t, np.int32(i))
        t = _between(t, between, i)
        if waits:
            calque.block_until_ready(t)
        if n % 3 == 1:
            kept.append(jnp.max(t[0]))  # a metric, read at the end
    return [np.asarray(x) for x in (*t, *kept)]


def _check(seeds: range) -> None:
    for seed in seeds:
        draw = random.Random(seed)
        size, plan = draw.choice(SIZES[:3] if seed % 8 else SIZES), _plan(draw)
        got, want = _run(size, seed, plan, False), _run(size, seed, plan, True)
        for i, (a, b) in enumerate(zip(got, want, strict=True)):
            np.testing.assert_array_equal(a, b, f"seed {seed}, {size} arrays, {plan}, array {i}")


def _in_threads(seeds: range, count: int) -> None:
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            _check(seeds[n::count])
        except BaseException as error:  # raised again by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_chains() -> None:
    _check(range(200))


def test_chains_in_threads() -> None:
    _in_threads(range(200, 300), 3)


@pytest.mark.slow
def test_more_chains() -> None:
    _check(range(300, 7_000))
    _in_threads(range(7_000, 10_300), 4)


def test_eager_work_on_results_under_way() -> None:
    """What failed each time (../shared/reproducers/queued_chain.py)."""
    slow, small = _jitted("_slow", False), _jitted("_scaled", False)
    for shapes in ([(4, 4)], [(4, 4), (4,)], [(128, 32), (128, 32)]):
        for _ in range(3):
            under_way = small(slow([jnp.ones(s) for s in shapes], np.int32(0)), np.int32(0))
            made = tree.map(lambda x: x + 1.0, under_way)
        want = small(calque.block_until_ready(slow([jnp.ones(s) for s in shapes], np.int32(0))),
                     np.int32(0))
        for a, b in zip(made, want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b) + 1)


def test_iree_still_looks_into_memory_too_early(tmp_path: Any) -> None:
    """--iree-hal-force-indirect-command-buffers in lowering/compiler/server.py."""
    from iree.compiler import tools

    from calque.lowering.compiler.compile import MANDATORY
    text = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.add %x, %x : tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    source = tmp_path / "double.mlir"
    source.write_text(text)
    vmfb = tools.compile_file(str(source), extra_args=[
        *MANDATORY, "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host"])
    double = runtime.Executable(vmfb, runtime.default_device(), runtime.CallSpec())
    double.load()
    t = _jitted("_scaled", False)(_state(2, 0), np.int32(0))
    for _ in range(20):
        t = _jitted("_slow", False)(t, np.int32(0))
    x = _jitted("_scaled", False)(t, np.int32(0))[0]._buffer
    with pytest.raises(runtime.errors.DeviceError, match="has not been committed"):
        double([x])
