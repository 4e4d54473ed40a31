"""What is given wrongly is one sentence with a Fix line and exit code 2; the user's own exceptions
show the user's frames and exit 1."""
import io
import re
import subprocess
import sys

import numpy as np
import pytest

WRONG = [
    # compile: file, function
    (("compile", "none.py:f"), "no file none.py.", "check the path"),
    (("compile", "model.py"), "'model.py' does not name a function in a file.",
     "write it like model.py:predict."),
    (("compile", "model.py:"), "'model.py:' does not name a function in a file.", "write it"),
    (("compile", "model.py:doubl"), "model.py has no 'doubl'.", "did you mean double?"),
    (("compile", "model.py:zzz"), "model.py has no 'zzz'.", "it has branch, double, flip"),
    (("compile", "model.py:NUMBER"), "NUMBER in model.py is int, not a function.", "name a"),
    (("compile", "notes.txt:f"), "notes.txt is not a Python file.", "give a file that ends in"),
    # types
    (("compile", "model.py:double", "-a", "f33[2]"), "unknown dtype 'f33'.", "use one of bool,"),
    (("compile", "model.py:double", "-a", "f32[2"),
     "'f32[2': the end is expected where '[' is.", "write it like"),
    (("compile", "model.py:double", "-a", "f32[x.y]"),
     "'f32[x.y]': 'x.y': ',' is expected at '.y'.", "write sizes"),
    (("compile", "model.py:double", "-a", "f32[?]"), "'f32[?]': '?' is not a size.", "write each"),
    (("compile", "model.py:double", "-a", "f32[-1]"), "'f32[-1]': '-1' is not a size.", "write"),
    # arguments
    (("compile", "model.py:double"), "double(x): missing a required argument: 'x'.", "give one"),
    (("compile", "model.py:double", "-a", "f32", "-a", "f32"),
     "double(x): too many positional arguments.", "give one type for each parameter"),
    (("compile", "model.py:double", "-a", "y=f32"),
     "double(x): missing a required argument: 'x'.", "give one"),
    (("compile", "model.py:double", "-a", "x=f32", "-a", "x=f32"), "--arg x is given twice.",
     "give each argument once."),
    (("compile", "model.py:power", "-a", "f32", "--static", "3"), "--static '3' is not name=value.",
     "write it like --static n=3."),
    (("compile", "model.py:double", "-a", "f32", "--donate", "1"),
     "argument 1 cannot be donated: the positional arrays are 0.", "give the position"),
    # targets, stages, outputs
    (("compile", "model.py:double", "-a", "f32", "-t", "tpu"), "unknown target 'tpu'.", "choose"),
    (("compile", "model.py:double", "-a", "f32", "-t", "cuda:sm_90a"),
     "unknown target 'cuda:sm_90a'.", "choose one of cuda:host"),
    (("compile", "model.py:double", "-a", "f32", "-t", ","), "no target is named.", "give"),
    (("dump", "model.py:double", "-a", "f32", "-s", "llvm"), "no stage 'llvm'.",
     "choose one of traced, stablehlo, flow, stream, vm."),
    (("compile", "model.py:double", "-a", "f32", "-o", "none/f.vmfb"),
     "No such file or directory: none/f.vmfb", "check the path"),
    # run, inspect
    (("run", "none.vmfb"), "cannot read none.vmfb: No such file or directory.", "check the path."),
    (("run", "model.py"), "not a .vmfb: the file does not begin as one.", "give a file written by"),
    (("inspect", "notes.txt"), "not a .vmfb: the file does not begin as one.", "give a file"),
    (("run", "f.vmfb"), "double takes 1 inputs, got 0.", "give --input 'float32[2]=...'."),
    (("run", "f.vmfb", "-i", "f32[3]=0"), "x must be float32[2], got float32[3].",
     "give --input 'float32[2]=...', or a .npy file of that dtype and shape."),
    (("run", "f.vmfb", "-i", "i32[2]=0"), "x must be float32[2], got int32[2].", "give --input"),
    (("run", "f.vmfb", "-i", "f32[2]=1,2,3"),
     "'f32[2]=1,2,3': f32[2] has 2 elements, but 3 values are given.", "give one value"),
    (("run", "f.vmfb", "-i", "f32[2]=a"), "'a' is not a value of dtype float32.", "write numbers"),
    (("run", "f.vmfb", "-i", "none.npy"), "x: no file none.npy.", "give a .npy file"),
    (("run", "f.vmfb", "-i", "notes.txt"), "x: notes.txt is not a .npy file.", "write it with"),
    (("run", "f.vmfb", "-i", "o.npy"),
     "x: o.npy holds pickled Python objects, which are not loaded.", "save numbers: numpy.save"),
    (("explain", "dot"), "no primitive 'dot'.", "did you mean dot_general, "),
    (("explain", "matmul"), "no primitive 'matmul'.", "did you mean dot_general"),
    (("explain", "reduce"), "no primitive 'reduce'.", "did you mean reduce_and, reduce_max, "),
    (("run", "f.vmfb", "-i", "x.npz"), "x: x.npz holds several arrays.", "give one .npy file"),
    (("run", "f.vmfb", "-i", "x.npy"), "x must be float32[2], got float64[2].", "give --input"),
    (("run", "f.vmfb", "--function", "g"), "no function 'g' in f.vmfb; it has double.", "name one"),
    (("run", "f.vmfb", "-i", "f32[2]=0", "-o", "y.txt"), "results cannot be saved as y.txt.",
     "give a name that ends in .npy"),
    (("run", "two.vmfb", "-i", "f32[1]=0", "-i", "f32[0]=", "-i", "f32[2]=0", "-o", "y.npy"),
     "passes has 3 results, and y.npy holds one array.", "save them in one .npz file."),
    # exported functions
    (("compile", "nothing.jaxexport"),
     "nothing.jaxexport cannot be read: No such file or directory.", "check the path"),
    # explain
    (("explain", "sine"), "no primitive 'sine'.", "did you mean sin"),
    (("explain", "qqqq"), "no primitive 'qqqq'.", "`calque explain` lists all primitives."),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Artifacts and arrays that the wrong commands name, made once."""
    from calque import aot, lax
    folder = tmp_path_factory.mktemp("files")

    def double(x):
        return lax.add(x, x)

    def passes(unused, empty, x):
        return x, empty, lax.neg(x)

    made = {"f.vmfb": aot.compile(double, "f32[2]").vmfb,
            "two.vmfb": aot.compile(passes, "f32[1]", "f32[0]", "f32[2]").vmfb,
            "notes.txt": b"only text\n"}
    for name, array in (("x.npy", np.zeros(2)), ("x.npz", {"a": np.zeros(2)}),
                        ("o.npy", np.array([None, 1]))):
        stream = io.BytesIO()
        np.savez(stream, **array) if isinstance(array, dict) else np.save(stream, array)
        made[name] = stream.getvalue()
    return folder, made


@pytest.fixture
def wrong(calque, files, folder):
    for name, data in files[1].items():
        (folder / name).write_bytes(data)
    return calque


@pytest.mark.parametrize("words, first, fix", WRONG, ids=[" ".join(w) for w, _, _ in WRONG])
def test_one_sentence_and_exit_code_2(words, first, fix, wrong):
    ended = wrong(*words, code=2)
    lines = ended.err.splitlines()
    assert lines[0] == f"calque: {first}"
    assert lines[-1].startswith(f"  Fix: {fix}")
    assert "Traceback" not in ended.err and ended.out == ""


def test_files_of_another_compiler_version(calque, folder, files):
    """They say what they are, and are not loaded."""
    from calque.runtime import ArtifactError, load
    from calque.runtime.container import join, split
    data = bytearray(split(files[1]["f.vmfb"], "")[0])
    start = bytes(data).index(b"module.fb") + 9
    for i in range(start, start + 400):  # find the version word: 17.0 is 0x00110000
        if data[i:i + 4] == b"\x00\x00\x11\x00":
            data[i + 2] = 15
            break
    whole = join([bytes(data)])
    (folder / "old.vmfb").write_bytes(whole)
    with pytest.raises(ArtifactError, match="bytecode version mismatch"):
        load(whole)
    assert "double" in calque("inspect", "old.vmfb").out
    ended = calque("run", "old.vmfb", "-i", "f32[2]=0,0", code=2)
    assert ended.err.startswith("calque: the compiled program cannot be loaded: ")
    assert "bytecode version mismatch" in ended.err.splitlines()[0]
    assert "  Fix: compile it again with the compiler of the same minor version" in ended.err


def test_truncated_files(calque, folder, files):
    (folder / "half.vmfb").write_bytes(files[1]["f.vmfb"][:3000])
    ended = calque("run", "half.vmfb", code=2)
    assert ended.err.startswith("calque: the artifact is damaged: its end is missing.")


@pytest.mark.parametrize("changed", ["register", "program header"])
def test_changed_bytes_under_a_new_digest(changed, calque, folder, files):
    """Every command that reads artifacts looks at what is inside, and says what is wrong there."""
    from calque.runtime.container import join, split
    data = bytearray(split(files[1]["f.vmfb"], "")[0])
    if changed == "program header":  # the offset of the first in the ELF file, in its header
        at = bytes(data).index(b"\x7fELF") + 32
        data[at + 4] ^= 0x40
        what = "the native code's tables are outside"
    else:
        code = bytes(data)[:bytes(data).index(b"\x7fELF")]  # ends with the functions' instructions,
        at = code.rindex(b"\x0d\x00\x00\x00\x00")  # one of which is: 0, to a register
        data[at + 5:at + 7] = b"\xff\x7f"
        what = "register 32767 is used, which is none of its function's"
    (folder / "changed.vmfb").write_bytes(join([bytes(data)]))
    for words in (("inspect",), ("run", "-i", "f32[2]=0,0"), ("bench",), ("link", "-o", "l.vmfb"),
                  ("verify", "model.py:double", "-a", "f32[2]")):
        ended = calque(words[0], "changed.vmfb", *words[1:], code=2)
        lines = ended.err.splitlines()
        assert lines[0] == f"calque: the artifact is damaged: {what}.", words
        assert "changed.vmfb" in lines[1] and lines[2].startswith("  Fix: copy it again"), words


def test_devices_that_are_not_there(calque, folder):
    from calque import runtime
    try:
        runtime.devices("cuda")
        pytest.skip("there is a GPU here")
    except RuntimeError:
        pass
    calque("compile", "model.py:double", "-a", "f32[2]", "-t", "cuda:sm_80", "-o", "g.vmfb")
    ended = calque("run", "g.vmfb", "-i", "f32[2]=0", code=2)
    assert ended.err.startswith(
        "calque: g.vmfb is compiled for cuda, and there is no such device here: ")


@pytest.mark.parametrize("words", [("compile",), ("run", "f.vmfb", "--frob"), ("frob",),
                                   ("compile", "model.py:double", "--donate", "x")])
def test_wrong_options_exit_with_2(words, wrong):
    assert "Traceback" not in wrong(*words, code=2).err


# ---- the user's own exceptions
def test_exceptions_in_the_function_show_the_users_frames(calque, folder):
    err = calque("compile", "model.py:raises", "-a", "f32", code=1).err
    assert err.splitlines()[0] == "Traceback (most recent call last):"
    assert [line.split(", in ")[1] for line in err.splitlines() if line.startswith('  File "')] == [
        "raises", "_helper"]
    assert err.splitlines()[-1] == "KeyError: 'missing'"


def test_shape_errors_show_the_users_line_and_three_parts(calque):
    err = calque("dump", "model.py:wrong", "-a", "f32[3]", "-s", "traced", code=1).err
    assert "return lax.add(y, lax.full((7,), 1.0))" in err
    assert "calque/lax" not in err and "  Fix: " in err
    assert "TypeError: add got incompatible shapes for broadcasting: (3,), (7,)." in err


def test_python_control_flow_on_arrays(calque):
    err = calque("compile", "model.py:branch", "-a", "f32", code=1).err
    assert "if x > 0:" in err and "calque/" not in err


def test_messages_name_the_function_where_a_command_calls_it(folder):
    err = subprocess.run(
        [sys.executable, "-m", "calque", "compile", "model.py:branch", "-a", "f32"], cwd=folder,
        capture_output=True, text=True, check=False).stderr
    assert re.search(r"In branch \(model\.py:\d+\), in the function traced at branch \(model\.py:",
                     err)


@pytest.mark.parametrize("text, last", [
    ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
    ("def f(:\n", "SyntaxError: invalid syntax"), ("1 / 0\n", "ZeroDivisionError: division by zero")
])
def test_files_that_do_not_import(text, last, calque, folder):
    (folder / "broken.py").write_text(text)
    err = calque("compile", "broken.py:f", "-a", "f32", code=1).err
    assert err.splitlines()[-1] == last and "broken.py" in err
    assert "calque_cli" not in err and "importlib" not in err


def test_files_import_their_neighbours(calque, folder):
    (folder / "near.py").write_text("from model import double as twice\n")
    assert "add" in calque("dump", "near.py:twice", "-a", "f32").out


def test_full_tracebacks_on_request(calque, monkeypatch):
    monkeypatch.setenv("CALQUE_TRACEBACK", "full")
    err = calque("compile", "none.py:f", code=2).err
    assert "Traceback (most recent call last):" in err and "calque_cli/functions.py" in err
    assert "UsageError: no file none.py." in err
