"""What JAX's tests take from `jax._src` and `jaxlib`, when `jax` is calque.

private.py: an object that ends a test when it is used; flags.py: JAX's configuration flags;
counterparts.py: public names of the same meaning and small helpers; install.py: the modules and
their finder (start here).
"""
