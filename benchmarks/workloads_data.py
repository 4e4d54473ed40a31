"""Workloads of suite.py: moves, searches, random numbers and programs (see workloads)."""
from __future__ import annotations

from typing import Any

import numpy as np
from workloads import Made, normal, uniform, whole, workload


# ---- moves, searches, random numbers
@workload
def sort_1m(j: Any, more: int) -> Made:
    return lambda x: j.np.sort(x), (normal(1_000_000 + more),)


@workload
def top_8_of_100k(j: Any, more: int) -> Made:
    return lambda x: j.lax.top_k(x, 8), (normal(10, 100_000 + more),)


@workload
def roll_pad_flip(j: Any, more: int) -> Made:
    return lambda x: j.np.flip(j.np.pad(j.np.roll(x, 3, 0), 2), 1), (normal(1000 + more, 1000),)


@workload
def transposition(j: Any, more: int) -> Made:
    return lambda x: j.np.transpose(x, (2, 0, 1)) + 0, (normal(100 + more, 200, 100),)


@workload
def histogram_1m(j: Any, more: int) -> Made:
    return lambda x: j.np.histogram(x, 100, (-4.0, 4.0))[0], (normal(1_000_000 + more),)


@workload
def searchsorted_100k(j: Any, more: int) -> Made:
    return lambda a, v: j.np.searchsorted(a, v), (np.sort(normal(10_000)), normal(100_000 + more))


@workload
def interp_100k(j: Any, more: int) -> Made:
    return lambda x, p, f: j.np.interp(x, p, f), (normal(100_000 + more), np.sort(normal(1000)),
                                                  normal(1000))


@workload
def permutation_1m(j: Any, more: int) -> Made:
    n = 1_000_000 + more
    return lambda k: j.random.permutation(j.random.wrap_key_data(k), n), (
        np.array([0, 1], np.uint32),)


@workload
def normals_1m(j: Any, more: int) -> Made:
    n = 1_000_000 + more
    return lambda k: j.random.normal(j.random.wrap_key_data(k), (n,)), (
        np.array([0, 1], np.uint32),)


@workload
def gammas_100k(j: Any, more: int) -> Made:
    n = 100_000 + more
    return lambda k: j.random.gamma(j.random.wrap_key_data(k), 2.5, (n,)), (
        np.array([0, 1], np.uint32),)


@workload
def categorical_10k(j: Any, more: int) -> Made:
    return lambda k, l: j.random.categorical(j.random.wrap_key_data(k), l), (
        np.array([0, 1], np.uint32), normal(10_000 + more, 50))


# ---- programs
@workload
def n_body_1000(j: Any, more: int) -> Made:
    def f(x: Any, m: Any) -> Any:
        d = x[None] - x[:, None]
        r = (d * d).sum(-1) + 1e-3
        return (d * (m / (r * j.np.sqrt(r)))[..., None]).sum(1)
    return f, (normal(1000 + more, 3), uniform(1000 + more))


@workload
def k_means_step(j: Any, more: int) -> Made:
    def f(x: Any, c: Any) -> Any:
        near = j.np.argmin(((x[:, None] - c[None]) ** 2).sum(-1), -1)
        one = j.nn.one_hot(near, c.shape[0])
        return (one.T @ x) / j.np.maximum(one.sum(0), 1)[:, None]
    return f, (normal(10_000 + more, 8), normal(20, 8))


@workload
def hessian_of_logistic_regression(j: Any, more: int) -> Made:
    def loss(w: Any, x: Any, y: Any) -> Any:
        return j.np.logaddexp(0, -y * (x @ w)).mean()
    return j.top.hessian(loss), (normal(20), normal(1000 + more, 20), np.sign(normal(1000 + more)))


def _expected(j: Any) -> Any:
    """Expected values of next states: v[s[i, j], :] @ q[j, :], as economists write it."""
    def one(v: Any, s: Any, q: Any, i: Any, k: Any) -> Any:
        return j.np.sum(v[s[i, k], :] * q[k, :])
    row = j.top.vmap(one, in_axes=(None, None, None, None, 0))
    both = j.top.vmap(row, in_axes=(None, None, None, 0, None))
    return lambda v, s, q: both(v, s, q, j.np.arange(s.shape[0]), j.np.arange(s.shape[1]))


