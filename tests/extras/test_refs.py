"""References: what jax 0.10.2 was seen to do with them, eagerly and inside every transformation."""
from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from support.harness import numpys

import calque
import calque.numpy as jnp
from calque import lax


def ref(n: int = 3) -> Any:
    return calque.new_ref(jnp.arange(float(n)))


def same(x: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(np.asarray(x[...] if isinstance(x, calque.Ref) else x),
                                  np.asarray(wanted))


# ---- outside of transformations
def test_reading_and_writing() -> None:
    r = calque.new_ref(jnp.arange(12.0).reshape(3, 4))
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    for index in [..., (), 1, -1, (1, 2), slice(1, None), (slice(None), slice(None, None, 2)),
                  (..., 1), (np.array([0, 2]), np.array([1, 1])), (slice(None), np.array([3, 0]))]:
        same(r[index], a[index])
        value = np.full(a[index].shape, 7.0, np.float32)
        same(calque.ref.swap(r, index, value), a[index])
        a[index] = value
        same(r, a)
        r[index] += 1.0
        a[index] += 1.0
        same(r, a)
        r[index] = a[index] = np.random.default_rng(0).normal(size=a[index].shape).astype("f")
    assert (r.shape, r.ndim, r.size, r.dtype, len(r)) == ((3, 4), 2, 12, np.float32, 3)
    same(calque.ref.get(r), a)
    same(calque.ref.get(r, calque.ds(1, 2)), a[1:3])


def test_one_value_is_never_two() -> None:
    x = jnp.arange(3.0)
    a, b = calque.new_ref(x), calque.new_ref(x)
    before = a[...]
    a[0] = 5.0
    b[1] = 6.0
    same(x, [0, 1, 2])
    same(before, [0, 1, 2])
    same(a, [5, 1, 2])
    same(b, [0, 6, 2])
    same(copy.deepcopy(a), a[...])
    same(pickle.loads(pickle.dumps(a)), a[...])
    assert a == a and a != b and len({a, b}) == 2 and repr(a) == "Ref([5., 1., 2.], dtype=float32)"


def test_positions_outside() -> None:
    """A computed position is moved inside, those of index arrays are left out, as in jax."""
    r = ref()
    calque.ref.addupdate(r, jnp.array([0, 0, 7]), jnp.ones(3))
    same(r, [2, 1, 2])
    write = calque.jit(lambda r, i: r.addupdate(jnp.float32(10), i))
    write(r, 9)
    same(r, [2, 1, 12])
    write(r, -3)
    same(r, [12, 1, 12])
    with pytest.raises(ValueError, match="index 3 is outside an axis of 3"):
        r[3]


def test_slices_with_computed_starts() -> None:
    """They stay slices beside each other and beside index arrays; a start is moved inside."""
    a = np.arange(24).reshape(4, 6)

    @calque.jit
    def read(i: Any, j: Any) -> list[Any]:
        r, rows = calque.new_ref(jnp.asarray(a)), jnp.array([3, 0, 1])
        return [r[calque.ds(i, 2), calque.ds(j, 3)], r[calque.ds(i, 2), j], r[i, calque.ds(j, 3)],
                r[rows, calque.ds(j, 3)], r[..., calque.ds(j, 2, 3)], r[calque.ds(i, 0)],
                r[calque.ds(i, 2), ..., calque.ds(0, 2)], r[calque.ds(i, 3, 1), ::2]]

    for i, j in [(0, 0), (1, 2), (2, 3), (9, 9)]:
        u, v, w = min(i, 2), min(j, 3), min(j, 2)
        k, m = min(i, 3), min(j, 5)
        wanted = [a[u:u + 2, v:v + 3], a[u:u + 2, m], a[k, v:v + 3], a[[3, 0, 1], v:v + 3],
                  a[:, w:w + 4:3], a[:0], a[u:u + 2, 0:2], a[min(i, 1):min(i, 1) + 3, ::2]]
        for have, want in zip(read(i, j), wanted, strict=True):
            same(have, want)

    @calque.jit
    def write(r: Any, i: Any, j: Any) -> None:
        r[calque.ds(i, 2), calque.ds(j, 3)] = jnp.full((2, 3), -1, jnp.int32)
        r.addupdate(jnp.array([[5], [7]], jnp.int32), (jnp.array([0, 0]), calque.ds(j, 1)))

    r = calque.new_ref(jnp.asarray(a))
    write(r, 1, 2)
    a[1:3, 2:5] = -1
    a[0, 2] += 12
    same(r, a)
    for wrong in [calque.ds(3, 2), calque.ds(-1, 2), calque.ds(0, 5), calque.ds(0, 2, 4)]:
        with pytest.raises(ValueError, match="axis of 4"):
            r[wrong]


def test_slices_with_computed_starts_of_what_is_written() -> None:
    """What is read before a write is what was there, where both overlap, too."""
    dtypes = (np.float32, np.int8, np.bool_, np.complex64)
    arrays = [(np.arange(48).reshape(8, 6) % 7).astype(dtype) for dtype in dtypes]

    def run(x: Any, i: Any) -> tuple[Any, Any]:
        r = calque.new_ref(x + x if x.dtype != bool else ~x)
        before = calque.ref.swap(r, (calque.ds(i, 5), calque.ds(1, 3)),
                                 r[calque.ds(i + 1, 5), calque.ds(2, 3)])
        r[calque.ds(i, 2)] = r[calque.ds(i + 1, 2)]
        return before, r[...]

    every = calque.jit(lambda xs, i: [run(x, i) for x in xs])
    for i in (0, 2):
        for a, found in zip(arrays, every(arrays, i), strict=True):
            want = a + a if a.dtype != np.bool_ else ~a
            before = want[i:i + 5, 1:4].copy()
            want[i:i + 5, 1:4] = want[i + 1:i + 6, 2:5].copy()
            want[i:i + 2] = want[i + 1:i + 3].copy()
            for have, wanted in zip(found, (before, want), strict=True):
                same(have, wanted)


@pytest.mark.parametrize("wrong, kind, text", [
    (lambda r: r.__setitem__(..., 1.0), ValueError, "Expected shape: \\(3,\\)"),
    (lambda r: r.__setitem__(0, 1), ValueError, "`swap`. Ref dtype: float32. Value dtype: int32"),
    (lambda r: r.addupdate(jnp.float16(1), 0), ValueError, "`addupdate`.* Value dtype: float16"),
    (lambda r: r.__setitem__(0, ref()), ValueError, "cannot hold a reference"),
    (lambda r: r.__setitem__(0, [1.0]), TypeError, "which is no array"),
    (lambda r: r[0, 0], ValueError, "2 indices for a reference"),
    (lambda r: r["a"], TypeError, "indexed by 'a'"),
    (lambda r: r + 1, TypeError, "unsupported operand"),
    (lambda r: jnp.sin(r), TypeError, "requires ndarray or scalar arguments"),
    (lambda r: np.asarray(r), TypeError, "read it: ref"),
    (lambda r: calque.new_ref([1.0]), TypeError, "type <class 'list'>"),
    (lambda r: calque.new_ref(r), TypeError, "which is no array"),
    (lambda r: calque.ref.get(3.0, 0), ValueError, "which is no reference"),
    (lambda r: calque.grad(lambda q: q[...].sum())(r), ValueError, "that is differentiated by it"),
    (lambda r: calque.vjp(lambda x, q: q.__setitem__(0, x) or x, 1.0, r), ValueError,
     "that is differentiated by it"),
    (lambda r: calque.vjp(lambda x, a, b: x, 1.0, r, r), ValueError, "appeared at both a and b"),
    (lambda r: lax.cond(True, lambda a, b: 0, lambda a, b: 0, r, r), ValueError,
     "for cond the .* appeared at both a and b"),
    (lambda r: lax.scan(lambda c, x: (c, x), (r, r), jnp.ones(2)), ValueError,
     r"appeared at both c\[0\] and c\[1\]"),
    (lambda r: calque.jit(lambda q: q)(r), ValueError, "passed in as the argument q"),
    (lambda r: calque.jit(calque.new_ref)(1.0), ValueError, "was created on line"),
    (lambda r: calque.jit(lambda a, b: 0)(r, r), ValueError, "appeared at both a and b"),
    (lambda r: calque.jit(lambda a: r[0] + a[0])(r), ValueError,
     "both closed over and passed as the argument a"),
    (lambda r: lax.scan(lambda c, x: (c, x), r, jnp.ones(2)), ValueError, "cannot be returned"),
    (lambda r: lax.scan(lambda c, x: (c, x), 0, r), ValueError, r"at output tree path result\[1\]"),
    (lambda r: lax.fori_loop(0, 2, lambda i, c: c, r), ValueError, "cannot be returned"),
    (lambda r: lax.cond(True, lambda q: q, lambda q: q, r), ValueError, "traced for cond returned"),
    (lambda r: calque.vmap(lambda x: r.__setitem__(0, x))(jnp.ones(2)), ValueError,
     "vmapped value on an unbatched array reference"),
    (lambda r: calque.vmap(calque.jit(lambda x: r.__setitem__(0, 1.0)))(jnp.ones(2)), ValueError,
     "vmapped value on an unbatched array reference"),
    (lambda r: calque.grad(lambda x: r.__setitem__(0, x) or x)(1.0), ValueError,
     "Move the array reference to be an argument of the differentiated"),
])
def test_what_is_refused(wrong: Any, kind: Any, text: str) -> None:
    r = ref()
    with pytest.raises(kind, match=text):
        wrong(r)
    same(r, [0, 1, 2])


def test_frozen() -> None:
    r = ref()
    same(calque.freeze(r), [0, 1, 2])

    def late(x: Any) -> Any:
        inner = calque.new_ref(x)
        calque.freeze(inner)
        return inner[...]

    with pytest.raises(ValueError, match="after it was frozen"):
        calque.jit(late)(1.0)


# ---- jit
def test_jit() -> None:
    r, count = ref(), calque.new_ref(0)
    traces = []

    @calque.jit
    def step(refs: dict[str, Any], x: Any) -> Any:
        traces.append(1)
        count[...] += 1
        old = calque.ref.swap(refs["r"], 0, x)
        own = calque.new_ref(x)
        own[...] += old
        return own[...], refs["r"][...]

    for i in range(3):
        total, values = step({"r": r}, jnp.float32(i + 10))
    assert len(traces) == 1 and int(count[...]) == 3
    same(total, 23)
    same(values, [12, 1, 2])
    same(r, [12, 1, 2])
    other = calque.new_ref(jnp.ones(3))
    same(step({"r": other}, jnp.float32(4))[0], 5)
    same(other, [4, 1, 1])
    assert calque.eval_shape(step, {"r": r}, 1.0)[1].shape == (3,) and int(count[...]) == 4
    shown = calque.make_jaxpr(lambda q: q[0] + 1)(r)
    assert "slice" in str(shown)


def test_jit_in_jit_and_static() -> None:
    r = ref()

    @calque.jit
    def inner(q: Any, x: Any) -> Any:
        q[1] = x
        r[2] = x + 1
        return q[...]

    @calque.jit
    def outer(x: Any) -> Any:
        q = calque.new_ref(jnp.zeros(2))
        first = inner(q, x)
        return first, inner(q, 2 * x), r[2]

    first, second, last = outer(3.0)
    same(first, [0, 3])
    same(second, [0, 6])
    same(last, 7)
    same(r, [0, 1, 7])
    calque.jit(lambda q: q.__setitem__(0, 5.0), static_argnums=0)(r)
    calque.jit(lambda q: q.addupdate(1.0, 0), donate_argnums=0)(r)
    same(r, [6, 1, 7])


# ---- derivatives
def test_gradients_through_references() -> None:
    def powers(x: Any) -> Any:
        r = calque.new_ref(x)
        r[...] *= 2.0
        r[0] += 1.0

        def body(i: Any, c: Any) -> Any:
            r[...] = r[...] * x
            return c + r[1]

        total = lax.fori_loop(0, 3, body, 0.0)
        lax.cond(x[0] > 0, lambda: r.addupdate(x[1], 0), lambda: None)
        return (r[...] ** 2).sum() + total

    x = np.array([1.5, -0.5])
    with calque.enable_x64():
        steps = np.eye(2) * 1e-6
        value = numpys(powers)
        wanted = [(float(value(x + s)) - float(value(x - s))) / 2e-6 for s in steps]
        np.testing.assert_allclose(calque.grad(powers)(jnp.asarray(x)), wanted, rtol=1e-6)
        for slope in calque.jit(lambda x: (
                calque.jacfwd(powers)(x), calque.grad(calque.checkpoint(powers))(x)))(x):
            np.testing.assert_allclose(slope, wanted, rtol=1e-6)


def test_values_leave_a_gradient_by_reference() -> None:
    def loss(x: Any, seen: Any) -> Any:
        seen[...] = lax.stop_gradient(x) * 2
        return (x ** 2).sum()

    r = ref()
    same(calque.grad(loss)(jnp.ones(3), r), [2, 2, 2])
    same(r, [2, 2, 2])
    same(calque.jit(calque.grad(loss))(jnp.full(3, 2.0), r), [4, 4, 4])
    same(r, [4, 4, 4])


@calque.custom_vjp
def stash(r: Any, x: Any) -> Any:
    return x


def _bwd(r: Any, ct: Any) -> Any:
    r[...] = ct
    return None, ct


stash.defvjp(lambda r, x: (x, r), _bwd)


def test_cotangents_leave_by_reference() -> None:
    def f(x: Any, r: Any) -> Any:
        return stash(r, jnp.sin(x)) * 3

    for way in (calque.grad(f), calque.jit(calque.grad(f)), calque.grad(calque.jit(f))):
        r = calque.new_ref(0.0)
        np.testing.assert_allclose(way(1.0, r), 3 * np.cos(1), rtol=1e-6)
        same(r, 3)


def test_with_refs() -> None:
    _, back = calque.vjp(lambda a, b: (a["x"] * b).sum(), {"x": jnp.ones(3)}, jnp.arange(3.0))
    r = calque.new_ref(jnp.ones(3))
    for _ in range(2):
        found = back.with_refs({"x": r}, calque.ad.GradValue())(1.0)
    assert found[0] == {"x": calque.ad.GradRef()}
    same(found[1], [1, 1, 1])
    same(r, [1, 3, 5])
    assert back.with_refs(*[{"x": calque.ad.DontWant()}, r])(1.0)[0]["x"] == calque.ad.DidntWant()
    with pytest.raises(TypeError, match="with_refs takes references"):
        back.with_refs({"x": 1.0}, r)
    with pytest.raises(ValueError, match="cannot be added"):
        back.with_refs({"x": calque.new_ref(1.0)}, calque.ad.GradValue())(1.0)


# ---- vmap
def test_vmap() -> None:
    rows, fixed = calque.new_ref(jnp.zeros((2, 3))), ref()

    def one(r: Any, x: Any, q: Any) -> Any:
        own = calque.new_ref(0.0)
        own[...] = x
        r[0] = x + q[1]
        r[1] += own[...]
        return fixed[jnp.int32(x)]

    outs = calque.vmap(one, in_axes=(1, 0, None))(rows, jnp.arange(3.0), fixed)
    same(outs, [0, 1, 2])
    same(rows, [[1, 2, 3], [0, 1, 2]])
    calque.jit(calque.vmap(lambda r, x: r.addupdate(x)))(fixed, jnp.ones(3))
    same(fixed, [1, 2, 3])
    with pytest.raises(ValueError, match="appeared at both"):
        calque.vmap(lambda a, b: 0.0)(rows, rows)


# ---- loops and branches
def test_loops_and_branches() -> None:
    r, log = ref(), calque.new_ref(jnp.zeros(4))

    @calque.jit
    def program(xs: Any, n: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            x[...] *= 2.0
            log[jnp.int32(c)] = x[...]
            return c + 1, r[1]

        count, read = lax.scan(step, 0.0, xs)
        lax.while_loop(lambda c: r[0] + c < n, lambda c: r.addupdate(1.0, 0) or c + 1, 0.0)
        lax.fori_loop(0, n, lambda i, c: r.__setitem__(2, c) or c + 1, 10.0)
        lax.switch(n, [lambda q: q.__setitem__(1, 7.0), lambda q: None,
                       lambda q: log.__setitem__(0, -1.0)], r)
        return count, read

    xs = calque.new_ref(jnp.array([1.0, 2.0, 3.0, 4.0]))
    count, read = program(xs, 5)
    same(count, 4)
    same(read, [1, 1, 1, 1])
    same(xs, [2, 4, 6, 8])
    same(log, [-1, 4, 6, 8])
    same(r, [3, 1, 14])
    lax.scan(lambda c, x: (c, x.__setitem__(..., c)), 3.0, r, reverse=True)
    same(r, [3, 3, 3])
    lax.cond(False, lambda q: q.__setitem__(0, 9.0), lambda q: q.__setitem__(1, 8.0), r)
    same(r, [3, 8, 3])
    with calque.disable_jit():
        program(xs, 1)
    same(r, [3, 8, 10])
    with pytest.raises(NotImplementedError, match="cond_fun writes"):
        lax.while_loop(lambda c: r.__setitem__(0, c) or c < 3, lambda c: c + 1, 0.0)


def test_a_reference_does_not_outlive_its_trace() -> None:
    kept = []
    calque.jit(lambda x: kept.append(calque.new_ref(x)))(1.0)
    with pytest.raises(calque.errors.UnexpectedTracerError):
        kept[0][...]


# ---- ahead of calls
def test_lowered_and_compiled_with_references() -> None:
    """Given, closed over and described references, run twice, against the function called."""
    outer = calque.new_ref(jnp.zeros(3))

    @calque.jit
    def f(ref: Any, x: Any) -> Any:
        ref[...] += x
        outer[1] += ref[0]
        return ref[...].sum()

    given = calque.new_ref(jnp.arange(3.0))
    described = calque.ShapeDtypeStruct((3,), "float32", is_ref=True)
    for like in (given, described):
        compiled = f.lower(like, 1.0).compile()
        before = np.asarray(given[...]), np.asarray(outer[...])
        for k in (1, 2):
            total = compiled(given, 1.0)
            np.testing.assert_array_equal(given[...], before[0] + k)
            assert float(total) == (before[0] + k).sum()
        assert float(outer[1]) == before[1][1] + 2 * before[0][0] + 3
    with pytest.raises(TypeError, match="Argument types differ"):
        compiled(calque.new_ref(jnp.zeros(4)), 1.0)


def test_empty_and_freed_references() -> None:
    @calque.jit
    def f(x: Any) -> Any:
        ref = calque.empty_ref(calque.ShapeDtypeStruct((), "float32"))
        ref[...] = 2 * x
        found = ref[...]
        calque.free_ref(ref)
        return found

    assert (float(f(3.0)), float(calque.grad(f)(3.0))) == (6, 2)
    with pytest.raises(ValueError, match="after it was frozen"):
        calque.jit(lambda x: (r := calque.new_ref(x), calque.free_ref(r), r[...])[2])(1.0)


def test_one_reference_twice_among_the_arguments_of_a_custom_rule():
    @calque.custom_vjp
    def f(x_ref, y_ref):
        return x_ref[...]

    f.defvjp(lambda x_ref, y_ref: (x_ref[...], None), lambda _, ct: (None, None))
    ref = calque.new_ref(1.0)
    with pytest.raises(ValueError, match="appeared at both x_ref and y_ref"):
        f(ref, ref)


def test_parts_of_references_are_arguments():
    """Of what takes references: the part is read and written there, as in the function around."""
    def body(part):
        part[...] = part[...] * 2
        return part[0]

    for of in (lambda f: f, calque.jit, calque.checkpoint,
               lambda f: lambda part: lax.cond(True, f, f, part)):
        ref = calque.new_ref(jnp.arange(6.0))
        assert float(of(body)(ref.at[2:4])) == 4.0
        np.testing.assert_array_equal(ref[...], [0, 1, 4, 6, 4, 5])
        of(body)(ref.at[jnp.array([0, 1])])
        of(body)(ref.at[1:].at[3:])
        of(body)(ref.reshape(3, 2).at[2])
        np.testing.assert_array_equal(ref[...], [0, 2, 4, 6, 16, 20])


def test_rows_of_a_reference_with_more_rows_than_columns():
    ref = calque.new_ref(jnp.arange(6.0).reshape(3, 2))
    ref[2] = ref[2] + 1
    ref[..., 1] = ref[..., 0]
    ref.addupdate(jnp.ones(2), 2)
    np.testing.assert_array_equal(ref[...], [[0, 0], [2, 2], [6, 6]])
    with pytest.raises(ValueError, match="index 3 is outside an axis of 3"):
        ref[3]
    with pytest.raises(ValueError, match="index 2 is outside an axis of 2"):
        ref[..., 2]


def test_what_is_read_is_an_array_where_numbers_are_differentiated() -> None:
    def f(x: Any) -> Any:
        made = calque.new_ref(jnp.zeros_like(x))
        made[...] = x
        return made[...] + 0 * calque.new_ref(x)[...], calque.new_ref(x)[...]

    for values in (f(1.5), *calque.jvp(f, (1.5,), (2.0,)), calque.vjp(f, 1.5)[0],
                   calque.vjp(f, 1.5)[1]((jnp.ones(()), jnp.ones(())))):
        assert all(isinstance(v, calque.Array) for v in values)
    for g in (f, calque.jit(f)):
        calque.test_util.check_grads(g, (1.5,), 2, ["fwd", "rev"])
    assert all(isinstance(v, calque.Array) for v in calque.jvp(jnp.asarray, (1.0,), (2.0,)))
