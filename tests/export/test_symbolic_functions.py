"""Functions whose arguments are symbolic sizes, exported once and called with several.

The oracle is NumPy on the sizes of the call.
"""
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, image, lax, ops, random
from calque.errors import InconclusiveDimensionOperation
from calque.extend import mlir

b, c = export.symbolic_shape("b, c", constraints=["b >= 2"])


def called(f, x, shape=None):
    """f exported for symbolic sizes, called with x."""
    spec = calque.ShapeDtypeStruct(shape or (b, *x.shape[1:]), x.dtype)
    return export.export(calque.jit(f))(spec).call(x)


def check(f, want, sizes=(3, 5), columns=4):
    for n in sizes:
        x = np.random.default_rng(n).normal(size=(n, columns)).astype(np.float32)
        got = called(f, x)
        for g, w in zip(calque.tree.leaves(got), calque.tree.leaves(want(x))):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)


SLICES = {
    "2:": lambda n: slice(2, None), "n-2:0:-1": lambda n: slice(n - 2, 0, -1),
    "-2n:n+1": lambda n: slice(-2 * n, n + 1), ":-1:n": lambda n: slice(None, -1, n),
    "::-n": lambda n: slice(None, None, -n), "-n:4:2": lambda n: slice(-n, 4, 2),
    "n//2:": lambda n: slice(n // 2, None), "5:2": lambda n: slice(5, 2, 1),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices(name):
    """Also of an axis whose size is another variable: bounds are not provable."""
    of = SLICES[name]
    f = export.export(calque.jit(lambda x, y: x[of(y.shape[0])]))(
        calque.ShapeDtypeStruct((c,), np.float32), calque.ShapeDtypeStruct((b,), np.float32))
    for m, n in ((1, 2), (4, 3), (9, 4)):
        x = np.arange(m, dtype=np.float32)
        np.testing.assert_array_equal(f.call(x, np.zeros(n, np.float32)), x[of(n)])


def test_a_step_of_unknown_sign():
    with pytest.raises(InconclusiveDimensionOperation, match="if it is > 0 or < 0"):
        calque.eval_shape(lambda x: x[::x.shape[0] - 3], calque.ShapeDtypeStruct((b,), np.float32))


@pytest.mark.parametrize("mode, kind", [
    ("constant", None), ("edge", None), ("wrap", None), ("reflect", "even"), ("reflect", "odd"),
    ("symmetric", "even"), ("symmetric", "odd"), ("linear_ramp", None), ("maximum", None)])
def test_pad(mode, kind):
    def padded(np_like):
        options = {} if kind is None else {"reflect_type": kind}
        return lambda x: np_like.pad(x, [(2 * x.shape[0] + 1, x.shape[0]), (0, 9)], mode=mode,
                                     **options)
    check(padded(jnp), padded(np), sizes=(2, 5))


def test_positions_and_counts():
    check(lambda x: jnp.triu_indices(x.shape[0], 1, x.shape[0] + 2),
          lambda x: np.triu_indices(len(x), 1, len(x) + 2))
    check(lambda x: jnp.tril_indices(4, x.shape[0] - 4, 6),
          lambda x: np.tril_indices(4, len(x) - 4, 6))
    check(lambda x: jnp.arange(10, 0, -x.shape[0]), lambda x: np.arange(10, 0, -len(x)))
    check(lambda x: jnp.repeat(x, x.shape[0]), lambda x: np.repeat(x, len(x)))
    check(lambda x: jnp.array([x.shape[0], 2 * x.shape[0]]),
          lambda x: np.array([len(x), 2 * len(x)]))
    check(lambda x: np.array([7, 8]) // x.shape[0] + 2 ** x.shape[0],
          lambda x: np.array([7, 8]) // len(x) + 2 ** len(x))
    check(lambda x: jnp.nonzero(x[:, 0] > 0, size=x.shape[0], fill_value=-1),
          lambda x: np.pad(np.nonzero(x[:, 0] > 0)[0], (0, len(x)), constant_values=-1)[:len(x)])
    check(lambda x: calque.nn.one_hot(jnp.arange(2), x.shape[0]), lambda x: np.eye(2, len(x)))
    check(lambda x: lax.top_k(x[:, 0], x.shape[0] - 1)[0], lambda x: -np.sort(-x[:, 0])[:-1])
    check(lambda x: ops.segment_sum(x[:, 0], jnp.arange(x.shape[0]) // 2, x.shape[0]),
          lambda x: np.bincount(np.arange(len(x)) // 2, x[:, 0], minlength=len(x)))
    check(lambda x: jnp.triu(x, x.shape[0] - 3), lambda x: np.triu(x, len(x) - 3))
    check(lambda x: image.resize(x, (2 * x.shape[0], 4), "nearest"), lambda x: x.repeat(2, 0))


def test_matrices():
    x = (np.random.default_rng(0).normal(size=(4, 4)) + 4 * np.eye(4)).astype(np.float32)
    for name in ("inv", "det"):
        got = called(getattr(jnp.linalg, name), x, (b, b))
        np.testing.assert_allclose(got, getattr(np.linalg, name)(x), rtol=1e-4, atol=1e-5)
    q, r = called(jnp.linalg.qr, x[:, :3], (b, c))
    np.testing.assert_allclose(q @ r, x[:, :3], atol=1e-5)
    np.testing.assert_allclose(q.T @ q, np.eye(3), atol=1e-5)


def test_draws():
    """The same numbers as with known sizes."""
    key = random.key(0)
    f = export.export(calque.jit(lambda x: random.categorical(
        random.key(0), x, axis=1)))(calque.ShapeDtypeStruct((b, c), np.float32))
    x = np.zeros((5, 3), np.float32)
    np.testing.assert_array_equal(f.call(x), random.categorical(key, x, axis=1))


def test_lists_of_what_becomes_an_array():
    class Wrapper:
        def __jax_array__(self):
            return jnp.arange(2)
    np.testing.assert_array_equal(jnp.array([Wrapper(), [3, 4]]), [[0, 1], [3, 4]])


# what is written for a batch of unknown size is, called here, what jit computes: the same bits
DECOMPOSED = {
    "svd": lambda x: jnp.linalg.svd(x, full_matrices=False), "eigh": jnp.linalg.eigh,
    "qr": jnp.linalg.qr, "singular values": lambda x: jnp.linalg.svd(x, compute_uv=False),
    "lu": lambda x: calque.scipy.linalg.lu(x), "inv": jnp.linalg.inv, "det": jnp.linalg.det,
    "of rows twice": lambda x: (jnp.linalg.qr(x[1:]), jnp.linalg.qr(x), jnp.linalg.svd(x[1:])),
    "gradient": lambda x: calque.grad(lambda y: jnp.linalg.svd(y, compute_uv=False).sum())(x)}


@pytest.mark.parametrize("platforms", [("cpu",), ("cpu", "tpu")])
@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions_of_unknown_batches(name, platforms):
    x = np.random.default_rng(0).standard_normal((3, 5, 5)).astype(np.float32)
    f = calque.jit(lambda x: tuple(calque.tree.leaves(DECOMPOSED[name](x))))
    spec = calque.ShapeDtypeStruct(export.symbolic_shape("b, 5, 5"), np.float32)
    made = export.export(f, platforms=platforms)(spec)
    for g in (made, export.deserialize(made.serialize())):
        for found, wanted in zip(g.call(x), f(x), strict=True):
            np.testing.assert_array_equal(found, wanted)
    # the text is MLIR's, whatever the names in it (its parser is the oracle)
    mlir.deserialize_portable_artifact(made.mlir_module_serialized)
    if len(platforms) == 1:
        mlir.serialize_portable_artifact(made.mlir_module(), "1.4.0")


@pytest.mark.parametrize("shape, constraints, fits, other, message", [
    ("a, b", ["a == b"], (3, 3), (3, 4), "inconsistency between dimension size"),
    ("a, b", ["max(a, b) == 4", "a == b"], (4, 4), (3, 3), "Expected 'b - 4' to be equal to 0"),
    ("a, b, c, d", ["b == a", "c == a + b", "d == 5"], (2, 2, 4, 5), (2, 2, 3, 5), "inconsistency"),
    ("a, b", ["a >= 4", "a == 2*b"], (4, 2), (2, 1), "greater or equal to 0"),
])
def test_variables_that_equal_others(shape, constraints, fits, other, message):
    spec = calque.ShapeDtypeStruct(export.symbolic_shape(shape, constraints=constraints), np.int32)
    made = export.export(calque.jit(lambda x: 2 * x))(spec)
    for g in (made, export.deserialize(made.serialize())):
        np.testing.assert_array_equal(g.call(np.ones(fits, np.int32)), np.full(fits, 2))
        with pytest.raises(ValueError, match=message if g is made else "."):
            g.call(np.ones(other, np.int32))


def test_constraints_against_each_other():
    with pytest.raises(ValueError, match=r"Unsatisfiable explicit constraints: .*a >= 4, a == 3"):
        export.symbolic_shape("a", constraints=["a >= 4", "a == 3"])
    a, b = export.symbolic_shape("a, b", constraints=["a >= 4", "a == b"])
    assert b >= 4


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_accumulated_as_by_jit(dtype):
    x = jnp.asarray(np.random.default_rng(1).standard_normal((50, 9))).astype(dtype)
    for f in (lax.cumsum, lax.cumprod, lax.cumlogsumexp, lax.cummax):
        for reverse in (False, True):
            g = calque.jit(lambda x, f=f, reverse=reverse: f(x, axis=0, reverse=reverse))
            for spec in (x, calque.ShapeDtypeStruct(export.symbolic_shape("b, 9"), x.dtype)):
                # (one rounding at the end: sums in another order may round the other way)
                np.testing.assert_allclose(
                    export.export(g)(spec).call(x).astype("float32"), g(x).astype("float32"),
                    rtol=2**-7 if dtype == "bfloat16" else 2**-10, atol=1e-6)
