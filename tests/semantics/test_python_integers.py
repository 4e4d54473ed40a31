"""Python integers beyond the default integer type: an OverflowError wherever one becomes an array,
its value where the dtype asked for holds it; and arrays of equal numbers have memory of their own.
"""
from __future__ import annotations

import copy
import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

BIG, ROWS = 3_000_000_000, np.arange(2, dtype=np.int32)
BECOMES: dict[str, Callable[[int], Any]] = {
    "jit": lambda v: calque.jit(lambda: v)(),
    "in a dict": lambda v: calque.jit(lambda x: {"x": x, "bytes": v})(1.0),
    "static": lambda v: calque.jit(lambda n: n, static_argnums=0)(v),
    "argument": lambda v: calque.jit(lambda n: n)(v),
    "cond": lambda v: lax.cond(True, lambda: v, lambda: 0),
    "switch": lambda v: lax.switch(0, [lambda: v, lambda: 0]),
    "scan": lambda v: lax.scan(lambda c, x: (c, v), 0, ROWS),
    "carry": lambda v: lax.scan(lambda c, x: (c, x), v, ROWS),
    "fori": lambda v: lax.fori_loop(0, 1, lambda i, c: v, 0),
    "while": lambda v: lax.while_loop(lambda c: False, lambda c: c, v),
    "map": lambda v: lax.map(lambda x: v, ROWS),
    "checkpoint": lambda v: calque.checkpoint(lambda x: (x, v))(1.0),
    "aux": lambda v: calque.jit(calque.grad(lambda x: (x, v), has_aux=True))(1.0),
    "vmap": lambda v: calque.vmap(lambda x: v)(ROWS), "vjp": lambda v: calque.vjp(
        lambda x: (x, v), 1.0), "eval_shape": lambda v: calque.eval_shape(lambda: v),
    "shape of an argument": lambda v: calque.eval_shape(lambda x: x, v),
    "make_jaxpr": lambda v: calque.make_jaxpr(lambda: v)(), "asarray": jnp.asarray,
    "list": lambda v: jnp.array([v]), "device_put": calque.device_put,
    "append": lambda v: jnp.append(ROWS, v), "stack": lambda v: jnp.stack([ROWS[0], v]),
    "diff": lambda v: jnp.diff(ROWS, prepend=v), "full": lambda v: jnp.full(2, v),
    "lax.add": lambda v: lax.add(jnp.asarray(ROWS), v), "lax.full": lambda v: lax.full((2,), v),
    "clamp": lambda v: lax.clamp(v, jnp.asarray(ROWS), 5), "pred": lambda v: lax.cond(
        v, lambda: 1, lambda: 2), "add": lambda v: jnp.asarray(ROWS) + v,
    "where": lambda v: jnp.where(ROWS > 0, ROWS, v),
    "set": lambda v: jnp.asarray(ROWS).at[0].set(v), "initial": lambda v: jnp.sum(ROWS, initial=v),
    "fill": lambda v: jnp.asarray(ROWS).at[9].get(mode="fill", fill_value=v)}


@pytest.mark.parametrize("value", [BIG, -BIG, 2 ** 31, 2 ** 70])
def test_no_integer_is_wrapped(value: int) -> None:
    for name, become in BECOMES.items():
        try:
            got = become(value)
        except OverflowError:
            continue
        raise AssertionError(f"{name} gave {got}")
    assert int(calque.jit(lambda: 2 ** 31 - 1)()) == 2 ** 31 - 1
    assert int(calque.jit(lambda: -2 ** 31)()) == -2 ** 31


def test_a_dtype_that_holds_it_takes_it() -> None:
    u, most = jnp.zeros(2, jnp.uint32), 2 ** 32 - 1
    for f in (lambda x: x.at[0].set(most), lambda x: x.at[0].add(most),
              lambda x: x.at[jnp.array([0])].set(most), lambda x: x.at[:1].max(most),
              lambda x: x.at[jnp.arange(2) < 1].set(most)):
        assert f(u).tolist() == [most, 0]
    assert calque.jit(lambda x: x.at[0].set(most))(u).tolist() == [most, 0]
    assert u.at[jnp.array([7])].get(mode="fill", fill_value=most).tolist() == [most]
    assert jnp.full(1, most, jnp.uint32).tolist() == [most] == jnp.full_like(u, most)[:1].tolist()
    assert jnp.full(1, 2 ** 70, jnp.float32).tolist() == [2.0 ** 70]
    assert float(lax.convert_element_type(BIG, jnp.float32)) == 3e9
    assert int(lax.convert_element_type(BIG, jnp.uint32)) == BIG
    with calque.enable_x64(True):
        assert jnp.zeros(2, jnp.uint64).at[0].set(2 ** 64 - 1).tolist() == [2 ** 64 - 1, 0]
        assert int(calque.jit(lambda: BIG)()) == BIG


