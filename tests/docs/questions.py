"""Questions of readers, and where their answer is: by clicks from the first page, or by a search.

Each row: the question; the pages clicked, or the words typed; the page with the answer; words that
the answer has.  Of the three readers who read the pages first (a researcher who knows JAX, an
engineer with a service in C++, a student who knows NumPy), and of three more.
"""
from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """way: pages clicked one after the other, beginning at index.md, or words of a search."""

    text: str
    way: tuple[str, ...] | str
    page: str
    answer: str


def q(text: str, way: str, page: str, answer: str) -> Question:
    pages = tuple(way.removeprefix("> ").split(" > "))
    return Question(text, pages if way.startswith("> ") else way, page, answer)


RESEARCHER = [
    q("How do I install it beside my jax?", "> install.md", "install.md",
      "may be installed together"),
    q("Can I run train.py as it is?", "> your_jax_code_here.md", "your_jax_code_here.md",
      "python -m calque.compat train.py"),
    q("Are my random numbers the same?", "> coming_from_jax.md", "coming_from_jax.md",
      "jax_threefry_partitionable"),
    q("What that I use is missing?", "> coming_from_jax.md > jax_names.md", "jax_names.md",
      "start_server"),
    q("How do I get my GPU?", "gpu", "gpu.md", "JAX_PLATFORMS=cuda"),
    q("Is it faster, and the first call?", "> how_fast.md", "how_fast.md", "first call"),
    q("Checkpoints, orbax?", "checkpoint", "save_and_load.md", "calque.checkpoint.save"),
    q("Why is it compiled again?", "> faq.md > why_slow.md", "why_slow.md", "CALQUE_LOG=compile"),
]
ENGINEER = [
    q("May I ship it?", "> install.md", "install.md", "Apache-2.0"),
    q("What must be on the machine?", "> deploy.md", "deploy.md", "libpython"),
    q("Where is the C++ library?", "> deploy.md > native.md", "native.md", "calque-native"),
    q("Weights apart, targets, levels of CPU?", "targets", "targets.md", "cpu:x86-64-v2"),
    q("A batch of any size?", "batch size", "dynamic_shapes.md", "f32[n"),
    q("Threads, memory, latency?", "> deploy.md > cpp.md", "cpp.md", "CALQUE_CPU_THREADS"),
    q("Our model is in flax, in PyTorch, in ONNX", "> ship_jax_model.md", "ship_jax_model.md",
      "ONNX"),
    q("Does a file outlive an upgrade, may I trust one?", "> deploy.md > compatibility.md",
      "compatibility.md", "bytecode"),
]
STUDENT = [
    q("What is it, why not NumPy?", "> faq.md", "faq.md", "Why not NumPy?"),
    q("How do I install it on my laptop?", "> install.md", "install.md", "macOS"),
    q("How do I set an element?", "> tutorials/arrays.md", "tutorials/arrays.md", ".at[0, 0].set"),
    q("Random numbers?", "> quickstart.md", "quickstart.md", "random.split"),
    q("Why float32?", "> tutorials/arrays.md", "tutorials/arrays.md", "half the memory"),
    q("Fit a line, explained", "> tutorials/gradients.md", "tutorials/gradients.md", "np.polyfit"),
    q("if and loops in jit?", "> tutorials/jit.md", "tutorials/jit.md", "lax.cond"),
    q("Plot, save, load, notebook?", "> faq.md", "faq.md", "notebook"),
]
# A scientist who moves a simulation from NumPy and SciPy
SCIENTIST = [
    q("How do I get double precision everywhere?", "double precision 64", "tutorials/arrays.md",
      "JAX_ENABLE_X64=1"),
    q("Is there odeint?", "odeint", "api/calque.experimental.ode.md", "odeint"),
    q("How accurate are special functions?", "special functions errors", "special_functions.md",
      "eps"),
    q("Which parts of SciPy are there?", "scipy special", "api/calque.scipy.special.md", "special"),
    q("How do I parallelize over the cores of a machine?", "> faq.md", "faq.md",
      "several CPUs of one machine"),
    q("How do I read a CSV file?", "csv", "faq.md", "np.loadtxt"),
    q("How do I loop with a state and keep the path?", "scan", "api/calque.lax.md", "carry"),
    q("I get NaN: where from?", "> faq.md > debugging.md", "debugging.md", "NaN"),
]
# Someone who operates services and gets a model file
OPERATOR = [
    q("How small can the container be?", "container", "deploy.md", "debian:12-slim"),
    q("Which environment variables are read?", "environment variables", "options.md",
      "CALQUE_CACHE_DIR"),
    q("How do I bound the cache's size?", "cache size", "options.md", "CALQUE_CACHE_SIZE"),
    q("How do I see what a file takes and gives?", "inspect", "cli.md", "calque inspect"),
    q("How do I check a file against its source?", "verify", "cli.md", "calque verify"),
    q("What is written to logs?", "> deploy.md", "deploy.md", "stderr"),
    q("How do I keep it to two cores?", "threads", "deploy.md", "CALQUE_CPU_THREADS"),
    q("Can a file have several entry points?", "> ship_jax_model.md > cli.md", "cli.md", "link"),
]
# Someone who writes a library on top of JAX
AUTHOR = [
    q("Can I add a primitive of my own?", "primitive of your own", "your_jax_code_here.md",
      'Primitive("cube")'),
    q("How do I write a derivative rule?", "custom_vjp", "custom_rules.md", "custom_vjp"),
    q("Do Pallas kernels run?", "pallas", "pallas.md", "pallas_call"),
    q("How do I test my library with it?", "pytest compat", "your_jax_code_here.md",
      "pytest -p calque.compat"),
    q("Which of my names are absent, in my code base?", "compat scan", "cli.md",
      "calque compat scan"),
    q("Does my editor know the types?", "editors types", "typing.md", "mypy"),
    q("May I mix arrays of jax with those of calque?", "mix jax arrays", "mixing.md",
      "jnp.asarray"),
    q("Is the API stable?", "> index.md > compatibility.md", "compatibility.md",
      "MAJOR.MINOR.PATCH"),
]
QUESTIONS = [*RESEARCHER, *ENGINEER, *STUDENT, *SCIENTIST, *OPERATOR, *AUTHOR]
