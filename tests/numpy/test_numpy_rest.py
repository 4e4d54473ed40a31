"""pad, einsum, polynomials, vectorize, ufunc methods, interpolation, bits, windows, files: against
NumPy.  Cases share compiled programs.
"""
from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import both_ways, by_each

import calque
import calque.numpy as jnp
from calque import flatten_util, ops
from calque.core.errors import ConcretizationTypeError

R = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
I = np.arange(1, 4)


def close(out: Any, want: Any, message: str = "", rtol: float = 2e-5) -> None:
    """2e-5 covers sums of a few dozen float32 terms."""
    want = np.asarray(want)
    assert out.shape == want.shape, message
    np.testing.assert_allclose(np.asarray(out), want, rtol=rtol, atol=rtol, err_msg=message)


WIDTHS = ((1, 2), (0, 3), (2, 0))
PADS: list[tuple[Any, Any, dict[str, Any]]] = [
    (R, WIDTHS, {}), (R, WIDTHS, {"constant_values": ((1, 2), (3, 4), (5, 6))}),
    *[(R, WIDTHS, {"mode": m}) for m in ("edge", "reflect", "symmetric", "wrap", "maximum", "mean",
                                         "median", "minimum", "linear_ramp")],
    *[(R, WIDTHS, {"mode": m, "reflect_type": "odd"}) for m in ("reflect", "symmetric")],
    *[(I, 9, {"mode": m, "reflect_type": t}) for m in ("reflect", "symmetric")
      for t in ("even", "odd")],
    (R, WIDTHS, {"mode": "linear_ramp", "end_values": ((1, 2), (3, 4), (5, 6))}),
    (R, WIDTHS, {"mode": "mean", "stat_length": ((1, 2), (1, 1), (2, 3))}),
    (I, 40, {"mode": "wrap"}), (I[:1], 3, {"mode": "reflect"}), (I, (2, 1), {"mode": "mean"}),
    (R, 0, {"mode": "edge"}), (np.zeros((0, 2), np.float32), 1, {})]


@pytest.mark.parametrize("jit, pads", by_each(PADS, 0.25))
def test_pad(jit: Any, pads: list[tuple[Any, Any, dict[str, Any]]]) -> None:
    got = jit(lambda xs: [jnp.pad(x, w, **k) for x, (_, w, k) in zip(xs, pads)])(
        [x for x, *_ in pads])
    for (x, w, k), out in zip(pads, got):
        close(out, np.pad(x, w, **k), f"{np.shape(x)} {w} {k}")


def test_pad_by_function() -> None:
    def fill(row: Any, width: Any, axis: int, options: Any) -> Any:
        return row.at[:width[0]].set(9)

    def fill_numpy(row: Any, width: Any, axis: int, options: Any) -> None:
        row[:width[0]] = 9

    close(jnp.pad(R[0], ((1, 0), (0, 2)), fill), np.pad(R[0], ((1, 0), (0, 2)), fill_numpy))


EINSUMS: list[Any] = [
    ("ij,jk->ik", R[0], R[0].T), ("ij,jk", R[0], R[0].T), ("ii->i", R[0, :, :4]),
    ("ii", R[0, :, :4]), ("iij->j", R[0, :, :4, None] * I),
    ("ij->ji", R[0]), ("ij->", R[0]), ("...ij,...kj->...ik", R, R[:1]), ("i,j->ij", R[0, 0], I),
    ("i,i->i", I, I), ("ij,kj,kl->il", R[0], R[1], R[2]), ("a,b,c->", I, I, I),
    (",ij->ij", np.float32(2), R[0]), ("ij,jk->ik", R[0][:, :1], R[0, :, :4].T[:3]),
    ("i,i,i->", I, I, I), ("ij,j->i", np.zeros((0, 3), np.float32), I),
    ("ij,j->i", np.zeros((3, 0), np.float32), I[:0]), ("ijk,ljk,ijm->lm", R, R, R),
    ("ab,ac,ad,ae,af,ag,ah,ai->bcdefghi", *[R[0, :2, :2]] * 8)]


