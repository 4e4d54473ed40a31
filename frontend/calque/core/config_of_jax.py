"""Options of JAX's that scripts set and that say little here: taken, so that the scripts run.

TAKEN: a name -> (default, what is said, once, where it is set to something else; "" where no
result depends on it).  config.py adds them to its options.  Imports nothing of calque.
"""
from __future__ import annotations

from typing import Any

_MODE = "errors of that kind are not looked for: experimental.checkify does."

TAKEN: dict[str, tuple[Any, str]] = {
    # compiling, and what is kept of it
    "jax_persistent_cache_min_compile_time_secs": (1.0, ""),
    "jax_persistent_cache_min_entry_size_bytes": (0, ""),
    "jax_persistent_cache_enable_xla_caches": ("xla_gpu_per_fusion_autotune_cache_dir", ""),
    "jax_raise_persistent_cache_errors": (False, ""),
    "jax_compilation_cache_include_metadata_in_key": (False, ""),
    "jax_compilation_cache_max_size": (-1, "CALQUE_CACHE_SIZE bounds the cache."),
    "jax_enable_pgle": (False, ""), "jax_pgle_profiling_runs": (3, ""),
    "jax_pgle_aggregation_percentile": (90, ""),
    "jax_exec_time_optimization_effort": (0.0, ""), "jax_memory_fitting_effort": (0.0, ""),
    "jax_optimization_level": ("UNKNOWN", ""), "jax_memory_fitting_level": ("O2", ""),
    "jax_disable_most_optimizations": (False, ""), "jax_compiler_enable_remat_pass": (True, ""),
    "jax_captured_constants_report_frames": (0, ""), "jax_embedded_constants_max_bytes": (32, ""),
    "jax_use_simplified_jaxpr_constants": (False, ""), "jax_use_direct_linearize": (True, ""),
    "eager_constant_folding": (False, ""), "jax_softmax_custom_jvp": (False, ""),
    "jax_bcoo_cusparse_lowering": (False, ""), "jax_use_magma": ("auto", ""),
    "jax_xla_profile_version": (0, ""), "jax_threefry_gpu_kernel_lowering": (False, ""),
    "jax_export_calling_convention_version": (10, ""), "jax_serialization_version": (0, ""),
    # what is said and shown
    "jax_explain_cache_misses": (False, "CALQUE_LOG=compile says why a function is compiled."),
    "jax_log_checkpoint_residuals": (False, "ad_checkpoint.print_saved_residuals shows them."),
    "jax_include_full_tracebacks_in_locations": (True, ""),
    "jax_traceback_in_locations_limit": (100, ""),
    "jax_hlo_source_file_canonicalization_regex": (None, ""), "jax_source_url_schema": (None, ""),
    "jax_logging_level": ("NOTSET", ""), "jax_debug_log_modules": ("", ""),
    "jax_dump_ir_to": ("", "CALQUE_DUMP=folder writes programs."),
    "jax_dump_ir_modes": ("stablehlo", ""), "jax_include_debug_info_in_dumps": (True, ""),
    "jax_pprint_use_color": (True, ""), "jax_tracer_error_num_traceback_frames": (5, ""),
    "jax_compiler_detailed_logging_min_ops": (10, ""),
    # devices and processes
    "jax_cuda_visible_devices": ("all", "CUDA_VISIBLE_DEVICES chooses the cards."),
    "jax_rocm_visible_devices": ("all", "there is no platform rocm."),
    "jax_oneapi_visible_devices": ("all", "there is no platform oneapi."),
    "jax_cpu_collectives_implementation": ("gloo", ""),
    "jax_cpu_enable_async_dispatch": (True, ""), "jax_sort_devices_by_process_index": (True, ""),
    "jax_share_binary_between_hosts": (False, ""), "jax_enable_recoverability": (False, ""),
    "jax_enable_preemption_service": (True, ""), "jax_check_proxy_envs": (True, ""),
    "jax_distributed_debug": (False, ""), "jax_xla_backend": ("", ""),
    "jax_mock_gpu_topology": ("", ""), "jax_mock_num_gpu_processes": (0, ""),
    "jax_backend_target": ("", ""), "jax_pjrt_client_create_options": (None, ""),
    # checks of JAX's
    "jax_enable_checks": (False, "CALQUE_CHECK=1, set before the import, checks programs."),
    "jax_disable_vmap_shmap_error": (False, ""),
    "jax_mutable_array_checks": (True, ""), "jax_disable_bwd_checks": (False, ""),
    "jax_error_checking_behavior_nan": ("ignore", _MODE),
    "jax_error_checking_behavior_divide": ("ignore", _MODE),
    "jax_error_checking_behavior_oob": ("ignore", _MODE),
    "jax_explicit_x64_dtypes": ("warn", "dtypes of 64 bits are cut to 32 without x64."),
    "jax_disallow_mesh_context_manager": (False, ""),
    "jax_remove_size_one_mesh_axis_from_type": (False, ""),
    "jax_scan3": (False, ""), "jax_remat3": (False, ""), "jax_custom_vjp3": (False, ""),
    "jax_pallas_use_mosaic_gpu": (True, ""), "jax_pallas_verbose_errors": (False, ""),
    "jax_pallas_enable_debug_checks": (False, "blocks are not checked."),
    "jax_ragged_dot_use_ragged_dot_instruction": (True, "")}
