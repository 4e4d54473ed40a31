"""Types and arrays written as text."""
import ml_dtypes
import numpy as np
import pytest

from calque.aot.specs import (
    SpecError,
    as_specs,
    has_64_bits,
    parse_array,
    parse_dtype,
    parse_spec,
    parse_tree,
)
from calque.core import dtypes
from calque.dispatch.tracing import ShapeDtypeStruct as Spec


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_dtype_has_its_short_and_its_numpy_name(dtype):
    if dtype.name != "int1":  # i1 is MLIR's boolean
        assert parse_dtype(dtypes.short_name(dtype)) == dtype
    assert parse_dtype(dtype.name) == dtype


@pytest.mark.parametrize("name, dtype", [
    ("pred", "bool"), ("i1", "bool"), ("bf16", ml_dtypes.bfloat16),
    ("f8e4m3fn", ml_dtypes.float8_e4m3fn), ("f8e5m2", ml_dtypes.float8_e5m2)])
def test_other_names(name, dtype):
    assert parse_dtype(name) == np.dtype(dtype)


@pytest.mark.parametrize("text, shape", [
    ("f32[8,128]", (8, 128)), ("f32[]", ()), ("f32", ()), (" f32[ 2 , 3 ] ", (2, 3)),
    ("f32[0]", (0,)), ("float32[1]", (1,))])
def test_specs(text, shape):
    assert parse_spec(text) == Spec(shape, "float32")


def test_trees():
    tree = parse_tree('{"w": f32[3,2], b: [f32[2], (i8, None)], 3: {}, \'k\': []}')
    assert tree == {"w": Spec((3, 2), "float32"), "b": [Spec((2,), "float32"),
                                                        (Spec((), "int8"), None)], 3: {}, "k": []}
    assert parse_tree("[f32[2], f32[3],]") == [Spec((2,), "float32"), Spec((3,), "float32")]
    assert parse_tree("(f32, )") == (Spec((), "float32"),)


def test_texts_in_trees_are_parsed_and_others_kept():
    array = np.ones(3)
    assert as_specs(("f32[2]", {"a": array})) == (Spec((2,), "float32"), {"a": array})
    assert has_64_bits(("f32", {"a": array})) is False or array.dtype == np.float64
    assert has_64_bits([parse_spec("c128[2]")]) and not has_64_bits([parse_spec("c64")])


@pytest.mark.parametrize("text, first", [
    ("f33[2]", "unknown dtype 'f33'."),
    ("f32[2", "'f32[2' is not a type: a dtype and, in brackets, the sizes are expected."),
    ("f32[2][3]", "'f32[2][3]' is not a type: a dtype and, in brackets, the sizes are expected."),
    ("", "'' is not a type: a dtype and, in brackets, the sizes are expected."),
    ("f32[a]", "'f32[a]': 'a' is not a size."), ("f32[-1]", "'f32[-1]': '-1' is not a size."),
    ("f32[2,]", "'f32[2,]': '' is not a size."), ("f32[?]", "'f32[?]': '?' is not a size."),
    ("f32[2.5]", "'f32[2.5]': '2.5' is not a size."), ("f32[\u00b2]", "'f32[\u00b2]': '\u00b2' is "
                                                        "not a size.")])
def test_wrong_specs(text, first):
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    assert str(caught.value).split("\n")[0] == first and "\n  Fix: " in str(caught.value)


@pytest.mark.parametrize("text, first", [
    ('{"w": f32[2]', """'{"w": f32[2]': ',' is expected where the end is."""),
    ('{"w" f32[2]}', """'{"w" f32[2]}': ':' is expected where 'f32[2]' is."""),
    ("[f32[2]]]", "'[f32[2]]]': the end is expected where ']' is."),
    ("f32[2,3] f32", "'f32[2,3] f32': the end is expected where 'f32' is."),
    ("[3]", "'[3]': a type is expected where '3' is."),
    ("", "'': a type is expected where the end is."),
    ("{[]: f32}", "'{[]: f32}': a key is expected where '[' is."),
    ("{a: $}", "'{a: $}': a type is expected where '$' is."),
    ("[f33[1]]", "unknown dtype 'f33'."),
    ("f32[2", "'f32[2': the end is expected where '[' is.")])
def test_wrong_trees(text, first):
    with pytest.raises(SpecError) as caught:
        parse_tree(text)
    assert str(caught.value).split("\n")[0] == first and "\n  Fix: " in str(caught.value)


@pytest.mark.parametrize("text, wanted", [
    ("f32[2,3]=1,2,3,4,5,6", np.arange(1, 7, dtype=np.float32).reshape(2, 3)),
    ("f32[2,2]=0.5", np.full((2, 2), 0.5, np.float32)),
    ("f32=-1e-3", np.float32(-1e-3)), ("f32[2]=inf nan", np.array([np.inf, np.nan], np.float32)),
    ("i8[2]=-128,127", np.array([-128, 127], np.int8)), ("u8=0xff", np.uint8(255)),
    ("u64=18446744073709551615", np.uint64(2**64 - 1)),
    ("bool[3]=true,0,False", np.array([True, False, False])),
    ("c64[2]=1+2j,3", np.array([1 + 2j, 3], np.complex64)),
    ("bf16[2]=1.5,2", np.array([1.5, 2], ml_dtypes.bfloat16)),
    ("f32[0]=", np.zeros(0, np.float32))])
def test_arrays(text, wanted):
    got = parse_array(text)
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("text, first", [
    ("f32[3]=1,2", "'f32[3]=1,2': f32[3] has 3 elements, but 2 values are given."),
    ("f32[3]=", "'f32[3]=': f32[3] has 3 elements, but 0 values are given."),
    ("f32=one", "'one' is not a value of dtype float32."),
    ("i8=128", "'128' is not a value of dtype int8."),
    ("i32=1.5", "'1.5' is not a value of dtype int32."),
    ("u8=-1", "'-1' is not a value of dtype uint8."),
    ("bool=2", "'2' is not a value of dtype bool."),
    ("c64=x", "'x' is not a value of dtype complex64."),
    ("key=0", "'key=0': keys cannot be written as text.")])
def test_wrong_arrays(text, first):
    with pytest.raises(SpecError) as caught:
        parse_array(text)
    assert str(caught.value).split("\n")[0] == first and "\n  Fix: " in str(caught.value)
