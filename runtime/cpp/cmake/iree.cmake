# Finds IREE's C runtime as its own install rules lay it out: IREE_LIBRARIES.
#
# The package has no version, no names with ::, and lies where CMake does not look by itself; whether its
# API is the one that src/native is written against is seen by compiling a call.
enable_language(C)
include(CheckCSourceCompiles)

find_package(IREERuntime CONFIG PATH_SUFFIXES lib/cmake/IREE cmake/IREE)
if(NOT IREERuntime_FOUND)
  message(FATAL_ERROR "CALQUE_BACKEND=native needs IREE's C runtime (the package IREERuntime): name the "
    "folder where it is installed with CMAKE_PREFIX_PATH, or build with CALQUE_BACKEND=hosting.")
endif()

set(IREE_LIBRARIES
  iree_modules_hal_hal iree_modules_io_parameters_parameters iree_hal_drivers_drivers
  iree_hal_utils_allocators iree_io_formats_parser_registry iree_io_parameter_index_provider
  iree_async_util_proactor_pool iree_vm_bytecode_module iree_vm_vm iree_base_tooling_flags)
set(CMAKE_REQUIRED_LIBRARIES ${IREE_LIBRARIES})
if(CALQUE_SANITIZE)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=${CALQUE_SANITIZE})  # IREE's libraries may be built with it, too
endif()
set(CMAKE_TRY_COMPILE_CONFIGURATION Release)
check_c_source_compiles("
#include <iree/async/frontier_tracker.h>
#include <iree/hal/api.h>
#include <iree/modules/hal/module.h>
int main(void) {
  iree_hal_device_group_t* group = NULL;
  iree_vm_module_t* module = NULL;
  iree_status_ignore(iree_hal_module_create(NULL, iree_hal_module_device_policy_default(), group,
      IREE_HAL_MODULE_FLAG_NONE, iree_hal_module_debug_sink_null(), iree_allocator_system(), &module));
  return 0;
}" CALQUE_IREE_API_FITS)
unset(CMAKE_REQUIRED_LIBRARIES)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT CALQUE_IREE_API_FITS)
  message(FATAL_ERROR "The IREE runtime in ${IREERuntime_DIR} has another C API than calque's native "
    "backend is written against (docs/native_log.md names the commit): install that one, or build with "
    "CALQUE_BACKEND=hosting.")
endif()
