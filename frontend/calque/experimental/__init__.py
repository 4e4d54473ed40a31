"""Names that JAX keeps under jax.experimental."""
from calque.callbacks import io_callback as io_callback

__all__ = ["io_callback"]


def __dir__() -> list[str]:
    return __all__
