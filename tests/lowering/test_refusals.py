"""Programs that IREE refused to compile, found by the fuzzer, and what it still refuses.

Each cure has a program that fails without it, and a module as plain as can be that tells when IREE
no longer needs it.
"""
from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.compiler.compile import CompileError, compile_module
from calque.lowering.driver.module import lower, module_text
from calque.lowering.rules import Context, views
from calque.lowering.target.targets import cpu_target, parse_target

A = (np.arange(120).reshape(12, 10) * 37 % 101).astype(np.float32)
I = np.array([1, 3, 0, 2, 1], np.int32)


def refused(text: str, match: str) -> None:
    with pytest.raises(CompileError, match=match):
        compile_module(text, cpu_target(), careful=True)


def both(f: Callable[..., Any], *args: Any) -> None:
    """f is written for either library; the oracle is NumPy."""
    outs = calque.jit(lambda *xs: f(calque.numpy, *xs))(*args)
    wants = f(np, *args)
    for o, w in zip(outs, wants, strict=True):
        np.testing.assert_array_equal(np.asarray(o), w)


# ---- elements at computed positions
def test_elements_of_views_with_steps() -> None:
    """Builder.materialize_slice: sorted columns, reversed steps, gathers of both."""
    both(lambda np, a, i: [np.sort(a[::2, 3]), a[1::3, 4][::-1], a[:, 2][i], np.sort(a[1:5:2, 0]),
                           a.T[::3][::-1, ::-1], a[::2][i, i]], A, I)


@pytest.mark.usefixtures("host_loops")
def test_elements_of_what_folds_to_a_step() -> None:
    """fuzz.py, seed 300475 at x86-64-v2: IREE folds min(x, x), x * 1 and their like to x."""
    folds = [lambda z: z, lambda z: lax.min(z, z), lambda z: z & z, lambda z: z + 0,
             lambda z: z * 1, lambda z: z << 0, lambda z: z // 1, lambda z: 0 - (0 - z),
             lambda z: lax.clamp(-2**31, z, 2**31 - 1), lambda z: z[:, None].sum(1),
             lambda z: lax.cond(True, lambda q: q, lambda q: q + 1, z)]

    def f(a: Any, i: Any) -> Any:
        return [fold(a[::2])[i][:, None] + np.arange(6, dtype=np.int32) for fold in folds]

    a, i = np.arange(5, dtype=np.int32), np.array([2, 0, 1], np.int32)
    want = a[::2][i][:, None] + np.arange(6, dtype=np.int32)
    for out in calque.jit(f)(a, i):
        np.testing.assert_array_equal(np.asarray(out), want)


def test_elements_of_a_dynamic_slice() -> None:
    def f(a: Any, i: Any) -> Any:
        return lax.sort(lax.dynamic_slice(a, (i[0], i[1]), (4, 1)), dimension=0)

    half = A.astype(np.float16)
    np.testing.assert_array_equal(np.asarray(calque.jit(f)(half, I)), np.sort(half[1:5, 3:4], 0))


def test_iree_still_refuses_elements_of_steps() -> None:
    """take_rows in lowering/rules/gather.py: gathers from what folds to a strided slice."""
    refused("""func.func @main(%x: tensor<8xf32>) -> tensor<6xf32> {
      %s = stablehlo.slice %x [1:7:3] : (tensor<8xf32>) -> tensor<2xf32>
      %r = stablehlo.reverse %s, dims = [0] : tensor<2xf32>
      %c = stablehlo.concatenate %r, %r, %r, dim = 0
        : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<6xf32>
      return %c : tensor<6xf32> }""", "unrealized_conversion_cast")


