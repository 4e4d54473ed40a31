"""Compiles many functions of lowering/math into one IREE module and measures their errors in ulp.

One compile of N functions costs about 30-200 ms each instead of 205 and more; `Functions` is
compiled at its first call.  The oracle is NumPy in longdouble (64-bit mantissa) or mpmath.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import iree.runtime
import ml_dtypes
import numpy as np
import pytest

from calque.lowering.compiler.compile import run_compiler
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.target.targets import host_target

FLAGS = (*host_target().flags(), "--iree-input-type=stablehlo",
         "--iree-input-demote-f64-to-f32=false", "--iree-llvmcpu-reassociate-fp-reductions")

F16, BF16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
LONG, CLONG = np.longdouble, np.clongdouble

# largest number of elements that a function of a module takes
SIZE = 1 << 15


@functools.cache
def _device(uri: str) -> Any:
    iree.runtime._binding.disable_leak_checker()
    return iree.runtime.get_device(uri)


class Functions:
    """Functions of one module: name -> (f(b, *values), dtypes), all over vectors of `size`.

    Those in `first` are what the default suite calls; where not all are, the rest is a module of
    its own, for the slow one."""

    def __init__(self, functions: dict[str, tuple[Callable[..., Value], Sequence[Any]]],
                 size: int = SIZE, device: str = "local-sync", first: Iterable[str] | None = None,
                 **builder: bool) -> None:
        self.functions, self.size, self.options = functions, size, builder
        self.first = frozenset(functions if first is None else first)
        assert self.first <= set(functions)
        self._uri = device
        self._modules: dict[bool, Any] = {}

    def _module(self, first: bool) -> Any:
        if first not in self._modules:
            config = iree.runtime.Config(device=_device(self._uri))
            binary = run_compiler(self.source(first).encode() + b"\0", FLAGS)
            context = iree.runtime.SystemContext(config=config)
            context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, binary))
            self._modules[first] = context.modules.module
        return self._modules[first]

    def source(self, first: bool) -> str:
        """A module as MLIR text."""
        ir = mlir.ir()
        with mlir.context(), ir.Location.unknown():
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                for name, (f, dtypes) in self.functions.items():
                    if (name in self.first) == first:
                        self._function(name, f, [np.dtype(d) for d in dtypes])
            assert module.operation.verify()
            return str(module.operation.get_asm(large_elements_limit=None))

    def _function(self, name: str, f: Callable[..., Value], dtypes: list[np.dtype]) -> None:
        ir = mlir.ir()
        types = [mlir.tensor_type((self.size,), d) for d in dtypes]
        op = ir.Operation.create("func.func", regions=1, attributes={
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, []))})
        block = op.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
        with ir.InsertionPoint(block):
            b = Builder(**self.options)
            out = f(b, *[Value(b, a, (self.size,), d)
                         for a, d in zip(block.arguments, dtypes, strict=True)])
            ir.Operation.create("func.return", operands=[out.ir])
        op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [out.ir.type]))

    def __call__(self, name: str, *xs: np.ndarray) -> np.ndarray:
        """f(*xs) for vectors of at most `size` elements."""
        count = len(xs[0])
        return np.asarray(self.on_device(name, *self.put(*xs)).to_host())[:count]

    def put(self, *xs: np.ndarray) -> list[Any]:
        """xs as device arrays, repeated to `size`."""
        return [iree.runtime.asdevicearray(_device(self._uri), np.resize(x, self.size))
                for x in xs]

    def on_device(self, name: str, *arrays: Any) -> Any:
        """f(*arrays) on device arrays of `size` elements."""
        return getattr(self._module(name in self.first), name)(*arrays)

    def parameters(self) -> list[Any]:
        """The names, as those of a test."""
        return [_parameter(self, name, name) for name in self.functions]


def _parameter(functions: Functions, name: str, *values: Any) -> Any:
    return pytest.param(*values, marks=[] if name in functions.first else [pytest.mark.slow])


def parameters(groups: dict[str, Functions], names: Iterable[str]) -> list[Any]:
    """(name, dtype) of a test."""
    return [_parameter(f, name, name, dtype) for name in names for dtype, f in groups.items()]


def info(dtype: np.dtype) -> Any:
    return ml_dtypes.finfo(dtype)


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units of the last place of `want`; inf where NaN or infinity differ."""
    f = info(got.dtype)
    with np.errstate(all="ignore"):
        want, value = want.astype(LONG), got.astype(LONG)
        size = np.abs(want)
        exponent = np.floor(np.log2(np.where((size == 0) | ~np.isfinite(size), 1, size)))
        unit = np.exp2(np.maximum(exponent, int(f.minexp)) - int(f.nmant))
        error = np.abs(value - want) / unit
        largest = LONG(float(f.max))
        # past the largest number: infinity, or the largest itself where it rounds to it
        error = np.where(size > largest, np.where(np.abs(value) >= largest, 0, np.inf), error)
        error = np.where(np.isinf(want), np.where(value == want, 0, np.inf), error)
        error = np.where(np.isnan(want), np.where(np.isnan(value), 0, np.inf), error)
        return np.where(np.isnan(error), np.inf, error)


