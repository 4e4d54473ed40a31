"""Types cells into one Python, as a reader would, and writes what each shows: a child of run.py.

    python [-m calque.compat] type_cells.py CELLS ROWS SECONDS

CELLS: a JSON list of lists of cells, each inner one with names of its own (a page, a docstring).
ROWS: a file to which a line goes for each cell: what it printed, what its last line gives, its
error, seconds.  A cell may take SECONDS.
"""
from __future__ import annotations

import ast
import contextlib
import io
import json
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from typing import Any


class TooLong(BaseException):
    """A cell takes more than its time."""


def ring(*_: Any) -> None:
    raise TooLong


def _run(cell: str, names: dict[str, Any]) -> Any:
    """The value of a cell's last line, where it is an expression."""
    tree = ast.parse(cell)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    shown = cell.rstrip().endswith(";")
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    return None if shown else value


def typed(cell: str, names: dict[str, Any], seconds: int) -> dict[str, Any]:
    """What a cell shows: value (as text; `object`, itself), printed, error, seconds."""
    printed = io.StringIO()
    row: dict[str, Any] = {}
    start = time.perf_counter()
    signal.alarm(seconds)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            value = _run(cell, names)
            row |= {"value": None if value is None else repr(value)[:20000], "object": value}
            for effects in (getattr(names.get("jax"), "effects_barrier", None),):
                if effects:
                    effects()
    except TooLong:
        row |= {"error": "TooLong", "message": ""}
    except BaseException as e:  # noqa: BLE001  (a cell may raise SystemExit, too)
        where = traceback.extract_tb(e.__traceback__)
        row |= {"error": type(e).__name__, "message": str(e)[:2000],
                "kinds": [c.__name__ for c in type(e).__mro__],
                "at": [f"{f.filename}:{f.lineno}" for f in where[-3:]]}
    finally:
        signal.alarm(0)
    return row | {"printed": printed.getvalue()[:20000], "seconds": time.perf_counter() - start}


def main(arguments: Sequence[str]) -> None:
    source, rows, seconds = arguments[0], arguments[1], int(arguments[2])
    with open(source) as file:
        groups = json.load(file)
    signal.signal(signal.SIGALRM, ring)
    warnings.simplefilter("ignore")
    with open(rows) as before:
        done = sum(1 for _ in before)
    with open(rows, "a", buffering=1) as out:
        count = 0
        for g, cells in enumerate(groups):
            names: dict[str, Any] = {"__name__": "__main__"}
            exec("import jax, jax.numpy as jnp, numpy as np\nfrom jax import lax", names)
            names["np"].random.seed(0)
            for c, cell in enumerate(cells):
                count += 1
                if count <= done:  # (another process died behind it)
                    continue
                print(json.dumps({"at work": [g, c]}), file=sys.__stdout__, flush=True)
                row = {"group": g, "cell": c} | typed(cell, names, seconds)
                row.pop("object", None)
                out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
