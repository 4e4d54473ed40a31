"""Loops whose steps write elements of arrays, or do not, and read them, before and behind: of
tests/fuzz_compose.py.  A step is a list of statements; `_np` does them by NumPy, in place and with
Python's `if`, `_jnp` by calque.  Whole numbers that wrap around: all is exact.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from support.fuzz_compose_draw import Trial, pick

Node = tuple[Any, ...]
HOW = ("set", "set", "add", "subtract", "multiply", "min", "max", "window", "several")
ROWS = 4


def writes(rng: Any) -> Trial:
    """A scan with what its steps read, and a while whose rows end by themselves."""
    size, steps = pick(rng, [7, 64, 70, 130, 300]), pick(rng, [3, 9, 17])
    dtype = pick(rng, ["int32", "int32", "int8", "uint16"])
    body = [_statement(rng, size, 0) for _ in range(int(rng.integers(2, 6)))]
    late = pick(rng, [0, 1, 1])  # whether what was there is read at the end
    xs, ys = (rng.integers(0, 99, (ROWS, size)).astype(dtype) for _ in range(2))
    ks = rng.integers(0, 6, ROWS).astype(np.int32)
    told = f"{steps} steps over two {dtype}[{size}], late {late}: {body!r}"

    def step(c: Any, i: Any, k: Any) -> Any:
        outs: list[Any] = []
        state = _jnp_all(body, i, k, c, outs)
        return state, (outs + [c[0][i % size], c[1][0]] * late)

    def scanned(k: Any, x: Any, y: Any) -> Any:
        return lax.scan(lambda c, i: step(c, i, k), (x, y), jnp.arange(steps))

    def waited(k: Any, x: Any, y: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < k + 3, lambda c: (
            c[0] + 1, step(c[1], c[0], k)[0]), (0, (x, y)))[1]

    def by_numpy(k: int, x: Any, y: Any, count: int) -> list[Any]:
        state, seen = [x.copy(), y.copy()], []
        for i in range(count):
            old, outs = [a.copy() for a in state], list[Any]()
            _np_all(body, i, k, state, outs)
            seen.append(outs + [old[0][i % size], old[1][0]] * late)
        return [*state, *[np.array(column) for column in zip(*seen)]]

    def act() -> str:
        wants = [[by_numpy(int(k), x, y, n) for k, x, y in zip(ks, xs, ys)]
                 for n in (steps, 0)]
        wants[1] = [by_numpy(int(k), x, y, int(k) + 3)[:2] for k, x, y in zip(ks, xs, ys)]
        for f, want in ((scanned, wants[0]), (waited, wants[1])):
            alone = calque.tree.leaves(calque.jit(f)(ks[0], xs[0], ys[0]))
            rows = calque.tree.leaves(calque.jit(calque.vmap(f))(ks, xs, ys))
            for j, (got, every) in enumerate(zip(alone, rows, strict=True)):
                if not np.array_equal(got, want[0][j]):
                    return f"{f.__name__}, result {j}: {got} for {want[0][j]}"
                if not np.array_equal(every, np.stack([w[j] for w in want])):
                    return f"{f.__name__}, mapped, result {j}: {every}"
        return ""

    return Trial(told, act=act)


# ---- drawing
def _index(rng: Any, size: int) -> Node:
    """(a, b, c): (a i + b k + c) mod size."""
    return (*rng.integers(0, 4, 2).tolist(), int(rng.integers(size)), size)


def _value(rng: Any, size: int) -> Node:
    kind = pick(rng, ["number", "step", "x", "y", "difference", "sum", "max"])
    return (kind, int(rng.integers(0, 9)), _index(rng, size), _index(rng, size))


def _update(rng: Any, size: int) -> Node:
    return (pick(rng, HOW), _index(rng, size), _value(rng, size), int(rng.integers(1, 4)))


def _condition(rng: Any, size: int) -> Node:
    return (pick(rng, ["step", "row", "both", "data"]), int(rng.integers(2, 5)),
            _index(rng, size), _index(rng, size))


def _statement(rng: Any, size: int, depth: int) -> Node:
    kind = pick(rng, ["update", "where", "cond", "switch", "swap", "inner", "tree", "matrix",
                      "read", "read"]) if depth < 2 else "update"
    which = int(rng.integers(2))
    if kind == "update":
        return kind, which, _update(rng, size)
    if kind == "where":
        other = _update(rng, size) if rng.random() < .3 else None
        return kind, which, _condition(rng, size), _update(rng, size), other
    if kind in ("cond", "switch"):
        branches = [[_statement(rng, size, depth + 1) for _ in range(int(rng.integers(3)))]
                    for _ in range(2 if kind == "cond" else 3)]
        return kind, _condition(rng, size), branches
    if kind == "inner":
        return kind, which, int(rng.integers(1, 4)), _update(rng, size)
    if kind == "tree":
        return kind, _condition(rng, size), _update(rng, size), _update(rng, size)
    if kind == "read":
        return kind, which, pick(rng, ["one", "sum"]), _index(rng, size)
    return kind, which, size


# ---- what both share, which arithmetic of integers is
def _at(index: Node, i: Any, k: Any) -> Any:
    a, b, c, size = index
    return (a * i + b * k + c) % size


def _number(api: Any, v: Node, i: Any, k: Any, x: Any, y: Any) -> Any:
    kind, c, first, second = v
    start = first[2] // 2
    return {"number": lambda: c, "step": lambda: i + k, "x": lambda: x[_at(first, i, k)],
            "y": lambda: y[_at(second, i, k)],
            "difference": lambda: x[_at(first, i, k)] - y[_at(second, i, k)],
            "sum": lambda: api.sum(x[:3], dtype=x.dtype), "max": lambda: api.max(
                y[start:start + 2])}[kind]()


def _goes(c: Node, i: Any, k: Any, x: Any, y: Any) -> Any:
    kind, a, first, second = c
    return {"step": lambda: i % a == 1, "row": lambda: k > 2, "both": lambda: (i + k) % a == 0,
            "data": lambda: x[_at(first, i, k)] > y[_at(second, i, k)]}[kind]()


# ---- by NumPy
def _np_update(u: Node, i: int, k: int, x: Any, y: Any) -> None:
    """Into x."""
    how, index, value, count = u
    v = np.asarray(_number(np, value, i, k, x, y)).astype(x.dtype)
    j = _at(index, i, k)
    if how == "window":
        j = min(j, len(x) - count)
        x[j:j + count] = v
    elif how == "several":
        for m in range(count):
            x[(j + 2 * m) % len(x)] += v
    else:
        x[j] = {"set": lambda: v, "add": lambda: x[j] + v, "subtract": lambda: x[j] - v,
                "multiply": lambda: x[j] * v, "min": lambda: min(x[j], v),
                "max": lambda: max(x[j], v)}[how]()


def _np_all(body: Sequence[Node], i: int, k: int, state: list[Any], outs: list[Any]) -> None:
    with np.errstate(all="ignore"):
        for s in body:
            _np(s, i, k, state, outs)


def _np(s: Node, i: int, k: int, state: list[Any], outs: list[Any]) -> None:
    kind, *rest = s
    if kind in ("update", "where", "inner", "read", "matrix"):
        which = rest[0]
        x, y = state[which], state[1 - which]
    if kind == "update":
        _np_update(rest[1], i, k, x, y)
    elif kind == "where":
        u = rest[2] if _goes(rest[1], i, k, *state) else rest[3]
        if u is not None:
            _np_update(u, i, k, x, y)
    elif kind in ("cond", "switch"):
        number = int(_goes(rest[0], i, k, *state)) if kind == "cond" else (i + k) % 3
        _np_all(rest[1][number], i, k, state, [])
    elif kind == "swap":
        state.reverse()
    elif kind == "inner":
        for m in range(rest[1]):
            _np_update(rest[2], i + m, k, x, y)
    elif kind == "tree":
        if _goes(rest[0], i, k, *state):
            first, second = state[0].copy(), state[1].copy()
            _np_update(rest[1], i, k, state[0], second)
            _np_update(rest[2], i, k, state[1], first)
    elif kind == "read":
        at = _at(rest[2], i, k)
        outs.append(x[at] if rest[1] == "one" else x[rest[2][2] // 2:][:3].sum(dtype=x.dtype))
    elif not rest[1] % 10:
        m = x.reshape(10, -1)
        m[i % 10, k] += m[(i + 1) % 10, 0]


# ---- by calque
def _jnp_update(u: Node, i: Any, k: Any, x: Any, y: Any) -> Any:
    how, index, value, count = u
    v = jnp.asarray(_number(jnp, value, i, k, x, y)).astype(x.dtype)
    j = _at(index, i, k)
    if how == "window":
        return lax.dynamic_update_slice(x, jnp.stack([v] * count), (j,))
    if how == "several":
        return x.at[(j + 2 * jnp.arange(count)) % len(x)].add(v)
    return getattr(x.at[j], how)(v)


def _jnp_all(body: Sequence[Node], i: Any, k: Any, state: Any, outs: list[Any]) -> Any:
    for s in body:
        state = _jnp(s, i, k, state, outs)
    return state


def _jnp(s: Node, i: Any, k: Any, state: Any, outs: list[Any]) -> Any:
    kind, *rest = s
    if kind in ("cond", "switch"):
        branches = [lambda c, b=b: _jnp_all(b, i, k, c, []) for b in rest[1]]
        if kind == "cond":
            return lax.cond(_goes(rest[0], i, k, *state), branches[1], branches[0], state)
        return lax.switch((i + k) % 3, branches, state)
    if kind == "swap":
        return state[::-1]
    x, y = state
    if kind == "tree":
        new = _jnp_update(rest[1], i, k, x, y), _jnp_update(rest[2], i, k, y, x)
        go = _goes(rest[0], i, k, x, y)
        return calque.tree.map(lambda a, b: jnp.where(go, a, b), new, (x, y))
    which = rest[0]
    x, y = state[which], state[1 - which]
    if kind == "read":
        outs.append(x[_at(rest[2], i, k)] if rest[1] == "one" else jnp.sum(
            x[rest[2][2] // 2:][:3], dtype=x.dtype))
        return state
    if kind == "update":
        x = _jnp_update(rest[1], i, k, x, y)
    elif kind == "where":
        other = x if rest[3] is None else _jnp_update(rest[3], i, k, x, y)
        x = jnp.where(_goes(rest[1], i, k, *state), _jnp_update(rest[2], i, k, x, y), other)
    elif kind == "inner":
        x = lax.fori_loop(0, rest[1], lambda m, x: _jnp_update(rest[2], i + m, k, x, y), x)
    elif not rest[1] % 10:
        m = x.reshape(10, -1)
        x = m.at[i % 10, k].add(m[(i + 1) % 10, 0]).reshape(-1)
    return (y, x) if which else (x, y)