def test_elements_at_a_position_that_is_a_sum() -> None:
    """Builder.materialize_reduced: `random.choice` with weights in a loop searches their sums."""
    def step(c: Any) -> Any:
        counts, weights = c
        place = jnp.take(jnp.arange(5), jnp.searchsorted(jnp.cumsum(weights), counts[1]))
        return counts + 1 + place, weights + jnp.where(place < 2, place + 5, place)

    start = np.array([3, 2, 5, 1, 4], np.int32)
    counts, weights = start, start
    while counts.sum() < 60:
        place = np.searchsorted(np.cumsum(weights), counts[1])
        counts, weights = counts + 1 + place, weights + (place + 5 if place < 2 else place)
    out = calque.jit(lambda c: lax.while_loop(lambda c: c[0].sum() < 60, step, c))((start, start))
    np.testing.assert_array_equal(out[0], counts)
    np.testing.assert_array_equal(out[1], weights)


def test_iree_still_mixes_vectors_with_scalars_at_a_position_that_is_a_sum() -> None:
    """Builder.materialize_reduced."""
    refused("""func.func @main(%a: tensor<5xi32>, %b: tensor<5xi32>) -> tensor<5xi32> {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %n = stablehlo.constant dense<4> : tensor<i32>
      %i = stablehlo.iota dim = 0 : tensor<5xi32>
      %r:2 = stablehlo.while(%x = %a, %y = %b) : tensor<5xi32>, tensor<5xi32> cond {
        %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
          : (tensor<5xi32>, tensor<i32>) -> tensor<i32>
        %c = stablehlo.compare LT, %s, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %s = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [0]
          : (tensor<5xi32>, tensor<i32>) -> tensor<i32>
        %c = stablehlo.minimum %s, %n : tensor<i32>
        %d = stablehlo.maximum %c, %z : tensor<i32>
        %e = tensor.empty() : tensor<i32>
        %g = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>],
            iterator_types = []} ins(%d : tensor<i32>) outs(%e : tensor<i32>) {
        ^bb0(%p: i32, %q: i32):
          %k = arith.index_cast %p : i32 to index
          %v = tensor.extract %i[%k] : tensor<5xi32>
          linalg.yield %v : i32 } -> tensor<i32>
        %w = stablehlo.negate %g : tensor<i32>
        %h = stablehlo.broadcast_in_dim %w, dims = [] : (tensor<i32>) -> tensor<5xi32>
        %t = stablehlo.add %x, %h : tensor<5xi32>
        %u = stablehlo.add %y, %h : tensor<5xi32>
        stablehlo.return %t, %u : tensor<5xi32>, tensor<5xi32> }
      return %r#0 : tensor<5xi32> }""", "same type")


# ---- gathered rows
def test_parts_of_gathered_rows() -> None:
    """take_rows in lowering/rules/gather.py."""
    both(lambda np, a, i: [a[i][::-1], a[i][0] * 2, a[i][1:]], A, I)
    wide = np.arange(40 * 768, dtype=np.float32).reshape(40, 768)
    both(lambda np, x, i: [x[i] * 2 + 1], wide, np.arange(40, dtype=np.int32)[::-1].copy())


def test_iree_still_refuses_parts_of_gathered_rows() -> None:
    """take_rows in lowering/rules/gather.py."""
    refused("""func.func @main(%x: tensor<12x10xf32>, %i: tensor<5xi32>)
          -> (tensor<5x10xf32>, tensor<10xf32>) {
      %e = tensor.empty() : tensor<5x10xf32>
      %g = iree_linalg_ext.gather dimension_map = [0]
        ins(%x, %i : tensor<12x10xf32>, tensor<5xi32>)
        outs(%e : tensor<5x10xf32>) -> tensor<5x10xf32>
      %s = stablehlo.slice %g [0:1, 0:10] : (tensor<5x10xf32>) -> tensor<1x10xf32>
      %t = stablehlo.reshape %s : (tensor<1x10xf32>) -> tensor<10xf32>
      %r = stablehlo.negate %t : tensor<10xf32>
      return %g, %r : tensor<5x10xf32>, tensor<10xf32> }""", "restricted to workgroup")


