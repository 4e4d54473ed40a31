"""Times the kernels of lowering/native beside LAPACK: `python -m tests.native.measure [family]`.

Prints a Markdown table of milliseconds on one core (best of several) for f32 and f64; run it with
OPENBLAS_NUM_THREADS=1 (and =2 to see what a second core gives LAPACK).
"""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from tests.native.kernels import FAMILIES, MARGIN, SUFFIXES, library, matrices, real

SIZES = (64, 128, 256, 512)


def best(run: Callable[[], Any], seconds: float = 0.4) -> float:
    """Least milliseconds of a call."""
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds and len(times) < 200:
        t = time.perf_counter()
        run()
        times.append(time.perf_counter() - t)
    return min(times) * 1e3


def kernel(family: str, entry: str, dtype: Any, inputs: list[np.ndarray[Any, Any]],
           results: list[tuple[tuple[int, ...], Any]], sizes: tuple[int, ...]) -> float:
    import ctypes
    function = getattr(library(family), f"calque_{entry}_{SUFFIXES[np.dtype(dtype).name]}")
    buffers = inputs + [np.zeros(int(np.prod(shape)) + MARGIN, kind) for shape, kind in results]
    arguments: list[Any] = []
    for x in buffers:
        arguments += [ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(0)]
    arguments += [ctypes.c_int64(size) for size in (*sizes, 0, 1)]
    return best(lambda: function(*arguments))


def rows(dtype: str, n: int) -> list[tuple[str, str, Callable[[], float], Callable[[], Any]]]:
    """(family, name, ours in ms, LAPACK's call)."""
    r, i = real(dtype), np.int32
    a = matrices(n, n, n, dtype=dtype)
    h = (a + a.T) / 2
    s = (a @ a.T / n + np.eye(n)).astype(dtype)
    low = np.tril(a / n + 2 * np.eye(n)).astype(dtype)
    square = ((n, n), dtype)
    linalg = scipy.linalg
    big = ((40 * n * n + 4096,), dtype)  # enough for any entry's workspace

    def ours(family: str, entry: str, x: list[Any], results: list[Any], *sizes: int) -> Any:
        return lambda: kernel(family, entry, dtype, x, results, (1, *sizes))

    return [
        ("factor", "cholesky", ours("factor", "cholesky", [s], [square], n),
         lambda: linalg.cholesky(s, lower=True, check_finite=False)),
        ("factor", "lu", ours("factor", "lu", [a], [square, ((n,), i), ((n,), i)], n, n),
         lambda: linalg.lu_factor(a, check_finite=False)),
        ("factor", "triangular_solve", ours("factor", "triangular_solve", [low, a], [square],
                                            n, n, 1, 1, 0, 0, 0),
         lambda: linalg.solve_triangular(low, a, lower=True, check_finite=False)),
        ("factor", "triangular_solve, right", ours("factor", "triangular_solve", [low, a], [square],
                                                   n, n, 0, 1, 0, 0, 0),
         lambda: linalg.solve_triangular(low, a, lower=True, check_finite=False)),
        ("factor", "triangular_solve, 1 column", ours("factor", "triangular_solve", [low, a[:, 0]],
                                                      [((n,), dtype)], n, 1, 1, 1, 0, 0, 0),
         lambda: linalg.solve_triangular(low, a[:, 0], lower=True, check_finite=False)),
        ("orthogonal", "geqrf", ours("orthogonal", "geqrf", [a], [square, ((n,), dtype), big],
                                     n, n),
         lambda: linalg.qr(a, mode="raw", check_finite=False)),
        ("orthogonal", "householder_product",
         ours("orthogonal", "householder_product", [a, a[0]], [square, big], n, n, n),
         lambda: linalg.lapack.get_lapack_funcs("orgqr", (a,))(a, a[0], lwork=64 * n)),
        ("orthogonal", "geqp3", ours("orthogonal", "geqp3", [a], [square, ((n,), i), ((n,), dtype),
                                                                 big], n, n),
         lambda: linalg.qr(a, mode="raw", pivoting=True, check_finite=False)),
        ("eigen", "eigh", ours("eigen", "eigh", [h], [square, ((n,), r), big], n),
         lambda: linalg.eigh(h, driver="evd", check_finite=False)),
        ("eigen", "eigvalsh", ours("eigen", "eigvalsh", [h], [((n,), r), big], n),
         lambda: linalg.eigvalsh(h, driver="evd", check_finite=False)),
        ("singular", "svd", ours("singular", "svd", [a], [square, ((n,), r), square, big], n, n, 0),
         lambda: linalg.svd(a, check_finite=False)),
        ("singular", "svdvals", ours("singular", "svdvals", [a], [((n,), r), big], n, n),
         lambda: linalg.svdvals(a, check_finite=False)),
        ("schur", "gehrd", ours("schur", "gehrd", [a], [square, ((n,), dtype), big], n),
         lambda: linalg.hessenberg(a, check_finite=False)),
        ("schur", "geev", lambda: kernel(
            "schur", "geev", dtype, [a], [((2 * n,), r), *[((n, 2 * n), r)] * 2, big], (1, n)),
         lambda: linalg.eig(a, left=True, check_finite=False)),
        ("schur", "schur", ours("schur", "schur", [a], [square, square, big], n),
         lambda: linalg.schur(a, check_finite=False)),
    ]


def main() -> None:
    wanted = sys.argv[1:] or FAMILIES
    print("| entry | dtype | n | ours ms | LAPACK ms | ratio |\n|---|---|---:|---:|---:|---:|")
    for dtype in ("float32", "float64"):
        for n in SIZES:
            for family, name, ours, theirs in rows(dtype, n):
                if family in wanted:
                    x, y = ours(), best(theirs)
                    print(f"| {name} | {SUFFIXES[dtype]} | {n} | {x:.3f} | {y:.3f} | {x / y:.2f} |",
                          flush=True)


if __name__ == "__main__":
    main()
