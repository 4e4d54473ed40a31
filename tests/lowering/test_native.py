"""C kernels linked into programs: the call's conventions, and what is done where there are none."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import calque
from calque.core.avals import ShapedArray
from calque.core.primitive import Primitive, registry
from calque.lowering.emit.builder import Value
from calque.lowering.kernels import forms, native
from calque.lowering.rules import Op, rules
from calque.lowering.target.targets import cpu_target, parse_target

FLAGS = (Path(native.__file__).parents[1] / "native" / "FLAGS").read_text().split()
SOURCE = """
#include <stdint.h>
#define ARG(T, x) T x##_base, int64_t x##_at
void calque_first_f64(ARG(const double *, z), ARG(const int32_t *, k), ARG(double *, w),
                      ARG(int32_t *, who), int64_t n, int64_t scale,
                      int64_t group, int64_t groups) {
    const double *z = z_base + 2 * z_at;
    for (int64_t i = n * group / groups; i < n * (group + 1) / groups; i++) {
        w_base[w_at + 2 * i] = scale * z[2 * i] + k_base[k_at + i];
        w_base[w_at + 2 * i + 1] = -z[2 * i + 1];
        who_base[who_at + i] = group;
    }
}
"""
compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@compiler
def test_operands_results_scalars_and_groups(tmp_path: Path, x64: None,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """Complex memory, integers and work over three groups, through the linked object."""
    folder = tmp_path / native.level_of(cpu_target())
    folder.mkdir()
    (tmp_path / "toy.c").write_text(SOURCE)
    subprocess.run(["cc", *FLAGS, "-c", str(tmp_path / "toy.c"), "-o", str(folder / "toy.o")],
                   check=True)
    monkeypatch.setattr(native, "OBJECTS", tmp_path)
    n = 7
    z, k = np.dtype("c16"), np.dtype("i4")

    def rule(op: Op) -> list[Value]:
        return native.emit_native(op.ctx, "toy", "calque_first_f64", op.operands,
                                  [((n,), z), ((n,), k)], (n, 3), groups=3)

    toy = Primitive("toy_native", multiple_results=True)
    toy.abstract = lambda *_: [ShapedArray((n,), z), ShapedArray((n,), k)]
    monkeypatch.setitem(rules, "toy_native", rule)
    x = np.arange(n) * (1 + 2j)
    try:
        w, who = calque.jit(lambda x, y: toy.bind(x, y))(x, np.arange(n, dtype=np.int32))
    finally:
        del registry["toy_native"]
    np.testing.assert_array_equal(np.asarray(w), 3 * x.real + np.arange(n) - 2j * x.imag / 2)
    np.testing.assert_array_equal(np.asarray(who), [0, 0, 1, 1, 2, 2, 2][:n])


def test_level_of_targets() -> None:
    names = {"cpu:x86-64-v2": "x86-64-v2", "cpu:x86-64-v3": "x86-64-v3",
             "cpu:x86-64-v4": "x86-64-v4", "cpu:x86-64": "", "cpu:aarch64": "aarch64",
             "cuda:sm_80": "", "vulkan:lavapipe": ""}
    assert {n: native.level_of(parse_target(n)) for n in names} == names


def test_every_primitive_has_a_form_everywhere() -> None:
    """The last form of each row is portable, so no target is without; eig and schur have none."""
    for name, row in forms.FORMS.items():
        made = forms.form_of(name, parse_target("cuda:sm_80"), np.dtype("f4"))
        assert made == ("" if name in ("eig", "schur") else "portable"), name
        assert made == "" or row[-1].kind == "portable"
    assert forms.form_of("eig", parse_target("cpu:x86-64"), np.dtype("f4"), True) == "host"
    assert forms.form_of("sort", cpu_target(), np.dtype("i4")) == "kernel"
