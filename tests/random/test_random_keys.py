"""Keys of the implementations other than threefry2x32.  Expected words: jax 0.10.2, whose counters
are those of Random123 (Salmon, Moraes, Dror, Shaw 2011), with jax_threefry_partitionable=True.
"""
from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from support.harness import some_and_more

import calque
import calque.numpy as jnp
from calque import lax, random

# of key(42): words; split(key, 3)[1:]; fold_in(key, 7); bits (6,); of 16; of 8; of 64 (3,);
# vmap of bits (3,) over split(key, 2)
EXPECTED: dict[str, list[Any]] = {
    "rbg": [
        [0, 42, 0, 42],
        [[64467757, 2916123636] * 2, [2465931498, 255383827] * 2], [2547012911, 1371500959] * 2,
        [2620864722, 2991908441, 282133475, 2589630650, 1779689962, 1069940430],
        [14546, 58969, 995, 41146, 59882, 65230], [210, 89, 227, 186, 234, 206],
        [12850148909342210258, 11122378950751355875, 4595359157297867242],
        [[1826589366, 4083436224, 2060148117], [898661685, 3775815125, 3662903343]]],
    "unsafe_rbg": [
        [0, 42, 0, 42], [[4105776319, 298289174, 864345282, 274752888],
                         [3163845003, 1288433488, 2875901698, 4130285303]],
        [2104303640, 250182049, 1106406590, 1983638428],
        [2620864722, 2991908441, 282133475, 2589630650, 1779689962, 1069940430],
        [14546, 58969, 995, 41146, 59882, 65230], [210, 89, 227, 186, 234, 206],
        [12850148909342210258, 11122378950751355875, 4595359157297867242],
        [[2621076060, 1110882205, 1431065575], [3391764957, 429002668, 3594548429]]],
    "philox2x32": [
        [3991259024], [[413155073], [2864015503]], [684560128],
        [944504651, 856563819, 3743454102, 2331796311, 1668286540, 2308034990],
        [65355, 8299, 37782, 25431, 2124, 53678], [75, 107, 150, 87, 76, 174],
        [9326519094073462008, 1774487527444324202, 12300852922594753305],
        [[393891712, 3138534060, 1981911537], [2573391632, 4146319350, 3640133010]]],
    "philox4x32": [
        [3717705800, 533567081], [[969239790, 3857553174], [3980413867, 158073360]],
        [41828760, 81464021],
        [1373712901, 3223971023, 2207559167, 2345961807, 3130401370, 789166233],
        [12805, 58575, 44543, 35151, 8794, 47257], [5, 207, 255, 79, 90, 153],
        [9371197513079807646, 6039109255449763556, 10865517904694927394],
        [[4251675414, 4131731806, 3897690288], [3274674317, 3869776868, 558437510]]],
    "threefry4x32": [
        [1605953687, 3689221460, 1722219033, 3178796034],
        [[361144456, 1418825268, 1547191614, 2559243763],
         [1650616655, 2909718409, 1895971994, 1205228181]],
        [2445197787, 3874293641, 4221169969, 2984886860],
        [2739996017, 3649338001, 3087855958, 731494402, 64614064, 2425576255],
        [1393, 31377, 61782, 47106, 61104, 23359], [113, 145, 86, 2, 176, 63],
        [16831092290058782770, 15459856458627681051, 2723202120932536496],
        [[3594541058, 507841744, 3032092393], [3103346851, 1246515598, 2895311323]]]}
SEEDS = {"rbg": [[0, 4294967293] * 2, [4294967295, 4294967293] * 2, [256, 5] * 2],  # -3; x64: -3,
         "philox2x32": [[3533272395], [606104188], [273301894]],                  # 2**40 + 5
         "philox4x32": [[2276750982, 3839892034], [104220875, 670517216], [4054286563, 3968804895]],
         "threefry4x32": [[492161943, 51732682, 673824916, 1362857221],
                          [585648343, 784151330, 3194489350, 1587756278],
                          [2622904193, 697587529, 4243082074, 2720968090]]}


