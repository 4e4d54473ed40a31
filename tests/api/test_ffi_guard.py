"""CALQUE_FFI_GUARD: kernels in C between pages that nobody may touch; this process lives on."""
from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import calque
from calque import ffi, lax

S = calque.ShapeDtypeStruct
pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"),
                                reason="read and write are told apart on x86-64")


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALQUE_FFI_GUARD", "1")


def registered(source: str, **options: Any) -> str:
    name = f"guard {abs(hash(source))}"
    ffi.register_ffi_target(name, ffi.Kernel(source, "f", **options))
    return name


def test_kernels_that_stay_within_give_what_they_gave() -> None:
    """Results, work space, grids, aliases, bool, halves, empty arrays, scalars, in a scan."""
    whole = registered("""
    void f(const float *x, const _Bool *flip, const float *none, void *h, float *y, void *same,
           _Bool *back, double *work, long n, double by, long least, long g, long groups) {
      for (long i = g; i < n; i += groups) {
        work[i] = by * x[i];
        y[i] = flip[i] ? -work[i] : work[i];
        back[i] = !flip[i];
        ((unsigned short *)h)[i] ^= 1 << 15;
        if (least != -9223372036854775807 - 1) y[i] = 7;
      }
    }""", scalars=lambda ins, outs: (outs[0].size, -0.1, -2**63), grid=lambda ins, outs: 3,
                       work=lambda ins, outs: [(outs[0].shape, "float64")])
    x = np.arange(5, dtype=np.float32)
    flip, h = x > 2, x.astype(np.float16)

    @calque.jit
    def f(x: Any, flip: Any, h: Any) -> Any:
        y, same, back = ffi.ffi_call(whole, (S((5,), np.float32), S((5,), np.float16), S(
            (5,), bool)), input_output_aliases={3: 1})(x, flip, x[:0], h)
        return y, same, back, h
    want = (np.where(flip, -1, 1) * -0.1 * x).astype(np.float32)
    for got, expected in zip(f(x, flip, h), (want, -h, ~flip, h)):
        np.testing.assert_array_equal(got, expected)
    double = registered("void f(const float *x, float *y, long n) "
                        "{ for (long i = 0; i < n; ++i) y[i] = 2 * x[i]; }",
                        scalars=lambda ins, outs: (outs[0].size,))
    out = calque.jit(lambda x: lax.scan(lambda c, _: (ffi.ffi_call(double, c)(c), c), x, None,
                                        length=3))(x)
    np.testing.assert_array_equal(out[0], 8 * x)
    np.testing.assert_array_equal(ffi.ffi_call(double, S((5,), np.float32))(x), 2 * x)  # eagerly


BAD = {  # the body, of x and y of 5 float32 and work space of 3 double -> the words
    "y[n] = 1;": "wrote memory 0 bytes behind the end of result 0, which has 20 bytes",
    "y[n + 1000] = 1;": "wrote memory 4000 bytes behind the end of result 0",
    "y[-3] = 1;": "wrote memory 12 bytes before result 0",
    "y[0] = x[n + 2];": "read memory 8 bytes behind the end of argument 0, which has 20 bytes",
    "y[0] = x[-1];": "read memory 4 bytes before argument 0",
    "((float *)x)[2] = 1;": "wrote argument 0, at byte 8 of its 20",
    "work[3] = y[0];": "wrote memory 0 bytes behind the end of work space 0, which has 24 bytes",
    "*(volatile int *)16 = 1;": "wrote memory that is none of its arrays",
    "y[0] = *(volatile int *)16;": "read memory that is none of its arrays",
    "__builtin_trap();": "ended its process (status -4)"}


@pytest.mark.parametrize("body", BAD)
def test_a_kernel_that_goes_astray_is_named(body: str) -> None:
    name = registered(f"void f(const float *x, float *y, double *work, long n) {{ {body} }}",
                      scalars=lambda ins, outs: (outs[0].size,),
                      work=lambda ins, outs: [((3,), "float64")])
    with pytest.raises(Exception, match="ffi_call: the C kernel of") as error:
        calque.jit(lambda x: ffi.ffi_call(name, x)(x))(np.ones(5, np.float32))
    said = str(error.value)
    assert BAD[body] in said and f"'{name}'" in said
    assert "test_ffi_guard.py:" in said and "Fix: mend the kernel" in said
