"""Primitives of libraries and users: JAX's document "How JAX primitives work" as a test, the tables
of rules, lowering inside loops, names that are taken, and interpreters of jaxprs."""
from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import api_util, lax
from calque.extend import core
from calque.extend import linear_util as lu
from calque.interpreters import ad, batching, mlir, xla
from calque.interpreters import partial_eval as pe

# ---- the document's multiply_add, with all its rules
multiply_add_p = core.Primitive("multiply_add")


def multiply_add(x: Any, y: Any, z: Any) -> Any:
    return multiply_add_p.bind(x, y, z)


multiply_add_p.def_impl(lambda x, y, z: np.add(np.multiply(x, y), z))


@multiply_add_p.def_abstract_eval
def _abstract(x: Any, y: Any, z: Any) -> Any:
    assert x.shape == y.shape == z.shape
    return calque.core.ShapedArray(x.shape, x.dtype)


def _jvp(primals: Any, tangents: Any) -> Any:
    x, y, z = primals
    xt, yt, zt = [lax.full_like(x, 0) if type(t) is ad.Zero else t for t in tangents]
    return multiply_add(x, y, z), multiply_add(xt, y, multiply_add(x, yt, zt))


def _transpose(ct: Any, x: Any, y: Any, z: Any) -> Any:
    if not ad.is_undefined_primal(x):
        assert ad.is_undefined_primal(y)
        zero = type(ct) is ad.Zero
        return None, ad.Zero(y.aval) if zero else multiply_add(x, ct, lax.full_like(x, 0)), ct
    assert not ad.is_undefined_primal(y)
    return multiply_add(ct, y, lax.full_like(y, 0)), None, ct


def _batch(args: Any, axes: Any) -> Any:
    assert axes[0] == axes[1] == axes[2]
    return multiply_add(*args), axes[0]


ad.primitive_jvps[multiply_add_p] = _jvp
ad.primitive_transposes[multiply_add_p] = _transpose
batching.primitive_batchers[multiply_add_p] = _batch
mlir.register_lowering(multiply_add_p, mlir.lower_fun(lambda x, y, z: x * y + z, False))


def square_add(a: Any, b: Any) -> Any:
    return multiply_add(a, a, b)


def test_how_jax_primitives_work() -> None:
    """Each step of the document: evaluated, traced, compiled, differentiated, batched."""
    assert square_add(2.0, 10.0) == 14.0
    jaxpr = calque.make_jaxpr(square_add)(2.0, 10.0)
    assert [e.primitive for e in jaxpr.eqns] == [multiply_add_p]
    assert "multiply_add a a b" in str(jaxpr)
    x, y = np.array([2.0, 3.0], np.float32), np.array([10.0, 20.0], np.float32)

    def every(a: Any, b: Any, x: Any, y: Any) -> Any:
        return (square_add(a, b), calque.jvp(square_add, (a, b), (1.0, 1.0)),
                calque.grad(square_add)(a, b), calque.vmap(square_add)(x, y),
                lax.scan(lambda c, v: (multiply_add(c, v, v), c), a, x)[0],
                lax.while_loop(lambda c: c < 1000, lambda c: square_add(c, b), a),
                lax.cond(a > 0, square_add, lambda a, b: a, a, b),
                calque.grad(lambda v: lax.scan(
                    lambda c, s: (square_add(c, s), None), v, x)[0])(a))

    for run in (every, calque.jit(every)):
        out = run(2.0, 10.0, x, y)
        want = (14, 14, 5, 4, [14, 29], 21, 42446, 14, 48)
        for g, w in zip(calque.tree.leaves(out), want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-6)
    assert calque.jit(square_add).lower(2.0, 10.0).compile() is not None


def _new(name: str, f: Any, many: bool = False) -> core.Primitive:
    """A primitive with a lowering and an implementation by it."""
    p = core.Primitive(name)
    p.multiple_results = many
    p.def_impl(functools.partial(xla.apply_primitive, p))
    p.def_abstract_eval(lambda *avals, **_: [avals[0]] * 2 if many else avals[0])
    mlir.register_lowering(p, mlir.lower_fun(f, many))
    return p


