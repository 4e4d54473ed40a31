"""What is compiled for.

targets.py  names of targets, levels of CPUs, which dtypes a device has: start here
cuda.py     cards: what selects them, what their code asks of a driver
vulkan.py   devices: what the compiler is told of them, what their code asks of a driver
"""