@workload
def policy_values(j: Any, more: int) -> Made:
    """20 steps of a policy's operator on 150 x 100 states."""
    def f(r: Any, s: Any, q: Any) -> Any:
        return j.lax.fori_loop(0, 20, lambda _, v: r + 0.95 * _expected(j)(v, s, q), r)
    q = uniform(100, 100)
    return f, (normal(150 + more, 100), whole(150, 150 + more, 100), q / q.sum(1, keepdims=True))


@workload
def policy_evaluation(j: Any, more: int) -> Made:
    """The same operator's fixed point by bicgstab."""
    def f(r: Any, s: Any, q: Any) -> Any:
        solve = j.solvers.bicgstab
        return solve(lambda v: v - 0.9 * _expected(j)(v, s, q), r, tol=1e-4)[0]
    q = uniform(100, 100)
    return f, (normal(150 + more, 100), whole(150, 150 + more, 100), q / q.sum(1, keepdims=True))


@workload
def neighbours_summed(j: Any, more: int) -> Made:
    return lambda x, ids: x[ids].sum(1), (normal(20_000, 64), whole(20_000, 20_000 + more, 8))


@workload
def quaternions_50k(j: Any, more: int) -> Made:
    """Points turned round by a quaternion each: v + 2 w (u x v) + 2 u x (u x v)."""
    def f(q: Any, v: Any) -> Any:
        u = q[:, 1:]
        turned = j.np.cross(u, v)
        return v + 2 * q[:, :1] * turned + 2 * j.np.cross(u, turned)
    return f, (normal(50_000 + more, 4), normal(50_000 + more, 3))


@workload
def nearest_of_5(j: Any, more: int) -> Made:
    """The smallest of five numbers of each row, and which it is."""
    return lambda x: (j.np.argmin(x, 1), x.min(1)), (normal(100_000 + more, 5),)


@workload
def complex_recurrence(j: Any, more: int) -> Made:
    """A linear recurrent unit: a diagonal of complex numbers over 1,000 inputs."""
    def f(u: Any, a: Any, b: Any) -> Any:
        lam = j.lax.complex(a, b)

        def step(h: Any, v: Any) -> Any:
            h = lam * h + v
            return h, h.real
        return j.lax.scan(step, j.np.zeros_like(lam), u)[1]
    decay, turn = np.linspace(0.7, 0.99, 64), np.linspace(0, 3, 64)
    return f, (normal(1000 + more, 64), (decay * np.cos(turn)).astype(np.float32),
               (decay * np.sin(turn)).astype(np.float32))


@workload
def game_of_life_256(j: Any, more: int) -> Made:
    """100 steps, neighbours counted by a convolution."""
    def f(cells: Any) -> Any:
        around = j.np.ones((1, 1, 3, 3)).at[0, 0, 1, 1].set(0)

        def step(_: Any, x: Any) -> Any:
            n = j.lax.conv_general_dilated(x[None, None], around, (1, 1), "SAME")[0, 0]
            return ((n == 3) | (x == 1) & (n == 2)).astype(x.dtype)
        return j.lax.fori_loop(0, 100, step, cells)
    return f, (whole(2, 256 + more, 256).astype(np.float32),)


@workload
def search_values(j: Any, more: int) -> Made:
    """100 steps of a fitted value function: means of 1,000 offers at each of 100 states."""
    def f(grid: Any, offers: Any) -> Any:
        def at(v: Any, z: Any) -> Any:
            return j.np.mean(j.np.maximum(j.np.interp(0.9 * z + 0.1 * offers, grid, v), 1.2))
        return j.lax.fori_loop(0, 100, lambda _, v: 1 + 0.95 * j.top.vmap(
            lambda z: at(v, z))(grid), grid)
    return f, (np.linspace(0.1, 5, 100 + more, dtype=np.float32), 1 + uniform(1000))


