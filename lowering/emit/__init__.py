"""What rules, functions and kernels write MLIR with.

mlir.py      the one door to MLIR's Python bindings
value.py     SSA values with operators; dtypes.py: names of their dtypes
builder.py   StableHLO operations on Values: start here
dynamic.py   the same for sizes known at the call only, which sizes.py computes
context.py   what rules see
registry.py  which rule writes a primitive
aliasing.py  whose memory a value is; copies before it is overwritten
fusion.py    how many arrays a dispatch may read and write
folding.py   keeps IREE from summing constants
"""
