"""Writes docs/api/*.md: every public name of each namespace with its signature and first sentence.

    python docs/scripts/api.py
"""
from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import types
from typing import Any

FOLDER = pathlib.Path(__file__).parent.parent / "api"
NAMESPACES = {
    "calque": "transformations, devices, options",
    "calque.numpy": "NumPy's functions over arrays of calque",
    "calque.numpy.linalg": "linear algebra",
    "calque.numpy.fft": "discrete Fourier transforms",
    "calque.lax": "primitives and control flow",
    "calque.lax.linalg": "factorizations",
    "calque.random": "random numbers from explicit keys",
    "calque.nn": "functions of neural networks",
    "calque.nn.initializers": "first values of parameters",
    "calque.scipy.special": "special functions",
    "calque.scipy.fft": "cosine transforms under SciPy's names",
    "calque.scipy.cluster.vq": "vector quantization under SciPy's names",
    "calque.scipy.interpolate": "interpolation on grids under SciPy's names",
    "calque.scipy.ndimage": "values between elements under SciPy's names",
    "calque.scipy.spatial.transform": "rotations under SciPy's names",
    "calque.scipy.integrate": "integrals of samples under SciPy's names",
    "calque.scipy.optimize": "minimization under SciPy's names",
    "calque.scipy.sparse.linalg": "iterative solvers under SciPy's names",
    "calque.scipy.linalg": "linear algebra under SciPy's names",
    "calque.scipy.signal": "signal processing under SciPy's names",
    "calque.scipy.stats": "distributions under SciPy's names",
    "calque.tree_util": "trees of arrays",
    "calque.tree": "trees of arrays, short names",
    "calque.ffi": "kernels of your own in C",
    "calque.ops": "reductions over segments",
    "calque.ref": "references: arrays that are written into",
    "calque.ad": "what pullbacks do with cotangents",
    "calque.custom_derivatives": "derivative rules of the user's",
    "calque.dlpack": "arrays from other libraries' memory",
    "calque.image": "images of another size",
    "calque.debug": "printing and callbacks inside compiled code",
    "calque.errors": "error classes",
    "calque.profiler": "what runs, as traces for Perfetto; what is in memory",
    "calque.monitoring": "listeners to what is traced and compiled",
    "calque.sharding": "meshes, and which device has which part of an array",
    "calque.distributed": "programs of several processes",
    "calque.checkpoints": "trees of arrays in folders",
    "calque.experimental.buffer_callback": "functions of the host that write into memory",
    "calque.experimental.checkify": "what went wrong, as a value",
    "calque.experimental.colocated_python": "Python on the host of arrays' devices",
    "calque.experimental.custom_partitioning": "what each device does, by rules of your own",
    "calque.experimental.shard_alike": "arrays that are spread alike",
    "calque.experimental.jet": "derivatives of any order along a curve",
    "calque.experimental.ode": "ordinary differential equations",
    "calque.experimental.rnn": "LSTM layers over sequences",
    "calque.experimental.pallas": "kernels over a grid of blocks",
    "calque.experimental.sparse": "arrays whose zeros are not stored",
    "calque.experimental.sparse.linalg": "sparse systems of equations",
    "calque.experimental.multihost_utils": "exchange of values between processes",
    "calque.runtime": "running compiled programs without the compiler",
    "calque.runtime.serving": "artifacts over HTTP",
    "calque.export": "portable functions, to and from JAX",
    "calque.stages": "a jitted function traced, lowered, compiled",
    "calque.aot": "artifacts: programs compiled ahead of time",
    "calque.models": "language models as artifacts",
    "calque.core": "types of values, tracers, evaluation of jaxprs",
    "calque.extend.backend": "platforms and their devices as objects",
    "calque.extend.core": "primitives and jaxprs for libraries",
    "calque.experimental.compilation_cache.compilation_cache": "where compiled programs are kept",
    "calque.extend.mlir": "StableHLO's portable form",
    "calque.extend.linear_util": "functions with layers of transformations",
    "calque.extend.random": "streams of random numbers by their records",
    "calque.extend.source_info_util": "places and scopes of what is traced",
    "calque.interpreters.ad": "derivative rules of primitives",
    "calque.interpreters.batching": "batching rules of primitives",
    "calque.interpreters.mlir": "lowering of primitives",
    "calque.interpreters.partial_eval": "what of a function is known",
    "calque.interpreters.xla": "primitives evaluated by their lowering",
    "calque.api_util": "functions of trees as functions of flat values",
    "calque.example_libraries.optimizers": "optimizers as triples of functions",
    "calque.example_libraries.stax": "networks as pairs of functions",
    "calque.compat": "programs written for JAX, unmodified",
    "calque.test_util": "checks of derivatives",
}


def names(module: Any) -> list[str]:
    found = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return sorted((n for n in set(found) if not inspect.ismodule(getattr(module, n))),
                  key=lambda n: (n.lower(), n))


def signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return ""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    parts, keyword = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not keyword:
            parts.append("*")
            keyword = True
        if p.kind is p.VAR_POSITIONAL:
            keyword = True
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f"={_short(p.default)}"
        parts.append(f"{star}{p.name}{default}")
    return f"({', '.join(parts)})"


def _short(value: Any) -> str:
    if inspect.isclass(value) or callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    text = repr(value)
    return text if len(text) < 30 and " at 0x" not in text else "..."


def summary(value: Any) -> str:
    if isinstance(value, types.GenericAlias):
        return f"For annotations: `{value}`.".replace("|", "\\|")
    text = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    if isinstance(value, (int, float, tuple, str)) or value is None:
        return f"`{_short(value)}`"
    sentence = re.split(r"(?<=\.) ", text)[0]
    parts = re.split(r"(`[^`]*`)", sentence.replace("|", "\\|"))
    return "".join(p if p.startswith("`") else p.replace("](", "]\\(") for p in parts)  # no link


def page(name: str) -> str:
    """The text of one namespace's page."""
    module = importlib.import_module(name)
    lines = [f"# {name}: {NAMESPACES[name]}", "",
             "Made by `python docs/scripts/api.py`; `help(name)` has arguments, errors and an "
             "example.", "", "| name | what it does |", "|---|---|"]
    for n in names(module):
        value = getattr(module, n)
        shown = signature(value).replace("|", "\\|")
        lines.append(f"| `{n}{shown}` | {summary(value)} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """File name -> text of every page, with the index."""
    made = {}
    index = ["# Public names", "", "Made by `python docs/scripts/api.py`.", "",
             "| namespace | | names |", "|---|---|---|"]
    for name, what in NAMESPACES.items():
        try:
            count = len(names(importlib.import_module(name)))
        except ModuleNotFoundError:
            continue
        file = f"{name}.md"
        made[file] = page(name)
        index.append(f"| [{name}]({file}) | {what} | {count} |")
    made["README.md"] = "\n".join(index) + "\n"
    return made


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text)
    print(f"wrote {FOLDER}")
