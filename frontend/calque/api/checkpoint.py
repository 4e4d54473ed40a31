"""checkpoint (remat): trade memory for computing again; policies say what is kept.

Start reading at `checkpoint`; the rules lie in primitives/checkpoint.py.
"""
from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from calque.core import trace
from calque.core.avals import aval_of, dtype_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.memo import Memo
from calque.core.naming import name_of
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.dispatch.tracing import check_arguments, trace_with_refs, type_of, wrapped
from calque.primitives.checkpoint import bind, name_p
from calque.transforms.stage import closed, stage
from calque.trees import util as tree_util


def checkpoint(fun: Function | None = None, *, prevent_cse: bool = True,
               policy: Function | None = None,
               static_argnums: int | Sequence[int] = ()) -> Function:
    """fun with its residuals computed again in the backward pass instead of being kept.

    Args:
      fun: a function of trees of arrays; without it a decorator is returned.
      prevent_cse: keep the compiler from merging the second computation with the first.
      policy: which intermediate values are kept: one of `checkpoint_policies`.
      static_argnums: positions of arguments that are not arrays.

    Returns:
      A function with fun's arguments and result.

    Raises:
      TypeError: an argument is no array and not static.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> g = calque.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
      >>> print(calque.grad(g)(0.0))
      1.0
    """
    if fun is None:
        return lambda f: checkpoint(f, prevent_cse=prevent_cse, policy=policy,
                                    static_argnums=static_argnums)
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    seen = Memo(64)  # what fun was traced to

    def run(*args: Any, **kwargs: Any) -> Any:
        static = {i % len(args) for i in numbers if -len(args) <= i < len(args)}
        dynamic = without(args, static)
        leaves, tree = tree_util.flatten((dynamic, kwargs))
        check_arguments(name_of(fun), leaves, tree, refs=True)

        def partial(*given: Any, **named: Any) -> Any:
            rest = iter(given)
            return fun(*[a if i in static else next(rest) for i, a in enumerate(args)], **named)

        avals = [type_of(x) for x in leaves]
        key = (tree, len(args), *[(i, type(args[i]), args[i]) for i in sorted(static)], *avals,
               config.key(), trace.axis_env.get(), trace.checked_axes.get())
        found = _find(seen, key)
        if found is None:
            found = trace_with_refs(partial, tree, avals, name_of(fun), "checkpoint")
            uses = found[2]
            if not (uses.places or uses.closed or uses.rules or any(
                    isinstance(c, Tracer) for c in found[0].consts)):
                with contextlib.suppress(TypeError):
                    seen.keep(key, found)
        program, out_tree, uses = found
        outs = bind(program, uses.operands(name_of(fun), leaves), policy=policy,
                    prevent_cse=prevent_cse)
        return out_tree.unflatten(uses.settle(leaves, outs))

    return wrapped(fun, run, "Checkpointed version")


def _find(seen: Memo, key: Any) -> Any:
    """What is remembered; nothing where a static argument cannot be hashed."""
    try:
        return seen.get(key)
    except TypeError:
        return None


remat = checkpoint


def checkpoint_name(x: Any, name: str) -> Any:
    """x under a name that policies know.

    Args:
      x: a tree of arrays.
      name: of the values.

    Returns:
      x.

    Raises:
      TypeError: a leaf is no array.

    Example:
      >>> from calque.ad_checkpoint import checkpoint_name
      >>> print(checkpoint_name(2.0, "hidden"))
      2.0
    """
    return tree_util.tree_map(lambda leaf: name_p.bind(leaf, name=name), x)


def _check_memories(*kinds: str) -> None:
    for kind in kinds:
        if kind not in ("device", "pinned_host", "unpinned_host"):
            raise ValueError(explain(
                f"checkpoint_policies: unknown memory {kind!r}.",
                fix="use 'device', 'pinned_host' or 'unpinned_host'."))