def test_the_shorthands_of_rules() -> None:
    triple = _new("triple", lambda x: 3 * x)
    ad.deflinear(triple, lambda ct: [triple.bind(ct)])
    times = _new("times", lambda x, y: x * y)
    ad.defbilinear(times, lambda ct, x, y: times.bind(ct, y), lambda ct, x, y: times.bind(x, ct))
    power = _new("power", lambda x, *, n: x ** n)
    ad.defjvp(power, lambda t, x, *, n: n * x ** (n - 1) * t)
    growth = _new("growth", lambda x: jnp.exp(x))
    ad.defjvp2(growth, lambda t, out, x: t * out)
    both = _new("both", lambda x: [x, 2 * x], True)
    for p in (triple, power, growth, both):
        batching.defvectorized(p)
    batching.defbroadcasting(times)
    x = np.arange(3, dtype=np.float32)

    def f(x: Any) -> Any:
        a, b = both.bind(power.bind(x, n=3))
        return times.bind(triple.bind(x), growth.bind(x)) + a + b

    def reference(x: Any) -> Any:
        return 3 * x * jnp.exp(x) + 3 * x ** 3

    def jvp_of_both(primals: Any, tangents: Any) -> Any:
        outs = both.bind(*primals)
        t = ad.instantiate_zeros(tangents[0])
        return outs, [t, 2 * t]

    ad.primitive_jvps[both] = jvp_of_both
    np.testing.assert_allclose(calque.vmap(f)(x), reference(x), rtol=1e-5)
    got = calque.jit(lambda x: (calque.vmap(calque.grad(f))(x), calque.jvp(f, (x,), (x,))[1]))(x)
    slope = calque.vmap(calque.grad(reference))(x)
    np.testing.assert_allclose(got[0], slope, rtol=1e-5)
    np.testing.assert_allclose(got[1], slope * x, rtol=1e-5)
    assert ad.primitive_jvps[power] is not None and power in ad.primitive_jvps
    assert ad.primitive_jvps[lax.sin_p] is lax.sin_p.jvp and lax.sin_p in list(ad.primitive_jvps)
    with pytest.raises(ValueError, match="sin is calque's own"):
        ad.primitive_jvps[lax.sin_p] = jvp_of_both
    with pytest.raises(TypeError, match="no Primitive"):
        batching.primitive_batchers["sin"] = jvp_of_both


def test_rules_that_know_the_axis() -> None:
    p = _new("shifted", lambda x: x)
    seen = []

    def rule(axis: Any, args: Any, dims: Any) -> Any:
        seen.append((axis.name, axis.size))
        return p.bind(args[0]), dims[0]

    batching.fancy_primitive_batchers[p] = rule
    calque.vmap(p.bind, axis_name="rows")(jnp.ones((3, 2)))
    assert seen == [("rows", 3)] and batching.fancy_primitive_batchers[p] is rule

    def older(size: int, name: Any, kind: Any, args: Any, dims: Any) -> Any:
        seen.append((name, size))
        return p.bind(args[0]), dims[0]

    batching.axis_primitive_batchers[p] = older
    calque.vmap(p.bind)(jnp.ones((4, 2)))
    assert seen[1:] == [(None, 4)]


def test_lowering_sees_through_clients() -> None:
    """A loop over a client's primitive is a kernel as without it; captured arrays are constants;
    a name that is taken means nothing; MLIR's own rules work, too."""
    table = jnp.arange(4.0)
    looked = _new("looked", lambda x: x * table + np.arange(4, dtype=np.float32))
    add = core.Primitive("add")
    add.def_abstract_eval(lambda x, y: x)

    def in_mlir(ctx: Any, x: Any, y: Any) -> Any:
        assert ctx.avals_in[0].shape == (4,) and ctx.avals_out[0].dtype == np.float32
        made = mlir.ir.Operation.create("stablehlo.multiply", results=[x.type], operands=[x, y])
        return mlir.lower_fun(lambda v: [v + table])(_Of(ctx), made.result)

    class _Of:
        """A context of one operand."""

        def __init__(self, ctx: Any) -> None:
            self.avals_in, self.emit = ctx.avals_in[:1], ctx.emit

    mlir.register_lowering(add, in_mlir)
    other = core.Primitive("add")
    other.def_abstract_eval(lambda x, y: x)
    mlir.register_lowering(other, mlir.lower_fun(lambda x, y: x - y, False), platform="cpu")
    assert str(add) == str(other) == "add" and add.name != other.name != "add"

    def f(x: Any) -> Any:
        return (lax.fori_loop(0, 3, lambda i, c: looked.bind(c), x), add.bind(x, x),
                other.bind(x, x), x + x)

    x = np.ones(4, np.float32)
    t = np.arange(4.0)
    c = x
    for _ in range(3):
        c = c * t + t
    for got, want in zip(calque.jit(f)(x), (c, 1 + t, 0 * t, 2 + 0 * t), strict=True):
        np.testing.assert_allclose(got, want)
    from calque.lowering.passes import cost
    from calque.lowering.passes.hoist import hoist
    program = calque.make_jaxpr(lambda x: lax.fori_loop(0, 99, lambda i, c: looked.bind(c), x))(x)
    loop = [e for e in hoist(program).equations if e.primitive.name in ("scan", "while")]
    assert len(loop) == 1 and cost.is_kernel(loop[0])


