"""Which form a primitive takes on a target: one table, read by the rules and by `calque explain`.

The forms of a primitive stand in the order of preference; the first that the target has is taken:

* host: NumPy's LAPACK, called by the program on the caller's thread; only in a process that runs
  Python, never in an artifact.
* native: a C kernel linked into the program (lowering/native), where the package was built with one
  for the target's level.
* kernel: a kernel written in MLIR by lowering/kernels; every CPU target.
* portable: StableHLO (loops and products); every target.

Start reading at `form_of`.
"""
from __future__ import annotations

from dataclasses import dataclass

from calque.core.types import Dtype
from calque.lowering.kernels import gemm
from calque.lowering.kernels.native import available, object_of
from calque.lowering.target.targets import Target


@dataclass(frozen=True, slots=True)
class Form:
    """One way to compute a primitive.

    Attributes:
      kind: 'host', 'native', 'kernel' or 'portable'.
      text: what it is, for `calque explain`.
      source: of a native form, the C file's stem.
    """

    kind: str
    text: str
    source: str = ""


_COLUMNS = "column by column in a loop, by halves where large"
_REFLECTIONS = "a reflection per column in a loop"
_JACOBI = "Jacobi rotations in a loop"
FORMS: dict[str, tuple[Form, ...]] = {
    "sort": (Form("kernel", "stable radix sort of positions"),
             Form("portable", "ranks by comparing all pairs, or a bitonic network")),
    "top_k": (Form("native", "selection in one pass, of up to 256", "select"),
              Form("kernel", "radix selection, then a sort of what is left"),
              Form("portable", "the bitonic network")),
    "dot_general": (Form("native", "packed C kernel, of real floats and sizes where it is ahead",
                         "gemm"),
                    Form("portable", "IREE's own")),
    "quantized_dot": (Form("native", "C kernel that unpacks blocks as it reads them",
                           "quantized"),
                      Form("portable", "unpacked, then a product")),
    "prefix_attention": (Form("native", "C kernel that reads the keys that are seen", "attention"),
                         Form("portable", "products and a softmax over all keys")),
    "dequantize": (Form("native", "C kernel", "quantized"),
                   Form("portable", "elementwise, from bytes")),
    "fft": (Form("native", "C kernel: Stockham's passes over lines side by side", "fft"),
            Form("portable", "products with small matrices; Bluestein's chirp in both")),
    "scan": (Form("kernel", "one kernel from the body's Program, where passes/cost allows"),
             Form("portable", "written out, or a loop on the host")),
    "while": (Form("kernel", "one kernel from the body's Program, where passes/cost allows"),
              Form("portable", "a loop on the host")),
    "cholesky": (Form("native", "blocked C kernel", "factor"), Form("portable", _COLUMNS)),
    "triangular_solve": (Form("native", "blocked C kernel", "factor"),
                         Form("portable", _COLUMNS)),
    "lu": (Form("native", "blocked C kernel", "factor"), Form("portable", _COLUMNS)),
    "geqrf": (Form("native", "blocked C kernel", "orthogonal"), Form("portable", _REFLECTIONS)),
    "geqp3": (Form("native", "C kernel", "orthogonal"), Form("portable", _REFLECTIONS)),
    "householder_product": (Form("native", "blocked C kernel", "orthogonal"),
                            Form("portable", _REFLECTIONS)),
    "eigh": (Form("native", "C kernel: tridiagonal form, implicit QL", "eigen"),
             Form("portable", _JACOBI)),
    "svd": (Form("native", "C kernel: bidiagonal form, implicit QR", "singular"),
            Form("portable", _JACOBI)),
    "tridiagonal": (Form("native", "C kernel", "eigen"), Form("portable", _REFLECTIONS)),
    "tridiagonal_solve": (Form("native", "C kernel: elimination with exchanges", "eigen"),
                          Form("portable", "elimination with exchanges, a loop over rows")),
    "hessenberg": (Form("native", "blocked C kernel", "schur"), Form("portable", _REFLECTIONS)),
    "eig": (Form("native", "C kernel: Hessenberg form, QR iteration", "schur"),
            Form("host", "NumPy's LAPACK, in a Python process")),
    "schur": (Form("native", "C kernel: Hessenberg form, QR iteration", "schur"),),
}


def form_of(primitive: str, target: Target | None, dtype: Dtype,
            in_process: bool = False) -> str:
    """The kind of form that a primitive of this dtype takes on a target; '' where it has none."""
    for form in FORMS[primitive]:
        if has_form(form, target, dtype, in_process):
            return form.kind
    return ""


def has_form(form: Form, target: Target | None, dtype: Dtype, in_process: bool) -> bool:
    """Whether a target has a form for a dtype."""
    cpu = target is not None and target.backend == "llvm-cpu"
    if form.kind == "host":
        return in_process and cpu
    if form.source == "gemm":
        return gemm.takes(target, dtype.name)
    if form.kind == "native":
        return available(target, form.source, dtype)
    return cpu if form.kind == "kernel" else True


def missing_objects(target: Target) -> list[str]:
    """The C sources that the table names and the package lacks for a CPU target."""
    sources = sorted({f.source for forms in FORMS.values() for f in forms if f.kind == "native"})
    return [s for s in sources if object_of(target, s) is None]
