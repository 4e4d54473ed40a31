"""jit: trace once per signature, compile once per program, dispatch fast ever after.

`JitFunction.__call__` is the hot path: flatten, look up (treedef, avals, config), run, wrap.
Everything else (static arguments, donation, tracing inside other transformations, lower/compile)
is off it.  Start reading at `JitFunction.__call__`.
"""
from __future__ import annotations

import functools
import gc
import logging
import os
import sys
import time
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from calque.core import dtypes, trace
from calque.core.avals import ShapedArray, aval_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.memo import Memo, forget
from calque.core.naming import dress, name_of, signature_of
from calque.core.refs import AbstractRef
from calque.core.trace import Tracer, current, eval_trace
from calque.core.tracebacks import filter_traceback
from calque.core.types import Function
from calque.dispatch import donation, key_reuse, signatures, stages
from calque.dispatch.array import Array, current_device, on_one, to_array
from calque.dispatch.entry import Entry
from calque.dispatch.laid import laid_type
from calque.dispatch.mismatch import argument_names
from calque.dispatch.nonfinite import check_program
from calque.dispatch.orders import split
from calque.dispatch.positions import (
    Inline,
    as_ints,
    as_names,
    check_hashable,
    check_places,
    resolve,
)
from calque.dispatch.sharded import labels, spanning
from calque.dispatch.sharded.partition import has_own
from calque.dispatch.tracing import (
    ShapeDtypeStruct,
    check_arguments,
    check_callable,
    described,
    trace_with_refs,
    type_of,
)
from calque.primitives.call import call
from calque.runtime.watch import span, watchers
from calque.transforms.stage import replay
from calque.trees import util as tree_util

_READER_AT = (3, 30, 300, 3000)  # calls of structures without a reader, at which one is written
_log = logging.getLogger(__name__)
_current = current.get
_local_key = config.local_key.get


