"""What two processes do with a GPU each, or with one that they share: values against NumPy's.

PROGRAM stands behind jobs.HEAD; tests/processes/test_gpus.py runs it on lavapipe, and
tests/carry_processes.py carries it to a machine with a card.
"""

PROGRAM = """
from calque import lax
from calque.sharding import Mesh, NamedSharding, PartitionSpec as P

devices = jax.devices()
n = len(devices)
assert n == size and jax.local_device_count() == 1, devices
assert [d.id for d in devices] == [2048 * i for i in range(n)], devices
assert jax.devices()[rank] == jax.local_devices()[0] and devices[rank].is_local
mesh = Mesh(np.array(devices), ("d",))
S = lambda *spec: NamedSharding(mesh, P(*spec))
x = np.arange(8.0 * n, dtype=np.float32).reshape(n, 8)
mine = x[rank:rank + 1]


def read(v):
    return mu.process_allgather(v, tiled=True)


def near(got, want, tolerance=1e-6):  # a few operations of float32 each
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


# arrays that span them
g = jax.device_put(x, S("d"))
assert not g.is_fully_addressable and g.addressable_shards[0].device is devices[rank]
near(g.addressable_shards[0].data, mine)
near(read(g), x)
near(read(jax.make_array_from_process_local_data(S("d"), mine, (n, 8))), x)
near(read(jax.device_put(g, S())), x)
fails(RuntimeError, lambda: np.asarray(g), "process_allgather")

# the partitioner
near(jax.jit(lambda v: v.sum())(g), x.sum())
near(read(jax.jit(lambda v: jnp.sin(v) * 2 + v.mean(0))(g)), np.sin(x) * 2 + x.mean(0))
near(jax.jit(lambda v: v.T @ v)(g), x.T @ x)
near(jax.grad(lambda w: ((g * w) ** 2).mean())(jnp.float32(2)), (4 * x ** 2).mean())
near(read(jax.jit(lambda v: jnp.sort(-v, 0))(g)), np.sort(-x, 0))

# collectives; the first results are of this process's memory, others of what a program computed
for scale in (1, 3):
    def body(v, scale=scale):
        v = v * scale if scale > 1 else v
        return [lax.psum(v, "d"), lax.pmax(v, "d"), lax.all_gather(v, "d", tiled=True),
                lax.ppermute(v, "d", [(i, (i + 1) % n) for i in range(n)]),
                lax.psum_scatter(v.reshape(n, 8 // n), "d", tiled=True),
                lax.all_to_all(v, "d", 1, 0, tiled=True), lax.axis_index("d")[None]]
    outs = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=[
        P(), P(), P(), P("d"), P("d"), P("d"), P("d")], check_vma=False))(g)
    y = x * scale
    wants = [y.sum(0, keepdims=True), y.max(0, keepdims=True), y, np.roll(y, 1, 0),
             y.reshape(n, n, -1).sum(0), np.concatenate(np.split(y, n, 1), 0), np.arange(n)]
    for out, want in zip(outs, wants):
        near(read(out) if out.is_fully_addressable is False else out, want)
stepped = jax.shard_map(lambda v: lax.fori_loop(0, 3, lambda i, c: lax.psum(c, "d") / n + 1, v),
                        mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)
near(read(jax.jit(stepped)(g)), np.broadcast_to(x.mean(0) + 3, x.shape))

# pmap, and its gradient over all processes
p = jax.pmap(lambda w, a: jnp.sin(a * w) * lax.psum((a * w).sum(), "i"), "i", in_axes=(None, 0))
w, e = np.float32([1, 2, 3, -1, 1, 0, 2, 1]) / 100, 1e-6


def squares(w):
    return ((np.sin(x * w) * (x * w).sum()) ** 2).sum()


slope = [(squares(w + d) - squares(w - d)) / (2 * e) for d in e * np.eye(8)]
near(jax.grad(lambda w: (p(w, mine) ** 2).sum())(w), slope, 1e-3)  # f32, sums of 64 terms

# training: the values of one process
weights = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)


def loss(w, v):
    return jnp.mean(jnp.tanh(v @ w) ** 2)


state, alone = jax.device_put(weights, S()), weights.astype(float)
step = jax.jit(lambda w, v: w - 0.1 * jax.grad(loss)(w, v / 16))
for _ in range(5):
    state = step(state, g)
    t = np.tanh(x / 16 @ alone)
    alone = alone - 0.1 * (x / 16).T @ (2 * t * (1 - t ** 2) / t.size)
near(state, alone, 1e-5)
print("all is well", rank, flush=True)
"""
