"""Primitives of clients in exported modules: rules in StableHLO, of one platform and of several;
lax.platform_dependent.  Oracles are NumPy and SciPy.
"""
from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.linalg

import calque
import calque.numpy as jnp
from calque import export, lax
from calque.extend.core import Primitive
from calque.interpreters import mlir

RNG = np.random.default_rng(7)
A = RNG.normal(size=(3, 4)).astype("f")
B = RNG.normal(size=(4, 5)).astype("f")
IMAGE = RNG.normal(size=(2, 6, 6, 3)).astype("f")
KERNEL = RNG.normal(size=(3, 3, 3, 4)).astype("f")
SQUARE = (A.T @ A + 4 * np.eye(4)).astype("f")
KEYS = np.asarray([3, 1, 2, 1], "i4")


def primitive(name: str, out, rule, platform=None) -> Primitive:
    """A client's primitive whose results are of the types of the array `out`."""
    p = Primitive(name)
    p.multiple_results = isinstance(out, tuple)
    avals = [calque.core.ShapedArray(o.shape, o.dtype)
             for o in (out if isinstance(out, tuple) else (out,))]
    p.def_abstract_eval(lambda *a, **k: avals if p.multiple_results else avals[0])
    mlir.register_lowering(p, rule, platform)
    return p


def convolved() -> np.ndarray:
    """Strides 2, no padding; NHWC times HWIO."""
    windows = np.lib.stride_tricks.sliding_window_view(IMAGE, (3, 3), (1, 2))[:, ::2, ::2]
    return np.einsum("nxyihw,hwio->nxyo", windows, KERNEL).astype("f")


def scattered() -> np.ndarray:
    made = A.copy()
    np.add.at(made, [2, 0], [[1, 1, 1, 1], [2, 2, 2, 2]])
    return made


