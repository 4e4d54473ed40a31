"""Programs over several devices against JAX on as many forced host devices.

    python benchmarks/devices.py [--jax /work/jaxenv/bin/python] [--devices 8 2] [--rounds 5]

Each library runs in a process of its own; the two take turns, case by case, so that what else the
machine does meets both; every call is waited for.  A row is the minimum over rounds of the time of
a call, and the ratio calque / JAX.  Without a Python that has JAX only our times are printed.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

REPEAT = {"small": 40, "large": 8}


# ---- in the process of one library
def serve(library: str, devices: int) -> None:
    """Answer names of cases on stdin with seconds a call on stdout."""
    if library == "jax":
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    import importlib
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    jax = importlib.import_module(library)
    if library == "calque":
        jax.config.update("jax_num_cpu_devices", devices)
    made = cases(jax, devices)
    print(json.dumps(list(made)), file=out, flush=True)
    ready: dict[str, Any] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            f, args = made[name]()
            start = time.perf_counter()
            jax.block_until_ready(f(*args))
            ready[name] = f, args
            print(json.dumps(["first", time.perf_counter() - start]), file=out, flush=True)
            continue
        f, args = ready[name]
        count = REPEAT["small" if "16 B" in name or "add" in name else "large"]
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            for _ in range(count):  # JAX's devices wait for each other for ever if calls pile up
                jax.block_until_ready(f(*args))
            best = min(best, (time.perf_counter() - start) / count)
        print(json.dumps(["run", best]), file=out, flush=True)


def cases(jax: Any, devices: int) -> dict[str, Any]:
    import importlib

    import numpy as np
    jnp, lax = importlib.import_module(f"{jax.__name__}.numpy"), jax.lax
    sharding = importlib.import_module(f"{jax.__name__}.sharding")
    P, NamedSharding = sharding.PartitionSpec, sharding.NamedSharding
    mesh = sharding.Mesh(np.array(jax.devices()[:devices]), ("i",))
    ring = [(k, (k + 1) % devices) for k in range(devices)]
    bodies = {
        "psum": lambda x: lax.psum(x, "i"), "all_gather": lambda x: lax.all_gather(x, "i").sum(0),
        "ppermute": lambda x: lax.ppermute(x, "i", ring),
        "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
        "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True)}
    found: dict[str, Any] = {}
    for label, count in (("16 B", 8 if devices > 4 else 4), ("1 MiB", 262144)):
        x = np.random.default_rng(0).random((devices, count), np.float32)
        for name, body in bodies.items():
            def mapped(body: Any = body, x: Any = x) -> Any:
                return jax.pmap(body, axis_name="i"), (jax.device_put(
                    x, NamedSharding(mesh, P("i"))),)

            def sharded(body: Any = body, x: Any = x) -> Any:
                flat = jax.device_put(x.reshape(-1), NamedSharding(mesh, P("i")))
                return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))), (
                    flat,)

            found[f"pmap {name} {label}"] = mapped
            found[f"shard_map {name} {label}"] = sharded
    found.update(_networks(jax, jnp, lax, np, mesh, sharding, devices))
    big = np.ones((devices * 64,), np.float32)
    found["add sharded"] = lambda: (jax.jit(lambda a, b: a + b), (
        jax.device_put(big, NamedSharding(mesh, P("i"))),) * 2)
    found["add plain"] = lambda: (jax.jit(lambda a, b: a + b), (jnp.asarray(big),) * 2)
    return found


def _networks(jax: Any, jnp: Any, lax: Any, np: Any, mesh: Any, sharding: Any, devices: int
              ) -> dict[str, Any]:
    """A training step of a perceptron 784-512-512-10 on a batch of 128."""
    P, NamedSharding = sharding.PartitionSpec, sharding.NamedSharding
    rng = np.random.default_rng(0)
    sizes = (784, 512, 512, 10)
    params = [(rng.standard_normal((a, b)).astype("f4") / np.sqrt(a), np.zeros(b, "f4"))
              for a, b in zip(sizes, sizes[1:])]
    x = rng.random((128, 784), np.float32)
    y = rng.integers(0, 10, 128).astype("i4")

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = jnp.maximum(x @ w + b, 0)
        w, b = params[-1]
        logits = jax.nn.log_softmax(x @ w + b)
        return -jnp.take_along_axis(logits, y[:, None], 1).mean()

    def update(params: Any, grads: Any) -> Any:
        return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads)

    def step(params: Any, x: Any, y: Any) -> Any:
        return update(params, jax.grad(loss)(params, x, y))

    def mean_step(params: Any, x: Any, y: Any) -> Any:
        return update(params, lax.pmean(jax.grad(loss)(params, x, y), "i"))

    def replicated_step(params: Any, x: Any, y: Any) -> Any:
        own = lambda p: lax.pmean(loss(p, x, y), "i")  # noqa: E731
        return update(params, jax.grad(own)(params))

    def put(v: Any, spec: Any) -> Any:
        return jax.device_put(v, NamedSharding(mesh, spec))

    def stacked() -> Any:
        many = jax.tree_util.tree_map(lambda p: put(np.stack([p] * devices), P("i")), params)
        shape = (devices, 128 // devices)
        return jax.pmap(mean_step, axis_name="i"), (
            many, put(x.reshape(*shape, 784), P("i")), put(y.reshape(shape), P("i")))

    batch = (put, P)
    return {
        "MLP step, pmap, stacked parameters": stacked,
        "MLP step, shard_map": lambda: (
            jax.jit(jax.shard_map(replicated_step, mesh=mesh, in_specs=(P(), P("i"), P("i")),
                                  out_specs=P())),
            (put(params, P()), put(x, batch[1]("i")), put(y, P("i")))),
        "MLP step, jit over a sharded batch": lambda: (
            jax.jit(step), (put(params, P()), put(x, P("i")), put(y, P("i")))),
        "MLP step, one device": lambda: (jax.jit(step), (
            jax.tree_util.tree_map(jnp.asarray, params), jnp.asarray(x), jnp.asarray(y)))}


# ---- the one that asks
class Library:
    """A process with one of the libraries."""

    def __init__(self, python: str, library: str, devices: int) -> None:
        self.process = subprocess.Popen(
            [python, __file__, "--serve", library, "--devices", str(devices)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.names = json.loads(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, name: str) -> float:
        assert self.process.stdin is not None
        if self.process.poll() is not None:
            return float("nan")
        print(name, file=self.process.stdin, flush=True)
        line = self._line()
        return float(json.loads(line)[1]) if line else float("nan")  # it died

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(python: str | None, devices: int, rounds: int, only: str) -> None:
    ours = Library(sys.executable, "calque", devices)
    theirs = None if python is None else Library(python, "jax", devices)
    print(f"\n{devices} devices, us a call (minimum of {rounds} rounds by turns)\n")
    print(f"{'':44} {'calque':>10} {'JAX':>10} {'ratio':>6} {'compile':>8} {'JAX':>8}")
    for name in ours.names:
        if only not in name:
            continue
        first = [lib.ask(name) for lib in (ours, theirs) if lib is not None]
        times: list[list[float]] = [[] for _ in first]
        for _ in range(rounds):
            for lib, found in zip((ours, theirs), times):
                assert lib is not None
                found.append(lib.ask(name))
        best = [min(t) * 1e6 for t in times]
        other = (f"{best[1]:10.1f} {best[0] / best[1]:6.2f} {first[0]:8.2f} {first[1]:8.2f}"
                 if len(best) > 1 else f"{'':10} {'':6} {first[0]:8.2f}")
        print(f"{name:44} {best[0]:10.1f} {other}", flush=True)
    for lib in (ours, theirs):
        if lib is not None:
            lib.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax", help="a Python that has JAX")
    parser.add_argument("--devices", type=int, nargs="*", default=[8, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.devices[0])
        return
    for devices in given.devices:
        compare(given.jax, devices, given.rounds, given.only)


if __name__ == "__main__":
    main()
