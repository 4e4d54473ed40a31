"""Placing arrays: device_put, and arrays made of pieces.

A CPU device is a name: all of them share memory, so putting an array on one, or spreading it over
a mesh of them, gives it a label (Array.aval.placement) and moves nothing.  Start reading at
`device_put`.
"""
from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, is_arraylike, shape_of
from calque.core.config import config
from calque.core.errors import UnexpectedTracerError, explain
from calque.core.formats import (
    AUTO,
    Format,
    check_format,
    layout_of,
    order_of,
    sharding_in,
)
from calque.core.memories import Space
from calque.core.mesh import AbstractMesh, Mesh, get_mesh
from calque.core.processes import agree
from calque.core.sharding import (
    IndivisibleError,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
)
from calque.core.trace import Tracer, current
from calque.core.types import Ndarray, Shape
from calque.dispatch import strings, transfers
from calque.dispatch.array import Array, current_device, from_numpy, to_array
from calque.dispatch.devices import devices
from calque.dispatch.laid import (
    LaidArray,
    copied,
    memory_of,
    of_memory,
    relaid,
)
from calque.dispatch.sharded.partial_arrays import (
    PartialArray,
    of_summands,
    refuse_index,
)
from calque.dispatch.sharded.parts import places
from calque.dispatch.sharded.spanning import GlobalArray, local_index, local_shape, piece_of
from calque.dispatch.sharded.spanning import made as spanning_made
from calque.primitives.placement import constrain, layout_constraint_p, sharding_constraint_p
from calque.primitives.random import impl_of, random_unwrap_p, random_wrap_p
from calque.runtime import Buffer, Device
from calque.trees import util as tree_util
from calque.trees.differences import mismatches

__all__ = ["device_put", "make_array_from_callback", "make_array_from_process_local_data",
           "make_array_from_single_device_arrays"]


def check_rank(what: str, shape: Sequence[int], sharding: Any) -> None:
    """ValueError where a spec is longer than a shape."""
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
        raise ValueError(explain(
            f"{what} is incompatible with its sharding annotation {sharding!r}: Sharding "
            f"{sharding!r} is only valid for values of rank at least {len(sharding.spec)}, but was "
            f"applied to a value of rank {len(shape)}.", fix="shorten the spec."))


def check_divides(what: str, shape: Sequence[int], sharding: Sharding) -> None:
    """ValueError where an array of this shape cannot be spread so."""
    if not isinstance(sharding, NamedSharding):
        return
    check_rank(f"One of {what} args", shape, sharding)
    try:
        sharding.shard_shape(tuple(shape))
    except IndivisibleError as error:
        raise type(error)(explain(
            f"One of {what} args does not fit: {str(error).split('  Fix:')[0].strip()} - the mesh "
            "axes' size does not evenly divide it.",
            fix="pad the array, or split another dimension.")) from None


def check_devices(sharding: Sharding) -> None:
    """ValueError for shardings over several GPUs, which one process does not run; RuntimeError for
    another process's devices."""
    if not sharding.spans:
        for d in sharding._assignment:
            d.check_local()
    own = [d for d in sharding._assignment if d.is_local]
    found = {d.platform for d in own}
    if len(own) > 1 and found != {"cpu"}:
        raise ValueError(explain(
            f"{sharding!r} spreads arrays over {len(own)} devices of "
            f"{', '.join(sorted(found))}: a process runs programs on one GPU.",
            fix="start one process for each GPU, or use CPU devices."))


def labelled(x: Array, sharding: Sharding | None) -> Array:
    """The same memory with another label."""
    return Array(x._buffer.with_shape(x._buffer.shape), x.aval.plain.marked(sharding))


def _moved(x: Any, device: Device) -> Array:
    """An array in a device's memory; that of CPU devices is shared."""
    host = device.platform == "cpu"
    if type(x) is Array:
        if x._buffer.device is device or (host and x._buffer.device.is_host):
            return x
        words = x._numpy()
        if dtypes.is_key(x.dtype):
            return Array(Buffer.from_numpy(words, device), x.aval.plain)
        return from_numpy(words, x.weak_type, device)
    memory = current_device() if host and current_device().is_host else device
    if isinstance(x, np.ndarray):
        return from_numpy(x, device=memory, alias=True)
    if not is_arraylike(x):
        raise TypeError(explain(
            f"device_put: {x!r} of type {type(x).__name__} is not a valid JAX type.",
            fix="pass arrays, numbers and trees of them."))
    dtypes.check_fits(x)
    return from_numpy(np.asarray(x, dtype_of(x)), aval_of(x).weak_type, memory)


