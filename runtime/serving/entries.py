"""The functions of an artifact as a server has them: names of their inputs and outputs, what the
protocol says of them, and calls.

Start reading at `Entry`.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.runtime.aot import ArgumentRecord, Artifact, ArtifactFunction
from calque.runtime.dims import Expression
from calque.runtime.serving.errors import RequestError
from calque.runtime.session import INITIAL_STATE, Session

Array = np.ndarray[Any, Any]
_DATATYPES = {"bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64",
              "bfloat16": "BF16"}


def datatype(dtype: np.dtype[Any]) -> str:
    """The protocol's name of a dtype: FP32, INT8, BOOL; of others NumPy's in capitals.

    Example:
      >>> import numpy as np
      >>> from calque.runtime.serving.entries import datatype
      >>> [datatype(np.dtype(t)) for t in ("float32", "uint8", "complex64")]
      ['FP32', 'UINT8', 'COMPLEX64']
    """
    return _DATATYPES.get(dtype.name, dtype.name.upper())


class Entry:
    """A function of an artifact, its inputs and outputs by name.

    Attributes:
      name: the function's.
      function: what is called.
      inputs, outputs: (name, type) of each, in order; without the leaves of a state.
      has_state: whether a call needs a session.

    Args:
      function: of an artifact.

    Example:
      >>> from calque import aot, runtime
      >>> import calque.numpy as jnp
      >>> from calque.runtime.serving.entries import Entry
      >>> artifact = runtime.load(aot.compile(jnp.negative, "f32[b,2]").vmfb)
      >>> Entry(artifact.negative).metadata()["inputs"]
      [{'name': 'x', 'datatype': 'FP32', 'shape': [-1, 2]}]
    """

    def __init__(self, function: ArtifactFunction) -> None:
        record = function.record
        state = record.state
        self.name = record.name
        self.function = function
        self.has_state = state is not None
        given, made = ((), ()) if state is None else (state.args, state.results)
        self.inputs = _named("input", [a for i, a in enumerate(record.args) if i not in given])
        self.outputs = _named("output", [r for i, r in enumerate(record.results) if i not in made])

    def metadata(self) -> dict[str, Any]:
        """What the protocol says of a model."""
        return {"name": self.name, "versions": ["1"], "platform": "calque_vmfb",
                "inputs": [_described(n, a) for n, a in self.inputs],
                "outputs": [_described(n, a) for n, a in self.outputs]}

    def check(self, arrays: Sequence[Array]) -> None:
        """RequestError where a call with these arrays is none (of a state: the call says it)."""
        if self.has_state:
            return
        try:
            self.function.check(arrays)
        except (TypeError, ValueError) as error:
            raise RequestError(400, *_parts(str(error))) from None

    def call(self, arrays: Sequence[Array], session: Session | None = None) -> list[Array]:
        """The results of a call, waited for."""
        made = (self.function(*arrays) if session is None else
                session.call_flat(self.name, arrays))
        return [r.numpy() for r in made]


def entries_of(artifact: Artifact) -> dict[str, Entry]:
    """The functions that are served, by name: all but that which makes a new state."""
    return {name: Entry(artifact[name]) for name in artifact.functions if name != INITIAL_STATE}


def _named(kind: str, records: Sequence[ArgumentRecord]) -> list[tuple[str, ArgumentRecord]]:
    """Names that differ: paths of the trees where they are such."""
    paths = [r.path or ("result" if kind == "output" else "") for r in records]
    count = Counter(paths)
    return [(p if p and count[p] == 1 else f"{kind}{i}", r)
            for i, (p, r) in enumerate(zip(paths, records, strict=True))]


def _described(name: str, record: ArgumentRecord) -> dict[str, Any]:
    return {"name": name, "datatype": datatype(record.dtype),
            "shape": [-1 if isinstance(d, Expression) else d for d in record.shape]}


def _parts(text: str) -> tuple[str, str, str]:
    """What, where and how to mend it, of a message."""
    what, where, fix = text, "", ""
    lines = text.splitlines()
    if lines:
        what = lines[0]
    for line in lines[1:]:
        if line.startswith("  Fix: "):
            fix = line.removeprefix("  Fix: ")
        elif line.startswith("  In "):
            where = line.removeprefix("  In ").removesuffix(".")
    return what, where, fix
