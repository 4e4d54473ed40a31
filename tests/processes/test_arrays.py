"""Arrays that span processes, and checkpoints of them."""
from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import TESTS, by_hand

ARRAYS = """
    from calque import lax
    from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
    n = len(jax.devices())
    mesh = Mesh(np.array(jax.devices()), ("d",))
    S = lambda *spec: NamedSharding(mesh, P(*spec))

    def read(x):
        return mu.process_allgather(x, tiled=True)

    x = np.arange(8.0 * n, dtype=np.float32).reshape(n, 8)
    g = jax.device_put(x, S("d"))
    mine = slice(rank * n // size, (rank + 1) * n // size)

    # what they are
    assert isinstance(g, jax.Array) and g.shape == (n, 8) and g.sharding == S("d")
    assert not g.is_fully_addressable and not g.is_fully_replicated and mesh.is_multi_process
    assert mesh.local_mesh.shape == {"d": n // size} and g.devices() == set(jax.devices())
    assert [s.index[0].start for s in g.addressable_shards] == list(range(mine.start, mine.stop))
    assert [s.data is None for s in g.global_shards] == [not s.device.is_local
                                                         for s in g.global_shards]
    np.testing.assert_array_equal([s.data[0] for s in g.addressable_shards], x[mine])
    assert repr(g) == str(g) == f"Array(shape=({n}, 8), dtype=float32)" and len(g) == n
    whole = jax.device_put(g, S())
    assert whole.is_fully_replicated and not whole.is_fully_addressable
    for readable in (whole, g[1], g.sum(), jax.device_put(2.5, S())):
        np.asarray(readable), str(readable), readable.tolist()
    np.testing.assert_array_equal(whole, x)
    np.testing.assert_array_equal(read(g), x)
    for call in (lambda: np.asarray(g), g.tolist, lambda: g.__dlpack__(), lambda: g[g > 3]):
        fails(RuntimeError, call, "holds a part of", "process_allgather",
              "addressable_shards")
    fails(ValueError, lambda: mu.process_allgather(g), "only supports tiled=True")

    # how they are made
    every = [(rank + np.arange(2 * n // size)).astype(np.float32)] * 2
    local = jax.make_array_from_process_local_data(S("d"), every[0])
    joined = np.concatenate([r + np.arange(2 * n // size) for r in range(size)])
    np.testing.assert_array_equal(read(local), joined)
    assert jax.make_array_from_process_local_data(S("d"), x, (n, 8)).shape == (n, 8)
    np.testing.assert_array_equal(
        jax.make_array_from_process_local_data(S(None, None), x), x)
    asked = []
    made = jax.make_array_from_callback((n, 8), S("d"), lambda i: asked.append(i) or x[i])
    assert len(asked) == n // size
    np.testing.assert_array_equal(read(made), x)
    parts = [jax.device_put(x[k:k + 1] + 1, d) for k, d in enumerate(jax.devices()) if d.is_local]
    np.testing.assert_array_equal(
        read(jax.make_array_from_single_device_arrays((n, 8), S("d"), parts)), x + 1)
    pair = mu.host_local_array_to_global_array((x[mine], np.float32(3)), mesh, (P("d"), P()))
    np.testing.assert_array_equal(read(pair[0]), x)
    back = mu.global_array_to_host_local_array(pair, mesh, (P("d"), P()))
    np.testing.assert_array_equal(back[0], x[mine])
    assert back[0].is_fully_addressable and float(back[1]) == 3
    fails(ValueError, lambda: jax.make_array_from_process_local_data(S("d"), x[:1], (n, 8)),
          "is no process's part")
    fails(ValueError, lambda: jax.make_array_from_callback((n, 8), S("d"), lambda i: x),
          "Expected shard shape")
    fails(ValueError, lambda: jax.make_array_from_single_device_arrays((n, 8), S("d"), parts * 2),
          "one for each device")
    fails(ValueError, lambda: Mesh(np.array(jax.devices()).reshape(size, -1).T.reshape(-1), ("d",)),
          "must be a block of the mesh")
    two = Mesh(np.array(jax.devices()).reshape(size, -1), ("p", "l"))
    fails(NotImplementedError, lambda: jax.device_put(x, NamedSharding(two, P(("l", "p")))),
          "several separate parts")
    far = next(d for d in jax.devices() if not d.is_local)
    fails(RuntimeError, lambda: jax.device_put(1.0, far), "is a device of process")
    other = Mesh(np.array([d for d in jax.devices() if not d.is_local]), ("d",))
    fails((ValueError, RuntimeError), lambda: jax.make_array_from_process_local_data(
        NamedSharding(other, P("d")), x), "process")

    # what is computed of them, in jit and outside
    def near(got, want, spec=None):
        np.testing.assert_allclose(read(got), want, rtol=1e-6)
        assert spec is None or got.sharding.is_equivalent_to(S(*spec), got.ndim), got.sharding

    near(g + 1, x + 1, ("d",))
    near(jax.grad(lambda w: ((g * w) ** 2).mean())(2.0), (4 * x ** 2).mean())
    near(jax.jit(lambda v: v.sum(0), in_shardings=S("d"))(x), x.sum(0))
    near(jax.jit(lambda v: (v.T, jnp.arange(4.0 * n)), out_shardings=S("d"))(
        jnp.asarray(x[:, :n]))[1], np.arange(4.0 * n), ("d",))
    near(jax.device_put(g, S(None, "d")), x, (None, "d"))
    near(jnp.zeros_like(g), 0 * x, ("d",))
    keys = jax.random.split(jax.random.key(1), n)
    known = np.asarray(jax.vmap(jax.random.uniform)(keys))

    def several(v, k):  # and g, which it captures
        return [(jnp.sin(v) * np.float32(2) + g, ("d",)), (v @ g.T, None), (v[1:3, ::2], None),
                (v[jnp.array([2, 0])], None), (v.at[0, 1].set(-1.0), ("d",)),
                (jnp.stack([v, g]), None), (v.astype(np.int32).reshape(-1), ("d",)),
                (jax.vmap(lambda row: row / row.sum())(v), ("d",)),
                (lax.scan(lambda c, r: (c + r.sum(), r * 2), 0.0, v)[1], None),
                (jax.pure_callback(lambda a: 2 * np.asarray(a), jax.ShapeDtypeStruct(
                    x.shape, x.dtype), v), None), (jax.vmap(jax.random.uniform)(k), None)]

    wanted = [2 * np.sin(x) + x, x @ x.T, x[1:3, ::2], x[[2, 0]], np.where(x == 1, -1, x),
              np.stack([x, x]), x.reshape(-1), x / x.sum(1, keepdims=True), 2 * x, 2 * x, known]
    specs = []
    outs = jax.jit(lambda v, k: [specs.append(s) or o for o, s in several(v, k)])(
        g, jax.device_put(keys, S("d")))
    for out, spec, want in zip(outs, specs, wanted):
        near(out, want, spec)
    assert bool((g == g).all()) and float(g[0, 1]) == 1 and int(jnp.argmax(g)) == 8 * n - 1
    fails(ValueError, lambda: g + jax.device_put(x, jax.local_devices()[0]),
          "incompatible devices")
    explicit = jax.device_put(x, NamedSharding(jax.make_mesh((n,), ("d",)), P("d")))
    assert str(jax.typeof(explicit * 2)) == f"float32[{n}@d,8]"
    near(jax.jit(lambda v: v.sum(1))(explicit), x.sum(1))

    # memory: given away, deleted, held
    given = jax.device_put(x + 5, S("d"))
    near(jax.jit(lambda v: v * 2, donate_argnums=0)(given), 2 * (x + 5))
    assert given.is_deleted()
    fails(RuntimeError, lambda: given + 1, "deleted")
    import pickle
    assert pickle.loads(pickle.dumps(whole)).sharding == S()
    from calque import aot
    f = jax.shard_map(lambda v: lax.psum(v, "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
    fails(TypeError, lambda: aot.compile(f, jax.ShapeDtypeStruct(x.shape, x.dtype)),
          "program of one process")

    # pmap differentiated and mapped from outside: the gradient of the sum over all processes
    w, e = np.float32([1, 2, 3, -1, 1, 0, 2, 1]) / 100, 1e-6
    p = jax.pmap(lambda w, a: jnp.sin(a * w) * lax.psum((a * w).sum(), "i"), "i", in_axes=(None, 0))

    def squares(w, v):
        return ((np.sin(v * w) * (v * w).sum()) ** 2).sum()

    def slope(i):
        d = e * np.eye(8)[i]
        return (squares(w + d, x) - squares(w - d, x)) / (2 * e)

    def own(w, v):
        return (p(w, v) ** 2).sum()

    for grad in (jax.grad(own), jax.jit(jax.grad(own))):
        np.testing.assert_allclose(grad(w, x[mine]), [slope(i) for i in range(8)], rtol=1e-4)
    bumped = [x.astype(float), x.astype(float)]
    for v, sign in zip(bumped, (1, -1)):
        v[mine.start, 1] += sign * e
    np.testing.assert_allclose(jax.grad(own, 1)(w, x[mine])[0, 1], (
        squares(w, bumped[0]) - squares(w, bumped[1])) / (2 * e), rtol=1e-3)  # f32, 64 terms
    many = jax.vmap(lambda s: p(w * s, x[mine]))(np.float32([1, 2]))
    for s, got in zip((1, 2), many):
        np.testing.assert_allclose(got, (np.sin(x * w * s) * (x * w * s).sum())[mine], rtol=1e-4,
                                   atol=1e-5)
    np.testing.assert_allclose(jax.grad(lambda v: jax.pmap(
        lambda a: lax.psum(a ** 2, "i"), "i", out_axes=None)(v).sum())(x[mine]), 2 * x[mine])
    fails(ValueError, lambda: jax.pmap(lambda a: a)(x[:0]), "one row for each device")

    # training: one message a step, the values of one process, no growth
    def loss(w, v):
        return jnp.mean((jnp.tanh(v @ w[0]) @ w[1] - v) ** 2)

    def step(w, v):
        return jax.tree.map(lambda a, b: a - 0.05 * b, w, jax.grad(loss)(w, v))

    from calque.core import processes
    data = x / x.max()
    w = [np.full((8, 5), 0.1, np.float32), np.full((5, 8), 0.2, np.float32)]
    spread, plain = jax.device_put(w, S()), w
    run, alone = jax.jit(step), jax.jit(step)
    batch = jax.device_put(data, S("d"))
    spread, before = run(spread, batch), processes.engine[0].sent
    plain = alone(plain, data)
    for _ in range(20):
        spread, plain = run(spread, batch), alone(plain, data)
    assert processes.engine[0].sent - before == 20
    for a, b in zip(spread, plain):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    print("all is well", rank, flush=True)
"""


