"""buffer_callback: a function of the host that writes its results into memory it is given.

It is a pure_callback (io_callback) whose function gets buffers beside the arguments; what it wrote
there are the results.  Start reading at `buffer_callback`.
"""
from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.api.callbacks import io_callback, promised_avals, pure_callback
from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.core.types import Ndarray, Shape
from calque.dispatch.array import as_values
from calque.dispatch.tracing import check_arguments
from calque.runtime.errors import DeviceError as JaxRuntimeError
from calque.trees import util as tree_util


class ExecutionStage(enum.Enum):
    """When a handler is called: here always EXECUTE.

    Example:
      >>> from calque.experimental.buffer_callback import ExecutionStage
      >>> ExecutionStage.EXECUTE.name
      'EXECUTE'
    """

    INSTANTIATE = 0
    PREPARE = 1
    INITIALIZE = 2
    EXECUTE = 3


class ExecutionContext:
    """What a callback is told of its call.

    Example:
      >>> from calque.experimental.buffer_callback import ExecutionContext
      >>> ExecutionContext().stage.name
      'EXECUTE'
    """

    __slots__ = ()

    @property
    def stage(self) -> ExecutionStage:
        """ExecutionStage.EXECUTE."""
        return ExecutionStage.EXECUTE

    @property
    def stream(self) -> Any:
        """The stream of a GPU, of which there is none: callbacks run on the host."""
        raise JaxRuntimeError(explain("XLA FFI GPU context is not available: callbacks run on the "
                                      "host.", fix="leave the stream out."))


class Buffer:
    """Memory of an argument, or of a result: what an array protocol of NumPy's or DLPack's reads.

    Example:
      >>> import numpy as np
      >>> from calque.experimental.buffer_callback import Buffer
      >>> out = Buffer(np.zeros(2, np.float32), True)
      >>> np.asarray(out)[...] = 1
      >>> out
      Buffer(float32[2], writeable=True)
    """

    __slots__ = ("_memory", "writeable")

    def __init__(self, memory: Ndarray, writeable: bool) -> None:
        self._memory, self.writeable = memory, writeable

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self._memory.shape

    @property
    def dtype(self) -> Any:
        """Of the elements."""
        return self._memory.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._memory.ndim

    def unsafe_raw_buffer_pointer(self) -> int:
        """The address."""
        return int(self._memory.ctypes.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Ndarray:
        view = self._memory.view()
        view.flags.writeable = self.writeable
        if dtype is not None and np.dtype(dtype) != view.dtype:
            return view.astype(dtype)
        return view.copy() if copy else view

    def __dlpack__(self, **options: Any) -> Any:
        return self._memory.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory.__dlpack_device__()

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.shape))
        return f"Buffer({self.dtype.name}[{sizes}], writeable={self.writeable})"


def buffer_callback(callback: Callable[..., None], result_shape_dtypes: Any, *,
                    has_side_effect: bool = False, vmap_method: str | None = None,
                    input_output_aliases: dict[int, int] | None = None,
                    command_buffer_compatible: bool = False) -> Callable[..., Any]:
    """A function of arrays that the host computes, into memory that it is given.

    Args:
      callback: (context, out, *args, **kwargs) -> None: out and the arguments are trees of Buffers,
        and it writes into those of out (`np.asarray(out)[...] = ...`).
      result_shape_dtypes: tree of objects with shape and dtype: what out is.
      has_side_effect: whether it is called as often as the program says, also where no result is
        used.
      vmap_method: as of pure_callback.
      input_output_aliases: position of an argument -> of a result whose memory begins as a copy of
        it, and which both buffers are.
      command_buffer_compatible: accepted.

    Returns:
      A function of the arguments (trees of arrays) that returns the tree of result_shape_dtypes.

    Raises:
      ValueError: an alias is out of range, or of another shape or dtype; (by the function) it is
        differentiated.
      TypeError: result_shape_dtypes has something without shape and dtype.

    Example:
      >>> import calque, calque.numpy as jnp, numpy as np
      >>> from calque.experimental.buffer_callback import buffer_callback
      >>> def add_one(context, out, x):
      ...     np.asarray(out)[...] = np.asarray(x) + 1
      >>> buffer_callback(add_one, calque.ShapeDtypeStruct((2,), "float32"))(jnp.ones(2))
      Array([2., 2.], dtype=float32)
    """
    flat, out_tree = tree_util.flatten(result_shape_dtypes)
    avals = promised_avals("buffer_callback", flat)
    aliases = {int(i): int(o) for i, o in (input_output_aliases or {}).items()}

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree_util.flatten((args, kwargs))
        check_arguments("buffer_callback", leaves, in_tree)
        _check_aliases(aliases, [x.aval for x in as_values(leaves)], avals)
        ranks = [len(shape_of(x)) for x in leaves]

        def run(*given: Any, **named: Any) -> Any:
            values = list(map(np.asarray, tree_util.flatten((given, named))[0]))
            lead = np.broadcast_shapes(*[v.shape[:v.ndim - n] for v, n in zip(values, ranks)])
            outs = [np.zeros((*lead, *a.shape), a.dtype) for a in avals]
            for i, o in aliases.items():
                outs[o][...] = values[i]
                values[i] = outs[o]
            a, k = in_tree.unflatten([Buffer(v, False) for v in values])
            callback(ExecutionContext(), out_tree.unflatten([Buffer(o, True) for o in outs]),
                     *a, **k)
            return out_tree.unflatten(outs)

        if has_side_effect:
            return io_callback(run, result_shape_dtypes, *args, **kwargs)
        return pure_callback(run, result_shape_dtypes, *args, vmap_method=vmap_method, **kwargs)

    return call


def _check_aliases(aliases: dict[int, int], ins: list[Any], outs: Any) -> None:
    for i, o in aliases.items():
        said = f"input_output_aliases contains the mapping '{i}:{o}'"
        for kind, at, types in (("input", i, ins), ("output", o, outs)):
            if not 0 <= at < len(types):
                raise ValueError(explain(
                    f"{said} with {kind} index {at} outside the range [0, {len(types)}).",
                    fix="give positions of flat arguments and results."))
        if (ins[i].shape, ins[i].dtype) != (outs[o].shape, outs[o].dtype):
            raise ValueError(explain(
                f"{said} referring to an input with abstract value {ins[i].short()} and an output "
                f"with a different abstract value {outs[o].short()}.",
                fix="alias arrays of one shape and dtype."))


__all__ = ["Buffer", "ExecutionContext", "ExecutionStage", "buffer_callback"]


def __dir__() -> list[str]:
    return __all__
