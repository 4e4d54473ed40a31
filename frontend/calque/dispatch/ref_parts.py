"""Parts of references: `ref.at[index]`, `ref.reshape(...)`, `ref.T`, `ref.bitcast(dtype)`.

A View names a reference (or a view of one) and how what it holds is seen.  Reading reads the
reference, writing writes into it, so a view keeps nothing of its own.  As an argument it is a tree
of the reference and the index's arrays; where an argument is mapped or scanned, it is refused
(`refuse_views`), for a row of the reference is no row of the part.  Start reading at `View`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.avals import aval_of, shape_of
from calque.core.dtypes import canonical
from calque.core.errors import explain
from calque.core.lists import as_tuple, flagged
from calque.core.refs import Ref
from calque.core.trace import Tracer
from calque.core.types import Shape
from calque.dispatch.array import Array
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.trees import util as tree_util


def _is_computed(item: Any) -> bool:
    """Whether an item of an index is an array, or `ds` with a start that is one."""
    at = item if isinstance(item, slice) else getattr(item, "start", item)
    return isinstance(at, (Array, Tracer, np.ndarray))


class View:
    """A part of a reference: reading it reads, writing it writes there; made by `ref.at[index]`.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> ref = calque.new_ref(jnp.arange(4))
      >>> tail = ref.at[2:]
      >>> tail[0] = 10
      >>> tail[...], ref
      (Array([10,  3], dtype=int32), Ref([ 0,  1, 10,  3], dtype=int32))
    """

    __slots__ = ("arrays", "index", "ref")

    def __init__(self, ref: Any, index: Any) -> None:
        self.ref, self.index = ref, index
        # which items of the index are arrays; kept where something else stands for them
        self.arrays = tuple(_is_computed(x) for x in as_tuple(index))

    def _part(self) -> Any:
        return self.ref[self.index]

    def _put(self, value: Any) -> None:
        self.ref[self.index] = value

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return shape_of(self._part())

    @property
    def dtype(self) -> Any:
        """Of the elements."""
        return aval_of(self._part()).dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return aval_of(self._part()).size

    @property
    def at(self) -> At:
        """`view.at[index]`: a part of the part."""
        return At(self)

    @property
    def T(self) -> View:  # noqa: N802
        """The part with its axes in reverse order."""
        return transposed(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        whole: Any = Ref(self._part())
        return iter(whole)

    def __getitem__(self, idx: Any) -> Any:
        return self.get(idx)

    def __setitem__(self, idx: Any, value: Any) -> None:
        self.set(value, idx)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(explain(f"a part of a reference of type {_root(self).abstract} is no "
                                "array.", fix="read it: view[...]."))

    def get(self, idx: Any = ()) -> Any:
        """view[idx], an array."""
        whole: Any = Ref(self._part())
        return whole[idx]

    def set(self, value: Any, idx: Any = ()) -> None:
        """Set view[idx] to value."""
        self.swap(value, idx)

    def swap(self, value: Any, idx: Any = ()) -> Any:
        """Set view[idx] to value; what it was."""
        part = Ref(self._part())
        before = part.swap(value, idx)  # type: ignore[attr-defined]
        self._put(part[...])  # type: ignore[index]
        return before

    def addupdate(self, x: Any, idx: Any = ()) -> None:
        """Add x to view[idx]."""
        part = Ref(self._part())
        part.addupdate(x, idx)  # type: ignore[attr-defined]
        self._put(part[...])  # type: ignore[index]

    def reshape(self, *shape: Any) -> View:
        """The same elements in another shape, as a part that is read and written."""
        return reshaped(self, *shape)

    def transpose(self, *permutation: Any) -> View:
        """The same elements with the axes in another order."""
        return transposed(self, *permutation)

    def bitcast(self, dtype: Any) -> View:
        """The same bits as elements of another dtype."""
        return bitcast(self, dtype)

    def __repr__(self) -> str:
        return f"View({self.ref}, {self.index})"


class _Whole(View):
    """All of a reference in another form, which is its index."""

    __slots__ = ()

    def __init__(self, ref: Any, index: Any) -> None:
        self.ref, self.index, self.arrays = ref, index, (False,) * len(index)


class _Reshaped(_Whole):
    """... in another shape."""

    __slots__ = ()

    def _part(self) -> Any:
        return sh.reshape(self.ref[...], self.index)

    def _put(self, value: Any) -> None:
        self.ref[...] = sh.reshape(value, self.ref.shape)


class _Transposed(_Whole):
    """... with its axes in another order."""

    __slots__ = ()

    def _part(self) -> Any:
        return sh.transpose(self.ref[...], self.index)

    def _put(self, value: Any) -> None:
        self.ref[...] = sh.transpose(value, tuple(int(i) for i in np.argsort(self.index)))


class _Bitcast(_Whole):
    """... as elements of another dtype; what is narrower stands in more rows."""

    __slots__ = ()

    def _part(self) -> Any:
        return _same_bits(self.ref[...], self.index[0])

    def _put(self, value: Any) -> None:
        self.ref[...] = _same_bits(value, self.ref.dtype)


def _same_bits(x: Any, dtype: np.dtype[Any]) -> Any:
    """The bits of x as dtype; the last axis but one holds the parts, least significant first."""
    old, new, rank = aval_of(x).dtype.itemsize, dtype.itemsize, len(shape_of(x))
    if new < old:  # [..., n, m] -> [..., n, m, parts] -> [..., n * parts, m]
        x = ew.bitcast_convert_type(x, new_dtype=dtype)
        x = sh.transpose(x, (*range(rank - 1), rank, rank - 1))
        return sh.reshape(x, (*x.shape[:rank - 2], x.shape[rank - 2] * (old // new), x.shape[-1]))
    if new > old:
        *outer, n, m = shape_of(x)
        x = sh.reshape(x, (*outer, n * old // new, new // old, m))
        x = sh.transpose(x, (*range(rank - 1), rank, rank - 1))
    return ew.bitcast_convert_type(x, new_dtype=dtype)


def reshaped(ref: Any, *shape: Any) -> View:
    """A reference, or a part of one, in another shape; one size may be -1."""
    sizes = [int(n) for n in as_tuple(shape[0] if len(shape) == 1 else shape)]
    size = int(np.prod(ref.shape, dtype=np.int64))
    known = int(np.prod([n for n in sizes if n != -1], dtype=np.int64))
    if sizes.count(-1) == 1 and known and size % known == 0:
        sizes[sizes.index(-1)] = size // known
    if min(sizes, default=0) < 0 or int(np.prod(sizes, dtype=np.int64)) != size:
        raise ValueError(explain(
            f"cannot reshape shape {tuple(ref.shape)} into shape {tuple(sizes)}",
            fix=f"choose sizes whose product is {size}; one may be -1."))
    return _Reshaped(ref, tuple(sizes))


def transposed(ref: Any, *permutation: Any) -> View:
    """A reference, or a part of one, with its axes in another order; default: in reverse."""
    rank = len(ref.shape)
    order = permutation[0] if len(permutation) == 1 and permutation[0] is not None else permutation
    axes = tuple(int(i) for i in as_tuple(order)) if permutation[:1] not in ((), (None,)) else (
        tuple(reversed(range(rank))))
    axes = tuple(i + rank if i < 0 else i for i in axes)
    if sorted(axes) != list(range(rank)):
        raise ValueError(explain(
            f"transpose of a reference of shape {tuple(ref.shape)} by {axes}, which names not "
            "each axis once.", fix=f"give a permutation of range({rank})."))
    return _Transposed(ref, axes)


def bitcast(ref: Any, dtype: Any) -> View:
    """The bits of a reference, or of a part of one, as elements of another dtype: where it is
    narrower, the last axis but one grows, where it is wider, that shrinks."""
    want, shape = canonical(dtype), tuple(ref.shape)
    old, new = ref.dtype.itemsize, want.itemsize
    if old != new and (len(shape) < 2 or shape[-2] * old % new):
        raise ValueError(explain(
            f"bitcast of a reference of shape {shape} from {ref.dtype} to {want}.",
            fix="between widths there must be two axes, the last but one of a size that the new "
                "width divides."))
    return _Bitcast(ref, (want,))


class At:
    """What `ref.at` is: indexed, a View."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __getitem__(self, idx: Any) -> View:
        return View(self.ref, idx)