# Policies with contents compare by these, so that a function that makes one in each call traces and
# compiles once.
@dataclasses.dataclass(frozen=True)
class SaveOnlyTheseNames:
    """The policy of `checkpoint_policies.save_only_these_names`.

    Example:
      >>> import calque
      >>> calque.checkpoint_policies.save_only_these_names("hidden").saveable_names
      frozenset({'hidden'})
    """

    saveable_names: frozenset[str]

    def __call__(self, prim: Any, *_: Any, **params: Any) -> bool:
        return str(prim) == "name" and params["name"] in self.saveable_names


@dataclasses.dataclass(frozen=True)
class SaveAnyNamesButThese:
    """The policy of `checkpoint_policies.save_any_names_but_these`.

    Example:
      >>> import calque
      >>> calque.checkpoint_policies.save_any_names_but_these("hidden").names
      frozenset({'hidden'})
    """

    names: frozenset[str]

    def __call__(self, prim: Any, *_: Any, **params: Any) -> bool:
        return str(prim) == "name" and params["name"] not in self.names


@dataclasses.dataclass(frozen=True)
class SaveAndOffloadOnlyTheseNames:
    """The policy of `checkpoint_policies.save_and_offload_only_these_names`.

    Example:
      >>> import calque
      >>> policy = calque.checkpoint_policies.save_and_offload_only_these_names(
      ...     names_which_can_be_saved=["a"], names_which_can_be_offloaded=["b"],
      ...     offload_src="device", offload_dst="pinned_host")
      >>> policy.names_which_can_be_offloaded
      frozenset({'b'})
    """

    names_which_can_be_saved: frozenset[str]
    names_which_can_be_offloaded: frozenset[str]
    offload_src: str
    offload_dst: str

    def __call__(self, prim: Any, *_: Any, **params: Any) -> bool:
        return str(prim) == "name" and (params["name"] in self.names_which_can_be_saved
                                        or params["name"] in self.names_which_can_be_offloaded)


@dataclasses.dataclass(frozen=True)
class _SaveAnythingButTheseNames:
    names: frozenset[str]

    def __call__(self, prim: Any, *_: Any, **params: Any) -> bool:
        return not (str(prim) == "name" and params["name"] in self.names)


@dataclasses.dataclass(frozen=True)
class _SaveFromBoth:
    first: Callable[..., bool]
    second: Callable[..., bool]

    def __call__(self, prim: Any, *args: Any, **params: Any) -> bool:
        return bool(self.first(prim, *args, **params) or self.second(prim, *args, **params))