class JitFunction:
    """A function compiled per signature; see `jit`."""

    _internals: ClassVar[frozenset[str]] = frozenset()
    _in_formats: Any = None  # in_shardings where they say how arguments lie: sharded/placed.py

    def __init__(self, fun: Function, static_argnums: tuple[int, ...],
                 static_argnames: tuple[str, ...], donate_argnums: tuple[int, ...],
                 donate_argnames: tuple[str, ...], inline: bool, keep_unused: bool) -> None:
        self._fun = fun
        self._name = name_of(fun)
        self._static_argnums, self._static_argnames = static_argnums, static_argnames
        self._donate_argnums, self._donate_argnames = donate_argnums, donate_argnames
        self._inline, self._keep_unused = inline, keep_unused
        self.moves = False  # whether arguments go where the function says, wherever they are
        # pjit's: whether `with mesh:` places results, and they are whole on each device there
        self.over_entered = self.replicates = False
        self._plain = not (static_argnums or static_argnames)
        self._reader: signatures.Reader | None = None
        self._unread = 0  # calls that the reader did not know
        self._cache = Memo()
        self.share()
        if not JitFunction._internals:
            JitFunction._internals = frozenset(vars(self))
        dress(self, fun, attributes=True)

    def share(self, *more: Any) -> None:
        """Use the traces of other jitted functions of the same function and options; more: what
        else a trace depends on."""
        options = (self._static_argnums, self._static_argnames, self._donate_argnums,
                   self._donate_argnames, *more)
        self._cache = _shared_cache(self._fun, options)

    def __repr__(self) -> str:
        return f"<calque.jit of {self._name}>"

    def __reduce__(self) -> Any:
        """Pickled (cloudpickle) is what it was made of, and nothing that it has compiled."""
        return type(self), (self._fun, self._static_argnums, self._static_argnames,
                            self._donate_argnums, self._donate_argnames, self._inline,
                            self._keep_unused)

    @property
    def __signature__(self) -> Any:
        """The function's: inspect would take what has __get__ for a builtin."""
        found = signature_of(self._fun)
        if found is None:
            raise AttributeError("__signature__")
        return found

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    # ---- the hot path
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # written flat on purpose: each helper call costs 0.1 us of 5
        if _current() is not eval_trace or watchers:
            return self._call_slow_path(args, kwargs)
        now = config.process_key if _local_key() is None else config.key()
        read = None if self._reader is None else self._reader(args, kwargs, now)
        if read is None:
            if not self._plain:
                return self._call_unread(args, kwargs)
            read = signatures.read(self._name, args, kwargs, now)
            self._unread += 1
            if self._unread in _READER_AT:
                self._reader = signatures.reader(args, kwargs, read[0][0], calls=self._unread)
        key, buffers, leaves = read
        try:
            entry = self._cache.get(key)
        except Exception:  # a static argument that cannot be hashed, or compared
            return self._call_slow_path(args, kwargs)
        if entry is None:
            if not self._plain:
                return self._call_slow_path(args, kwargs)
            if config.jax_disable_jit:
                return self._fun(*args, **kwargs)
            try:
                entry = self._trace(key, self._fun, signatures.whole_tree(key[0]), key[2:],
                                    self._donate_argnums)
            except Exception as error:
                raise filter_traceback(error) from error.__cause__
        if entry.slow_path or (buffers and buffers[0].device is not entry.device):
            return self._run_slow_path(entry, leaves, buffers)
        outs = entry.run([*entry.consts, *buffers] if entry.consts else buffers)
        if entry.single:
            return Array(outs[0], entry.out_avals[0])
        return entry.out_tree.unflatten([Array(b, a) for b, a in zip(outs, entry.out_avals)])

    def _run_slow_path(self, entry: Entry, leaves: Sequence[Any], buffers: list[Any]) -> Any:
        """The first run of an entry, donation, other devices, checks of results, many of them."""
        if not entry.many or not gc.isenabled():
            return self._run(entry, leaves, buffers)
        # The results alone would start Python's collector of cycles several times a call, and one
        # time in a hundred it looks at the whole heap (half of what a call takes).
        gc.disable()
        try:
            return self._run(entry, leaves, buffers)
        finally:
            gc.enable()

    def _run(self, entry: Entry, leaves: Sequence[Any], buffers: list[Any]) -> Any:
        if entry.quick and (not buffers or buffers[0].device is entry.device):
            if entry.orders is None:
                outs = entry.run([*entry.consts, *buffers] if entry.consts else buffers)
                return entry.out_tree.unflatten(map(spanning.made, outs, entry.out_avals))
            buffers = entry.orders.buffers(leaves)
            if all([b.device is entry.device for b in buffers]):
                outs = entry.run([*entry.consts, *buffers])
                return entry.out_tree.unflatten(entry.orders.arrays(outs, entry.out_avals))
        arrays: list[Any]
        if ((entry.donates or entry.many) and (not buffers or buffers[0].device is entry.device)
                and all([type(leaves[i]) is Array for i in entry.given])  # (numbers: see below)
                and (not entry.given or len(set(map(id, buffers))) == len(buffers))):
            outs = entry.run([*entry.consts, *buffers] if entry.consts else buffers)
            arrays = [Array(b, a) for b, a in zip(outs, entry.out_avals)]
            return arrays[0] if entry.single else entry.out_tree.unflatten(arrays)
        if config.jax_no_execution:
            raise RuntimeError(explain(
                f"Attempted to execute the jitted function {self._name}, but 'no_execution' is "
                "set", fix="call it outside the no_execution context."))
        if entry.captures_tracers:
            escaped = next(c for c in entry.program.consts if isinstance(c, Tracer))
            raise trace.escaped_tracer_error(escaped, self._name)
        given = leaves
        if entry.orders is not None:
            buffers = entry.orders.buffers(leaves)
        for i in entry.given:  # a number's memory is that of other calls' numbers
            if type(leaves[i]) in (bool, int, float, complex):
                buffers[i] = to_array(leaves[i])._buffer
        if entry.uses is not None:
            leaves = [to_array(x) for x in entry.uses.operands(self._name, leaves)]
            buffers = [x._buffer for x in leaves]
        for b, x in zip(buffers, leaves):
            if b is None or b.is_deleted():
                raise RuntimeError(explain(
                    f"Array has been deleted with shape={aval_of(x)}.",
                    fix="do not use an array after donating or deleting it."))
        device = buffers[0].device if buffers else current_device()
        if any([b.device is not device for b in buffers]):
            device, buffers = on_one(leaves, buffers)
        donation.check(self._name, buffers, entry.given)
        note = (key_reuse.check(entry.program, [*entry.program.consts, *leaves])
                if config.jax_debug_key_reuse else None)
        reason = f"{self._name}: first call with these types"
        outs = entry.ready(device, reason)([*entry.consts, *buffers])
        for i in entry.given:
            buffers[i].delete()
            if entry.orders is not None and isinstance(given[i], Array):  # (maybe it was a copy)
                given[i].delete()
        make = spanning.made if entry.spans else Array
        arrays = ([make(b, a) for b, a in zip(outs, entry.out_avals)] if entry.orders is None else
                  entry.orders.arrays(outs, entry.out_avals))
        if entry.has_float0:
            arrays = [x if a.dtype != dtypes.float0 else np.zeros(a.shape, dtypes.float0)
                      for x, a in zip(arrays, entry.out_avals)]
        if entry.uses is not None:
            rest = zip(outs[len(arrays):], entry.program.out_avals[len(arrays):])
            arrays = entry.uses.settle(given, [*arrays, *[make(b, a) for b, a in rest]])
        check_program(arrays, entry.program, [*entry.program.consts, *leaves])
        if note is not None:
            note(arrays)
        return entry.out_tree.unflatten(arrays)

    # ---- tracing
    def _trace(self, key: tuple[Any, ...], fun: Function, tree: Any,
               avals: Sequence[Any], donated: tuple[int, ...]) -> Entry:
        """donated: positions of the arguments of fun whose memory is given away."""
        start, why = time.perf_counter(), self._explain_miss(key)
        avals, orders = split(avals)
        if config.jax_no_tracing:
            raise RuntimeError(explain(
                f"re-tracing function {self._name} for `jit`, but 'no_tracing' is set",
                fix="call it outside the no_tracing context first, with arguments of these types."))
        labelled = labels.any_of([a for a in avals if type(a) is not AbstractRef])
        if labelled and self.moves:
            avals, labelled = labels.stripped(avals), False
        program, out_tree, uses = trace_with_refs(
            fun, tree, avals, self._name, marking=lambda found: self._how_static(tree, found))
        if config.jax_log_compiles:
            _log.warning("Finished tracing %s for jit in %.3f sec: %s", self._name,
                         time.perf_counter() - start, why)
        entry = Entry(program, out_tree, self._donated_leaves(tree, donated), uses)
        mesh = labels.context_mesh(self.over_entered)
        if entry.uses is not None:  # what is in references keeps no label
            pass
        elif (labelled or labels.program_places(program) or labels.any_of(
                [v.aval for v in program.const_vars])):
            entry.in_avals = avals
            entry.out_avals = tuple(labels.in_context(labels.of_program(
                program, avals, lambda i: self._argument(tree, i), mesh), mesh))
            entry.place_in(has_own(program, [*avals, *entry.out_avals]))
        else:
            entry.out_avals = tuple(labels.in_context(entry.out_avals, mesh))
        entry.lay_out(self._name, orders)
        if self.replicates and mesh is not None:
            entry.out_avals = tuple(labels.in_context(labels.stripped(entry.out_avals), mesh))
        if not entry.captures_tracers:
            self._cache[key] = entry
        return entry

    def _argument(self, tree: Any, i: int) -> str:
        args, kwargs = tree.unflatten(list(range(tree.num_leaves)))
        return argument_names(self._fun, args, kwargs)[i]

    def _how_static(self, tree: Any, found: Sequence[int]) -> str:
        """How the arguments that these leaves belong to are marked as static (for messages)."""
        args, kwargs = tree.unflatten(list(range(tree.num_leaves)))
        args = list(args)
        for i in sorted(i for i in self._static_argnums if i >= 0):
            args.insert(i, None)  # static already, and no leaf
        every = argument_names(self._fun, args, kwargs)
        names = [every[i] for i in found]
        fun = self._name if self._name.isidentifier() else "f"
        if not 0 < len(names) < 4:
            return ""
        if not all(n.isidentifier() for n in names):
            return (f"pass {' and '.join(names)} as an argument of its own and mark that as "
                    f"static, jit({fun}, static_argnames=...)")
        names = sorted({*names, *self._static_argnames})
        shown = repr(names[0]) if len(names) == 1 else repr(tuple(names))
        return f"mark {' and '.join(names)} as static, jit({fun}, static_argnames={shown})"

    def _explain_miss(self, key: tuple[Any, ...]) -> str:
        """Why there is no trace of a key, where that is asked for."""
        told = "compile" in os.environ.get("CALQUE_LOG", "")
        if not told and not config.jax_log_compiles:
            return ""
        if not self._cache:
            why = signatures.first_call(self._fun)
        else:
            seen = min(self._cache, key=lambda k: signatures.distance(k, key))
            why = "; ".join(signatures.differences(seen, key)) or "static values are new"
        if told:
            print(f"calque: trace {self._name}: {why}", file=sys.stderr)
        return why

    def _donated_leaves(self, tree: Any, donated: tuple[int, ...]) -> tuple[int, ...]:
        if not (donated or self._donate_argnames):
            return ()
        count = tree.num_leaves
        args, kwargs = tree.unflatten(list(range(count)))
        found: set[int] = set()
        for i in donated:
            if -len(args) <= i < len(args):
                found.update(tree_util.tree_leaves(args[i]))
        for n in self._donate_argnames:
            if n in kwargs:
                found.update(tree_util.tree_leaves(kwargs[n]))
        return tuple(sorted(found))

    # ---- static arguments, calls inside transformations
    def _call_unread(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call with static arguments whose structure the reader does not know."""
        out = self._call_slow_path(args, kwargs)
        self._unread += 1
        if self._unread in _READER_AT and not trace.axis_env.get():
            _, dynamic, rest, _ = self._split_static(args, kwargs)
            tree = tree_util.flatten((dynamic, rest))[1]
            self._reader = signatures.reader(
                args, kwargs, signatures.short_tree(tree, bool(rest)),
                (tuple(i % len(args) for i in self._static_argnums if -len(args) <= i < len(args)),
                 self._static_argnames), self._unread)
        return out

    def _split_static(self, args: tuple[Any, ...], kwargs: dict[str, Any]
                      ) -> tuple[Function, tuple[Any, ...], dict[str, Any], Any]:
        """(function of the dynamic arguments, those arguments, the static key)."""
        if self._plain:
            return self._fun, args, kwargs, None
        nums = sorted({i % len(args) for i in self._static_argnums if -len(args) <= i < len(args)})
        names = [n for n in self._static_argnames if n in kwargs]
        fixed = {i: args[i] for i in nums}
        fixed_kw = {n: kwargs[n] for n in names}
        for where, v in (*fixed.items(), *fixed_kw.items()):
            check_hashable(self._name, where, v)
        dynamic = without(args, fixed)
        rest = {k: v for k, v in kwargs.items() if k not in fixed_kw}
        fun, total = self._fun, len(args)

        def partial(*dyn: Any, **kw: Any) -> Any:
            values = iter(dyn)
            full = [fixed[i] if i in fixed else next(values) for i in range(total)]
            return fun(*full, **kw, **fixed_kw)

        static = (tuple((i, type(v), v) for i, v in fixed.items()),
                  tuple((n, type(v), v) for n, v in sorted(fixed_kw.items())))
        return partial, dynamic, rest, static

    def _call_slow_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Static arguments, calls inside transformations, calls that a profiler looks at."""
        if not watchers:
            return self._called(args, kwargs)
        try:
            with span(self._name, "call"):
                return self._called(args, kwargs)
        except Exception as error:
            raise filter_traceback(error) from error.__cause__

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if config.jax_disable_jit:
            return self._fun(*args, **kwargs)
        entry, leaves = self._entry(args, kwargs)
        if current.get() is eval_trace:
            buffers = [] if entry.uses else [to_array(x)._buffer for x in leaves]
            return self._run_slow_path(entry, leaves, buffers)
        if entry.uses is not None and entry.uses.rules:
            return self._fun(*args, **kwargs)
        values = leaves if entry.uses is None else entry.uses.operands(self._name, leaves)
        if self._inline:
            outs = replay(entry.program, *values)
        else:
            outs = call(entry.program.derived("hoisted", entry.program.consts_as_inputs),
                        [*entry.program.consts, *values], self._name)
        if entry.uses is not None:
            outs = entry.uses.settle(leaves, outs)
        return entry.out_tree.unflatten(outs)

    def _entry(self, args: tuple[Any, ...], kwargs: dict[str, Any],
               specs: bool = False) -> tuple[Entry, list[Any]]:
        fun, dynamic, rest, static = self._split_static(args, kwargs)
        leaves, tree = tree_util.flatten((dynamic, rest))
        given = leaves
        if specs:
            leaves = [described(x) for x in leaves]
            leaves = [x.aval if isinstance(x, ShapeDtypeStruct) and not x.is_ref else x
                      for x in leaves]
            leaves = [ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type,
                                       sharding=x.placement)
                      if isinstance(x, ShapedArray) else x for x in leaves]
        check_arguments(self._name, leaves, tree, refs=True)
        avals = [laid_type(x, type_of(y), self._in_formats is not None)
                 for x, y in zip(given, leaves)]
        short = signatures.short_tree(tree, bool(rest))
        now = config.key()
        if env := trace.axis_env.get():  # what it means depends on the axes that are mapped
            now = (now, env, trace.checked_axes.get())
        key = (short, now, *avals) if static is None else (short, now, static, *avals)
        try:
            entry = self._cache.get(key)
        except Exception as error:
            hash(key)  # of a context's value that cannot be hashed this is the error
            raise signatures.incomparable(self._name, static is not None, error) from error
        if entry is None:
            donated = self._donate_argnums if static is None else self._dynamic_donated(len(args))
            entry = self._trace(key, fun, tree, avals, donated)
        return entry, leaves

    def _dynamic_donated(self, count: int) -> tuple[int, ...]:
        """donate_argnums of a call with `count` arguments, counted without the static ones."""
        static, donated = ({i % count for i in nums if -count <= i < count}
                           for nums in (self._static_argnums, self._donate_argnums))
        order = [i for i in range(count) if i not in static]
        return tuple(order.index(i) for i in sorted(donated) if i in order)

    # ---- looking inside
    def trace(self, *args: Any, **kwargs: Any) -> stages.Traced:
        """The traced function: `.jaxpr`, `.out_info`, `.lower()`."""
        entry, leaves = self._entry(args, kwargs, specs=True)
        if entry.uses is not None and (entry.uses.rules or entry.uses.local):
            raise NotImplementedError(explain(
                f"{self._name} uses references that rules of derivatives hold, or that a function "
                "being traced made: it can be called, but not lowered and compiled by hand.",
                fix="pass them as arguments."))
        return stages.Traced(self, entry, tree_util.flatten(
            self._split_static(args, kwargs)[1:3])[1])

    def lower(self, *args: Any, **kwargs: Any) -> stages.Lowered:
        """The StableHLO module for these arguments (arrays or ShapeDtypeStructs)."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result, without running."""
        entry, _ = self._entry(args, kwargs, specs=True)
        return stages.out_info(entry)

    def clear_cache(self) -> None:
        """Forget traces and executables of this function."""
        self._cache.clear()

    def _cache_size(self) -> int:
        return len(self._cache)


