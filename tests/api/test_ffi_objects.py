"""calque.ffi: object files of the user's on CPUs, by level; other C compilers; grids, halves."""
from __future__ import annotations

import itertools
import platform
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calque
from calque import aot, ffi
from calque.runtime.target import cpu_flags

S = calque.ShapeDtypeStruct
_counter = itertools.count()
x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="code for x86-64")
SOURCE = """
static const float table[4] = {1, 2, 3, LEVEL};  // (data of its own)
static int twice(int i) { return 2 * i; }
void f(const float *x, float *y, long n, double by) {
  for (long i = 0; i < n; ++i) y[i] = by * x[i] + table[twice(i) % 4 + 1];
}
float g;  // a global name that is not needed
"""


def compiled(folder: Path, source: str = SOURCE, *flags: str, level: int = 0,
             kind: str = "-c") -> bytes:
    path = folder / f"{next(_counter)}.o"
    subprocess.run(["cc", "-xc", f"-DLEVEL={level}", kind, *(flags or ("-O2", "-fPIC")), "-o", path,
                    "-"], input=source, text=True, check=True)
    return path.read_bytes()


def registered(source: Any, entry: str = "f", platform: str = "cpu", **options: Any) -> str:
    name = f"object{next(_counter)}"
    ffi.register_ffi_target(name, ffi.Kernel(source, entry, **options), platform)
    return name


def size_and_by(ins: Any, outs: Any, by: float = 2.0) -> tuple[int, float]:
    return outs[0].size, by


def call(name: str, x: Any, **attributes: Any) -> Any:
    return ffi.ffi_call(name, S(x.shape, x.dtype))(x, **attributes)


@x86
def test_objects_by_level(tmp_path: Path) -> None:
    """The one of the target's level, or the best below it; each as itself in an artifact."""
    by_level = registered({f"x86-64-v{n}": compiled(tmp_path, SOURCE, "-O2", "-fPIC",
                                                    f"-march=x86-64-v{n}", level=n)
                           for n in (2, 3)}, scalars=size_and_by)
    plain = registered(compiled(tmp_path, SOURCE, "-O0", "-fPIC", "-g"), scalars=size_and_by)
    x = np.arange(5, dtype=np.float32)

    def f(x: Any) -> Any:
        return call(by_level, x), call(plain, x + 1, by=0.5)
    for target, level in (("cpu:x86-64-v2", 2), ("cpu:x86-64-v3", 3), ("cpu:x86-64-v4", 3)):
        vmfb = aot.compile(f, S(x.shape, x.dtype), targets=target, name="f").vmfb
        assert [n for n in (2, 3) if struct.pack("<4f", 1, 2, 3, n) in vmfb] == [level]
        if target == "cpu:x86-64-v4" and "avx512f" not in cpu_flags():
            continue
        one, other = aot.load(vmfb).f(x)
        table = np.float32([2, level])[np.arange(5) % 2]
        np.testing.assert_array_equal(one.numpy(), 2 * x + table)
        np.testing.assert_array_equal(other.numpy(), (x + 1) / 2 + np.float32([2, 0])[
            np.arange(5) % 2])
    np.testing.assert_array_equal(calque.jit(f)(x)[1], other.numpy())
    with pytest.raises(ValueError, match="has no object for x86-64 .cpu:x86-64.; it has: x86-64-v2,"
                                         " x86-64-v3") as error:
        aot.compile(f, S(x.shape, x.dtype), targets="cpu:x86-64")
    assert "test_ffi_objects.py:" in str(error.value) and "Fix: " in str(error.value)


def changed(code: bytes, at: int, value: int) -> bytes:
    return code[:at] + struct.pack("<H", value) + code[at + 2:]


@x86
def test_objects_that_cannot_be_used(tmp_path: Path) -> None:
    good = compiled(tmp_path)
    needing = compiled(tmp_path, "#include <string.h>\n#include <math.h>\n"
                       "void f(const float *x, float *y, long n, double by)"
                       "{ memcpy(y, x, 4 * n); y[0] = erff(x[0]); }")
    cases: list[tuple[Any, str, str]] = [
        (b"\x7fBAD", "f", "is no ELF object file"),
        (good[:4] + b"\1" + good[5:], "f", "is no object of 64 bits"),
        (changed(good, 16, 3), "f", "is no relocatable object"),
        (compiled(tmp_path, SOURCE, "-fPIC", kind="-shared"), "f", "is no relocatable object"),
        (changed(good, 18, 183), "f", "is code for aarch64, not for x86_64"),
        (changed(good, 18, 999), "f", "is code for machine 999, not for x86_64"),
        (good[:len(good) - 80], "f", "is damaged"),
        (good, "h", "defines no 'h' (it defines: f, g)"),
        (compiled(tmp_path, SOURCE, "-O0", "-fno-pic", "-fno-pie", "-mcmodel=medium",
                  "-mlarge-data-threshold=1000"), "f", "is not position-independent"),
        (needing, "f", "needs erff, memcpy, which nothing in it defines"),
        ({"v3": good}, "f", "objects of 'object"),
        ({"aarch64": good}, "f", "has no object for x86-64-v3 (cpu:x86-64-v3); it has: aarch64")]
    x = S((3,), np.float32)
    for source, entry, words in cases:
        name = registered(source, entry, scalars=size_and_by)
        with pytest.raises(ValueError) as error:
            aot.compile(lambda x, name=name: call(name, x), x, targets="cpu:x86-64-v3")
        said = str(error.value)
        assert words in said and f"'{name}'" in said, said
        assert "\n  In " in said and "test_ffi_objects.py:" in said and "\n  Fix: " in said
    for bad in ({"x86-64": "text"}, {3: b""}, 3):
        with pytest.raises(TypeError, match="ffi.Kernel: "):
            ffi.Kernel(bad, "f")  # type: ignore[arg-type]


