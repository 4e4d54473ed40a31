"""Types of what loops carry and branches return: weak initial values, indices, passed-on values.

The expected types are those that JAX 0.10.2 gives for the same calls.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

X = np.ones(3, np.float32)
F32, I32, F16 = np.float32(0), np.int32(0), np.float16(0)

BODIES: dict[str, Callable[[Any], Any]] = {
    "float32": lambda c: jnp.asarray(c, "float32"),
    "int32": lambda c: c.astype("int32"),
    "int8": lambda c: jnp.asarray(c, "int8"),
    "float16": lambda c: jnp.asarray(c, "float16"),
    "bool": lambda c: jnp.asarray(c) > 0,
    "times 1j": lambda c: c * 1j,
    "halved": lambda c: c / 2,
    "0": lambda c: 0, "0.": lambda c: 0., "1j": lambda c: 1j, "True": lambda c: True}

# (initial value, body) -> dtype of the result and whether it is weak; None: TypeError
CARRIED: list[tuple[Any, str, tuple[str, bool] | None]] = [
    (0., "float32", ("float32", False)), (0., "int32", None), (0., "int8", None),
    (0., "float16", ("float16", False)), (0., "bool", None), (0., "0", None),
    (0., "True", None), (0., "1j", ("complex64", True)), (0., "times 1j", ("complex64", False)),
    (0., "halved", ("float32", True)),
    (0, "float32", ("float32", False)), (0, "int8", ("int8", False)), (0, "bool", None),
    (0, "halved", ("float32", False)), (0, "0.", ("float32", True)), (0, "0", ("int32", True)),
    (F32, "0.", ("float32", True)), (F32, "0", None), (F32, "float16", None),
    (F32, "1j", None), (I32, "0", ("int32", True)), (I32, "0.", None),
    (F16, "float32", None), (F16, "halved", ("float16", False))]


@pytest.mark.parametrize(("init", "body", "want"), CARRIED)
def test_weak_carries_are_promoted_and_never_down(init: Any, body: str,
                                                  want: tuple[str, bool] | None) -> None:
    f = BODIES[body]
    loops = [lambda v: lax.scan(lambda c, x: (f(c), x), v, X)[0],
             lambda v: lax.while_loop(lambda c: c != c, f, v),
             lambda v: lax.fori_loop(0, 2, lambda i, c: f(c), v)]
    for loop in loops:
        for call, args in ((lambda loop=loop: loop(init), ()), (loop, (init,))):
            if want is None:
                with pytest.raises(TypeError, match="must have equal types"):
                    calque.eval_shape(call, *args)
            else:
                out = calque.eval_shape(call, *args)
                assert (out.dtype.name, out.weak_type) == want


H = np.asarray(1, "bfloat16")

# body, initial carry -> dtypes of the final carry and of what is stacked (w: weak)
TRACED_ONCE: list[tuple[Any, Any, str, int]] = [
    (lambda c: (c + np.float32(1), c * H), 0., "float32 bfloat16", 1),
    (lambda c: ((c[0] + np.float32(1), c[1] + 1), None), (0., 0), "float32 w-int32", 1),
    (lambda c: ((c[1], c[1] + np.float32(1)), None), (0., 0.), "w-float32 float32", 1),
    (lambda c: ((c[1] * H, c[1] + np.float32(1)), None), (0., np.float32(1)),
     "float32 float32", 1),
    (lambda c: ((c[1] * H, c[1] + np.float32(1)), None), (0., 0.), "bfloat16 float32", 2),
    (lambda c: (c + np.float32(1), c), 0, "float32 float32", 2)]


@pytest.mark.parametrize("case", range(len(TRACED_ONCE)))
def test_a_body_is_traced_again_only_for_another_dtype(case: int) -> None:
    """A weak value that becomes strong is no other dtype: bodies may have side effects."""
    body, init, want, times = TRACED_ONCE[case]
    calls: list[int] = []

    def counted(c: Any, _: Any) -> Any:
        calls.append(1)
        return body(c)

    def loop(init: Any) -> Any:
        return lax.scan(counted, init, None, length=3)

    outs = calque.tree.leaves(loop(init))
    assert len(calls) == times
    assert " ".join("w-" * o.weak_type + o.dtype.name for o in outs) == want
    state, rows = init, []
    for _ in range(3):
        state, y = body(state)
        rows.append(y)
    np.testing.assert_allclose(
        [np.float32(o).ravel()[-1] for o in outs],
        [np.float32(v) for v in calque.tree.leaves((state, rows[-1]))])
    assert [o.dtype for o in calque.tree.leaves(calque.jit(loop)(init))] == [o.dtype for o in outs]


def test_a_while_is_traced_once_with_weak_carries() -> None:
    calls: list[int] = []

    def body(c: Any) -> Any:
        calls.append(1)
        return c[0] + np.float32(1), c[1] * 2

    outs = lax.while_loop(lambda c: c[0] < 3, body, (0., 1))
    assert len(calls) == 1 and outs == (3, 8)
    assert [(o.dtype.name, o.weak_type) for o in outs] == [("float32", False), ("int32", True)]
    grad = calque.grad(lambda v: lax.fori_loop(0, 3, lambda i, c: c * np.float32(2), v))(1.)
    assert grad == 8 and grad.weak_type


def test_eager_loops_return_arrays() -> None:
    for got in (lax.scan(lambda c, x: (c.astype("float32"), x), 0., X)[0],
                lax.fori_loop(0, 2, lambda i, c: c.astype("float32"), 0),
                lax.while_loop(lambda c: c < 0, lambda c: c, 0.),
                lax.while_loop(lambda c: c < 0, lambda c: c, F32)):
        assert isinstance(got, calque.Array)
        assert got == 0
    with pytest.raises(TypeError, match="must have equal types"):
        lax.scan(lambda c, t: (c.astype(int), t), 0., X)


INDICES: list[tuple[Any, Any, str | None, bool]] = [  # of traced bounds; None: TypeError
    (0, 3, "int32", True), (0, np.int8(3), "int8", False), (np.int8(0), 3, "int8", False),
    (0, np.int32(3), "int32", True), (np.int32(0), 3, "int32", False),
    (np.uint8(0), np.uint8(3), "uint8", False), (0, np.uint8(3), None, False),
    (np.int8(0), np.int32(3), None, False)]


@pytest.mark.parametrize(("lower", "upper", "dtype", "weak"), INDICES)
def test_the_index_of_fori_loop(lower: Any, upper: Any, dtype: str | None, weak: bool) -> None:
    seen: list[Any] = []

    def loop(lower: Any, upper: Any) -> Any:
        return lax.fori_loop(lower, upper, lambda i, c: (seen.append(i.aval), c + i)[1], 0)

    if dtype is None:
        for f in (lambda: loop(lower, upper), lambda: calque.eval_shape(loop, lower, upper)):
            with pytest.raises(TypeError, match="lower and upper arguments to fori_loop must have"):
                f()
        return
    calque.eval_shape(loop, lower, upper)
    assert (seen[0].dtype.name, seen[0].weak_type) == (dtype, weak)
    seen.clear()
    assert loop(lower, upper) == 3  # known bounds: a Python int
    assert (seen[0].dtype.name, seen[0].weak_type) == ("int32", True)


@pytest.mark.parametrize("run", [lambda f, *args: f(*args), calque.eval_shape])
def test_the_order_in_which_functions_are_traced(run: Any) -> None:
    """That of the arguments, as in JAX 0.10.2: side effects of tracing come in it."""
    seen: list[str] = []

    def note(tag: str, result: Any) -> Any:
        return lambda *xs: (seen.append(tag), result(*xs))[1]

    a, b = note("a", lambda x: x * 1.0), note("b", lambda x: x * 2.0)
    for f, args, want in (
            (lambda p: lax.cond(p, a, b, 1.0), (True,), "ab"),
            (lambda i: lax.switch(i, [a, b, a], 1.0), (1,), "ab"),  # each function once
            (lambda p: calque.grad(lambda y: lax.cond(p, a, b, y))(1.0), (True,), "ab"),
            (lambda x: lax.while_loop(note("c", lambda c: c < 1), b, x), (2.0,), "cb")):
        seen.clear()
        run(f, *args)
        assert "".join(seen) == want


def test_branches_agree_on_the_weak_type_of_the_first() -> None:
    for true, false, weak in ((0., F32, False), (F32, 0., True), (F32, F32, False), (0., 1., True)):
        out = calque.eval_shape(lambda p, t=true, f=false: lax.cond(p, lambda: t, lambda: f), True)
        assert (out.dtype, out.weak_type) == (np.float32, weak)
    out = calque.eval_shape(lambda i: lax.switch(i, [lambda: 0., lambda: F32]), 0)
    assert out.weak_type
    for true, false in ((0., 0), (0, I32.astype("int8")), (True, 0)):
        with pytest.raises(TypeError, match="must have equal output types"):
            lax.cond(True, lambda t=true: t, lambda f=false: f)


def test_what_a_scan_passes_on_is_what_it_was_given() -> None:
    """As with while_loop, and JAX: a number, or NumPy's array."""
    given = np.ones(2)
    for n in (0, 3):
        (number, array, count), _ = calque.lax.scan(
            lambda c, _: ((c[0], c[1], c[2] + 1), c[0]), (1.0, given, 0), None, length=n)
        assert type(number) is float and array is given and count == n
        assert type(calque.lax.fori_loop(0, n, lambda i, c: c, 1.0)) is float