CASES = {
    "constants": ("""(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
        %m = stablehlo.constant dense<[[true, false, true, true], [false, false, true, false],
                                       [true, true, true, false]]> : tensor<3x4xi1>
        %all = stablehlo.constant dense<true> : tensor<3x4xi1>
        %k = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0],
                                       [9.0, 0.5, 0.25, 0x7F800000]]> : tensor<3x4xf32>
        %both = stablehlo.and %m, %all : tensor<3x4xi1>
        %r = stablehlo.select %both, %a, %k : tensor<3x4xi1>, tensor<3x4xf32>
        return %r : tensor<3x4xf32> }""", [A], np.where(
            [[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 1, 0]], A,
            np.asarray([[1, 2, 3, 4], [5, 6, 7, 8], [9, .5, .25, np.inf]], "f"))),
    "complex": ("""(%a: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
        %k = stablehlo.constant dense<[(1.0, 2.0), (0.5, -1.0)]> : tensor<2xcomplex<f32>>
        %n = stablehlo.constant dense<[(0.0, 0x7FC00000), (0.0, 0.0)]> : tensor<2xcomplex<f32>>
        %s = stablehlo.constant dense<(0.0, 1.0)> : tensor<2xcomplex<f32>>
        %p = stablehlo.multiply %a, %k : tensor<2xcomplex<f32>>
        %r = stablehlo.add %p, %s : tensor<2xcomplex<f32>>
        return %r : tensor<2xcomplex<f32>> }""", [np.asarray([1 + 1j, 2 - 1j], "c8")],
        np.asarray([(1 + 1j) * (1 + 2j) + 1j, (2 - 1j) * (.5 - 1j) + 1j], "c8")),
    "bfloat16": ("""(%a: tensor<3xbf16>) -> tensor<3xbf16> {
        %k = stablehlo.constant dense<[1.5, 0x7F80, -2.0]> : tensor<3xbf16>
        %s = stablehlo.constant dense<2.0> : tensor<3xbf16>
        %p = stablehlo.multiply %a, %k : tensor<3xbf16>
        %r = stablehlo.add %p, %s : tensor<3xbf16>
        return %r : tensor<3xbf16> }""", [np.ones(3, jnp.bfloat16)],
        np.asarray([3.5, np.inf, 0], jnp.bfloat16)),
    "compared": ("""(%a: tensor<3x4xf32>) -> tensor<3x4xi32> {
        %z = stablehlo.constant dense<0.0> : tensor<3x4xf32>
        %c = stablehlo.compare GT, %a, %z : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
        %i = stablehlo.convert %c : (tensor<3x4xi1>) -> tensor<3x4xi32>
        %n = stablehlo.iota dim = 1 : tensor<3x4xi32>
        %r = stablehlo.multiply %i, %n : tensor<3x4xi32>
        return %r : tensor<3x4xi32> }""", [A], (A > 0) * np.arange(4, dtype="i4")),
    "product": ("""(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) -> tensor<3x5xf32> {
        %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
          : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
        return %r : tensor<3x5xf32> }""", [A, B], A @ B),
    "reduced": ("""(%a: tensor<3x4xf32>) -> tensor<3xf32> {
        %z = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %r = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1]
          : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
        return %r : tensor<3xf32> }""", [A], A.max(1)),
    "windows": ("""(%a: tensor<3x4xf32>) -> tensor<2x3xf32> {
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %r = "stablehlo.reduce_window"(%a, %z) ({
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %s = stablehlo.add %x, %y : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) {window_dimensions = array<i64: 2, 2>}
          : (tensor<3x4xf32>, tensor<f32>) -> tensor<2x3xf32>
        return %r : tensor<2x3xf32> }""", [A],
        A[:2, :3] + A[1:, :3] + A[:2, 1:] + A[1:, 1:]),
    "convolution": ("""(%x: tensor<2x6x6x3xf32>, %w: tensor<3x3x3x4xf32>) -> tensor<2x2x2x4xf32> {
        %r = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
          window = {stride = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<2x6x6x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x2x2x4xf32>
        return %r : tensor<2x2x2x4xf32> }""", [IMAGE, KERNEL], convolved()),
    "gathered": ("""(%a: tensor<3x4xf32>, %i: tensor<2x1xi32>) -> tensor<2x4xf32> {
        %r = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<
          offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],
          index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}
          : (tensor<3x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
        return %r : tensor<2x4xf32> }""", [A, np.asarray([[2], [0]], "i4")], A[[2, 0]]),
    "scattered": ("""(%a: tensor<3x4xf32>, %i: tensor<2x1xi32>, %u: tensor<2x4xf32>)
          -> tensor<3x4xf32> {
        %r = "stablehlo.scatter"(%a, %i, %u) ({
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %s = stablehlo.add %x, %y : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
            inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
          : (tensor<3x4xf32>, tensor<2x1xi32>, tensor<2x4xf32>) -> tensor<3x4xf32>
        return %r : tensor<3x4xf32> }""",
        [A, np.asarray([[2], [0]], "i4"), np.asarray([[1] * 4, [2] * 4], "f")], scattered()),
    "sorted": ("""(%k: tensor<4xi32>, %b: tensor<4xf32>) -> tensor<4xf32> {
        %r:2 = "stablehlo.sort"(%k, %b) ({
          ^bb0(%x: tensor<i32>, %y: tensor<i32>, %u: tensor<f32>, %v: tensor<f32>):
            %c = stablehlo.compare LT, %x, %y, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
        }) {dimension = 0 : i64, is_stable = true}
          : (tensor<4xi32>, tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>)
        return %r#1 : tensor<4xf32> }""", [KEYS, A[0]], A[0][np.argsort(KEYS, kind="stable")]),
    "padded": ("""(%a: tensor<3x4xf32>) -> tensor<4x11xf32> {
        %z = stablehlo.constant dense<2.0> : tensor<f32>
        %p = stablehlo.pad %a, %z, low = [0, 1], high = [1, 0], interior = [0, 0]
          : (tensor<3x4xf32>, tensor<f32>) -> tensor<4x5xf32>
        %q = stablehlo.slice %p [0:4, 0:1] : (tensor<4x5xf32>) -> tensor<4x1xf32>
        %v = stablehlo.reverse %p, dims = [1] : tensor<4x5xf32>
        %r = stablehlo.concatenate %p, %v, %q, dim = 1
          : (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x1xf32>) -> tensor<4x11xf32>
        return %r : tensor<4x11xf32> }""", [A], (lambda p: np.concatenate(
            [p, p[:, ::-1], p[:, :1]], 1))(np.pad(A, ((0, 1), (1, 0)), constant_values=2))),
    "loop": ("""(%a: tensor<3x4xf32>, %n: tensor<i32>) -> tensor<3x4xf32> {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %r:2 = stablehlo.while(%i = %n, %x = %a) : tensor<i32>, tensor<3x4xf32>
          cond {
            %c = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %j = stablehlo.subtract %i, %one : tensor<i32>
            %y = stablehlo.multiply %x, %a : tensor<3x4xf32>
            stablehlo.return %j, %y : tensor<i32>, tensor<3x4xf32>
          }
        return %r#1 : tensor<3x4xf32> }""", [A, np.int32(3)], A ** 4),
    "factors": ("""(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
        %l = stablehlo.cholesky %a, lower = true : tensor<4x4xf32>
        %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
        %r = "stablehlo.triangular_solve"(%l, %t) {left_side = true, lower = true,
          unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}
          : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        return %r : tensor<4x4xf32> }""", [SQUARE], scipy.linalg.solve_triangular(
            np.linalg.cholesky(SQUARE.astype("d")), SQUARE.T.astype("d"), lower=True).astype("f")),
    "spectrum": ("""(%a: tensor<3x4xf32>) -> tensor<3x3xcomplex<f32>> {
        %r = stablehlo.fft %a, type = RFFT, length = [4]
          : (tensor<3x4xf32>) -> tensor<3x3xcomplex<f32>>
        return %r : tensor<3x3xcomplex<f32>> }""", [A], np.fft.rfft(A).astype("c8")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rule_in_stablehlo_is_exported(case):
    """What its text says, compiled here and read back from the module's bytes."""
    text, arguments, want = CASES[case]
    p = primitive(f"text_{case}", want, f"func.func @f{text}")
    f = calque.jit(p.bind)
    exported = export.deserialize(export.export(f)(*arguments).serialize())
    # sums and products of at most 27 numbers of size 1 in float32, in another order
    np.testing.assert_allclose(exported.call(*arguments), want, rtol=1e-5, atol=1e-5)
    if case != "factors":  # (IREE has no decompositions)
        np.testing.assert_allclose(f(*arguments), want, rtol=1e-5, atol=1e-5)


def times(n: int, context, x):
    """n * x, by additions."""
    made = x
    for _ in range(n - 1):
        made = mlir.ir.Operation.create("stablehlo.add", results=[x.type],
                                        operands=[made, x]).result
    return [made]


def test_each_platform_has_its_rule():
    """A module for several platforms chooses when it runs; its text has all of them."""
    x = np.float32(42)
    twice = primitive("twice", x, functools.partial(times, 2), "cpu")
    thrice = primitive("thrice", x, functools.partial(times, 3), "gpu")
    scaled = primitive("scaled", x, mlir.lower_fun(twice.bind, False), "cpu")
    rule = mlir.lower_fun(thrice.bind, False)
    mlir.register_lowering(scaled, rule, "cuda")
    mlir.register_lowering(scaled, rule, "rocm")
    inside = calque.jit(lambda x: calque.jit(scaled.bind)(x) + 1)
    assert inside(x) == 85
    many = export.export(inside, platforms=("cpu", "cuda", "rocm"))(x)
    text = many.mlir_module()
    assert text.count("stablehlo.case") == 1 and text.count("stablehlo.add") == 1 + 2 + 1
    assert export.deserialize(many.serialize()).call(x) == 85
    alone = export.export(inside, platforms=("cuda",))(x).mlir_module()
    assert "case" not in alone and alone.count("stablehlo.add") == 2 + 1
    with pytest.raises(NotImplementedError, match="'scaled' not found for platform tpu"):
        export.export(inside, platforms=("cpu", "tpu"))(x)


def test_a_rule_is_told_what_it_is_for():
    told = []

    def rule(context, x):
        told.append((context.module_context.lowering_parameters.for_export, context.platforms))
        return times(2, context, x)

    f = calque.jit(primitive("told", A, rule).bind)
    np.testing.assert_array_equal(f(A), A + A)
    export.export(f, platforms=("cpu", "tpu"))(A)
    assert told == [(False, ("cpu",)), (True, ("cpu", "tpu"))]


def test_a_function_of_arrays_inside_a_rule_may_hold_arrays():
    """lower_fun within a rule in MLIR, and one that closes over an array and a number."""
    held, number = jnp.arange(4.0), np.float32(3)
    inner = mlir.lower_fun(lambda x: x * held + number, multiple_results=False)
    p = primitive("outer", A, lambda context, x: inner(context, times(2, context, x)[0]))
    q = primitive("plain", A, inner)
    for prim, factor in ((p, 2), (q, 1)):
        made = export.export(calque.jit(prim.bind))(A)
        np.testing.assert_allclose(export.deserialize(made.serialize()).call(A),
                                   factor * A * np.arange(4) + 3, rtol=1e-6)


def test_custom_calls_are_named():
    """What others may not know is exported only where somebody says that they do."""
    def rule(context, x):
        return mlir.ir.Operation.create("stablehlo.custom_call", results=[x.type], operands=[x],
                                        attributes={"call_target_name": mlir.ir.StringAttr.get(
                                            "somewhere")}).result

    f = calque.jit(lambda x: primitive("called", A, rule).bind(x) + 1)
    with pytest.raises(ValueError, match="Cannot serialize code with custom calls whose targets"):
        export.export(f)(A)
    for name in ("somewhere", "ALL"):
        made = export.export(f, disabled_checks=[export.DisabledSafetyCheck.custom_call(name)])(A)
        assert "@somewhere(" in export.deserialize(made.serialize()).mlir_module()


def test_other_dialects_are_refused():
    def rule(context, x):
        return mlir.ir.Operation.create("math.absf", results=[x.type], operands=[x]).result

    f = calque.jit(primitive("magnitude", A, rule).bind)
    with pytest.raises(export.UnsupportedOperationError, match="magnitude: .* makes math.absf"):
        export.export(f)(A)


def test_wrong_types_are_refused():
    f = calque.jit(primitive("wrong", A[0], functools.partial(times, 2)).bind)
    with pytest.raises(TypeError, match=r"types tensor<3x4xf32>, its abstract evaluation says "
                                        r"tensor<4xf32>"):
        export.export(f)(A)


def test_platform_dependent_is_exported_for_each():
    """Where a module runs on several platforms, each has its function: also derivatives of it, and
    under vmap; outside of an export the device's is taken."""
    def f(x):
        return 2 * lax.platform_dependent(x, tpu=jnp.sin, cuda=jnp.sin, default=jnp.cos)

    x = np.linspace(-1, 1, 5, dtype="f")
    own = 2 * np.cos(x)
    np.testing.assert_allclose(calque.jit(f)(x), own, rtol=1e-6)
    made = export.export(calque.jit(f), platforms=("cpu", "cuda", "tpu"))(x)
    text = made.mlir_module()
    assert text.count("stablehlo.case") == 1 and "sine" in text and "cosine" in text
    again = export.deserialize(made.serialize(vjp_order=1))
    np.testing.assert_allclose(again.call(x), own, rtol=1e-6)
    np.testing.assert_allclose(calque.grad(lambda x: again.call(x).sum())(x), -2 * np.sin(x),
                               rtol=1e-6, atol=1e-7)
    batched = export.export(calque.jit(calque.vmap(f)), platforms=("cpu", "tpu"))(x)
    np.testing.assert_allclose(batched.call(x), own, rtol=1e-6)
    alone = export.export(calque.jit(f), platforms=("tpu",))(x).mlir_module()
    assert "case" not in alone and "cosine" not in alone
    np.testing.assert_allclose(calque.jit(f)(x), own, rtol=1e-6)  # (what was traced before)


def test_platform_dependent_under_gpu_and_without_a_function():
    x = np.float32(1)
    f = calque.jit(lambda x: lax.platform_dependent(x, cpu=lambda x: x + 1, gpu=lambda x: x + 2))
    text = export.export(f, platforms=("cuda", "rocm"))(x).mlir_module()
    assert "2.0" in text and "case" not in text
    with pytest.raises(NotImplementedError, match="rule not found for platform tpu"):
        export.export(f, platforms=("cpu", "tpu"))(x)
    assert f(x) == 2
