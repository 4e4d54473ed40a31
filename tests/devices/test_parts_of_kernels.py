"""Kernels of the user's in parts of devices; the oracle is NumPy, sums of small whole numbers."""
from __future__ import annotations

import numpy as np

import calque
from calque import ffi

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
