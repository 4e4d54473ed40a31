"""Seeing what runs: traces for Perfetto, and memory profiles for pprof, under JAX's names.

  session.py      start_trace, stop_trace, trace and their options: start here
  server.py       a process that is asked for traces from outside
  children.py     register_subprocess: such processes, traced with this one
  annotations.py  slices of the user's
  recorder.py     what happens while a trace is on
  calls.py        calls of Python functions, where they are asked for
  perfetto.py     a recording as Perfetto's TrackEvents
  xplane.py       the same as TensorBoard and jax.profiler.ProfileData read it
  memory.py       what is in the devices' memory, in pprof's format
  wire.py         protocol buffers, written
  monitoring.py   listeners to what is traced and compiled (calque.monitoring)

While no trace is on, nothing is recorded: what calque's hot paths pay is the test of an empty list
(runtime/watch).  docs/profiling.md says what the slices mean.
"""
from calque.core.refused import refusing as _refusing
from calque.profiler.annotations import StepTraceAnnotation, TraceAnnotation, annotate_function
from calque.profiler.children import register_subprocess
from calque.profiler.memory import device_memory_profile, save_device_memory_profile
from calque.profiler.server import start_server, stop_server
from calque.profiler.session import ProfileOptions, start_trace, stop_trace, trace

__getattr__ = _refusing(__name__)
__all__ = ["ProfileOptions", "StepTraceAnnotation", "TraceAnnotation", "annotate_function",
           "device_memory_profile", "register_subprocess", "save_device_memory_profile",
           "start_server", "start_trace", "stop_server", "stop_trace", "trace"]


def __dir__() -> list[str]:
    return __all__
