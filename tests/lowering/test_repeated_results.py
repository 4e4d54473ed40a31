"""What folds to a value that other work reads, too: IREE gives another result of the dispatch for
it, unless told to fuse otherwise (MANDATORY in compiler/compile.py).  The oracle is NumPy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import numpys

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.compiler.compile import compile_module
from calque.lowering.target.targets import cpu_target
from calque.runtime import Buffer, CallSpec, Executable, default_device

M = np.array([True, False, True, False, False, True, False])
X = np.array([1.5, -2, 0.5, 3, -0.5, 2, -1], np.float32)
Y = np.array([2, 3, -1, 0.5, 4, -2, 1], np.float32)
I, J = np.arange(-3, 4, dtype=np.int32), np.array([5, -2, 7, 0, 3, 1, -9], np.int32)

# (np, m, b) -> b again, or what is computed of b in another way (numbers are Python's: those that
# jnp.float32 makes are arguments of the program, and fold with nothing)
FLOATS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "where": lambda np, m, b: np.where(m, 0, b),
    "where of where": lambda np, m, b: np.where(m, 0, np.where(m, 5, b)),
    "where of the other": lambda np, m, b: np.where(~m, b, 0),
    "minimum": lambda np, m, b: np.minimum(b, b), "maximum": lambda np, m, b: np.maximum(b, b),
    "negated twice": lambda np, m, b: np.negative(np.negative(b)),
    "times 1": lambda np, m, b: b * 1,
    "by 1": lambda np, m, b: b / 1, "less 0": lambda np, m, b: b - 0,
    "plus 0": lambda np, m, b: b + 0, "plus -0": lambda np, m, b: b + -0.0,
    "absolute": lambda np, m, b: np.abs(np.abs(b)), "floor": lambda np, m, b: np.floor(
        np.floor(b)), "round": lambda np, m, b: np.round(np.round(b)),
    "where converted": lambda np, m, b: np.where(m.astype(np.int32) != 0, 0, b),
    "where and": lambda np, m, b: np.where(m & True, 0, b),
    "where or": lambda np, m, b: np.where(m | False, 0, b),
    "where equal": lambda np, m, b: np.where(m == True, 0, b),  # noqa: E712
    "where where": lambda np, m, b: np.where(np.where(m, True, False), 0, b),
    "where and back": lambda np, m, b: np.where(m, b, np.where(m, 7, b))}
INTEGERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "plus and minus": lambda np, m, b: b + J - J, "minus and plus": lambda np, m, b: b - J + J,
    "taken from": lambda np, m, b: J - (J - b), "xor": lambda np, m, b: b ^ J ^ J,
    "or itself": lambda np, m, b: b | b, "and again": lambda np, m, b: (b & J) & J,
    "or again": lambda np, m, b: J | (b | J),
    "not": lambda np, m, b: np.invert(np.invert(b)),
    "plus 1 less 1": lambda np, m, b: b + 1 - 1,
    "clip": lambda np, m, b: np.clip(np.clip(b, -2, 4), -2, 4),
    "where": lambda np, m, b: np.where(m, 0, b),
    "wide and back": lambda np, m, b: b.astype(np.int64).astype(np.int32)}


@pytest.mark.parametrize("shape", [(), (7,)])
def test_a_value_that_is_there_already(shape: tuple[int, ...]) -> None:
    """Each in a program of its own: beside an earlier result, the value, and what folds to it."""
    def cut(a: Any) -> Any:
        return a if shape else a[1]

    with calque.enable_x64(True):
        for names, x, y in ((FLOATS, X, Y), (INTEGERS, I, J)):
            for name, again in names.items():
                if not shape and "J" in again.__code__.co_names:
                    continue

                def f(np: Any, m: Any, x: Any, y: Any, again: Any = again) -> Any:
                    a = np.where(m, 0, x)
                    b = np.where(m, 0, a * y)
                    return y * 2, a, b, again(np, m, b), y + 1

                got = calque.jit(lambda *args, f=f: f(jnp, *args))(cut(M), cut(x), cut(y))
                for g, w in zip(got, f(np, cut(M), cut(x), cut(y)), strict=True):
                    np.testing.assert_array_equal(g, w, err_msg=name)


@pytest.mark.parametrize("fold", [
    lambda x: jnp.negative(jnp.negative(x)), lambda x: jnp.where(x > 0, x, x),
    lambda x: (x ^ 7) ^ 7,
    lambda x: x + J[0] - J[0]], ids=["negated", "chosen", "xor", "plus and minus"])
@pytest.mark.parametrize("donate", [(), (0,)])
def test_what_is_written_behind_a_fold_is_not_the_operand(fold: Any, donate: Any) -> None:
    """The value that folds is its operand's memory: updates of it, alone, in loops and branches,
    leave the operand as it was, and what else is computed of it."""
    def f(fold: Any, x: Any, y: Any) -> Any:
        z = fold(x)
        loop = lax.fori_loop(0, 3, lambda i, c: fold(c).at[i].set(c[i] + 1), x)
        last, firsts = lax.scan(lambda c, i: (fold(c).at[i].set(9), c[0]), z, jnp.arange(3))
        branch = lax.cond(y[0] > 0, lambda a: fold(a).at[2].set(1), fold, z)
        return z.at[0].set(50), z.at[1].add(3), loop, last, firsts, branch, z, x

    for n in (7, 4000):
        x, y = np.arange(n, dtype=np.int32) % 7 - 3, np.ones(3, np.int32)
        want = numpys(lambda x, y: f(lambda v: v, x, y))(x, y)
        given = jnp.array(x)
        out = calque.jit(lambda x, y: f(fold, x, y), donate_argnums=donate)(given, y)
        for g, w in zip(out, want, strict=True):
            np.testing.assert_array_equal(g, w)
        if not donate:
            np.testing.assert_array_equal(given, x)


def test_derivatives_of_branches() -> None:
    """The third derivative of a cond was another number, without a word."""
    def chain(x: Any) -> Any:
        for k in range(4):
            x = jnp.sin(x) * (k + 1.5) + x
        return x

    def third(f: Any) -> Any:
        return calque.grad(calque.grad(calque.grad(f)))

    f = third(lambda x: lax.cond(x > 0, chain, jnp.cos, x))
    with calque.enable_x64(True):
        want = numpys(third(chain))(np.float64(0.3))
        np.testing.assert_allclose(calque.jit(f)(np.float64(0.3)), want, rtol=1e-9)
        np.testing.assert_allclose(want, 15309.006976354367, rtol=1e-12)


def test_second_derivatives_of_a_switch_at_several_points() -> None:
    """Wrong values (fuzz_compose.py, seed 9003065)."""
    def second(*fs: Any) -> Any:
        return calque.grad(calque.grad(lambda i, x: lax.switch(i, fs, x)**2, 1), 1)

    def f(i: Any, x: Any) -> Any:
        return [jnp.stack([g(i[k], x[k]) for k in range(3)])
                for g in (second(jnp.arcsin, jnp.cbrt), second(jnp.sin, jnp.cos))]

    x = np.array([-.5, .5, .25])
    with calque.enable_x64(True):
        arcsin, sin = calque.jit(f)(np.zeros(3, np.int32), x)
    r = 1 - x * x
    np.testing.assert_allclose(arcsin, 2 / r + 2 * np.arcsin(x) * x / r**1.5, rtol=1e-12)
    np.testing.assert_allclose(sin, 2 * np.cos(2 * x), rtol=1e-12)


@pytest.mark.slow
def test_second_derivatives_of_branches_in_branches_at_two_points() -> None:
    """The same, refused (fuzz_compose.py, seed 9002193)."""
    branches = [lambda y, f=f: lax.cond(y == y, f, lambda z: jnp.sqrt(z - z) * z, y)
                for f in (jnp.sin, jnp.cos)]
    second = calque.grad(calque.grad(lambda i, x: lax.switch(i, branches, x), 1), 1)
    out = calque.jit(lambda i, x: jnp.stack([second(i[k], x[k]) for k in range(2)]))(
        np.array([0, 1], np.int32), np.array([1, 0], np.float32))
    np.testing.assert_allclose(out, [-np.sin(1), -1], rtol=1e-6)


def test_iree_still_gives_another_result_where_a_dispatch_gives_one_twice() -> None:
    """MANDATORY in lowering/compiler/compile.py."""
    vmfb = compile_module("""func.func @main(%m: tensor<2xi1>, %x: tensor<2xf32>, %y: tensor<2xf32>)
        -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
      %z = stablehlo.constant dense<0.0> : tensor<2xf32>
      %a = stablehlo.select %m, %z, %x : tensor<2xi1>, tensor<2xf32>
      %p = stablehlo.multiply %a, %y : tensor<2xf32>
      %b = stablehlo.select %m, %z, %p : tensor<2xi1>, tensor<2xf32>
      %d = stablehlo.add %y, %y : tensor<2xf32>
      %c = stablehlo.select %m, %z, %b : tensor<2xi1>, tensor<2xf32>
      %e = stablehlo.negate %y : tensor<2xf32>
      return %d, %a, %b, %c, %e : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>,
        tensor<2xf32> }""", cpu_target(), ("--iree-dispatch-creation-fuse-multi-use=true",))
    spec = CallSpec([((2,), np.dtype(np.float32))] * 5, run_inline=True)
    args = [np.array([True, False]), np.ones(2, np.float32), np.full(2, 3, np.float32)]
    outs = Executable(vmfb, default_device(), spec, "main")(
        [Buffer.from_numpy(a, default_device()) for a in args])
    found = [o.numpy().tolist() for o in outs]
    assert found[2] == [0, 3] and found[3] != [0, 3], f"mended: {found}"