# what is made of a key of (a seed, an implementation), and its place in EXPECTED
STREAMS: dict[str, tuple[Any, int]] = {
    "words": (lambda key: random.key_data(key), 0),
    "split": (lambda key: random.key_data(random.split(key, 3)[1:]), 1),
    "fold_in": (lambda key: random.key_data(random.fold_in(key, 7)), 2),
    "bits": (lambda key: random.bits(key, (6,), "uint32"), 3),
    "bits of 16": (lambda key: random.bits(key, (2, 3), "uint16"), 4),
    "bits of 8": (lambda key: random.bits(key, (6,), "uint8"), 5),
    "each": (lambda key: calque.vmap(lambda k: random.bits(k, (3,), "uint32"))(
        random.split(key, 2)), 7)}


@pytest.mark.parametrize("cases", some_and_more(
    [(i, n) for i in EXPECTED for n in STREAMS], 0.2, lambda c: c[1]))
def test_streams(cases: list[tuple[str, str]]) -> None:
    def draw(seed: Any) -> list[Any]:
        keys = {impl: random.key(seed, impl=impl) for impl, _ in cases}
        for impl, key in keys.items():
            assert random.key_impl(key) == impl and key.dtype == random.key_dtype(impl)
        return [STREAMS[name][0](keys[impl]) for impl, name in cases]

    with calque.threefry_partitionable(True):
        for (impl, name), out in zip(cases, calque.jit(draw)(42), strict=True):
            want = np.reshape(EXPECTED[impl][STREAMS[name][1]], out.shape)
            np.testing.assert_array_equal(np.asarray(out), want, err_msg=f"{impl} {name}")


def test_seeds() -> None:
    def draw(seed: Any, low: Any) -> list[Any]:
        return [(random.key_data(random.key(low, impl=impl)), random.PRNGKey(seed, impl=impl))
                for impl in EXPECTED]

    with calque.threefry_partitionable(True):
        for (impl, expected), (low, words) in zip(EXPECTED.items(), calque.jit(draw)(42, -3)):
            np.testing.assert_array_equal(words, expected[0], err_msg=impl)
            if impl in SEEDS:
                np.testing.assert_array_equal(low, SEEDS[impl][0], err_msg=impl)


@pytest.mark.parametrize("impls", [
    ["rbg", "philox4x32"], pytest.param(["unsafe_rbg", "philox2x32", "threefry4x32"],
                                        marks=pytest.mark.slow)], ids=["some", "more"])
def test_streams_of_64_bits(impls: list[str]) -> None:
    with calque.enable_x64(True), calque.threefry_partitionable(True):
        outs = calque.jit(lambda x, seeds: [[random.bits(random.key(x, impl=i), (3,), "uint64"), *[
            random.key_data(random.key(seeds[k], impl=i)) for k in (0, 1)]] for i in impls])(
                42, np.array([-3, 2**40 + 5]))
        for impl, out in zip(impls, outs, strict=True):
            expected = EXPECTED[impl]
            assert out[0].tolist() == expected[6]
            for o, w in zip(out[1:], SEEDS.get(impl, [])[1:]):
                assert o.tolist() == w, impl


