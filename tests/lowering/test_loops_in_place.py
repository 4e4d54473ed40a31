"""Loops over memory that copy little: updates in place, large carries that take turns, joined and
padded arrays that are read as their parts.  NumPy, equation by equation, is the oracle.
"""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.harness import check_loop
from test_kernels import scans

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.lowering.compiler.compile import compile_to
from calque.lowering.kernels import joined
from calque.lowering.passes import cost, registers
from calque.lowering.target.targets import cpu_target

F = np.float32
RNG = np.random.default_rng(9)


def heat(u: Any, steps: int) -> Any:
    def step(_: Any, u: Any) -> Any:
        around = sum(jnp.roll(u, s, a) for s in (1, -1) for a in (0, 1))
        return u + 0.1 * (around - 4 * u)
    return lax.fori_loop(0, steps, step, u)


def waves(u: Any, v: Any, steps: int) -> Any:
    """Two that take turns; what was is a third, and is stacked, too."""
    def step(c: Any, _: Any) -> Any:
        u, v, _ = c
        v = v + 0.1 * (jnp.pad(u, 1)[2:, 1:-1] + jnp.pad(u, 1, mode="edge")[:-2, 1:-1] - 2 * u)
        return (u + 0.1 * v, v, u), (u[0], (u + v).sum())
    return lax.scan(step, (u, v, u), None, length=steps)


def interior(u: Any, steps: int) -> Any:
    """Written where it is read: what is new is computed first."""
    def step(u: Any, k: Any) -> Any:
        near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return u.at[1:-1, 1:-1].set(jnp.tanh(near * 0.3)), u[2]
    return lax.scan(step, u, None, length=steps)


def history(y: Any, steps: int) -> Any:
    """A trajectory, whose last elements are read before and after one is written."""
    def body(i: Any, c: Any) -> Any:
        y, out = c
        before = out[i - 1]
        out = out.at[i].set(y * 0.5 + before)
        return y * 0.9 + 0.1 * out[i] - 0.01 * before, out
    return lax.fori_loop(1, steps, body, (y, jnp.zeros((steps, *y.shape), y.dtype)))


def kept(x: Any, steps: int) -> Any:
    """The old array is needed after it is updated: then it is a copy that is."""
    def step(c: Any, i: Any) -> Any:
        new = c.at[i % 5].add(1.0)
        newer = lax.dynamic_update_slice(new, c[1:3] * 2, (i % 7, 0))
        return newer * 0.5, (c.sum(), new[0], newer[1])
    return lax.scan(step, x, jnp.arange(steps))


def shifted(x: Any, steps: int) -> Any:
    """A part of an array written over itself, and a carry that is another one's old value."""
    def step(c: Any, _: Any) -> Any:
        x, y = c
        return (lax.dynamic_update_slice(x, x[:-3] * 1.01, (3,)), x), None
    return lax.scan(step, (x, x * 0), None, length=steps)[0]


def burgers(u: Any, steps: int) -> Any:
    def step(u: Any, _: Any) -> Any:
        p = jnp.pad(u, 2, mode="wrap")
        return u - 0.01 * u * (p[3:-1] - p[1:-3]) + 0.01 * (p[4:] - 2 * u + p[:-4]), None
    return lax.scan(step, u, None, length=steps)[0]


def counted(x: Any, steps: int) -> Any:
    """The end is the data's: nothing takes turns; booleans, integers, and scatters."""
    def step(c: Any) -> Any:
        n, x, seen = c
        x = jnp.where(seen, x, x + jnp.roll(x, 1))
        return n + 1, x.at[jnp.arange(3) * n % 7].add(1), seen ^ (x > 5)
    return lax.while_loop(lambda c: c[0] < steps, step, (0, x, x > 0))


def normal(*shape: int, dtype: Any = F) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


CASES: dict[str, tuple[Any, list[Any]]] = {
    **{f"heat {n} {k}": (lambda u, k=k: heat(u, k), [normal(n, n + 1)])
       for n, k in ((17, 201), (32, 220))},
    "waves": (lambda u, v: waves(u, v, 101), [normal(23, 19), normal(23, 19)]),
    "waves, even": (lambda u, v: waves(u, v, 30), [normal(40, 80), normal(40, 80)]),
    "interior": (lambda u: interior(u, 90), [normal(33, 20)]),
    "history": (lambda y: history(y, 100), [normal(3, 40)]),
    "history under vmap": (calque.vmap(lambda y: history(y, 70)), [normal(30, 10)]),
    "kept": (lambda x: kept(x, 90), [normal(12, 30)]),
    "shifted": (lambda x: shifted(x, 80), [np.abs(normal(300))]),
    "burgers": (lambda u: burgers(u, 120), [normal(333)]),
    "counted": (lambda x: counted(x, 40), [RNG.integers(-9, 9, 270).astype(np.int32)]),
}


