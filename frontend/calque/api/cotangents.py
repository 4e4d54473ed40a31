"""What a pullback does with the cotangent of an argument (`jax.ad`): see `vjp(...)[1].with_refs`.

The words are classes without contents.
"""
from __future__ import annotations

import functools

from calque.trees import nodes


class _Word:
    """A word that stands for an argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class GradValue(_Word):
    """The cotangent is returned.

    Example:
      >>> import calque
      >>> _, back = calque.vjp(lambda x: 2 * x, 1.0)
      >>> back.with_refs(calque.ad.GradValue())(1.0)
      (Array(2., dtype=float32, weak_type=True),)
    """


class DontWant(_Word):
    """The cotangent is not asked for; the pullback returns DidntWant.

    Example:
      >>> import calque
      >>> _, back = calque.vjp(lambda x, y: x * y, 1.0, 2.0)
      >>> back.with_refs(calque.ad.GradValue(), calque.ad.DontWant())(1.0)
      (Array(2., dtype=float32, weak_type=True), DidntWant())
    """


class NotNeeded(_Word):
    """Stands for an argument that is no residual (`vjp(...)[1].args_res`).

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vjp(jnp.sin, 1.0)[1].args_res
      [NotNeeded()]
    """


class DidntWant(_Word):
    """Stands for a cotangent that was not asked for.

    Example:
      >>> import calque
      >>> calque.ad.DidntWant()
      DidntWant()
    """


class GradRef(_Word):
    """Stands for a cotangent that was added to a reference.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> total = calque.new_ref(jnp.zeros(2))
      >>> _, back = calque.vjp(lambda x: (x * x).sum(), jnp.ones(2))
      >>> back.with_refs(total)(1.0), total
      ((GradRef(),), Ref([2., 2.], dtype=float32))
    """


for _word in (NotNeeded, DidntWant, GradRef):  # they leave jitted functions
    nodes.register_pytree_node(
        _word, lambda _: ((), None), functools.partial(lambda word, *_: word(), _word))

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]


def __dir__() -> list[str]:
    return __all__
