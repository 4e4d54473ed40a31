"""Arrays, and how operations on them run: now, or traced, compiled and called.

  array.py       Array: data on a device and the time it is there; laid.py: those that are not
                 row-major; orders.py: programs that read and make them; strings.py: of strings;
                 ref_parts.py: parts of references
  jit.py         jit: signatures.py (keys of calls; host_arguments.py: numbers in them),
                 entry.py (what a key leads to),
                 positions.py (which arguments are static or donated),
                 tracing.py (functions of trees to Programs), stages.py (lower, compile),
                 staging.py (make_jaxpr, eval_shape), cost_analysis of stages: costs.py;
                 donation.py (whose memory is given away), captured.py (arrays that are captured),
                 transfers.py (guards of what moves), key_reuse.py (keys that are used twice),
                 nonfinite.py (which operation made a nan)
  eager.py       running now: which way, executables, lazy recording; on it numpy_rules/ (small
                 arrays), shape_polymorphic.py (elementwise, one executable for all shapes),
                 precompiled.py (those compiled ahead), replay.py (recorded public functions;
                 same_bits.py: which of them may be compiled as a whole)
  sharded/       arrays over several devices and processes
  devices.py     devices and moving data; environment.py  versions and devices, for reports;
                 garbage.py: arrays that a cycle of references held;
                 mismatch.py  messages about trees of unequal types

Start reading at jit.py, or at eager.py.
"""
