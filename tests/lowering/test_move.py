"""Large arrays joined, reversed and picked by kernels of ours: the same bytes as NumPy's."""
import ml_dtypes
import numpy as np
import pytest
from support.harness import some_and_more

import calque
import calque.numpy as jnp

RNG = np.random.default_rng(0)
FUNCTIONS = {
    "concatenate 0": lambda n, a, b, c: n.concatenate([a, b]),
    "concatenate 1": lambda n, a, b, c: n.concatenate([a[:300], b], 1),
    "concatenate of three axes": lambda n, a, b, c: n.concatenate([c, c], 1),
    "stack": lambda n, a, b, c: n.stack([b, b]),
    "flip 0": lambda n, a, b, c: n.flip(a, 0),
    "flip 1": lambda n, a, b, c: n.flip(a, 1),
    "flip": lambda n, a, b, c: n.flip(a),
    "flip 0 2": lambda n, a, b, c: n.flip(c, (0, 2)),
    "flip in the middle": lambda n, a, b, c: n.flip(c, 1),
    "flip of a long line": lambda n, a, b, c: n.flip(n.ravel(c)),
    "roll 0": lambda n, a, b, c: n.roll(a, 7, axis=0),
    "roll 1": lambda n, a, b, c: n.roll(a, -13, axis=1),
    "roll of all": lambda n, a, b, c: n.roll(a, 7),
    "pad": lambda n, a, b, c: n.pad(a, ((3, 0), (1, 40)), constant_values=1),
    "pad 0": lambda n, a, b, c: n.pad(a, ((0, 9), (0, 0))),
    "pad 1": lambda n, a, b, c: n.pad(a, ((0, 0), (2, 5)), constant_values=-3),
    "pad in the middle": lambda n, a, b, c: n.pad(c, ((0, 0), (1, 2), (0, 0)), constant_values=2),
    "pad of what moved": lambda n, a, b, c: n.pad(n.flip(a, 1), 1),
    "rolled, padded and flipped": lambda n, a, b, c: n.flip(n.pad(n.roll(a, 3, 0), 2), 1),
    "rolled aside, padded, upside down": lambda n, a, b, c: n.flip(n.pad(
        n.roll(a, -5, 1), ((1, 2), (3, 4)), constant_values=1), 0),
    "padded and turned": lambda n, a, b, c: n.flip(n.pad(n.concatenate([b, a]), ((2, 0), (0, 1)))),
    "flipped twice": lambda n, a, b, c: n.flip(n.flip(a, 0), 1),
    "padded twice": lambda n, a, b, c: n.pad(n.pad(a, 1), ((3, 0), (0, 2)), constant_values=1),
    "joined and joined, then flipped": lambda n, a, b, c: n.flip(n.concatenate(
        [n.concatenate([a, b]), n.flip(a, 1)]), 0),
    "three axes": lambda n, a, b, c: n.flip(n.pad(n.roll(c, 2, 1), ((0, 0), (1, 0), (0, 0))), 2),
    "all": lambda n, a, b, c: n.all(c != 0, axis=(0, 2)),
    "any": lambda n, a, b, c: n.any(a == a[0, 0], axis=0),
}


def arrays(dtype):
    made = [RNG.normal(size=s) * 50 for s in ((301, 97), (300, 97), (13, 31, 257))]
    return [m > 0 if dtype.kind == "b" else m.astype(dtype) for m in made]


def check(dtypes, names):
    """Functions over all dtypes, in one compiled module; and rows picked by positions."""
    values = [arrays(np.dtype(d)) for d in dtypes]
    i = RNG.integers(0, 301, 1900).astype(np.int32)
    i[::7] = -1 - i[::7]
    i[5], i[6] = 1000, -1000
    at = np.where(i < 0, i + 301, i)
    outside = (at < 0) | (at > 300)

    def everything(values, i):
        return [{name: FUNCTIONS[name](jnp, *v) for name in names}
                | {"clip": jnp.take(v[0], i, axis=0, mode="clip"), "get": v[0][i],
                   "fill": v[0].at[i].get(mode="fill", fill_value=3)} for v in values]

    for d, v, got in zip(dtypes, values, calque.jit(everything)(values, i)):
        want = {name: FUNCTIONS[name](np, *v) for name in names}
        rows = v[0][np.clip(at, 0, 300)]
        want |= {"clip": np.take(v[0], i, axis=0, mode="clip"), "get": rows,
                 "fill": np.where(outside[:, None], np.array(3).astype(v[0].dtype), rows)}
        for name, w in want.items():
            g = np.asarray(got[name])
            assert (g.shape, g.dtype) == (w.shape, w.dtype), (d, name)
            assert g.tobytes() == np.ascontiguousarray(w).tobytes(), (d, name)