# ---- memory
def _donate(x: Any) -> None:
    calque.jit(lambda x: (x * 0 - 5).astype(x.dtype), donate_argnums=0)(x)


GONE: dict[str, Callable[[Any], Any]] = {"donated": _donate, "deleted": lambda x: x.delete()}
MAKE: dict[str, Callable[[], Any]] = {
    "array": lambda: jnp.array(3), "asarray": lambda: jnp.asarray(3.5),
    "zeros": lambda: jnp.zeros(()), "full": lambda: jnp.full((), 2),
    "float32": lambda: jnp.float32(2.5), "eager": lambda: jnp.asarray(ROWS)[1] + 1,
    "bool": lambda: jnp.array(True), "jit": calque.jit(lambda: 3),
    "identity": lambda: calque.jit(lambda x: x)(7), "passed on": lambda: lax.scan(
        lambda c, _: (c * 1, None), 4, None, length=2)[0], "aux": lambda: calque.grad(
        lambda x: (x, x), has_aux=True)(2.5)[1], "put": lambda: calque.device_put(6)}


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("name", MAKE)
def test_equal_numbers_have_memory_of_their_own(name: str, gone: str) -> None:
    before, taken = MAKE[name](), MAKE[name]()
    want = np.asarray(before).copy()
    GONE[gone](taken)
    assert taken.is_deleted() and not before.is_deleted()
    assert np.asarray(before) == want == np.asarray(MAKE[name]())


def test_numbers_given_to_a_donating_function() -> None:
    f = calque.jit(lambda x: x + 1, donate_argnums=0)
    assert int(f(2)) == int(f(2)) == 3
    assert int(calque.jit(lambda y: y * 3)(2)) == 6 and int(jnp.array(2)) == 2
    step = calque.jit(lambda s: {"n": s["n"] + 1, "w": s["w"] * 2}, donate_argnums=0)
    for _ in range(2):
        state = {"n": jnp.array(3), "w": jnp.ones(2)}
        for _ in range(3):
            state = step(state)
        assert int(state["n"]) == 6


SAME: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy, "deepcopy": copy.deepcopy, "array": jnp.array, "x.copy": lambda x: x.copy(),
    "reshape": lambda x: x.reshape(1, -1), "index": lambda x: x[None], "T": lambda x: x[None].T,
    "jit": calque.jit(lambda x: x), "twice": lambda x: calque.jit(lambda x: (x, x))(x)[1],
    "closure": lambda x: calque.jit(lambda: x)(), "numpy": np.asarray, "dlpack": np.from_dlpack,
    "back": lambda x: jnp.asarray(np.asarray(x)), "put": lambda x: calque.device_put(np.asarray(x)),
    "ref": lambda x: calque.new_ref(x)[...], "where": lambda x: jnp.where(True, x, x)}


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("size", [3, 40_000])
def test_a_copy_or_view_outlives_its_array(size: int, gone: str) -> None:
    for name, make in SAME.items():
        x = jnp.arange(float(size))
        y = make(x)
        GONE[gone](x)
        assert np.array_equal(np.ravel(y), np.arange(size)), name
        if hasattr(y, "delete"):
            x = jnp.arange(float(size))
            GONE[gone](make(x))
            assert np.array_equal(x, np.arange(size)), name