class checkpoint_policies:  # noqa: N801
    """Policies of `checkpoint`: functions of a primitive, its operands' avals and parameters.

    Example:
      >>> import calque
      >>> calque.checkpoint_policies.everything_saveable.__name__
      'everything_saveable'
    """

    SaveOnlyTheseNames = SaveOnlyTheseNames
    SaveAnyNamesButThese = SaveAnyNamesButThese
    SaveAndOffloadOnlyTheseNames = SaveAndOffloadOnlyTheseNames

    @staticmethod
    def everything_saveable(*_: Any, **__: Any) -> bool:
        """Every value is kept, as without checkpoint."""
        return True

    @staticmethod
    def nothing_saveable(*_: Any, **__: Any) -> bool:
        """No value is kept."""
        return False

    @staticmethod
    def dots_saveable(prim: Any, *_: Any, **__: Any) -> bool:
        """Products of matrices and convolutions are kept."""
        return str(prim) in ("dot_general", "conv_general_dilated")

    checkpoint_dots = dots_saveable

    @staticmethod
    def dots_with_no_batch_dims_saveable(prim: Any, *_: Any, **params: Any) -> bool:
        """Products of matrices without batch axes are kept."""
        if str(prim) != "dot_general":
            return False
        (_, _), (left, right) = params["dimension_numbers"]
        return not left and not right

    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_any_names_but_these(*names_not_to_save: str) -> Callable[..., bool]:
        """Named values are kept, but not these."""
        return SaveAnyNamesButThese(frozenset(names_not_to_save))

    @staticmethod
    def save_anything_except_these_names(*names_not_to_save: str) -> Callable[..., bool]:
        """Every value is kept but those under these names."""
        return _SaveAnythingButTheseNames(frozenset(names_not_to_save))

    @staticmethod
    def save_only_these_names(*names_which_can_be_saved: str) -> Callable[..., bool]:
        """Values under these names are kept, and no other."""
        return SaveOnlyTheseNames(frozenset(names_which_can_be_saved))

    @staticmethod
    def save_and_offload_only_these_names(
            *, names_which_can_be_saved: Sequence[str], names_which_can_be_offloaded: Sequence[str],
            offload_src: str, offload_dst: str) -> Callable[..., bool]:
        """Values under these names are kept, and no other.

        What is to be offloaded is kept where it is: on the CPU, the host's memory is the device's
        ('device', 'pinned_host' and 'unpinned_host' are one), and a GPU's values are not moved to
        the host yet.

        Raises:
          ValueError: a name stands in both lists, or a memory is unknown.
        """
        _check_memories(offload_src, offload_dst)
        saved, moved = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
        if saved & moved:
            raise ValueError(explain(
                "The names should be exclusive and should not intersect in "
                "`names_which_can_be_saved` and `names_which_can_be_offloaded`. Got "
                f"{sorted(saved & moved)} in both.", fix="leave each name in one of them."))
        return SaveAndOffloadOnlyTheseNames(saved, moved, offload_src, offload_dst)

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable[..., bool]:
        """Products of matrices without batch axes are kept, where they are (as above)."""
        _check_memories(offload_src, offload_dst)
        return checkpoint_policies.dots_with_no_batch_dims_saveable

    @staticmethod
    def save_from_both_policies(policy_1: Callable[..., bool], policy_2: Callable[..., bool]
                                ) -> Callable[..., bool]:
        """What one of two policies keeps."""
        return _SaveFromBoth(policy_1, policy_2)


def print_saved_residuals(fun: Function, *args: Any, **kwargs: Any) -> None:
    """Print shape and dtype of each array that the backward pass of fun would keep.

    Args:
      fun: a function of trees of arrays.
      *args, **kwargs: its arguments.

    Returns:
      Nothing.

    Raises:
      TypeError: an argument is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.ad_checkpoint import print_saved_residuals
      >>> print_saved_residuals(lambda x: jnp.sin(x) * 2.0, 1.0)
      f32[] from cos
    """
    from calque.transforms.linearize import linearize_program
    leaves, tree = tree_util.flatten((args, kwargs))
    check_arguments(name_of(fun), leaves, tree)

    def flat(*xs: Any) -> list[Any]:
        given, named = tree.unflatten(xs)
        return tree_util.flatten(fun(*given, **named))[0]

    program, consts = closed(stage(flat, [aval_of(x) for x in leaves], name_of(fun)))
    nonzero = [aval_of(x).tangent().dtype == dtype_of(x) for x in [*consts, *leaves]]
    forward, _, _, sources = linearize_program(program, nonzero)
    made = {v: str(e.primitive) for e in forward.equations for v in e.outputs}
    for out, source in zip(forward.outputs[len(program.outputs):], sources):
        origin = f"the argument {source - len(consts)}" if source >= len(consts) else made.get(
            out, "a constant")  # type: ignore[arg-type]
        print(f"{out.aval.short()} from {origin}")


class Offloadable(NamedTuple):
    """What a policy gives for a value that is kept in another memory: it is kept where it is.

    Example:
      >>> from calque.ad_checkpoint import Offloadable
      >>> Offloadable("device", "pinned_host").dst
      'pinned_host'
    """

    src: str
    dst: str


class _Named:
    """What a policy gives for every value of a kind."""

    def __init__(self, name: str, kept: bool) -> None:
        self._name, self._kept = name, kept

    def __bool__(self) -> bool:
        return self._kept

    def __repr__(self) -> str:
        return self._name


Recompute, Saveable = _Named("Recompute", False), _Named("Saveable", True)


__all__ = ["Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name",
           "checkpoint_policies", "print_saved_residuals", "remat"]


def __dir__() -> list[str]:
    return __all__
