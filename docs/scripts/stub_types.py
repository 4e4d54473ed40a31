"""What stubs.py writes for public functions whose types their docstrings do not say.

`SPECIAL`: whole definitions, of functions of functions.  `RESULTS`: results.  `PARAMETERS`: types
of parameters by their names, where the docstring does not say that they are arrays.
"""
from __future__ import annotations

_GRAD = ("argnums: int | Sequence[int] = ..., has_aux: bool = ..., holomorphic: bool = ...")
_JIT = """static_argnums: int | Sequence[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Sequence[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ..., keep_unused: bool = ...,
    device: Any = ..., backend: str | None = ..., inline: bool = ..., in_shardings: Any = ...,
    out_shardings: Any = ..., compiler_options: dict[str, Any] | None = ...)"""
_REMAT = """prevent_cse: bool = ..., policy: Callable[..., Any] | None = ...,
    static_argnums: int | Sequence[int] = ...)"""
_IS_LEAF = "is_leaf: Callable[[Any], bool] | None = ..."

# what the stub of `calque` begins with
_JITTED = '''
class _Jitted(Generic[_P, _R]):
    """What jit gives: a function of the same signature, and its stages."""
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def __get__(self, instance: object, owner: Any = ...) -> Callable[..., _R]: ...
    @property
    def __wrapped__(self) -> Callable[_P, _R]: ...
    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...
    def trace(self, *args: Any, **kwargs: Any) -> Traced: ...
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any: ...
    def clear_cache(self) -> None: ...
'''
_CHECKPOINT = f"""
class _Checkpoint:
    @overload
    def __call__(self, fun: Callable[_P, _R], *, {_REMAT} -> Callable[_P, _R]: ...
    @overload
    def __call__(self, fun: None = ..., *, {_REMAT} -> (
        Callable[[Callable[_P, _R]], Callable[_P, _R]]): ...
    save = _save
    load = _load
"""


def _tuple_class(name: str, *fields: str) -> str:
    return f"\nclass {name}(NamedTuple):\n" + "".join(f"    {f}: Array\n" for f in fields)


HEAD = {"calque": _JITTED + _CHECKPOINT, "calque.numpy": "".join((
    _tuple_class("_UniqueAllResult", "values", "indices", "inverse_indices", "counts"),
    _tuple_class("_UniqueCountsResult", "values", "counts"),
    _tuple_class("_UniqueInverseResult", "values", "inverse_indices"))),
    "calque.scipy.stats": _tuple_class("_ModeResult", "mode", "count").replace(
        "count: Array", "count: Array  # type: ignore[assignment]  # (a tuple has a count, too)"),
    "calque.tree": "\nfrom calque.trees.spec import PyTreeDef\n"}