@pytest.mark.parametrize("jit, cases", by_each(EINSUMS, 0.25))
def test_einsum(jit: Any, cases: list[Any]) -> None:
    got = jit(lambda: [jnp.einsum(*case) for case in cases])()
    for case, out in zip(cases, got):
        close(out, np.einsum(*case), case[0], 5e-5)


def test_forms_of_einsum() -> None:
    close(jnp.einsum(R[0], [0, 1], R[0], [2, 1], [2, 0]), R[0] @ R[0].T)
    path, info = jnp.einsum_path("ij,jk,kl->il", R[0], R[0].T, R[0, :, :1])
    assert path == [(1, 2), (0, 1)] and info.opt_cost < info.naive_cost
    close(jnp.einsum("ij,jk,kl->il", R[0], R[0].T, R[0, :, :1], optimize=[(0, 1), (0, 1)]),
          R[0] @ R[0].T @ R[0, :, :1])
    grads = calque.grad(lambda x: jnp.einsum("ij,ij->", x, x))(R[0])
    close(grads, 2 * R[0])


def test_sums_of_tables_of_coefficients() -> None:
    """A polynomial's coefficients may be rows: shorter tables are added to the last rows."""
    a, b = np.arange(6.0).reshape(3, 2), np.array([[10.0, 20]])
    for f, sign in ((jnp.polyadd, 1), (jnp.polysub, -1)):
        want = a.copy()
        want[2:] += sign * b
        np.testing.assert_array_equal(f(jnp.asarray(a), jnp.asarray(b)), want)
        np.testing.assert_array_equal(f(jnp.asarray(b), jnp.asarray(a)), sign * want)
        want = a.copy()
        want[2:] += sign * 5
        np.testing.assert_array_equal(f(jnp.asarray(a), jnp.array([5.0])), want)


@pytest.mark.parametrize("jit, chosen", by_each(range(15), 0.25))
def test_polynomials(jit: Any, chosen: list[int]) -> None:
    p, q = R[0, 0], np.array([2.0, 1, 3], np.float32)
    long = np.arange(50, dtype=np.float32) / 50

    def run() -> list[Any]:
        return [jnp.polyval(p, R), jnp.polyval(long, p / 4), jnp.polyadd(p, q), jnp.polysub(q, p),
                jnp.polymul(p, q), *jnp.polydiv(p, q), jnp.polyder(p, 2), jnp.polyint(p, 2, 3),
                jnp.poly(p), jnp.vander(q, 4), jnp.vander(I, increasing=True),
                jnp.polyfit(long, 3 * long - 1, 1), *jnp.polydiv(long[1:], q)]

    wide, far = p.astype(np.float64), long.astype(np.float64)
    quotient, rest = np.polydiv(far[1:], q)
    want = [np.polyval(wide, R), np.polyval(far, wide / 4), np.polyadd(p, q), np.polysub(q, p),
            np.polymul(p, q), np.polydiv(wide, q)[0], None, np.polyder(p, 2),
            np.polyint(wide, 2, 3), np.poly(wide), np.vander(q, 4), np.vander(I, increasing=True),
            [3, -1], quotient, None]
    for i, out in zip(chosen, jit(lambda: [*map(run().__getitem__, chosen)])(), strict=True):
        if want[i] is not None:
            close(out, want[i], str(i))
        elif i == 6:  # the remainder keeps u's length; its leading zeros are rounding errors
            np.testing.assert_allclose(np.asarray(out)[-2:], np.polydiv(wide, q)[1], rtol=1e-4)


def test_roots() -> None:
    roots = np.asarray(jnp.roots(np.array([0.0, 1, -6, 11, -6, 0], np.float32)))
    np.testing.assert_allclose(np.sort(roots.real), [0, 1, 2, 3], atol=1e-4)  # a condition of 100


