"""Compiles the programs of tests/carried_tables.py for a card that is elsewhere.

    python tests/carry_tables.py FOLDER [--target cuda:sm_80] [--only products]

FOLDER then holds a .vmfb a program, tables.py and calque's runtime: copy it to a machine with a
card, NumPy, ml_dtypes, iree-base-runtime (and JAX and torch, to compare with) and run
`python FOLDER/tables.py`.  Not collected by pytest.
"""
from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
from carried_tables import TABLES
from carry import copy_runtime

import calque
from calque import aot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="cuda:sm_80")
    parser.add_argument("--only", default=",".join(TABLES))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for title in args.only.split(","):
        for name, case in TABLES[title].items():
            kind = np.dtype(getattr(ml_dtypes, case.dtype, case.dtype))
            specs = [calque.ShapeDtypeStruct(s[0], np.int32) if s and isinstance(s[0], tuple)
                     else calque.ShapeDtypeStruct(s, kind) for s in case.shapes]
            try:
                with calque.default_matmul_precision(case.precision):
                    made = aot.compile(lambda *xs, f=case.f: f(calque, *xs), *specs,
                                       targets=[args.target], name="main")
            except Exception as error:  # the next program is another matter
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            files[name] = f"table-{title}-{len(files)}.vmfb"
            (args.folder / files[name]).write_bytes(made.vmfb)
            print(f"{name}: {len(made.vmfb)} bytes", flush=True)
    (args.folder / "tables.json").write_text(json.dumps(files))
    shutil.copy(Path(__file__).with_name("carried_tables.py"), args.folder / "tables.py")
    copy_runtime(args.folder)


if __name__ == "__main__":
    main()