def test_arrays() -> None:
    for done in by_hand(ARRAYS, 2, JAX_NUM_CPU_DEVICES="2"):
        assert (done.code, "all is well" in done.out) == (0, True), done.out


WRITE = """
    from calque.distributed import checkpoints
    from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
    folder = os.environ["FOLDER"]
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(2, -1), ("a", "b"))
    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)

    def tree(mesh, x=x):
        put = lambda v, *spec: jax.device_put(v, NamedSharding(mesh, P(*spec)))
        return {"both": put(x, "a", "b"), "rows": put(x + 1, ("a", "b")), "copy": put(x + 2),
                "half": put(jnp.asarray(x, jnp.bfloat16), "b"), "number": 7,
                "keys": put(jax.random.split(jax.random.key(5), 4), "b"), "local": x * 2}

    checkpoints.save(folder, tree(mesh))
    if rank == 0:  # what one of them cannot write is an error in all
        real, checkpoints._fill = checkpoints._fill, lambda *_: 1 / 0
    try:
        checkpoints.save(folder, tree(mesh, 0 * x))
    except OSError as error:
        assert "ZeroDivisionError" in str(error) and "process 0" in str(error), error
    else:
        raise AssertionError
    if rank == 0:
        checkpoints._fill = real
    try:
        checkpoints.save(folder, {"a": np.ones(2 + rank)})
    except ValueError as error:
        assert "do different things" in str(error), error
    writing = checkpoints.save(folder + "-later", tree(mesh, x + 10), background=True)
    total = jax.jit(lambda v: v.sum())(tree(mesh)["both"])  # messages go on
    writing.wait()
    got = checkpoints.load(folder + "-later", tree(mesh))
    np.testing.assert_array_equal(got["copy"], x + 12)
    print("all is well", rank, flush=True)
    if rank == 1:  # killed while it writes: what was there stays
        checkpoints._fill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    try:
        checkpoints.save(folder, tree(mesh, 0 * x))
    except RuntimeError as error:
        assert "is lost" in str(error), error
        print("it stays", flush=True)
"""
READ = """
    from calque.distributed import checkpoints
    from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
    folder = os.environ["FOLDER"]
    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    mesh = Mesh(np.array(jax.devices()), ("z",))

    def like(shape, dtype, *spec):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    got = checkpoints.load(folder, {
        "both": like((8, 16), np.float32, None, "z"), "rows": like((8, 16), np.float32, "z"),
        "copy": like((8, 16), np.float32, "z"), "half": like((8, 16), jnp.bfloat16), "number": 0,
        "keys": jax.random.split(jax.random.key(0), 4), "local": x})
    read = lambda v: mu.process_allgather(v, tiled=True) if size > 1 and isinstance(
        v, jax.Array) and v.sharding.spans else np.asarray(v)
    for name, want in (("both", x), ("rows", x + 1), ("copy", x + 2), ("local", x * 2)):
        np.testing.assert_array_equal(read(got[name]), want, name)
    np.testing.assert_array_equal(read(got["half"]).astype(np.float32), x)
    assert got["number"] == 7 and got["both"].sharding.spec == P(None, "z")
    np.testing.assert_array_equal(jax.random.key_data(got["keys"]), jax.random.key_data(
        jax.random.split(jax.random.key(5), 4)))
    print("all is well", rank, flush=True)
"""


