"""Small arrays, eagerly: NumPy's rules (dispatch/numpy_rules) against the oracles, and that no
program is compiled for them."""
from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.harness import compare, expected, function, physical, words
from support.oracle import difference
from support.samples import ROWS

import calque
import calque.numpy as jnp
from calque.core.primitive import registry
from calque.dispatch import eager, numpy_rules
from calque.dispatch.numpy_rules import draw
from calque.lowering.driver import cache

pytestmark = pytest.mark.usefixtures("x64")
NAMES = sorted(n for n in numpy_rules.RULES if n in ROWS)


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_oracle(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sample and dtype that a rule takes; each takes some."""
    row, prim, wrong, taken = ROWS[name], registry[name], [], 0

    def only_here(p: Any, args: Any, params: Any) -> Any:
        made = numpy_rules.evaluate(p, args, params)
        if made is None:
            raise _NotHereError(p.name)
        return made

    monkeypatch.setattr(eager, "_at_once", only_here)
    whole = len(row.specials) + 1  # special values and the first sample: over all dtypes
    for i, sample in enumerate((*row.specials, *row.samples)):
        for dtype in row.dtypes if i < whole else [row.main]:
            params, arrays = sample.parameters(dtype), row.arrays(sample, dtype)
            values = [calque.device_put(np.array(x)) for x in words(row, sample, arrays)]
            try:
                outs = function(row, sample, params)(*values)
            except _NotHereError as error:
                assert str(error) == name or row.view is not None
                continue
            taken += 1
            text = compare(expected(row, params, arrays), row)([np.asarray(o) for o in outs])
            if text:
                wrong.append(f"{sample.label} {dtype}: {text}")
    assert not wrong, "\n".join(wrong)
    assert taken, f"{prim}: the rule takes no sample"


class _NotHereError(Exception):
    """The rule leaves these operands to a compiled program."""


def test_nothing_is_compiled() -> None:
    """What a notebook does with small arrays, but for functions like sin, needs no program."""
    before = cache.cache_info()
    x = jnp.arange(10) * 2 + 1
    assert str(x) == "[ 1  3  5  7  9 11 13 15 17 19]"
    assert int(jnp.sum(x)) == 100 and int(x[3]) == 7 and x[2:5].tolist() == [5, 7, 9]
    y = jnp.linspace(0.0, 1.0, 5)
    m = y[:, None] * y[None, :] + jnp.eye(5)
    np.testing.assert_array_equal(np.asarray(m.T @ m), np.asarray(m).T @ np.asarray(m))
    assert jnp.where(y > 0.4, y, -y).tolist() == [0.0, -0.25, 0.5, 0.75, 1.0]
    jnp.mean(m, axis=0), jnp.concatenate([y, y]), m.at[1, 2].add(3.0), jnp.sort(-y), m.sum(1)
    jnp.argmax(m), jnp.stack([y, y]), m[jnp.array([0, 1])], m[m > 1], jnp.cumsum(x)
    keys = calque.random.split(calque.random.PRNGKey(0), 3)
    calque.random.permutation(keys[0], 5), calque.random.bits(keys[1], (4,))
    for _ in range(3):
        x = x + 1
    after = cache.cache_info()
    assert (after.hits, after.misses) == (before.hits, before.misses)


def test_values_are_shared_by_nobody() -> None:
    """Arrays never see what happens to the NumPy arrays that they came from or gave."""
    source = np.arange(4.0)
    x = jnp.asarray(source)
    source[0] = 7
    assert float(x[0]) == 0.0
    view = np.asarray(x)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    y = x.reshape(2, 2)
    step = calque.jit(lambda a: a.at[0].set(5.0), donate_argnums=0)
    step(x)
    assert x.is_deleted() and y.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert view.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_large_arrays_go_to_programs() -> None:
    most = numpy_rules.LIMIT // 4
    small, large = (jnp.zeros(n, jnp.float32) for n in (most, most + 1))
    assert numpy_rules.concrete_value(small) is not None
    assert numpy_rules.concrete_value(large) is None
    assert numpy_rules.concrete_value(2.0) == 2.0


def test_extremes_of_signed_zeros() -> None:
    zeros = jnp.asarray([0.0, -0.0, -0.0]), jnp.asarray([-0.0, 0.0, -0.0])
    for f, want in ((jnp.maximum, [0.0, 0.0, -0.0]), (jnp.minimum, [-0.0, -0.0, -0.0])):
        got = f(*zeros)
        assert not difference(np.asarray(got), np.asarray(want))
        assert np.signbit(np.asarray(got)).tolist() == np.signbit(want).tolist()
        compiled = np.asarray(calque.jit(f)(*zeros))
        assert np.signbit(compiled).tolist() == np.signbit(want).tolist()
    for values, high, low in (([0.0, -0.0], False, True), ([-0.0, -0.0], True, True)):
        x = jnp.asarray(values)
        assert bool(np.signbit(np.asarray(x.max()))) is high
        assert bool(np.signbit(np.asarray(x.min()))) is low


def test_words_of_keys() -> None:
    key = calque.random.key(2**40 + 3)
    assert np.asarray(calque.random.key_data(key)).tolist() == [256, 3]
    np.testing.assert_array_equal(
        physical(np.asarray(2**40 + 3, np.uint64)), np.asarray(calque.random.key_data(key)))


# ---- large arrays that broadcast (numpy/quick._Large)
@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_large_operands_that_broadcast(stride: int) -> None:
    x = np.arange(150 * 130, dtype=np.float32).reshape(150, 130) % 97
    row, column = np.arange(130, dtype=np.float32) - 60, np.arange(150, dtype=np.int32)[:, None]
    a, b, c = map(jnp.asarray, (x, row, column))
    cases = [(lambda: a - b, x - row), (lambda: b - a, row - x), (lambda: a < b, x < row),
             (lambda: a * c, x * column.astype(np.float32)),
             (lambda: c + jnp.asarray(column.T), column + column.T),
             (lambda: calque.vmap(lambda r: r - b)(a), x - row),
             (lambda: calque.grad(lambda b: (a * b).sum())(b), x.sum(0))]
    for _ in range(4):  # the general road, then the program that is kept
        for f, want in cases[::stride]:
            np.testing.assert_array_equal(np.asarray(f()), want)
    pending = calque.jit(lambda a: jnp.tanh(a @ a.T) * 0)(a)[:, :130]
    np.testing.assert_array_equal(np.asarray(pending - b), 0 * x - row)
    b.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        a - b


def test_many_positions() -> None:
    x = np.arange(300.0, dtype=np.float32).reshape(100, 3)
    at = (np.arange(70_000) * 37 % 220 - 110).astype(np.int32)
    want = x[np.clip(np.where(at < 0, at + 100, at), 0, 99)]  # outside: the nearest, as in JAX
    np.testing.assert_array_equal(np.asarray(jnp.asarray(x)[jnp.asarray(at)]), want)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(x)[jnp.asarray(at), 1]), want[:, 1])


@pytest.mark.parametrize("count", [1, 8, 9, 30])
def test_threefry_of_few_and_many_counters(count: int) -> None:
    """The known answers of Random123 1.14 (its file kat_vectors, threefry2x32, 20 rounds)."""
    for key, counter, want in (
            ((0, 0), (0, 0), (0x6b200159, 0x99ba4efe)),
            ((0xffffffff,) * 2, (0xffffffff,) * 2, (0x1cb996fc, 0xbb002be7)),
            ((0x13198a2e, 0x03707344), (0x243f6a88, 0x85a308d3), (0xc4923a9c, 0x483df7a0))):
        keys = [np.array([k], np.uint32) for k in key]
        made = draw.threefry(*keys, *[np.full(count, c, np.uint32) for c in counter])
        assert [m.tolist() for m in made] == [[w] * count for w in want]


def test_large_slices_compile_nothing(monkeypatch: Any) -> None:
    x = np.arange(1_000_000, dtype=np.float32).reshape(1000, 1000)
    a = jnp.asarray(x)
    monkeypatch.setattr(cache, "compile_module", None)  # nothing may ask for it
    for made, want in ((a[100:900, ::2], x[100:900, ::2]), (a[::3, 1:], x[::3, 1:]),
                       (a[5:], x[5:]), (a[jnp.asarray(7)], x[7])):
        np.testing.assert_array_equal(made, want)


def test_parts_can_be_left_out() -> None:
    """CALQUE_OFF, for docs/debugging.md."""
    code = """
import calque, calque.numpy as jnp
from calque.dispatch import numpy_rules, replay
from calque.lowering.passes import loops
assert not numpy_rules.RULES and not loops.enabled
x = jnp.arange(6.0).reshape(2, 3)
print(float(jnp.var(x)), len([p for p in replay._plans.values() if p is not None]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ, "CALQUE_OFF": "numpy,plans,kernels"})
    assert abs(float(done.stdout.split()[0]) - 35 / 12) < 1e-6 and done.stdout.split()[1] == "0"


@pytest.mark.parametrize("shape", [(100, 20), (37, 20), (64, 64), (3, 40, 20), (5, 1)])
def test_a_matrix_times_its_transpose_is_symmetric(shape):
    """To the last bit: validity checks of covariances ask for it (BLAS alone gives it or not)."""
    x = np.random.default_rng(3).normal(size=shape).astype("float32")
    wide = x.astype(np.float64) @ x.astype(np.float64).swapaxes(-1, -2)
    y = jnp.asarray(x)
    for got in (y @ jnp.swapaxes(y, -1, -2), jnp.einsum("...ik,...jk->...ij", y, y),
                jnp.dot(y, y[..., None])[..., 0] if y.ndim == 2 else y @ y.mT,
                jnp.swapaxes(y.mT, -1, -2) @ y.mT):
        made = np.asarray(got)
        np.testing.assert_array_equal(made, made.swapaxes(-1, -2))
        np.testing.assert_allclose(made, wide, rtol=1e-5, atol=1e-5)
