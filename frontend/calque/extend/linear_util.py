"""Functions with layers of transformations around them: JAX's linear_util.

A layer is a generator: it yields (args, kwargs) for what is inside, is sent the result and yields
its own; or (transformation2) a function of what is inside and the arguments.  A layer may keep
something on the side (transformation_with_aux).  Start reading at `WrappedFun`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.core.errors import explain
from calque.core.naming import name_of
from calque.core.types import Function, Params


class StoreException(Exception):  # noqa: N818
    """What a layer keeps on the side was asked for before it was there, or came twice.

    Example:
      >>> from calque.extend.linear_util import StoreException
      >>> issubclass(StoreException, Exception)
      True
    """


class Store:
    """A place for what a layer keeps."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: list[Any] = []

    def store(self, value: Any) -> None:
        """Keep a value, once."""
        if self._value:
            raise StoreException(explain("Store occupied: the function was called twice.",
                                         fix="wrap it anew for each call."))
        self._value.append(value)

    @property
    def val(self) -> Any:
        """The value."""
        if not self._value:
            raise StoreException(explain("Store empty: the function was not called yet.",
                                         fix="call it first."))
        return self._value[0]

    def __call__(self) -> Any:
        return self.val

    def __bool__(self) -> bool:
        return bool(self._value)


