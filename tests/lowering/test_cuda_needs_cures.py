"""Programs for CUDA that IREE compiles in the form calque gives them only; no GPU is needed."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import aot, lax
from calque.aot.specs import parse_spec
from calque.lowering.compiler.compile import CompileError, compile_to
from calque.lowering.driver.module import lower
from calque.lowering.emit.builder import Builder
from calque.lowering.rules import views
from calque.lowering.target.targets import parse_target
from calque.primitives import orthogonal_programs as programs
from calque.primitives import shape as sh


def compiled(f: Any, *specs: str) -> bytes:
    return aot.compile(f, *specs, targets=["cuda:sm_80"]).vmfb


def widened(x: Any, i: Any, u: Any) -> Any:
    return x.at[i].add(u.astype(np.float32))


def test_iree_still_compiles_no_scatter_with_a_widening_in_it(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Builder.barrier around the updates (lowering/rules/scatter.py)."""
    specs = ("f32[5,4]", "i32[6]", "f16[6,4]")
    assert compiled(widened, *specs)
    monkeypatch.setattr(Builder, "barrier", lambda self, *xs: list(xs))
    with pytest.raises(CompileError, match="fusion"):
        compiled(widened, *specs)


def test_iree_still_finds_a_circle_where_parts_of_an_identity_are_joined(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """_joined_square in calque/primitives/orthogonal_programs.py."""
    def joined(x: Any, k: int) -> Any:
        n = x.shape[0]
        eye = programs._eye(x, k, k)
        top = sh.concatenate([x, sh.slice_(eye, (0, n), (n, k))], 1)
        return sh.concatenate([top, sh.slice_in_dim(eye, n, k, 0)], 0)

    def svd(x: Any) -> Any:
        return lax.linalg.svd(x, full_matrices=True)

    assert compiled(svd, "f32[5,3,2]")
    monkeypatch.setattr(programs, "_joined_square", joined)
    monkeypatch.setattr(views, "is_possible", lambda values: False)
    calque.clear_caches()
    with pytest.raises(CompileError, match="circular dependency"):
        compiled(svd, "f32[6,3,2]")


def most_bindings(f: Any, specs: str) -> int:
    """How many arrays one dispatch reads and writes."""
    target = parse_target("cuda:sm_80")
    program = calque.make_jaxpr(f)([parse_spec(s) for s in specs.split()]).jaxpr
    module = lower(program, target).module
    assert module is not None
    text = compile_to(module, target, "executable-configurations")
    return max(layout.count("#hal.pipeline.binding") for layout in re.findall(
        r"#hal\.pipeline\.layout<.*?bindings = \[(.*?)\]", text))


def tridiagonal(xs: Any) -> Any:
    return lax.linalg.tridiagonal_solve(*xs)


@pytest.mark.parametrize("f, spec", [
    (lambda xs: sum(xs[1:], xs[0]), " ".join(["f32[1000]"] * 24)),
    (lambda xs: jnp.sum(sum(x * y for x, y in zip(xs[1:], xs)), 1), " ".join(["f32[9,5]"] * 24)),
    (lambda xs: [x + y for x, y in zip(xs, sum(xs[1:], xs[0]) * jnp.stack(xs))],
     " ".join(["f32[]"] * 24)),
    (tridiagonal, "c64[4] c64[4] c64[4] c64[4,2]")],
    ids=["sums", "products", "numbers", "tridiagonal"])
def test_a_dispatch_has_no_more_than_sixteen_arrays(f: Any, spec: str) -> None:
    """CUDA_BINDINGS in emit/fusion.py: IREE's driver loads no program with a larger one (of the
    primitives' samples, run on an H200, the complex tridiagonal_solve)."""
    assert 2 <= most_bindings(f, spec) <= 16
