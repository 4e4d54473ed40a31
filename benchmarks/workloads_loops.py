"""Workloads of suite.py: loops over arrays, and attention to a cache (see workloads)."""
from __future__ import annotations

from typing import Any

import numpy as np
from workloads import Made, normal, uniform, whole, workload


# ---- loops whose steps are one kernel
@workload
def split_steps_of_a_wave(j: Any, more: int) -> Made:
    """100 steps of Schroedinger's equation: two transforms of 256 points each."""
    n = 256
    moved = np.exp(-0.005j * (2 * np.pi * np.fft.fftfreq(n, 10 / n)) ** 2).astype(np.complex64)
    turned = np.exp(-0.005j * np.linspace(-5, 5, n) ** 2).astype(np.complex64)

    def f(u: Any) -> Any:
        return j.lax.fori_loop(0, 100, lambda i, p: turned * j.np.fft.ifft(
            moved * j.np.fft.fft(turned * p)), u)
    return f, ((normal(n) * (1 + 0.01 * more)).astype(np.complex64),)


@workload
def best_ways_of_64(j: Any, more: int) -> Made:
    """Viterbi's 100 steps of 8 states, of 64 models: the largest of every way and where it is."""
    def ways(moves: Any, seen: Any) -> Any:
        def step(score: Any, x: Any) -> Any:
            every = score[:, None] + moves
            return every.max(0) + x, j.np.argmax(every, 0)
        return j.lax.scan(step, j.np.zeros(8), seen)
    return j.top.vmap(ways), (normal(64 + more, 8, 8), normal(64 + more, 100, 8))


@workload
def particles_of_64(j: Any, more: int) -> Any:
    """50 steps of 64 filters, each of whose 128 particles looks up its place among the weights."""
    def one(x: Any, turns: Any) -> Any:
        def step(x: Any, turn: Any) -> Any:
            weight = j.nn.softmax(-(x - turn) ** 2)
            at = (j.np.arange(128) + 0.5) / 128
            found = j.np.searchsorted(j.np.cumsum(weight), at)
            x = x[j.np.clip(found, 0, 127)] + 0.1 * j.np.sin(x)
            return x, (weight * x).sum()
        return j.lax.scan(step, x, turns)
    return j.top.vmap(one), (normal(64 + more, 128), normal(64 + more, 50))