def test_effects_keep_equations() -> None:
    p = core.Primitive("noted")
    assert p.get_bind_params({"n": 1}) == {"n": 1} and p.abstract is None
    e = calque.make_jaxpr(calque.numpy.cumsum)(np.ones(3, np.float32)).eqns[0]  # and ours have it
    assert e.primitive.get_bind_params(e.params) == e.params
    p.def_effectful_abstract_eval(lambda x: (x, {core.Effect()}))
    aval = calque.core.ShapedArray((), np.dtype(np.float32))
    assert p.abstract_eval(aval) == (aval, frozenset())
    jaxpr = calque.make_jaxpr(lambda x: (p.bind(x), 2 * x)[1])(1.0).jaxpr
    assert jaxpr.effects == {"noted"}
    assert len(pe.dce_jaxpr(jaxpr, True)[0].eqns) == 2


def test_what_is_missing_is_named() -> None:
    p = core.Primitive("bare")
    x = jnp.ones(2)
    for match, call in (
            ("Evaluation rule for 'bare'", lambda: p.bind(x)),
            ("Abstract evaluation for 'bare'", lambda: calque.jit(p.bind)(x)),
            ("Differentiation rule for 'bare'", lambda: calque.jvp(p.bind, (x,), (x,))),
            ("Batching rule for 'bare'", lambda: calque.vmap(p.bind)(x))):
        with pytest.raises(NotImplementedError, match=match):
            call()
    p.def_abstract_eval(lambda a: a)
    with pytest.raises(NotImplementedError, match="translation rule for primitive 'bare'"):
        calque.jit(p.bind)(x)
    ad.primitive_jvps[p] = lambda primals, tangents: (primals[0], p.bind(tangents[0]))
    with pytest.raises(NotImplementedError, match="Transpose rule .* for 'bare'"):
        calque.grad(lambda x: calque.jit(p.bind)(x).sum())(x)
    mlir.register_lowering(p, mlir.lower_fun(lambda a: a[:1], False))
    with pytest.raises(TypeError, match="its lowering gives .*f32.1.*, its abstract"):
        calque.jit(p.bind)(x)
    with pytest.raises(TypeError, match="no primitive of a client"):
        mlir.register_lowering(lax.sin_p, mlir.lower_fun(lambda a: a, False))


# ---- interpreters: JAX's document "Writing custom Jaxpr interpreters in JAX"
def test_the_inverse_interpreter() -> None:
    inverses: dict[Any, Any] = {lax.exp_p: jnp.log, lax.tanh_p: jnp.arctanh}

    def inverse_jaxpr(jaxpr: Any, consts: Any, *args: Any) -> Any:
        env: dict[Any, Any] = {}
        env.update(zip(jaxpr.outvars, args))
        env.update(zip(jaxpr.constvars, consts))
        for eqn in jaxpr.eqns[::-1]:
            values = [env[v] for v in eqn.outvars]
            if eqn.primitive not in inverses:
                raise NotImplementedError(f"{eqn.primitive} does not have registered inverse.")
            env[eqn.invars[0]] = inverses[eqn.primitive](*values)
        return [env[v] for v in jaxpr.invars]

    def inverse(fun: Any) -> Any:
        def wrapped(*args: Any) -> Any:
            closed = calque.make_jaxpr(fun)(*args)
            return inverse_jaxpr(closed.jaxpr, closed.literals, *args)[0]
        return wrapped

    def f(x: Any) -> Any:
        return jnp.exp(jnp.tanh(x))

    f_inv = inverse(f)
    np.testing.assert_allclose(f_inv(f(1.0)), 1.0, rtol=1e-6)
    assert [e.primitive for e in calque.make_jaxpr(f_inv)(f(1.0)).eqns][:1] == [lax.log_p]
    x = jnp.linspace(0.1, 1.0, 5)
    np.testing.assert_allclose(calque.jit(calque.vmap(calque.grad(f_inv)))(f(x)),
                               1 / calque.vmap(calque.grad(f))(x), rtol=1e-4)
    with pytest.raises(NotImplementedError, match="sin does not have"):
        inverse(jnp.sin)(1.0)


