"""Sparse arrays, calque beside jax: products, their gradients, loops around them, solvers.

    python benchmarks/sparse.py [--only WORD ...] [--jax PYTHON] [--write]

A case is an operation, a size and a density; the matrices are drawn by NumPy, so both libraries
have the same.  Each library runs in a process of its own, call by call in turn, and what they
return is compared.  --write makes the table in docs/sparse.md.
"""
from __future__ import annotations

import argparse
import math
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from small_loops import LIBRARIES, difference

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "sparse.md"
BEGIN, END = "<!-- table: benchmarks/sparse.py -->", "<!-- end of table -->"
SIZES = ((100, 0.05), (1_000, 0.005), (1_000, 0.05), (10_000, 0.0005), (10_000, 0.005))
FEW = ((100, 0.05), (1_000, 0.005), (10_000, 0.0005))
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def drawn(n: int, density: float, batch: tuple[int, ...] = ()) -> tuple[Any, Any]:
    """Values and places of a matrix with about density * n * n nonzeros, in order."""
    draw = np.random.RandomState(n)
    count = int(density * n * n)
    flat = np.stack([draw.permutation(np.unique(draw.randint(0, n * n, 2 * count)))[:count]
                     for _ in range(math.prod(batch))])
    flat = np.sort(flat, -1).reshape(*batch, count)
    places = np.stack(np.divmod(flat, n), -1).astype(np.int32)
    return draw.randn(*batch, count).astype(np.float32), places


def laplacian(side: int) -> tuple[Any, Any]:
    """Five-point Laplacian, with something on the diagonal, of side * side cells."""
    at = np.arange(side * side).reshape(side, side)
    rows, columns, values = [at.ravel()], [at.ravel()], [np.full(at.size, 4.5)]
    for a, b in ((at[1:], at[:-1]), (at[:, 1:], at[:, :-1])):
        for i, j in ((a, b), (b, a)):
            rows.append(i.ravel())
            columns.append(j.ravel())
            values.append(np.full(i.size, -1.0))
    places = np.stack([np.concatenate(rows), np.concatenate(columns)], -1)
    order = np.lexsort(places.T[::-1])
    return np.concatenate(values)[order].astype(np.float32), places[order].astype(np.int32)