@pytest.mark.slow
def test_keys_of_other_implementations_move_as_keys() -> None:
    key = random.key(0, impl="rbg")
    keys = random.split(key, 3)

    @calque.jit
    def f(keys: Any) -> Any:
        moved = jnp.concatenate([keys[::-1], keys[1:2]]).reshape(2, 2).T
        chosen = jnp.where(moved == keys[1], keys[0], moved)
        return (chosen, moved == keys[1], moved != keys[1], keys.at[1].set(keys[0]),
                keys[jnp.array([2, 0])], jnp.zeros_like(keys),
                lax.scan(lambda k, _: (random.split(k)[0], random.bits(k)), keys[0], None,
                         length=3)[1])

    words = np.asarray(random.key_data(keys))
    chosen, same, other, updated, picked, zeros, drawn = f(keys)
    moved = np.concatenate([words[::-1], words[1:2]]).reshape(2, 2, 4).transpose(1, 0, 2)
    equal = (moved == words[1]).all(-1)
    np.testing.assert_array_equal(np.asarray(same), equal)
    np.testing.assert_array_equal(np.asarray(other), ~equal)
    np.testing.assert_array_equal(random.key_data(chosen), np.where(equal[..., None], words[0],
                                                                    moved))
    np.testing.assert_array_equal(random.key_data(updated), words[[0, 0, 2]])
    np.testing.assert_array_equal(random.key_data(picked), words[[2, 0]])
    assert not random.key_data(zeros).any() and len(set(drawn.tolist())) == 3
    for again in (pickle.loads(pickle.dumps(keys)), copy.deepcopy(keys),
                  random.wrap_key_data(words, impl="rbg")):
        assert again.dtype == keys.dtype
        np.testing.assert_array_equal(random.key_data(again), words)


def test_large_arrays_of_keys_compare() -> None:
    keys = random.split(random.key(0), 20_000)  # more than NumPy takes over
    same = keys == keys[7]
    assert np.asarray(same).sum() == 1
    assert np.asarray(jnp.where(same, keys[0], keys) == keys[0]).sum() == 2


def test_errors_and_the_default() -> None:
    with pytest.raises(ValueError, match='unrecognized PRNG implementation "nope"'):
        random.key(0, impl="nope")
    with pytest.raises(TypeError, match="last axis of size 4"):
        random.wrap_key_data(np.zeros(2, np.uint32), impl="rbg")
    with pytest.raises(TypeError, match=r"expected key_data.shape to end with \(2,\)"):
        random.bits(random.PRNGKey(0, impl="rbg"))
    with pytest.raises(NotImplementedError, match="only implemented for the threefry2x32"):
        random.poisson(random.key(0, impl="rbg"), 3.0)
    with pytest.raises(TypeError, match="do not promote"):
        jnp.stack([random.key(0), random.key(0, impl="rbg")])
    for mixed in (lambda key: jnp.zeros(2).at[0].set(key), lambda key: key.at[()].set(1.0),
                  lambda key: jnp.result_type(key, 1.0), lambda key: jnp.where(True, key, 0)):
        with pytest.raises(TypeError, match=r"key<fry>.* do not promote"):
            mixed(random.key(0))
    calque.config.update("jax_default_prng_impl", "philox2x32")
    try:
        key, keys = calque.jit(lambda: (
            random.PRNGKey(42), random.split(random.PRNGKey(42), 3)[1:]))()
        assert key.tolist() == [3991259024] and keys.tolist() == [[413155073], [2864015503]]
    finally:
        calque.config.update("jax_default_prng_impl", "threefry2x32")


@pytest.mark.slow
def test_gamma_of_another_default() -> None:
    calque.config.update("jax_default_prng_impl", "philox2x32")
    try:
        drawn = calque.jit(lambda: random.gamma(random.key(0), 3.0, (2,)))()
        # jax 0.10.2: random.gamma(random.key(0, impl="philox2x32"), 3.0, (2,))
        np.testing.assert_allclose(drawn, [3.2026005, 1.8642595], rtol=1e-6)
    finally:
        calque.config.update("jax_default_prng_impl", "threefry2x32")


def test_full_like_of_keys():
    keys = random.split(random.key(0), 3)
    made = jnp.full_like(keys, keys[1])
    assert made.dtype == keys.dtype and made.shape == (3,)
    np.testing.assert_array_equal(random.key_data(made), [np.asarray(random.key_data(keys[1]))] * 3)