_caches: weakref.WeakKeyDictionary[Any, dict[Any, Memo]] = weakref.WeakKeyDictionary()


def _shared_cache(fun: Any, options: Any) -> Memo:
    """jit(f) made twice of one f shares its traces."""
    try:
        hash(options)
        per_function = _caches.setdefault(fun, {})
    except TypeError:
        return Memo()
    return per_function.setdefault(options, Memo())


def clear_caches() -> None:
    """Forget all traces and executables of this process (the disk cache stays).

    Returns:
      None.

    Raises:
      Nothing.

    Example:
      >>> import calque
      >>> calque.clear_caches()
    """
    forget()


def jit(fun: Function | None = None, *, static_argnums: Any = None,
        static_argnames: Any = None, donate_argnums: Any = None, donate_argnames: Any = None,
        keep_unused: bool = False, device: Any = None, backend: Any = None,
        inline: bool | Inline = False, in_shardings: Any = None, out_shardings: Any = None,
        compiler_options: stages.CompilerOptions | None = None) -> Any:
    """Compile a function of arrays: it is traced once for each signature of its arguments.

    Args:
      fun: a pure function of arrays, numbers and trees of them; None: a decorator is returned.
      static_argnums: positions of arguments whose Python value is compiled in (hashable).
      static_argnames: names of such arguments.
      donate_argnums: positions of arguments whose memory the results may take; they are dead
        afterwards.
      donate_argnames: names of such arguments.
      keep_unused: accepted for compatibility; unused arguments cost nothing here.
      device: the device that the results are on, in name.
      backend: accepted for compatibility; a call runs where its arguments are.
      inline: when called in another traced function, write the operations out there (True, or a
        member of `Inline`).
      in_shardings: tree prefix of the positional arguments, without static ones: NamedShardings, or
        PartitionSpecs over the context's mesh, or Formats; None: as they are.
      out_shardings: tree prefix of the results, likewise; None: what propagation says.  A Format's
        layout is how they lie in memory (experimental.layout); Layout.AUTO: what needs no copy.
      compiler_options: of XLA, which have no effect (a warning).

    Returns:
      A function with the same arguments and results, with methods lower, trace, eval_shape and
      clear_cache.

    Raises:
      TypeError: fun is not callable; (by the function) an argument is not an array, a number or a
        tree of them, and not static.
      ValueError: fun has no argument of such a number or name; (by the function) a static argument
        is not hashable, arguments are committed to different devices, an argument's sharding is not
        that of in_shardings, or a sharding does not fit.
      RuntimeError: (by the function) a PartitionSpec is given and no mesh is set.
      JaxRuntimeError: a compiler option is none of XLA's names (which have no effect).

    Example:
      >>> import calque, calque.numpy as jnp
      >>> @calque.jit
      ... def f(x):
      ...     return x * 2 + 1
      >>> f(jnp.arange(3))
      Array([1, 3, 5], dtype=int32)
    """
    if fun is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            in_shardings=in_shardings, out_shardings=out_shardings,
            compiler_options=compiler_options)
    check_callable(fun)
    inline = inline is Inline.JAX_EARLY if isinstance(inline, Inline) else bool(inline)
    stages.check_options("jit", compiler_options)
    check_places(device, backend, in_shardings, out_shardings)
    nums, names = resolve("static", fun, as_ints(static_argnums), as_names(static_argnames))
    d_nums, d_names = resolve("donate", fun, as_ints(donate_argnums), as_names(donate_argnames))
    for kind, both in (("argnames", {*names} & {*d_names}), ("argnums", {*nums} & {*d_nums})):
        if both:
            raise ValueError(explain(
                f"static_{kind} and donate_{kind} cannot intersect: {sorted(both)} appear in both "
                f"static_{kind} and donate_{kind}.",
                fix="donate arrays only; a static argument is a Python value."))
    if not (in_shardings is None and out_shardings is None and device is None):
        return placed[0](fun, nums, names, d_nums, d_names, inline, keep_unused, in_shardings,
                         out_shardings, device)
    return JitFunction(fun, nums, names, d_nums, d_names, inline, keep_unused)


placed: list[Any] = []  # the class of functions with shardings: sharded/placed.py puts it here