SPECIAL = {
    "calque.jit": f"""@overload
def jit(fun: Callable[_P, _R], *, {_JIT} -> _Jitted[_P, _R]: ...
@overload
def jit(fun: None = ..., *, {_JIT} -> Callable[[Callable[_P, _R]], _Jitted[_P, _R]]: ...""",
    "calque.grad": f"def grad(fun: Callable[_P, Any], {_GRAD},\n"
    "         allow_int: bool = ..., reduce_axes: Any = ...) -> Callable[_P, Any]: ...",
    "calque.value_and_grad": f"def value_and_grad(fun: Callable[_P, _R], {_GRAD},\n"
    "                   allow_int: bool = ..., reduce_axes: Any = ...\n"
    "                   ) -> Callable[_P, tuple[_R, Any]]: ...",
    "calque.jacfwd": f"def jacfwd(fun: Callable[_P, Any], {_GRAD}) -> Callable[_P, Any]: ...",
    "calque.jacrev": f"def jacrev(fun: Callable[_P, Any], {_GRAD},\n"
    "           allow_int: bool = ...) -> Callable[_P, Any]: ...",
    "calque.hessian": f"def hessian(fun: Callable[_P, Any], {_GRAD}) -> Callable[_P, Any]: ...",
    "calque.vmap": "def vmap(fun: Callable[_P, _R], in_axes: Any = ..., out_axes: Any = ...,\n"
    "         axis_name: Any = ..., axis_size: int | None = ..., spmd_axis_name: Any = ...,\n"
    "         sum_match: bool = ...) -> Callable[_P, _R]: ...",
    "calque.pmap": "def pmap(fun: Callable[_P, _R], axis_name: Any = ..., *, in_axes: Any = ...,\n"
    "         out_axes: Any = ..., static_broadcasted_argnums: Any = ...,\n"
    "         devices: Sequence[Any] | None = ..., backend: str | None = ...,\n"
    "         axis_size: int | None = ..., donate_argnums: Any = ...) -> _Jitted[_P, _R]: ...",
    "calque.checkpoint": "checkpoint: _Checkpoint", "calque.remat": "remat: _Checkpoint",
    "calque.vjp": """@overload
def vjp(fun: Callable[..., _R], *primals: Any, has_aux: Literal[False] = ...,
        reduce_axes: Any = ...) -> tuple[_R, Callable[..., Any]]: ...
@overload
def vjp(fun: Callable[..., tuple[_R, _T]], *primals: Any, has_aux: Literal[True],
        reduce_axes: Any = ...) -> tuple[_R, Callable[..., Any], _T]: ...""",
    "calque.jvp": """@overload
def jvp(fun: Callable[..., _R], primals: Sequence[Any], tangents: Sequence[Any],
        has_aux: Literal[False] = ...) -> tuple[_R, Any]: ...
@overload
def jvp(fun: Callable[..., tuple[_R, _T]], primals: Sequence[Any], tangents: Sequence[Any],
        has_aux: Literal[True]) -> tuple[_R, Any, _T]: ...""",
    "calque.linearize": """@overload
def linearize(fun: Callable[..., _R], *primals: Any, has_aux: Literal[False] = ...
              ) -> tuple[_R, Callable[..., Any]]: ...
@overload
def linearize(fun: Callable[..., tuple[_R, _T]], *primals: Any, has_aux: Literal[True]
              ) -> tuple[_R, Callable[..., Any], _T]: ...""",
    "calque.custom_jvp": """class custom_jvp(Generic[_P, _R]):
    def __init__(self, fun: Callable[_P, _R], nondiff_argnums: int | Sequence[int] = ...,
                 nondiff_argnames: str | Sequence[str] = ...) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def defjvp(self, jvp: _F, symbolic_zeros: bool = ...) -> _F: ...
    def defjvps(self, *jvps: Callable[..., Any] | None) -> None: ...""",
    "calque.custom_vjp": """class custom_vjp(Generic[_P, _R]):
    def __init__(self, fun: Callable[_P, _R], nondiff_argnums: int | Sequence[int] = ...,
                 nondiff_argnames: str | Sequence[str] = ...) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def defvjp(self, fwd: Callable[..., tuple[_R, Any]], bwd: Callable[..., Any],
               symbolic_zeros: bool = ..., optimize_remat: bool = ...) -> None: ...""",
    "calque.custom_gradient":
    "def custom_gradient(fun: Callable[_P, tuple[_R, Any]]) -> Callable[_P, _R]: ...",
    "calque.tree_map": "from calque.tree import map as tree_map",
    "calque.named_call":
    "def named_call(fun: Callable[_P, _R], *, name: str | None = ...) -> Callable[_P, _R]: ...",
    "calque.block_until_ready": "def block_until_ready(x: _T) -> _T: ...",
    # (a number as the first carry is an array from then on)
    "lax.scan": "\n".join(f"""@overload
def scan(f: Callable[[{carry}, _X], tuple[{carry}, _Y]], init: {init}, xs: _X | None = ...,
         length: int | None = ..., reverse: bool = ..., unroll: int | bool = ...,
         _split_transpose: bool = ...) -> tuple[{carry}, _Y]: ..."""
                          for carry, init in (("Array", "ArrayLike"), ("_T", "_T"))),
    # (forms that do not overlap: mypy takes Any where a lambda fits several)
    "lax.cond": "\n".join(f"""@overload
def cond(pred: ArrayLike, true_fun: Callable[[{kinds}], _X],
         false_fun: Callable[[{kinds}], _Y]{operands}) -> _X | _Y: ..."""
                          for kinds, operands in (
        ("", ""), ("_A", ", operand0: _A, /"), ("_A, _B", ", operand0: _A, operand1: _B, /"),
        ("_A", ", *, operand: _A"), ("...", ", operand0: Any, operand1: Any, operand2: Any, /, "
                                     "*operands: Any"))).replace("[[...]", "[..."),
    "lax.while_loop": "\n".join(f"""@overload
def while_loop(cond_fun: Callable[[{carry}], ArrayLike], body_fun: Callable[[{carry}], {carry}],
               init_val: {init}) -> {carry}: ..."""
                                for carry, init in (("Array", "ArrayLike"), ("_T", "_T"))),
    "lax.fori_loop": "\n".join(f"""@overload
def fori_loop(lower: ArrayLike, upper: ArrayLike, body_fun: Callable[[Any, {carry}], {carry}],
              init_val: {init}, *, unroll: int | bool | None = ...) -> {carry}: ..."""
                               for carry, init in (("Array", "ArrayLike"), ("_T", "_T"))),
    "lax.switch": "def switch(index: ArrayLike, branches: Sequence[Callable[..., _R]], "
    "*operands: Any,\n           operand: Any = ...) -> _R: ...",
    "lax.map": "def map(f: Callable[[Any], _R], xs: Any, *, batch_size: int | None = ...\n"
    "        ) -> _R: ...",
    "lax.associative_scan": "def associative_scan(fn: Callable[[Any, Any], _T], elems: Any,\n"
    "                     reverse: bool = ..., axis: int = ...) -> _T: ...",
    "lax.stop_gradient": "def stop_gradient(x: _T) -> _T: ...",
    "lax.optimization_barrier": "def optimization_barrier(operand: _T, /) -> _T: ...",
    # (a lambda's parameters are unknown to pyright where a function takes any number)
    "tree.map": "\n".join(f"""@overload
def map(f: Callable[[{", ".join(["Any"] * n)}], Any], tree: Any, {
    "".join(f"rest{i}: Any, " for i in range(1, n))}/, *, {_IS_LEAF}) -> Any: ..."""
                          for n in (1, 2, 3)) + f"""
@overload
def map(f: Callable[..., Any], tree: Any, *rest: Any, {_IS_LEAF}) -> Any: ...""",
    "tree.reduce": f"""@overload
def reduce(function: Callable[[_T, Any], _T], tree: Any, *, {_IS_LEAF}) -> _T: ...
@overload
def reduce(function: Callable[[_T, Any], _T], tree: Any, initializer: _T, {_IS_LEAF}
           ) -> _T: ...""",
    "numpy.where": """@overload
def where(condition: ArrayLike, x: None = ..., y: None = ..., /, *, size: int | None = ...,
          fill_value: Any = ...) -> tuple[Array, ...]: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /, *, size: int | None = ...,
          fill_value: Any = ...) -> Array: ...""",
    **{f"numpy.atleast_{n}d": f"""@overload
def atleast_{n}d(ary: ArrayLike, /) -> Array: ...
@overload
def atleast_{n}d(first: ArrayLike, second: ArrayLike, /, *arys: ArrayLike) -> list[Array]: ..."""
       for n in (1, 2, 3)},
}

