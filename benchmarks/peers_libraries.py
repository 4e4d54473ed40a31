"""How a workload of peers_workloads.py runs in each library (see peers).

`MAKERS[library]()` gives a function that takes a row's name and a way of its
library and gives a `Call`, or None where the row
has no form for it.  Inputs and weights lie with the library before the time is taken.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from peers_networks import ROWS
from peers_workloads import Row

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))


class Call:
    """Calls of a workload, each waited for (a queued call whose result is dropped need not run),
    and its results as NumPy arrays."""

    def __init__(self, once: Callable[[], Any], wait: Callable[[Any], Any],
                 to_numpy: Callable[[Any], Any]) -> None:
        self.once, self.wait, self.to_numpy = once, wait, to_numpy

    def __call__(self, count: int) -> None:
        once, wait = self.once, self.wait
        for _ in range(count):
            wait(once())

    def results(self) -> list[Any]:
        out = self.once()
        self.wait(out)
        flat = list(out) if isinstance(out, (list, tuple)) else [out]
        return [self.to_numpy(v) for v in flat]


def _plain(array: Any) -> Any:
    """A NumPy array that any NumPy can read: bfloat16 as float32."""
    array = np.asarray(array)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def calque() -> Callable[[str, str], Call | None]:
    from workloads import library
    j = library("calque")

    def make(name: str, way: str) -> Call | None:
        row = ROWS[name]
        if row.calque is None:
            return None
        put = j.top.device_put
        low = (lambda a: put(a).astype(j.np.bfloat16)) if row.low else put
        args = [low(a) if a.dtype == np.float32 else put(a) for a in row.arguments()]
        weights = [low(w) for w in row.weights()]
        f = row.calque
        args += weights
        kept = len(args) - row.carry
        jitted = j.top.jit(lambda *x: f(j, *x), donate_argnums=tuple(range(kept, len(args))))

        def carried() -> Any:
            first, *args[kept:] = jitted(*args)
            return first
        return Call(carried if row.carry else lambda: jitted(*args), j.top.block_until_ready,
                    _plain)
    return make


def torch() -> Callable[[str, str], Call | None]:
    import torch as t
    t.set_num_threads(THREADS)
    t.set_grad_enabled(False)

    def make(name: str, way: str) -> Call | None:
        row = ROWS[name]
        if row.torch is None or (way == "torch compiled" and not row.compiles):
            return None

        def put(a: Any) -> Any:
            x = t.from_numpy(np.ascontiguousarray(a))
            return x.bfloat16() if row.low and a.dtype == np.float32 else x

        args = [put(a) for a in [*row.arguments(), *row.weights()]]
        f = row.torch
        g: Any = lambda *x: f(t, *x)  # noqa: E731
        if way == "torch compiled":
            g = t.compile(g, dynamic=False)

        def numbers(v: Any) -> Any:
            return (v.float() if v.dtype == t.bfloat16 else v).contiguous().numpy()
        return Call(lambda: g(*args), lambda out: None, numbers)
    return make


class Graph:
    """An ONNX graph as it is written: `g("Add", x, y)` gives a name, arrays are constants."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def name(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        from onnx import numpy_helper
        made = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), made))
        return made

    def __call__(self, op: str, *inputs: Any, results: int = 1, **attributes: Any) -> Any:
        from onnx import helper
        outs = [f"v{len(self.nodes)}_{i}" for i in range(results)]
        self.nodes.append(helper.make_node(op, [self.name(v) for v in inputs], outs, **attributes))
        return outs[0] if results == 1 else outs


def onnxruntime() -> Callable[[str, str], Call | None]:
    import onnx
    import onnxruntime as ort
    from onnx import helper

    def make(name: str, way: str) -> Call | None:
        row: Row = ROWS[name]
        if row.onnx is None:
            return None
        g, args = Graph(), row.arguments()
        outs = row.onnx(g, *[f"x{i}" for i in range(len(args))], *row.weights())
        outs = [outs] if isinstance(outs, str) else list(outs)
        inputs = [helper.make_tensor_value_info(
            f"x{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for i, a in enumerate(args)]
        graph = helper.make_graph(g.nodes, name, inputs, [helper.make_empty_tensor_value_info(o)
                                                          for o in outs], g.constants)
        model = onnx.shape_inference.infer_shapes(helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))
        options = ort.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = ort.InferenceSession(model.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for i, a in enumerate(args):
            binding.bind_ortvalue_input(f"x{i}", ort.OrtValue.ortvalue_from_numpy(
                np.ascontiguousarray(a)))
        for o in outs:
            binding.bind_output(o)

        def once() -> Any:
            session.run_with_iobinding(binding)
            return binding
        call = Call(once, lambda out: None, np.asarray)
        call.results = lambda: [v.numpy() for v in once().get_outputs()]  # type: ignore[method-assign]
        return call
    return make


def numba() -> Callable[[str, str], Call | None]:
    import numba as nb
    nb.set_num_threads(THREADS)

    def make(name: str, way: str) -> Call | None:
        row = ROWS[name]
        if row.numba is None:
            return None
        f, args = row.numba(nb), [*row.arguments(), *row.weights()]
        return Call(lambda: f(*args), lambda out: None, np.asarray)
    return make


def numpy() -> Callable[[str, str], Call | None]:
    def make(name: str, way: str) -> Call | None:
        row = ROWS[name]
        if row.numpy is None:
            return None
        f, args = row.numpy, [*row.arguments(), *row.weights()]
        return Call(lambda: f(np, *args), lambda out: None, np.asarray)
    return make


MAKERS = {"calque": calque, "torch": torch, "onnxruntime": onnxruntime, "numba": numba,
          "numpy": numpy}
