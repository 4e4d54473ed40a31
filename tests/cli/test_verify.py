"""`calque verify` on every function that the tests of artifacts compile, at every target at hand.

An artifact is compared with its function run operation by operation: so a constant that the
compiler folds wrongly shows, though nothing else does.  `constants` has what was once folded
wrongly (a reduction of what literals give), and gradients whose cotangent is constant.
"""
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.harness import partly_slow

from calque.lowering.target.targets import _lacking, parse_target

# the functions of conftest.MODEL that compile, with their types
FUNCTIONS = {
    "scale": ["f32[7]", "f32"], "double": ["f32[3,5]"], "flip": ["i32[2]"],
    "weighted": ["f32[2,3]"], "model": ["{w: f32[2,3], b: [f32]}", "f32[2,3]"],
    "passes": ["f32[5]", "i8[0]", "f32[2]"], "nothing": ["f32[3]"], "put": ["f32[5]", "f32[2]"]}

CONSTANTS = '''
import calque
import calque.numpy as jnp


def constants(b, y, w):
    """Reductions of constants, and gradients whose cotangent is constant."""
    made = []
    for n in (7, 100):
        one = jnp.ones(n)
        made += [jnp.sum(one / 2), jnp.sum(-one), (one > 0).sum(), jnp.prod(jnp.sqrt(one / 2)),
                 jnp.mean(jnp.maximum(one, 2)), jnp.cumsum(jnp.abs(-one)), jnp.dot(one / 2, one),
                 jnp.max(jnp.arange(n) / 3), jnp.linalg.norm(one / 2), jnp.argmax(-one)]
    x = y[:, None] * w
    made.append(calque.grad(lambda b: jnp.sum((y + b) / 2))(b))
    made.append(calque.grad(lambda b: jnp.sum(y - (x @ w + b)))(b))
    made.append(calque.grad(lambda s: (jnp.real(y + 1j * s) / 2).sum())(b))
    made.append(jnp.mean(jnp.ones((3, 7)) / 2, axis=1) + b)
    return made
'''


LEVELS = [t for t in ("cpu", "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64")
          if not _lacking(parse_target(t))]
TARGETS = [*LEVELS, pytest.param("vulkan:host", marks=pytest.mark.vulkan)]


def _verified(calque: Any, function: str, types: list[str], target: str) -> None:
    words = [w for t in types for w in ("-a", t)]
    calque("compile", function, *words, "--target", target, "-o", "f.vmfb")
    said = calque("verify", "f.vmfb", function, *words).out
    assert said.endswith(f"of f.vmfb agrees with {function}\n"), said


@pytest.mark.parametrize("target", [
    *partly_slow(LEVELS, 0.2), TARGETS[-1]])
def test_what_constants_give(calque: Any, folder: Path, target: str) -> None:
    (folder / "constants.py").write_text(CONSTANTS)
    _verified(calque, "constants.py:constants", ["f32", "f32[150]", "f32[3]"], target)


@pytest.mark.parametrize("name", partly_slow(list(FUNCTIONS), 0.5))
def test_functions_of_the_tests(calque: Any, folder: Path, name: str) -> None:
    """At the host's CPU; the slow ones have the other targets."""
    _verified(calque, f"model.py:{name}", FUNCTIONS[name], "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_tests_at_every_target(calque: Any, folder: Path, name: str, target: str
                                                ) -> None:
    _verified(calque, f"model.py:{name}", FUNCTIONS[name], target)


def test_static_parameters(calque: Any, folder: Path) -> None:
    calque("compile", "model.py:power", "-a", "f32[3]", "--static", "n=3")
    said = calque("verify", "power.vmfb", "model.py:power", "-a", "f32[3]", "--static", "n=3").out
    assert "agrees with" in said
