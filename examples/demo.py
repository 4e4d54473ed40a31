"""The main job, end to end: compile a program ahead of time, run the artifact, and run the first
tutorial's example jitted on 50 million elements.  `make demo` runs this.
"""
from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import calque
import calque.numpy as jnp

PROGRAM = '''
import calque.numpy as jnp

def predict(weights, x):
    """A small network: tanh(x @ w) summed over its outputs."""
    return jnp.tanh(x @ weights).sum(axis=1)
'''


def command(*words: str) -> None:
    print("$ calque " + " ".join(words), flush=True)
    subprocess.run([sys.executable, "-m", "calque", *words], check=True)


def ahead_of_time(folder: pathlib.Path) -> None:
    """Compile predict for this CPU with the command line, inspect and run the artifact."""
    source, artifact = folder / "model.py", folder / "predict.vmfb"
    source.write_text(PROGRAM)
    rng = np.random.default_rng(0)
    weights, x = rng.standard_normal((16, 4), np.float32), rng.standard_normal((8, 16), np.float32)
    np.save(folder / "w.npy", weights)
    np.save(folder / "x.npy", x)
    command("compile", f"{source}:predict", "--arg", "f32[16,4]", "--arg", "f32[8,16]",
            "--target", "cpu", "-o", str(artifact))
    command("inspect", str(artifact))
    command("run", str(artifact), "--input", str(folder / "w.npy"), "--input",
            str(folder / "x.npy"), "--output", str(folder / "y.npy"))
    want = np.tanh(x @ weights).sum(axis=1)
    error = np.abs(np.load(folder / "y.npy") - want).max()
    print(f"largest difference from NumPy: {error:.1e}\n")
    assert error < 1e-5


def tutorial() -> None:
    """f(x) of "An Introduction to JAX" on 50M elements, jitted."""
    @calque.jit
    def f(x):
        return jnp.sum(3*x + jnp.sin(x) + jnp.cos(x**2) - jnp.cos(2*x) - x**2 * 0.4 * x**1.5)

    n = 50_000_000
    print(f"f(x) = sum(3x + sin(x) + cos(x^2) - cos(2x) - 0.4 x^2 x^1.5) on {n:,} ones, float32")
    x = jnp.ones(n)
    start = time.perf_counter()
    first = f(x).block_until_ready()
    compiled = time.perf_counter()
    pending = f(x)
    returned = time.perf_counter()
    pending.block_until_ready()
    done = time.perf_counter()
    print(f"first call (traced, compiled, run): {compiled - start:.2f} s; second call returned "
          f"after {(returned - compiled) * 1e3:.2f} ms, its value came after "
          f"{(done - compiled) * 1e3:.0f} ms")
    want = n * (3 + np.sin(1.0) + np.cos(1.0) - np.cos(2.0) - 0.4)
    print(f"{first!r}; exact: {want:.8g}")
    # 50M equal addends in float32: the roundings of a block of 500 all go the same way
    assert abs(float(first) / want - 1) < 1e-5


if __name__ == "__main__":
    print(f"calque {calque.__version__} on {calque.devices()[0].device_kind}\n")
    with tempfile.TemporaryDirectory() as name:
        ahead_of_time(pathlib.Path(name))
    tutorial()
    print("\nProved: a Python function became a file that describes itself, which ran without\n"
          "the compiler and gave NumPy's values; a jitted one ran on 50 million elements, and\n"
          "its call returned before its value was there. Next: README.md, docs/tutorials/.")
