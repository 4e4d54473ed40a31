"""calque.ffi: results in an argument's memory, and kernels with side effects, on the CPU."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import ffi, lax

S = calque.ShapeDtypeStruct
_counter = itertools.count()


def registered(source: str, **options: Any) -> str:
    name = f"memory{next(_counter)}"
    ffi.register_ffi_target(name, ffi.Kernel(source, "f", **options))
    return name


def size(ins: Any, outs: Any, **attributes: Any) -> tuple[Any, ...]:
    return (ins[0].size, *attributes.values())


# y += by in place, and where that was
ADD = registered("""
void f(int *x, int *y, long *at, long n, long by) {
  if (x != y) __builtin_trap();
  for (long i = 0; i < n; ++i) y[i] += by;
  *at = (long)y;
}""", scalars=size)
# a new array, and where that is
MAKE = registered("""
void f(const int *x, int *y, long *at, long n) {
  for (long i = 0; i < n; ++i) y[i] = x[i];
  *at = (long)y;
}""", scalars=size)
# x[i] + y[i] into x's memory, spread over groups
SUM = registered("""
void f(int *x, const int *y, int *z, long n, long g, long groups) {
  for (long i = n * g / groups; i < n * (g + 1) / groups; ++i) z[i] = x[i] + y[i];
}""", scalars=size, grid=lambda ins, outs: 3)


def add(x: Any, by: int = 1, method: str | None = None) -> Any:
    return ffi.ffi_call(ADD, (S(x.shape, x.dtype), S((), np.int64)), vmap_method=method,
                        input_output_aliases={0: 0})(x, by=by)


def make(x: Any) -> Any:
    return ffi.ffi_call(MAKE, (S(x.shape, x.dtype), S((), np.int64)))(x)


def sums(x: Any, y: Any) -> Any:
    return ffi.ffi_call(SUM, S(x.shape, x.dtype), input_output_aliases={0: 0})(x, y)


@pytest.mark.parametrize("n", [1, 2, 1000, 300_000])
def test_a_result_is_the_memory_of_a_dead_argument_only(n: int) -> None:
    """Computed and not read again: no copy; read again, an argument, a constant: a copy."""
    x = np.arange(n, dtype=np.int32)
    with calque.enable_x64(True):
        def dead(x: Any) -> Any:
            y, made = make(x)
            z, at = add(y, 5)
            return z, made, at

        def alive(x: Any) -> Any:
            y, made = make(x)
            z, at = add(y, 5)
            w, _ = add(y, 7)
            return z, w, y, made, at

        def of_argument(x: Any) -> Any:
            return add(x, 3)[0], add(jnp.arange(n, dtype=np.int32), 4)[0]

        z, made, at = calque.jit(dead)(x)
        assert int(made) == int(at) or n == 1
        np.testing.assert_array_equal(z, x + 5)
        z, w, y, made, at = calque.jit(alive)(x)
        for got, want in ((z, x + 5), (w, x + 7), (y, x)):
            np.testing.assert_array_equal(got, want)
        given = jnp.asarray(x)
        z, w = calque.jit(of_argument)(given)
        np.testing.assert_array_equal(z, x + 3)
        np.testing.assert_array_equal(w, x + 4)
        np.testing.assert_array_equal(given, x)


def test_of_a_donated_argument() -> None:
    with calque.enable_x64(True):
        x = np.arange(1000, dtype=np.int32)
        given = calque.jit(lambda x: x + 0)(x)  # (memory of calque's)
        place = given.unsafe_buffer_pointer()
        z, at = calque.jit(add, donate_argnums=0)(given)
        assert given.is_deleted()
        assert int(at) == place == z.unsafe_buffer_pointer()
        np.testing.assert_array_equal(z, x + 1)


def test_in_place_among_others() -> None:
    """Loops, branches, vmap, grids, views of the operand, one value for two arguments."""
    x = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
    with calque.enable_x64(True):
        def f(x: Any) -> Any:
            y = x * 2
            turned = add(y.T)[0]
            scanned, seen = lax.scan(lambda c, row: (add(c)[0] + row, c), jnp.zeros(4, "int32"), x)
            steps = lax.fori_loop(0, 5, lambda i, c: add(c, 10)[0], x + 1)
            walked = lax.while_loop(lambda c: c[0, 0] < 7, lambda c: sums(c, x), x + 1)
            chosen = lax.cond(x[0, 0] == 1, lambda v: add(v)[0], lambda v: v, y)
            twice = sums(y, y)
            part = y[1:]
            return (turned, scanned, seen, steps, walked, chosen, twice, add(part)[0], y,
                    add(add(x + 1)[0])[0])
        got = calque.jit(f)(x)
        y, carry, seen = x * 2, np.zeros(4, np.int32), []
        for row in x:
            seen.append(carry)
            carry = carry + 1 + row
        wants = [y.T + 1, carry, np.stack(seen), x + 51, 6 * x + 1, y + 1, 2 * y, y[1:] + 1, y, x + 3]
        for a, b in zip(got, wants):
            np.testing.assert_array_equal(a, b)
        for method in ffi.METHODS:
            inner = calque.vmap(lambda v, method=method: add(v, method=method)[0], in_axes=1)
            if method.startswith("sequential"):
                np.testing.assert_array_equal(calque.jit(inner)(x), x.T + 1)


def test_random_programs() -> None:
    """Calls that write, between calls that read, each value of any earlier one: as in NumPy."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        steps = [(int(rng.integers(3)), int(rng.integers(i + 1)), int(rng.integers(i + 1)))
                 for i in range(12)]
        kept = sorted(rng.choice(13, 4, replace=False).tolist())

        def f(x: Any, numpy: bool, steps: Any = steps, kept: Any = kept) -> Any:
            values = [x]
            for kind, a, b in steps:
                p, q = values[a], values[b]
                if kind == 0:
                    values.append(p + q if numpy else sums(p, q))
                elif kind == 1:
                    values.append(p * 3 - q)
                else:
                    values.append(np.concatenate([p[2:], p[:2]]) if numpy
                                  else jnp.concatenate([p[2:], p[:2]]))
            return [values[i] for i in kept]
        x = rng.integers(-9, 9, 5000).astype(np.int32)
        for got, want in zip(calque.jit(lambda x: f(x, False))(x), f(x, True)):
            np.testing.assert_array_equal(got, want)


