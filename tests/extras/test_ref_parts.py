"""Parts of references beside the same of NumPy's arrays, which are views, too."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.sharding import PartitionSpec as P

SHAPE = (4, 2, 6)


def chains(rng: np.random.Generator) -> list[Any]:
    """One to three parts of parts, as functions of a reference and of an array."""
    steps: list[Any] = []
    a = np.zeros(SHAPE, np.float32)
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(5)
        if kind == 0 and a.ndim and a.shape[0] > 1:
            index: Any = slice(int(rng.integers(0, a.shape[0] - 1)), None)
            steps.append((lambda x, i=index: x.at[i], lambda x, i=index: x[i]))
        elif kind == 1 and a.ndim > 1:
            index = (slice(None), int(rng.integers(0, a.shape[1])))
            steps.append((lambda x, i=index: x.at[i], lambda x, i=index: x[i]))
        elif kind == 2:
            order = tuple(int(i) for i in rng.permutation(a.ndim))
            steps.append((lambda x, o=order: x.transpose(o), lambda x, o=order: x.transpose(o)))
        elif kind == 3:
            steps.append((lambda x: x.T, lambda x: x.T))
        else:
            if not a.flags.c_contiguous or not a.ndim:  # NumPy would copy
                continue
            sizes = (-1, a.shape[-1])
            steps.append((lambda x, s=sizes: x.reshape(*s), lambda x, s=sizes: x.reshape(s)))
        a = steps[-1][1](a)
    return steps


def test_parts_of_parts_are_written_through() -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        steps = chains(rng)
        start = rng.normal(size=SHAPE).astype(np.float32)
        a = start.copy()
        part = a
        for _, of_array in steps:
            part = of_array(part)
        new, more = rng.normal(size=(2, *part.shape)).astype(np.float32)

        def write(ref: Any, new: Any, more: Any, steps: Any = steps) -> Any:
            for of_ref, _ in steps:
                ref = of_ref(ref)
            shape = ref.shape, ref.ndim, ref.size, ref.dtype
            before = ref.swap(new)
            ref.addupdate(more)
            assert shape == (new.shape, new.ndim, new.size, np.float32)
            return before, ref.get()

        before = part.copy()
        part[...] = new
        part += more
        for function in (write, calque.jit(write), calque.checkpoint(write)):
            ref = calque.new_ref(jnp.array(start))
            got = function(ref, jnp.array(new), jnp.array(more))
            np.testing.assert_array_equal(got[0], before)
            np.testing.assert_array_equal(got[1], part)
            np.testing.assert_array_equal(np.asarray(ref[...]), a)


def test_the_bits_of_a_reference() -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6) * 1.37
    ref = calque.new_ref(jnp.array(a))
    np.testing.assert_array_equal(ref.bitcast(jnp.int32)[...], a.view(np.int32))
    # the two halves of a number stand in two rows, as what is packed into sublanes does
    halves = a.view(np.int16).reshape(4, 6, 2).transpose(0, 2, 1).reshape(8, 6)
    np.testing.assert_array_equal(ref.bitcast(jnp.int16)[...], halves)
    np.testing.assert_array_equal(ref.bitcast(jnp.int16).bitcast(jnp.float32)[...], a)
    ref.at[1].bitcast(jnp.uint32)[2] = jnp.uint32(0x40490FDB)
    a[1, 2] = np.pi
    np.testing.assert_array_equal(np.asarray(ref[...]), a)
    ref.bitcast(jnp.int16)[1] = jnp.zeros(6, jnp.int16)  # the upper halves of the first row
    assert float(abs(ref[0]).max()) < 1e-35
    with pytest.raises(ValueError, match="two axes"):
        ref.at[0].bitcast(jnp.int16)


def test_a_computed_part_goes_into_jit() -> None:
    @calque.jit
    def double(part: Any) -> None:
        part[...] = part[...] * 2

    @calque.jit
    def f(ref: Any, i: Any) -> Any:
        double(ref.at[calque.ds(i, 2)])
        double(ref.at[i])
        return lax.cond(i > 1, double, lambda part: None, ref.at[calque.ds(0, 1)])

    a = np.arange(10.0, dtype=np.float32).reshape(5, 2) + 1
    ref = calque.new_ref(jnp.array(a))
    f(ref, 2)
    a[2:4] *= 2
    a[2] *= 2
    a[:1] *= 2
    np.testing.assert_array_equal(np.asarray(ref[...]), a)


def test_rows_of_a_part_are_no_rows_of_the_reference() -> None:
    ref = calque.new_ref(jnp.arange(12.0).reshape(4, 3))

    def body(row: Any) -> None:
        row[...] = row[...] * 2

    for f in (lambda v: calque.vmap(body)(v), lambda v: lax.map(body, v),
              lambda v: lax.scan(lambda c, x: (c, body(x)), None, {"a": v}),
              lambda v: lax.fori_loop(0, 2, lambda i, x: x, v),
              lambda v: lax.while_loop(lambda x: False, lambda x: x, v),
              lambda v: lax.scan(lambda c, x: (c, None), v, None, length=2),
              lambda v: calque.shard_map(body, mesh=calque.make_mesh((1,), "x"),
                                         in_specs=P("x"), out_specs=None)(v)):
        for part in (ref.at[1:], ref.T, ref.reshape(2, 6)):
            with pytest.raises(TypeError, match="TransformedRefs are not allowed"):
                f(part)
            with calque.disable_jit(), pytest.raises(TypeError, match="TransformedRefs"):
                calque.lax.scan(lambda c, x: (c, body(x)), None, part)
    np.testing.assert_array_equal(ref[...], np.arange(12.0).reshape(4, 3))
    # whole ones, and parts that are not split, are taken
    calque.shard_map(body, mesh=calque.make_mesh((1,), "x"), in_specs=P(), out_specs=None)(
        ref.at[1:])
    np.testing.assert_array_equal(ref[0], np.arange(3.0))
    assert float(ref[1, 0]) == 6.0


def test_what_parts_are_not() -> None:
    ref = calque.new_ref(jnp.arange(6.0).reshape(2, 3))
    assert [float(x.sum()) for x in ref.at[:, 1:]] == [3.0, 9.0]
    assert len(ref.T) == 3
    for wrong, error in ((lambda: ref.reshape(4, -1), "cannot reshape shape"),
                         (lambda: ref.reshape(-1, -1), "cannot reshape shape"),
                         (lambda: ref.transpose(0, 0), "each axis once"),
                         (lambda: ref.transpose(1), "each axis once")):
        with pytest.raises(ValueError, match=error):
            wrong()
    with pytest.raises(TypeError, match="is no array"):
        np.asarray(ref.at[0])
    with pytest.raises(TypeError, match="unsized"):
        len(ref.at[0, 0])
    shown = calque.eval_shape(lambda r: r.reshape(3, -1)[...], calque.typeof(ref))
    assert shown.shape == (3, 2)
