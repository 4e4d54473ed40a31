"""Products and convolutions by the C kernels where sizes are known at the call only, against NumPy
in float64: none, one, odd and many of each."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from support.guard import Guarded

import calque
from calque import aot, lax
from calque.lowering.kernels.native import object_of
from calque.lowering.target.targets import cpu_target
from calque.runtime.buffer import Buffer

R = np.random.default_rng(0)
# sums of some hundred float32 products, against the largest result: a few roundings of 6e-8
TOLERANCE = 2e-6
SMALL, MANY = (0, 1, 3, 70), (0, 1, 5, 64, 65, 257, 600)

PRODUCTS = {
    "rows": ("ab,bc->ac", ("b,256", "256,300"), MANY),
    "rows of a transposed matrix": ("ab,cb->ac", ("b,512", "300,512"), SMALL),
    "columns": ("ab,bc->ac", ("300,256", "256,b"), SMALL),
    "contracted": ("ab,bc->ac", ("100,b", "b,300"), (0, 1, 255, 257, 1030)),
    "rows that are added up": ("ba,bc->ac", ("b,512", "b,300"), SMALL),
    "batch": ("bhij,bhjk->bhik", ("b,5,64,128", "b,5,128,48"), (0, 1, 2, 9)),
    "heads": ("bthd,bshd->bhts", ("b,64,4,64", "b,64,4,64"), (0, 1, 3)),
    "length": ("bthd,bshd->bhts", ("2,b,4,64", "2,b,4,64"), (0, 1, 3, 300))}


def _called(f: Callable[..., Any], *specs: str) -> Callable[..., Any]:
    """A compiled f of arrays between inaccessible pages."""
    run = aot.load(aot.compile(f, *[f"f32[{s}]" for s in specs], targets=["cpu"], name="f").vmfb).f

    def call(*xs: Any) -> Any:
        guards = [Guarded(x, at_end) for x, at_end in zip(xs, (True, False))]
        out = run(*[Buffer.alias_numpy(g.array, run.device) for g in guards])[0].numpy()
        assert not any(g.changed() for g in guards)
        return out

    return call


def _drawn(spec: str, **sizes: int) -> Any:
    return R.standard_normal([sizes[s] if s in sizes else int(s) for s in spec.split(",")]).astype(
        np.float32)


def _check(got: Any, want: Any) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * np.abs(want).max(initial=1))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    form, specs, sizes = PRODUCTS[name]
    run = _called(lambda x, y: calque.numpy.einsum(form, x, y), *specs)
    for b in sizes:
        x, y = (_drawn(s, b=b) for s in specs)
        _check(run(x, y), np.einsum(form, x.astype(float), y.astype(float)))


def test_all_sizes_of_a_product() -> None:
    run = _called(lambda x, y: x @ y, "a,b", "b,c")
    for a, b, c in itertools.product((0, 1, 70), (0, 1, 260), (0, 1, 40)):
        x, y = _drawn("a,b", a=a, b=b), _drawn("b,c", b=b, c=c)
        _check(run(x, y), x.astype(float) @ y.astype(float))


CONVOLUTIONS = [("NCHW", "OIHW", "NCHW", "b,3,20,21", "16,3,3,3", (1, 1)),
                ("NHWC", "HWIO", "NHWC", "b,20,21,8", "3,3,8,16", (2, 1)),
                ("HWNC", "HWIO", "HWNC", "20,21,b,8", "3,3,8,16", (1, 2)),
                ("NHWC", "HWIO", "NCHW", "b,20,21,8", "1,1,8,64", (1, 1)),
                ("NHWC", "HWIO", "NHWC", "2,b+4,b+5,8", "3,4,8,16", (1, 2)),
                ("NCHW", "OIHW", "NCHW", "b+1,3,3*b+3,9", "16,3,3,3", (2, 1))]


@pytest.mark.parametrize("lhs, rhs, out, x, y, strides", CONVOLUTIONS)
def test_convolutions(lhs: str, rhs: str, out: str, x: str, y: str, strides: Sequence[int]
                      ) -> None:
    run = _called(lambda x, y: lax.conv_general_dilated(
        x, y, strides, "VALID", dimension_numbers=(lhs, rhs, out)), x, y)
    kernel = _drawn(y)
    for b in (0, 1, 2, 5, 33):
        image = R.standard_normal(
            [eval(n, {"b": b}) for n in x.split(",")]).astype(np.float32)
        windows = sliding_window_view(_moved(image.astype(float), lhs, "NHWC"),
                                      _moved(kernel, rhs, "HWIO").shape[:2], (1, 2))
        want = np.einsum("nhwcij,ijco->nhwo", windows[:, ::strides[0], ::strides[1]],
                         _moved(kernel.astype(float), rhs, "HWIO"))
        _check(run(image, kernel), _moved(want, "NHWC", out))


def _moved(x: Any, have: str, want: str) -> Any:
    return x.transpose([have.index(c) for c in want])


@pytest.mark.skipif(object_of(cpu_target(), "gemm") is None, reason="no C kernels were built")
def test_they_are_the_kernels() -> None:
    b, = calque.export.symbolic_shape("b")
    spec = calque.ShapeDtypeStruct
    product = calque.jit(lambda x, w: x @ w).lower(spec((b, 256), "float32"),
                                                  spec((256, 300), "float32"))
    convolution = calque.jit(lambda x, w: lax.conv(x, w, (1, 1), "SAME")).lower(
        spec((b, 3, 20, 20), "float32"), spec((8, 3, 3, 3), "float32"))
    assert "product in C" in str(product.plan())
    assert "convolution in C" in str(convolution.plan())
