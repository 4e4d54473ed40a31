"""Says of a test that failed what kind of failure it is.

`crash`, `hang`; `value`: another number; `noraise`: no error where JAX has one; `assert`: another
assertion of the test's; `error`: an error where JAX has none; `missing`: a public name is absent;
`message`: the right class of error with another text; `private`: the test looks at JAX's
implementation.  Only the last is no failure of ours; it is decided by the error, by what stands in
the line that failed, and for some tests by name (BY_NAME).
"""
from __future__ import annotations

import re
from typing import Any

KINDS = ("crash", "hang", "value", "noraise", "assert", "error", "missing", "message")

# what a line of a test that looks at the implementation has in it
PRIVATE_LINE = re.compile(
    r"as_text\(|lowered_text|compiled_text|sdy\.|compiler_ir|\bhlo\b|stablehlo|jax\._src|jaxpr_text|str\(jaxpr|str\(jax\.make_jaxpr|"
    r"\.pretty_print|assertMultiLineStrippedEqual|_jax\b|\.cost_analysis|count_|_cache_size|"
    r"lower_jaxpr|mlir_module|\bjaxpr\.(eqns|jaxpr|in_avals|outvars|effects|consts|debug_info|"
    r"constvars)|\.primitive\b|check_jaxpr|lu\.|pe\.|api_util\.|core\.eval_jaxpr|_check_aval|"
    r"\.aval[.,]|cpp_jit|assertCacheMisses|xla_bridge|str\(closed|saved_residuals|debug_info|"
    r"compiler_option|jaxpr_str|traceback_in_locations|\.runtime_executable|unsafe_buffer_pointer|"
    r"module_str|pxla\.py|_value\b|_npy_value|assertIn\(['\"](scan|while|pjit|cond|custom_jvp|custom_vjp|pvary|psum|"
    r"remat|checkpoint|sin|cos|mul|add|dot|name|reduce)")
PRIVATE_MESSAGE = re.compile(
    r"attribute 'mat'|keyword argument '(committed|_\w+)'|attribute 'spec'|Var\(f|"
    r"has no attribute '_|has no attribute 'eqns|no attribute 'aval'|_src\.|has no option '_|"
    r"private|has no attribute 'cache_info'|cannot import name")
# a text that a program was lowered to, and which is looked for what XLA's has
TEXT = re.compile(r"not found in ['\"](#map[^\n]*\\n)?module @")
VALUE = re.compile(r"Not equal to tolerance|Arrays are not equal|Mismatched elements|"
                   r"not almost equal|Items are not equal|not close")

# a test's name -> its kind, decided by reading the test
BY_NAME = {
    r"test_dce_jaxpr|test_eqn_repr|cache_miss_explanations|test_jit_compilation_time_logging|"
    r"test_remat_residual_logging|test_grad_of_jit_compilation_caching|partial_cse_prevention|"
    r"test_remat_no_redundant_flops|test_fun_name|test_jit_cache_clear|"
    r"test_deferred_primal_with_direct_linearize|test_wrong_output_abstract_eval|"
    r"test_make_jaxpr_deduplicates_consts|test_nested_jit_hoisting|test_constant_handler_mro|"
    r"test_initial_style_vmap_with_collective|test_custom_lin_pretty_print": "private",
    r"test_remat_.*(checkpoint_dots|funky|_policy)": "private",
    # how many frames lie between a function and its caller
    r"test_(vmap|grad|custom_vjp|scan|jit)_traceback": "private",
    # puts another implementation into lax's own primitives, to count its calls
    r"test_remat_basic": "private",
    # the equations of a jaxpr, names of tracers' classes
    r"testMixedPrecisionDot|testMeanF16Casts|test_tracer_reprs": "private",
    # texts that no error has
    r"test_print_environment_info|test_lax_numpy_docstrings": "message",
    r"Custom(JVP|VJP|VJP3)Test::test_dce": "private",
    r"testDtypeFrom|test_itemsize_bits|testIsSubdtypeIntN|test_edtype_conversion": "private",
    r"test_einsum_mixed_precision|testIndicesNormalizationByType|test_scan_typecheck_param|"
    r"test_is_valid_jaxtype|test_unknown_platform_error": "private",
    r"testVMapShardingConstraint|test_wsc_vmap_unconstrained|test_nary_op_input_constraint|"
    r"test_array_impl_name": "private",
    # classes of effects are jax._src's, and so are the tokens that lowering rules pass on
    r"^jaxpr_effects_test.py::(ControlFlow|JaxprEff|HigherOrder|Effect|Parallel|Effectful)":
    "private", r"test_ordered_effects_": "private",
    # the StableHLO of calls of targets that do not exist
    r"^ffi_test.py::(FfiTest::test_(params|lowering_layouts|effects_hlo|token|legacy_backend|"
    r"input_output_aliases|extended_dtype|headers_exist|invalid_backend|allow_x64)|BatchPart)":
    "private",
    # parts of the text of an exported module
    r"^export_test.py::JaxExportTest::test_poly_export_only": "private",
    # primitives bound by hand, with operands of other sizes or parameters that only JAX's take
    r"^shape_poly_test.py::ShapePolyHarnessesTest::test_harness_vmap_(svd|rsqrt|conj|sqrt|exp|log|"
    r"sin|cos|tan|tanh|logistic|cbrt|[a-z0-9_]+_broadcast)": "private",
    r"test_out_of_bound_indices": "missing"}


def kind(row: dict[str, Any]) -> str:
    """The kind of a failed row."""
    message, error = row.get("message") or "", row.get("error") or ""
    name = row["id"].split("/")[-1]
    named = next((k for pattern, k in BY_NAME.items() if re.search(pattern, name)), None)
    if named:
        return named
    if error in ("crash", "hang"):
        return error
    if "Timeout" in error or "Timeout" in message[:40]:
        return "hang"
    if row.get("private"):
        return "missing" if row["private"].startswith("MISSING") else "private"
    return _of_names(row, message, error) or _of_private(row, message, error) or (
        _of_assertions(message) if error == "AssertionError" else "error")


def _of_names(row: dict[str, Any], message: str, error: str) -> str:
    imports = error in ("ImportError", "ModuleNotFoundError")
    if imports or error == "AttributeError" or "AttributeError" in str(row.get("causes")):
        if PRIVATE_MESSAGE.search(message):
            return "private"
        if imports or "calque.compat has not" in message or "has no option" in message:
            return "missing"
    if "calque.compat has no" in message:
        return "private" if "jax._src" in message or "jax.interpreters" in message else "missing"
    return ""


def _of_private(row: dict[str, Any], message: str, error: str) -> str:
    words = ("compiler option", "PjitFunction", "'Private' object", "<private ",
             "must be an exception type")
    if error == "AssertionError" and TEXT.search(message):
        return "private"
    if any(word in message for word in words) or PRIVATE_LINE.search(row.get("where") or ""):
        return "private"
    if error in ("AssertionError", "TypeError") and PRIVATE_MESSAGE.search(message[:400]):
        return "private"
    return ""


def _of_assertions(message: str) -> str:
    if "does not match" in message and "Warning" not in message:
        return "message"
    if "not raised" in message or "not triggered" in message:
        return "noraise"
    if "let {" in message or "lambda ;" in message:
        return "private"
    return "value" if VALUE.search(message) else "assert"


def shortened(message: str) -> str:
    """The first lines of a message without its numbers: failures of one cause look the same."""
    lines = " | ".join(line.strip() for line in message.strip().split("\n")[:3])
    return re.sub(r"\d+", "#", re.sub(r"0x[0-9a-f]+", "0x", lines))[:160]
