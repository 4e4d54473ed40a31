"""Writes docs/iree.md: what IREE does wrong, from the tests that notice when it does no longer.

    python docs/scripts/iree_page.py
"""
from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / "docs" / "iree.md"
SENTINEL = "test_iree_still_"

HEAD = """# IREE: its defects, our cures, and how to move to a new one

Made by `python docs/scripts/iree_page.py` from the tests named `test_iree_still_*`. Each of them
shows a defect of the pinned IREE by a module as plain as can be, and names the cure that lives in
our code because of it. **A test that fails here is good news**: IREE has mended something; delete
the cure it names, then the test.

## Moving to a new IREE
1. Change the version where it is pinned: `iree-base-compiler` and `iree-base-runtime` in
   `pyproject.toml`, `iree-base-runtime` in `runtime/pyproject.toml`, and
   `runtime/cpp/cmake/iree.cmake` for the C++ library. Install both into a fresh environment.
2. Run the sentinels first: `pytest tests -k iree_still` (with `-m vulkan`, too, where there is a
   device); `make test` leaves them out, as long as IREE is the same. For each that fails: take the
   cure out, run the file's other tests, and keep the cure if they fail without it.
3. `pytest tests/lowering tests/native tests/runtime`: compilation, bits, memory, artifacts of the
   version before. Artifacts carry the version of IREE that made them; which older ones still load
   is `tests/runtime/test_aot.py`'s to say.
4. What is asked of the compiler by name may have changed it: flags
   (`lowering/compiler/compile.py`, `lowering/passes/cost.py`), the passes and
   dialects that kernels are written in (`lowering/kernels`), the names of CPU features
   (`lowering/target/targets.py`), and the imports of `lowering/compiler/server.py`.
5. `make bench`: the numbers that choose between IREE's forms and ours (`lowering/passes/cost.py`,
   `lowering/kernels/gemm.py`) were measured with the version before (`benchmarks/border.py`,
   `benchmarks/products.py`).
6. `python docs/scripts/iree_page.py`, and the slow tests (`make test-slow`).

Two defects end the process and have no test: an empty contraction divides by zero (`_dot` in
`lowering/rules/contract.py`), and IREE's own scatter writes outside its operand (`scatter_rows`
in `lowering/kernels/scatter.py`). A third gives wrong values, in large programs only: a
dispatch that reads nothing (positions, an identity) and is read by a loop or a branch within
its block alone may never run, so that what it should have written is whatever lay there, or is
refused ("streamable op expected to be in an execution region"). Positions in programs of loops
within loops are therefore read from a constant behind a barrier (`_iota` in
`lowering/rules/shape.py`; `tests/clients/libs/diffrax.py`, `implicit`, is NaN without it), and so
are complex numbers that are all the same (`Builder.splat`). A fourth: what a loop from the host
carries on, where it was made before the loop of constants alone, is given back before its last
reader has read it ("transient buffer has not been committed", a race); what such a carry becomes
therefore reads what it was (`Context.reads`; tests/lowering/test_callbacks_beside.py).

## What IREE still does
"""


def sentinels() -> Iterator[tuple[pathlib.Path, str, str]]:
    """(file, cure, name) of every sentinel."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        for node in ast.parse(text).body if SENTINEL in text else ():
            if isinstance(node, ast.FunctionDef) and node.name.startswith(SENTINEL):
                yield path, ast.get_docstring(node) or "", node.name


def page() -> str:
    rows = ["| IREE still | cure | test |", "|---|---|---|"]
    for path, cure, name in sentinels():
        file = path.relative_to(ROOT).as_posix()
        said = " ".join(cure.split())
        rows.append(f"| {name.removeprefix(SENTINEL).replace('_', ' ')} | {said} "
                    f"| [{path.name}](../{file}) |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