class Cases:
    """The operations, each (n, density) -> (function, arguments), over one library."""

    def __init__(self, package: Any, sparse: Any, scipy_linalg: Any, linalg: Any) -> None:
        self.j, self.sparse, self.krylov, self.linalg = package, sparse, scipy_linalg, linalg

    def coo(self, n: int, density: float) -> Any:
        data, places = drawn(n, density)
        return self.sparse.BCOO((self.j.numpy.asarray(data), self.j.numpy.asarray(places)),
                                shape=(n, n), indices_sorted=True, unique_indices=True)

    def csr(self, n: int, density: float) -> Any:
        return self.sparse.BCSR.from_bcoo(self.coo(n, density))

    def batch(self, n: int, density: float) -> Any:
        data, places = drawn(n, density, (16,))
        return self.sparse.BCOO((self.j.numpy.asarray(data), self.j.numpy.asarray(places)),
                                shape=(16, n, n), indices_sorted=True, unique_indices=True)

    def dense(self, *shape: int) -> Any:
        return self.j.numpy.asarray(np.random.RandomState(1).randn(*shape).astype(np.float32))

    def matvec(self, n: int, density: float) -> Case:
        return lambda m, v: m @ v, (self.coo(n, density), self.dense(n))

    def matvec_unsorted(self, n: int, density: float) -> Case:
        data, places = drawn(n, density)
        order = np.random.RandomState(2).permutation(len(data))
        m = self.sparse.BCOO(tuple(map(self.j.numpy.asarray, (data[order], places[order]))),
                             shape=(n, n))
        return lambda m, v: m @ v, (m, self.dense(n))

    def transposed_matvec(self, n: int, density: float) -> Case:
        return lambda m, v: m.T @ v, (self.coo(n, density), self.dense(n))

    def vecmat(self, n: int, density: float) -> Case:
        return lambda m, v: v @ m, (self.coo(n, density), self.dense(n))

    def matmat(self, n: int, density: float) -> Case:
        return lambda m, v: m @ v, (self.coo(n, density), self.dense(n, 32))

    def transposed_matmat(self, n: int, density: float) -> Case:
        return lambda m, v: m.T @ v, (self.coo(n, density), self.dense(n, 32))

    def dense_times_sparse(self, n: int, density: float) -> Case:
        return lambda m, v: v @ m, (self.coo(n, density), self.dense(32, n))

    def bcsr_matvec(self, n: int, density: float) -> Case:
        return lambda m, v: m @ v, (self.csr(n, density), self.dense(n))

    def bcsr_matmat(self, n: int, density: float) -> Case:
        return lambda m, v: m @ v, (self.csr(n, density), self.dense(n, 32))

    def csr_matvec(self, n: int, density: float) -> Case:
        m = self.csr(n, density)
        return lambda m, v: m @ v, (
            self.sparse.CSR((m.data, m.indices, m.indptr), shape=m.shape), self.dense(n))

    def gradients_of_matvec(self, n: int, density: float) -> Case:
        def loss(data: Any, v: Any, m: Any) -> Any:
            made = self.sparse.BCOO((data, m.indices), shape=m.shape) @ v
            return (made * made).sum()
        m = self.coo(n, density)
        return self.j.value_and_grad(loss, (0, 1)), (m.data, self.dense(n), m)

    def gradients_of_matmat(self, n: int, density: float) -> Case:
        def loss(data: Any, v: Any, m: Any) -> Any:
            made = self.sparse.BCOO((data, m.indices), shape=m.shape) @ v
            return (made * made).sum()
        m = self.coo(n, density)
        return self.j.value_and_grad(loss, (0, 1)), (m.data, self.dense(n, 32), m)

    def batched_matvec(self, n: int, density: float) -> Case:
        return self.j.vmap(lambda m, v: m @ v), (self.batch(n, density), self.dense(16, n))

    def one_matrix_many_vectors(self, n: int, density: float) -> Case:
        return (self.j.vmap(lambda m, v: m @ v, in_axes=(None, 0)),
                (self.coo(n, density), self.dense(16, n)))

    def sampled_product(self, n: int, density: float) -> Case:
        return (lambda a, b, at: self.sparse.bcoo_dot_general_sampled(
            a, b, at, dimension_numbers=(([1], [0]), ([], []))),
            (self.dense(n, 32), self.dense(32, n), self.coo(n, density).indices))

    def power_iteration(self, n: int, density: float) -> Case:
        def run(m: Any, v: Any) -> Any:
            def step(v: Any, _: Any) -> Any:
                w = m @ v
                return w / self.j.numpy.linalg.norm(w), None
            return self.j.lax.scan(step, v, None, length=30)[0]
        at = np.arange(n, dtype=np.int32)
        data, places = drawn(n, density)
        data, places = np.abs(data), np.concatenate([places, np.stack([at, at], -1)])
        data = np.concatenate([data, np.full(n, 0.1, np.float32)])
        m = self.sparse.BCOO((self.j.numpy.asarray(data), self.j.numpy.asarray(places)),
                             shape=(n, n))
        return run, (m, self.j.numpy.ones(n, np.float32))

    def _poisson(self, n: int) -> Any:
        data, places = laplacian(math.isqrt(n))
        return self.sparse.BCOO(tuple(map(self.j.numpy.asarray, (data, places))), shape=(
            math.isqrt(n) ** 2,) * 2, indices_sorted=True, unique_indices=True)

    def conjugate_gradients(self, n: int, _: float) -> Case:
        m = self._poisson(n)
        return (lambda m, b: self.krylov.cg(lambda x: m @ x, b, tol=0.0, maxiter=20)[0],
                (m, self.dense(m.shape[0])))

    def bcsr_conjugate_gradients(self, n: int, _: float) -> Case:
        m = self.sparse.BCSR.from_bcoo(self._poisson(n))
        return (lambda m, b: self.krylov.cg(lambda x: m @ x, b, tol=0.0, maxiter=20)[0],
                (m, self.dense(m.shape[0])))

    def gmres(self, n: int, _: float) -> Case:
        m = self._poisson(n)
        return (lambda m, b: self.krylov.gmres(lambda x: m @ x, b, tol=1e-4)[0],
                (m, self.dense(m.shape[0])))

    def lobpcg(self, n: int, density: float) -> Case:
        m = self._poisson(n)
        return (lambda m, x: self.linalg.lobpcg_standard(lambda v: m @ v, x, m=10)[0],
                (m, self.dense(m.shape[0], 4)))

    def spsolve(self, n: int, _: float) -> Case:
        m = self.sparse.BCSR.from_bcoo(self._poisson(n))
        return self.linalg.spsolve, (m.data, m.indices, m.indptr, self.dense(m.shape[0]))

    def todense(self, n: int, density: float) -> Case:
        return lambda m: m.todense(), (self.coo(n, density),)

    def fromdense(self, n: int, density: float) -> Case:
        m = self.coo(n, density)
        return lambda x: self.sparse.BCOO.fromdense(x, nse=m.nse), (m.todense(),)

    def sort_indices(self, n: int, density: float) -> Case:
        return lambda m: m.T.sort_indices(), (self.coo(n, density),)

    def sum_duplicates(self, n: int, density: float) -> Case:
        m = self.coo(n, density)
        return lambda m: (m.T + m).sum_duplicates(nse=2 * m.nse), (m,)

    def times_dense(self, n: int, density: float) -> Case:
        return lambda m, v: (m * v).data, (self.coo(n, density), self.dense(n))

    def row_sums(self, n: int, density: float) -> Case:
        return lambda m: m.sum(1).todense(), (self.coo(n, density),)


