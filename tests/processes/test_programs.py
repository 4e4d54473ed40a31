"""Collectives within compiled programs over the devices of several processes: all values are those
that NumPy has of all devices' parts."""
from __future__ import annotations

import pytest
from jobs import TESTS, by_hand

GRID = """
    import ml_dtypes
    sys.path[:0] = [os.path.join(os.environ["TESTS"], "devices")]
    import test_collectives as tc
    from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
    n, devices = len(jax.devices()), np.array(jax.devices())
    mine = slice(rank * n // size, (rank + 1) * n // size)

    def local(x):
        order = {d: k for k, d in enumerate(devices)}
        return {order[s.device]: np.asarray(s.data) for s in x.addressable_shards}

    def compare(got, bodies, x, mesh, oracle_of=None):
        for name, (_, oracle) in bodies.items():
            want = oracle(x) if oracle_of is None else oracle_of(oracle)
            for start, part in local(got[name]).items():
                np.testing.assert_array_equal(part[0].astype(want.dtype), want[start], name)

    def mapped(bodies, x, axis, mesh, check=True):
        spec = P(mesh.axis_names)
        def own(v):
            return {k: f(v[0], axis)[None] for k, (f, _) in bodies.items()}
        f = jax.shard_map(own, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check)
        return jax.jit(f)(jax.device_put(x, NamedSharding(mesh, spec)))

    SOME = ("psum", "ppermute", "all_gather tiled", "psum_scatter", "all_to_all axes")
    for context, dtype in CONTEXTS:
        bodies = {k: v for k, v in tc.CASES.items()
                  if dtype != "complex64" or k in SOME}
        x = tc.parts(n, dtype)
        if n == 3:  # what is split must divide
            x = np.tile(x, (1, 2, 2))[:, :9, :6]
        if context == "pmap":
            got = jax.pmap(lambda v: {k: f(v, "i") for k, (f, _) in bodies.items()},
                           axis_name="i")(x[mine])
            for name, (_, oracle) in bodies.items():
                want = oracle(x)[mine]
                np.testing.assert_array_equal(np.asarray(got[name]).astype(want.dtype), want, name)
        else:
            mesh = Mesh(devices, ("i",))
            compare(mapped(bodies, x, "i", mesh, context == "checked"), bodies, x, mesh)
"""
TWO = """
    CONTEXTS = [("pmap", "float32"), ("checked", jnp.bfloat16), ("unchecked", "complex64")]
"""
FOUR = """
    CONTEXTS = [("pmap", "uint8")]
"""
MORE = """
    # one axis of a mesh of two, each way round; all axes; groups
    ways = [((n // 2, 2), ("b", "a")), (((2, n // 2)), "b"), ((n // 2, 2), "a")]
    for shape, axis in ways[:int(os.environ["WAYS"])]:
        mesh = Mesh(devices.reshape(shape), ("a", "b"))
        bodies = {k: v for k, v in tc.CASES.items() if k != "pbroadcast"}
        if isinstance(axis, tuple):
            bodies = {k: v for k, v in bodies.items() if k not in ("ppermute", "pshuffle")}
        d = int(np.prod([mesh.shape[a] for a in (axis if isinstance(axis, tuple) else (axis,))]))
        x = tc.parts(n, np.float32)[:, :, :4]
        def oracle_of(oracle, mesh=mesh, axis=axis):
            names = axis if isinstance(axis, tuple) else (axis,)
            rest = [m for m in mesh.axis_names if m not in names]
            order = [mesh.axis_names.index(m) for m in (*rest, *names)]
            grid = np.arange(n).reshape(mesh.axis_sizes).transpose(order).reshape(-1, d)
            out = [None] * n
            for row in grid:
                for k, v in zip(row, oracle(x[row])):
                    out[k] = v
            return np.stack(out)
        compare(mapped(bodies, x, axis, mesh), bodies, x, mesh, oracle_of)
    groups = tc.halves(n)
    mesh, x = Mesh(devices, ("i",)), tc.parts(n, np.float32)
    compare(mapped({k: (lambda v, a, f=f: f(v, groups), None) for k, (f, _) in tc.GROUPED.items()},
                   x, "i", mesh, False), tc.GROUPED, x, mesh,
            lambda oracle: tc.by_groups(oracle, x, groups))

    # NaN, infinities and zeros of both signs; bools; keys; nothing; within loops and branches
    from calque import lax
    special = np.array([1.0, np.nan, -np.inf, np.inf, -0.0, 0.0, -2.0, 3.0], np.float32)
    rolls = np.stack([np.roll(special, k) for k in range(n)])
    keys = jax.random.split(jax.random.key(3), n)
    counts = np.arange(n) % 2 == 0

    def body(v, words, flag, empty):
        key = jax.random.wrap_key_data(words[0])
        turn = [(k, (k + 1) % n) for k in range(n)]
        def step(c, row):
            c = lax.psum(c * row, "i") / n
            return c, lax.all_gather(c, "i", tiled=True)
        def until(c):
            return lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, lax.pmax(s[1], "i")
                                                                 + 1), (0, c))[1]
        finite = jnp.nan_to_num(v, posinf=2.0, neginf=-2.0)
        carried, stacked = lax.scan(step, finite[0] * 0 + 1.0, jnp.arange(1.0, 4.0))
        return {
            "max": lax.pmax(v, "i"), "min": lax.pmin(v, "i"), "any": lax.pmax(flag, "i"),
            "all": lax.pmin(flag, "i"), "bools": lax.all_gather(flag, "i", tiled=True),
            "count": lax.psum(flag, "i"),
            "keys": jax.random.key_data(lax.ppermute(key, "i", turn))[None],
            "every": jax.random.key_data(lax.all_gather(key, "i"))[None],
            "empty": lax.psum(empty, "i"), "carried": carried, "stacked": stacked[None],
            "until": until(finite), "branch": lax.cond(
                lax.psum(1.0, "i") > 2, lambda z: lax.psum(z, "i"), lambda z: z, finite)}

    mesh = Mesh(devices, ("i",))
    f = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False))
    words = np.asarray(jax.random.key_data(keys))
    got = f(*jax.device_put((rolls, words, counts, np.zeros((n, 0), np.float32)),
                            NamedSharding(mesh, P("i"))))
    finite = np.nan_to_num(rolls, posinf=2.0, neginf=-2.0)
    carried, rows = np.ones(n, np.float32) * 1.0, []
    carried = np.ones((n, 8), np.float32)
    for k in range(1, 4):
        carried = np.broadcast_to((carried * k).sum(0) / n, carried.shape)
        rows.append(carried.reshape(-1))
    until = finite
    for _ in range(5):
        until = np.broadcast_to(until.max(0) + 1, until.shape)
    same = lambda v: np.broadcast_to(v, (n, *np.shape(v)))
    want = {"max": same(rolls.max(0)), "min": same(rolls.min(0)), "any": same(counts.any()),
            "all": same(counts.all()), "bools": same(counts), "count": same(counts.sum()),
            "keys": np.roll(words, 1, 0), "every": same(words), "empty": np.zeros((n, 0)),
            "branch": same(finite.sum(0)), "until": until, "carried": carried,
            "stacked": same(np.stack([np.tile(r[:8], n) for r in rows]))}
    for name, w in want.items():
        for k, part in local(got[name]).items():
            np.testing.assert_array_equal(part.reshape(w[k].shape), w[k], name)
    for part in local(got["max"]).values():  # of zeros of both signs the larger is +0
        assert not np.signbit(part[part == 0]).any(), part
    print("all is well", rank, flush=True)
"""