def test_a_masked_array_does_not_lose_its_mask() -> None:
    m, x = np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0]), jnp.ones(3)
    uses: dict[str, Callable[[], Any]] = {
        "asarray": lambda: jnp.asarray(m), "sum": lambda: jnp.sum(m),
        "add": lambda: x + m, "radd": lambda: m + x, "jit": lambda: calque.jit(lambda a: a)(m),
        "grad": lambda: calque.grad(lambda a: a.sum())(m), "put": lambda: calque.device_put(m),
        "closure": lambda: calque.jit(lambda a: a + m)(x), "stack": lambda: jnp.stack([m, m]),
        "returned": lambda: calque.jit(lambda: m)(), "set": lambda: x.at[:].set(m),
        "index": lambda: x[m.astype(int)], "scan": lambda: lax.scan(lambda c, a: (c, a), 0.0, m),
        "in a dict": lambda: calque.jit(lambda d: d["a"])({"a": m}), "scalar": lambda: jnp.asarray(
            np.ma.masked), "vmap": lambda: calque.vmap(lambda a: a)(m),
        "other shapes": lambda: jnp.hypot(m, jnp.zeros(0)), "where": lambda: jnp.where(
            jnp.array(True), m, jnp.zeros(0))}
    for name, use in uses.items():
        with pytest.raises(ValueError, match="masked arrays are not supported"):
            pytest.fail(f"{name} gave {use()}")
    assert jnp.asarray(m.filled(0.0)).tolist() == [1, 0, 3]


# ---- numbers of types derived from Python's
class Whole(int):
    """A subclass of int."""


class Real(float):
    """A subclass of float."""


class Both(complex):
    """A subclass of complex."""


class Named(enum.IntEnum):
    """Whose members are ints."""

    THREE = 3


TAKES: dict[str, Callable[[Any], Any]] = {
    "jit": calque.jit(lambda t: t), "device_put": calque.device_put, "asarray": jnp.asarray,
    "compiled": lambda v: calque.jit(lambda t: t).lower(v).compile()(v),
    "cond": lambda v: lax.cond(True, lambda x: x, lambda x: x, v),
    "scan": lambda v: lax.scan(lambda c, x: (c + 1, x), v, ROWS)[0], "typeof": calque.typeof,
    "vmap": lambda v: calque.vmap(lambda a, b: a + b, (0, None))(ROWS, v),
    "set": lambda v: jnp.zeros(2, complex).at[0].set(v),
    "dtype": lambda v: jnp.result_type(v, np.int8).name,
    "eval_shape": lambda v: calque.eval_shape(lambda x: x, v), "full": lambda v: jnp.full(2, v)}


@pytest.mark.parametrize("take", TAKES)
def test_numbers_of_derived_types_are_as_their_base(take: str) -> None:
    for derived, plain in ((Whole(3), 3), (Real(.5), .5), (Both(1j), 1j), (Named.THREE, 3)):
        out, want = TAKES[take](derived), TAKES[take](plain)
        assert repr(out) == repr(want) and getattr(out, "aval", 0) == getattr(want, "aval", 0)


def test_derived_numbers_are_written_into_programs_as_plain_ones() -> None:
    assert "Named" not in str(calque.make_jaxpr(lambda x: x + Named.THREE)(1))
    out = calque.jit(lambda x: (x, Named.THREE, Real(.5)))(Whole(2))
    assert [float(o) for o in out] == [2, 3, .5] and out[1].dtype == "int32"
    with pytest.raises(OverflowError, match="Fix:"):
        calque.jit(lambda x: x)(Whole(BIG))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "bool", "int32", "uint8"])
def test_wide_numbers_of_numpy_are_what_is_asked_for(dtype: str) -> None:
    """Without x64 they would be cut first: 2**63 as a float was 0."""
    wide = jnp.dtype(dtype)
    for x in (np.uint64(2**63), np.int64(2**40 + 3), np.int64(-2**33)):
        want = np.asarray(x).astype(wide)
        for y in (jnp.asarray(x, dtype), jnp.array(x, dtype), lax.convert_element_type(x, dtype),
                  calque.jit(lambda x=x: lax.convert_element_type(x, dtype))()):
            assert y.dtype == wide
            np.testing.assert_array_equal(y, want)
        np.testing.assert_array_equal(jnp.asarray(np.array([x]), dtype), want[None])


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_predicates_are_numbers_of_numpy(dtype: str) -> None:
    x = jnp.ones((), dtype)
    with pytest.raises(TypeError, match="Pred type must be either boolean or number"):
        lax.cond(x, lambda x: x, lambda x: -x, 1.0)
    with pytest.raises(TypeError, match="Index type must be an integer"):
        lax.switch(x, [lambda x: x, lambda x: -x], 1.0)