@pytest.mark.parametrize("level, names", [("host", list(CASES)[1::2]), *[
    pytest.param(level, names, marks=pytest.mark.slow) for level, names in (
        ("host", list(CASES)[::2]), ("x86-64-v3", list(CASES)[::3]))]],
    ids=["some", "more", "x86-64-v3"])
def test_loops_in_place(level: str, names: list[str]) -> None:
    with calque.config.context("calque_cpu", level):
        for name in names:
            f, args = CASES[name]
            for e in scans(f, *args):
                assert cost.is_kernel(e) and registers.plan(e) is None, name
            check_loop(f, args, name, 10)  # (hundreds of steps that amplify)


def test_a_trajectory_costs_a_step_what_it_writes() -> None:
    """The work of an update is the update's, not the array's."""
    (loop,) = scans(lambda y: history(y, 5000), normal(50))
    assert cost.equation_work(loop) < 5000 * 5000


def test_boxes_of_joined_arrays() -> None:
    class Ref:
        pass

    def array(*shape: int) -> Any:
        from calque.lowering.kernels.memory import Memory, row_major
        return Memory(Ref(), 0, shape, row_major(shape), np.dtype(F))

    a, b = array(6, 40), array(2, 40)
    x = joined.join(0, [a, b], [6, 2], (8, 40), F)
    y = joined.join(1, [joined.cut(x, 1, 39, 1), joined.cut(x, 1, 0, 39)], [1, 39], (8, 40), F)
    assert joined.boxes((8, 40), [x, y]) == [
        [(0, 6), (0, 1)], [(0, 6), (1, 39)], [(6, 2), (0, 1)], [(6, 2), (1, 39)]]
    part = joined.within(y, [(6, 2), (1, 39)])
    assert part.ref is b.ref and part.base == 0 and part.shape == (2, 39)
    corner = joined.within(y, [(0, 6), (0, 1)])
    assert corner.ref is a.ref and corner.base == 39
    assert set(joined.refs(y)) == {a.ref, b.ref}
    assert joined.join(0, [a], [6], (6, 40), F) is a
    assert not joined.pays(joined.join(1, [array(500, 1)] * 2, [1, 1], (500, 2), F))


@pytest.mark.parametrize("loop", [
    lambda x: lax.scan(lambda c, _: (lambda r: (r, r))(jnp.sort(c * 1.01 + 1)), x, None,
                       length=90)[1],
    lambda x: lax.fori_loop(0, 90, lambda i, c: c.at[i].set(jnp.sort(c[i - 1])),
                            jnp.zeros((90, *x.shape)) + x)], ids=["stacked", "carried"])
@pytest.mark.usefixtures("host_loops")
def test_loops_from_the_host_do_not_copy_what_they_carry(loop: Any) -> None:
    """A step copies what it writes, not the array that it writes into: one of 90 parts."""
    x = np.sort(RNG.normal(size=(30, 64)).astype(F))
    stream = compile_to(calque.jit(loop).lower(x).as_text(), cpu_target(), "stream")
    steps = stream[stream.index("cf.cond_br"):stream.rindex("cf.br")]
    copied = [int(n) for n in re.findall(r"stream\.cmd\.copy .*%c(\d+) :", steps)]
    assert "stream.cmd.dispatch" in steps and max(copied, default=0) <= x.nbytes
    check_loop(loop, [x], "sorted")


@pytest.mark.parametrize("target", ["vulkan:lavapipe", "cuda:sm_80", "cuda:sm_90"])
def test_loops_from_the_host_compile_for_gpus(target: str) -> None:
    """A module names its device only where the compiler's flags do."""
    def f(x: Any) -> Any:
        return lax.while_loop(lambda v: v.sum() < 100, lambda v: v * 1.1 + 1, x)

    made = aot.compile(f, calque.ShapeDtypeStruct((16,), "float32"), targets=[target])
    assert len(made.vmfb) > 1000
