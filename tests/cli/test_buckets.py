"""Artifacts with programs of their own for some sizes: what is compiled, called and refused."""
from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calque import aot
from calque.runtime import ArtifactError, Buffer
from calque.runtime.aot import ArtifactFunction

W = np.arange(12 * 40, dtype=np.float32).reshape(12, 40) / 480


def scaled(x: Any) -> Any:
    """Rows, times how many there are: the trace of known sizes has a number there."""
    return (x @ W) * x.shape[0]


def _ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def _called(f: ArtifactFunction, n: int) -> None:
    x = np.random.default_rng(n).standard_normal((n, 12)).astype(np.float32)
    # sums of 12 products
    np.testing.assert_allclose(f(x)[0].numpy(), (x.astype(float) @ W) * n, rtol=1e-5, atol=1e-5)


def test_every_size_is_right_and_the_known_ones_have_programs() -> None:
    made = aot.compile(scaled, "f32[b,12]", buckets=(1, 8, 8), name="scaled", parameters=True)
    assert [p.shapes for p in made.parts] == ["[b,12]", "[1,12]", "[8,12]"]
    assert len(made.parameters) == 1  # which all of them read


def test_which_program_is_called(tmp_path: Path) -> None:
    path = tmp_path / "scaled.vmfb"
    aot.compile(scaled, "f32[b,12]", buckets=(1, 8), name="scaled", parameters=True).save(path)
    f = aot.load(path).scaled
    for n in (0, 1, 7, 8, 9, 1):
        _called(f, n)
    assert str(f.record.args[0]) == "float32[b,12]"
    assert [str(f.form([(n, 12)]).record.args[0]) for n in (1, 8, 9)] == [
        "float32[1,12]", "float32[8,12]", "float32[b,12]"]
    with pytest.raises(ValueError, match=r"not compiled for x of shape \(8, 13\) with {'b': 8}; it "
                                         r"takes x: float32\[b,12\] or x: float32\[1,12\] or"):
        f(_ones(8, 13))
    with pytest.raises(TypeError, match=r"x must be float32\[8,12\], got dtype int32"):
        f(np.ones((8, 12), np.int32))
    with pytest.raises(TypeError, match="takes 1 arguments, got 2"):
        f(_ones(8, 12), _ones(8, 12))


def test_several_names_and_donation() -> None:
    made = aot.compile(lambda x, y: (x + y.sum(), y), "f32[a,2]", "f32[b]", name="f",
                       buckets={"a": (1, 2), "b": (3,)}, donate_argnums=0, constraints=["b >= 2"])
    assert [p.shapes for p in made.parts] == ["[a,2] [b]", "[1,2] [3]", "[2,2] [3]"]
    f = aot.load(made.vmfb).f
    for a, b in itertools.product((1, 2, 5), (2, 3)):
        x = Buffer.from_numpy(_ones(a, 2), f.device)
        out, y = f(x, _ones(b))
        np.testing.assert_array_equal(out.numpy(), np.full((a, 2), b + 1, np.float32))
        np.testing.assert_array_equal(y.numpy(), _ones(b))
        assert x.is_deleted()
    with pytest.raises(ValueError, match="b >= 2 must hold"):
        f(_ones(1, 2), _ones(1))


def test_linked_sizes_without_one_for_any() -> None:
    some = aot.link(*[aot.compile(scaled, f"f32[{n},12]", name="scaled") for n in (2, 5)])
    f = aot.load(some.vmfb).scaled
    _called(f, 2)
    _called(f, 5)
    with pytest.raises(ValueError, match=r"of shape \(3, 12\).*; it takes x: float32\[2,12\] or "
                                         r"x: float32\[5,12\]"):
        f(_ones(3, 12))
    with pytest.raises(ArtifactError, match=r"scaled comes twice for cpu.* and \[2,12\]"):
        aot.link(some, aot.compile(scaled, "f32[2,12]", name="scaled"))


@pytest.mark.parametrize("spec, buckets, text", [
    ("f32[4,12]", (4,), "the arguments have none"),
    ("f32[b,12]", (0,), "the bucket 0 of b is no size"),
    ("f32[b,12]", (True,), "the bucket True of b is no size"),
    ("f32[b,12]", (2.0,), "the bucket 2.0 of b is no size"),
    ("f32[b,12]", {"c": (1,)}, "buckets are of c, and the arguments have sizes b"),
    ("f32[a+b,12]", (1,), "the arguments have a, b")])
def test_buckets_that_do_not_fit(spec: str, buckets: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        aot.compile(scaled, spec, buckets=buckets)


def test_a_bucket_against_a_constraint() -> None:
    with pytest.raises(ValueError, match="b = 3 is against the constraint b >= 4"):
        aot.compile(scaled, "f32[b,12]", buckets=(4, 3), constraints=["b >= 4"])
    with pytest.raises(ValueError, match="b = 5 is against the constraint b <= 4"):
        aot.compile(scaled, "f32[b,12]", buckets=(3, 5), constraints=["b <= 4"])
    with pytest.raises(ValueError, match="b = 3 is against the constraint b - 3 != 0"):
        aot.compile(lambda x: x * (5 % (x.shape[0] - 3)), "f32[b,mod(b, b - 3)]", buckets=(5, 3))
