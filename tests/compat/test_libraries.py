"""What libraries ask of JAX as they are imported, and at first use: each row is one that needed it.

The libraries are not installed here: programs in their form run in a process with compat.
"""
from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAMS = {
    "keras: kernels for TPUs are there, and refuse when called": """
        from jax.experimental.pallas.ops.tpu.splash_attention import (
            splash_attention_kernel, splash_attention_mask)
        try:
            splash_attention_kernel.make_splash_mha(None)
        except NotImplementedError as e:
            assert "dot_product_attention" in str(e)
        else:
            raise AssertionError
        """,
    "tensorflow-probability: a class of numpy.ndarray's": """
        class Variable(np.ndarray):
            pass
        xla = jax.interpreters.xla
        xla.canonicalize_dtype_handlers[Variable] = xla.canonicalize_dtype_handlers[np.ndarray]
        jax.core.pytype_aval_mappings[Variable] = jax.core.pytype_aval_mappings[np.ndarray]
        v = np.arange(3.0).view(Variable)
        assert float(jax.jit(jnp.sum)(v)) == 3
        """,
    "a class that a handler makes an array": """
        class Box:
            def __init__(self, x):
                self.x = x
        jax.interpreters.xla.canonicalize_dtype_handlers[Box] = lambda b: np.asarray(b.x)
        assert jnp.sin(Box([0.0, 0.0])).tolist() == [0, 0]
        """,
    "public names at their private address, as editors complete imports": """
        from functools import partial
        from jax._src import core, dtypes, random
        from jax._src.basearray import Array
        from jax._src.core import AxisName, DimSize, Shape
        from jax._src.custom_derivatives import custom_jvp
        from jax._src.debugging import debug_callback, debug_print
        from jax._src.errors import TracerArrayConversionError
        from jax._src.flatten_util import ravel_pytree
        from jax._src.image.scale import ResizeMethod, resize
        from jax._src.lax.control_flow.loops import fori_loop
        from jax._src.lax.parallel import psum
        from jax._src.nn.initializers import Initializer, variance_scaling
        from jax._src.numpy.linalg import norm
        from jax._src.numpy.lax_numpy import linspace
        from jax._src.ops.scatter import segment_sum
        from jax._src.scipy.linalg import cho_factor
        from jax._src.scipy.optimize.minimize import minimize
        from jax._src.third_party.scipy.interpolate import RegularGridInterpolator
        from jax._src.util import (canonicalize_axis, merge_lists, partition_list, set_module,
                                   unzip3)
        from jax._src.xla_bridge import device_count

        @partial(custom_jvp, nondiff_argnums=(1,))
        def f(x: Array, shape: core.Shape = ()) -> Array:
            return jnp.ones(shape, dtypes.canonicalize_dtype(jnp.float64)) * x
        f.defjvp(lambda shape, x, t: (f(*x, shape), *t))
        assert Array is jax.Array and isinstance(f(2.0), Array) and psum is jax.lax.psum
        assert random.normal is jax.random.normal and norm is jnp.linalg.norm
        assert device_count() == jax.device_count() and debug_print is jax.debug.print
        assert dtypes.dtype(jnp.ones(2)) == np.float32 and core.get_aval(jnp.ones(2)).shape == (2,)
        assert core.is_constant_shape((1, 2)) and canonicalize_axis(-1, 3) == 2
        assert unzip3([(1, 2, 3), (4, 5, 6)]) == ((1, 4), (2, 5), (3, 6))
        some = partition_list([True, False, True], "abc")
        assert some == (["b"], ["a", "c"]) and merge_lists([True, False, True], *some) == [*"abc"]
        assert set_module("a.b")(lambda: 0).__module__ == "a.b"
        """,
    "mujoco: register_vmappable": """
        from jax.interpreters import batching
        class Data:
            pass
        batching.register_vmappable(Data, int, int, lambda take, _, x, axis: take(x.data, axis),
                                    None, None)
        assert jax.vmap(jnp.sin)(jnp.zeros(2)).shape == (2,)
        made = Data()
        made.data = jnp.arange(2.0)
        assert jax.vmap(lambda d: d + 1.0, axis_size=2)(made).tolist() == [1, 2]
        """,
    "quaxed: the parts of vectorize": """
        from jax._src.numpy.vectorize import (
            _apply_excluded, _check_output_dims, _parse_gufunc_signature, _parse_input_dimensions)
        ins, outs = _parse_gufunc_signature("(n,m),(m)->(n)")
        assert ins == [("n", "m"), ("m",)] and outs == [("n",)]
        shape, sizes = _parse_input_dimensions((jnp.ones((5, 2, 3)), jnp.ones(3)), ins, "in f")
        assert shape == (5,) and sizes == {"n": 2, "m": 3}
        f, args, named = _apply_excluded(lambda x, k, p=1: (x * k) ** p, {1, "p"}, (2, 3), {"p": 2})
        assert args == (2,) and named == {} and f(4) == 144
        assert _check_output_dims(lambda x: x, sizes, outs, "in f")(jnp.ones(2)).shape == (2,)
        try:
            _check_output_dims(lambda x: x, sizes, outs, "in f")(jnp.ones(3))
        except ValueError as e:
            assert "inconsistent size for core dimension 'n'" in str(e)
        else:
            raise AssertionError
        """,
    "unxt, cuthbert, jaxoplanet, jaxns, dynamiqs: private modules": """
        from jax._src.interpreters.batching import is_vmappable
        from jax._src.lax import linalg
        from jax._src.lib import xla_client
        from jax._src.numpy.array_methods import _IndexUpdateHelper, _IndexUpdateRef
        from jax._src.pjit import auto_axes
        from jax._src.public_test_util import check_close
        from jax._src.scipy.special import gammaln
        from jax._src.sharding_impls import canonicalize_sharding
        from jax._src.typing import Array, ArrayLike, DTypeLike, SupportsDType
        x = jnp.ones(3)
        assert not is_vmappable(x) and isinstance(x, Array)
        assert isinstance(x.at, _IndexUpdateHelper) and isinstance(x.at[0], _IndexUpdateRef)
        assert linalg.svd_p.name == "svd" and float(gammaln(1.0)) == 0
        assert issubclass(xla_client.XlaRuntimeError, RuntimeError)
        assert canonicalize_sharding(x.sharding, "f") == x.sharding
        from jax.extend.core import primitives
        halves = jax.lax.split_p.bind(jnp.arange(4.0), sizes=(1, 3), axis=0)
        assert [h.tolist() for h in halves] == [[0], [1, 2, 3]] and primitives.svd_p.name == "svd"
        assert jax.lax.stack_p.bind(x, x, axis=1).shape == (3, 2)
        assert jax.lax.device_put_p.bind(x, devices=[None])[0].tolist() == [1, 1, 1]
        assert jax.lax.linear_solve_p is primitives.linear_solve_p
        check_close({"a": x}, {"a": x + 1e-7})
        try:
            check_close([x], [x + 1e-3])
        except AssertionError:
            pass
        else:
            raise RuntimeError
        """,
    "diffrax: the error of what a custom_vjp closes over": """
        from jax._src.interpreters import ad

        def loss(w):
            f = jax.custom_vjp(lambda x: x * w)
            f.defvjp(lambda x: (f(x), None), lambda r, g: (g,))
            return f(2.0)
        try:
            jax.grad(jax.jit(loss))(1.0)
        except ad.CustomVJPException as e:
            assert "closed-over value" in str(e) and ad.JVPTracer
        else:
            raise AssertionError
        """,
    "chex: the number of devices is set before one is asked for": """
        from calque.runtime import device
        from jax._src import xla_bridge
        assert jax.devices() and "cpu" in xla_bridge._backends
        assert xla_bridge._backends["cpu"].platform == "cpu"
        used, device.is_used = device.is_used, lambda: False  # as when the process began
        assert not xla_bridge._backends and xla_bridge._backends.get("cpu") is None
        device.is_used = used
        """,
    "JAX 0.11: policies of checkpoints are a module": """
        from jax.checkpoint_policies import dots_saveable, save_only_these_names
        assert jax.checkpoint_policies.dots_saveable is dots_saveable
        f = jax.checkpoint(jnp.sin, policy=save_only_these_names("a"))
        assert float(jax.grad(f)(0.0)) == 1
        from jax.checkpoint_policies import SaveOnlyTheseNames
        assert isinstance(save_only_these_names("a"), SaveOnlyTheseNames)
        """,
    "JAX 0.11: where a jitted function is written out": """
        primitives = {how: str(jax.make_jaxpr(jax.jit(jnp.sin, inline=how))(0.0).eqns[0].primitive)
                      for how in (True, False, *jax.Inline)}
        assert {how for how, name in primitives.items() if name == "sin"} == {
            True, jax.Inline.JAX_EARLY}, primitives
        """,
    "brax, jax-md, netket: modules within modules": """
        from jax.extend.backend import backends, get_backend
        from jax.experimental.multihost_utils import sync_global_devices
        from jax.experimental.pallas import triton
        import jax.distributed
        assert get_backend().platform == "cpu" and get_backend() is backends()["cpu"]
        assert jax.devices()[0].client is get_backend() and jax.devices()[0].memory_stats() is None
        assert get_backend().device_count() == len(jax.devices())
        """,
    "gpjax, jaxlie: types of jaxlib": """
        from jaxlib._jax import PjitFunction
        from jaxlib import xla_client
        assert isinstance(jax.jit(jnp.sin), PjitFunction)
        assert isinstance(jax.devices()[0], xla_client.Device)
        """,
    "jaxlie: nodes by their types": """
        import collections, dataclasses
        from jax._src.tree_util import _registry
        Pair = collections.namedtuple("Pair", "a b")
        @jax.tree_util.register_dataclass
        @dataclasses.dataclass
        class Pose:
            x: object
            y: object
        for node in ([1, 2], (1, 2), {"b": 1, "a": 2}, Pair(1, 2), Pose(1, 2)):
            entry = _registry[type(node)]
            children, metadata = entry.to_iter(node)
            assert entry.from_iter(metadata, [c for c in children]) == node
        """,
    "e3nn-jax: positions and names of arguments": """
        import inspect
        from jax._src.api_util import infer_argnums_and_argnames as infer
        signature = inspect.signature(lambda a, b, *, c: 0)
        assert infer(signature, None, None) == ((), ())
        assert infer(signature, None, "b") == ((1,), ("b",))
        assert infer(signature, 0, None) == ((0,), ("a",))
        """,
    "s2fft, jumanji: private names of numpy's": """
        from jax._src.numpy.util import promote_dtypes_complex, promote_dtypes_inexact
        from jax._src.numpy.ufuncs import sin
        a, b = promote_dtypes_complex(1, jnp.ones(2))
        assert a.dtype == b.dtype == jnp.complex64
        assert promote_dtypes_inexact(jnp.arange(2))[0].dtype == jnp.float32
        """,
    "orbax: colocated_python": """
        import jax.experimental.colocated_python as cp
        from jax.experimental.colocated_python import func, serialization
        from jax.experimental.array_serialization import serialization
        from jax.extend import ifrt_programs
        from jax._src import distributed
        assert distributed.global_state.process_id == 0
        @cp.colocated_python
        def twice(x):
            return {"y": np.asarray(x) * 2}
        assert twice(jnp.ones(2))["y"].tolist() == [2, 2]
        spec = jax.ShapeDtypeStruct((2,), jnp.float32)
        special = twice.specialize(in_specs=((spec,), {}), out_specs_fn=lambda x: {"y": spec})
        assert special(jnp.ones(2))["y"].tolist() == [2, 2]
        try:
            special(jnp.ones(3))
        except ValueError as e:
            assert "float32[3]" in str(e)
        else:
            raise AssertionError
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "x")
        assert cp.colocated_cpu_devices(mesh) == mesh
        assert jnp.ones(2).sharding._addressable_device_assignment == tuple(jax.devices()[:1])
        """,
    "kfac-jax: a primitive whose rules are methods": """
        import jax.extend as jex
        class Tag(jex.core.Primitive):
            multiple_results = True
            def impl(self, *args, **params):
                return args
            def abstract_eval(self, *args, **params):
                return args, jax.core.no_effects
        tag = Tag("tag")
        jax.interpreters.mlir.register_lowering(tag, lambda ctx, *args: args)
        assert isinstance(tag, Tag) and not isinstance(jax.lax.sin_p, Tag)
        assert isinstance(jax.lax.sin_p, jex.core.Primitive)
        assert [x.tolist() for x in tag.bind(jnp.ones(2))] == [[1, 1]]
        jaxpr = jax.make_jaxpr(lambda x: tag.bind(x))(jnp.ones(2)).jaxpr
        assert jaxpr.replace(debug_info=jaxpr.debug_info, effects=jaxpr.effects).eqns
        """,
    "quax: a trace without a parent": """
        import jax._src.core as core
        class Trace(core.Trace):
            def __init__(self):
                super().__init__()
                self.seen = []
            def process_primitive(self, primitive, tracers, params):
                self.seen.append(primitive.name)
                with core.eval_context():
                    return primitive.bind(*tracers, **params)
        trace = Trace()
        with core.set_current_trace(trace):
            jax.lax.sin(1.0)
        assert trace.seen == ["sin"] and trace.full_raise(trace) is trace
        """,
    "jax-md: shapes of abstract values": """
        from jax.core import ShapedArray
        out = jax.eval_shape(lambda x, t: x * t, ShapedArray((3,), jnp.float32), t=0)
        assert out.shape == (3,) and out.dtype == jnp.float32
        """,
    "autoray, pennylane: types say whose they are": """
        assert type(jnp.ones(2)).__module__.split(".")[0] in ("jax", "jaxlib")
        seen = []
        jax.jit(lambda x: seen.append(type(x).__module__.split(".")[0]) or x)(1.0)
        jax.grad(lambda x: seen.append(type(x).__module__.split(".")[0]) or x)(1.0)
        assert set(seen) == {"jax"}
        import copy, inspect, pickle
        assert pickle.loads(pickle.dumps(jnp.ones(2))).tolist() == [1, 1]
        assert copy.deepcopy(jnp.ones(2)).tolist() == [1, 1]
        assert inspect.getsourcefile(jax)
        """,
    "brainstate: where the batch of a value lies, the current trace, call primitives": """
        from jax._src.core import JaxprEqnContext, trace_ctx
        from jax._src.interpreters.batching import BatchTrace, BatchTracer, make_iota, to_elt
        from jax.extend.core import Primitive, register_call_primitive_rules
        seen = []
        jax.vmap(lambda x: seen.append((isinstance(x, BatchTracer), x.batch_dim, x.val.shape,
                                        isinstance(trace_ctx.trace, BatchTrace))) or x,
                 in_axes=1)(jnp.ones((2, 3)))
        assert seen == [(True, 1, (2, 3), True)]
        assert make_iota(3).tolist() == [0, 1, 2] and JaxprEqnContext().compute_type is None
        """,
    "e3x: draws in a disk": """
        from jax._src.nn.initializers import _complex_truncated_normal, _complex_uniform
        x = _complex_truncated_normal(jax.random.key(0), 2, (1000,), jnp.float32)
        assert x.dtype == jnp.complex64 and 1 < float(abs(x).max()) <= 2
        y = _complex_uniform(jax.random.key(0), (1000,), jnp.complex64)
        assert float(abs(y).max()) <= 2 ** 0.5 + 1e-6
        """,
    "klujax: options by name": """
        jax.config.update(name="jax_enable_x64", val=False)
        """,
    "jaxtyping: keys have a dtype with a type": """
        dtype = jax.random.key(0).dtype
        assert issubclass(dtype.type, jax.dtypes.prng_key) and dtype.name == "key<fry>"
        """,
}


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    """Each program in a process of all of them, by what it raised."""
    lines = ["import sys, traceback", "import numpy as np", "import calque.compat",
             "calque.compat.install()", "import jax", "import jax.numpy as jnp"]
    for i, (name, text) in enumerate(PROGRAMS.items()):
        lines += [f"def program_{i}():", textwrap.indent(textwrap.dedent(text), "    "),
                  "try:", f"    program_{i}()", "except BaseException:",
                  f"    print('====', {name!r}); traceback.print_exc(file=sys.stdout)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    parts = done.stdout.split("==== ")[1:]
    return {part.split("\n", 1)[0]: part for part in parts}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_library_finds_what_it_asks_for(name: str, failures: dict[str, str]) -> None:
    assert name not in failures, failures.get(name)