# The operations, where they are measured, and whether under jit.
TABLE: tuple[tuple[str, tuple[tuple[int, float], ...], bool], ...] = (
    *((name, SIZES, True) for name in (
        "matvec", "matvec_unsorted", "transposed_matvec", "vecmat", "matmat", "transposed_matmat",
        "dense_times_sparse", "bcsr_matvec", "bcsr_matmat", "csr_matvec", "gradients_of_matvec")),
    *((name, FEW, True) for name in (
        "gradients_of_matmat", "batched_matvec", "one_matrix_many_vectors", "sampled_product",
        "power_iteration", "conjugate_gradients", "bcsr_conjugate_gradients", "gmres", "lobpcg",
        "spsolve", "sort_indices", "sum_duplicates", "times_dense", "row_sums")),
    ("todense", FEW[:2], True), ("fromdense", FEW[:2], True),
    ("matvec", FEW, False), ("bcsr_matvec", FEW, False))


def rows() -> Iterator[tuple[str, str, tuple[int, float], bool]]:
    """Name of a row, operation, (n, density), whether under jit."""
    for name, sizes, jitted in TABLE:
        for n, density in sizes:
            said = name.replace("_", " ") + ("" if jitted else ", eager")
            yield f"{said} | {n:,} | {100 * density:g} %", name, (n, density), jitted


def serve(library: str) -> None:
    """Answers ("first", row) and ("calls", seconds), pickled, in a process of its own."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if library == "jax":
        import jax as package
        from jax.experimental import sparse
        from jax.experimental.sparse import linalg
        from jax.scipy.sparse import linalg as krylov
    else:
        import calque as package
        from calque.experimental import sparse
        from calque.experimental.sparse import linalg
        from calque.scipy.sparse import linalg as krylov
    cases = Cases(package, sparse, krylov, linalg)
    known = {row: rest for row, *rest in rows()}
    call: Any = None
    while True:
        try:
            task, given = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: Any = None
        try:
            if task == "first":
                name, sizes, jitted = known[given]
                f, args = getattr(cases, name)(*sizes)
                g = package.jit(f) if jitted else f

                def call(g: Any = g, args: Any = args) -> Any:
                    return package.block_until_ready(g(*args))
                start = time.perf_counter()
                made = call()
                spent = time.perf_counter() - start
                answer = spent, [np.asarray(x) for x in package.tree.leaves(made)]
            else:
                answer, end = math.inf, time.perf_counter() + given
                while time.perf_counter() < end:
                    start = time.perf_counter()
                    call()
                    answer = min(answer, time.perf_counter() - start)
        except Exception as problem:
            answer = f"{type(problem).__name__}: {str(problem)[:300]}"
        pickle.dump(answer, answers)
        answers.flush()


class Process:
    """The other end of `serve`."""

    def __init__(self, python: str, library: str, cache: str) -> None:
        self.library = library
        self.process = subprocess.Popen(
            [python, __file__, "--serve", library], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "CALQUE_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu"})

    def ask(self, *question: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        pickle.dump(question, self.process.stdin)
        self.process.stdin.flush()
        return pickle.load(self.process.stdout)


def measured(both: list[Process], name: str, seconds: float) -> dict[str, Any]:
    """A row: first calls, best calls in turn, and how far the results are apart."""
    row: dict[str, Any] = {"name": name}
    firsts = [p.ask("first", name) for p in both]
    best = [math.inf, math.inf]
    for _ in range(4):
        for i, p in enumerate(both):
            said = firsts[i] if isinstance(firsts[i], str) else p.ask("calls", seconds / 4)
            if isinstance(said, str):
                return {**row, "problem": f"{p.library}: {said}"}
            best[i] = min(best[i], said)
    return {**row, "best": best, "first": [spent for spent, _ in firsts],
            "difference": difference(firsts[0][1], firsts[1][1])}


HEAD = """| operation | n | nonzeros | calque, us | jax, us | ratio | first call | agree |
|---|---|---|---|---|---|---|---|"""


def text(row: dict[str, Any]) -> str:
    """A row of the table."""
    if "problem" in row:
        return f"| {row['name']} | {row['problem']} | | | | |"
    (a, b), firsts, apart = row["best"], row["first"], row["difference"]
    agree = "yes" if apart <= 2e-3 else f"{apart:.1e}"
    return (f"| {row['name']} | {1e6 * a:,.0f} | {1e6 * b:,.0f} | {a / b:.2f} | "
            f"{firsts[0] / firsts[1]:.2f} | {agree} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--jax", default=sys.executable, help="a Python that has jax")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    found = []
    with tempfile.TemporaryDirectory() as cache:
        both = [Process(python, library, cache)
                for python, library in zip((sys.executable, given.jax), LIBRARIES)]
        print(HEAD)
        for name, *_ in rows():
            if not given.only or any(word in name for word in given.only):
                found.append(measured(both, name, given.seconds))
                print(text(found[-1]), flush=True)
    ratios = [r["best"][0] / r["best"][1] for r in found if "best" in r]
    mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    said = f"Geometric mean {mean:.2f}; {sum(r > 1 for r in ratios)} of {len(ratios)} above 1."
    print(said)
    if given.write:
        page = PAGE.read_text("utf-8")
        start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        table = "\n".join([HEAD, *map(text, found)])
        PAGE.write_text(f"{page[:start]}\n{table}\n\n{said}\n{page[end:]}", "utf-8")


if __name__ == "__main__":
    main()
