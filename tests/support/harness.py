"""Run many small cases as few compiled programs, and name the case that fails.

A Case is a function of arrays that returns a list, its NumPy arguments, and a check of the
results.  Compiling dominates (a program costs 200 ms, a function in a larger one 30), so cases are
grouped; when a group fails to compile it is halved until the failing case is alone.  A rule that
makes equations of equations (derivatives, batching) needs no compiler to be checked: `run_traced`
evaluates what was traced in NumPy, some 10 ms a case.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import calque
from calque.core.config import config
from calque.core.primitive import registry
from calque.lowering.target.targets import TargetError, runnable_target
from support.oracle import difference, evaluate, interpret
from support.samples import KEY, Row, Sample

GROUP = 40


def at_level(level: str) -> Any:
    """A context in which programs are compiled for a level of the CPU; the test is skipped where
    this machine does not run it."""
    try:
        with config.context("calque_cpu", level):
            runnable_target()
    except TargetError as error:
        pytest.skip(str(error).splitlines()[0])
    return config.context("calque_cpu", level)


@dataclass(frozen=True, slots=True)
class Case:
    """f(*args) -> list of arrays; check(list of NumPy arrays) -> '' or what is wrong."""

    name: str
    f: Callable[..., Any]
    args: Sequence[Any]
    check: Callable[[list[Any]], str]


class Failure(str):
    """What went wrong instead of results."""


def _copied(x: Any) -> Any:
    return calque.device_put(np.array(x))


def _compiled(cases: Sequence[Case], put: Callable[[Any], Any]) -> list[Any]:
    traced = [0] * len(cases)

    def program(every: Any) -> Any:
        results = []
        for i, (c, args) in enumerate(zip(cases, every)):
            traced[i] += 1
            results.append(list(c.f(*args)))
        return results

    leaves, tree = calque.tree_util.tree_flatten([list(c.args) for c in cases])
    arrays = [put(x) for x in leaves]
    outs = calque.jit(program)(tree.unflatten(arrays))
    results = [[np.asarray(o) for o in out] for out in outs]
    assert traced == [1] * len(cases), f"the Python body ran {traced} times"
    for x, a in zip(leaves, arrays):
        assert np.asarray(a).tobytes() == np.asarray(x).tobytes(), "an argument was overwritten"
    return results


def outputs(cases: Sequence[Case], put: Callable[[Any], Any] = _copied) -> list[Any]:
    """Results per case, or a Failure; `put` brings an argument to the device."""
    try:
        return _compiled(cases, put)
    except Exception as error:  # any error of calque is a result here: it is reported by name
        text = f"{type(error).__name__}: {str(error)[:600]}"
        if len(cases) == 1:
            return [Failure(text)]
        half = len(cases) // 2
        parts = [*outputs(cases[:half], put), *outputs(cases[half:], put)]
        if not any(isinstance(p, Failure) for p in parts):
            parts[0] = Failure(f"only together with {[c.name for c in cases[1:]]}: {text}")
        return parts


def by_numpy(f: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """What a function gives by NumPy, equation by equation of its traced Program."""
    return calque.tree_util.tree_leaves(numpys(f)(*args))


def _host(x: Any) -> Any:
    """An argument as the oracle takes it: typed keys as uint64."""
    if not calque.dtypes.issubdtype(getattr(x, "dtype", np.dtype(bool)), calque.dtypes.prng_key):
        return np.asarray(x)
    two = np.asarray(calque.random.key_data(x)).astype(np.uint64)
    return np.asarray(two[..., 0] << np.uint64(32) | two[..., 1])


def numpys(f: Callable[..., Any]) -> Callable[..., Any]:
    """As jit(f), but evaluated by NumPy from the traced Program: nothing is compiled."""
    def run(*args: Any) -> Any:
        made, shapes = calque.make_jaxpr(f, return_shape=True)(*args)
        leaves = [_host(x) for x in calque.tree_util.tree_leaves(list(args))]
        inputs = [x if v.aval.dtype.kind == "K" else x.astype(v.aval.dtype)
                  for x, v in zip(leaves, made.jaxpr.inputs)]
        outs = interpret(made.jaxpr.consts_as_inputs(), [*map(_host, made.jaxpr.consts), *inputs])
        return calque.tree_util.tree_structure(shapes).unflatten(outs)
    return run


def traced(cases: Sequence[Case]) -> list[Any]:
    """Results per case, or a Failure, by NumPy from the traced Programs: nothing is compiled."""
    results: list[Any] = []
    for c in cases:
        try:
            results.append(by_numpy(c.f, c.args))
        except Exception as error:  # as in `outputs`
            results.append(Failure(f"{type(error).__name__}: {str(error)[:600]}"))
    return results


def run(cases: Sequence[Case], size: int = GROUP) -> None:
    """Compile, run and check; one AssertionError names every case that failed."""
    _judge(cases, [out for i in range(0, len(cases), size) for out in outputs(cases[i:i + size])])


def run_traced(cases: Sequence[Case]) -> None:
    """Trace, evaluate in NumPy and check; one AssertionError names every case that failed."""
    _judge(cases, traced(cases))


def _judge(cases: Sequence[Case], results: Sequence[Any]) -> None:
    assert cases, "no cases"
    wrong = []
    for c, out in zip(cases, results, strict=True):
        text = out if isinstance(out, Failure) else c.check(out)
        if text:
            wrong.append(f"{c.name}: {text}")
    assert not wrong, f"{len(wrong)} of {len(cases)} cases fail:\n" + "\n".join(wrong)


def drawn(items: Sequence[Any], share: float, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """A part of a grid for the default suite, the same in every run, and the rest for the slow one;
    both in order."""
    count = min(len(items), int(np.ceil(share * len(items))))
    chosen = set(np.random.default_rng(seed).permutation(len(items))[:count].tolist())
    parts: tuple[list[Any], list[Any]] = ([], [])
    for i, item in enumerate(items):
        parts[i not in chosen].append(item)
    return parts


def partly_slow(items: Sequence[Any], share: float, seed: int = 0) -> list[Any]:
    """Parameters of a test: a part by default, the same in every run; the rest is slow."""
    rest = drawn(range(len(items)), share, seed)[1]
    return [pytest.param(item, marks=[pytest.mark.slow] if i in rest else [])
            for i, item in enumerate(items)]


def some_and_more(items: Sequence[Any], share: float, kind: Callable[[Any], Any] | None = None
                  ) -> list[Any]:
    """Parameters of a test that takes a list: a part by default, with one of each kind at least,
    and the rest, which is slow."""
    some, more = drawn(range(len(items)), share)
    if kind is not None:
        for i in list(more):
            if kind(items[i]) not in [kind(items[k]) for k in some]:
                some.append(i)
                more.remove(i)
    return [pytest.param([items[i] for i in sorted(some)], id="some"),
            pytest.param([items[i] for i in more], marks=pytest.mark.slow, id="more")]


def by_each(items: Sequence[Any], share: float, kind: Callable[[Any], Any] | None = None
            ) -> list[Any]:
    """Parameters (numpys or jit, items) of a test: all by NumPy and a part compiled by default,
    with one of each kind at least; the rest compiled, which is slow."""
    some, more = some_and_more(items, share, kind)
    return [pytest.param(numpys, list(items), id="numpy"), *[
        pytest.param(calque.jit, *p.values, marks=p.marks, id=p.id) for p in (some, more)]]


both_ways = pytest.mark.parametrize("jit", [
    pytest.param(numpys, id="numpy"),
    pytest.param(calque.jit, marks=pytest.mark.slow, id="compiled")])


def check_loop(f: Callable[..., Any], args: Sequence[Any], name: str, scale: float = 1) -> None:
    """The results of a function with loops against NumPy's, equation by equation."""
    wants = by_numpy(f, args)
    gots = [np.asarray(x) for x in calque.tree_util.tree_leaves(calque.jit(f)(*args))]
    for got, want in zip(gots, wants, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, name
        # single precision through hundreds of steps; sums in another order
        close = scale * (1e-5 if got.dtype == np.float32 else 1e-12)
        np.testing.assert_allclose(got, want, rtol=close, atol=close, err_msg=name)


# ---- primitives of a row
def physical(x: Any) -> Any:
    """A key array of the oracle (uint64) as words."""
    return np.stack([(x >> np.uint64(32)).astype(np.uint32), x.astype(np.uint32)], -1)


def function(row: Row, sample: Sample, params: dict[str, Any]) -> Callable[..., list[Any]]:
    """The primitive on plain arrays: keys go in and out as uint32 words."""
    keys = [o.dtype == KEY for o in sample.operands]
    prim = registry[row.name]

    def f(*xs: Any) -> list[Any]:
        wrapped = [registry["random_wrap"].bind(x) if k else x for x, k in zip(xs, keys)]
        out = prim.bind(*wrapped, **params)
        outs = out if prim.multiple_results else [out]
        if row.view is not None:
            return list(row.view(calque.numpy, outs))
        return [registry["random_unwrap"].bind(o) if o.dtype.kind == "K" else o for o in outs]

    return f


def words(row: Row, sample: Sample, arrays: Sequence[Any]) -> list[Any]:
    return [physical(x) if o.dtype == KEY else x for o, x in zip(sample.operands, arrays)]


def expected(row: Row, params: dict[str, Any], arrays: Sequence[Any]) -> list[Any]:
    """The oracle's results; keys as words."""
    from calque.core.avals import ShapedArray
    from calque.core.dtypes import key_dtype
    keys = KEYED.get(row.name, ())
    avals = [ShapedArray(x.shape, key_dtype if i in keys else x.dtype)
             for i, x in enumerate(arrays)]
    prim = registry[row.name]
    made = prim.rule("abstract")(*avals, **params)
    out_avals = made if prim.multiple_results else [made]
    outs = evaluate(row.name, out_avals, params, *arrays)
    if row.view is not None:
        return [np.asarray(o) for o in row.view(np, outs)]
    return [physical(o) if a.dtype == key_dtype else o for o, a in zip(outs, out_avals)]


KEYED = {"random_bits": (0,), "random_split": (0,), "random_fold_in": (0,), "random_unwrap": (0,)}


def compare(wants: Sequence[Any], row: Row) -> Callable[[list[Any]], str]:
    def check(outs: list[Any]) -> str:
        if len(outs) != len(wants):
            return f"{len(outs)} results instead of {len(wants)}"
        found = [difference(o, w, row.factor, row.normwise) for o, w in zip(outs, wants)]
        return "; ".join(f for f in found if f)
    return check


def case(row: Row, sample: Sample, dtype: Any) -> Case:
    """A sample of a primitive, checked by its oracle."""
    params = sample.parameters(dtype)
    arrays = row.arrays(sample, dtype)
    return Case(f"{row.name} [{sample.label}] {dtype}", function(row, sample, params),
                words(row, sample, arrays), compare(expected(row, params, arrays), row))