def test_jaxprs_are_made_and_taken_apart() -> None:
    offset = jnp.arange(3.0)
    closed = calque.make_jaxpr(lambda x, y: (jnp.sin(x) * 2 + offset, y))(offset, 1.0)
    jaxpr = closed.jaxpr
    assert isinstance(jaxpr, core.Jaxpr) and isinstance(closed, core.ClosedJaxpr)
    assert isinstance(jaxpr.eqns[0], core.JaxprEqn) and not jaxpr.effects
    assert any(isinstance(a, core.Literal) for e in jaxpr.eqns for a in e.invars)
    want = [np.sin(offset) * 2 + offset, 3.0]
    again = core.Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars,
                       [core.new_jaxpr_eqn(e.invars, e.outvars, e.primitive, e.params)
                        for e in jaxpr.eqns])
    for got in (calque.core.eval_jaxpr(jaxpr, closed.consts, offset, 3.0),
                calque.jit(core.jaxpr_as_fun(core.ClosedJaxpr(again, closed.consts)))(offset, 3.0)):
        calque.tree.map(lambda g, w: np.testing.assert_allclose(g, w, rtol=1e-6), got, want)
    cut, used = pe.dce_jaxpr(closed, [False, True])
    assert used == [False, True] and not cut.eqns
    with pytest.raises(TypeError, match="2 invars, got"):
        calque.core.eval_jaxpr(jaxpr, closed.consts, 1.0)
    with pytest.raises(TypeError, match="1 constvars, got 0"):
        core.ClosedJaxpr(jaxpr, [])
    with pytest.raises(core.JaxprTypeError):
        core.check_jaxpr(again.replace(eqns=again.eqns[1:]))


def test_what_is_known_runs() -> None:
    """trace_to_jaxpr_nounits evaluates what does not depend on unknown arguments."""
    seen = []

    def f(x: Any, y: Any) -> list[Any]:
        z = jnp.exp(x)
        seen.append(z)
        return [z, z * y, y]

    aval = calque.core.ShapedArray((), np.dtype(np.float32))
    jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(
        lu.wrap_init(f), [pe.PartialVal.known(jnp.float32(1)), pe.PartialVal.unknown(aval)])
    assert [o.is_known() for o in outs] == [True, False, False] and len(consts) == 1
    assert not isinstance(seen[0], calque.core.Tracer) and len(jaxpr.eqns) == 1
    assert outs[0].get_known() is seen[0] and outs[1].get_known() is None
    np.testing.assert_allclose(calque.core.eval_jaxpr(jaxpr, consts, 2.0)[0], 2 * np.e, rtol=1e-6)


def test_layers_around_functions() -> None:
    @lu.transformation
    def scaled(factor: Any, *args: Any) -> Iterator[Any]:
        out = yield args, {}
        yield factor * out

    @lu.transformation_with_aux
    def counted(*args: Any, **kwargs: Any) -> Iterator[Any]:
        out = yield args, kwargs
        yield out, len(args)

    f, count = counted(scaled(lu.wrap_init(lambda x, y: x + y, {"y": 1}), 10))
    assert f.call_wrapped(2) == 30 and count() == 1
    with pytest.raises(lu.StoreException, match="occupied"):
        f.call_wrapped(2)
    _, empty = counted(lu.wrap_init(abs))
    with pytest.raises(lu.StoreException, match="empty"):
        empty()
    tree = calque.tree.structure((1, (2, None)))
    assert api_util.flatten_axes("in_axes", tree, (None, 1)) == [None, 1]
    with pytest.raises(ValueError, match="in_axes specification must be a tree prefix"):
        api_util.flatten_axes("in_axes", tree, (0, 1, 2))
    with pytest.raises(ValueError, match="Non-hashable"):
        api_util.argnums_partial(lu.wrap_init(max), 0, (1, [2]))


def test_the_trace_state() -> None:
    outside, inside = core.get_opaque_trace_state(), []

    def f(x: Any) -> Any:
        inside.append(core.get_opaque_trace_state())
        with core.take_current_trace() as trace:
            assert not isinstance(jnp.sin(1.0), calque.core.Tracer)
            with core.set_current_trace(trace):
                return jnp.sin(x)

    for run in (f, calque.jit(f), calque.grad(f)):
        run(1.0)
    assert [s == outside for s in inside] == [True, False, False]
    with pytest.raises(calque.errors.ConcretizationTypeError, match="Abstract tracer value"):
        calque.jit(lambda x: core.concrete_or_error(int, x, "here"))(1)


def test_a_rule_is_taken_back() -> None:
    p = core.Primitive("taken_back")
    p.def_abstract_eval(lambda a: a)
    mlir.register_lowering(p, mlir.lower_fun(lambda a: a * 2, False))
    assert float(calque.jit(p.bind)(3.0)) == 6
    mlir.register_lowering(p, None)
    with pytest.raises(NotImplementedError, match="taken_back"):
        calque.jit(lambda a: p.bind(a) + 0)(3.0)