# ---- side effects
LOG = registered("""
void f(const float *x, float *y, long n, long log, long entry) {
  long *at = (long *)log;
  at[++at[0]] = entry;
  for (long i = 0; i < n; ++i) y[i] = x[i];
}""", scalars=size)
MARK = registered("void f(int *y, long log, long entry) { long *at = (long *)log; "
                  "at[++at[0]] = entry; *y = entry; }",
                  scalars=lambda ins, outs, log, entry: (log, entry))


@pytest.mark.parametrize("n", [3, 1_000_000])
def test_calls_with_side_effects_stay_and_keep_their_order(n: int) -> None:
    """Equal ones, unused ones, in loops, branches and functions; an artifact's would, too."""
    log = np.zeros(100, np.int64)

    def say(x: Any, entry: int, effect: bool = True) -> Any:
        return ffi.ffi_call(LOG, S(x.shape, x.dtype), has_side_effect=effect)(
            x, log=log.ctypes.data, entry=entry)

    def mark(entry: int) -> Any:
        return ffi.ffi_call(MARK, S((), np.int32), has_side_effect=True)(
            log=log.ctypes.data, entry=entry)

    @calque.jit
    def inner(x: Any) -> Any:
        say(x, 4)
        return x

    @calque.jit
    def f(x: Any) -> Any:
        y = say(x + 1, 1)
        say(x, 2)
        say(x, 2)
        mark(3)
        mark(3)
        inner(x)

        def body(i: Any, c: Any) -> Any:
            say(x, 5)
            mark(6)
            return c + 1
        c = lax.fori_loop(0, 3, body, 0)
        lax.cond(x[0] > 0, lambda: (say(x, 7), 0)[1], lambda: (say(x, 8), 0)[1])
        calque.debug.callback(lambda _: log.__setitem__(0, log[0] + 1) or log.__setitem__(
            log[0], 9), x[0])
        say(x, 10)
        say(x, 11, False)  # nobody uses it
        return y, c
    y, c = f(np.ones(n, np.float32))
    np.testing.assert_array_equal(y, np.full(n, 2, np.float32))
    calque.effects_barrier()
    assert log[1:1 + log[0]].tolist() == [1, 2, 2, 3, 3, 4, 5, 6, 5, 6, 5, 6, 7, 9, 10]
    assert int(c) == 3
    log[0] = 0
    calque.jit(calque.vmap(lambda x: ffi.ffi_call(
        LOG, S((), x.dtype), has_side_effect=True, vmap_method="sequential")(
            x, log=log.ctypes.data, entry=12)))(np.ones(3, np.float32)).block_until_ready()
    say(jnp.ones(2), 13).block_until_ready()
    assert log[1:1 + log[0]].tolist() == [12, 12, 12, 13]