@pytest.mark.parametrize("jit, chosen", by_each(range(21), 0.25))
def test_products_and_statistics(jit: Any, chosen: list[int]) -> None:
    a, b, w = R[0], R[1], np.array([1, 2, 1, 3, 1])
    x = np.linspace(-3, 5, 7, dtype=np.float32)
    places, values = np.array([0.0, 1, 3], np.float32), np.array([2.0, 0, 5], np.float32)
    turns = np.cumsum(R[0] * 4, axis=1)
    cases: list[Callable[[Any], Any]] = [
        lambda n: n.kron(a, b[:2, :3]), lambda n: n.cross(R[:, :, :3], R[:, :, 2:]),
        lambda n: n.cross(R[:3, :, 0], R[:3, :, 1], axis=0), lambda n: n.cov(a),
        lambda n: n.cov(a, rowvar=False), lambda n: n.cov(a[0], a[1], bias=True),
        lambda n: n.cov(a, fweights=w), lambda n: n.cov(a, aweights=w * 1.0, ddof=0),
        lambda n: n.corrcoef(a), lambda n: n.interp(x, places, values),
        lambda n: n.interp(x, places, values, left=-1, right=9),
        lambda n: n.interp(x, places, values, period=4.0), lambda n: n.unwrap(turns),
        lambda n: n.unwrap(turns, axis=0, period=3.0, discont=2.0), lambda n: n.resize(a, (3, 9)),
        lambda n: n.block([[a, b], [n.zeros((1, 10))]]), lambda n: n.bartlett(7),
        lambda n: n.blackman(6), lambda n: n.hamming(5), lambda n: n.hanning(1),
        lambda n: n.kaiser(7, 3.3)]
    for i, out in zip(chosen, jit(lambda: [cases[k](jnp) for k in chosen])(), strict=True):
        close(out, cases[i](np), str(i))


@pytest.mark.parametrize("jit, chosen", by_each(range(12), 0.3))
def test_integers_and_bits(jit: Any, chosen: list[int]) -> None:
    m, n = np.array([0, -12, 18, 7]), np.array([0, 18, -12, 0])
    small = np.arange(24).reshape(4, 6) % 3
    octets = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    floats = np.array([0, -0.3, 8, 65504, 3e-5], np.float32)
    cases: list[Callable[[Any], Any]] = [
        lambda k: k.gcd(m, n), lambda k: k.lcm(m, n), lambda k: k.packbits(small),
        lambda k: k.packbits(small, axis=1, bitorder="little"), lambda k: k.unpackbits(octets),
        lambda k: k.unpackbits(octets, axis=0, count=12),
        lambda k: k.unpackbits(octets, axis=1, count=-3, bitorder="little"),
        lambda k: k.frexp(floats)[0], lambda k: k.frexp(floats)[1],
        lambda k: k.frexp(floats.astype(np.float16))[0], lambda k: k.spacing(floats[1:]),
        lambda k: k.spacing(floats[[0, 1, 2, 4]].astype(np.float16))]
    for i, out in zip(chosen, jit(lambda: [cases[k](jnp) for k in chosen])(), strict=True):
        np.testing.assert_array_equal(np.asarray(out), cases[i](np), str(i))


def test_vectorize_and_its_kin() -> None:
    calls = []

    def pair(x: Any, y: Any) -> tuple[Any, Any]:
        calls.append(1)
        return x.sum(), x * y

    total, scaled = jnp.vectorize(pair, signature="(n),()->(),(n)")(R, R[0, :, 0])
    close(total, R.sum(2))
    close(scaled, R * R[0, :, 0][:, None])
    assert len(calls) == 1
    close(jnp.vectorize(lambda x, n: x * n, excluded={1})(R, 2), R * 2)
    close(jnp.vectorize(lambda x, y: x if y is None else x + y)(R, None), R)
    with pytest.raises(ValueError, match=r"Cannot pass None at locations \{1\} with signature="):
        jnp.vectorize(lambda x, y: x, signature="(k),(k)->(k)")(R, None)
    close(jnp.apply_along_axis(lambda x: jnp.outer(x[:2], x[:3]), 1, R),
          np.apply_along_axis(lambda x: np.outer(x[:2], x[:3]), 1, R))
    close(jnp.apply_over_axes(jnp.sum, R, [0, 2]), np.apply_over_axes(np.sum, R, [0, 2]))
    close(jnp.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=int),
          np.fromfunction(lambda i, j: i * 10 + j, (2, 3), dtype=int))