@pytest.mark.parametrize("names", some_and_more([*FUNCTIONS], 0.5))
def test_moved(names):
    check(["f4"], names)


@pytest.mark.slow
def test_moved_in_every_dtype():
    check(["i1", "c8", "u1", "i2", "u2", "i4", "f2", "bool", ml_dtypes.bfloat16], FUNCTIONS)
    with calque.enable_x64(True):
        check(["f8", "i8", "u8", "c16"], FUNCTIONS)


def test_moves_are_kernels_where_they_pay():
    def text(f, *shapes):
        args = [calque.ShapeDtypeStruct(s, np.float32) for s in shapes]
        return calque.jit(f).lower(*args).as_text()

    large, small = (300, 200), (8, 8)
    assert "@concatenate_1::" in text(lambda x, y: jnp.concatenate([x, y]), large, large)
    assert "@reverse_1::" in text(jnp.flip, large)
    assert "@pick_1::" in text(lambda x: x[jnp.arange(300) % 7], large)
    # what is computed is computed in its place: IREE needs no copy
    computed = text(lambda x, y: jnp.concatenate([x + 1, y * 2]), large, large)
    assert "stablehlo.concatenate" in computed and "@concatenate" not in computed
    assert "stablehlo.concatenate" in text(lambda x, y: jnp.concatenate([x, y]), small, small)
    assert "stablehlo.reverse" in text(jnp.flip, small)
    short = text(lambda x: jnp.flip(x, 1), (100_000, 2))  # (passes/points)
    assert "stablehlo.reverse" not in short and "@reverse" not in short


def test_values_that_are_moved_twice():
    """Results of kernels as operands of others, and of one array twice."""
    x = RNG.normal(size=(200, 150)).astype(np.float32)

    @calque.jit
    def f(x):
        y = jnp.concatenate([jnp.flip(x), x, x])
        return jnp.flip(y, 0) + 1, jnp.concatenate([y, y], 1)

    y = np.concatenate([np.flip(x), x, x])
    for got, want in zip(f(x), (np.flip(y, 0) + np.float32(1), np.concatenate([y, y], 1))):
        np.testing.assert_array_equal(got, want)


def test_masks_of_large_arrays():
    """Iotas of several axes, which are constants here."""
    x = RNG.normal(size=(200, 150)).astype(np.float32)

    def f(n, x, lax=None):
        grid = n.indices((200, 150), dtype=np.int32) if lax is None else n.stack(
            [lax.broadcasted_iota(np.int32, (200, 150), a) for a in (0, 1)])
        return n.triu(x), n.tril(x, 3), n.eye(200, 150, -2) * x, grid, n.tri(150, 200, 1)

    for got, want in zip(calque.jit(lambda x: f(jnp, x, calque.lax))(x), f(np, x)):
        np.testing.assert_array_equal(got, want)
    dtypes = (np.uint8, np.float16, np.int8)
    iotas = calque.jit(lambda: [calque.lax.broadcasted_iota(d, (200, 120), 1) for d in dtypes])()
    for dtype, got in zip(dtypes, iotas, strict=True):
        np.testing.assert_array_equal(got, np.tile(np.arange(120, dtype=dtype), (200, 1)))


@pytest.mark.parametrize("first", [True, False])
def test_a_large_pad_beside_small_work(first):
    """Workgroups share the pad, which is a kernel of its own whatever small work stands by it."""
    c, i = RNG.normal(size=(13, 31, 257)).astype("f4"), np.arange(-950, 950, dtype="i4")

    def f(n, c, i):
        padded = n.pad(c, ((0, 0), (1, 0), (0, 0))) if first else None
        at = n.where(i < 0, i + 301, i)[:, None]
        padded = padded if first else n.pad(c, ((0, 0), (1, 0), (0, 0)))
        return padded, at, at + n.pad(i, (2, 1))[3:, None], n.flip(c, 1)

    for got, want in zip(calque.jit(lambda c, i: f(jnp, c, i))(c, i), f(np, c, i)):
        np.testing.assert_array_equal(got, want)