def all_is_well(body: str, size: int, devices: int, **variables: str) -> None:
    for done in by_hand(body, size, JAX_NUM_CPU_DEVICES=str(devices), TESTS=TESTS, **variables):
        assert (done.code, "all is well" in done.out) == (0, True), done.out


@pytest.mark.parametrize("size, devices, ways", [
    (2, 4, 1), *[pytest.param(*p, marks=pytest.mark.slow) for p in ((2, 4, 3), (4, 2, 0))]])
def test_collectives(size: int, devices: int, ways: int) -> None:
    rest = MORE if size == 2 else "\n    print('all is well', rank)\n"
    all_is_well((TWO if size == 2 else FOUR) + GRID + rest, size, devices, CALQUE_CHECK="1",
                WAYS=str(ways))


USERS = """
    from calque.experimental.custom_partitioning import custom_partitioning
    from calque.experimental.shard_alike import shard_alike
    from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
    from calque import lax
    mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("x", "y"))
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    told = []

    def partition(mesh, args, result):
        told.append([s.sharding.spec for s in (*args, result)])
        def lower(x, y):
            return lax.psum(x @ y, "x")
        return mesh, lower, NamedSharding(mesh, P()), (
            NamedSharding(mesh, P(None, "x")), NamedSharding(mesh, P("x", None)))

    f = custom_partitioning(lambda x, y: x @ y)
    f.def_partition(partition, sharding_rule="i j, j k -> i k", reduction_factors=("j",))
    put = lambda v, *spec: jax.device_put(v, NamedSharding(mesh, P(*spec)))
    made = jax.jit(f)(put(a, None, "x"), put(a, "x"))
    np.testing.assert_array_equal(np.asarray(made.addressable_shards[0].data), a @ a)
    assert told == [[P(None, "x"), P("x", None), P(None, None)]], told
    rows = custom_partitioning(lambda x: x * 2)
    rows.def_partition(lambda mesh, args, r: (mesh, lambda x: x + x, r.sharding,
                                              (args[0].sharding,)), sharding_rule="i j -> i j")
    made = jax.jit(lambda x: lax.fori_loop(0, 2, lambda _, c: rows(c) + 1, x))(put(a, "x", "y"))
    for s in made.addressable_shards:
        np.testing.assert_array_equal(np.asarray(s.data), (4 * a + 3)[s.index])
    assert made.sharding.spec == P("x", "y")
    one, other = jax.jit(shard_alike)(put(a, "x"), a)
    assert other.sharding.spec == P("x"), other.sharding
    for s in other.addressable_shards:
        np.testing.assert_array_equal(np.asarray(s.data), a[s.index])
    print("all is well", rank, flush=True)
"""


