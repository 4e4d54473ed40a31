"""custom_partitioning: a function, and what each device does of it where arrays are spread.

Rules of how its arrays are split are sharding_rules.py's.  Start reading at `custom_partitioning`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calque.api.rule_arguments import resolved
from calque.core.config import config
from calque.core.errors import UnexpectedTracerError, explain
from calque.core.naming import dress, name_of
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.dispatch.sharded.custom_parts import flat_shardings
from calque.dispatch.tracing import ShapeDtypeStruct, check_arguments, trace_with_refs, type_of
from calque.experimental.sharding_rules import (
    BATCHING,
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    as_rule,
    factors_of,
    produced,
)
from calque.primitives.partitioned import bind
from calque.primitives.partitioned import partitioned_p as custom_partitioning_p
from calque.trees import util as tree_util


class custom_partitioning:
    """A function with a rule for programs over several devices.

    One device computes `fun` itself, and so do derivatives and `vmap`. In a compiled program whose
    arguments are spread over a mesh, `partition` is told how and gives what each device does with
    its parts, as `shard_map` would; `sharding_rule` says which dimensions of arguments are which of
    results, so that the others' split is known.

    Args:
      fun: function of arrays and trees of them.
      static_argnums: positions of arguments that are no arrays; the functions of `def_partition`
        get them first.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental.custom_partitioning import custom_partitioning
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> @custom_partitioning
      ... def double(x): return 2 * x
      >>> def partition(mesh, args, result):
      ...     return mesh, lambda x: x + x, result.sharding, (args[0].sharding,)
      >>> _ = double.def_partition(partition, sharding_rule="i -> i")
      >>> where = NamedSharding(Mesh(calque.devices()[:1], ("x",)), P("x"))
      >>> calque.jit(double)(calque.device_put(jnp.ones(2), where))
      Array([2., 2.], dtype=float32)
    """

    def __init__(self, fun: Function, static_argnums: Sequence[int] = ()) -> None:
        self.fun = fun
        self.static_argnums = (static_argnums,) if isinstance(static_argnums, int) else tuple(
            static_argnums)
        self.partition: Function | None = None
        self.propagate_user_sharding: Function | None = None
        self.infer_sharding_from_operands: Function | None = None
        self.sharding_rule: Any = None
        self.decode_shardings = True
        dress(self, fun, attributes=True)

    def def_partition(self, partition: Function,
                      infer_sharding_from_operands: Function | None = None,
                      propagate_user_sharding: Function | None = None,
                      decode_shardings: bool = True, sharding_rule: Any = None, *,
                      reduction_factors: tuple[str, ...] = (),
                      need_replication_factors: tuple[str, ...] = (),
                      permutation_factors: tuple[str, ...] = (), **factor_sizes: int) -> Function:
        """Say what each device does.

        Args:
          partition: (*static, mesh, args, result) -> (mesh, lower_fn, result_shardings,
            arg_shardings); args and result are trees of ShapeDtypeStruct with the shardings that
            were found; lower_fn is called with each device's parts by arg_shardings and gives its
            part of the results by result_shardings, with collectives over the mesh's axes.
          infer_sharding_from_operands: (*static, mesh, args, result) -> the results' shardings:
            instead of a rule, where `jax_use_shardy_partitioner` is off.
          propagate_user_sharding: (*static, mesh, result) -> the results' shardings by those who
            use them: likewise.
          decode_shardings: accepted: shardings are NamedShardings always.
          sharding_rule: a text such as 'i j, j k -> i k', an SdyShardingRule, or a function
            (*static, mesh, args, results) of lists of types that gives one of these, or a text and
            its options.
          reduction_factors, need_replication_factors, permutation_factors: of a text: what is
            done along a factor (SdyShardingRule says what each means).
          **factor_sizes: of a text: sizes of the factors that only stand in brackets.

        Returns:
          partition.

        Raises:
          ValueError: the rule is not well formed.
          TypeError: it is none of these, or a size is no int.
        """
        self.sharding_rule = as_rule(sharding_rule, {
            "reduction_factors": reduction_factors,
            "need_replication_factors": need_replication_factors,
            "permutation_factors": permutation_factors, **factor_sizes})
        self.partition, self.decode_shardings = partition, decode_shardings
        self.infer_sharding_from_operands = infer_sharding_from_operands
        self.propagate_user_sharding = propagate_user_sharding
        return partition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """fun(*args, **kwargs).

        Raises:
          AttributeError: `def_partition` was not called.
          TypeError: an argument is no array and not static, or keywords have no position.
          UnexpectedTracerError: a static argument is traced.
          NotImplementedError: sharding callbacks are given without a rule.
        """
        name, partition = name_of(self.fun), self.partition
        if partition is None:
            raise AttributeError(explain(
                f"No partition rule defined for custom_partitioning function {name} using "
                "def_partition.", fix=f"call {name}.def_partition(partition, sharding_rule=...)."))
        args = resolved(self.fun, args, kwargs, "custom_partitioning")
        fixed = {i % len(args) for i in self.static_argnums if -len(args) <= i < len(args)}
        static = tuple(args[i] for i in self.static_argnums)
        if any(isinstance(x, Tracer) for x in tree_util.tree_leaves(static)):
            raise UnexpectedTracerError(explain(
                "Found a JAX Tracer object passed as an argument to a custom_partitioning function "
                f"in a position indicated as static by static_argnums: {name}.",
                fix="leave it out of static_argnums."))
        asks = bool(self.infer_sharding_from_operands or self.propagate_user_sharding)
        if asks and self.sharding_rule is None and config.jax_use_shardy_partitioner:
            raise NotImplementedError(explain(
                f"custom_partitioning: {name} has sharding propagation callbacks and no rule. Need "
                "to provide sharding_rule to migrate to Shardy.",
                fix="pass def_partition(partition, sharding_rule='i j -> i j')."))

        def partial(*given: Any) -> Any:
            rest = iter(given)
            return self.fun(*[a if i in fixed else next(rest) for i, a in enumerate(args)])

        dynamic = tuple(a for i, a in enumerate(args) if i not in fixed)
        leaves, tree = tree_util.flatten((dynamic, {}))
        check_arguments(name, leaves, tree, refs=True)
        program, out_tree, uses = trace_with_refs(
            partial, tree, [type_of(x) for x in leaves], name, "custom_partitioning")
        how = How(name, partition, static, tree_util.tree_structure(dynamic), out_tree,
                  None if not config.jax_use_shardy_partitioner and asks else self.sharding_rule,
                  self.infer_sharding_from_operands, self.propagate_user_sharding)
        if uses.places or uses.closed or uses.rules:
            raise NotImplementedError(explain(
                f"custom_partitioning: {name} uses a reference.",
                fix="pass its value, ref[...], as an argument."))
        return out_tree.unflatten(bind(program, leaves, how))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class How:
    """What the user said of one call: transforms/propagate asks `factors`, or where there are
    callbacks and no rule (`asks`) `of_operands` and `of_users`."""

    name: str
    partition: Function
    static: tuple[Any, ...]
    in_tree: Any
    out_tree: Any
    rule: Any
    infer: Function | None
    propagate: Function | None

    def __repr__(self) -> str:
        return f"<partition of {self.name}: {self.rule}>"

    @property
    def asks(self) -> bool:
        return self.rule is None and bool(self.infer or self.propagate)

    def factors(self, mesh: Any, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        rule = self.rule
        if not isinstance(rule, SdyShardingRule):
            rule = produced(rule(*self.static, mesh, *[
                [ShapeDtypeStruct(a.shape, a.dtype) for a in types] for types in (ins, outs)]))
        return factors_of(rule, ins, outs)

    def of_operands(self, mesh: Any, ins: Sequence[Any], outs: Sequence[Any],
                    specs: Sequence[PartitionSpec]) -> list[PartitionSpec]:
        if self.infer is None:
            return [PartitionSpec() for _ in outs]
        return self._said(self.infer(
            *self.static, mesh, self.in_tree.unflatten(_placed(mesh, ins, specs)),
            self.out_tree.unflatten([ShapeDtypeStruct(a.shape, a.dtype) for a in outs])))

    def of_users(self, mesh: Any, outs: Sequence[Any], specs: Sequence[PartitionSpec]
                 ) -> list[PartitionSpec]:
        if self.propagate is None:
            return list(specs)
        return self._said(self.propagate(
            *self.static, mesh, self.out_tree.unflatten(_placed(mesh, outs, specs))))

    def _said(self, given: Any) -> list[PartitionSpec]:
        return [s.spec for s in flat_shardings(self.name, "results", self.out_tree, given)]


def _placed(mesh: Any, types: Sequence[Any], specs: Sequence[PartitionSpec]) -> list[Any]:
    return [ShapeDtypeStruct(a.shape, a.dtype, sharding=NamedSharding(mesh, s.of_rank(a.ndim)))
            for a, s in zip(types, specs)]


__all__ = ["ArrayMapping", "BATCHING", "CompoundFactor", "SdyShardingRule", "custom_partitioning",
           "custom_partitioning_p"]


def __dir__() -> list[str]:
    return __all__