def test_grids_of_more_axes() -> None:
    """Every cell once, the first axis fastest; with two axes and with three."""
    two = registered("""
    void f(int *y, long a, long na, long b, long nb) { y[b * na + a] = 100 * na + 10 * a + b; }
    """, grid=lambda ins, outs: outs[0].shape[::-1])
    three = registered("""
    void f(int *y, long a, long na, long b, long nb, long c, long nc) {
      y[(c * nb + b) * na + a] = 100 * c + 10 * b + a;
    }""", grid=lambda ins, outs: outs[0].shape[::-1])
    y, z, none = calque.jit(lambda: [ffi.ffi_call(name, S(s, np.int32))() for name, s in (
        (two, (3, 5)), (three, (2, 3, 4)), (three, (2, 0, 4)))])()
    np.testing.assert_array_equal(y, 500 + 10 * np.arange(5) + np.arange(3)[:, None])
    np.testing.assert_array_equal(z, np.add.outer(np.add.outer(
        100 * np.arange(2), 10 * np.arange(3)), np.arange(4)))
    assert none.shape == (2, 0, 4)
    bad = registered("void f(int *y, long a, long n) { }", grid=lambda ins, outs: outs[0].shape)
    with pytest.raises(ValueError, match=r"at most 65536 groups on a CPU, got \(300, 300\)"):
        calque.jit(lambda: ffi.ffi_call(bad, S((300, 300), np.int32))())()


HALVES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
          "float8_e5m2fnuz")


def test_halves_and_floats_of_8_bits() -> None:
    """As bits (the top one, the sign, is turned), and as what the compiler has; aliases, too."""
    names = {t: registered(f"void f(const {c} *x, {c} *y, long n)"
                           f"{{ for (long i = 0; i < n; ++i) y[i] = x[i] ^ {1 << bits - 1}; }}",
                           scalars=lambda ins, outs: (outs[0].size,))
             for t in HALVES for c, bits in [("unsigned char", 8) if "8" in t[:6] else (
                 "unsigned short", 16)]}
    real = registered("void f(_Float16 *x, _Float16 *y, long n)"
                      "{ for (long i = 0; i < n; ++i) y[i] += y[i]; }",
                      scalars=lambda ins, outs: (outs[0].size,))
    xs = [np.arange(5).astype(calque.numpy.dtype(t)) for t in HALVES]
    outs = calque.jit(lambda xs: [call(names[x.dtype.name], x) for x in xs])(xs)
    for x, y in zip(xs, outs):
        bits = np.dtype(f"u{x.itemsize}")
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(y).view(bits), x.view(bits) ^ bits.type(
            1 << 8 * x.itemsize - 1))
    if shutil.which("gcc") and platform.machine() in ("x86_64", "AMD64"):
        f = aot.compile(lambda x: ffi.ffi_call(real, x, input_output_aliases={0: 0})(x),
                        S((5,), np.float16), targets="cpu:x86-64-v3", name="f")
        (got,) = aot.load(f.vmfb).f(xs[0])
        np.testing.assert_array_equal(got.numpy(), 2 * xs[0])
    wrong = registered("void f(unsigned short *x, unsigned short *y) { }")
    with pytest.raises(ValueError, match="discards .const. qualifier"):
        calque.jit(lambda x: call(wrong, x))(xs[0])


@pytest.mark.parametrize("cc", ["clang", "ccache gcc", "gcc -O1"])
def test_other_compilers(cc: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Named in CC, also in several words."""
    if shutil.which(cc.split()[0]) is None or shutil.which(cc.split()[-1].strip("-O1") or "cc"
                                                           ) is None:
        pytest.skip(f"no {cc} here")
    monkeypatch.setenv("CC", cc)
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path))
    n = next(_counter)
    name = registered(f"void f(const float *x, float _Complex *y, long n, double by) {{ for (long i"
                      f" = 0; i < n; ++i) y[i] = by * x[i] + {n}; }}", scalars=size_and_by)
    x = np.arange(5, dtype=np.float32)
    got = calque.jit(lambda x: ffi.ffi_call(name, S(x.shape, np.complex64))(x, by=3.0))(x)
    np.testing.assert_array_equal(got, (3 * x + n).astype(np.complex64))
    bad = registered("void f(const double *x, float *y) { }")
    with pytest.raises(ValueError, match="does not compile:\n(.|\n)*incompatible.pointer.types"):
        calque.jit(lambda x: call(bad, x))(x)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    name = registered("void f(const float *x, float *y) { *y = *x + 5; }")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeError, match="no C compiler for (.|\n)*Fix: install one"):
        calque.jit(lambda x: call(name, x))(np.ones((), np.float32))
