"""Python numbers and NumPy arrays as arguments of calls (dispatch/host_arguments), read by
functions that are written for a structure (signatures.reader): values, dtypes and memory are those
of the first call, however often they come.  Oracle: NumPy, and the call by itself."""
from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.dispatch import host_arguments, signatures


class Pair(NamedTuple):
    a: Any
    b: Any


class Other(NamedTuple):
    a: Any
    b: Any


def often(f: Any, *args: Any, **kwargs: Any) -> Any:
    """A call's result when its structure is known (a reader is written at the third and 30th)."""
    for _ in range(4):
        f(*args, **kwargs)
    return f(*args, **kwargs)


def test_numbers_keep_their_bits_and_kinds() -> None:
    f = calque.jit(lambda x: x)
    for x in (0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, 1e-40, 3, 0, -7, True, False, 1 + 2j,
              complex(0.0, -0.0), complex(-0.0, 0.0), 2 ** 31 - 1, -2 ** 31):
        out = often(f, x)
        want = np.array(x, {bool: bool, int: np.int32, float: np.float32,
                            complex: np.complex64}[type(x)])
        assert (out.dtype, np.asarray(out).tobytes()) == (want.dtype, want.tobytes()), x
    assert math.isnan(often(f, math.nan))
    # equal as keys of a dictionary, and others all the same
    g = calque.jit(lambda x: x * 2)
    for x, want in ((1, 2), (True, 2), (1.0, 2.0), (1, 2), (1.0, 2.0)):
        out = g(x)
        assert out == want and out.dtype == (jnp.float32 if type(x) is float else jnp.int32)
    signs = [math.copysign(1, float(f(x))) for x in (0.0, -0.0, 0.0, -0.0) * 3]
    assert signs == [1, -1, 1, -1] * 3


def test_more_numbers_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_arguments, "MOST", 8)
    f = calque.jit(lambda n, x: n + x)
    got = [int(f(i, 2)) for i in range(60)] + [int(f(i, 2)) for i in range(60)]
    assert got == [i + 2 for i in range(60)] * 2


def test_too_large_integers_are_refused_however_often() -> None:
    f = calque.jit(lambda x: x + 1)
    for _ in range(5):
        assert f(1) == 2
        with pytest.raises(OverflowError, match="too large to convert"):
            f(2 ** 40)
    with calque.enable_x64(True):
        assert int(f(2 ** 40)) == 2 ** 40 + 1


def test_the_configuration_decides_dtypes() -> None:
    f = calque.jit(lambda x, y: (x, y))
    y = np.array([0.1, 0.2])
    for wide in (False, True) * 8:
        with calque.enable_x64(wide):
            a, b = f(0.1, y)
            kind = np.float64 if wide else np.float32
            assert a.dtype == b.dtype == kind and a == kind(0.1) and a.weak_type
            np.testing.assert_array_equal(np.asarray(b), y.astype(kind))


def test_numbers_go_to_the_device_of_the_context() -> None:
    f = calque.jit(lambda x: x + 1)
    devices = calque.devices()
    for d in (*devices, *devices) * 4:
        with calque.default_device(d):
            assert f(2.0).devices() == {d}


def test_arrays_of_numpys_are_copied() -> None:
    f = calque.jit(lambda x: x)
    x = np.arange(6.0, dtype=np.float32)
    outs = []
    for i in range(8):
        x[0] = i
        outs.append(f(x))
    x[:] = -1
    np.testing.assert_array_equal(np.stack(outs)[:, 0], np.arange(8.0))
    strided = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(often(f, strided), strided)
    big = np.arange(40_000.0, dtype=np.float32)
    np.testing.assert_array_equal(often(f, big), big)
    for dtype in ("bool", "int8", "uint16", "int64", "float16", "float64", "complex64"):
        want = np.ones(3, dtype)
        out = often(f, want)
        assert out.dtype == {"int64": "int32", "float64": "float32"}.get(dtype, dtype)
        np.testing.assert_array_equal(np.asarray(out), want)