def test_checkpoints(tmp_path: Path) -> None:
    """Written by four processes, read by one and by two, over other meshes."""
    folder = str(tmp_path / "checkpoint")
    wrote = by_hand(WRITE, 4, FOLDER=folder)
    for rank, done in enumerate(wrote):
        assert "all is well" in done.out and ("it stays" in done.out) == (rank != 1), done.out
    assert wrote[1].code == -9
    for size in (1, 2):
        for done in by_hand(READ, size, FOLDER=folder, JAX_NUM_CPU_DEVICES="2"):
            assert (done.code, "all is well" in done.out) == (0, True), done.out


@pytest.mark.slow
def test_the_example_goes_on(tmp_path: Path) -> None:
    """Digits by 4 processes, then 2, then 1: the loss is that of one alone."""
    program = str(Path(TESTS).parent / "examples" / "many_processes.py")
    start = [str(Path(sys.executable).parent / "calque"), "run-many", "-n"]
    lines = [subprocess.run([*command, program, "--folder", str(tmp_path / folder), "--steps",
                             str(steps)], capture_output=True, text=True, check=True).stdout
             for command, folder, steps in (
                 ([*start, "4"], "a", 50), ([*start, "2"], "a", 100), ([sys.executable], "a", 150),
                 ([sys.executable], "b", 150))]
    assert [line.split()[0] for line in lines] == ["4", "2", "1", "1"]
    losses = [float(line.split()[-1]) for line in lines]
    assert losses[0] > losses[1] > losses[2] and abs(losses[2] - losses[3]) < 1e-4


@pytest.mark.slow
def test_an_option_by_all_launchers() -> None:
    """One price, near the closed form's, whoever starts it; Ray and Dask where they are there."""
    folder = Path(TESTS).parent / "examples"
    program = str(folder / "option_processes.py")
    many = [str(Path(sys.executable).parent / "calque"), "run-many", "-n", "2"]
    commands = [[sys.executable, program], [*many, program]] + [
        [sys.executable, str(folder / "launchers" / f"by_{name}.py")]
        for name, module in (("ray", "ray"), ("dask", "dask"))
        if importlib.util.find_spec(module)]
    for command in commands:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200)
        found, error = said.stdout.split(": ")[1].split()[:3:2]
        closed = 7.1281  # Black and Scholes
        assert abs(float(found.rstrip(",")) - closed) < 4 * float(error.rstrip(",")), said.stdout
