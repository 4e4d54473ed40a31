"""What needs no oracle, for every primitive: all ways to run a sample give the same.

Eagerly, compiled with its operands as arguments, compiled with them as constants, under vmap with a
batch of one, as the one step of a scan, and in an artifact.  The forms differ (NumPy's rules, folds
of the compiler, a batched rule, a loop's body), the values may not.  Start reading at `ways`.
"""
from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.fuzz_api_run import Compiles, no_compiler
from support.harness import function, words
from support.oracle import difference
from support.samples import ROWS, Row, Sample

import calque
from calque import aot, lax
from calque.dispatch.array import from_numpy

pytestmark = pytest.mark.usefixtures("x64")
GROUP = 16  # samples that are compiled together, in four ways each
# Two results that are both within the tolerance of the truth are within twice of each other.
FACTOR = 2.0
# Words of random bits and callbacks know no batch of one from none; they are run as they are.
# Minutes to compile in four ways; with the slow ones.
LONG = ("svd", "pinv", "eigh", "eig", "schur", "qr", "geqrf", "hessenberg", "tridiagonal", "zeta",
        "polygamma", "igamma", "igammac", "igamma_grad_a", "random_gamma_grad",
        "regularized_incomplete_beta",
        "conv_general_dilated", "while", "scan")
ALONE = ("random_bits", "pure_callback", "io_callback", "debug_callback")


class One:
    """A sample with its operands and the ways to run it."""

    def __init__(self, row: Row, sample: Sample, dtype: Any) -> None:
        self.row, self.name = row, f"{row.name} [{sample.label}] {dtype}"
        params = sample.parameters(dtype)
        self.f = function(row, sample, params)
        self.args = words(row, sample, row.arrays(sample, dtype))

    def ways(self, args: Sequence[Any]) -> dict[str, list[Any]]:
        """The results, traced, by how they are made."""
        made = {"arguments": list(self.f(*args)),
                "constants": list(self.f(*[calque.numpy.asarray(x) for x in self.args]))}
        if args and self.row.name not in ALONE:
            one = [calque.numpy.expand_dims(x, 0) for x in args]
            made["vmap of one"] = [o[0] for o in calque.vmap(self.f)(*one)]
            made["one step of a scan"] = [o[0] for o in lax.scan(
                lambda c, xs: (c, list(self.f(*xs))), np.int32(0), tuple(one))[1]]
        return made

    def eagerly(self) -> list[Any] | None:
        """The results on concrete arrays; None where that is the compiler again."""
        try:
            with no_compiler():
                return [np.asarray(o) for o in self.f(*[from_numpy(np.array(x))
                                                        for x in self.args])]
        except Compiles:
            return None

    def check(self, results: dict[str, list[Any]]) -> str:
        """What differs from the compiled results."""
        wants = results["arguments"]
        wrong = []
        for way, outs in results.items():
            found = [difference(o, w, FACTOR * self.row.factor, self.row.normwise)
                     for o, w in zip(outs, wants, strict=True)]
            wrong += [f"{self.name}: {way}: {f}" for f in found if f]
        return "\n".join(wrong)


def samples(rest: bool) -> list[One]:
    """One in eighty of samples and dtypes by default, chosen by their names; or the rest."""
    made = []
    for row in ROWS.values():
        every = [(s, row.main) for s in (*row.samples, *row.specials)]
        every += [(row.samples[0], d) for d in row.dtypes if d != row.main]
        for sample, dtype in every:
            chosen = row.name not in LONG and zlib.crc32(
                f"{row.name}{sample.label}{dtype}".encode()) % 50 == 0
            if chosen != rest:
                made.append(One(row, sample, dtype))
    return made


def run(ones: Sequence[One], artifact: bool) -> None:
    """Compile a group and compare all ways; an AssertionError names what differs."""
    every = [one.args for one in ones]
    leaves, tree = calque.tree_util.tree_flatten(every)

    def program(*flat: Any) -> Any:
        return [one.ways(args) for one, args in zip(ones, tree.unflatten(list(flat)))]

    outs = calque.jit(program)(*[calque.device_put(np.array(x)) for x in leaves])
    results = [{way: [np.asarray(o) for o in made] for way, made in out.items()} for out in outs]
    if artifact:
        specs = [calque.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        call = aot.load(aot.compile(
            lambda *flat: [one.f(*args) for one, args in zip(ones, tree.unflatten(list(flat)))],
            *specs, name="f").vmfb).f
        given = iter(call(*leaves))
        for made in results:
            made["artifact"] = [next(given).numpy() for _ in made["arguments"]]
    for one, made in zip(ones, results):
        eager = one.eagerly()
        if eager is not None:
            made["eager"] = eager
    wrong = [said for one, made in zip(ones, results) if (said := one.check(made))]
    assert not wrong, "\n".join(wrong)


FEW = samples(rest=False)
MANY = samples(rest=True)


@pytest.mark.parametrize("start", range(0, len(FEW), GROUP))
def test_every_way_to_run_a_sample(start: int) -> None:
    run(FEW[start:start + GROUP], artifact=start == 0)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(MANY), GROUP))
def test_every_way_to_run_the_other_samples(start: int) -> None:
    run(MANY[start:start + GROUP], artifact=True)