@workload
def draws_kept(j: Any, more: int) -> Made:
    """300 steps, of which the second half is kept, a row each."""
    def f(x: Any, kept: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            x, kept = c
            x = j.np.sin(1.1 * x + i)
            return x, j.lax.cond(i >= 150, lambda b: b.at[i].set(x), lambda b: b, kept)
        return j.lax.fori_loop(0, 300, step, (x, kept))
    return f, (normal(1000 + more), np.zeros((300, 1000 + more), np.float32))


@workload
def mandelbrot_120k(j: Any, more: int) -> Made:
    def f(x: Any, y: Any) -> Any:
        c = j.lax.complex(*j.np.broadcast_arrays(x[None], y[:, None]))

        def step(_: Any, s: Any) -> Any:
            z = s[0] * s[0] + c
            return z, s[1] + (j.np.abs(z) < 2)
        return j.lax.fori_loop(0, 100, step, (c * 0, j.np.zeros(c.shape, int)))[1]
    return f, (np.linspace(-2, 1, 400 + more, dtype=np.float32),
               np.linspace(-1.3, 1.3, 300, dtype=np.float32))


# ---- steps of environments, bodies and circuits; small loops with windows and decompositions
@workload
def cart_pole_step(j: Any, more: int) -> Made:
    """One call a step, with two draws in it."""
    def f(words: Any, state: Any, action: Any) -> Any:
        key, noise, start = j.random.split(j.random.wrap_key_data(words), 3)
        force = j.np.where(action == 1, 10.0, -10.0) + 0.1 * j.random.normal(noise)
        x, dx, angle, turn = state[0], state[1], state[2], state[3]
        pull = (force + 0.05 * turn ** 2 * j.np.sin(angle)) / 1.1
        lift = 9.8 * j.np.sin(angle) - j.np.cos(angle) * pull
        lift = lift / (0.5 * (4 / 3 - 0.1 * j.np.cos(angle) ** 2 / 1.1))
        push = pull - 0.05 * lift * j.np.cos(angle) / 1.1
        state = state + 0.02 * j.np.stack([dx, push, turn, lift])
        done = (j.np.abs(x) > 2.4) | (j.np.abs(angle) > 0.2)
        again = j.random.uniform(start, state.shape, minval=-0.05, maxval=0.05)
        return j.random.key_data(key), j.np.where(done, again, state), done
    return f, (np.uint32([0, 7 + more]), normal(4) / 10, np.int32(1))


@workload
def circuit_gradient(j: Any, more: int) -> Made:
    """A variational circuit of five qubits."""
    flip, turn = np.array([[0, 1], [1, 0]]), np.array([[1, 0], [0, -1]])
    both = np.eye(4)[[0, 1, 3, 2]].reshape(2, 2, 2, 2).astype(np.complex64)

    def apply(state: Any, gate: Any, *qubits: int) -> Any:
        k = len(qubits)
        state = j.np.tensordot(gate, state, (tuple(range(k, 2 * k)), qubits))
        return j.np.moveaxis(state, tuple(range(k)), qubits)

    def energy(angles: Any) -> Any:
        state = j.np.zeros((2,) * 5, j.np.complex64).at[(0,) * 5].set(1)
        for layer in range(2 + more):
            for q in range(5):
                a = angles[layer, q] / 2
                state = apply(state, j.np.cos(a) * np.eye(2) - 1j * j.np.sin(a) * flip, q)
                state = apply(state, both, q, (q + 1) % 5)
        return sum(j.np.vdot(state, apply(state, turn.astype(np.complex64), q)).real
                   for q in range(5))
    return j.top.grad(energy), (normal(2 + more, 5),)


@workload
def chain_of_bodies_step(j: Any, more: int) -> Made:
    """Kinematics of 20 links, each of which stands on the one before; a state of 80 arrays."""
    def f(state: Any) -> Any:
        made, at, turned, torque = {}, j.np.zeros(3), j.np.eye(3), 0.0
        for k, (angle, rate, offset, inertia) in state.items():
            c, s = j.np.cos(angle), j.np.sin(angle)
            zero = j.np.zeros(())
            own = j.np.stack([j.np.stack([c, -s, zero]), j.np.stack([s, c, zero]),
                              j.np.stack([zero, zero, zero + 1])])
            turned = turned @ own
            at = at + turned @ offset
            world = turned @ inertia @ turned.T
            torque = torque + j.np.cross(at, world @ at)[2] - 0.1 * rate
            rate = rate + 0.01 * torque / (1 + j.np.trace(world))
            made[k] = angle + 0.01 * rate, rate, offset, inertia + 0.01 * world
        return made, at
    return f, ({f"link{i:02}": (normal(seed=i), normal(seed=i + 1), normal(3, seed=i + 2) / 5,
                                np.eye(3, dtype=np.float32)) for i in range(20 + more)},)


@workload
def neural_automaton(j: Any, more: int) -> Made:
    """Convolutions and a maximum over windows in each step."""
    def f(x: Any, seen: Any, mixed: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")

        def step(x: Any, _: Any) -> Any:
            y = j.lax.conv_general_dilated(x, seen, (1, 1), "SAME", dimension_numbers=layout,
                                           feature_group_count=8)
            y = j.lax.conv_general_dilated(j.nn.relu(y), mixed, (1, 1), "SAME",
                                           dimension_numbers=layout)
            alive = j.lax.reduce_window(x[..., :1], -j.np.inf, j.lax.max, (1, 3, 3, 1), (1,) * 4,
                                        "SAME") > 0.1
            return j.np.where(alive, x + 0.1 * y, 0), None
        return j.lax.scan(step, x, None, length=50)[0]
    return f, (uniform(1, 24 + more, 24, 8), normal(3, 3, 1, 24) / 3, normal(1, 1, 24, 8) / 9)


@workload
def covariance_adaptation(j: Any, more: int) -> Made:
    """Eigenvectors, a product and an order in each step."""
    def f(points: Any, spread: Any) -> Any:
        def step(c: Any, z: Any) -> Any:
            mean, spread = c
            values, vectors = j.linalg.eigh(spread)
            x = mean + 0.3 * z @ ((vectors * j.np.sqrt(j.np.maximum(values, 1e-6))) @ vectors.T)
            best = x[j.np.argsort((x * x).sum(1))[:6]]
            new = best.mean(0)
            away = (best - mean) / 0.3
            return (new, 0.9 * spread + 0.1 * away.T @ away / 6), (new * new).sum()
        return j.lax.scan(step, (j.np.ones(spread.shape[0]), spread), points)[1]
    return f, (normal(60 + more, 12, 6), np.eye(6, dtype=np.float32))


@workload
def normal_equations(j: Any, more: int) -> Made:
    """Long sums of a small result."""
    return lambda x, y: j.linalg.solve(x.T @ x, x.T @ y), (
        normal(20_000 + more, 50), normal(20_000 + more, seed=1))


@workload
def overlaps_of_boxes(j: Any, more: int) -> Made:
    """All pairs of rows of four numbers."""
    def f(a: Any, b: Any) -> Any:
        low = j.np.maximum(a[:, None, :2], b[None, :, :2])
        size = j.np.clip(j.np.minimum(a[:, None, 2:], b[None, :, 2:]) - low, 0)
        common = size[..., 0] * size[..., 1]
        area = lambda v: (v[:, 2] - v[:, 0]) * (v[:, 3] - v[:, 1])  # noqa: E731
        return common / (area(a)[:, None] + area(b) - common)

    def boxes(n: int, seed: int) -> Any:
        corner = uniform(n, 2, seed=seed)
        return np.concatenate([corner, corner + 0.3 * uniform(n, 2, seed=seed + 1)], 1)
    return f, (boxes(500 + more, 0), boxes(300, 2))


@workload
def normals_of_triangles(j: Any, more: int) -> Made:
    """Rows of three numbers picked by positions."""
    def f(x: Any, t: Any) -> Any:
        return j.np.cross(x[t[:, 1]] - x[t[:, 0]], x[t[:, 2]] - x[t[:, 0]])
    return f, (normal(20_000, 3), whole(20_000, 40_000 + more, 3))


@workload
def outer_products_5x7(j: Any, more: int) -> Made:
    return lambda x, y: x[:, :, None] * y[:, None, :], (
        normal(10_000 + more, 5), normal(10_000 + more, 7))


@workload
def flock_1000(j: Any, more: int) -> Made:
    """Points that know each other, in a loop."""
    def f(x: Any, v: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            x, v = c
            v = v + 0.01 * (x.mean(0) - x) + 0.01 * (v[0] - v)
            v = v / j.np.maximum(j.linalg.norm(v, axis=1, keepdims=True), 1)
            return x + 0.1 * v, v
        return j.lax.fori_loop(0, 100, step, (x, v))
    return f, (normal(1000 + more, 3), normal(1000 + more, 3, seed=1))


@workload
def spectra_of_100_lines(j: Any, more: int) -> Made:
    return lambda x: j.np.abs(j.np.fft.rfft(x)) ** 2, (normal(100 + more, 1000),)


@workload
def reflected_images(j: Any, more: int) -> Made:
    return lambda x: j.np.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0)), mode="reflect"), (
        uniform(8 + more, 128, 128, 3),)


