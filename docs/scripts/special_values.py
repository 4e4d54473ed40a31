"""Values and derivatives of the functions of special_exact.py by calque or by jax, in a process of
its own, which says what it works at, so that special_survey.py can end it where it hangs:

    python docs/scripts/special_values.py calque|jax POINTS.npz FOLDER float32|float64 FIRST
"""
from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import numpy as np


def called(scipy: Any, numpy: Any, name: str) -> Any:
    """The function of columns that a name stands for: a result of several, or one of vectors."""
    path, _, which = name.partition("/")
    f = scipy
    for piece in path.split("."):
        f = getattr(f, piece)
    if path.endswith("multigammaln"):
        return lambda a: f(a, int(which))
    if path.endswith("bessel_jn"):
        return lambda x: f(x, v=int(which), n_iter=100)[int(which)]
    if path.endswith("logsumexp"):
        return lambda a, b: f(numpy.stack([a, b], -1), axis=-1)
    if path.endswith("softmax"):
        return lambda a, b: f(numpy.stack([a, b], -1), axis=-1)[..., 0]
    if path.endswith("polygamma"):
        return lambda n, x: f(n.astype("int32"), x)
    return (lambda *a: f(*a)[int(which)]) if which else f


def values(library: Any, scipy: Any, numpy: Any, name: str, by: Any, columns: Any) -> list[Any]:
    """The value, and the derivatives by some arguments (the value itself where there are none)."""
    f = called(scipy, numpy, name)

    def both(*a: Any) -> Any:
        out = f(*a)
        return out.sum(), out

    made: list[Any] = []
    try:
        if not by:
            return [np.asarray(library.jit(f)(*columns))]
        (_, out), slopes = library.jit(library.value_and_grad(both, tuple(by), has_aux=True))(
            *columns)
        made = [out, *slopes]
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error)[:90]}", file=sys.stderr)
        try:
            made = [library.jit(f)(*columns)]
        except Exception as again:
            print(f"{name}: {type(again).__name__}: {str(again)[:90]}", file=sys.stderr)
    return [np.asarray(m) for m in made]


def main(name: str, points: str, out: str, dtype: str, first: int) -> None:
    library = importlib.import_module(name)
    library.config.update("jax_enable_x64", dtype == "float64")
    scipy, numpy = (importlib.import_module(f"{name}.{m}") for m in ("scipy", "numpy"))
    importlib.import_module(f"{name}.scipy.special")
    importlib.import_module(f"{name}.scipy.stats")
    given = np.load(points)
    rows = json.loads(str(given["rows"]))
    for i in range(first, len(rows)):
        each, by = rows[i]
        print(i, flush=True)
        columns = [c.astype(dtype) for c in given[f"p{i}"].T]
        np.savez(f"{out}/{i}.npz", *values(library, scipy, numpy, each, by, columns))


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]))
