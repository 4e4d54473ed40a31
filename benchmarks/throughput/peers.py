"""The models of benchmarks/cpp.py for torch's AOTInductor and for ONNX Runtime.

    peers.py make FOLDER        FOLDER/*.pt2 and *.onnx, weights from FOLDER/weights.npz
    peers.py onnx FILE SECONDS  times of ONNX Runtime's Python API, threads from OMP_NUM_THREADS

Runs in an environment with torch, onnx and onnxruntime, without calque.
"""
from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def make(folder: Path) -> None:
    """Compile add, matmul and the MLPs of weights.npz ("name/0" is the first matrix of one)."""
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
    weights = dict(np.load(folder / "weights.npz"))
    shapes = json.loads((folder / "shapes.json").read_text())

    class Layers(torch.nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.w = torch.nn.ParameterList(
                [torch.tensor(weights[f"{name}/{i}"]) for i in range(sum(
                    k.startswith(name + "/") for k in weights))])

        def forward(self, x: Any) -> Any:
            for w in self.w[:-1]:
                x = torch.tanh(x @ w)
            return x @ self.w[-1]

    class Plain(torch.nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def forward(self, x: Any, y: Any) -> Any:
            return x @ y if self.name == "matmul" else x + y

    for name, of in shapes.items():
        module = Plain(name) if len(of) == 2 else Layers(name)
        given = tuple(torch.full(s, 0.5) for s in of)
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(
                torch.export.export(module, given), package_path=str(folder / f"{name}.pt2"))
        inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s)
                  for i, s in enumerate(of)]
        nodes, initial = [], []
        if len(of) == 2:
            nodes.append(helper.make_node("MatMul" if name == "matmul" else "Add", ["x0", "x1"],
                                          ["y"]))
        else:
            keys = sorted(k for k in weights if k.startswith(name + "/"))
            value = "x0"
            for i, key in enumerate(keys):
                initial.append(numpy_helper.from_array(weights[key], f"w{i}"))
                last = i == len(keys) - 1
                made = "y" if last else f"m{i}"
                nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [made]))
                if not last:
                    nodes.append(helper.make_node("Tanh", [made], [f"h{i}"]))
                    value = f"h{i}"
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None][:len(of[0])])
        graph = helper.make_graph(nodes, name, inputs, [result], initial)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)],
                                    ir_version=10), folder / f"{name}.onnx")


def mean(seconds: float, body: Any) -> float:
    """Mean seconds of a call over a stretch of time."""
    begin = end = time.perf_counter()
    count = 0
    while count == 0 or end - begin < seconds:
        body()
        count += 1
        end = time.perf_counter()
    return (end - begin) / count


def onnx_times(path: str, seconds: float) -> dict[str, float]:
    """Through an IO binding, so that arrays are neither made nor copied in a call."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(os.environ["OMP_NUM_THREADS"])
    begin = time.perf_counter()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    load = time.perf_counter() - begin
    binding = session.io_binding()
    for i in session.get_inputs():
        binding.bind_ortvalue_input(i.name, ort.OrtValue.ortvalue_from_numpy(
            np.full(i.shape, 0.5, np.float32)))
    binding.bind_output("y")

    def wait() -> None:
        session.run_with_iobinding(binding)
    first = mean(0, wait)
    mean(seconds / 4, wait)
    waited = mean(seconds, wait)
    total = float(np.sum(binding.get_outputs()[0].numpy(), dtype=np.float64))
    return {"first": first, "wait": waited, "load": load, "sum": total}


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        print(json.dumps(onnx_times(sys.argv[2], float(sys.argv[3]))))
