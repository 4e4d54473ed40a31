"""Calls of Pallas with odd semantics, for JAX's interpreter and for calque alike.

`python tests/experimental/pallas_calls.py` in an environment with jax 0.10.2 writes what its
interpret mode gives to data/pallas_jax.json; test_pallas.py compares.
"""
from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

PATH = pathlib.Path(__file__).parent / "data" / "pallas_jax.json"
Calls = dict[str, Callable[[], Any]]


def calls(jax: Any, pl: Any) -> Calls:
    """Functions of no arguments, by name: each gives an array or a tuple of them."""
    jnp, lax = jax.numpy, jax.lax
    S, B = jax.ShapeDtypeStruct, pl.BlockSpec
    call = functools.partial(pl.pallas_call, interpret=True)
    found: Calls = {}
    x8, x10, x12 = (jnp.arange(n, dtype=jnp.float32) for n in (8, 10, 12))
    m = jnp.arange(24, dtype=jnp.float32).reshape(4, 6)

    def case(f: Callable[[], Any]) -> Callable[[], Any]:
        found[f.__name__] = f
        return f

    def copy(i: Any, o: Any) -> None:
        o[...] = i[...]

    def blocks(n: int, index: Any = lambda i: (i,)) -> Any:
        return B((n,), index)

    def sliced(out: int, i: Any, o: Any, grid: Any, x: Any = x10) -> Any:
        return call(copy, S((out,), x.dtype), grid=grid, in_specs=[i], out_specs=o)(x)

    # ---- what lies outside
    for dtype in ("int8", "int32", "uint8", "uint32", "bool", "float16", "bfloat16", "float32"):
        found[f"padded {dtype}"] = lambda dtype=dtype: sliced(
            12, blocks(4), blocks(4), 3, x10.astype(dtype))
    found |= {
        "index beyond": lambda: sliced(12, blocks(4, lambda i: i + 1), blocks(4), 3),
        "index far beyond": lambda: sliced(12, blocks(4, lambda i: i + 5), blocks(4), 3),
        "index negative": lambda: sliced(12, blocks(4, lambda i: i - 1), blocks(4), 3),
        "out index beyond": lambda: sliced(10, blocks(4), blocks(4, lambda i: i + 1), 3),
        "out index negative": lambda: sliced(10, blocks(4), blocks(4, lambda i: i - 1), 3),
        "block beyond the array": lambda: sliced(16, blocks(16), blocks(16), 1),
        "no index map": lambda: sliced(12, B((4,)), blocks(4), 3, x12),
        "grid of size 0": lambda: sliced(12, blocks(4), blocks(4), 0, x12),
        "a part of the results": lambda: sliced(12, blocks(4), blocks(4), 2, x12),
        "reversed": lambda: sliced(12, blocks(4, lambda i: 2 - i), blocks(4), 3, x12),
        "results reversed": lambda: sliced(12, blocks(4), blocks(4, lambda i: 2 - i), 3, x12),
        "halved index": lambda: sliced(16, blocks(4, lambda i: i // 2), blocks(4), 4, x12),
        "chosen index": lambda: sliced(
            16, blocks(4, lambda i: jnp.where(i % 2 == 0, 0, i)), blocks(4), 4, x12),
        "branch in an index": lambda: sliced(
            16, blocks(4, lambda i: lax.cond(i > 1, lambda: 0, lambda: 2)), blocks(4), 4, x12),
        "two at one place": lambda: sliced(8, blocks(4), blocks(4, lambda i: i // 2), 3, x12),
        "last one stays": lambda: sliced(8, blocks(4), blocks(4, lambda i: i % 2), 3, x12),
    }
    for dtype in ("int32", "uint8", "bool", "float32"):
        found[f"unset {dtype}"] = lambda dtype=dtype: call(
            lambda i, o: None, S((3,), dtype))(x8)

    # ---- axes of blocks
    def elements(block: Any, index: Any, n: int = 3, x: Any = x8, out: int = 4) -> Any:
        return call(copy, S((n, out), "float32"), grid=n, in_specs=[B((block,), index)],
                    out_specs=B((None, out), lambda i: (i, 0)))(x)

    found |= {
        "elements": lambda: elements(pl.Element(4), lambda i: i * 2 + 1, x=x10),
        "elements padded": lambda: elements(pl.Element(4, (1, 1)), lambda i: i * 4, x=x10),
        "elements at the end": lambda: elements(pl.Element(4), lambda i: i * 3 + 1),
        "elements at the padded end": lambda: elements(pl.Element(4, (0, 3)), lambda i: i * 3 + 1),
        "elements that do not divide": lambda: elements(pl.Element(3), lambda i: i * 3, out=3),
        "elements negative": lambda: elements(pl.Element(3), lambda i: i * 3 - 2, 1, out=3),
        "results by elements": lambda: sliced(
            10, blocks(4), B((pl.Element(4),), lambda i: i * 3), 2, x8),
        "results by overlapping elements": lambda: sliced(
            10, blocks(4), B((pl.Element(4),), lambda i: i * 2), 3, x12),
        "results by padded elements": lambda: sliced(
            8, blocks(4), B((pl.Element(4, (1, 1)),), lambda i: i * 4), 2, x8),
        "squeezed beyond": lambda: call(
            copy, S((4, 6), "float32"), grid=4, in_specs=[B((None, 6), lambda i: (i + 1, 0))],
            out_specs=B((pl.squeezed, 6), lambda i: (i, 0)))(m),
        "columns": lambda: call(
            copy, S((4, 6), "float32"), grid=(3, 2),
            in_specs=[B((pl.Blocked(2), 2), lambda j, i: (i, j))],
            out_specs=B((2, 2), lambda j, i: (i, j)))(m),
        "all squeezed": lambda: call(
            lambda i, o: o.__setitem__(..., i[...] * 2), S((4, 6), "float32"), grid=(4, 6),
            in_specs=[B((None, None), lambda i, j: (i, j))],
            out_specs=B((None, None), lambda i, j: (i, j)))(m),
        "the diagonal": lambda: call(
            copy, S((2, 2), "float32"), grid=2, in_specs=[B((2, 2), lambda i: (i, i))],
            out_specs=B((2, 2), lambda i: (0, 0)))(m),
        "diagonal results": lambda: call(
            copy, S((4, 4), "float32"), grid=2, in_specs=[B((2, 2), lambda i: (0, i))],
            out_specs=B((2, 2), lambda i: (i, i)))(m),
        "one axis of two": lambda: call(
            copy, S((4, 6), "float32"), grid=(2, 3),
            in_specs=[B((4, 1), lambda i, j: (0, i * 3 + j))],
            out_specs=B((4, 1), lambda i, j: (0, i * 3 + j)))(m),
        "one axis of two, turned": lambda: call(
            copy, S((4, 6), "float32"), grid=(2, 3),
            in_specs=[B((4, 1), lambda i, j: (0, i * 3 + j))],
            out_specs=B((4, 1), lambda i, j: (0, j * 2 + i)))(m),
        "a number": lambda: call(copy, S((), "float32"))(jnp.float32(3)),
        "a number of a grid": lambda: call(
            lambda i, o: o.__setitem__(..., i[0]), S((), "float32"), grid=2,
            in_specs=[blocks(4)])(x8),
    }

    # ---- blocks that are seen again
    def summed(i: Any, o: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def start() -> None:
            o[...] = jnp.zeros_like(o)
        o[...] += i[...]

    @case
    def sum_of_blocks() -> Any:
        return call(summed, S((2, 6), "float32"), grid=(2, 2),
                    in_specs=[B((None, 6), lambda i, j: (i * 2 + j, 0))],
                    out_specs=B((None, 6), lambda i, j: (i, 0)))(m)

    @case
    def sum_over_the_first_axis() -> Any:
        def kernel(i: Any, o: Any) -> None:
            @pl.when(pl.program_id(0) == 0)
            def start() -> None:
                o[...] = jnp.ones_like(o)
            o[...] *= i[...] + 1

        return call(kernel, S((2, 6), "float32"), grid=(2, 2),
                    in_specs=[B((None, 6), lambda j, i: (i * 2 + j, 0))],
                    out_specs=B((None, 6), lambda j, i: (i, 0)))(m)

    @case
    def first_and_last() -> Any:
        def kernel(x: Any, o: Any, s: Any) -> None:
            k = pl.program_id(0)

            @pl.when(k == 0)
            def start() -> None:
                s[...] = jnp.zeros_like(s)
            s[...] += x[...] * (k + 1)

            @pl.when(k == pl.num_programs(0) - 1)
            def end() -> None:
                o[...] = s[...] / 2

        return call(kernel, S((6,), "float32"), grid=4, in_specs=[B((None, 6), lambda k: (k, 0))],
                    out_specs=B((6,), lambda k: 0), scratch_shapes=[pl.ANY((6,), jnp.float32)])(m)

    @case
    def scratch_over_all_cells() -> Any:
        def kernel(x: Any, o: Any, s: Any) -> None:
            @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
            def start() -> None:
                s[...] = jnp.zeros_like(s)
            s[...] += x[...]
            o[...] = s[...]

        return call(kernel, S((4, 6), "float32"), grid=(2, 2),
                    in_specs=[B((None, 6), lambda i, j: (i * 2 + j, 0))],
                    out_specs=B((None, 6), lambda i, j: (i * 2 + j, 0)),
                    scratch_shapes=[pl.ANY((6,), jnp.float32)])(m)

    @case
    def scratch_of_rows() -> Any:
        def kernel(x: Any, o: Any, s: Any) -> None:
            @pl.when(pl.program_id(1) == 0)
            def start() -> None:
                s[...] = x[...]
            s[...] = s[...] * 2 + x[...]
            o[...] = s[...] + pl.program_id(0)

        return call(kernel, S((4, 6), "float32"), grid=(2, 2, 3),
                    in_specs=[B((None, 2), lambda i, j, k: (i * 2 + j, k))],
                    out_specs=B((None, 2), lambda i, j, k: (i * 2 + j, k)),
                    scratch_shapes=[pl.ANY((2,), jnp.float32)])(m)

    @case
    def scratch_by_name_of_a_cell() -> Any:
        def kernel(x: Any, o: Any, half: Any) -> None:
            half[...] = x[...] / 2
            o[...] = half[...][::-1]

        return call(kernel, S((12,), "float32"), grid=3, in_specs=[blocks(4)], out_specs=blocks(4),
                    scratch_shapes={"half": pl.ANY((4,), jnp.float32)})(x12)

    @case
    def some_blocks_again_and_others_not() -> Any:
        def kernel(x: Any, o: Any, p: Any) -> None:
            o[...] = x[...]
            p[...] = jnp.where(pl.program_id(0) + pl.program_id(1) == 0, 0, p[...]) + x[...]

        return call(kernel, (S((4, 6), "float32"), S((3,), "float32")), grid=(4, 2),
                    in_specs=[B((None, 3), lambda i, j: (i, j))],
                    out_specs=(B((None, 3), lambda i, j: (i, j)), B((3,), lambda i, j: 0)))(m)

    @case
    def blocks_again_later() -> Any:
        def kernel(x: Any, o: Any) -> None:
            @pl.when(pl.program_id(0) == 0)
            def start() -> None:
                o[...] = jnp.zeros_like(o)
            o[...] = o[...] * 10 + x[...]

        return call(kernel, S((4,), "float32"), grid=(3, 2),
                    in_specs=[blocks(2, lambda i, j: i * 2 + j)],
                    out_specs=B((2,), lambda i, j: j))(x12)

    @case
    def blocks_by_remainder() -> Any:
        def kernel(x: Any, o: Any) -> None:
            o[...] = x[...] + jnp.where(pl.program_id(0) < 2, 0., o[...])

        return call(kernel, S((4,), "float32"), grid=6, in_specs=[blocks(2)],
                    out_specs=B((2,), lambda i: i % 2))(x12)

    @case
    def many_branches() -> Any:
        def kernel(x: Any, o: Any) -> None:
            @pl.when(pl.program_id(0) % 2 == 0)
            def even() -> None:
                o[...] = x[...]

            @pl.when(pl.program_id(0) % 2 == 1)
            def odd() -> None:
                o[...] = o[...] - x[...]

        return call(kernel, S((2,), "float32"), grid=6, in_specs=[blocks(2)],
                    out_specs=B((2,), lambda i: 0))(x12)

    @case
    def branches_of_mapped_and_of_stepped_axes() -> Any:
        def kernel(x: Any, o: Any, s: Any) -> None:
            i, j = pl.program_id(0), pl.program_id(1)

            @pl.when(j == 0)
            def start() -> None:
                s[...] = jnp.zeros_like(s)

            @pl.when(j <= i)
            def add() -> None:
                s[...] += x[...] * (j + 1)

            @pl.when(j == pl.num_programs(1) - 1)
            def end() -> None:
                o[...] = s[...]

        return call(kernel, S((4, 6), "float32"), grid=(4, 4),
                    in_specs=[B((1, 6), lambda i, j: (j, 0))],
                    out_specs=B((1, 6), lambda i, j: (i, 0)),
                    scratch_shapes=[pl.ANY((1, 6), jnp.float32)])(m)

    @case
    def the_largest_and_where() -> Any:
        def kernel(x: Any, o: Any, p: Any) -> None:
            j = pl.program_id(0)

            @pl.when(j == 0)
            def start() -> None:
                o[...] = jnp.full_like(o, -jnp.inf)
                p[...] = jnp.zeros_like(p)
            top = x[...].max(0)
            better = top > o[...]
            p[...] = jnp.where(better, j * 2 + x[...].argmax(0).astype(jnp.int32), p[...])
            o[...] = jnp.maximum(o[...], top)

        return call(kernel, (S((6,), "float32"), S((6,), "int32")), grid=2,
                    in_specs=[B((2, 6), lambda j: (j, 0))],
                    out_specs=(B((6,), lambda j: (0,)), B((6,), lambda j: (0,))))(jnp.sin(m))

    @case
    def a_mapped_axis_between_steps() -> Any:
        def kernel(scale: float, x: Any, o: Any) -> None:
            @pl.when((pl.program_id(0) == 0) & (pl.program_id(2) == 0))
            def start() -> None:
                o[...] = jnp.zeros_like(o)
            o[...] = o[...] * scale + x[...]

        return [call(functools.partial(kernel, scale), S((2, 3), "float32"), grid=(2, 2, 2),
                     in_specs=[B((1, 3), lambda a, i, b: (a * 2 + i, b))],
                     out_specs=B((1, 3), lambda a, i, b: (i, 0)))(m) for scale in (0.5, 1.0)]

    @case
    def arguments_of_some_steps() -> Any:
        def kernel(x: Any, w: Any, o: Any) -> None:
            @pl.when((pl.program_id(1) == 0) & (pl.program_id(2) == 0))
            def start() -> None:
                o[...] = jnp.zeros_like(o)
            o[...] += x[...] * w[0, 0]

        return call(kernel, S((2, 3), "float32"), grid=(2, 2, 2),
                    in_specs=[B((1, 3), lambda i, a, b: (i * 2 + a, 0)),
                              B((1, 1), lambda i, a, b: (0, b))],
                    out_specs=B((1, 3), lambda i, a, b: (i, 0)))(m, m)

    @case
    def added_where_blocks_overlap() -> Any:
        def kernel(x: Any, o: Any) -> None:
            @pl.when(pl.program_id(0) == 0)
            def start() -> None:
                o[...] = jnp.zeros_like(o)
            o[pl.ds(pl.program_id(0), 2)] += x[...]

        return call(kernel, S((5,), "float32"), grid=4, in_specs=[blocks(2)])(x8)

    @case
    def a_switch() -> Any:
        def kernel(x: Any, o: Any) -> None:
            def put(by: float) -> None:
                o[...] = x[...] * by

            lax.switch(pl.program_id(0) % 3, [functools.partial(put, by) for by in (1., 2., -1.)])

        return call(kernel, S((4, 6), "float32"), grid=4, in_specs=[B((1, 6), lambda i: (i, 0))],
                    out_specs=B((1, 6), lambda i: (i, 0)))(m)

    # ---- memory of arguments
    @case
    def aliased() -> Any:
        def kernel(x: Any, o: Any) -> None:
            o[...] = o[...] + x[...]

        return call(kernel, S((12,), "float32"), grid=3, in_specs=[blocks(4)], out_specs=blocks(4),
                    input_output_aliases={0: 0})(x12)

    @case
    def aliased_and_seen_again() -> Any:
        def kernel(x: Any, o: Any) -> None:
            o[...] = x[...] + o[...]

        return call(kernel, S((8,), "float32"), grid=3, in_specs=[blocks(4, lambda i: 0)],
                    out_specs=blocks(4, lambda i: 0), input_output_aliases={0: 0})(x8)

    @case
    def aliased_and_not_written() -> Any:
        def kernel(x: Any, y: Any, o: Any) -> None:
            o[1] = x[0] + y[0] + 100

        return call(kernel, S((8,), "float32"), grid=1, in_specs=[blocks(4), blocks(4)],
                    out_specs=blocks(4, lambda i: 1), input_output_aliases={1: 0})(x8, x8)

    @case
    def argument_written() -> Any:
        def kernel(x: Any, o: Any) -> None:
            x[...] = x[...] + 1
            o[...] = x[...]

        return call(kernel, S((8,), "float32"), grid=3, in_specs=[blocks(4, lambda i: 0)],
                    out_specs=blocks(4, lambda i: 0))(x8)

    # ---- references
    @case
    def slices() -> Any:
        def kernel(x: Any, o: Any) -> None:
            o[0:2] = x[pl.ds(1, 2)]
            o[2] = x[-1]
            o[pl.ds(3, 2, 3)] = x[pl.ds(pl.program_id(0) + 2, 2)]
            o[4:6] = x[pl.ds(6 + pl.program_id(0), 2)]
            o[7] = x[x[1].astype(int) + 20]

        return call(kernel, S((8,), "float32"), grid=1)(x8)

    @case
    def views() -> Any:
        def kernel(x: Any, o: Any) -> None:
            a = x.at[2:6]
            o[0:2] = a[pl.ds(1, 2)]
            o[2] = a[-1]
            o[3] = a[jnp.int32(3)]
            o.at[4:].at[1:][1:] = a.at[:2][...]
            o[4] = jnp.float32(a.shape[0])
            o[5] = 7.

        return call(kernel, S((8,), "float32"))(x8)

    @case
    def methods() -> Any:
        def kernel(x: Any, o: Any, p: Any) -> None:
            o.set(x.get())
            o[4] = o.swap(jnp.float32(9), 1) + 20
            pairs = o.reshape(4, 2)
            o[7] = pairs[3, 0] + pairs[...].sum()
            p[...] = jnp.zeros_like(p)
            p[1] = 2.5  # numbers take the reference's precision
            p[2] += 1

        o, p = call(kernel, (S((8,), "float32"), S((4,), "bfloat16")))(x8)
        return o, p

    @case
    def masks() -> Any:
        def kernel(x: Any, o: Any) -> None:
            at = pl.program_id(0) * 4 + jnp.arange(4)
            o[...] = jnp.where(at < 10, x[...], 0.).sum()[None] + jnp.zeros((1,), jnp.float32)

        return call(kernel, S((3,), "float32"), grid=3, in_specs=[blocks(4)],
                    out_specs=blocks(1))(x10)

    @case
    def loops() -> Any:
        def kernel(x: Any, o: Any) -> None:
            total, _ = lax.scan(lambda c, _: (c + x[0] + 1, None), 0., None, length=3)

            @pl.loop(0, 8, step=2)
            def body(k: Any) -> None:
                o[k] = total * x[k]
                o[k + 1] = x[k]

            def write(c: Any) -> Any:
                o[c] = 5.
                return c + 1

            lax.while_loop(lambda c: c < 2, write, 0)

            @pl.loop(0, 3, init_carry=jnp.float32(0))
            def last(k: Any, c: Any) -> Any:
                return c + x[k]

            o[7] = last

        return call(kernel, S((8,), "float32"))(x8)

    @case
    def end_by_the_place() -> Any:
        def kernel(x: Any, o: Any) -> None:
            def body(k: Any, c: Any) -> Any:
                return c + x[pl.ds(k * 2, 2)]

            o[...] = lax.fori_loop(0, pl.program_id(0) + 1, body, jnp.zeros((2,), jnp.float32))

        return call(kernel, S((8,), "float32"), grid=4, out_specs=blocks(2))(x8)

    @case
    def branches() -> Any:
        def kernel(x: Any, o: Any) -> None:
            def double() -> None:
                o[...] = x[...] * 2

            def negate() -> None:
                o[...] = -x[...]

            lax.cond(pl.program_id(0) == 1, double, negate)

        return call(kernel, S((12,), "float32"), grid=3, in_specs=[blocks(4)],
                    out_specs=blocks(4))(x12)

    @case
    def scoped() -> Any:
        def kernel(x: Any, o: Any) -> None:
            def body(s: Any, *, t: Any) -> None:
                s[...] = x[...] + 1
                t[...] = s[...] * 2
                o[...] = t[...][::-1]

            pl.run_scoped(body, pl.ANY((4,), jnp.float32), t=pl.ANY((4,), jnp.float32))

        return call(kernel, S((12,), "float32"), grid=3, in_specs=[blocks(4)],
                    out_specs=blocks(4))(x12)

    # ---- trees, transformations
    @case
    def trees() -> Any:
        def kernel(i: Any, k: Any, o: Any) -> None:
            o["p"][...] = i["a"][...] + k[...]
            o["q"][...] = i["b"][...] * 2

        made = call(kernel, {"p": S((8,), "float32"), "q": S((8,), "int32")})(
            {"a": x8, "b": x8.astype(int)}, x8)
        return made["p"], made["q"]

    square = call(lambda i, o: o.__setitem__(..., i[...] ** 2 + pl.program_id(0)),
                  S((8,), "float32"), grid=2, in_specs=[blocks(4)], out_specs=blocks(4))
    add = call(lambda i, j, o: o.__setitem__(..., i[...] + j[...]), S((8,), "float32"), grid=2,
               in_specs=[blocks(4), blocks(4)], out_specs=blocks(4))
    found |= {
        "list of results": lambda: call(copy, [S((8,), "float32")])(x8),
        "vmap": lambda: jax.vmap(square)(x12[:8] + jnp.arange(3.)[:, None]),
        "vmap of one": lambda: jax.vmap(add, (None, 1))(x8, jnp.arange(24.).reshape(8, 3)),
        "vmap of vmap": lambda: jax.vmap(jax.vmap(add, (0, None)), (None, 0))(
            jnp.arange(16.).reshape(2, 8), jnp.arange(24.).reshape(3, 8)),
        "jvp": lambda: jax.jvp(add, (x8, x8), (x8 + 1, x8)),
        "jit in scan": lambda: lax.scan(lambda c, x: (square(c) / 50, x + c[0]), x8,
                                        jnp.arange(3.)),
    }
    return found


def record() -> None:
    """Write what jax gives."""
    import jax
    from jax.experimental import pallas as pl
    made = {}
    for name, f in calls(jax, pl).items():
        leaves = [np.asarray(x) for x in jax.tree.leaves(f())]
        made[name] = [[str(x.dtype), list(x.shape),
                       [repr(v) for v in x.astype(
                           np.float32 if x.dtype.name == "bfloat16" else x.dtype).ravel().tolist()]]
                      for x in leaves]
    rows = [f'"{name}": {json.dumps(rows)}' for name, rows in made.items()]
    PATH.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    record()
