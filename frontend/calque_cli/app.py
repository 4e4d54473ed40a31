"""The commands and their options, one function each; the work is in the sibling modules.

The package lies beside calque, not in it, and imports it when a command runs: `calque --help` and
`calque --version` load neither calque nor a compiler.
"""
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calque_cli.report import UsageError, progress, reported, size_text

app = typer.Typer(name="calque", no_args_is_help=True, pretty_exceptions_enable=False,
                  rich_markup_mode="markdown", context_settings={"help_option_names": [
                      "-h", "--help"]},
                  help="Compile Python array functions ahead of time, run and inspect them.")

STAGES = ("traced", "stablehlo", "flow", "stream", "vm")

Function = Annotated[str, typer.Argument(metavar="FILE.py:FUNC", show_default=False,
                                         help="the function")]
Vmfb = Annotated[Path, typer.Argument(metavar="FILE.vmfb", show_default=False,
                                      help="an artifact written by calque compile")]
Args = Annotated[list[str], typer.Option("--arg", "-a", metavar="TYPE", show_default=False, help=(
    "type of the next positional argument: f32[8,128], f32[b,128] (b is known at the call only), "
    "f32, a tree like "
    '{"w": f32[3,2], "b": [f32[2]]}; name=TYPE for a keyword argument'))]
Constraints = Annotated[list[str], typer.Option(
    "--constraint", metavar="TEXT", show_default=False,
    help="what holds of sizes that are known at the call only, such as 'b >= 8'")]