_PAIR, _TRIPLE = "tuple[Array, Array]", "tuple[Array, Array, Array]"
RESULTS = {
    "device_get": "Any", "make_mesh": "Mesh", "devices": "list[Device]",
    "local_devices": "list[Device]",
    "numpy.bincount": "Array", "numpy.trim_zeros": "Array", "numpy.gradient": "Array | list[Array]",
    "numpy.einsum_path": "tuple[list[tuple[int, ...]], Any]", "numpy.frompyfunc": "ufunc",
    "numpy.result_type": "np.dtype[Any]", "numpy.promote_types": "np.dtype[Any]",
    "numpy.polyfit": "Array | tuple[Array, ...]", "numpy.unique_all": "_UniqueAllResult",
    "numpy.unique_counts": "_UniqueCountsResult", "numpy.unique_inverse": "_UniqueInverseResult",
    "numpy.linalg.eig": "EigResult", "numpy.linalg.eigh": "EighResult",
    "numpy.linalg.slogdet": "SlogdetResult", "numpy.linalg.qr": "QRResult | Array",
    "lax.dtype": "np.dtype[Any]", "lax.dynamic_index_in_dim": "Array", "lax.index_in_dim": "Array",
    "lax.ragged_dot_general": "Array", "lax.scaled_dot": "Array", "lax.sort_key_val": _PAIR,
    "lax.top_k": "list[Array]", "lax.conv_dimension_numbers": "ConvDimensionNumbers",
    "lax.linalg.householder_product": "Array", "lax.linalg.schur": "list[Array]",
    "nn.scaled_matmul": "Array", "nn.scaled_dot_general": "Array",
    "random.key_dtype": "Any", "random.key_impl": "Any", "random.key": "Array",
    "scipy.stats.mode": "_ModeResult",
    "scipy.linalg.expm_frechet": f"Array | {_PAIR}", "scipy.linalg.funm": f"Array | {_PAIR}",
    "scipy.linalg.schur": _PAIR, "scipy.linalg.eigh_tridiagonal": f"Array | {_PAIR}",
    "tree.structure": "PyTreeDef", "tree.flatten": "tuple[list[Any], PyTreeDef]",
    "tree.flatten_with_path": "tuple[list[tuple[tuple[Any, ...], Any]], PyTreeDef]"}


