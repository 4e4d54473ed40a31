"""Errors of transformations and control flow: JAX's classes, three parts, before anything runs."""
from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.errors import (
    ConcretizationTypeError,
    TracerBoolConversionError,
    UnexpectedTracerError,
)

ones = np.ones(3, np.float32)


def leak() -> Any:
    kept: list[Any] = []
    calque.jit(lambda x: kept.append(2 * x))(1.0)
    return kept[0] + 1


@calque.tree_util.register_pytree_node_class
class Checked:
    """A node that takes arrays alone."""

    def __init__(self, v: Any, tag: int) -> None:
        if not hasattr(v, "shape"):
            raise ValueError("no array")
        self.v, self.tag = v, tag

    def tree_flatten(self) -> Any:
        return (self.v,), self.tag

    @classmethod
    def tree_unflatten(cls, tag: int, leaves: Any) -> Any:
        return cls(*leaves, tag)


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    # differentiation
    "grad of an array": (lambda: calque.grad(lambda x: x)(ones), TypeError,
                         r"Gradient only defined for scalar-output functions.*\(3,\)"),
    "grad of a tree": (lambda: calque.grad(lambda x: (x, x))(1.0), TypeError,
                       "Gradient only defined for scalar-output functions. Output was"),
    "grad of a complex output": (lambda: calque.grad(lambda x: x * 1j)(1.0), TypeError,
                                 "grad requires real-valued outputs"),
    "grad by an integer": (lambda: calque.grad(lambda x: x * 1.0)(3), TypeError,
                           "grad requires real- or complex-valued inputs.*but got int32"),
    "jacfwd by a complex number": (lambda: calque.jacfwd(lambda x: x.real)(1j), TypeError,
                                   "jacfwd requires real-valued inputs.*holomorphic=True"),
    "jacrev of a complex output": (lambda: calque.jacrev(lambda x: x * 1j)(1.0), TypeError,
                                   "jacrev requires real-valued outputs"),
    "jacrev of an integer": (lambda: calque.jacrev(lambda x: x.astype(int))(1.0), TypeError,
                             "jacrev requires real-valued outputs"),
    "holomorphic jacfwd of a real output": (
        lambda: calque.jacfwd(lambda x: x.real, holomorphic=True)(1j), TypeError,
        "jacfwd with holomorphic=True requires outputs with complex dtype"),
    "jacfwd of no function": (lambda: calque.jacfwd(3), TypeError, "Expected a callable value"),
    "vmap of no function": (lambda: calque.vmap(3), TypeError, "Expected a callable value"),
    "make_jaxpr of no function": (lambda: calque.make_jaxpr(3), TypeError, "callable value"),
    "hessian by a name": (lambda: calque.hessian(lambda x: x, argnums="x"), TypeError,
                          "argnums must be an int"),
    "vmap along True": (lambda: calque.vmap(lambda x: x, in_axes=True), TypeError,
                        "vmap in_axes must be an int"),
    "argnums twice": (lambda: calque.grad(lambda x, y: x * y, (0, -2))(1.0, 2.0), TypeError,
                      "names an argument twice"),
    "no argnums": (lambda: calque.grad(lambda x: x, ())(1.0), ValueError, "argnums is empty"),
    "argnums of jacrev": (lambda: calque.jacrev(lambda x: x, 1)(1.0), ValueError,
                          "argnums=1 requires at least 2 positional arguments"),
    "holomorphic of reals": (lambda: calque.grad(lambda x: x, holomorphic=True)(1.0), TypeError,
                             "holomorphic=True requires inputs with complex dtype"),
    "argnums too large": (lambda: calque.grad(lambda x: x, argnums=1)(1.0), TypeError,
                          "argnums=1 requires at least 2 positional arguments"),
    "argnums too small": (lambda: calque.grad(lambda x: x, argnums=-2)(1.0), ValueError,
                          "argnums=-2 requires at least 2 positional arguments"),
    "argnums of jacfwd": (lambda: calque.jacfwd(lambda x: x, argnums=1)(1.0), ValueError,
                          "argnums=1 requires at least 2 positional arguments"),
    "argnums no number": (lambda: calque.grad(lambda x: x, argnums="a")(1.0), TypeError,
                          "cannot be interpreted as an integer"),
    "grad of no function": (lambda: calque.grad(3), TypeError, "Expected a callable value, got 3"),
    "tangent's shape": (lambda: calque.jvp(jnp.sin, (1.0,), (ones,)), ValueError,
                        r"different primal and tangent shapes.*\(\) and tangent shape as \(3,\)"),
    "tangent's dtype": (lambda: calque.jvp(jnp.sin, (1.0,), (1,)), TypeError,
                        "expected tangent dtype float32, but got tangent dtype int32"),
    "tangent of an integer": (lambda: calque.jvp(lambda x: x, (1,), (1,)), TypeError,
                              "expected tangent dtype float0"),
    "tangents' structure": (lambda: calque.jvp(jnp.sin, (1.0,), [1.0]), TypeError,
                            r"same tree structure.*PyTreeDef\(\(\*,\)\).*PyTreeDef\(\[\*\]\)"),
    "tangents not in a tuple": (lambda: calque.jvp(jnp.sin, 1.0, 1.0), TypeError,
                                "must be tuples or lists; found float"),
    "cotangent's structure": (lambda: calque.vjp(jnp.sin, 1.0)[1]((1.0,)), ValueError,
                              "unexpected tree structure"),
    "cotangent's shape": (lambda: calque.vjp(jnp.sin, 1.0)[1](ones), ValueError,
                          r"got f32\[3\], but expected f32\[\]"),
    # vmap
    "sizes": (lambda: calque.vmap(lambda p, x, k: x)(
        {"w": np.ones((4, 2)), "b": ones}, ones, k=np.ones(3)), ValueError,
        r"sizes for array axes to be mapped:\n  \* most axes \(3 of them\) had size 3, e.g. axis 0 "
        r"of argument p\['b'\] of type float32\[3\];\n  \* one axis had size 4: axis 0 of argument "
        r"p\['w'\] of type float32\[4,2\]\n.*give p\['w'\] size 3"),
    "sizes of keywords": (lambda: calque.vmap(lambda x, y: x)(ones, y=np.ones(2)), ValueError,
                          r"one axis had size 2: axis 0 of kwargs\['y'\] of type float32\[2\]"),
    "no arguments": (lambda: calque.vmap(lambda x: x)({}), ValueError,
                     r"got empty \*args=\(\{\},\) and \*\*kwargs=\{\}"),
    "two cotangents": (lambda: calque.vjp(jnp.sin, 1.0)[1](1.0, 1.0), TypeError,
                       "applied to sin was called with 2 arguments"),
    "sizes of rest arguments": (lambda: calque.vmap(lambda *xs: xs)(ones, np.ones(4)), ValueError,
                                r"argument xs\[0\].*argument xs\[1\]"),
    "axis_size": (lambda: calque.vmap(jnp.sin, axis_size=4)(ones), ValueError,
                  r"the `axis_size` argument was 4;\n  \* one axis had size 3: axis 0 of argument"),
    "nothing mapped": (lambda: calque.vmap(jnp.sin, in_axes=None)(1.0), ValueError,
                       "at least one non-None value in in_axes"),
    "in_axes' type": (lambda: calque.vmap(jnp.sin, in_axes="x"), TypeError,
                      "vmap in_axes must be an int, None, or a tuple"),
    "in_axes' length": (lambda: calque.vmap(jnp.add, in_axes=(0,))(ones, ones), ValueError,
                        r"len\(in_axes\)=1, len\(args\)=2"),
    "in_axes no prefix": (lambda: calque.vmap(lambda d: d["x"], in_axes=({"y": 0},))({"x": ones}),
                          ValueError, r"in_axes specification must be a tree prefix.*\{'y': 0\}"),
    "in_axes too deep": (lambda: calque.vmap(lambda t: t[0], in_axes=((0, 0),))((ones,)),
                         ValueError, "in_axes specification must be a tree prefix"),
    "axis of a scalar": (lambda: calque.vmap(jnp.sin)(1.0), ValueError,
                         "its rank should be at least 1, but is only 0"),
    "out_axes no prefix": (lambda: calque.vmap(lambda x: (x, x), out_axes=(0,))(ones), ValueError,
                           "out_axes specification must be a tree prefix"),
    "out_axes too large": (lambda: calque.vmap(lambda x: x, out_axes=2)(ones), ValueError,
                           "axis 2 is out of bounds for array of dimension 1"),
    "out_axes None": (lambda: calque.vmap(lambda x: x, out_axes=None)(ones), ValueError,
                      "got axis spec None but output was batched on axis 0"),
    # control flow
    "scan's carry": (lambda: lax.scan(
        lambda c, x: ({"a": c["a"] + x, "b": c["b"][None]}, x),
        {"a": jnp.int32(0), "b": ones}, ones), TypeError,
        r"scan body function carry input and carry output must have equal types.*"
        r"component c\['a'\] has type int32\[\] .* type float32\[\], so the dtypes do not match.*"
        r"component c\['b'\] has type float32\[3\] .* type float32\[1,3\], so the shapes do not "
        r"match.*start c\['a'\] as float32.*return it with \.astype\(jnp\.int32\).*"
        r"return c\['b'\] with \.reshape\(\(3,\)\)"),
    "scan's structure": (lambda: lax.scan(lambda c, x: ((c, c), x), 0.0, ones), TypeError,
                         "must have the same pytree structure"),
    "scan's lengths of tuples": (lambda: lax.scan(lambda c, x: ((0, 0, 0), x), (1, (2, 3)), ones),
                                 TypeError, "they differ:\n\nThe input carry c is a tuple of "
                                 "length 2 but the .* is a tuple of length 3"),
    "scan's keys": (lambda: lax.scan(lambda c, x: (({**c[0], "b": x},) * 2, x),
                                     ({"a": ones},) * 2, ones), TypeError,
                    r"  \* the input carry component c\[0\] is a <class 'dict'> with 1 child but .*"
                    r" with 2 children, .*;\n  \* the input carry component c\[1\]"),
    "fori's keys": (lambda: lax.fori_loop(0, 1, lambda i, x: {"T": ones}, {"t": ones}), TypeError,
                    r"loop_carry\[1\] is a .* with pytree metadata \('t',\) .* \('T',\)"),
    "a class that takes no numbers": (lambda: lax.scan(
        lambda c, x: (Checked(c.v, 1), x), Checked(ones, 0), ones), TypeError,
        "they differ:.*input carry c is of structure PyTreeDef"),
    "a traced length": (lambda: calque.jit(lambda n: lax.scan(
        lambda c, x: (c, x), 0.0, (), n))(3), ConcretizationTypeError,
        "The `length` argument to `scan` expects a concrete `int` value"),
    "a traced unroll": (lambda: calque.jit(lambda n: lax.scan(
        lambda c, x: (c, x), 0.0, (), 3, unroll=n))(3), ConcretizationTypeError,
        "The `unroll` argument to `scan` expects a concrete `int` or `bool` value"),
    "no predicate": (lambda: lax.cond(None, lambda: 1, lambda: 2), TypeError,
                     "cond predicate is None"),
    "a list as predicate": (lambda: lax.cond([1], lambda: 1, lambda: 2), TypeError,
                            r"Pred must be a scalar, got \[1\] of type <class 'list'>"),
    "a function as index": (lambda: lax.switch(max, [lambda: 1, lambda: 2]), TypeError,
                            "Index type must be an integer, got <built-in"),
    "a list as index": (lambda: lax.switch([1], [lambda: 1, lambda: 2]), TypeError,
                        r"Branch index must be scalar, got \[1\] of shape \(1,\)"),
    "scan without a pair": (lambda: lax.scan(lambda c, x: c, 0.0, ones), TypeError,
                            "scan body output must be a pair"),
    "scan's lengths": (lambda: lax.scan(lambda c, x: (c, x), 0.0, (ones, np.ones(4))), ValueError,
                       r"different leading axis sizes: 3, 4"),
    "scan over a scalar": (lambda: lax.scan(lambda c, x: (c, x), 0.0, 1.0), ValueError,
                           "no leading axis to scan over"),
    "while's carry": (lambda: lax.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, v[1] + 0.5),
                                             (0, np.ones(3, np.int32))), TypeError,
                      r"while_loop body function carry.*component v\[1\] has type int32\[3\] .*"
                      r"float32\[3\].*start v\[1\] as float32"),
    "while's condition": (lambda: lax.while_loop(lambda v: v, lambda v: v, 1.0), TypeError,
                          "cond_fun must return a boolean scalar"),
    "fori's carry": (lambda: lax.fori_loop(0, 3, lambda i, v: v * 0.5, jnp.int32(1)), TypeError,
                     r"loop_carry\[1\] has type int32\[\] .* ~?float32\[\]"),
    "branches' types": (lambda: lax.cond(True, lambda x: {"a": x, "b": 1},
                                         lambda x: {"a": x.astype(int), "b": 1}, ones), TypeError,
                        r"cond branches must have equal output types.*true_fun at path \['a'\] has "
                        r"type float32\[3\].*false_fun has type int32\[3\].*"
                        r"\['a'\] from false_fun with \.astype\(jnp\.float32\)"),
    "branches' shapes": (lambda: lax.switch(0, [lambda x: x, lambda x: x.sum()], ones), TypeError,
                         r"output of branches\[0\] has type float32\[3\].*branches\[1\] has type "
                         r"float32\[\], so the shapes do not match"),
    "branches' structures": (lambda: lax.cond(True, lambda: (1.0,), lambda: [1.0]), TypeError,
                             r"same pytree structure.*true_fun output is a <class 'tuple'> but "
                             r"false_fun output is a <class 'list'>"),
    "branches' depths": (lambda: lax.cond(True, lambda: {"a": 2.0}, lambda: {"a": (3.0, 3.0)}),
                         TypeError, r"true_fun output at path \['a'\] is a pytree leaf but "
                         r"false_fun output at path \['a'\] is a <class 'tuple'>"),
    "predicate no scalar": (lambda: lax.cond(ones, lambda: 1, lambda: 2), TypeError,
                            "Pred must be a scalar"),
    "predicate no truth": (lambda: lax.cond(ones[0] * 1j, lambda: 1, lambda: 2), TypeError,
                           "Pred type must be either boolean or number, got complex64"),
    # tracers
    "leaked tracer": (leak, UnexpectedTracerError,
                      r"Encountered an unexpected tracer.*was created on line leak \(test_bad_inp"),
}


@pytest.mark.parametrize("case", CASES)
def test_errors(case: str) -> None:
    call, kind, text = CASES[case]
    with pytest.raises(kind, match=f"(?s){text}") as caught:
        call()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert "\n  In " in message and "test_bad_input.py" in message, message
    assert "\n  Fix: " in message, message
    assert "optree" not in message and "StageTracer" not in message


def test_everything_works_after_an_error() -> None:
    for call, kind, _ in CASES.values():
        with pytest.raises(kind):
            call()
    assert calque.grad(lambda x: x ** 2)(3.0) == 6


def test_messages_name_the_cell_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    file = "/tmp/ipykernel_1/252643329.py"
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={file: 7}))
    monkeypatch.setitem(sys.modules, "IPython",
                        types.SimpleNamespace(get_ipython=lambda: shell))
    code = compile("calque.jit(lambda x: x if x > 0 else -x)(1.0)", file, "exec")
    with pytest.raises(TracerBoolConversionError, match=r"Cell In\[7\], line 1"):
        exec(code, {"calque": calque})