def _put(x: Any, where: Any) -> Any:
    return transfers.explicit(lambda: _placed(x, where)) if config.guards else _placed(x, where)


def _placed(x: Any, where: Any) -> Any:
    if isinstance(where, Format):
        return _formatted(x, where)
    if isinstance(where, Space):
        where = _in_memory(x, where)
    if type(x) is LaidArray:
        return _laid_placed(x, where)
    if isinstance(x, Tracer):
        if where is None:
            return x
        check_divides("device_put", shape_of(x), where)
        source = _source(x, where)
        return x if source is None and isinstance(where, SingleDeviceSharding) else (
            constrain(x, where, source))
    if where is None and not strings.holds(x):
        return x if type(x) is Array else _moved(x, current_device())
    check_divides("device_put", shape_of(x) if is_arraylike(x) else (), where)
    if strings.holds(x):
        return strings.placed(x, where)
    if where.spans:
        return _distribute(x, where)
    if type(x) is PartialArray or isinstance(where, NamedSharding) and where.unreduced:
        made = constrain(x if isinstance(x, Array) else _moved(x, where._assignment[0]), where)
        return spanning_made(made._buffer, made.aval.plain.marked(where))
    made = _moved(x, where._assignment[0])
    if made is not x:  # nobody else has it: its memory may be donated
        return Array(made._buffer, made.aval.plain.marked(where))
    return made if x.aval.placement == where else labelled(made, where)


def _source(x: Tracer, where: Sharding) -> Sharding | None:
    """Where a traced value is that is to be moved to other devices: while it is differentiated or
    mapped; a program's values are where the program runs."""
    trace: Any = current.get()
    while trace is not None:
        if trace.kind == "stage":
            return None
        trace = trace.parent
    value: Any = x
    while isinstance(value, Tracer):
        value = getattr(value, "primal", getattr(value, "value", None))
    placed = aval_of(value).placement
    have = placed or SingleDeviceSharding(current_device())
    if have.spans or where.spans or isinstance(getattr(where, "mesh", None), AbstractMesh):
        return None
    if placed is None and have._assignment[0] in where._assignment:
        return None
    return None if have._assignment == where._assignment else have


def _across(x: Any, *, sharding: Sharding, source: Sharding) -> Any:
    """What a constraint that moves does, outside of programs."""
    return _placed(x, sharding)


sharding_constraint_p.opened = lambda params: _across if "source" in params else None


def _distribute(x: Any, where: NamedSharding) -> Array:
    """A value over the devices of several processes, which all have the same of it."""
    if isinstance(x, Array) and x.sharding.spans:
        return constrain(x, where)
    assert isinstance(where.mesh, Mesh)
    a = x if isinstance(x, Array) else _moved(x, where.mesh.local_devices[0])
    value = np.ascontiguousarray(a._numpy())
    digest = hashlib.sha256(value.tobytes()).hexdigest()
    told = f"device_put of {a.aval.short()}, values begin {value.reshape(-1)[:3].tolist()}"
    try:
        agree(f"device_put {a.aval.short()} {digest}", "device_put", told,
              tuple(sorted(where.mesh.grid.ranks)))  # type: ignore[union-attr]
    except ValueError as error:  # JAX's class
        raise AssertionError(explain(
            f"{type(x)} passed to device_put is not the same on each process: {error}",
            fix="pass the same value in each, or use make_array_from_process_local_data.")
        ) from None
    return piece_of(a, where)


def _in_memory(x: Any, space: Space) -> Any:
    """The sharding of an array in another memory."""
    if isinstance(x, Tracer):  # memories are one: a label of results only
        return None
    have = x.sharding if isinstance(x, Array) else SingleDeviceSharding(current_device())
    return have.with_memory_kind(space.kind)