@workload
def boards_of_256(j: Any, more: int) -> Made:
    """40 steps of 256 boards: each workgroup does all steps of a few."""
    def f(x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            near = sum(j.np.roll(x, k, axis) for k in (1, -1) for axis in (1, 2))
            x = ((near + x) % 3 > 1).astype("int32")
            return x, x.sum((1, 2))
        return j.lax.scan(step, x, None, length=40)
    return f, (whole(2, 256 + more, 41, 43),)


@workload
def long_steps(j: Any, more: int) -> Made:
    """Steps of 400 operations on 64 numbers, 134 of them sines, of which one is compiled."""
    def step(x: Any, _: Any) -> Any:
        for i in range(400):
            x = (j.np.sin(x), x * 1.01, x + 0.1)[i % 3]
        return x, None
    return lambda x: j.lax.scan(step, x, None, length=50)[0], (uniform(64 + more),)


# ---- tables and fields that loops write where they lie
@workload
def common_subsequences(j: Any, more: int) -> Made:
    """A table that a loop in a loop fills cell by cell."""
    def f(a: Any, b: Any) -> Any:
        def row(i: Any, t: Any) -> Any:
            def cell(k: Any, t: Any) -> Any:
                v = j.np.where(a[i] == b[k], t[i, k] + 1, j.np.maximum(t[i, k + 1], t[i + 1, k]))
                return t.at[i + 1, k + 1].set(v)
            return j.lax.fori_loop(0, b.size, cell, t)
        start = j.np.zeros((a.size + 1, b.size + 1), "int32")
        return j.lax.fori_loop(0, a.size, row, start)[-1, -1]
    return f, (whole(4, 150 + more), whole(4, 150))


@workload
def sieve_of_primes(j: Any, more: int) -> Made:
    """Multiples that remainders find, where a number is prime."""
    n = 20_000 + more

    def f(marks: Any) -> Any:
        k = j.np.arange(n)
        return j.lax.fori_loop(2, 142, lambda i, s: j.np.where(
            s[i] & (k % i == 0) & (k > i), False, s), marks).sum()
    return f, (np.arange(n) > 1,)


@workload
def waves_on_staggered_grids(j: Any, more: int) -> Made:
    """20 steps of Maxwell's equations: six fields of 40 x 40 x 40, each made of the others."""
    def f(e: Any) -> Any:
        def ahead(x: Any, axis: int) -> Any:
            return j.np.roll(x, -1, axis) - x

        def behind(x: Any, axis: int) -> Any:
            return x - j.np.roll(x, 1, axis)

        def step(_: Any, s: Any) -> Any:
            a, b, c, x, y, z = s
            x = x - 0.3 * (ahead(c, 1) - ahead(b, 2))
            y = y - 0.3 * (ahead(a, 2) - ahead(c, 0))
            z = z - 0.3 * (ahead(b, 0) - ahead(a, 1))
            return (a + 0.3 * (behind(z, 1) - behind(y, 2)), b + 0.3 * (
                behind(x, 2) - behind(z, 0)), c + 0.3 * (behind(y, 0) - behind(x, 1)), x, y, z)
        return j.lax.fori_loop(0, 20, step, (e,) * 6)
    return f, (normal(40 + more, 40, 40),)


@workload
def lattice_of_nine_velocities(j: Any, more: int) -> Made:
    """20 steps of a lattice Boltzmann method, velocities along the last axis."""
    ways = [(a, b) for a in (0, 1, -1) for b in (0, 1, -1)]
    x, y = np.array(ways, np.float32).T
    weights = (np.where(x, 1, 4) * np.where(y, 1, 4) / 36).astype(np.float32)

    def step(_: Any, p: Any) -> Any:
        for i, way in enumerate(ways):
            p = p.at[:, :, i].set(j.np.roll(p[:, :, i], way, (0, 1)))
        rho = p.sum(2)
        u, v = (p * x).sum(2) / rho, (p * y).sum(2) / rho
        c = x * u[..., None] + y * v[..., None]
        rest = rho[..., None] * weights * (
            1 + 3 * c + 4.5 * c ** 2 - 1.5 * (u ** 2 + v ** 2)[..., None])
        return p - 0.6 * (p - rest)
    return lambda p: j.lax.fori_loop(0, 20, step, p), (1 + uniform(100 + more, 200, 9),)


@workload
def vortices(j: Any, more: int) -> Made:
    """20 steps of Navier-Stokes by transforms of 64 x 64."""
    n = 64
    k = (np.fft.fftfreq(n) * n).astype(np.float32)
    kx, ky = k[:, None], k[None]
    square = kx ** 2 + ky ** 2

    def f(w: Any) -> Any:
        def step(_: Any, w: Any) -> Any:
            psi = w / np.where(square, square, np.float32(1))
            u, v, a, b = (j.np.fft.ifft2(z).real for z in (
                1j * ky * psi, -1j * kx * psi, 1j * kx * w, 1j * ky * w))
            return (w - 1e-3 * j.np.fft.fft2(u * a + v * b)) / (1 + 1e-6 * square)
        return j.np.fft.ifft2(j.lax.fori_loop(0, 20, step, j.np.fft.fft2(w))).real
    return f, (normal(n, n) + more,)


@workload
def attention_to_a_cache(j: Any, more: int) -> Made:
    """A token's attention to the first 100 of 2,048 keys."""
    return lambda q, k, v: j.nn.dot_product_attention(q, k, v, key_value_seq_lengths=np.array(
        [100], "int32")), (normal(1, 1, 12, 64), normal(1, 2048 + more, 12, 64),
                           normal(1, 2048 + more, 12, 64))


# ---- kernels of numerical benchmarks (benchmarks/numerical.py)
@workload
def fields_of_a_wave(j: Any, more: int) -> Made:
    """Two fields on staggered grids: each is written from differences of the other."""
    def f(e: Any, h: Any) -> Any:
        def step(t: Any, c: Any) -> Any:
            e, h = c
            e = e.at[0].set(0.1 * t)
            e = e.at[1:].set(e[1:] - 0.4 * (h[1:] - h[:-1]))
            return e, h.at[:-1].set(h[:-1] - 0.4 * (e[1:] - e[:-1]))
        return j.lax.fori_loop(0, 50, step, (e, h))
    return f, (normal(200 + more, 220), normal(200 + more, 220, seed=1))


@workload
def system_by_rows(j: Any, more: int) -> Made:
    """A triangular system, row by row, in a loop that hands the matrix on."""
    def f(a: Any, b: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            a, x, b = c
            known = j.np.where(j.np.arange(x.shape[0]) < i, a[i] * x, 0).sum()
            return a, x.at[i].set((b[i] - known) / a[i, i]), b
        return j.lax.fori_loop(0, b.shape[0], step, (a, 0 * b, b))[1]
    n = 800 + more
    return f, (uniform(n, n) / n + np.eye(n, dtype=np.float32), normal(n))


@workload
def chain_of_tensors(j: Any, more: int) -> Made:
    """Two products for each of 50 pairs of small tensors (the overlap of matrix product states)."""
    def f(a: Any, b: Any) -> Any:
        def step(e: Any, ab: Any) -> Any:
            return j.np.einsum("xy,xsa,ysb->ab", e, *ab), None
        n = a.shape[1]
        return j.lax.scan(step, j.np.ones((n, n), a.dtype), (a, b))[0].sum()
    n = 32 + more
    return f, (uniform(50, n, 2, n) / n, uniform(50, n, 2, n, seed=1) / n)


@workload
def tridiagonal_systems(j: Any, more: int) -> Made:
    """Thomas' algorithm of each of many systems: a scan there and one back."""
    def one(a: Any, b: Any, c: Any, d: Any) -> Any:
        def forward(s: Any, row: Any) -> Any:
            a, b, c, d = row
            m = b - a * s[0]
            s = c / m, (d - a * s[1]) / m
            return s, s

        def back(x: Any, s: Any) -> Any:
            x = s[1] - s[0] * x
            return x, x
        zero = 0 * a[0]
        _, s = j.lax.scan(forward, (zero, zero), (a, b, c, d))
        return j.lax.scan(back, zero, s, reverse=True)[1]
    return j.top.vmap(one), (uniform(1000 + more, 64), 4 + uniform(1000 + more, 64, seed=1),
                             uniform(1000 + more, 64, seed=2), normal(1000 + more, 64))


@workload
def butterflies(j: Any, more: int) -> Made:
    """Stages of a Fourier transform, written out: angles of a grid, products of 2 x 2."""
    k = 12 if not more else 11

    def f(re: Any, im: Any) -> Any:
        y, (i, m) = j.lax.complex(re, im), j.np.mgrid[0:2, 0:2 ** k]
        pair = j.np.array([[1, 1], [1, -1]], y.dtype)
        for s in range(k):
            y = y.reshape(2 ** s, 2, 2 ** (k - s - 1)).transpose(1, 0, 2)
            turn = j.np.exp(-2j * np.pi * i[:, :2 ** s] * m[:, :2 ** s] / 2 ** (s + 1))
            y = (pair @ (y * turn[:, :, None]).reshape(2, -1)).reshape(-1)
        return y
    return f, (normal(2 ** k), normal(2 ** k, seed=1))


@workload
def ten_steps_of_a_row(j: Any, more: int) -> Made:
    """A short scan: written out, it is 70 equations to compile (see the first call)."""
    def step(c: Any, r: Any) -> Any:
        return j.np.tanh(c * 0.9 + r) + j.np.sin(c), c
    return lambda x: j.lax.scan(step, x[0], x), (normal(10, 1000 + more),)


@workload
def fifty_exponentials(j: Any, more: int) -> Made:
    """Each step waits for the one before: vectors of many rows hide it."""
    return lambda x: j.lax.fori_loop(0, 50, lambda i, c: j.np.exp(-c * c) + c * 0.5, x), (
        normal(100_000 + more),)


@workload
def rows_written_until_they_end(j: Any, more: int) -> Made:
    """Each row writes one number a step, from another place on; JAX's own benchmark has one row."""
    def one(start: Any, x: Any) -> Any:
        return j.lax.while_loop(lambda c: c[0] < x.size, lambda c: (
            c[0] + 1, c[1].at[c[0]].set(1)), (start, x))[1]
    return j.top.vmap(one), (np.arange(4, dtype=np.int32), uniform(4, 2000 + more))


@workload
def stacks_of_rows(j: Any, more: int) -> Made:
    """Each row pushes to a stack of its own or pops, by a cond."""
    def step(c: Any, i: Any, k: Any) -> Any:
        return j.lax.cond(
            (i * 7 + k) % 5 < 3, lambda x, n: (x.at[n].set(i * 1.0), n + 1),
            lambda x, n: (x, j.np.maximum(n - 1, 0)), *c), c[1]

    def one(k: Any, x: Any) -> Any:
        return j.lax.scan(lambda c, i: step(c, i, k), (x, 0), j.np.arange(1000))
    return j.top.vmap(one), (np.arange(8, dtype=np.int32), uniform(8, 4000 + more))


@workload
def kept_where_done(j: Any, more: int) -> Made:
    """A buffer that each step writes to or leaves, by `where`."""
    def f(x: Any, done: Any) -> Any:
        return j.lax.scan(lambda x, i: (
            j.np.where(done[i % 7], x, x.at[i].set(i * 0.5)), x[0]), x, j.np.arange(2000))[0]
    return f, (uniform(8000 + more), np.arange(7) % 3 == 0)


@workload
def steps_that_a_counter_ends(j: Any, more: int) -> Made:
    """Over an array, as often as an argument says; and positions in the body."""
    def f(n: Any, x: Any) -> Any:
        return j.lax.fori_loop(
            0, n, lambda i, x: x * 0.5 + j.np.where(j.np.arange(x.size) == i, 1.0, 0.25), x)
    return f, (np.int32(1000), uniform(4000 + more))


@workload
def what_was_there_is_given(j: Any, more: int) -> Made:
    """Each step exchanges two numbers, and gives what stood at two places before."""
    def f(x: Any) -> Any:
        return j.lax.scan(lambda x, i: (
            x.at[i].set(x[i + 1]).at[i + 1].set(x[i]), (x[0], x[i])), x, j.np.arange(2000))
    return f, (uniform(6000 + more),)


@workload
def products_with_captured_pairs(j: Any, more: int) -> Made:
    """A Python loop makes a small array in each turn; of JAX's own benchmarks."""
    def f(x: Any) -> Any:
        return sum((x @ j.np.array([i, i + 1], j.np.float32)) * x[0, 0] for i in range(50)).sum()
    return j.top.vmap(j.top.grad(f)), (normal(2 + more, 2, 2),)


@workload
def exact_gelu_500k(j: Any, more: int) -> Made:
    """By erfc."""
    return lambda x: j.top.nn.gelu(x, approximate=False), (normal(500_000 + more),)
