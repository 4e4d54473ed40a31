"""Looking into programs while they run: print, callback, breakpoint; and at where arrays are."""
from calque.api.callbacks import callback as callback
from calque.api.callbacks import log as log
from calque.api.callbacks import print as print
from calque.api.debugger import breakpoint as breakpoint
from calque.parallel.sharding_view import inspect_array_sharding as inspect_array_sharding
from calque.parallel.sharding_view import visualize_array_sharding as visualize_array_sharding
from calque.parallel.sharding_view import visualize_sharding as visualize_sharding

__all__ = ["breakpoint", "callback", "inspect_array_sharding", "log", "print",
           "visualize_array_sharding", "visualize_sharding"]


def __dir__() -> list[str]:
    return __all__