def _formatted(x: Any, given: Format) -> Any:
    """What device_put gives for a Format: an array that is spread and lies so."""
    if given.layout is AUTO:
        raise ValueError(explain(
            "sharding and layout in `Layout` instance should be concrete. Got layout: "
            f"{given} for input {aval_of(x).short()}", fix="give a Layout, or None."))
    order = order_of("device_put", given.layout, shape_of(x))
    if isinstance(x, Tracer):
        made = _placed(x, place(given.sharding))
        return made if given.layout is None else layout_constraint_p.bind(
            made, layout=given.layout)
    if order is None and type(x) is LaidArray:
        x = to_array(x)
    return relaid(_placed(x, place(given.sharding)), order)


def _laid_placed(x: LaidArray, where: Any) -> Any:
    """An array that is not row-major elsewhere, as it lies."""
    if where is None or x.aval.placement == where:
        return x
    check_divides("device_put", x.shape, where)
    if where.spans or getattr(where, "unreduced", None):
        return _placed(to_array(x), where)
    memory = _moved(labelled(memory_of(x), None), where._assignment[0])
    return of_memory(memory, x, where)


def place(given: Any) -> Any:
    """A Sharding (None: nowhere in particular) from what device_put accepts."""
    if given is None or isinstance(given, (Space, Format)):
        return given
    if isinstance(given, str):
        with contextlib.suppress(RuntimeError):
            given = devices(given)[0]
    if isinstance(given, Device):
        given.check_local()
        return SingleDeviceSharding(given)
    if isinstance(given, PartitionSpec):
        if get_mesh().empty:
            raise ValueError(explain(
                "Please set a mesh via `jax.set_mesh` if a PartitionSpec is passed to device_put",
                fix="pass NamedSharding(mesh, spec), or call inside `with calque.set_mesh(mesh)`."))
        given = NamedSharding(get_mesh(), given)
    if not isinstance(given, Sharding):
        raise ValueError(explain(
            f"`jax.device_put` only accepts `None`, a Sharding, a Device, a PartitionSpec or a "
            f"tree of these values. Received invalid value: {given!r}",
            fix="use one of calque.devices(), or NamedSharding(mesh, spec)."))
    check_devices(given)
    return given


def is_place(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, Device, PartitionSpec, str, Space, Format))


def prefix_leaves(what: str, given: Any, values: Any) -> list[Any]:
    """What a tree prefix of places says of each leaf."""
    return tree_util.prefix_leaves(given, values, is_place, lambda _: explain(
        f"{what} specification must be a tree prefix of the corresponding value; "
        f"{mismatches(what, given, values, is_place)}",
        fix="give one place for the whole value, or one for each part in its structure."))


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False,
               may_alias: Any = None) -> Any:
    """A tree of arrays on a device or spread over a mesh; aligned NumPy memory is shared.

    Args:
      x: tree of arrays and numbers.
      device: where to: a Device, a Sharding, a PartitionSpec over the context's mesh, a backend's
        name, a Format, which says how it lies in memory, too, or a tree prefix of x of these; None:
        the default device, which commits to nothing.
      src: accepted for compatibility.
      donate: whether what is put elsewhere is dead afterwards (a tree prefix of x).
      may_alias: whether the result may share memory; False: it is a copy; None: where it can (a
        tree prefix of x).

    Returns:
      The tree, with Arrays as leaves.

    Raises:
      TypeError: a leaf is no array or number.
      ValueError: `device` is none of these, its tree is no prefix, a spec is longer than an array
        has dimensions, its axes do not divide a dimension, a layout is not of the array's rank, or
        donate and may_alias are both True.

    Example:
      >>> import calque, numpy as np
      >>> calque.device_put(np.ones(2, np.float32))
      Array([1., 1.], dtype=float32)
    """
    plain = donate is False and may_alias is None
    if plain and (is_place(device) or tree_util.treedef_is_leaf(tree_util.flatten(device)[1])):
        where = place(device)
        return tree_util.tree_map(lambda v: _put(v, where), x)
    leaves, tree = tree_util.flatten(x)
    places = [place(p) for p in prefix_leaves("device_put device", device, x)]
    if plain:
        return tree.unflatten([_put(v, p) for v, p in zip(leaves, places)])
    given, aliases = (prefix_leaves(f"device_put {name}", flags, x)
                      for name, flags in (("donate", donate), ("may_alias", may_alias)))
    return tree.unflatten([_put_so(*each) for each in zip(leaves, places, given, aliases)])