def test_iree_still_refuses_conversions_behind_a_gather() -> None:
    """_elements in lowering/rules/gather.py."""
    refused("""func.func @main(%x: tensor<3x1xi8>, %k: tensor<1xi32>, %y: tensor<1x2x3xi32>)
          -> (tensor<1x2x3xi32>, tensor<1x3x2xi32>) {
      %i = stablehlo.reshape %k : (tensor<1xi32>) -> tensor<1x1xi32>
      %g = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}>
        : (tensor<3x1xi8>, tensor<1x1xi32>) -> tensor<1x1xi8>
      %s = stablehlo.reshape %g : (tensor<1x1xi8>) -> tensor<i8>
      %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<i8>) -> tensor<2x3x1xi8>
      %c = stablehlo.convert %b : (tensor<2x3x1xi8>) -> tensor<2x3x1xi32>
      %d = iree_tensor_ext.compute_barrier.start %c : tensor<2x3x1xi32> -> tensor<2x3x1xi32>
      %t = stablehlo.transpose %d, dims = [2, 1, 0] : (tensor<2x3x1xi32>) -> tensor<1x3x2xi32>
      %w = stablehlo.convert %g : (tensor<1x1xi8>) -> tensor<1x1xi32>
      %z = iree_tensor_ext.compute_barrier.start %w : tensor<1x1xi32> -> tensor<1x1xi32>
      %r = stablehlo.dot_general %z, %y, contracting_dims = [1] x [0]
        : (tensor<1x1xi32>, tensor<1x2x3xi32>) -> tensor<1x2x3xi32>
      return %r, %t : tensor<1x2x3xi32>, tensor<1x3x2xi32> }""", "failed to legalize")


# ---- booleans and their bytes
def test_a_boolean_and_its_byte() -> None:
    """Builder.convert."""
    both(lambda np, a, i: [(a > 50)[0][i], (a > 50)[0][i].astype("uint8"),
                           ((a > 50)[1][i] & (a[0, :5] > 9)).astype("int8"),
                           (a > 50)[1][i] & (a[0, :5] > 9)], A, I)


def test_iree_still_writes_a_boolean_and_its_byte_twice() -> None:
    """Builder.convert in lowering/emit/builder.py."""
    refused("""func.func @main(%x: tensor<6xf32>, %i: tensor<6xi32>)
          -> (tensor<6xi1>, tensor<6xi8>) {
      %z = stablehlo.constant dense<0.0> : tensor<6xf32>
      %m = stablehlo.compare GT, %x, %z, FLOAT : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>
      %w = stablehlo.reshape %m : (tensor<6xi1>) -> tensor<6x1xi1>
      %n = stablehlo.negate %i : tensor<6xi32>
      %j = stablehlo.reshape %n : (tensor<6xi32>) -> tensor<6x1xi32>
      %g = "stablehlo.gather"(%w, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}>
        : (tensor<6x1xi1>, tensor<6x1xi32>) -> tensor<6x1xi1>
      %r = stablehlo.reshape %g : (tensor<6x1xi1>) -> tensor<6xi1>
      %c = stablehlo.convert %r : (tensor<6xi1>) -> tensor<6xi8>
      return %r, %c : tensor<6xi1>, tensor<6xi8> }""", "restricted to workgroup")


# ---- one element in more axes than it comes from
def test_one_element_with_more_axes() -> None:
    """Builder._cut_out_of."""
    both(lambda np, a, i: [np.pad(a.reshape(-1)[9:10].reshape(1, 1, 1), ((1, 1), (0, 0), (0, 2))),
                           np.pad((a + 1)[0, i][2].reshape(1, 1), 1)], A, I)
    out = calque.jit(lambda a, i: lax.pad(lax.reshape(lax.dynamic_slice(
        a[2], (i[1],), (1,)), (1, 1)), np.float32(0), ((1, 0, 0), (0, 1, 0))))(A, I)
    np.testing.assert_array_equal(np.asarray(out), [[0, 0], [A[2, 3], 0]])


