"""C kernels that are linked into artifacts for CPU targets; README.md tells their conventions."""