def _put_so(x: Any, where: Any, donate: Any, may_alias: Any) -> Any:
    """_put, with memory of its own or in exchange for x."""
    if donate and may_alias:
        raise ValueError(explain("may_alias and donate cannot be True at the same time.",
                                 fix="leave one of them out."))
    made = _put(x, where)
    own = (Array, LaidArray)
    if type(x) not in own or type(made) not in own:
        return made
    if donate and made is not x:
        x.delete()
    elif may_alias is False:
        made = copied(made)
    return made


# ---- arrays made of pieces
def _pieced(shape: Sequence[int], sharding: Sharding, dtype: Any, pieces: dict[Any, Any]) -> Array:
    """An array of the pieces of its parts."""
    check_divides("make_array", shape, sharding)
    if isinstance(sharding, NamedSharding) and sharding.unreduced:
        return of_summands(shape, sharding, dtype, pieces)
    if not sharding.spans:
        whole = np.empty(tuple(shape), dtype)
        for device, index in sharding.devices_indices_map(tuple(shape)).items():
            whole[index] = pieces[device]
        return strings.placed(whole, sharding) if strings.holds(whole) else labelled(
            from_numpy(whole), sharding)
    assert isinstance(sharding, NamedSharding)
    whole = np.empty(local_shape(shape, sharding), dtype)
    start = [o.start for o in local_index(shape, sharding)]
    for device, index in sharding.addressable_devices_indices_map(tuple(shape)).items():
        whole[tuple(s if s == slice(None) else slice(s.start - o, s.stop - o)
                    for s, o in zip(index, start))] = pieces[device]
    return _of_piece(whole, shape, sharding)


def _of_piece(piece: Ndarray, shape: Sequence[int], sharding: NamedSharding) -> Array:
    """An array that spans processes, of this one's piece."""
    a = from_numpy(piece)
    return GlobalArray(a._buffer, a.aval.update(shape=tuple(shape)).marked(sharding))


def _global_shape(shape: Any) -> Shape:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def make_array_from_callback(shape: Sequence[int], sharding: Sharding,
                             data_callback: Callable[[Any], Any], dtype: Any = None) -> Array:
    """An array whose parts a function gives.

    Args:
      shape: of the whole array.
      sharding: how it is spread; a Format says how it lies in memory, too.
      data_callback: called with the index of a part (a tuple of slices), returns an array like it;
        once for equal parts, and only for those of this process's devices.
      dtype: of the array; None: that of the first part.

    Returns:
      An Array.

    Raises:
      ValueError: a part has the wrong shape, or the sharding does not divide the shape.

    Example:
      >>> import calque, numpy as np
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> where = NamedSharding(Mesh(calque.devices()[:1], ("x",)), P("x"))
      >>> calque.make_array_from_callback((4,), where, lambda index: np.arange(4.0)[index])
      Array([0., 1., 2., 3.], dtype=float32)
    """
    shape = _global_shape(shape)
    check_format("make_array_from_callback", sharding)
    order = order_of("make_array_from_callback", layout_of(sharding), shape)
    sharding = sharding_in(sharding)
    check_divides("make_array_from_callback", shape, sharding)
    refuse_index("make_array_from_callback", sharding)
    want = sharding.shard_shape(shape)
    known: dict[Any, Any] = {}
    pieces = {}
    _check_part("make_array_from_callback", sharding)
    for device, index, _ in places(sharding, shape):
        key = tuple((s.start, s.stop) for s in index)
        if key not in known:
            given = data_callback(index)
            if isinstance(given, Tracer):
                raise UnexpectedTracerError(explain(
                    "jax.make_array_from_callback cannot be called within a traced context: the "
                    f"callback gives a traced value {given.aval}.",
                    fix="call it outside of jit and the like."))
            if not strings.holds(given) and dtypes.is_key(dtype_of(given)):  # by their words
                made = _of_key_words(given, shape, sharding, data_callback)
                return made if order is None else relaid(made, order)
            piece = known[key] = np.asarray(given)
            if piece.shape != want:
                raise ValueError(explain(
                    f"make_array_from_callback: Expected shard shape {want} doesn't match the "
                    f"single device array shape {piece.shape}, which the callback returned for "
                    f"index {index}.",
                    fix="return the part that the index names: data[index]."))
        pieces[device] = known[key]
    first = next(iter(pieces.values()))
    made = _pieced(shape, sharding, dtype or first.dtype, pieces)
    return made if order is None else relaid(made, order)