def _root(view: Any) -> Any:
    while isinstance(view, View):
        view = view.ref
    return view


# ---- as arguments
def refuse_views(name: str, args: Any) -> None:
    """TypeError where a tree of arguments of which a function gets rows holds a part of a
    reference: a row of the reference is no row of the part.  Parts of None are of no matter."""
    for path, x in tree_util.tree_flatten_with_path(
            args, is_leaf=lambda x: isinstance(x, View))[0]:
        if isinstance(x, View) and _root(x) is not None:
            raise TypeError(explain(
                f"TransformedRefs are not allowed in this context: {name} got a part of a "
                f"reference of type {_root(x).abstract}"
                f"{' at path ' + tree_util.keystr(path) if path else ''}.",
                fix="pass the whole reference, or close over the part."))


def _taken_apart(view: View) -> tuple[Any, Any]:
    """A view as a node of trees, so that functions take it as they take a reference: the reference
    and the index's arrays are its leaves."""
    items = as_tuple(view.index)
    fixed = tuple(None if a else (slice, x.start, x.stop, x.step) if isinstance(x, slice) else x
                  for x, a in zip(items, view.arrays))
    return (view.ref, *flagged(items, view.arrays)), (
        type(view), isinstance(view.index, tuple), fixed, view.arrays)


def _put_together(details: Any, children: Any) -> View:
    kind, several, fixed, arrays = details
    ref, *values = children
    given = iter(values)
    items = tuple(next(given) if a else
                  slice(*x[1:]) if isinstance(x, tuple) and x[:1] == (slice,) else x
                  for x, a in zip(fixed, arrays))
    made: View = kind(ref, items if several else items[0])
    made.arrays = arrays
    return made


for _node in (View, _Reshaped, _Transposed, _Bitcast):
    tree_util.register_pytree_node(_node, _taken_apart, _put_together)
