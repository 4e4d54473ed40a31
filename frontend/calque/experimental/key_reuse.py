"""Keys that are used twice: with `jax_debug_key_reuse` they raise KeyReuseError.

Under the option (`calque.config.update("jax_debug_key_reuse", True)`, or `with
calque.debug_key_reuse(True):`) a draw or a split uses a typed key (`random.key`) up; another one
raises, within a jitted function, over calls of several, in branches and in loops whose steps use
one key again and again.  `random.fold_in` uses nothing up, `random.clone` says that a key is used
again on purpose.  dispatch/key_reuse.py is how.

    >>> import calque
    >>> key = calque.random.key(0)
    >>> with calque.debug_key_reuse(True):
    ...     x = calque.random.normal(key)
    ...     y = calque.random.normal(calque.random.clone(key))
"""
__all__: list[str] = []
