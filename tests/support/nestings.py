"""Random nestings of transformations, each with what it means in dual numbers (duals.py).

A Node is a function of one number x and of the numbers of outer levels (`env`), which its parts
close over, take as arguments, carry or have as constants.  Rules of custom derivatives are not the
true ones, so that the result tells which rule was asked.  What cannot be nested (a while_loop under
reverse mode, a custom_vjp under forward mode, rules that close over what is differentiated) is not
drawn: Scope knows.  Start reading at `draw`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from support import duals

Numbers = Sequence[Any]
ROW = np.array([0.3, -0.7, 1.1])


@dataclass(frozen=True)
class Node:
    """ours(x, env) by calque, meant(x, env) in dual numbers, told in words."""
    ours: Callable[[Any, Numbers], Any]
    meant: Callable[[Any, Numbers], Any]
    told: str


@dataclass(frozen=True)
class Scope:
    """What is around a node: for each number of env and for x whether it is differentiated
    (`active`), and by which modes."""
    active: tuple[bool, ...] = ()
    own: bool = False  # whether x is
    forward: bool = False
    reverse: bool = False

    def bound(self, active: bool | None = None) -> Scope:
        """Inside a function of a new variable, x being the last number of env."""
        return replace(self, active=(*self.active, self.own),
                       own=self.own if active is None else active)

    def staged(self) -> Scope:
        """Inside a function that is recorded and gets env as arguments: rules that are asked by a
        derivative outside of it cannot close over these (nor can they in JAX)."""
        closed = self.forward or self.reverse
        return replace(self, active=(True,) * len(self.active)) if closed else self

    def derived(self, mode: str) -> Scope:
        made = self.bound(True)
        return replace(made, forward=made.forward or mode == "forward",
                       reverse=made.reverse or mode == "reverse")


Rng = np.random.Generator


def pick(rng: Rng, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def number(rng: Rng) -> float:
    return round(float(rng.uniform(-1.2, 1.2)), 2)


# ---- the innermost
def leaf(rng: Rng, scope: Scope) -> Node:
    a, b, c = number(rng), number(rng), number(rng)
    i = int(rng.integers(len(scope.active))) if scope.active else None
    kind = pick(rng, ["sin", "tanh", "product"])

    def of(api: Any, x: Any, env: Numbers) -> Any:
        e = 0.5 if i is None else env[i]
        if kind == "sin":
            return api.sin(x * a + b) * e + x * c
        if kind == "tanh":
            return api.tanh(x * a + e * b) + api.cos(e) * c
        return x * e * a + api.sin(x) * b + c
    return Node(lambda x, env: of(jnp, x, env), lambda x, env: of(duals, x, env),
                f"{kind}({a}, {b}, {c}; e{i})")


# ---- functions of one part
def seq(rng: Rng, depth: int, scope: Scope) -> Node:
    f, g = draw(rng, depth, scope), draw(rng, 0, scope)
    return Node(lambda x, env: f.ours(g.ours(x, env), env) + g.ours(x, env) * 0.5,
                lambda x, env: f.meant(g.meant(x, env), env) + g.meant(x, env) * 0.5,
                f"after({f.told}, {g.told})")


def jit(rng: Rng, depth: int, scope: Scope) -> Node:
    how, k = pick(rng, ["closure", "arguments", "static", "constant"]), number(rng)
    f = draw(rng, depth, scope.staged() if how in ("arguments", "constant") else scope)
    wrap = pick(rng, [calque.jit, calque.checkpoint])
    held = np.float64(k)

    def ours(x: Any, env: Numbers) -> Any:
        if how == "closure":
            return wrap(lambda y: f.ours(y, env) * k)(x)
        if how == "constant":
            return wrap(lambda y, e: f.ours(y, e) * jnp.asarray(held))(x, list(env))
        if how == "static":
            return wrap(lambda s, y: f.ours(y, env) * s, static_argnums=0)(k, x)
        return wrap(lambda y, e, s: f.ours(y, e) * s)(x, tuple(env), k)
    return Node(ours, lambda x, env: f.meant(x, env) * k, f"{wrap.__name__}[{how}]({f.told})")


def loop(rng: Rng, depth: int, scope: Scope) -> Node:
    n = int(rng.integers(1, 4))
    ways = ["scan", "carried", "fori", "map"] + ([] if scope.reverse else ["while"])
    how = pick(rng, ways)
    f = draw(rng, depth, (scope.staged() if how == "carried" else scope).bound())
    xs = np.asarray([number(rng) for _ in range(n)])

    def step(c: Any, v: Any, env: Numbers) -> Any:
        return c * 0.5 + f.ours(c, [*env, v])

    def ours(x: Any, env: Numbers) -> Any:
        x = jnp.asarray(x, float)
        if how == "scan":
            last, ys = lax.scan(lambda c, v: (step(c, v, env), c), x, jnp.asarray(xs))
            return last + ys.sum() * 0.1
        if how == "carried":
            (last, *_), ys = lax.scan(lambda c, v: ((step(c[0], v, c[1:]), *c[1:]), c[0]),
                                      (x, *[jnp.asarray(e, float) for e in env]), xs)
            return last + ys.sum() * 0.1
        if how == "map":
            return lax.map(lambda v: f.ours(x + v, [*env, v]), jnp.asarray(xs)).sum()
        if how == "fori":
            return lax.fori_loop(0, n, lambda i, c: step(c, jnp.asarray(xs)[i], env), x)
        return lax.while_loop(lambda ic: ic[0] < n, lambda ic: (
            ic[0] + 1, step(ic[1], jnp.asarray(xs)[ic[0]], env)), (0, x))[1]

    def meant(x: Any, env: Numbers) -> Any:
        if how == "map":
            return sum((f.meant(x + v, [*env, v]) for v in xs.tolist()), 0.0)
        total: Any = 0.0
        for v in xs.tolist():
            total = total + x * 0.1
            x = x * 0.5 + f.meant(x, [*env, v])
        return x + total if how in ("scan", "carried") else x
    return Node(ours, meant, f"{how}{xs.tolist()}({f.told})")


def branch(rng: Rng, depth: int, scope: Scope) -> Node:
    at, how = number(rng), pick(rng, ["x", "outer", "python", "switch"])
    inside = scope.staged() if how == "python" else scope
    f, g = draw(rng, depth, inside), draw(rng, 0, inside)
    places = [i for i in range(len(scope.active))] or [None]
    i = pick(rng, places)

    def value(x: Any, env: Numbers) -> Any:
        return x if how in ("x", "switch") or i is None else env[i]

    def ours(x: Any, env: Numbers) -> Any:
        if how == "python":
            return lax.cond(at > 0, f.ours, g.ours, x, tuple(env))
        if how == "switch":
            index = jnp.where(value(x, env) > at, 1, 0)
            return lax.switch(index, [lambda y: g.ours(y, env), lambda y: f.ours(y, env)], x)
        return lax.cond(value(x, env) > at, lambda y: f.ours(y, env), lambda y: g.ours(y, env), x)

    def meant(x: Any, env: Numbers) -> Any:
        taken = at > 0 if how == "python" else duals.plain(value(x, env)) > at
        return (f if taken else g).meant(x, env)
    return Node(ours, meant, f"cond[{how} > {at}]({f.told}, {g.told})")


def batch(rng: Rng, depth: int, scope: Scope) -> Node:
    f, how = draw(rng, depth, scope.bound()), pick(rng, ["closed", "unmapped", "scaled", "inner"])

    def ours(x: Any, env: Numbers) -> Any:
        if how == "closed":
            return calque.vmap(lambda v: f.ours(x, [*env, v]))(ROW).sum()
        if how == "unmapped":
            return calque.vmap(lambda v, y, e: f.ours(y, [*e, v]), in_axes=(0, None, None))(
                ROW, x, list(env)).sum()
        if how == "scaled":
            return calque.vmap(lambda y: f.ours(y, [*env, 0.5]))(x * ROW).sum()
        return calque.vmap(calque.jit(lambda y, v: f.ours(y, [*env, v])), axis_size=3,
                           in_axes=(None, 0))(x, ROW).sum()

    def meant(x: Any, env: Numbers) -> Any:
        row = ROW.tolist()
        if how == "scaled":
            return sum((f.meant(x * v, [*env, 0.5]) for v in row), 0.0)
        return sum((f.meant(x, [*env, v]) for v in row), 0.0)
    return Node(ours, meant, f"vmap[{how}]({f.told})")


# ---- derivatives
def reverse(rng: Rng, depth: int, scope: Scope) -> Node:
    f = draw(rng, depth, scope.derived("reverse"))
    how, ct = pick(rng, ["grad", "vjp", "value_and_grad", "jacrev", "by outer"]), number(rng)
    at = 1.0 if how in ("grad", "jacrev", "by outer") else ct

    def ours(x: Any, env: Numbers) -> Any:
        def inner(z: Any) -> Any:
            return f.ours(z, [*env, x])
        if how == "vjp":
            out, back = calque.vjp(inner, x)
            return out + back(jnp.asarray(ct, float))[0]
        if how == "value_and_grad":
            (out, aux), slope = calque.value_and_grad(lambda z: (inner(z), z), has_aux=True)(x)
            return out + slope * ct + aux * 0.0
        return (calque.jacrev if how == "jacrev" else calque.grad)(inner)(x * 1.0)

    def meant(x: Any, env: Numbers) -> Any:
        out, slope = duals.pushed(lambda z: f.meant(z, [*env, x]), x, 1.0)
        return slope * at + (out if how in ("vjp", "value_and_grad") else 0.0)
    return Node(ours, meant, f"{how}[{ct}]({f.told})")


def forward(rng: Rng, depth: int, scope: Scope) -> Node:
    f, how = draw(rng, depth, scope.derived("forward")), pick(rng, ["jvp", "linearize", "jacfwd"])
    t, i = number(rng), int(rng.integers(len(scope.active))) if scope.active else None

    def ours(x: Any, env: Numbers) -> Any:
        x = jnp.asarray(x, float)
        moved = jnp.asarray(t if i is None else env[i] * t, float)

        def inner(z: Any) -> Any:
            return f.ours(z, [*env, x])
        if how == "jacfwd":
            return calque.jacfwd(inner)(x) * moved
        if how == "linearize":
            out, push = calque.linearize(inner, x)
            return out + push(moved)
        return sum(calque.jvp(inner, (x,), (moved,)))

    def meant(x: Any, env: Numbers) -> Any:
        moved = t if i is None else env[i] * t
        out, slope = duals.pushed(lambda z: f.meant(z, [*env, x]), x, 1.0)
        return slope * moved + (0.0 if how == "jacfwd" else out)
    return Node(ours, meant, f"{how}[{t} e{i}]({f.told})")


# ---- rules of one's own: values by f, slopes by s, which is no derivative of f
def custom(rng: Rng, depth: int, scope: Scope) -> Node:
    kinds = ["custom_jvp"] + ([] if scope.forward else ["custom_vjp"])
    kind, k = pick(rng, kinds), number(rng)
    f, s = draw(rng, depth, scope), draw(rng, depth if rng.random() < 0.3 else 0, scope)
    closed = [not a and bool(rng.random() < 0.7) for a in scope.active]

    def apart(env: Numbers) -> tuple[list[Any], Callable[[Numbers], list[Any]]]:
        def whole(given: Numbers) -> list[Any]:
            rest = iter(given)
            return [e if c else next(rest) for e, c in zip(env, closed)]
        return [jnp.asarray(e, float) for e, c in zip(env, closed) if not c], whole

    def ours(x: Any, env: Numbers) -> Any:
        given, whole = apart(env)

        def fun(y: Any, *rest: Any) -> Any:
            return jnp.asarray(f.ours(y, whole(rest)), float)

        def slope(y: Any, rest: Numbers) -> Any:
            return jnp.asarray(s.ours(y, whole(rest)), float)
        if kind == "custom_jvp":
            g = calque.custom_jvp(fun)

            def rule(primals: Any, tangents: Any) -> Any:
                y, *rest = primals
                moved = slope(y, rest) * tangents[0]
                for t in tangents[1:]:
                    moved = moved + k * t
                return g(*primals), moved
            g.defjvp(rule)
            return g(jnp.asarray(x, float), *given)
        h = calque.custom_vjp(fun)
        h.defvjp(lambda y, *rest: (h(y, *rest), (y, rest)),
                 lambda res, ct: (slope(res[0], res[1]) * ct, *[k * ct for _ in res[1]]))
        return h(jnp.asarray(x, float), *given)

    def meant(x: Any, env: Numbers) -> Any:
        def whole(v: Numbers) -> list[Any]:
            rest = iter(v[1:])
            return [e if c else next(rest) for e, c in zip(env, closed)]
        args = [x, *[e for e, c in zip(env, closed) if not c]]
        return duals.by_rule(args, lambda v: f.meant(v[0], whole(v)),
                             lambda v: [s.meant(v[0], whole(v)), *[k] * (len(v) - 1)])
    return Node(ours, meant, f"{kind}[{closed}, {k}]({f.told} | {s.told})")


# ---- what values pass through: trees of linear maps, named axes, references, solvers
def moved(rng: Rng, depth: int, scope: Scope) -> Node:
    """A linear map that leaves one transformation and is applied in another."""
    # (the rules of a map that leaves jit cannot close over what jit got)
    f = draw(rng, depth, replace(scope, own=True).derived("reverse"))
    how = pick(rng, ["jit", "vmap", "scan", "cond"])
    ct = number(rng)

    def ours(x: Any, env: Numbers) -> Any:
        _, back = calque.jit(lambda x: calque.vjp(lambda z: f.ours(z, [*env, x]), x))(
            jnp.asarray(x, float))
        one = jnp.asarray(ct, float)
        if how == "jit":
            return calque.jit(lambda b, c: b(c)[0])(back, one)
        if how == "vmap":
            return calque.vmap(back)(one * ROW)[0].sum()
        if how == "scan":
            return lax.scan(lambda c, r: (c + back(r)[0], None), 0.0, one * ROW)[0]
        return lax.cond(ct > 0, lambda b: b(one)[0], lambda b: -b(-one)[0], back)

    def meant(x: Any, env: Numbers) -> Any:
        slope = duals.derivative(lambda z: f.meant(z, [*env, x]), x)
        return slope * (ct if how in ("jit", "cond") else ct * float(ROW.sum()))
    return Node(ours, meant, f"vjp in jit, applied in {how}[{ct}]({f.told})")


def collective(rng: Rng, depth: int, scope: Scope) -> Node:
    f, how = draw(rng, depth, scope.bound()), pick(rng, ["psum", "pmean", "all_gather"])
    name = f"axis{len(scope.active)}"

    def ours(x: Any, env: Numbers) -> Any:
        def one(v: Any) -> Any:
            y = f.ours(x * v, [*env, v])
            if how == "all_gather":
                return (lax.all_gather(y, name) * jnp.asarray(ROW)).sum() + v
            return getattr(lax, how)(y, name) * y
        return calque.vmap(one, axis_name=name)(ROW).sum()

    def meant(x: Any, env: Numbers) -> Any:
        row = ROW.tolist()
        ys = [f.meant(x * v, [*env, v]) for v in row]
        if how == "all_gather":
            return sum((y * v for y, v in zip(ys, row)), 0.0) * 3.0 + sum(row)
        total = sum(ys, 0.0)
        return total * total * (1.0 if how == "psum" else 1 / 3)
    return Node(ours, meant, f"{how}({f.told})")


def reference(rng: Rng, depth: int, scope: Scope) -> Node:
    f, how = draw(rng, depth, scope.bound()), pick(rng, ["straight", "fori", "jit"])

    def ours(x: Any, env: Numbers) -> Any:
        ref = calque.new_ref(jnp.stack([jnp.asarray(x, float)] * 3))

        def step(i: Any) -> None:
            ref[i] = f.ours(ref[i], [*env, 0.25]) + ref[i - 1] * 0.5
        if how == "fori":
            lax.fori_loop(1, 3, lambda i, _: step(i), None)
        else:
            for i in (1, 2):
                (calque.jit(lambda i=i: step(i)) if how == "jit" else lambda i=i: step(i))()
        return ref[2] + ref[0]

    def meant(x: Any, env: Numbers) -> Any:
        values = [x, x, x]
        for i in (1, 2):
            values[i] = f.meant(values[i], [*env, 0.25]) + values[i - 1] * 0.5
        return values[2] + values[0]
    return Node(ours, meant, f"ref[{how}]({f.told})")


def solver(rng: Rng, depth: int, scope: Scope) -> Node:
    """z with 2 z + sin(z) / 2 = c, or the z of a linear equation, differentiated implicitly."""
    f, how = draw(rng, depth, scope), pick(rng, ["root", "linear"])

    def ours(x: Any, env: Numbers) -> Any:
        c = jnp.asarray(f.ours(x, env), float)
        if how == "linear":
            a = 2.0 + jnp.cos(jnp.asarray(x, float))
            return lax.custom_linear_solve(lambda z: a * z, c, lambda mv, b: b / a,
                                           lambda mv, b: b / a)
        return lax.custom_root(
            lambda z: 2 * z + jnp.sin(z) * 0.5 - c, jnp.zeros_like(c),
            lambda g, z: lax.fori_loop(0, 40, lambda _, z: z - g(z) * 0.45, z),
            lambda g, y: y / g(jnp.ones_like(y)))

    def root(v: list[Any]) -> Any:
        z = 0.0
        for _ in range(60):
            z -= (2 * z + float(np.sin(z)) * 0.5 - v[0]) * 0.45
        return z

    def at(v: list[Any]) -> Any:
        return duals.by_rule(v, root, lambda v: [reciprocal(duals.cos(at(v)) * 0.5 + 2.0)])

    def meant(x: Any, env: Numbers) -> Any:
        c = f.meant(x, env)
        return c * reciprocal(duals.cos(x) + 2.0) if how == "linear" else at([c])
    return Node(ours, meant, f"{how} equation({f.told})")


def reciprocal(x: Any) -> Any:
    return duals.by_rule([x], lambda v: 1.0 / v[0],
                         lambda v: [reciprocal(v[0]) * reciprocal(v[0]) * -1.0])


def policies(rng: Rng, depth: int, scope: Scope) -> Node:
    f = draw(rng, depth, scope)
    how = pick(rng, ["everything", "nothing", "named", "dots", "no cse"])
    kept = calque.checkpoint_policies
    options: dict[str, Any] = {"no cse": {"prevent_cse": False}}.get(how) or {"policy": {
        "everything": kept.everything_saveable, "nothing": kept.nothing_saveable,
        "named": kept.save_only_these_names("y"), "dots": kept.dots_saveable}[how]}

    def ours(x: Any, env: Numbers) -> Any:
        return calque.checkpoint(lambda x: jnp.sin(calque.ad_checkpoint.checkpoint_name(
            f.ours(x, env), "y")), **options)(x)
    return Node(ours, lambda x, env: duals.sin(f.meant(x, env)), f"checkpoint[{how}]({f.told})")


KINDS = [seq, jit, jit, loop, loop, branch, batch, batch, reverse, reverse, forward, custom, custom,
         moved, collective, reference, solver, policies]


def draw(rng: Rng, depth: int, scope: Scope) -> Node:
    """A node with `depth` levels below it."""
    return leaf(rng, scope) if depth == 0 else pick(rng, KINDS)(rng, depth - 1, scope)


def program(seed: int) -> tuple[Node, list[float]]:
    """The nesting of a seed, and its arguments: x and two outer numbers."""
    rng = np.random.default_rng(seed)
    node = draw(rng, 3, Scope((False, False)))
    return node, [round(float(v), 3) for v in rng.uniform(0.2, 1.4, 3)]


def wrong(seed: int, run: Callable[[Any], Any]) -> str:
    """'' or what is wrong with the nesting of a seed; run: as calque.jit."""
    node, (x, *env) = program(seed)
    want = duals.plain(node.meant(x, env))
    with calque.enable_x64(True):
        try:
            got = float(np.asarray(run(lambda x, *env: node.ours(x, env))(
                *[np.float64(v) for v in (x, *env)])))
        except Exception as error:
            return f"{seed}: {type(error).__name__}: {str(error)[:300]}\n  {node.told}"
    if abs(got - want) <= 1e-9 * max(1.0, abs(want)):
        return ""
    return f"{seed}: {got} instead of {want}\n  {node.told}"