def test_structures_of_numbers_take_turns() -> None:
    seen: list[Any] = []

    @calque.jit
    def f(p: Any, *, scale: Any = 1.0) -> Any:
        seen.append(p)
        return calque.tree.map(lambda x: x * scale, p)

    n = np.ones(2, np.float32)
    calls = [(Pair(1.0, 2), {}), (Other(1.0, 2), {}), (Pair(1.0, 2.0), {}), ((1.0, 2), {}),
             (Pair(jnp.float32(1), 2), {}), (Pair(n, 2), {"scale": 3.0}), (Pair(1.0, 2),
             {"scale": n}), ({"a": Pair(1.0, None)}, {}), (Pair([1.0], {"x": n}), {"scale": 2})]
    for turn in range(40):
        for p, more in (calls[turn % 2], calls[turn % 2], calls[turn % len(calls)]):
            out = f(p, **more)
            assert calque.tree.structure(out) == calque.tree.structure(p)
            for got, x in zip(calque.tree.leaves(out), calque.tree.leaves(p), strict=True):
                np.testing.assert_array_equal(got, np.asarray(x) * np.asarray(
                    more.get("scale", 1.0)))
    assert len(seen) == len(calls)  # one trace for each signature


def test_static_arguments_are_read_too() -> None:
    seen: list[Any] = []

    @functools.partial(calque.jit, static_argnums=(1, -1), static_argnames="mode")
    def f(x: Any, n: Any, y: Any, m: Any, *, mode: str = "sum", z: Any = 0.0) -> Any:
        seen.append((n, m, mode))
        return x * n + y * m + z if mode == "sum" else x - y

    for turn in range(20):
        for n, m in ((2, 3), (2.0, 3), (True, 4)):
            assert float(f(1.0, n, jnp.float32(5), m, z=turn)) == n + 5 * m + turn
            assert float(f(1.0, n, 2, m, mode="less")) == -1
    # by type, too: 2 and 2.0 are not one key
    assert len(seen) == 6 and len(set(map(repr, seen))) == 6
    for _ in range(2):
        with pytest.raises(ValueError, match="Non-hashable static arguments"):
            f(1.0, [2], jnp.float32(5), 3, z=0)
    assert float(f(1.0, 2, np.float32(5), 3, z=0)) == 17
    with pytest.raises(TypeError):
        f(1.0, 2)


def test_static_arguments_in_transformations() -> None:
    f = calque.jit(lambda x, n: x ** n, static_argnums=1)
    for _ in range(5):
        assert f(3.0, 2) == 9
    np.testing.assert_allclose(calque.grad(f)(3.0, 3), 27)
    np.testing.assert_array_equal(calque.vmap(lambda x: f(x, 2))(np.arange(3.0)), [0, 1, 4])
    assert calque.jit(lambda x: f(x, 2) + 1)(4.0) == 17


def test_a_number_that_is_given_away_leaves_the_others() -> None:
    f = calque.jit(lambda x, y: (x + y, y * 2), donate_argnums=(0, 1))
    for _ in range(6):
        a, b = f(2.5, 2.5)
        assert (float(a), float(b)) == (5, 5)
    assert float(calque.jit(lambda x: x * 2)(2.5)) == 5
    assert float(jnp.asarray(2.5)) == 2.5


def test_numbers_of_numpy_keep_their_kinds_and_are_read_by_the_structure() -> None:
    f = calque.jit(lambda x: x)
    for wide in (False, True):
        cut = {} if wide else {"int64": "int32", "uint64": "uint32", "float64": "float32",
                               "complex128": "complex64"}
        with calque.enable_x64(wide):
            for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                          "uint64", "float16", "float32", "float64", "complex64", "complex128"):
                for number in (0, 1, 3):
                    x = np.dtype(dtype).type(number)
                    out = often(f, x)
                    want = np.asarray(x).astype(cut.get(dtype, dtype))
                    assert (out.dtype, np.asarray(out).tobytes()) == (want.dtype, want.tobytes())
                    assert not out.weak_type
    assert int(often(f, np.int64(2 ** 40 + 5))) == 5  # (cut, as arrays are)
    signs = [math.copysign(1, float(f(np.float64(x)))) for x in (0.0, -0.0) * 6]
    assert signs == [1, -1] * 6
    parts = [np.asarray(f(np.complex64(x))).tobytes() for x in (complex(0.0, -0.0), 0)]
    assert parts[0] != parts[1]
    assert signatures.reader((np.float64(1), {"a": np.int32(2)}), {}, 0) is not None


def test_arrays_of_64_bits_are_cut_and_copied() -> None:
    f = calque.jit(lambda x: x)
    for dtype, cut in (("float64", "float32"), ("int64", "int32"), ("uint64", "uint32"),
                       ("complex128", "complex64")):
        for shape in ((), (0, 3), (4,), (3, 5), (200, 300)):
            x = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
            want = x.astype(cut)
            outs = [f(x), f(x), f(x), f(x.T)]
            x[...] = 7  # (what was given is a copy)
            for out, of in zip(outs, (want, want, want, want.T), strict=True):
                assert out.dtype == cut and not out.weak_type
                np.testing.assert_array_equal(np.asarray(out), of)