# functions whose result depends on an argument: ({parameter: type}, result) in order; "name!": it
# must be given, by its name.  A last form takes any value.
def _flag(name: str, with_it: str, without: str, default: bool = False
          ) -> list[tuple[dict[str, str], str]]:
    return [({name: f"Literal[{default}]"}, with_it if default else without),
            ({f"{name}!": f"Literal[{not default}]"}, without if default else with_it)]


OVERLOADS = {
    "numpy.unique": [
        ({n: "Literal[False]" for n in ("return_index", "return_inverse", "return_counts")},
         "Array"),
        *(({f"{n}!": "Literal[True]"}, "tuple[Array, ...]")
          for n in ("return_index", "return_inverse", "return_counts"))],
    "numpy.intersect1d": _flag("return_indices", _TRIPLE, "Array"),
    "numpy.linalg.svd": _flag("compute_uv", "SVDResult", "Array", True),
    "numpy.linalg.qr": [
        ({"mode": "Literal['reduced', 'complete', 'full']"}, "QRResult"),
        ({"mode!": "Literal['r']"}, "Array"), ({"mode!": "Literal['raw']"}, "QRResult")],
    "lax.linalg.svd": _flag("compute_uv", _TRIPLE, "Array", True),
    "lax.linalg.qr": _flag("pivoting", _TRIPLE, _PAIR),
    "lax.sort": [({"operand": "Array"}, "Array"), ({"operand": "Sequence[Array]"},
                                                   "tuple[Array, ...]")],
    "nn.dot_product_attention": _flag("return_residual", _PAIR, "Array"),
    "nn.logsumexp": _flag("return_sign", _PAIR, "Array"),
    "scipy.special.logsumexp": _flag("return_sign", _PAIR, "Array"),
    "scipy.linalg.eigh": _flag("eigvals_only", "Array", _PAIR),
    "scipy.linalg.svd": _flag("compute_uv", _TRIPLE, "Array", True),
    "scipy.linalg.lu": _flag("permute_l", _PAIR, _TRIPLE),
    "scipy.linalg.qr": _flag("pivoting", _TRIPLE, "tuple[Array, ...]"),
    "scipy.linalg.hessenberg": _flag("calc_q", _PAIR, "Array"),
}

# what takes more than arrays, though its docstring begins so: function -> parameters, () all
LOOSE: dict[str, tuple[str, ...]] = {
    "numpy.asarray": (), "numpy.array": (), "numpy.broadcast_shapes": (), "numpy.array_equal": (),
    "numpy.array_equiv": (), "numpy.array_repr": ("arr",), "numpy.array_str": ("a",),
    "numpy.iscomplexobj": (), "numpy.isrealobj": (), "numpy.ndim": (), "numpy.shape": (),
    "numpy.size": ("a",), "numpy.unravel_index": ("shape",), "nn.initializers.ones": ("shape",),
    "nn.initializers.zeros": ("shape",), "scipy.signal.csd": ("y",), "scipy.signal.detrend": (),
}

_AXIS = "int | Sequence[int] | None"
PARAMETERS = {
    "dtype": "DTypeLike | None", "preferred_element_type": "DTypeLike | None", "axis": _AXIS,
    "axes": "Any", "keepdims": "bool", "key": "ArrayLike", "decimals": "int", "k": "Any",
    "unique_indices": "bool", "indices_are_sorted": "bool"}
