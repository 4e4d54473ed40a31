"""Paths of leaves in trees of registered classes."""
from __future__ import annotations

import dataclasses
from typing import Any

from calque import tree_util


def test_paths_of_dataclasses() -> None:
    @dataclasses.dataclass
    class Layer:
        w: Any
        b: Any
        name: str

    tree_util.register_dataclass(Layer, data_fields=["w", "b"], meta_fields=["name"])
    paths = [tree_util.keystr(p) for p, _ in
             tree_util.tree_flatten_with_path({"a": [Layer(1, (2, 3), "x")]})[0]]
    assert paths == ["['a'][0].w", "['a'][0].b[0]", "['a'][0].b[1]"]