def _of_key_words(one: Array, shape: Sequence[int], sharding: Sharding,
                  data_callback: Callable[[Any], Any]) -> Array:
    """An array of the keys that a callback gives; one: of them."""
    size = random_unwrap_p.bind(one).shape[one.ndim:]
    words = make_array_from_callback(
        (*shape, *size), sharding, lambda index: random_unwrap_p.bind(
            data_callback(index[:len(shape)])))
    dtype: Any = one.dtype
    return random_wrap_p.bind(words, **impl_of(dtype))


def make_array_from_single_device_arrays(shape: Sequence[int], sharding: Sharding,
                                         arrays: Sequence[Array], *, dtype: Any = None) -> Array:
    """An array of parts that lie on their devices.

    Args:
      shape: of the whole array.
      sharding: how it is spread.
      arrays: one Array for each device of this process, committed to it.
      dtype: of the array; None: that of the parts.

    Returns:
      An Array.

    Raises:
      ValueError: there are too few or too many arrays, one has the wrong shape or lies on another
        device.
      TypeError: arrays is no sequence of Arrays.

    Example:
      >>> import calque
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> device = calque.devices()[0]
      >>> where = NamedSharding(Mesh([device], ("x",)), P("x"))
      >>> calque.make_array_from_single_device_arrays(
      ...     (2,), where, [calque.device_put(calque.numpy.ones(2), device)])
      Array([1., 1.], dtype=float32)
    """
    shape = _global_shape(shape)
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(explain(
            "jax.make_array_from_single_device_arrays `arrays` argument must be a list or tuple of "
            f"Arrays, got {type(arrays)}.", fix="pass [x.data for x in shards]."))
    arrays = [to_array(a) if type(a) is LaidArray else a for a in arrays]
    if not all(type(a) is Array or strings.holds(a) for a in arrays):
        raise ValueError(explain(
            "jax.make_array_from_single_device_arrays requires a list of concrete arrays as input, "
            f"got {[type(a).__name__ for a in arrays]}.",
            fix="call it outside of jit and the like."))
    if not arrays and dtype is None:
        raise ValueError(explain(
            "If the Array has no addressable shards, `dtype` must be provided via the `dtype` "
            "argument to `jax.make_array_from_single_device_arrays`.", fix="dtype=jnp.float32."))
    if dtype is not None and any(a.dtype != dtype for a in arrays):
        raise ValueError(explain(
            "If `dtype` is provided to `jax.make_array_from_single_device_arrays`, it must match "
            f"the dtype of the addressable shards. Got dtype={dtype} and {arrays[0].dtype}.",
            fix="leave dtype out."))
    for a in arrays:
        if len(a.devices()) != 1:
            raise ValueError(explain(
                "When making an array from single-device arrays the input arrays must have one "
                f"shard each. An argument array had {len(a.devices())} shard(s).",
                fix="pass [x.data for x in array.addressable_shards]."))
    check_divides("make_array_from_single_device_arrays", shape, sharding)
    _check_part("make_array_from_single_device_arrays", sharding)
    want, count = sharding.shard_shape(shape), len(sharding.addressable_devices)
    if len(arrays) != count:
        raise ValueError(explain(
            f"make_array_from_single_device_arrays: expected {count} single-device arrays, one for "
            f"each device of {sharding!r}, got {len(arrays)}.", fix="pass one for each device."))
    if arrays and dtypes.is_key(arrays[0].dtype):
        words = [random_unwrap_p.bind(a) for a in arrays]
        made = make_array_from_single_device_arrays(
            (*shape, *words[0].shape[len(shape):]), sharding, words)
        kind: Any = arrays[0].dtype
        return random_wrap_p.bind(made, **impl_of(kind))
    pieces = {}
    for a in arrays:
        (device,) = a.devices()
        if a.shape != want or device not in sharding.addressable_devices:
            raise ValueError(explain(
                f"make_array_from_single_device_arrays: got an array of shape {a.shape} on "
                f"{sorted(a.devices(), key=str)}; parts of shape {want} on the devices of "
                f"{sharding!r} are expected.",
                fix="put each part on its device with calque.device_put."))
        pieces[device] = np.asarray(a) if strings.holds(a) else a._numpy()
    if len(pieces) != count:
        raise ValueError(explain(
            "make_array_from_single_device_arrays: several arrays lie on one device.",
            fix="put each part on its own device with calque.device_put."))
    return _pieced(shape, sharding, dtype or arrays[0].dtype, pieces)


