"""JAX as an oracle: a worker that answers pickled requests on stdin (see fuzz_api.py).

Runs under the Python of another environment (CALQUE_FUZZ_JAX) and imports nothing of calque's.  A
request is a list of programs: lines with their operands, probes (lines that calque refused), and
the whole program in its mode.  Everything is traced by itself, then compiled together, because
XLA's compiles dominate.  Start reading at `answer`.
"""
from __future__ import annotations

import os
import pickle
import struct
import sys
import warnings
from typing import Any

os.environ["XLA_FLAGS"] = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def environment() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import jax.scipy as jsp
    from jax import lax, nn, ops, random
    jax.config.update("jax_threefry_partitionable", False)  # calque's default stream
    return {"jax": jax, "jnp": jnp, "lax": lax, "nn": nn, "random": random, "jsp": jsp,
            "ops": ops, "leaves": jax.tree_util.tree_leaves}


def error(e: BaseException) -> tuple[str, list[str], str]:
    return "error", [c.__name__ for c in type(e).__mro__], str(e)[:300]


def traced(jax: Any, f: Any, avals: Any) -> Any:
    """A function's jaxpr, or the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return jax.make_jaxpr(f)(*[jax.ShapeDtypeStruct(s, d, weak_type=w)
                                       for s, d, w in avals])
    except Exception as e:  # an answer like any other
        return error(e)


def line(env: dict[str, Any], text: str, names: list[str], count: int | None) -> Any:
    def run(*xs: Any) -> Any:
        return env["leaves"](eval(text, env | dict(zip(names, xs))))[:count]
    return run


def answer(env: dict[str, Any], programs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each program: what its lines, probes and mode give."""
    from support.fuzz_api_modes import arguments, transformed
    jax = env["jax"]
    answers, jobs = [], []
    for p in programs:
        jax.config.update("jax_enable_x64", p["x64"])
        made: dict[str, Any] = {"lines": [], "probes": [], "mode": []}
        answers.append(made)

        def add(kind: str, f: Any, arrays: Any, weak: Any, made: Any = made) -> None:
            found = traced(jax, f, [(x.shape, x.dtype, w) for x, w in zip(arrays, weak)])
            made[kind].append(found)
            if not isinstance(found, tuple) and kind != "probes":
                jobs.append((made[kind], len(made[kind]) - 1, found, arrays))

        for text, names, arrays, weak, count in p["lines"]:
            add("lines", line(env, text, names, count), arrays, weak)
        for text, names, arrays, weak in p["probes"]:
            add("probes", line(env, text, names, None), arrays, weak)
        made["probes"] = [f if isinstance(f, tuple) else ("fine", str(f.out_avals))
                          for f in made["probes"]]
        if p["source"]:
            scope = dict(env)
            exec(compile(p["source"], "<program>", "exec"), scope)
            f = transformed(jax, scope["f"], p["mode"], p["args"])
            arrays = arguments(p["mode"], p["args"])
            add("mode", lambda *xs, f=f: env["leaves"](f(*xs)), arrays, [False] * len(arrays))
    run_all(jax, jobs)
    return answers


def run_all(jax: Any, jobs: list[Any]) -> None:
    """Replace jaxprs by ("values", [(array, weak), ...]); halves where a compile fails."""
    if not jobs:
        return

    def every(all_args: Any) -> Any:
        return [jax.core.eval_jaxpr(j.jaxpr, j.consts, *xs)
                for (_, _, j, _), xs in zip(jobs, all_args)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = jax.jit(every)([list(xs) for _, _, _, xs in jobs])
            import numpy as np
            fetched = [[np.asarray(o) for o in outs] for outs in results]
    except Exception as e:
        if len(jobs) == 1:
            jobs[0][0][jobs[0][1]] = error(e)
            return
        half = len(jobs) // 2
        run_all(jax, jobs[:half])
        run_all(jax, jobs[half:])
        return
    for (where, k, j, _), outs in zip(jobs, fetched):
        where[k] = ("values", [(o, bool(getattr(a, "weak_type", False)))
                               for o, a in zip(outs, j.out_avals)])


def main() -> None:
    from support.fuzz_api_modes import CHUNK
    inward, outward = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    env = environment()
    while True:
        head = inward.read(8)
        if len(head) < 8:
            return
        programs = pickle.loads(inward.read(struct.unpack("<Q", head)[0]))
        for i in range(0, len(programs), CHUNK):
            blob = pickle.dumps(answer(env, programs[i:i + CHUNK]), protocol=4)
            outward.write(struct.pack("<Q", len(blob)) + blob)
            outward.flush()
            env["jax"].clear_caches()


if __name__ == "__main__":
    main()
