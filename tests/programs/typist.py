"""Runs a published program cell by cell, or statement by statement, and writes what it computes.

    python [-m calque.compat] typist.py CELLS ROWS SECONDS

CELLS: a JSON list of texts of Python.  ROWS: a file to which a line goes for each: what it printed,
its error, its seconds until every array is there, and a digest of each name that is new or bound
anew.  The names of a function `main` count as well.  A child of run.py.
"""
from __future__ import annotations

import ast
import json
import os
import pathlib
import random
import signal
import sys
import time
import types
import warnings
from collections.abc import Sequence
from typing import Any

import numpy

sys.path.append(str(pathlib.Path(__file__).parents[1] / "jax_docs"))
import type_cells
import warm

LEAVES = 60  # of one value
KEEP = "_keep_names_of_main"


def digest(value: Any, leaves: Any) -> list[Any] | None:
    """Shape, type, sums and extent of every array of a value; None: there is none in it."""
    if isinstance(value, type):
        return None
    try:
        array = isinstance(value, (bool, int, float, complex, numpy.ndarray, numpy.generic)) or (
            hasattr(value, "dtype") and hasattr(value, "shape"))
    except Exception:  # noqa: BLE001  (a program's own __getattr__ may raise anything)
        return None
    if not array and not isinstance(value, (tuple, list, dict)):
        return None
    made = []
    for leaf in [value] if array else leaves(value)[:LEAVES]:
        try:
            given = numpy.asarray(leaf)
            shown = given.astype(complex if given.dtype.kind == "c" else float)
        except (TypeError, ValueError, RuntimeError):  # (no numbers; a deleted array)
            continue
        finite = numpy.isfinite(shown)
        shown = numpy.where(finite, shown, 0)
        weights = numpy.cos(numpy.arange(shown.size)).reshape(shown.shape)
        made.append([list(given.shape), str(given.dtype), float(numpy.abs(shown).sum()),
                     float((weights * shown.real).sum()),
                     float(numpy.abs(shown).max(initial=0)), int((~finite).sum())])
    return made or None


def opened(cell: str) -> str:
    """A cell whose function `main` hands out its names when it ends."""
    try:
        tree = ast.parse(cell)
    except SyntaxError:  # (the row says it)
        return cell
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "main" and not node.decorator_list:
            keep = ast.parse(f"{KEEP}(locals())").body
            node.body = [ast.Try(body=node.body, handlers=[], orelse=[], finalbody=keep)]
            return ast.unparse(ast.fix_missing_locations(tree))
    return cell


def wait_for(names: dict[str, Any]) -> None:
    for value in list(names.values()):
        try:
            if hasattr(value, "block_until_ready") and not isinstance(value, type):
                value.block_until_ready()
        except Exception:  # noqa: BLE001  (a deleted array; a __getattr__ of the program's own)
            pass


def main(arguments: Sequence[str]) -> None:
    source, rows, seconds = arguments[0], arguments[1], int(arguments[2])
    cells = json.loads(pathlib.Path(source).read_text())
    signal.signal(signal.SIGALRM, type_cells.ring)
    warnings.simplefilter("ignore")
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    names = module.__dict__  # (the program's own: it binds what it likes)
    kept: dict[str, Any] = {}
    names.update({KEEP: kept.update, "display": print, "get_ipython": lambda: None,
                  "__file__": os.environ["PROGRAM"]})
    sys.argv[1:] = []
    import jax  # (which draws from NumPy)
    warm.watch(jax)
    numpy.random.seed(0)
    random.seed(0)
    seen = dict(names)
    done = len(pathlib.Path(rows).read_text().splitlines())
    with open(rows, "a", buffering=1) as out:
        for c, cell in list(enumerate(cells))[done:]:  # (another process died behind those)
            print(c, file=sys.__stdout__, flush=True)  # (what it died of, if it dies)
            start = time.perf_counter()
            row = type_cells.typed(opened(cell), names, seconds)
            wait_for(names)
            row |= {"cell": c, "seconds": time.perf_counter() - start, "values": {}}
            row["values"]["(last line)"] = digest(row.pop("object", None), jax.tree.leaves)
            for name, value in [*names.items(), *kept.items()]:
                if not name.startswith("_") and seen.get(name) is not value:
                    seen[name] = value
                    row["values"][name] = digest(value, jax.tree.leaves)
            row["values"] = {k: v for k, v in row["values"].items() if v}
            out.write(json.dumps(row) + "\n")
    pathlib.Path(rows).with_suffix(".calls").write_text(json.dumps(warm.times()))
    os._exit(0)  # (threads of libraries may hold the process)


if __name__ == "__main__":
    main(sys.argv[1:])