def test_what_devices_do_by_rules_of_the_users() -> None:
    """custom_partitioning and shard_alike over the devices of two processes."""
    all_is_well(USERS, 2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("size, devices", [(2, 2), (3, 1), (4, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint32", "complex64"])
def test_grid(size: int, devices: int, dtype: str) -> None:
    contexts = f"""
    CONTEXTS = [(c, jnp.dtype("{dtype}")) for c in ("pmap", "checked", "unchecked")]
"""
    all_is_well(contexts + GRID + "\n    print('all is well', rank)\n", size, devices)


RANDOM = """
    sys.path[:0] = [os.environ["TESTS"]]
    import fuzz, fuzz_devices
    from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
    from calque.transforms.stage import replay
    n, first, count = len(jax.devices()), int(os.environ["FIRST"]), int(os.environ["COUNT"])

    def real(a):
        a = np.asarray(a)
        return a.astype(np.float32) if a.dtype.kind == "V" else a

    with jax.enable_x64(True):
        for group in range(first, first + count, 4):
            rng = np.random.default_rng([group, 3])
            sizes = [(n,), (2, n // 2), (n // 2, 2)][rng.integers(3)]
            mesh = Mesh(np.array(jax.devices()).reshape(sizes), tuple("ab"[:len(sizes)]))
            spread, plain, programs = [], [], []
            for seed in range(group, group + 4):
                program, args = fuzz.draw(seed)
                programs.append(program)
                plain.append(list(args))
                spread.append([])
                for a in args:
                    where = NamedSharding(mesh, fuzz_devices.draw_spec(rng, mesh, a.shape, True))
                    try:
                        where.between
                    except NotImplementedError:  # several separate parts in a process
                        where = NamedSharding(mesh, P())
                    spread[-1].append(jax.device_put(a, where) if rng.integers(4) else a)
            f = jax.jit(lambda every: [o for p, xs in zip(programs, every)
                                       for o in replay(p, *xs)])
            for got, want in zip(f(spread), f(plain)):
                w = real(want)
                away = 2e-2 if want.dtype.itemsize == 2 else 2e-4
                finite = np.abs(w[np.isfinite(w)]) if w.dtype.kind in "fc" else np.zeros(0)
                for s in got.addressable_shards:
                    np.testing.assert_allclose(
                        real(s.data), w[s.index], rtol=away if w.dtype.kind in "fc" else 0,
                        atol=away * finite.max(initial=0), err_msg=f"seed {group}")
    print("all is well", rank, flush=True)
"""


@pytest.mark.parametrize("first, count", [
    (0, 4), *[pytest.param(f, 60, marks=pytest.mark.slow) for f in (4, 64, 124)]])
def test_random_programs(first: int, count: int) -> None:
    """Random programs on arrays that are spread at random."""
    all_is_well(RANDOM, 2, 2, FIRST=str(first), COUNT=str(count))
