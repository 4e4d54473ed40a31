"""The stages of a jitted function: what they tell, and what they refuse."""
from __future__ import annotations

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, lax, stages
from calque.core.avals import ShapedArray
from calque.dispatch import costs


def count(f, *args):
    return calque.jit(f).lower(*args).cost_analysis()


def test_stages_tell_their_arguments():
    f = calque.jit(lambda tree, y, *, z: (tree["x"] @ y, z, -y), donate_argnums=(1,))
    x, y = np.ones((4, 3), np.float32), np.ones((3, 2), np.float32)
    traced = f.trace({"x": x}, y, z=1)
    lowered = traced.lower()
    compiled = lowered.compile()
    for stage in (traced, lowered, compiled):
        ((tree, donated), named) = stage.args_info
        assert (tree["x"].shape, tree["x"].dtype, tree["x"].donated) == ((4, 3), np.float32, False)
        assert (donated.shape, donated.donated, named["z"].dtype) == ((3, 2), True, np.int32)
        assert stage.in_avals == (({"x": ShapedArray((4, 3), np.float32)},
                                   ShapedArray((3, 2), np.float32)),
                                  {"z": ShapedArray((), np.int32, True)})
        assert stage.donate_argnums == (1,)
        assert [s.shape for s in stage.out_info] == [(4, 2), (), (3, 2)]
        assert "float32[4,3]" in repr(stage)
    assert traced.fun_name == "<lambda>" and traced.out_avals[0].shape == (4, 2)
    out, z, _ = compiled({"x": x}, calque.device_put(y), z=7)
    np.testing.assert_array_equal(out, x @ y)
    assert int(z) == 7
    stats = compiled.memory_analysis()
    assert stats.argument_size_in_bytes == 48 + 24 + 4 and stats.alias_size_in_bytes == 24
    assert stats.output_size_in_bytes == 32 + 4 + 24 and stats.generated_code_size_in_bytes > 0
    assert isinstance(f, stages.Wrapped) and isinstance(lowered, stages.Lowered)


def test_a_compiled_function_is_not_transformed():
    compiled = calque.jit(lambda x: x * 2).lower(1.0).compile()
    for transformed, x in ((calque.grad(compiled), 1.0), (calque.jit(compiled), 1.0),
                           (calque.vmap(compiled), np.ones(2, np.float32))):
        with pytest.raises(TypeError, match=r"(?s)Cannot apply JAX transf.*Fix: transform"):
            transformed(x)


def test_lowered_text_and_ir():
    lowered = calque.jit(lambda x: jnp.sin(x)).lower(1.0)
    module = lowered.compiler_ir("stablehlo")
    assert str(module.operation.name) == "builtin.module"
    with pytest.raises(ValueError, match=r"(?s)compiler_ir: unknown dialect 'hlo'.*Fix"):
        lowered.compiler_ir("hlo")
    same = calque.jit(lambda x: x).lower(1.0)  # nothing to compute
    assert "module" in str(same.compiler_ir())


@pytest.mark.parametrize("f, shapes, flops, transcendentals", [
    (lambda x, y: 2 * x + y, [(5,), (5,)], 10, 0),
    (lambda x, y: x @ y, [(7, 5), (5, 3)], 2 * 7 * 5 * 3, 0),
    (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), [(4, 7, 5), (4, 5, 3)], 2 * 4 * 7 * 5 * 3, 0),
    (lambda x: jnp.exp(x).sum(), [(10, 10)], 99, 100),
    (lambda x: x.T.reshape(-1)[::2], [(4, 4)], 0, 0),
    (lambda x, k: lax.conv(x, k, (1, 1), "VALID"), [(1, 3, 6, 6), (8, 3, 3, 3)],
     2 * 8 * 4 * 4 * 27, 0),
    (lambda x: lax.fori_loop(0, 10, lambda i, c: c @ c, x), [(4, 4)], 10 * 2 * 64 + 10, 0),
    (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x)[1], [(6, 3)], 6 * 6, 0),
    # symmetrized before (x + x.T, * 0.5), masked after (>=, select)
    (jnp.linalg.cholesky, [(9, 9)], 9 ** 3 // 3 + 4 * 81, 0),
    (lambda x: x[:0] + 1, [(3,)], 0, 0)])
def test_costs(f, shapes, flops, transcendentals):
    found = count(f, *[np.ones(s, np.float32) for s in shapes])
    assert (found["flops"], found["transcendentals"]) == (flops, transcendentals)


def test_costs_of_unknown_sizes_are_expressions():
    b, = export.symbolic_shape("b")
    found = count(lambda x, y: jnp.tanh(x @ y),
                  calque.ShapeDtypeStruct((b, 8), "float32"), np.ones((8, 3), np.float32))
    assert found["flops"] == 2 * 3 * 8 * b and found["transcendentals"] == 3 * b
    assert found["bytes accessed"] == 4 * (8 * b + 24 + 3 * b) + 4 * (3 * b + 3 * b)


def test_every_primitive_has_a_cost():
    from support.harness import function, words
    from support.samples import ROWS
    for name, row in ROWS.items():
        sample = [*row.samples, *row.specials][0]
        params, arrays = sample.parameters(row.main), row.arrays(sample, row.main)
        with calque.enable_x64(True):
            jaxpr = calque.make_jaxpr(function(row, sample, params))(
                *words(row, sample, arrays))
        found = costs.analysis(getattr(jaxpr, "jaxpr", jaxpr))
        assert all(np.isfinite(v) and v >= 0 for v in found.values()), name