@workload
def remainders_by_a_number(j: Any, more: int) -> Made:
    return lambda x: (x // 640, x % 640), (whole(10 ** 6, 1_000_000 + more),)


@workload
def springs_written_out(j: Any, more: int) -> Made:
    """Twenty steps that Python writes out, with gathers and scatters."""
    def step(x: Any, v: Any, ends: Any) -> tuple[Any, Any]:
        apart = x[ends[:, 1]] - x[ends[:, 0]]
        pull = apart * (1 - 1 / j.np.sqrt((apart * apart).sum(1, keepdims=True) + 1))
        force = j.np.zeros_like(x).at[ends[:, 0]].add(pull).at[ends[:, 1]].add(-pull)
        v = 0.9 * v + 0.02 * force
        return x + 0.1 * v, v

    def f(x: Any, v: Any, ends: Any) -> Any:
        for _ in range(20):
            x, v = step(x, v, ends)
        return x
    return f, (normal(200 + more, 3), normal(200 + more, 3, seed=1), whole(200, 576, 2))


@workload
def fourier_filter(j: Any, more: int) -> Made:
    """Transforms with complex arithmetic between: kernels alone, on pairs of real numbers."""
    weights = np.exp(-np.arange(1024) / 100).astype(np.float32)
    return lambda x: j.np.fft.ifft(j.np.fft.fft(x) * weights).real, (normal(64 + more, 1024),)


@workload
def impedances(j: Any, more: int) -> Made:
    """Quotients and phases of complex arrays."""
    def f(re: Any, im: Any) -> Any:
        z = j.lax.complex(re, im)
        made = (z * z + 1j) / (z + 2)
        return j.np.abs(made), j.np.angle(made)
    return f, (normal(300 + more, 300), normal(300 + more, 300, seed=1))


# ---- images: rows of three numbers
@workload
def crops_of_images(j: Any, more: int) -> Made:
    """A window of each image at a place that is computed."""
    def crop(image: Any, at: Any) -> Any:
        return j.lax.dynamic_slice(image, (at[0], at[1], 0), (192, 192, 3))
    return lambda x, at: j.top.vmap(crop)(x, at), (
        uniform(8 + more, 224, 224, 3), whole(32, 8 + more, 2))


@workload
def flips_of_images(j: Any, more: int) -> Made:
    """Some are mirrored, all have their colours scaled."""
    def f(x: Any, chosen: Any, mean: Any, scale: Any) -> Any:
        x = j.np.where(chosen[:, None, None, None] > 0, x[:, :, ::-1], x)
        return (x - mean) * scale
    return f, (uniform(8 + more, 224, 224, 3), whole(2, 8 + more), uniform(3), uniform(3, seed=1))


@workload
def rolls_of_images(j: Any, more: int) -> Made:
    return lambda x: j.np.roll(x, 3, axis=2), (uniform(64 + more, 32, 32, 3),)


@workload
def patches_of_images(j: Any, more: int) -> Made:
    def f(x: Any) -> Any:
        parts = x.reshape(x.shape[0], 14, 16, 14, 16, 3)
        return parts.transpose(0, 1, 3, 2, 4, 5).reshape(x.shape[0], 196, 768)
    return f, (uniform(4 + more, 224, 224, 3),)


@workload
def quarter_turns_of_images(j: Any, more: int) -> Made:
    return lambda x: j.np.rot90(x, axes=(1, 2)), (uniform(64 + more, 32, 32, 3),)


@workload
def stack_of_50(j: Any, more: int) -> Made:
    """Frames of a batch: more arrays than a dispatch has bindings."""
    return lambda *xs: j.np.stack(xs), tuple(normal(1000 + more, seed=i) for i in range(50))


@workload
def top_10_of_rows(j: Any, more: int) -> Made:
    return lambda x: j.lax.top_k(x, 10), (normal(300 + more, 1000),)


@workload
def transposed_convolution(j: Any, more: int) -> Made:
    return lambda x, w: j.lax.conv_transpose(x, w, (2, 2), "SAME"), (
        normal(8 + more, 16, 16, 32), normal(4, 4, 32, 16))


# ---- memory that is given back and taken again in each call
@workload
def nearest_of_5000(j: Any, more: int) -> Made:
    """200 MB between the operations."""
    def f(x: Any) -> Any:
        apart = ((x[:, None] - x[None]) ** 2).sum(-1)
        return j.lax.top_k(-apart, 5)[1]
    return f, (normal(5000 + more, 3),)


@workload
def momentum_of_30m(j: Any, more: int) -> Made:
    """Results of 240 MB beside arguments of 360."""
    def f(p: Any, m: Any, g: Any) -> Any:
        m = 0.9 * m + g
        return p - 0.1 * m, m
    return f, tuple(normal(30_000_000 + more, seed=i) for i in range(3))
