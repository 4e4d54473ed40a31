"""Operations that JAX exports by name: LAPACK's routines, whose targets it promises to keep,
functions of chlo that carry a decomposition, marks of shardings.

Start reading at `CALLS`.
"""
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from calque import lax
from calque.core.avals import is_complex, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import registry
from calque.export.errors import UnsupportedOperationError
from calque.export.hlo import Op
from calque.export.ops_structured import windows
from calque.export.read import Reader, bind, case, concrete_value, handles, used
from calque.export.sizes import Sizes, elements
from calque.export.stream import damaged

Call = Callable[[Op, dict[str, Any], list[Any]], Any]
CALLS: dict[str, Call] = {}
INT = np.dtype("i4")


def target(*names: str) -> Callable[[Call], Call]:
    """Register what a custom call's target computes."""
    def register(f: Call) -> Call:
        CALLS.update(dict.fromkeys(names, f))
        return f
    return register


def lapack(real: str, hermitian: str = "") -> Callable[[Call], Call]:
    """The targets of a routine for four dtypes."""
    other = hermitian or real
    return target(*[f"lapack_{t}{n}_ffi" for t, n in (
        ("s", real), ("d", real), ("c", other), ("z", other))])


@handles("custom_call")
def _custom_call(r: Reader, op: Op, xs: list[Any]) -> Any:
    name = op.attributes["call_target_name"]
    if name == "stablehlo.dynamic_reduce_window":
        return _dynamic_windows(r, op, xs)
    if name == "shape_assertion":
        return _assertion(r, op, xs)
    call = CALLS.get(name)
    if call is None:
        raise UnsupportedOperationError(explain(
            f"custom_call @{name}: this target is not known here; known are LAPACK's "
            "(lapack_sgetrf_ffi, ...), ApproxTopK and marks of shardings.", where="deserialize",
            fix="export the function without it."))
    config = op.attributes.get("mhlo.backend_config") or op.attributes.get("backend_config")
    return call(op, config if isinstance(config, dict) else {}, [used(x) for x in xs])


def _dynamic_windows(r: Reader, op: Op, xs: list[Any]) -> Any:
    """reduce_window whose window is known when the module is called."""
    *data, dimensions, strides, base, dilation, padding = xs
    found = [concrete_value(v) for v in (dimensions, strides, base, dilation, padding)]
    if any(v is None for v in found):
        raise damaged("a window whose sizes depend on the values of arrays")
    sizes = [v.tolist() for v in found if v is not None]
    window = dict(zip(("window_dimensions", "window_strides", "base_dilation", "window_dilation"),
                      map(tuple, sizes)))
    called = op.attributes["called_computations"]
    return windows(r, r.named(called[0]).body, data,
                   {**window, "padding": tuple(map(tuple, sizes[4]))})


_COMPOSITES = {f"chlo.{p.name}": p.name for p in registry.values() if p.function}
_COMPOSITES["chlo.next_after"] = "nextafter"


@handles("composite")
def _composite(r: Reader, op: Op, xs: list[Any]) -> Any:
    """A function with a name: ours of that name, else its decomposition."""
    name = op.attributes["name"]
    if name in _COMPOSITES:
        return bind(_COMPOSITES[name], *xs)
    if name == "chlo.top_k":
        k = int(op.attributes["composite_attributes"]["k"].value)
        return list(bind("top_k", *xs, k=k, axis=ndim_of(xs[0]) - 1))
    made = _ours(name, op.attributes["composite_attributes"].get("parameters", "{}"), xs) if (
        name.startswith("calque.")) else None
    return r.call(r.named(op.attributes["decomposition"]), xs) if made is None else made


@handles("call")
def _call(r: Reader, op: Op, xs: list[Any]) -> Any:
    """A function; one that is written for arrays of sizes known at the call says in its name, as a
    composite does in attributes, which primitive of ours it is (Writer.call)."""
    callee = op.attributes["callee"]
    name, _, rest = callee.partition(" ")
    made = _ours(name, rest.rpartition(" ")[0], xs) if name.startswith("calque.") else None
    return r.call(r.named(callee), xs) if made is None else made


def _ours(name: str, parameters: str, xs: list[Any]) -> Any:
    """What a primitive of ours gives; None where there is none of this name here."""
    ours = registry.get(name.removeprefix("calque."))
    if ours is None or ours.program is None:
        return None
    made = bind(ours.name, *xs, **json.loads(parameters))
    return list(made) if ours.multiple_results else made


