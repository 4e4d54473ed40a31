"""Values that processes exchange, started by hand and by mpiexec."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jobs import LIMIT, TESTS, by_command, by_hand, by_mpiexec, segments

EXCHANGE = """
    assert [d.id for d in jax.devices()] == [2048 * p for p in range(size)]
    assert [d.process_index for d in jax.devices()] == list(range(size))
    assert [d.id for d in jax.local_devices()] == [2048 * rank] and jax.local_device_count() == 1
    assert jax.device_count() == size and jax.process_indices() == list(range(size))
    assert jax.local_devices(process_index=1 - rank if size == 2 else 1)[0].id == 2048 * (
        1 - rank if size == 2 else 1)
    assert float(jax.jit(lambda x: x.sum())(jnp.arange(4.0))) == 6.0
    assert list(jnp.ones(2).devices()) == jax.local_devices()

    # every dtype, shape and structure
    rng = np.random.default_rng(0)
    for dtype in ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64",
                  "complex64", jnp.bfloat16):
        for shape in ((), (1,), (3, 2), (0, 4), (1000,)):
            every = [(rng.normal(size=shape) * 50).astype(dtype) for _ in range(size)]
            got = mu.process_allgather({"x": every[rank], "y": [rank]})
            assert got["x"].tobytes() == np.stack(every).tobytes() and got["x"].dtype == dtype
            assert got["y"][0].tolist() == list(range(size))
            if shape:
                got = mu.process_allgather(every[rank], tiled=True)
                assert got.shape == (size * shape[0], *shape[1:])
                assert got.tobytes() == np.concatenate(every).tobytes()
            for source in (None, rank == size - 1):
                want = every[0 if source is None else size - 1]
                got = mu.broadcast_one_to_all(every[rank], source)
                assert got.tobytes() == want.tobytes() and got.dtype == want.dtype
    big = np.full((1 << 20,), rank, np.float32)
    assert mu.process_allgather(big).sum(1).tolist() == [p * (1 << 20) for p in range(size)]
    old, mu._PIECE = mu._PIECE, 1000  # what is longer goes in pieces
    assert (mu.process_allgather(np.arange(5001) + rank)[1] == np.arange(5001) + 1).all()
    assert (mu.broadcast_one_to_all(np.arange(5001) + rank) == np.arange(5001)).all()
    mu._PIECE = old
    mu.sync_global_devices("here")
    mu.assert_equal({"a": np.nan, "b": [1, 2]})

    fails(AssertionError, lambda: mu.assert_equal(rank, "steps differ"), "steps differ: leaf 0")
    fails(AssertionError, lambda: mu.sync_global_devices(f"place {rank}"), "name mismatch")
    fails(ValueError, lambda: mu.process_allgather(np.ones(rank + 1)), "do different things")
    fails(ValueError, lambda: mu.process_allgather(np.ones(2, "f4" if rank else "f8")), "dtypes")
    fails(ValueError, lambda: mu.process_allgather([1] * (rank + 1)),
          "process 1: process_allgather of PyTreeDef([*, *]) of int32[], int32[]")
    fails(ValueError, lambda: mu.broadcast_one_to_all(1, True), f"{size} processes say")
    assert mu.process_allgather(rank, tiled=True).tolist() == list(range(size))
    fails(RuntimeError, lambda: jax.device_put(1.0, jax.devices()[rank - 1]), "a device of process")
    fails(RuntimeError, lambda: jax.distributed.initialize(), "only be called once")
    fails(ValueError, lambda: jax.local_devices(process_index=size), "they are 0 to")

    # training on parts of the data: the mean of all processes' gradients is the whole's
    x, y = rng.normal(size=(12, 4)), rng.normal(size=12)
    loss = jax.jit(jax.grad(lambda w, x, y: ((x @ w - y) ** 2).mean()))
    w = jnp.zeros(4)
    mine = slice(rank * 12 // size, (rank + 1) * 12 // size)
    for _ in range(5):
        w = w - 0.1 * mu.process_allgather(loss(w, x[mine], y[mine])).mean(0)
    want = np.zeros(4)
    for _ in range(5):
        want = want - 0.1 * 2 * x.T @ (x @ want - y) / 12
    np.testing.assert_allclose(w, want, rtol=1e-5)
    print("all is well", rank, flush=True)
"""


@pytest.mark.parametrize("size", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_by_hand(size: int) -> None:
    before = segments()
    for rank, done in enumerate(by_hand(EXCHANGE, size)):
        assert (done.code, f"all is well {rank}" in done.out) == (0, True), done.out
    assert segments() <= before


def test_by_mpiexec() -> None:
    done = by_mpiexec(EXCHANGE, 2)
    assert done.code == 0 and done.out.count("all is well") == 2, done.out


def test_shutdown_and_two_devices_each() -> None:
    done = by_hand("""
        assert jax.distributed.is_initialized()
        assert [d.id for d in jax.devices()] == [0, 1, 2048, 2049]
        mesh = jax.sharding.Mesh(jax.local_devices(), ("i",))  # of this process's devices
        P = jax.sharding.PartitionSpec
        x = jax.device_put(jnp.arange(4.0), jax.sharding.NamedSharding(mesh, P("i")))
        assert len(x.addressable_shards) == 2
        total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"),
                                      out_specs=P()))(x)
        assert total.tolist() == [2.0, 4.0]
        jax.distributed.shutdown()
        assert not jax.distributed.is_initialized()
        print("well", flush=True)
    """, 2, JAX_NUM_CPU_DEVICES="2", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    for d in done:
        assert (d.code, "well" in d.out) == (0, True), d.out


def test_run_many() -> None:
    """calque run-many: arguments go through, lines stay whole, the exit code counts."""
    calque = str(Path(sys.executable).parent / "calque")
    done = by_command([calque, "run-many", "-n", "2", "--label"], """
        print("process", rank, "of", size, sys.argv[1:], flush=True)
        mu.sync_global_devices("said")
        sys.exit(3 * rank)
    """, "--steps", "-n", "7")
    assert done.code == 3, done.out
    for rank in range(2):
        assert f"[{rank}] process {rank} of 2 ['--steps', '-n', '7']" in done.out, done.out


def test_the_program_of_the_page(tmp_path: Path) -> None:
    """docs/processes.md: its program by its command; a step down a gradient that NumPy has too."""
    page = (Path(TESTS).parent / "docs" / "processes.md").read_text()
    found = re.search(r"```python prog\.py\n(.*?)```\n\n```sh\ncalque (.*?)\n```", page, re.S)
    assert found is not None
    (tmp_path / "prog.py").write_text(found[1])
    said = subprocess.run([str(Path(sys.executable).parent / "calque"), *found[2].split()],
                          cwd=tmp_path, text=True, check=True, capture_output=True, timeout=LIMIT)
    rows = np.repeat([1.0, 2.0], 4)[:, None] * np.ones(3)
    params = np.ones(3) - 0.01 * (2 * (rows @ np.ones(3))[:, None] * rows).mean(0)
    want = " ".join(f"{p:.2f}" for p in params)
    assert sorted(said.stdout.splitlines()) == [f"{k} [{want}]" for k in range(2)]


def test_the_notes_of_several_hosts() -> None:
    """examples/multi_host.py prints what stands in it."""
    program = Path(TESTS).parent / "examples" / "multi_host.py"
    calque = str(Path(sys.executable).parent / "calque")
    said = subprocess.run([calque, "run-many", "-n", "2", str(program)], text=True, check=True,
                          capture_output=True, timeout=LIMIT)
    want = [line[3:] for line in program.read_text().splitlines() if line.startswith("#> ")]
    assert said.stdout.splitlines() == want, said.stdout + said.stderr