def test_iree_still_gives_a_slice_more_axes_than_its_operand() -> None:
    """Builder._cut_out_of in lowering/emit/builder.py."""
    refused("""func.func @main(%x: tensor<35xf32>) -> tensor<3x3xf32> {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.slice %x [9:10] : (tensor<35xf32>) -> tensor<1xf32>
      %e = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<1x1xf32>
      %p = stablehlo.pad %e, %z, low = [1, 0], high = [1, 2], interior = [0, 0]
        : (tensor<1x1xf32>, tensor<f32>) -> tensor<3x3xf32>
      return %p : tensor<3x3xf32> }""", "expected rank")


# ---- constants that enter host loops
def two_loops(x: Any, y: Any, limit: Any) -> Any:
    """A host loop, then a kernel that reads the constant which the loop starts from."""
    def row(c: Any, r: Any) -> Any:
        return (lax.rev(c[0], (0,)) + r, (c[1] + 1) % 7), lax.cumsum(c[0]) * c[1]

    def step(c: Any) -> Any:
        return c[0] + 1, lax.dynamic_update_slice(c[1], c[1][:1] + 1, (c[0],))

    (_, k), rows = lax.scan(row, (x[:2], 0), lax.reshape(x, (300, 2)))
    return rows[:2], k, *lax.while_loop(lambda c: c[0] < limit, step, (np.int32(0), y))


LOOPED = (np.arange(600, dtype=np.float32), np.arange(3, dtype=np.float32), np.int32(7))


def test_constants_of_host_loops() -> None:
    rows, k, n, y = calque.jit(two_loops)(*LOOPED)
    np.testing.assert_array_equal(np.asarray(rows), [[0, 0], [1, 2]])
    assert (int(k), int(n), np.asarray(y).tolist()) == (300 % 7, 7, [1, 2, 2])