def _older(name: str, primitive: str) -> None:
    """How versions before composites wrote such functions."""
    @target(name.replace("chlo.", "mhlo."))
    def read(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
        return bind(primitive, *xs)


for _name, _primitive in _COMPOSITES.items():
    _older(_name, _primitive)


@target("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
        "xla.sdy.FuncResultSharding")
def _same(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    return xs


@handles("sdy.sharding_constraint", "sdy.reshard")
def _sharded(r: Reader, op: Op, xs: list[Any]) -> Any:
    return xs


@handles("sdy.mesh")
def _mesh(r: Reader, op: Op, xs: list[Any]) -> Any:
    return []


def _assertion(r: Reader, op: Op, xs: list[Any]) -> list[Any]:
    """A condition on sizes, which are known when the module is called, or to its caller's calls."""
    holds = concrete_value(xs[0])
    if holds is None:
        _note(r, op)
    elif not bool(holds):
        message = str(op.attributes.get("error_message", "the arguments' shapes do not fit"))
        values = [concrete_value(x) for x in xs[1:]]
        for i, v in enumerate(values):
            message = message.replace(f"{{{i}}}", str(v))
        raise ValueError(explain(message, fix="call the function with shapes as exported."))
    return []


def _note(r: Reader, op: Op) -> None:
    """Leaves a condition on the caller's symbolic sizes to the caller's calls."""
    made = r.makers.get(op.operands[0])
    if made is None or made.name != "compare":
        raise damaged("a condition on sizes that is none")
    kind = case(made, "comparison_direction")
    xs = [r.env[v] for v in made.operands]
    if not all(isinstance(x, Sizes | np.ndarray) for x in xs) or kind not in _CONDITIONS:
        raise UnsupportedOperationError(explain(
            "a condition on sizes cannot be decided: "
            f"{op.attributes.get('error_message', 'it has no text')}", where="call",
            fix="call the function with known sizes, or with constraints that decide it."))
    left, right = (elements(x).item() for x in xs)
    sign, difference = _CONDITIONS[kind](left, right)
    difference.scope.noted[difference] = sign


_CONDITIONS: dict[str, Callable[[Any, Any], tuple[str, Any]]] = {
    "GE": lambda x, y: (">=", x - y), "LE": lambda x, y: (">=", y - x),
    "GT": lambda x, y: (">=", x - y - 1), "LT": lambda x, y: (">=", y - x - 1),
    "EQ": lambda x, y: ("==", x - y), "NE": lambda x, y: ("!=", x - y)}


# ---- LAPACK: characters as numbers
def _flag(config: dict[str, Any], name: str) -> str:
    value = config.get(name)
    if value is None or not 0 < int(value.value) < 128:
        raise damaged(f"a call of LAPACK without {name}")
    return chr(int(value.value))


def _info(x: Any) -> Any:
    """LAPACK's 0 for every matrix of a batch."""
    return lax.full(shape_of(x)[:-2], 0, INT)


@lapack("potrf")
def _potrf(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    (x,) = xs
    lower = _flag(config, "uplo") == "L"
    n = ndim_of(x)
    order = [*range(n - 2), n - 1, n - 2]

    def adjoint(a: Any) -> Any:
        turned = lax.transpose(a, order)
        return lax.conj(turned) if is_complex(a) else turned

    made = lax.linalg.cholesky(x if lower else adjoint(x), symmetrize_input=False)
    failed = lax.reduce_or(lax.ne(made, made), (n - 2, n - 1))
    if not lower:
        made = adjoint(made)
    return [made, lax.convert_element_type(failed, INT)]


@lapack("getrf")
def _getrf(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    packed, pivots, _ = lax.linalg.lu(xs[0])
    return [packed, lax.add(pivots, lax.full_like(pivots, 1)), _info(xs[0])]


@lapack("trsm")
def _trsm(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    transpose = _flag(config, "trans_x")
    return lax.linalg.triangular_solve(
        *xs, left_side=_flag(config, "side") == "L", lower=_flag(config, "uplo") == "L",
        transpose_a=transpose in "TC", conjugate_a=transpose == "C",
        unit_diagonal=_flag(config, "diag") == "U")


@lapack("geqrf")
def _geqrf(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    return [*bind("geqrf", xs[0]), _info(xs[0])][:len(op.results)]


@lapack("orgqr", "ungqr")
def _orgqr(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    return [lax.linalg.householder_product(*xs), _info(xs[0])][:len(op.results)]


@lapack("gesdd")
def _gesdd(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    mode = _flag(config, "mode")
    if mode == "N":
        s = lax.linalg.svd(xs[0], compute_uv=False)
        return [xs[0], s if not isinstance(s, tuple | list) else s[0], None, None, _info(xs[0])]
    u, s, vh = lax.linalg.svd(xs[0], full_matrices=mode == "A")
    return [xs[0], s, u, vh, _info(xs[0])]


@lapack("syevd", "heevd")
def _syevd(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    v, w = lax.linalg.eigh(xs[0], lower=_flag(config, "uplo") == "L", symmetrize_input=False)
    return [v, w, _info(xs[0])]


@lapack("geev")
def _geev(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    w, left, right = lax.linalg.eig(xs[0])
    parts = [w] if is_complex(xs[0]) else [lax.real(w), lax.imag(w)]
    return [*parts, left, right, _info(xs[0])]


@lapack("gees")
def _gees(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    """The eigenvalues beside the form are no result of ours: whoever reads them is told."""
    if _flag(config, "sort") != "N":
        raise UnsupportedOperationError("lapack gees: sorted Schur forms are not supported.")
    form, vectors = lax.linalg.schur(xs[0])
    values = [None] * (1 if is_complex(xs[0]) else 2)
    return [form, vectors, *values, _info(xs[0]), _info(xs[0])]


@lapack("gehrd")
def _gehrd(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    packed, taus = lax.linalg.hessenberg(xs[0])
    return [packed, taus, _info(xs[0])]


@lapack("sytrd", "hetrd")
def _sytrd(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    made = lax.linalg.tridiagonal(xs[0], lower=_flag(config, "uplo") == "L")
    return [*made, _info(xs[0])]


@lapack("gtsv")
def _gtsv(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    dl, d, du, b = xs
    return [dl, d, du, lax.linalg.tridiagonal_solve(dl, d, du, b), _info(b)]


@target("ApproxTopK")
def _approximate(op: Op, config: dict[str, Any], xs: list[Any]) -> Any:
    """The largest (smallest) elements, exactly."""
    x, axis = xs[0], int(config["reduction_dim"].value)
    k, comparator = int(config["top_k"].value), op.attributes["called_computations"]
    smallest = bool(comparator) and "_lt_" in str(comparator[0])
    values, at = bind("top_k", lax.neg(x) if smallest else x, k=k, axis=axis)
    return [lax.neg(values) if smallest else values, at]