def flushed(got: np.ndarray, want: np.ndarray, *xs: np.ndarray) -> np.ndarray:
    """True where an operand or the result is below the normal range: zero counts as right there."""
    tiny = float(info(got.dtype).smallest_normal)
    with np.errstate(all="ignore"):
        free = (np.abs(want) < tiny) & (want != 0) & (np.abs(got.astype(LONG)) <= tiny)
        for x in xs:
            small = np.abs(x.astype(LONG))
            free |= (small < tiny) & (small != 0)
    return free


def specials(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, extremes, integers, halfway cases, and where forms are switched."""
    f = info(dtype)
    ordinary = [0, 0.25, 0.5, 0.55, 0.65, 0.7, 0.75, 0.88, 0.9, 1, 1.5, 2, 2.5, 3, 4, 5.5, 10, 16,
                20, 22, 25, 31, 88.7, 89, 89.41, 104, 127.5, 128, 150, 709.7, 710.4, 745, 1e-3,
                1e-5, 4096, 8000, 1e6, 1e10, 1e20, 1e30, np.pi, np.pi / 2, np.pi / 4, 3 * np.pi,
                np.log(2) / 2, np.inf, np.nan, float(f.max), float(f.smallest_normal),
                float(f.eps), 1 + float(f.eps), 1 - float(f.epsneg), float(f.eps) / 8]
    with np.errstate(all="ignore"):
        a = np.array(ordinary).astype(dtype)
    return np.concatenate([a, -a])


def multiples_of_half_pi(dtype: np.dtype, count: int, rng: np.random.Generator) -> np.ndarray:
    """The numbers next to k pi/2, for k of every size: where range reduction is hardest."""
    top = max(6.5, float(np.log10(float(info(dtype).max))) - 1)
    k = np.floor(10.0 ** rng.uniform(0, 12, count)).astype(LONG)
    with np.errstate(all="ignore"):
        near = (k * (LONG(np.pi) + LONG(1.2246467991473532e-16)) / 2).astype(dtype)
        far = (10.0 ** rng.uniform(6, top, count)).astype(dtype)
    return np.concatenate([near, -far])


def samples(dtype: np.dtype, low: float, high: float, seed: int, count: int = SIZE) -> np.ndarray:
    """Special values, uniform in [low, high], normal, log-uniform, and random representations."""
    rng = np.random.default_rng(seed)
    n = count // 5
    integer = np.dtype(f"u{dtype.itemsize}")
    raw = rng.integers(0, np.iinfo(integer).max, n, dtype=integer, endpoint=True).view(dtype)
    with np.errstate(all="ignore"):
        parts = [specials(dtype), multiples_of_half_pi(dtype, n // 4, rng), raw,
                 rng.uniform(low, high, n).astype(dtype), rng.normal(size=n).astype(dtype),
                 (rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-12, 4, n)).astype(dtype)]
    return np.concatenate(parts)[:count]


def every(dtype: np.dtype) -> np.ndarray:
    """All numbers of a 16-bit dtype."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def complex_array(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    z = np.empty(re.shape, np.dtype(f"c{2 * re.dtype.itemsize}"))
    z.real, z.imag = re, im
    return z