def test_scopes_stand_in_an_equations_source() -> None:
    """And go with it where a source is handed on."""
    @calque.named_call
    def layer(x: Any) -> Any:
        with calque.named_scope("a"), calque.named_scope("b"):
            x = x + 1
        return calque.lax.fori_loop(0, 3, lambda i, c: c * x, x)

    outer, loop = [e for e in calque.make_jaxpr(layer)(2.0).eqns if e.name in ("add", "scan")]
    assert str(outer.source_info.name_stack) == "layer/a/b"
    assert str(loop.source_info.name_stack) == "layer"
    assert outer.source_info.line == loop.source_info.line - 1
    assert outer.replace(source_info=loop.source_info).source_info.line == loop.source_info.line


def test_scopes_of_inner_programs_begin_anew() -> None:
    """What is around them is the outer equation's; a lowered text has both, and so has what a
    transformation makes of the function."""
    @calque.jit
    @calque.named_scope("inner")
    def inner(x: Any) -> Any:
        return calque.numpy.sin(x)

    @calque.named_scope("outer")
    def f(x: Any) -> Any:
        return inner(x) * 2

    program = calque.make_jaxpr(f)(2.0)
    call = program.eqns[0]
    assert str(call.source_info.name_stack) == "outer"
    (sine,) = call.params["jaxpr"].eqns
    assert str(sine.source_info.name_stack) == "inner"
    assert "outer/inner/sin" in calque.jit(f).lower(2.0).as_text(debug_info=True)
    mapped = calque.make_jaxpr(calque.vmap(calque.jit(f)))(np.ones(2, np.float32))
    assert [str(e.source_info.name_stack) for e in mapped.eqns[0].params["jaxpr"].eqns] == [
        "outer", "outer"]


def test_values_only_under_checkpoint() -> None:
    """A primitive without a lowering runs by its implementation, in a checkpoint's passes, too."""
    square = core.Primitive("square_of_values")
    square.def_impl(lambda x: np.float32(x) * np.float32(x))
    square.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[square] = lambda primals, tangents: (
        square.bind(*primals), 2 * primals[0] * tangents[0])
    f = calque.checkpoint(lambda x: jnp.sin(square.bind(x)))
    assert float(f(2.0)) == pytest.approx(np.sin(4))
    assert float(calque.grad(f)(2.0)) == pytest.approx(4 * np.cos(4))
    assert float(calque.jvp(f, (2.0,), (1.0,))[1]) == pytest.approx(4 * np.cos(4))
    with pytest.raises(NotImplementedError, match="translation rule"):
        calque.jit(f)(2.0)


def test_primitives_that_call_a_jaxpr() -> None:
    call_p = core.create_call_primitive("my_call")
    jaxpr = calque.make_jaxpr(lambda x, y: (jnp.sin(x) * y, y + 1))(1.0, 1.0)

    def f(x: Any, y: Any) -> Any:
        return call_p.bind(x, y, call_jaxpr=jaxpr)

    x, y = 0.3, 2.0
    for g in (f, calque.jit(f)):
        np.testing.assert_allclose(g(x, y), (np.sin(x) * y, 3.0), rtol=1e-6)  # one sine's rounding
        np.testing.assert_allclose(calque.grad(lambda x, g=g: g(x, y)[0])(x), np.cos(x) * y,
                                   rtol=1e-6)
        np.testing.assert_allclose(calque.jvp(g, (x, y), (1.0, 1.0))[1],
                                   (np.cos(x) * y + np.sin(x), 1.0), rtol=1e-6)
        rows = calque.vmap(g, in_axes=(0, None))(jnp.arange(3.0), y)
        np.testing.assert_allclose(rows[0], np.sin(np.arange(3)) * y, rtol=1e-6)
        assert rows[1].shape == (3,)
    assert "my_call" in str(calque.make_jaxpr(f)(x, y))


def test_inputs_that_a_function_finds_while_it_is_traced() -> None:
    state = jnp.arange(3.0)

    def f(x: Any) -> Any:
        found = core.find_top_trace().new_arg(api_util.shaped_abstractify(state))
        return found * x

    jaxpr = calque.make_jaxpr(f)(2.0)
    assert [a.shape for a in jaxpr.in_avals] == [(), (3,)]
    (made,) = core.jaxpr_as_fun(jaxpr)(2.0, state)
    np.testing.assert_array_equal(made, [0, 2, 4])