@pytest.mark.parametrize("jit, chosen", by_each(range(14), 0.25))
def test_ufunc_methods(jit: Any, chosen: list[int]) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * 2 + y

    ours, theirs = jnp.frompyfunc(f, 2, 1), np.frompyfunc(f, 2, 1)
    where, places = R > 0, np.array([0, 2, 1, 1])
    cases: list[tuple[Callable[[], Any], Any]] = [
        (lambda: jnp.add.reduce(R, axis=(0, 1)), np.add.reduce(R, axis=(0, 1))),
        (lambda: jnp.subtract.reduce(R, axis=1, keepdims=True),
         np.subtract.reduce(R, axis=1, keepdims=True)),
        (lambda: jnp.maximum.reduce(R, axis=None, initial=0.0, where=where), R.max()),
        (lambda: jnp.bitwise_xor.reduce(I), 0), (lambda: jnp.logical_and.reduce(I), True),
        (lambda: jnp.logaddexp.reduce(R, axis=2), np.logaddexp.reduce(R, axis=2)),
        (lambda: jnp.subtract.accumulate(R, axis=2), np.subtract.accumulate(R, axis=2)),
        (lambda: jnp.multiply.outer(R, I), np.multiply.outer(R, I)),
        (lambda: jnp.maximum.reduceat(R, places, axis=1), np.maximum.reduceat(R, places, axis=1)),
        (lambda: jnp.subtract.reduceat(I, np.array([0, 2])), [-1, 3]),
        (lambda: jnp.add.at(I, np.array([0, 0]), 1, inplace=False), [3, 2, 3]),
        (lambda: jnp.logaddexp.at(np.zeros(2, np.float32), np.array([0, 0]), 0.0, inplace=False),
         [np.log(3), 0]),
        (lambda: ours.reduce(R, axis=1), theirs.reduce(R, axis=1).astype(np.float32)),
        (lambda: ours(I, 3), I * 2 + 3)]
    for i, out in zip(chosen, jit(lambda: [cases[k][0]() for k in chosen])(), strict=True):
        close(out, cases[i][1], str(i))
    assert isinstance(jnp.add, jnp.ufunc) and not isinstance(jnp.sin, jnp.ufunc)
    assert pickle.loads(pickle.dumps(jnp.add)) is jnp.add
    with pytest.raises(AttributeError, match="nin cannot be set"):
        jnp.add.nin = 3
    assert (jnp.add.nin, jnp.add.nargs, jnp.add.identity) == (2, 2, 0)


@pytest.mark.parametrize("call, error, text", [
    (lambda: jnp.pad(I, -1), ValueError, "negative"),
    (lambda: jnp.pad(I, 1.5), TypeError, "integral"),
    (lambda: jnp.pad(I, 1, "nope"), NotImplementedError, "Unimplemented padding mode"),
    (lambda: jnp.pad(I, 1, "edge", constant_values=1), ValueError, "unsupported keyword"),
    (lambda: jnp.pad(np.zeros(0), 1, "edge"), ValueError, "empty axis"),
    (lambda: jnp.pad([1], 1), TypeError, "requires ndarray"),
    (lambda: jnp.einsum("ij,jk", R[0], R[0]), ValueError, "Size of label"),
    (lambda: jnp.einsum("ij->k", R[0]), ValueError, "did not appear"),
    (lambda: jnp.einsum("ijk", R[0]), ValueError, "correct number of indices"),
    (lambda: jnp.einsum("ij,jk", R[0]), ValueError, "Number of einsum subscripts"),
    (lambda: jnp.gcd(1.0, 2), ValueError, "must be integers"),
    (lambda: jnp.unpackbits(I), TypeError, "unsigned byte"),
    (lambda: jnp.cross(I, R[0, 0]), ValueError, "Dimension must be"),
    (lambda: jnp.block([1, [2]]), ValueError, "Mismatched list depths"),
    (lambda: jnp.cov(R), ValueError, "more than 2 dimensions"),
    (lambda: jnp.polyfit(R[0, 0], R[0, 0], -1), ValueError, "deg >= 0"),
    (lambda: calque.jit(jnp.roots)(R[0, 0]), ConcretizationTypeError, "strip_zeros=False"),
    (lambda: jnp.vectorize(lambda x: x, signature="(n)->(n)")(2), ValueError, "core dimensions"),
    (lambda: jnp.add.at(I, 0, 1), NotImplementedError, "inplace=False"),
    (lambda: jnp.negative.reduce(I), ValueError, "binary ufuncs"),
    (lambda: jnp.fromfile("x"), NotImplementedError, "np.fromfile"),
    (lambda: jnp.ones(2).flat, NotImplementedError, "arr.flatten"),
    (lambda: 1 in jnp.ones((2, 2)), ValueError, "one-dimensional"),
    (lambda: ops.segment_sum(I, I, num_segments=-1), ValueError, "non-negative"),
    (lambda: ops.segment_sum(I, I[:2]), ValueError, "Incompatible shapes"),
    (lambda: ops.segment_sum(I, I * 1.0), TypeError, "integers"),
    (lambda: calque.jit(ops.segment_sum)(I, I), ConcretizationTypeError, "num_segments"),
    (lambda: flatten_util.ravel_pytree([I])[1](I[:2]), ValueError, "expected shape"),
    (lambda: flatten_util.ravel_pytree([I[:1], I[1:] * 1.0])[1](I), TypeError, "expected dtype")])
