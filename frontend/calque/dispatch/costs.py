"""What a Program costs, counted by its equations, for `cost_analysis` of calque.stages; and a
warning of what it captures.

XLA's categories: an addition, product or comparison of one element is a flop, integers' too; a
function such as exp is a transcendental; moving data is neither.  Loops count as often as they run
(a while loop, whose end the data decides, once).  Factorizations: Golub & Van Loan, Matrix
Computations (4th ed.), tables of flops.  Start reading at `analysis`.
"""
from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.config import config
from calque.core.dims import Dim, guess
from calque.core.program import Equation, Program
from calque.lowering.passes.cost import inner_programs


def _reflections(m: Any, n: Any) -> Any:
    return 2 * m * n ** 2 - 2 * n ** 3 // 3


def _singular(m: Any, n: Any) -> Any:
    return 6 * m * n ** 2 + 20 * n ** 3


_FACTORS: dict[str, Callable[[Any, Any], Any]] = {  # of a matrix of m rows, n columns, m >= n
    "cholesky": lambda m, n: n ** 3 // 3, "cholesky_update": lambda m, n: 4 * n ** 2,
    "lu": lambda m, n: m * n ** 2 - n ** 3 // 3,
    "geqrf": _reflections, "geqp3": _reflections, "householder_product": _reflections,
    "qr": lambda m, n: 2 * _reflections(m, n), "svd": _singular, "pinv": _singular,
    "eigh": lambda m, n: 9 * n ** 3, "eig": lambda m, n: 25 * n ** 3,
    "schur": lambda m, n: 25 * n ** 3, "hessenberg": lambda m, n: 10 * n ** 3 // 3,
    "tridiagonal": lambda m, n: 4 * n ** 3 // 3}
_ROUNDS = {"random_bits": 100, "random_split": 100, "random_fold_in": 100, "rng_bit_generator": 100}


def warn_of_captured(p: Program, arrays: Sequence[Any]) -> None:
    """UserWarning where a jitted function closes over arrays of many bytes."""
    limit, size = config.jax_captured_constants_warn_bytes, sum([x.nbytes for x in arrays])
    if 0 <= limit <= size:
        warnings.warn(
            f"A large amount of constants were captured during lowering: {p.name} closes over "
            f"{len(arrays)} arrays of {size / 1e9:.2g} GB. Pass them as arguments. "
            "config.update('jax_captured_constants_warn_bytes', -1) ends this warning.",
            stacklevel=2)


def analysis(p: Program, fused: bool = False) -> dict[str, Any]:
    """flops, transcendentals and bytes accessed of a Program.

    Numbers, or expressions of the sizes that are known at the call only.  fused: bytes of arguments
    and results only, each once; else those of each equation's operands and results.
    """
    found = dict(_count(p))
    if fused:
        found["bytes accessed"] = sum(
            a.nbytes for a in (*p.in_avals, *[v.aval for v in p.const_vars], *p.out_avals))
    return {k: v if isinstance(v, Dim) else float(v) for k, v in sorted(found.items())}


def _count(p: Program) -> Counter[str]:
    return p.derived("costs", lambda: _sum(p))


def _sum(p: Program) -> Counter[str]:
    total: Counter[str] = Counter({"flops": 0, "transcendentals": 0, "bytes accessed": 0})
    for e in p.equations:
        inner = [] if e.name in _FACTORS else inner_programs(e)
        if e.name == "while":
            inner = [(q, 1) for q, _ in inner]
        elif e.name == "cond":
            inner = [max(inner, key=lambda q: guess(_count(q[0]).total()))]
        for q, times in inner:
            for key, value in _count(q).items():
                total[key] += value * times
        if e.name.startswith("message_"):  # between processes
            total["bytes sent"] += sum(a.aval.nbytes for a in e.inputs)
        elif not inner:
            kind, value = _of(e)
            total[kind] += value
            total["bytes accessed"] += sum(a.aval.nbytes for a in (*e.inputs, *e.outputs))
    return total


def _of(e: Equation) -> tuple[str, Any]:
    """(category, count) of an equation without inner programs."""
    name = e.name
    out = sum(v.aval.size for v in e.outputs)
    if e.primitive.moves:
        return "flops", 0
    if e.primitive.function:
        return "transcendentals", out
    if name in _ROUNDS or not e.inputs:
        return "flops", out * _ROUNDS.get(name, 1)
    first = e.inputs[0].aval
    if name == "dot_general":
        (contracted, _), _ = e.params["dimension_numbers"]
        return "flops", 2 * out * math.prod(first.shape[i] for i in contracted)
    if name == "conv_general_dilated":
        kernel = e.inputs[1].aval
        return "flops", 2 * out * (
            kernel.size // max(kernel.shape[e.params["dimension_numbers"].rhs_spec[0]], 1))
    if name == "integer_pow":
        n = abs(e.params["y"])
        return "flops", out * max(n.bit_length() + n.bit_count() - 2, 0)
    if name in _FACTORS:
        *batch, m, n = first.shape
        return "flops", math.prod(batch) * _FACTORS[name](*((m, n) if m >= n else (n, m)))
    if name == "triangular_solve":
        return "flops", e.inputs[1].aval.size * first.shape[-1]
    if name.startswith("reduce_window"):
        return "flops", out * math.prod(e.params["window_dimensions"])
    if name.startswith("reduce_") and name != "reduce_precision" or name in ("argmax", "argmin"):
        return "flops", first.size - e.outputs[0].aval.size
    if name.startswith("scatter"):
        return "flops", e.inputs[2].aval.size
    if name == "fft":
        n = math.prod(e.params["fft_lengths"])
        return "flops", 5 * max(out, first.size) * max(1, math.log2(max(n, 1)))
    if name in ("sort", "top_k"):
        n = first.shape[e.params.get("dimension", -1)]
        return "flops", first.size * (1 if isinstance(n, Dim) else math.ceil(math.log2(max(n, 2))))
    return "flops", out
