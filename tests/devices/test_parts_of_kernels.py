"""Kernels of the user's in parts of devices; the oracle is NumPy, sums of small whole numbers."""
from __future__ import annotations

import numpy as np

import calque
import calque.numpy as jnp
from calque import ffi
from calque.experimental import pallas as pl

S = calque.ShapeDtypeStruct


def test_in_parts_of_devices() -> None:
    """Each device's part is a call of its own, without a vmap_method."""
    mesh = calque.make_mesh((2,), ("i",))
    ffi.register_ffi_target("sums", ffi.Kernel(
        "void f(const float *x, float *y, long n) { float s = 0; "
        "for (long i = 0; i < n; ++i) y[i] = s += x[i]; }",
        "f", scalars=lambda ins, outs: (outs[0].size,)))
    x = np.arange(8, dtype=np.float32)
    got = calque.jit(calque.shard_map(
        lambda x: ffi.ffi_call("sums", S(x.shape, x.dtype))(x), mesh=mesh,
        in_specs=calque.P("i"), out_specs=calque.P("i")))(x)
    np.testing.assert_array_equal(got, np.cumsum(x.reshape(2, 4), axis=1).ravel())
    got = calque.pmap(lambda x: ffi.ffi_call("sums", S(x.shape, x.dtype))(x) + calque.lax.psum(
        x, "i"), axis_name="i")(x.reshape(2, 4))
    np.testing.assert_array_equal(got, np.cumsum(x.reshape(2, 4), axis=1) + x[:4] + x[4:])


def test_pallas_in_parts_of_devices() -> None:
    """Each device runs the grid on its part; values vary over the axis as operands do."""
    mesh = calque.make_mesh((2,), ("i",))

    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = jnp.cumsum(x_ref[...]) * y_ref[0] + pl.program_id(0)

    block = pl.BlockSpec((2,), lambda i: (i,))

    def part(x, y):
        made = pl.pallas_call(kernel, S(x.shape, x.dtype), grid=2, out_specs=block,
                              in_specs=[block, pl.BlockSpec((1,), lambda i: (0,))])(x, y)
        return made, calque.lax.psum(made, "i")

    x = np.arange(8, dtype=np.float32)
    got, total = calque.jit(calque.shard_map(
        part, mesh=mesh, in_specs=(calque.P("i"), calque.P()),
        out_specs=(calque.P("i"), calque.P())))(x, np.full(1, 3, np.float32))
    want = (np.cumsum(x.reshape(2, 2, 2), axis=2) * 3 + np.array([[0], [1]])).reshape(2, 4)
    np.testing.assert_array_equal(got, want.ravel())
    np.testing.assert_array_equal(total, want.sum(0))