class WrappedFun:
    """A function with the layers around it, the innermost first.

    Attributes:
      f: the function; params: keywords for it; debug_info: of the outermost caller.

    Example:
      >>> from calque.extend import linear_util as lu
      >>> lu.wrap_init(lambda x: x + 1).call_wrapped(2)
      3
    """

    __slots__ = ("f", "layers", "params", "debug_info")

    def __init__(self, f: Function, layers: tuple[Any, ...] = (),
                 params: Params | None = None, debug_info: Any = None) -> None:
        self.f, self.layers, self.params = f, layers, dict(params or {})
        self.debug_info = debug_info

    @property
    def __name__(self) -> str:
        return name_of(self.f)

    def wrap(self, layer: Callable[..., Function]) -> WrappedFun:
        """The same with one more layer: a function of what is inside that gives the new one."""
        return WrappedFun(self.f, (*self.layers, layer), self.params, self.debug_info)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the outermost layer."""
        made: Function = self.f
        if self.params:
            inner, params = self.f, self.params

            def made(*xs: Any, **kws: Any) -> Any:
                return inner(*xs, **{**params, **kws})
        for layer in self.layers:
            made = layer(made)
        return made(*args, **kwargs)

    __call__ = call_wrapped

    def with_unknown_names(self) -> WrappedFun:
        """The same: names are for messages only."""
        return self


def wrap_init(f: Function, params: Params | None = None, *,
              debug_info: Any = None) -> WrappedFun:
    """A function without layers.

    Args:
      f: the function; params: keywords for it.
      debug_info: from api_util.debug_info.

    Returns:
      A WrappedFun.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import linear_util as lu
      >>> lu.wrap_init(pow).call_wrapped(2, 3)
      8
    """
    return WrappedFun(f, (), params, debug_info)


def _generated(gen: Function, static: tuple[Any, ...], store: Store | None
               ) -> Function:
    def layer(inside: Function) -> Function:
        def run(*args: Any, **kwargs: Any) -> Any:
            steps = gen(*static, *args, **kwargs)
            inner_args, inner_kwargs = next(steps)
            out = steps.send(inside(*inner_args, **inner_kwargs))
            steps.close()
            if store is None:
                return out
            out, aside = out
            store.store(aside)
            return out
        return run
    return layer


def transformation(gen: Function, fun: Any = None, *gen_static_args: Any) -> Any:
    """A layer that is a generator.

    Args:
      gen: generator function of (*gen_static_args, *args, **kwargs) that yields (args, kwargs) for
        what is inside, is sent its result and yields its own.
      fun: a WrappedFun; None: a function of it and the static arguments is returned.
      *gen_static_args: first arguments of gen.

    Returns:
      A WrappedFun.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import linear_util as lu
      >>> @lu.transformation
      ... def doubled(x):
      ...     y = yield (x,), {}
      ...     yield 2 * y
      >>> doubled(lu.wrap_init(lambda x: x + 1)).call_wrapped(3)
      8
    """
    if fun is None:
        return lambda f, *static: transformation(gen, f, *static)
    return fun.wrap(_generated(gen, gen_static_args, None))


def transformation_with_aux(gen: Function, fun: Any = None, *gen_static_args: Any,
                            use_eq_store: bool = False) -> Any:
    """A layer that is a generator and keeps something aside.

    Args:
      gen: as for transformation; its last yield is (result, what is kept).
      fun, *gen_static_args: as there.
      use_eq_store: accepted.

    Returns:
      (WrappedFun, function that gives what was kept).

    Raises:
      StoreException: (by that function) the WrappedFun was not called yet.

    Example:
      >>> from calque.extend import linear_util as lu
      >>> @lu.transformation_with_aux
      ... def counted(*args):
      ...     y = yield args, {}
      ...     yield y, len(args)
      >>> f, count = counted(lu.wrap_init(max))
      >>> f.call_wrapped(1, 5, 2), count()
      (5, 3)
    """
    if fun is None:
        return lambda f, *static: transformation_with_aux(gen, f, *static)
    store = Store()
    return fun.wrap(_generated(gen, gen_static_args, store)), store


def transformation2(gen: Function, fun: Any = None, *gen_static_args: Any) -> Any:
    """A layer that is a function.

    Args:
      gen: function of (what is inside, *gen_static_args, *args, **kwargs).
      fun, *gen_static_args: as for transformation.

    Returns:
      A WrappedFun.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import linear_util as lu
      >>> @lu.transformation2
      ... def doubled(f, x):
      ...     return 2 * f(x)
      >>> doubled(lu.wrap_init(lambda x: x + 1)).call_wrapped(3)
      8
    """
    if fun is None:
        return lambda f, *static: transformation2(gen, f, *static)
    return fun.wrap(lambda inside: lambda *args, **kwargs: gen(
        inside, *gen_static_args, *args, **kwargs))


def transformation_with_aux2(gen: Function, fun: Any = None, *gen_static_args: Any,
                             use_eq_store: bool = False, unk_names: bool = False) -> Any:
    """A layer that is a function and keeps something aside.

    Args:
      gen: function of (what is inside, store, *gen_static_args, *args, **kwargs), which calls
        store.store(value).
      fun, *gen_static_args: as for transformation.
      use_eq_store, unk_names: accepted.

    Returns:
      (WrappedFun, function that gives what was kept).

    Raises:
      StoreException: (by that function) the WrappedFun was not called yet.

    Example:
      >>> from calque.extend import linear_util as lu
      >>> @lu.transformation_with_aux2
      ... def counted(f, store, *args):
      ...     store.store(len(args))
      ...     return f(*args)
      >>> f, count = counted(lu.wrap_init(max))
      >>> f.call_wrapped(1, 5, 2), count()
      (5, 3)
    """
    if fun is None:
        return lambda f, *static: transformation_with_aux2(gen, f, *static)
    store = Store()
    return fun.wrap(lambda inside: lambda *args, **kwargs: gen(
        inside, store, *gen_static_args, *args, **kwargs)), store


def merge_linear_aux(aux1: Store, aux2: Store) -> tuple[bool, Any]:
    """What one of two stores has.

    Args:
      aux1, aux2: as transformation_with_aux returns them; exactly one is filled.

    Returns:
      (whether it is the first one, its value).

    Raises:
      StoreException: both are filled, or none.

    Example:
      >>> from calque.extend import linear_util as lu
      >>> from calque.extend.linear_util import Store
      >>> a, b = Store(), Store()
      >>> b.store(5)
      >>> lu.merge_linear_aux(a, b)
      (False, 5)
    """
    if bool(aux1) == bool(aux2):
        raise StoreException(explain("neither store occupied, or both stores occupied.",
                                     fix="call one of the two functions."))
    return (True, aux1.val) if aux1 else (False, aux2.val)


def cache(call: Function, *, explain: Any = None) -> Function:
    """The function itself: what a jitted function is keyed by remembers more than this would.

    Args:
      call: function of a WrappedFun and more.
      explain: accepted.

    Returns:
      The function.

    Raises:
      Nothing.

    Example:
      >>> from calque.extend import linear_util as lu
      >>> lu.cache(len) is len
      True
    """
    return call


__all__ = ["StoreException", "WrappedFun", "cache", "merge_linear_aux", "transformation",
           "transformation2", "transformation_with_aux", "transformation_with_aux2", "wrap_init"]


def __dir__() -> list[str]:
    return __all__