def test_iree_still_makes_constants_of_loops_in_the_wrong_place(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Context.opaque in lowering/emit/context.py."""
    calque.clear_caches()
    monkeypatch.setattr(Context, "opaque", lambda self, x: x)
    monkeypatch.setattr(views, "is_possible", lambda values: False)
    with pytest.raises(CompileError, match="circular dependency"):
        calque.jit(two_loops)(*LOOPED)


def counted(y: Any, limit: Any) -> Any:
    """A loop that is a kernel and starts from a constant."""
    def step(c: Any) -> Any:
        return c[0] + 1, lax.dynamic_update_slice(c[1], c[1][:1] + 1, (c[0],))
    return lax.while_loop(lambda c: c[0] < limit, step, (np.int32(0), y))[1]


def test_constants_of_kernels_within_host_loops() -> None:
    """The kernel's start is a constant outside of the host loop too (Context.entering)."""
    def f(x: Any, y: Any, limit: Any) -> Any:
        before = counted(y, limit)

        def row(c: Any, r: Any) -> Any:
            z = counted(r, limit)
            return (lax.rev(c[0], (0,)) + z, c[1] + 1), lax.cumsum(lax.sort(z))

        (a, k), rows = lax.scan(row, (x[0], 0), x)
        return rows, k, counted(before + a, limit)

    def plain(y: Any) -> Any:
        y = y.copy()
        for i in range(2):
            y[i] = y[0] + 1
        return y

    x = np.arange(600, dtype=np.float32).reshape(200, 3)
    rows, k, last = calque.jit(f)(x, x[0], np.int32(2))
    a = x[0]
    for r in x:
        a = a[::-1] + plain(r)
    np.testing.assert_array_equal(np.asarray(rows), [np.cumsum(np.sort(plain(r))) for r in x])
    assert int(k) == 200
    np.testing.assert_array_equal(np.asarray(last), plain(plain(x[0]) + a))


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_two_draws_of_one_key(count: int) -> None:
    """Their loops are alike, and IREE lost the sizes of what it did not see through."""
    def draws(key: Any) -> Any:
        r = calque.random
        return [f() for f in [lambda: r.poisson(key, np.float32(3), (4,)),
                              lambda: r.binomial(key, np.float32(10), np.float32(0.3), (4,))
                              ][:count] * 2]

    out = [np.asarray(v) for v in calque.jit(draws)(calque.random.key(0))]
    assert all((a == b).all() for a, b in zip(out[:count], out[count:], strict=True))


# ---- memory filled with 8 different bytes
def test_pads_with_wide_patterns() -> None:
    """Builder.pad."""
    def f(xs: Any) -> Any:
        return [[lax.dot_general(p, p, (((1,), (1,)), ((), ()))) for p in [
            lax.pad(x, value, ((1, 1, 0), (1, 1, 0))) for x in xs]]
            for value in (np.float64(7.25), np.float64(-3.1))]

    xs = [np.arange(30.0).reshape(5, 6) + k for k in range(3)]
    with calque.enable_x64(True):
        outs = calque.jit(f)(xs)
        for value, found in zip((7.25, -3.1), outs):
            for x, out in zip(xs, found):
                p = np.pad(x, 1, constant_values=value)
                np.testing.assert_allclose(np.asarray(out), p @ p.T, rtol=1e-14)
        z = np.array([1 + 2j, -1j])
        kinds = (np.complex64, np.complex128)
        padded = calque.jit(lambda zs: [
            lax.pad(z, z.dtype.type(3 - 0j), ((1, 0, 1),)) for z in zs])([*map(z.astype, kinds)])
        for kind, out in zip(kinds, padded, strict=True):
            assert out.dtype == kind and np.asarray(out).tolist() == [3, z[0], 3, z[1]]


def test_iree_still_merges_wide_fills_across_regions() -> None:
    """Builder.pad in lowering/emit/builder.py."""
    chains = "".join(f"""
      %p{i} = stablehlo.pad %x{i}, %v, low = [1, 1], high = [1, 1], interior = [0, 0]
        : (tensor<5x6xi64>, tensor<i64>) -> tensor<7x8xi64>
      %b{i} = iree_tensor_ext.compute_barrier.start %p{i} : tensor<7x8xi64> -> tensor<7x8xi64>
      %d{i} = stablehlo.dot_general %b{i}, %b{i}, contracting_dims = [1] x [1]
        : (tensor<7x8xi64>, tensor<7x8xi64>) -> tensor<7x7xi64>
      %e{i} = iree_tensor_ext.compute_barrier.start %d{i} : tensor<7x7xi64> -> tensor<7x7xi64>
      %f{i} = stablehlo.transpose %e{i}, dims = [1, 0] : (tensor<7x7xi64>) -> tensor<7x7xi64>"""
                     for i in range(2))
    refused(f"""func.func @main(%x0: tensor<5x6xi64>, %x1: tensor<5x6xi64>)
          -> (tensor<7x7xi64>, tensor<7x7xi64>) {{
      %v = stablehlo.constant dense<-9223372036854775808> : tensor<i64>{chains}
      return %f0, %f1 : tensor<7x7xi64>, tensor<7x7xi64> }}""", "explicit captures")


# ---- constants that are complex
def constant_spectrum() -> list[Any]:
    return [calque.numpy.fft.rfft(lax.tanh(lax.full((1, 7), 0.5, np.float32)))]


def test_complex_constants() -> None:
    """Context.note: they are computed when the program is loaded."""
    (out,) = calque.jit(constant_spectrum)()
    want = np.zeros((1, 4), np.complex64)
    want[0, 0] = 7 * np.tanh(0.5)
    np.testing.assert_allclose(np.asarray(out), want, atol=2e-6)


# ---- gathers of one place
def test_positions_that_can_only_be_zero() -> None:
    """_gather in lowering/rules/gather.py."""
    def f(x: Any, i: Any) -> Any:
        numbers = lax.GatherDimensionNumbers((2,), (1, 2), (0, 2))
        found = lax.gather(x, i.reshape(2, 8, 2), numbers, (1, 1, 1), mode="clip")
        flat = lax.GatherDimensionNumbers((1,), (1, 2), (0, 2))
        return lax.rev(found, (0,)), lax.gather(x, i, flat, (1, 1, 1), mode="fill", fill_value=9)

    x = np.array([[[4.0], [5.0]]], np.float32)
    i = (np.arange(32).reshape(16, 2) // 8).astype(np.int8)
    clipped, filled = calque.jit(f)(x, i)
    np.testing.assert_array_equal(np.asarray(clipped), np.full((2, 8, 1), 4))
    np.testing.assert_array_equal(np.asarray(filled)[:, 0], np.where(i.max(1) > 0, 9, 4))


def test_iree_still_refuses_positions_that_fold_to_zero() -> None:
    """_gather in lowering/rules/gather.py."""
    refused("""func.func @main(%x: tensor<2x1xf64>, %a: tensor<4x8xi8>) -> tensor<2x8x1xf64> {
      %b = stablehlo.reshape %a : (tensor<4x8xi8>) -> tensor<2x8x2xi8>
      %d = stablehlo.slice %b [0:2, 0:8, 0:1] : (tensor<2x8x2xi8>) -> tensor<2x8x1xi8>
      %u = stablehlo.reshape %d : (tensor<2x8x1xi8>) -> tensor<2x8xi8>
      %c = stablehlo.constant dense<0> : tensor<2x8xi8>
      %l = stablehlo.maximum %u, %c : tensor<2x8xi8>
      %i = stablehlo.minimum %l, %c : tensor<2x8xi8>
      %w = stablehlo.convert %i : (tensor<2x8xi8>) -> tensor<2x8xi32>
      %f = stablehlo.reshape %w : (tensor<2x8xi32>) -> tensor<16xi32>
      %e = tensor.empty() : tensor<16x1xf64>
      %g = linalg.generic {
        indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>],
        iterator_types = ["parallel", "parallel"]}
        ins(%f : tensor<16xi32>) outs(%e : tensor<16x1xf64>) {
      ^bb0(%in: i32, %out: f64):
        %r = arith.index_cast %in : i32 to index
        %k = linalg.index 1 : index
        %v = tensor.extract %x[%r, %k] : tensor<2x1xf64>
        linalg.yield %v : f64
      } -> tensor<16x1xf64>
      %s = stablehlo.reshape %g : (tensor<16x1xf64>) -> tensor<2x8x1xf64>
      %p = stablehlo.reverse %s, dims = [0] : tensor<2x8x1xf64>
      return %p : tensor<2x8x1xf64> }""", "unrealized_conversion_cast")


# ---- scalars broadcast more than once
def test_changes_of_a_scalar_broadcast_twice() -> None:
    """Builder.broadcast."""
    def f(np: Any, a: Any, i: Any) -> Any:
        wide, square = np.broadcast_to(a[3, 4], (4, 1)), np.broadcast_to(a[3, 4], (2, 2))
        one, two = np.broadcast_to(i[2:3], (4, 1)), np.broadcast_to(i[2], (2, 2))
        return [-wide, -square, wide.astype("float16"), square.astype("float16"),
                one.astype("float32"), two.astype("float32"), abs(one), abs(two)]

    both(f, A, I)
    both(lambda np, x: [-np.broadcast_to(x.reshape(()), (4, 1)),
                        -np.broadcast_to(x.reshape(()), (2, 2))], A[0, :1])


def test_iree_still_refuses_changes_of_a_scalar_broadcast_twice() -> None:
    """Builder.broadcast in lowering/emit/builder.py."""
    refused("""func.func @main(%x: tensor<1xf32>) -> (tensor<4x1xf32>, tensor<2x2xf32>) {
      %s = stablehlo.reshape %x : (tensor<1xf32>) -> tensor<f32>
      %a = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4x1xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
      %m = stablehlo.negate %a : tensor<4x1xf32>
      %n = stablehlo.negate %b : tensor<2x2xf32>
      return %m, %n : tensor<4x1xf32>, tensor<2x2xf32> }""", "unresolved materialization")


# ---- carries that nobody reads
def test_carries_that_the_body_does_not_read() -> None:
    """Context.reads: in host loops, whose bodies are no kernels."""
    def f(n: Any, u: Any) -> Any:
        def body(c: Any) -> Any:
            i, u, s, k, b, z = c
            u = jnp.cumsum(u * 0.5, 0)
            return i + 1, u, u.sum(), i * 2, u[0, 0] > 1, lax.complex(u, u)

        start = (0, u, jnp.float32(7), -1, True, lax.complex(u, u))
        return lax.while_loop(lambda c: c[0] < n, body, start), lax.scan(
            lambda c, x: (jnp.cumsum(x), x[:2]), u[0], jnp.tile(u, (70, 1)))

    with calque.enable_x64(False):
        u = (np.arange(16, dtype=np.float32) % 5).reshape(4, 4)
        for n in (0, 3):
            (i, v, s, k, b, z), (last, rows) = calque.jit(f)(n, u)
            np.testing.assert_array_equal(np.asarray(last), np.cumsum(u[3]))
            np.testing.assert_array_equal(np.asarray(rows), np.tile(u, (70, 1))[:, :2])
            want = u.copy()
            for _step in range(n):
                want = np.cumsum(want * np.float32(0.5), 0, dtype=np.float32)
            np.testing.assert_array_equal(np.asarray(v), want)
            assert (int(i), int(k), bool(b)) == (n, 2 * (n - 1) if n else -1,
                                                 bool(want[0, 0] > 1) if n else True)
            np.testing.assert_allclose(float(s), want.sum() if n else 7, rtol=1e-6)
            np.testing.assert_array_equal(np.asarray(z), want + 1j * want)


def test_iree_still_dies_of_carries_that_the_body_does_not_read() -> None:
    """Context.reads in lowering/emit/context.py."""
    code = """
import numpy as np, calque, calque.numpy as jnp
from calque import lax
from calque.lowering.driver.module import lower, module_text
from calque.lowering.rules import Context, views
Context.reads = lambda self, old, new: new
views.is_possible = lambda values: False
calque.jit(lambda i, x, s: lax.while_loop(lambda c: c[0] < 10, lambda c: (
    c[0] + 1, jnp.cumsum(c[1] * 0.5, 0), c[1].sum()), (i, x, s)))(
        np.int32(0), np.ones((4, 4), "f"), np.float32(0))"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=120,
        env={**os.environ, "CALQUE_CACHE": "0"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33)))
    said = done.stderr.decode()
    assert done.returncode == 1 and "CompileError" in said, said[-500:]
    assert "the compiler crashed" in said or "ran out of memory" in said, said[-500:]


# ---- maxima of float16 in vectors
def test_iree_still_refuses_maxima_of_vectors_of_float16() -> None:
    """KernelBuilder.emit; test_kernels.test_narrow_floats fails without the cure."""
    refused("""stream.executable private @k {
      stream.executable.export public @k workgroups() -> (index, index, index) {
        %c1 = arith.constant 1 : index
        stream.return %c1, %c1, %c1 : index, index, index }
      builtin.module {
        func.func @k(%a: !stream.binding, %b: !stream.binding) {
          %c0 = arith.constant 0 : index
          %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<8xf16>
          %y = stream.binding.subspan %b[%c0] : !stream.binding -> memref<8xf16>
          %v = vector.load %x[%c0] : memref<8xf16>, vector<8xf16>
          %w = arith.negf %v : vector<8xf16>
          %m = arith.maximumf %v, %w : vector<8xf16>
          vector.store %m, %y[%c0] : memref<8xf16>, vector<8xf16>
          return } } }
    func.func @main(%x: tensor<8xf16>) -> tensor<8xf16> {
      %r = flow.dispatch @k::@k(%x) : (tensor<8xf16>) -> tensor<8xf16>
      return %r : tensor<8xf16> }""", "requires the same shape")


# ---- products whose sums have one term
def test_products_of_single_elements() -> None:
    """contract._outer: complex numbers of one array, halves of one element beside others."""
    v, w = np.array([1.5 + 2j], np.complex64), np.array([[2.0], [3.0], [4.0]], np.float32)
    rows = (((1,), (0,)), ((), ()))

    def f(v: Any, w: Any) -> list[Any]:
        one, half = jnp.ones((1, 1), np.float16) / 2, w.astype(np.float16)
        return [lax.dot_general(jnp.conj(v).reshape(1, 1), v.reshape(1, 1), rows),
                jnp.linalg.vecdot(v, v), jnp.einsum("ij,kj->ik", w, 2 * w),
                lax.dot_general(one, half, (((0,), (1,)), ((), ()))),
                lax.dot_general(one, half + 1, (((1,), (1,)), ((), ()))),
                jnp.einsum("bi,bj->bji", w, w), jnp.einsum("i,i->", v[:1], v[:1]),
                (w > 2) @ jnp.ones((1, 2), bool),
                w.astype(np.int8) @ jnp.full((1, 2), 100, np.int8)]

    wrapped = (w @ [[100, 100]]).astype(np.int64).astype("i1")
    wants = [[[6.25]], 6.25, 2 * w @ w.T, w.T / 2, (w.T + 1) / 2, (w * w)[:, :, None], v[0] ** 2,
             [[False] * 2, [True] * 2, [True] * 2], wrapped]
    for out, want in zip(calque.jit(f)(v, w), wants, strict=True):
        np.testing.assert_allclose(np.asarray(out), want, rtol=1e-6)


# ---- rows of AArch64
def test_rows_that_are_no_whole_vectors() -> None:
    """lowering/rules/gather.py: picked from what is computed, for AArch64; compiled, not run."""
    target = parse_target("cpu:aarch64")
    widths = {"f4": (4, 6, 33, 94), "f2": (12, 16), "f8": (6, 33), "i4": (7,), "c8": (5,)}
    arrays = [np.ones((190, w), d) for d, ws in widths.items() for w in ws]
    with calque.enable_x64(True):
        lowered = lower(calque.make_jaxpr(lambda xs, i: [(x * 2)[i] + 1 for x in xs])(
            arrays, np.arange(96, dtype=np.int32)).jaxpr, target)
    assert lowered.module is not None and "linalg_ext.gather" in module_text(lowered.module)
    compile_module(lowered.module, target, lowered.options)


def test_iree_still_refuses_rows_that_are_no_whole_vectors() -> None:
    """_is_moved in lowering/rules/gather.py."""
    with pytest.raises(CompileError, match="large vector sizes"):
        compile_module("""
          func.func @main(%x: tensor<190x6xf32>, %i: tensor<96xi32>) -> tensor<96x6xf32> {
            %e = tensor.empty() : tensor<96x6xf32>
            %r = iree_linalg_ext.gather dimension_map = [0]
              ins(%x, %i : tensor<190x6xf32>, tensor<96xi32>)
              outs(%e : tensor<96x6xf32>) -> tensor<96x6xf32>
            return %r : tensor<96x6xf32>
          }""", parse_target("cpu:aarch64"), careful=True)


@pytest.mark.usefixtures("host_loops")
def test_positions_in_loops_within_loops_are_read() -> None:
    """IREE 3.13 loses, or rejects, a dispatch without operands that only a region within its block
    reads; seen in diffrax's Kvaerno3 of complex states (tests/clients/libs/diffrax.py)."""
    def f(x: Any, n: Any) -> Any:
        def inner(j: Any, x: Any) -> Any:
            return lax.cond(x[0, 0] > 1e6, lambda x: x, lambda x: jnp.sin(
                x @ x / 4 + jnp.eye(3)) * (jnp.arange(3) / 2), x)
        return lax.fori_loop(0, n, lambda i, x: lax.fori_loop(0, n - 2, inner, x), x)
    x = A[:3, :3] / 100
    assert "iota" not in calque.jit(f).lower(x, 4).as_text()
    want = np.asarray(x, np.float64)
    for _ in range(8):
        want = np.sin(want @ want / 4 + np.eye(3)) * (np.arange(3) / 2)
    np.testing.assert_allclose(calque.jit(f)(x, 4), want, rtol=1e-5)  # eight products, float32
