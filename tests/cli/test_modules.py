"""calque compile, inspect and header of an aot.Module."""
from pathlib import Path

MODULE = """
import calque.numpy as jnp
from calque import aot


class Counter(aot.Module):
    def __init__(self):
        self.count = {"new": jnp.zeros((), int)}

    @aot.export("i32")
    def add(self, n):
        self.count = {"new": self.count["new"] + n}
        return self.count["new"], {"class": n}

    @aot.export([])
    def peek(self, nothing):
        return self.count["new"] + 1


class Broken(aot.Module):
    def __init__(self):
        raise RuntimeError("no weights here")


READY = Counter()
"""


def test_a_class_or_an_object_of_it_is_compiled(calque, tmp_path):
    Path("m.py").write_text(MODULE)
    for name in ("Counter", "READY"):
        assert calque("compile", f"m.py:{name}", "-o", "m.vmfb").out.startswith("wrote m.vmfb")
    said = calque("inspect", "m.vmfb").out
    assert "argument count['new']: int32[]  (state, donated)\n    argument n: int32[]" in said
    assert "argument count['new']: int32[]  (state)" in said  # peek reads it


def test_the_header_has_names_that_cpp_takes(calque):
    Path("m.py").write_text(MODULE)
    calque("compile", "m.py:Counter", "-o", "m.vmfb")
    text = calque("header", "m.vmfb").out
    for line in ("namespace m {", "  calque::Typed<std::int32_t> n;  // int32[]",
                 "  calque::Typed<std::int32_t> result_0;  // int32[]",
                 "  calque::Typed<std::int32_t> result_1_class;  // int32[]",
                 "    return {results[0], results[1]};",
                 "static constexpr const char* count_new = \"count['new']\";  // int32[]",
                 "  explicit Model(const calque::Module& loaded) : session(loaded) {}"):
        assert line in text


def test_what_does_not_go_with_a_module_is_refused(calque):
    Path("m.py").write_text(MODULE)
    said = calque("compile", "m.py:Counter", "--arg", "f32", code=2).err
    assert "Counter is an aot.Module, which says the types itself" in said and "Fix: " in said
    assert "no weights here" in calque("compile", "m.py:Broken", code=1).err
    assert "is an aot.Module, no function" in calque("dump", "m.py:Counter", code=2).err
