"""Linear algebra where no C kernel is linked: loops as kernels on CPU targets, host loops else."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.harness import Case, compare, expected, function, run
from support.samples import C64, F32, F64, ROWS

import calque
from calque.lowering.kernels import forms, native

SMALL = 120  # elements of an operand: larger ones take long to compile in these forms
NAMES = ("cholesky", "triangular_solve", "lu", "geqrf", "geqp3", "householder_product", "qr",
         "eigh", "svd", "pinv", "tridiagonal", "hessenberg", "tridiagonal_solve",
         "cholesky_update")


@pytest.fixture
def without_objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, x64: None) -> Iterator[None]:
    calque.clear_caches()
    monkeypatch.setattr(native, "OBJECTS", tmp_path)
    yield
    calque.clear_caches()


def _cases(name: str, dtypes: tuple[Any, ...], every: bool) -> list[Case]:
    row, cases = ROWS[name], []
    samples = [s for s in (*row.samples, *row.specials) if every or s is row.samples[0]]
    for dtype in [d for d in dtypes if d in row.dtypes]:
        for sample in samples:
            params, arrays = sample.parameters(dtype), row.arrays(sample, dtype)
            if all(x.size <= SMALL for x in arrays):
                cases.append(Case(f"{name} [{sample.label}] {dtype}",
                                  function(row, sample, params), arrays,
                                  compare(expected(row, params, arrays), row)))
    return cases


@pytest.mark.usefixtures("without_objects")
@pytest.mark.parametrize("part", [
    2, *[pytest.param(i, marks=pytest.mark.slow) for i in (0, 1, 3)]])
def test_without_a_c_compiler(part: int) -> None:
    """The first sample of f32."""
    run([c for n in NAMES[part::4] for c in _cases(n, (F32,), False)], 20)


@pytest.mark.slow
@pytest.mark.usefixtures("without_objects")
@pytest.mark.parametrize("name", NAMES)
def test_all_samples_without_a_c_compiler(name: str) -> None:
    """All samples of f32, the first of f64."""
    run([*_cases(name, (F32,), True), *_cases(name, (F64,), False)], 20)


@pytest.mark.usefixtures("without_objects", "host_loops")
@pytest.mark.parametrize("dtype", [F32, pytest.param(C64, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("name", [
    "cholesky", "qr", *[pytest.param(n, marks=pytest.mark.slow)  # (svd: below)
                        for n in ("lu", "eigh", "svd", "tridiagonal_solve")]])
def test_on_other_targets(name: str, dtype: Any) -> None:
    """Loops of StableHLO, which every target takes."""
    run(_cases(name, (dtype,), False), 1)


@pytest.mark.slow
@pytest.mark.usefixtures("without_objects", "host_loops")
def test_a_complex_svd_of_many_rows() -> None:
    """IREE refused it until Context.opaque hid what its loops start from."""
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((12, 12)) + 1j * rng.standard_normal((12, 12))).astype(np.complex64)
    values = calque.jit(lambda a: calque.numpy.linalg.svd(a, compute_uv=False))(a)
    np.testing.assert_allclose(np.asarray(values), np.linalg.svd(a, compute_uv=False), rtol=2e-5)


def test_the_table_names_what_is_linked() -> None:
    """Every source of the table is there, and every entry that a rule calls exists in it."""
    folder = Path(native.__file__).resolve().parents[1] / "native"
    for row in forms.FORMS.values():
        for form in row:
            if form.kind == "native":
                assert (folder / f"{form.source}.c").exists(), form
