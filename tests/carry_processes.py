"""Compiles what two processes do with a GPU (tests/processes/gpus.py) for one that is elsewhere.

    python tests/carry_processes.py FOLDER [--target cuda:sm_80]

The program runs here, in two processes on lavapipe (or on CPUs: --here cpu); each of its programs
is compiled for the target, too, and kept.  On the machine with a card, which two processes share:

    python -m pip install numpy ml_dtypes optree mpi4py mpich iree-base-runtime==3.13.*
    mpiexec -n 2 python FOLDER/run.py

There the same program is traced, and what it would compile is looked up: no compiler is needed.
FOLDER/run.py --platform vulkan does so on lavapipe, with --target vulkan:lavapipe.
Not collected by pytest.  Start reading at `main`.
"""
from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent

COMMON = """
import dataclasses, pathlib, pickle, re, sys
FOLDER = pathlib.Path({folder})
import calque
from calque.dispatch import eager, shape_polymorphic
shape_polymorphic.prepared = lambda *a, **k: None  # what serves any shape is written otherwise
place = [0]

def said(program, donated):
    return re.sub("0x[0-9a-f]+", "", f"{{program}} {{donated}}")

def entry():
    place[0] += 1
    return FOLDER / "programs" / f"{{calque.process_index()}}-{{place[0] - 1}}.pickle"
"""
RECORD = COMMON + """
from calque.lowering.driver.attempts import compile_lowered
from calque.lowering.driver.module import LowerOptions, lower
from calque.lowering.target.targets import parse_target
plain = eager.compile_program

def compile_program(program, device, donated=(), reason=""):
    target = parse_target({target!r})
    lowered, vmfb = compile_lowered(
        lambda **how: lower(program, target, LowerOptions(donated=donated, in_process=True, **how)),
        target, lambda lowered: lowered.options, program.name, program.name)
    fields = {{f.name: getattr(lowered, f.name) for f in dataclasses.fields(lowered)
              if f.name not in ("program", "module")}}
    path = entry()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps((said(program, donated), fields, vmfb)))
    return plain(program, device, donated, reason)

eager.compile_program = compile_program
"""
REPLAY = COMMON + """
from calque.lowering.driver.module import Lowered

def compile_program(program, device, donated=(), reason=""):
    path = entry()
    text, fields, vmfb = pickle.loads(path.read_bytes())
    if text != said(program, donated):
        raise SystemExit(f"{{path.name}} is of another program:\\n{{text}}\\n{{program}}")
    return eager.Compiled(Lowered(program=program, module=None, **fields), device, vmfb)

eager.compile_program = compile_program
"""
RUN = '''"""Two processes that share a GPU: mpiexec -n 2 python run.py [--platform cuda]"""
import os, sys
os.environ["JAX_PLATFORMS"] = sys.argv[2] if len(sys.argv) > 2 else "cuda"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="cuda:sm_80")
    parser.add_argument("--here", default="vulkan", help="the platform that it runs on here")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE / "processes"))
    from gpus import PROGRAM
    from jobs import HEAD
    folder = args.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    record = folder / "record.py"
    record.write_text(f'import os\nos.environ["JAX_PLATFORMS"] = {args.here!r}\n'
                      + RECORD.format(folder=repr(str(folder)), target=args.target)
                      + HEAD + PROGRAM)
    many = [str(Path(sys.executable).parent / "calque"), "run-many", "-n", "2", str(record)]
    subprocess.run(many, check=True)
    record.unlink()
    (folder / "run.py").write_text(RUN + REPLAY.format(
        folder="os.path.dirname(os.path.abspath(__file__))") + HEAD + PROGRAM)
    own = shutil.ignore_patterns("__pycache__", "objects", "cpp", "lowering", "runtime")
    shutil.copytree(ROOT / "frontend" / "calque", folder / "calque", ignore=own)
    for name in ("lowering", "runtime"):
        shutil.copytree(ROOT / name, folder / "calque" / name, ignore=shutil.ignore_patterns(
            "__pycache__", "objects", "cpp"))
    version = importlib.metadata.version("calque")
    info = folder / f"calque-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: calque\nVersion: {version}\n")
    count = len(list((folder / "programs").glob("0-*")))
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{count} programs of each process for {args.target}, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