Static = Annotated[list[str], typer.Option("--static", metavar="NAME=VALUE", show_default=False,
                                           help="value of a parameter that is not an array")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version
        typer.echo(f"calque {version('calque')}")
        raise typer.Exit


@app.callback()
def options(version: Annotated[bool, typer.Option(
        "--version", metavar="", callback=_version, is_eager=True,
        help="print the version")] = False) -> None:
    pass


@app.command()
@reported
def compile(  # noqa: A001
        function: Function,
        arg: Args = [],  # noqa: B006 (typer copies defaults)
        static: Static = [],  # noqa: B006
        constraint: Constraints = [],  # noqa: B006
        target: Annotated[list[str], typer.Option(
            "--target", "-t", metavar="NAMES", show_default=False,
            help="what to compile for, comma-separated: cpu:x86-64-v3, cpu:host (this machine), "
            "cuda:sm_80, vulkan:host, ...; by default cpu:x86-64-v3, where this machine is older "
            "cpu:x86-64-v2, on ARM cpu:aarch64")] = [],  # noqa: B006
        donate: Annotated[list[int], typer.Option(
            "--donate", metavar="N", show_default=False,
            help="position of an argument whose memory the results may take")] = [],  # noqa: B006
        name: Annotated[str, typer.Option(
            "--name", show_default=False, help="the function's name in the artifact")] = "",
        parameters: Annotated[bool | None, typer.Option(
            "--parameters/--no-parameters", metavar="", show_default=False,
            help="whether captured arrays go to an archive beside the file (.irpa); by default "
                 "where they are 1 MiB and more")] = None,
        buckets: Annotated[list[str], typer.Option(
            "--buckets", metavar="SIZES", show_default=False, help="sizes of a named dimension "
            "that get programs of their own, beside the one of any size: 1,8,64, or b=1,8 for one "
            "of several names")] = [],  # noqa: B006
        output: Annotated[Path, typer.Option(
            "--output", "-o", metavar="FILE.vmfb", show_default=False,
            help="where to write; by default FUNC.vmfb")] = Path()) -> None:
    """Compile a function into a .vmfb file that describes itself.

    With several targets, one file holds them all, and whoever loads it takes what its device runs.
    A class that is an aot.Module is compiled with all the methods that it exports.  In place of
    FILE.py:FUNC, FILE.jaxexport is a function that jax.export or calque.export wrote.

    Examples:

    - `calque compile model.py:predict --arg f32[8,128] -o predict.vmfb`

    - `calque compile model.py:step --arg '{"w": f32[3,2], "b": f32[2]}' --arg f32[8,3]
      --static lr=0.1 --donate 0 --target cpu:x86-64-v3,cuda:sm_80 -o step.vmfb`

    - `calque compile model.py:predict --arg 'f32[b,128]' --constraint 'b >= 2' -o predict.vmfb`

    - `calque compile model.py:predict --arg 'f32[b,128]' --buckets 1,8,64 --parameters`
    """
    from calque.aot import Module
    from calque.aot.artifacts import Artifact, build_all, for_platforms
    from calque.dispatch.eager import named_target
    from calque.lowering.target.targets import Target, portable_target
    from calque_cli.functions import traced_or_module
    targets = [named_target(t) for names in target for t in names.split(",") if t.strip()]
    if target and not targets:
        raise UsageError("no target is named.", "give --target cpu, or leave the option away.")
    targets = targets or [portable_target()]

    def build(some: list[Target]) -> Artifact:
        with (progress("tracing", len(some) + 1) as advance,
              traced_or_module(function, arg, static, donate, name or None, constraint,
                               buckets) as found):
            if isinstance(found, Module):
                advance("compiling")
                return found.compile(targets=some, parameters=parameters)
            return build_all(found, some, parameters,
                             lambda one: advance(f"compiling for {one.name}"))

    artifact = for_platforms(targets, build)
    named = Path(function.rpartition(":")[2])
    path = output if output.name else Path(f"{named.stem if ':' not in function else named}.vmfb")
    artifact.save(path)
    typer.echo(f"wrote {path} for {', '.join(artifact.targets)} ({size_text(path.stat().st_size)})")
    if artifact.parameters:
        size = sum(x.nbytes for x in artifact.parameters.values())
        typer.echo(f"wrote {path.with_suffix('.irpa')}: {len(artifact.parameters)} parameters "
                   f"({size_text(size)})")


@app.command()
@reported
def link(files: Annotated[list[Path], typer.Argument(
            metavar="FILE.vmfb...", show_default=False, help="artifacts")],
         output: Annotated[Path, typer.Option(
             "--output", "-o", metavar="FILE.vmfb", show_default=False,
             help="where to write")]) -> None:
    """Put the functions of several artifacts into one.

    They may be other entry points (init, train_step, predict) or other targets of one function.

    Example:

    - `calque link init.vmfb step.vmfb predict.vmfb -o model.vmfb`
    """
    from calque import aot
    artifact = aot.link(*files)
    artifact.save(output)
    typer.echo(f"wrote {output}: {', '.join(artifact.names)} for {', '.join(artifact.targets)} "
               f"({size_text(output.stat().st_size)})")


@app.command()
@reported
def bench(file: Vmfb,
          function: Annotated[str, typer.Option(
              "--function", "-f", metavar="NAME", show_default=False,
              help="which function, where the file has several")] = "",
          arg: Args = [],  # noqa: B006
          repeat: Annotated[int, typer.Option(
              "--repeat", "-n", metavar="N", min=1, help="calls that are timed")] = 100,
          seed: Annotated[int, typer.Option(help="of the random inputs")] = 0) -> None:
    """Time a function of an artifact on random inputs.

    Prints the median and the quartiles of the time of a call with its results waited for, and of
    the call alone.

    Example:

    - `calque bench predict.vmfb --repeat 1000`

    - `calque bench predict.vmfb --arg f32[32,128]`, where sizes are known at the call only
    """
    from calque_cli.artifacts import bench_artifact
    bench_artifact(file, function or None, repeat, seed, arg)


@app.command()
@reported
def verify(file: Vmfb, function: Function,
           arg: Args = [],  # noqa: B006
           static: Static = [],  # noqa: B006
           seed: Annotated[int, typer.Option(help="of the random inputs")] = 0,
           parameters: Annotated[Path, typer.Option(
               "--parameters", metavar="FILE.irpa", show_default=False,
               help="the archive of its parameters; by default the one beside the file")] = Path()
           ) -> None:
    """Compare an artifact with the Python function that it was compiled from, on random inputs.

    The types of the arguments are given as they were to compile, and must be the artifact's.  The
    digests of its parameters are compared, too.
    Ends with exit code 1 where results differ by more than rounding.

    Example:

    - `calque verify predict.vmfb model.py:predict --arg f32[8,128]`
    """
    from calque_cli.artifacts import verify_artifact
    verify_artifact(file, function, arg, static, seed, parameters if parameters.name else None)


@app.command()
@reported
def run(file: Vmfb,
        function: Annotated[str, typer.Option(
            "--function", "-f", metavar="NAME", show_default=False,
            help="which function, where the file has several")] = "",
        input: Annotated[list[str], typer.Option(  # noqa: A002
            "--input", "-i", metavar="ARRAY", show_default=False,
            help="the next argument: x.npy, or f32[2,3]=1,2,3,4,5,6, or f32[2,3]=0 (one value for "
                 "all)")] = [],  # noqa: B006
        output: Annotated[Path, typer.Option(
            "--output", "-o", metavar="FILE.npy", show_default=False,
            help="save the result (.npz for several) instead of printing it")] = Path(),
        parameters: Annotated[Path, typer.Option(
            "--parameters", metavar="FILE.irpa", show_default=False,
            help="the archive of its parameters; by default the one beside the file")] = Path()
        ) -> None:
    """Run a function of an artifact and print its results.

    Examples:

    - `calque run predict.vmfb --input x.npy --output y.npy`

    - `calque run scale.vmfb --input f32[2,3]=1,2,3,4,5,6 --input f32=0.5`
    """
    from calque_cli.artifacts import run_artifact
    run_artifact(file, function or None, input, output if output.name else None,
                 parameters if parameters.name else None)


@app.command()
@reported
def inspect(file: Vmfb,
            json: Annotated[bool, typer.Option(
                "--json", metavar="", help="print JSON")] = False) -> None:
    """Print the signature, target, versions and size of an artifact.

    Examples:

    - `calque inspect predict.vmfb`

    - `calque inspect predict.vmfb --json`
    """
    from calque_cli.artifacts import inspect_artifact
    inspect_artifact(file, json)


@app.command()
@reported
def header(file: Vmfb,
           output: Annotated[Path, typer.Option(
               "--output", "-o", metavar="FILE.hpp", show_default=False,
               help="where to write; by default it is printed")] = Path()) -> None:
    """Write a C++ header with the entry points of an artifact as typed structs.

    Example:

    - `calque header model.vmfb -o model.hpp`
    """
    from calque_cli.header import header_of
    text = header_of(file)
    if output.name:
        output.write_text(text, "utf-8")
    typer.echo(f"wrote {output}" if output.name else text.rstrip())


@app.command()
@reported
def generate(model: Annotated[Path, typer.Argument(
                 metavar="MODEL", show_default=False,
                 help="a .gguf file, a folder with config.json and model.safetensors, or an "
                      "artifact of one (.vmfb)")],
             prompt: Annotated[str, typer.Option(
                 "--prompt", "-p", show_default=False, help="the text to go on from")] = "",
             tokens: Annotated[str, typer.Option(
                 "--tokens", metavar="N,N,...", show_default=False,
                 help="its tokens, instead of text")] = "",
             most: Annotated[int, typer.Option(
                 "--most", "-n", metavar="N", min=1, help="how many tokens at most")] = 128,
             temperature: Annotated[float, typer.Option(
                 min=0, help="0: the most probable token")] = 0.0,
             top_k: Annotated[int, typer.Option(
                 min=0, help="sample from so many tokens; 0: from all")] = 0,
             top_p: Annotated[float, typer.Option(
                 max=1, help="sample from the tokens that make this probability")] = 1.0,
             seed: Annotated[int, typer.Option(help="of the random numbers")] = 0,
             capacity: Annotated[int, typer.Option(
                 min=1, help="tokens that a sequence may have, prompt included")] = 512,
             sequences: Annotated[int, typer.Option(
                 min=1, help="how many sequences a session has")] = 1,
             tokenizer: Annotated[Path, typer.Option(
                 "--tokenizer", metavar="FILE.json", show_default=False,
                 help="the tokenizer; by default the model's own")] = Path(),
             quantize: Annotated[str, typer.Option(
                 "--quantize", "-q", metavar="KIND", show_default=False,
                 help="store matrices of floats in a few bits: q8_0, q4_0 or q4_1")] = "",
             activations: Annotated[str, typer.Option(
                 "--activations", metavar="DTYPE",
                 help="what matrices of a few bits are multiplied by: int8 (rounded in blocks of "
                      "32, faster) or float32")] = "int8",
             save: Annotated[Path, typer.Option(
                 "--save", metavar="FILE.vmfb", show_default=False,
                 help="write the artifact, with its weights beside it; the prompt may then be left "
                      "away")] = Path(),
             target: Annotated[list[str], typer.Option(
                 "--target", "-t", metavar="NAMES", show_default=False,
                 help="what to compile for; by default this machine, with --save as compile")
                 ] = [],  # noqa: B006
             ) -> None:
    """Print what a language model writes behind a prompt.

    Examples:

    - `calque generate model.gguf --prompt 'Once upon a time'`

    - `calque generate model_folder --quantize q8_0 --save model.vmfb --capacity 2048`

    - `calque generate model.vmfb --tokenizer tokenizer.json --prompt 'Once' --temperature 0.8`
    """
    from calque.dispatch.eager import named_target
    from calque_cli.models import Sampling, generate_text
    generate_text(model, prompt, tokens, Sampling(most, temperature, top_k, top_p, seed), capacity,
                  sequences, tokenizer if tokenizer.name else None, quantize, activations,
                  save if save.name else None,
                  [named_target(t) for names in target for t in names.split(",") if t.strip()])


@app.command()
@reported
def serve(model: Annotated[Path, typer.Argument(
              metavar="MODEL", show_default=False,
              help="an artifact (.vmfb), or a language model: a .gguf file, a folder with "
                   "config.json and model.safetensors")],
          host: Annotated[str, typer.Option(help="where to listen")] = "127.0.0.1",
          port: Annotated[int, typer.Option(
              "--port", "-p", help="where to listen; 0 takes a free one")] = 8000,
          name: Annotated[str, typer.Option(
              show_default=False, help="under which it is served; by default the file's")] = "",
          threads: Annotated[int, typer.Option(
              metavar="N", show_default=False, help="how many calls run at the same time; by "
              "default as many as there are cores, 4 at most")] = 0,
          max_batch: Annotated[int, typer.Option(
              "--max-batch", metavar="N", show_default=False, help="rows of a batch at most; by "
              "default as many as the largest program of a known size has, else 64")] = 0,
          max_wait_ms: Annotated[float, typer.Option(
              "--max-wait-ms", metavar="T", help="milliseconds that a request may wait "
              "for others though a thread is free")] = 0.0,
          batching: Annotated[bool, typer.Option(
              "--batching/--no-batching", metavar="",
              help="whether requests are put together")] = True,
          max_queue: Annotated[int, typer.Option(
              "--max-queue", metavar="N", help="how many requests may wait")] = 256,
          max_body_mb: Annotated[float, typer.Option(
              "--max-body-mb", metavar="M", help="size of a body at most, in MiB")] = 64.0,
          max_sessions: Annotated[int, typer.Option(
              "--max-sessions", metavar="N",
              help="sequences of a module with state at most")] = 64,
          grace_s: Annotated[float, typer.Option(
              "--grace-s", metavar="T",
              help="seconds that requests under way have when the server ends")] = 30.0,
          parameters: Annotated[Path, typer.Option(
              "--parameters", metavar="FILE.irpa", show_default=False,
              help="the archive of its parameters; by default the one beside the file")] = Path(),
          tokenizer: Annotated[Path, typer.Option(
              "--tokenizer", metavar="FILE.json", show_default=False,
              help="of a language model; by default its own")] = Path(),
          sequences: Annotated[int, typer.Option(
              min=1, help="sequences of a language model that are generated together; an artifact "
                          "has its own number")] = 8,
          sessions: Annotated[int, typer.Option(
              metavar="N", help="batches of so many sequences beside each other, each with a "
                                "thread")] = 1,
          capacity: Annotated[int, typer.Option(
              min=1, help="tokens that a sequence may have, prompt included")] = 512,
          quantize: Annotated[str, typer.Option(
              "--quantize", "-q", metavar="KIND", show_default=False,
              help="store matrices of floats in a few bits: q8_0, q4_0 or q4_1")] = "",
          activations: Annotated[str, typer.Option(
              "--activations", metavar="DTYPE",
              help="what matrices of a few bits are multiplied by: int8 (rounded in blocks of "
                   "32, faster) or float32")] = "int8") -> None:
    """Serve an artifact over HTTP, or a language model.

    Functions by the Open Inference Protocol (POST /v2/models/NAME/infer), requests that wait at
    the same time as one batch; language models by POST /v1/completions, all sequences together.
    GET /metrics is for Prometheus.  SIGTERM and Ctrl-C end it when what is under way is finished.

    Examples:

    - `calque serve predict.vmfb --port 8000 --max-batch 64 --max-wait-ms 2`

    - `calque serve model.gguf --sequences 8 --capacity 2048`
    """
    from calque_cli.serve import serve_model
    options = {"host": host, "port": port, "max_batch": max_batch, "max_wait_ms": max_wait_ms,
               "batching": batching, "max_queue": max_queue, "max_body_mb": max_body_mb,
               "sessions": sessions, "max_sessions": max_sessions, "grace_s": grace_s,
               "threads": threads}
    serve_model(model, name, options, parameters if parameters.name else None,
                tokenizer if tokenizer.name else None, capacity, sequences, quantize,
                activations)


@app.command()
@reported
def dump(function: Function,
         arg: Args = [],  # noqa: B006
         static: Static = [],  # noqa: B006
         stage: Annotated[str, typer.Option(
             "--stage", "-s", metavar="STAGE",
             help=f"one of {', '.join(STAGES)}")] = "stablehlo",
         target: Annotated[str, typer.Option("--target", "-t", metavar="NAME",
                                             help="what to compile for")] = "cpu") -> None:
    """Print a function at a stage of its way to machine code.

    Stages: traced (the program as calque records it), stablehlo (what the compiler gets), flow,
    stream and vm (what the compiler makes of it).

    Examples:

    - `calque dump model.py:predict --arg f32[8,128] --stage traced`

    - `calque dump model.py:predict --arg f32[8,128] --stage vm --target cuda:sm_80`
    """
    from calque.dispatch.eager import named_target
    from calque_cli.functions import module_at, traced_function
    if stage not in STAGES:
        raise UsageError(f"no stage {stage!r}.", f"choose one of {', '.join(STAGES)}.")
    chosen = named_target(target)
    with (progress(f"making {stage}") as advance,
          traced_function(function, arg, static) as traced):
        advance(f"making {stage}")
        if stage == "traced":
            text = str(traced.program)
        else:
            text = module_at(traced, stage, chosen)
    typer.echo(text.rstrip())


@app.command()
@reported
def explain(what: Annotated[str, typer.Argument(
                metavar="FILE.py:FUNC|PRIMITIVE", show_default=False,
                help="a function, or a primitive's name; without it, all primitives are listed"
                )] = "",
            arg: Args = [],  # noqa: B006
            static: Static = [],  # noqa: B006
            constraint: Constraints = [],  # noqa: B006
            target: Annotated[str, typer.Option("--target", "-t", metavar="NAME",
                                                help="what it would be compiled for")] = "cpu",
            as_json: Annotated[bool, typer.Option("--json", metavar="", help="print JSON")] = False,
            html: Annotated[Path, typer.Option(
                "--html", metavar="FILE.html", show_default=False,
                help="write a page, with the source beside each part")] = Path()) -> None:
    """Print which way each part of a function goes, and why: its plan.

    Kernels, loops that the host steps through, what is left to IREE: each with the user's lines,
    and what stood in the way of a faster way.  Nothing is compiled.  Of a primitive: its rules,
    with file and line.

    Examples:

    - `calque explain model.py:step --arg f32[8,128]`

    - `calque explain model.py:step --arg f32[8,128] --html plan.html`

    - `calque explain sin`

    - `calque explain`
    """
    from calque_cli.explain import explain_function, explain_primitive, table_of_primitives
    if ":" in what or what.endswith(".py"):
        explain_function(what, arg, static, constraint, target, as_json, html)
    elif what:
        explain_primitive(what)
    else:
        table_of_primitives()


@app.command()
@reported
def doctor() -> None:
    """Print versions, devices, the CPU and the cache, and what is missing.

    Example:

    - `calque doctor`
    """
    from calque_cli.doctor import doctor as examine
    examine()


@app.command()
@reported
def warmup() -> None:
    """Compile the common eager operations once, for arrays of every shape.

    Afterwards `jnp.sin(x)` and the like run in new processes without a compile.  Kept in the disk
    cache until calque, the compiler or the CPU changes.

    Example:

    - `calque warmup`
    """
    from calque_cli.doctor import warm_up
    warm_up()


@app.command("run-many", context_settings={"allow_interspersed_args": False})
@reported
def run_many(
        program: Annotated[Path, typer.Argument(metavar="PROG.py", show_default=False,
                                                help="a Python program")],
        arguments: Annotated[list[str] | None, typer.Argument(
            metavar="[ARGS]...", show_default=False, help="the program's arguments")] = None,
        count: Annotated[int, typer.Option("--processes", "-n", metavar="N", min=1,
                                           help="how many processes")] = 2,
        label: Annotated[bool, typer.Option(
            "--label", "-l", metavar="",
            help="put the process's number before each line")] = False) -> None:
    """Run a program in several processes on this machine (mpiexec does it).

    The program calls `calque.distributed.initialize()` first of all.  Ctrl-C ends all processes;
    the exit code is that of one that failed.

    Example:

    - `calque run-many -n 4 prog.py --epochs 3`
    """
    from calque_cli.processes import run_many as start
    start(count, program, arguments or [], label)


@app.command()
@reported
def cache(clear: Annotated[bool, typer.Option(
        "--clear", metavar="", help="delete every compiled program")] = False) -> None:
    """Print what the cache of compiled programs holds, or empty it.

    Examples:

    - `calque cache`

    - `calque cache --clear`
    """
    from calque_cli.doctor import cache_report
    if clear:
        from calque.lowering.driver.cache import clear_disk_cache
        typer.echo(f"deleted {clear_disk_cache()} programs")
    cache_report()


compat = typer.Typer(no_args_is_help=True, help="Code that was written for JAX.")
app.add_typer(compat, name="compat")


@compat.callback()
def compat_options() -> None:  # (with a callback, a single command keeps its name)
    pass


@compat.command()
@reported
def scan(folder: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False,
                                                help="Python files, or one file")],
         as_json: Annotated[bool, typer.Option("--json", metavar="", help="print JSON")] = False,
         absent: Annotated[bool, typer.Option(
             "--absent", metavar="", help="leave out what is present")] = False) -> None:
    """List the names of JAX that Python files write, and which of them calque has not.

    Nothing is run: imports, their aliases and attributes are read.  Ends with exit code 1 where a
    name is absent that the code does not do without (try, hasattr, TYPE_CHECKING).

    Examples:

    - `calque compat scan my_project`

    - `calque compat scan train.py --json`
    """
    from calque_cli.scan import scan as print_names
    print_names(folder, as_json, absent)


def main() -> None:
    """The entry point `calque`."""
    app()