def test_errors(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@both_ways
def test_segments(jit: Any) -> None:
    ids = np.array([2, 0, -1, 7, 2])
    data = R[0, 0]
    kept = np.array([True, True, False, False, True])
    rows = {"sum": (np.add, 0), "prod": (np.multiply, 1), "max": (np.maximum, -np.inf),
            "min": (np.minimum, np.inf)}

    def run(data: Any, ids: Any) -> list[Any]:
        return [(f(data, ids, 4), f(data, ids, 4, bucket_size=2))
                for f in (getattr(ops, f"segment_{name}") for name in rows)]

    for (name, (ufunc, start)), pair in zip(rows.items(), jit(run)(data, ids)):
        want = np.full(4, start, np.float32)
        ufunc.at(want, ids[kept], data[kept])
        for out in pair:
            close(out, want, name)
    np.testing.assert_array_equal(ops.segment_max(np.array([True, False]), np.array([0, 0]), 2),
                                  [True, False])
    close(ops.index_add(data, slice(0, 2), 1.0), data + np.array([1, 1, 0, 0, 0]))


def test_ravel_pytree() -> None:
    tree = {"a": np.arange(3, dtype=np.int32), "b": (R[0], 1.5)}
    flat, unravel = flatten_util.ravel_pytree(tree)
    assert flat.shape == (24,) and flat.dtype == np.float32
    again = unravel(flat * 2)
    assert again["a"].dtype == np.int32
    np.testing.assert_array_equal(again["a"], [0, 2, 4])
    close(again["b"][0], R[0] * 2)
    empty, back = flatten_util.ravel_pytree(())
    assert empty.shape == (0,) and back(empty) == ()
    # a weak leaf beside others is of its dtype, too: it has a value that theirs need not hold
    narrow, back = flatten_util.ravel_pytree([jnp.int8(3), 500])
    assert narrow.dtype == np.int32 and narrow.tolist() == [3, 500] and back(narrow)[1] == 500
    assert flatten_util.ravel_pytree([jnp.bfloat16(1), 0.1])[0].dtype == np.float32


def test_files_and_protocols() -> None:
    x = jnp.asarray(R[0])
    file = io.BytesIO()
    jnp.save(file, x.astype(jnp.bfloat16))
    file.seek(0)
    assert jnp.load(file).dtype == jnp.bfloat16
    assert x.tobytes() == R[0].tobytes() and x.tobytes("F") == R[0].tobytes("F")
    np.testing.assert_array_equal(x.byteswap(), R[0].byteswap())
    assert 2 in jnp.arange(3) and 5 not in jnp.arange(3)
    assert x.__array_namespace__() is jnp and x.addressable_shards[0].data is x
    assert x.is_fully_replicated and x.is_fully_addressable and x.platform() == "cpu"
    assert x.on_device_size_in_bytes() == x.nbytes == 80
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        np.testing.assert_array_equal(y, x)
    assert f"{x[0, 0]:.3f}" == f"{R[0, 0, 0]:.3f}"
    with jnp.printoptions(precision=1):
        assert str(jnp.array([1.26])) == "[1.3]"
    info = jnp.__array_namespace_info__()
    assert set(info.dtypes(kind="bool")) == {"bool"} and info.default_device() is None


def test_repeat_by_counts() -> None:
    counts = np.array([1, 0, 2, 3])
    close(jnp.repeat(R, counts, axis=1), np.repeat(R, counts, axis=1))
    # traced counts: cut, or filled up with the last element
    cut, full = calque.jit(lambda c: [jnp.repeat(R, c, axis=1, total_repeat_length=n)
                                      for n in (4, 8)])(counts)
    close(cut, np.repeat(R, counts, axis=1)[:, :4])
    close(full, np.repeat(R, [1, 0, 2, 5], axis=1))
    with pytest.raises(ValueError, match="one-dimensional with length 3"):
        jnp.repeat(I, counts)
    with pytest.raises(ConcretizationTypeError):
        calque.jit(lambda c: jnp.repeat(R, c, axis=1))(counts)


def test_arrays_of_keys() -> None:
    """Both words take the value, as in jax 0.10.2."""
    keys = calque.random.split(calque.random.key(1), 3)
    for made, word in ((jnp.zeros_like(keys), 0), (jnp.ones_like(keys), 1),
                       (calque.jit(lambda k: jnp.full_like(k, 100))(keys), 100)):
        assert made.dtype == keys.dtype and made.shape == (3,)
        assert np.asarray(calque.random.key_data(made)).tolist() == [[word, word]] * 3
    assert jnp.isclose(keys, keys[:1]).tolist() == [True, False, False]
    assert calque.device_get(keys) is keys


def test_arrays_of_keys_of_pieces_and_words() -> None:
    keys = calque.random.split(calque.random.key(1), 4)
    mesh = calque.make_mesh((1,), ("x",))
    where = calque.sharding.NamedSharding(mesh, calque.sharding.PartitionSpec("x"))
    for made in (calque.make_array_from_callback((4,), where, lambda index: keys[index]),
                 calque.make_array_from_single_device_arrays((4,), where, [keys])):
        assert made.dtype == keys.dtype
        np.testing.assert_array_equal(calque.random.key_data(made), calque.random.key_data(keys))
    made = jnp.full((2,), 7, keys.dtype)
    assert np.asarray(calque.random.key_data(made)).tolist() == [[7, 7]] * 2


def test_edges_of_grids_diagonals_and_lists() -> None:
    assert jnp.mgrid[()].shape == (0,) and jnp.ogrid[()] == []
    for k in (2**100, -2**100, 2**31 - 1, -3, 3):
        np.testing.assert_array_equal(jnp.eye(3, k=k), np.zeros((3, 3)))
    assert calque.jit(lambda z: jnp.iscomplexobj([z, 1.0]) * 1)(1j) == 1
    assert calque.jit(lambda z: jnp.iscomplexobj([z, 1.0]) * 1)(1.0) == 0


def test_squares_of_complex_numbers_whose_parts_cancel() -> None:
    """Their real part is exactly 0; a product's rounding left 1e8.  Oracle: double precision."""
    rng = np.random.default_rng(0)
    re = (rng.uniform(0.5, 2, 64) * 10.0 ** rng.integers(-8, 12, 64)).astype(np.float32)
    z = re + 1j * np.concatenate([re[:32], np.nextafter(re[32:], np.float32(np.inf))])
    z = z.astype(np.complex64)
    exact = z.astype(complex) ** 2
    for out in (np.asarray(jnp.square(z)), np.asarray(calque.jit(jnp.square)(z))):
        np.testing.assert_allclose(out.real, exact.real, rtol=1e-6, atol=0)
        np.testing.assert_allclose(out.imag, exact.imag, rtol=1e-6, atol=0)


def test_einsum_labels_of_any_kind() -> None:
    """Digits and signs are labels, as in JAX (flax writes '...kh1d')."""
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((2, 3, 4)).astype(np.float32) for _ in range(2))
    np.testing.assert_allclose(jnp.einsum("a1_,a1_->1", x, y), np.einsum("abc,abc->b", x, y),
                               rtol=1e-5)
    np.testing.assert_allclose(jnp.einsum("...1d,...d->...1", x, y[:, 0]),
                               np.einsum("nbd,nd->nb", x, y[:, 0]), rtol=1e-5)
    with pytest.raises(ValueError, match="not a valid symbol"):
        jnp.einsum("a.b->a", x[0])