def make_array_from_process_local_data(sharding: Any, local_data: Any,
                                       global_shape: Any = None) -> Array:
    """An array of what each process has of it: all, where there is one process.

    Args:
      sharding: how it is spread: what `device_put` takes.
      local_data: tree of NumPy arrays: of a dimension that is split between processes this one's
        part, or all of it where global_shape says that it is.
      global_shape: of the whole array (a tree prefix of shapes); None: the processes' data
        together.

    Returns:
      An Array, or a tree of them.

    Raises:
      ValueError: global_shape does not go with the data, or the sharding does not divide it.

    Example:
      >>> import calque, numpy as np
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> where = NamedSharding(Mesh(calque.devices()[:1], ("x",)), P("x"))
      >>> calque.make_array_from_process_local_data(where, np.ones(2, np.float32))
      Array([1., 1.], dtype=float32)
    """
    sharding = place(sharding)
    leaves, tree = tree_util.flatten(local_data)

    def one(data: Any, whole: Any) -> Array:
        data = np.asarray(data)
        if sharding.spans:
            assert isinstance(sharding, NamedSharding)
            return _of_local(data, sharding, whole)
        if whole is not None and _global_shape(whole) != data.shape:
            raise ValueError(explain(
                f"make_array_from_process_local_data: global_shape {tuple(whole)} is not "
                f"that of the data, {data.shape}, and the sharding is of one process.",
                fix="leave global_shape out."))
        return device_put(data, sharding)

    shapes = tree_util.prefix_leaves(global_shape, local_data, _is_shape, lambda error: explain(
        f"make_array_from_process_local_data: global_shape {global_shape} is no tree prefix of the "
        f"data: {error}", fix="give one shape, or one for each array."))
    return tree.unflatten(list(map(one, leaves, shapes)))


def _is_shape(x: Any) -> bool:
    return x is None or isinstance(x, (tuple, list)) and all(
        n is None or isinstance(n, (int, np.integer)) for n in x)


def _of_local(data: Ndarray, sharding: NamedSharding, given: Any) -> Array:
    """An array of each process's data; of dimensions that have their whole size it is cut out."""
    _check_part("make_array_from_process_local_data", sharding)
    check_rank("The data of make_array_from_process_local_data", data.shape, sharding)
    grid = sharding.mesh.grid  # type: ignore[union-attr]
    assert grid is not None
    counts = [math.prod(grid.count(n) for n in names) for names in sharding.between]
    counts += [1] * (data.ndim - len(counts))
    shape = tuple(n * c for n, c in zip(data.shape, counts)) if given is None else (
        _global_shape(given))
    if len(shape) != data.ndim or any(
            n not in (whole, whole // c) for n, whole, c in zip(data.shape, shape, counts)):
        raise ValueError(explain(
            f"make_array_from_process_local_data: data of shape {data.shape} is no process's part "
            f"of an array of shape {shape} over {sharding!r}.",
            fix="pass the rows of this process's devices, or the whole array with global_shape."))
    check_divides("make_array_from_process_local_data", shape, sharding)
    index = local_index(shape, sharding)
    cut = tuple(i if n == whole else slice(None) for i, n, whole in zip(index, data.shape, shape))
    return _of_piece(data[cut], shape, sharding)


def local_part(x: Array) -> Array:
    """This process's piece of an array that spans processes, over its devices."""
    sharding = x.sharding
    assert isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh)
    aval = x.aval.plain.update(shape=local_shape(x.shape, sharding))
    where = NamedSharding(sharding.mesh.local_mesh, sharding.spec)
    return Array(x._buffer.with_shape(x._buffer.shape), aval.marked(where))


def _check_part(what: str, sharding: Sharding) -> None:
    """ValueError where this process has none of the devices."""
    if not sharding.has_addressable_devices:
        raise ValueError(explain(
            f"{what}: this process has no device of {sharding!r}.",
            fix="call it in the processes that have some."))
