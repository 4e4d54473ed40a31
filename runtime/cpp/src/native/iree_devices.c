// Drivers, devices, errors.
#include <iree/async/frontier_tracker.h>
#include <iree/async/util/proactor_pool.h>
#include <iree/base/threading/numa.h>
#include <iree/base/tooling/flags.h>
#include <iree/hal/drivers/init.h>
#include <iree/hal/utils/allocators.h>
#include <iree/modules/hal/module.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/iree_internal.h"

static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;

void ci_free_error(ci_error* error) { free(error); }

ci_error* ci_error_of(iree_status_t status) {
  if (iree_status_is_ok(status)) return NULL;
  iree_host_size_t length = 0;
  iree_status_format(status, 0, NULL, &length);
  ci_error* error = malloc(sizeof(*error) + length + 1);
  if (error == NULL) abort();
  error->out_of_memory = iree_status_is_resource_exhausted(status);
  error->text = (char*)(error + 1);
  error->text[0] = '\0';
  iree_status_format(status, length + 1, error->text, &length);
  iree_status_free(status);
  return error;
}

iree_status_t ci_instance(iree_vm_instance_t** out) {
  static iree_vm_instance_t* instance = NULL;
  iree_status_t status = iree_ok_status();
  pthread_mutex_lock(&once_lock);
  if (instance == NULL) {
    iree_vm_instance_t* made = NULL;
    status = iree_vm_instance_create(IREE_VM_TYPE_CAPACITY_DEFAULT, iree_allocator_system(), &made);
    if (iree_status_is_ok(status)) status = iree_hal_module_register_all_types(made);
    if (iree_status_is_ok(status)) {
      instance = made;
    } else {
      iree_vm_instance_release(made);
    }
  }
  *out = instance;
  pthread_mutex_unlock(&once_lock);
  return status;
}

// IREE reads its flags when it makes a driver.
static iree_status_t set_flag(char* option) {
  char* words[] = {"calque", option, NULL};
  char** list = words;
  int count = 2;
  return iree_flags_parse(IREE_FLAGS_PARSE_MODE_DEFAULT, &count, &list);
}

static iree_status_t set_workers(int workers) {
  char option[64];
  snprintf(option, sizeof(option), "--task_topology_group_count=%d", workers);
  return set_flag(option);
}

static iree_status_t find_driver(const char* name, iree_hal_driver_t** out) {
  static bool registered = false;
  iree_hal_driver_registry_t* registry = iree_hal_driver_registry_default();
  iree_status_t status = iree_ok_status();
  pthread_mutex_lock(&once_lock);
  if (!registered) {
    status = iree_hal_register_all_available_drivers(registry);
    registered = iree_status_is_ok(status);
  }
  static bool told = false;
  if (!told && strcmp(name, "cuda") == 0) {  // no call asks the driver for memory (runtime/device.py)
    char option[] = "--cuda_async_allocations=false";
    iree_status_ignore(set_flag(option));  // unknown where this IREE has no such driver
    told = true;
  }
  pthread_mutex_unlock(&once_lock);
  IREE_RETURN_IF_ERROR(status);
  return iree_hal_driver_registry_try_create(registry, iree_make_cstring_view(name),
                                             iree_allocator_system(), out);
}

// The devices of a driver; the caller frees `infos`.
static iree_status_t query_devices(const char* name, iree_host_size_t* count,
                                   iree_hal_device_info_t** infos) {
  *count = 0;
  *infos = NULL;
  iree_hal_driver_t* driver = NULL;
  IREE_RETURN_IF_ERROR(find_driver(name, &driver));
  const iree_status_t status =
      iree_hal_driver_query_available_devices(driver, iree_allocator_system(), count, infos);
  iree_hal_driver_release(driver);
  return status;
}

ci_error* ci_count_devices(const char* name, size_t* count) {
  iree_hal_device_info_t* infos = NULL;
  iree_host_size_t found = 0;
  const iree_status_t status = query_devices(name, &found, &infos);
  iree_allocator_free(iree_allocator_system(), infos);
  *count = found;
  return ci_error_of(status);
}

ci_error* ci_path_of_device(const char* name, size_t index, char* text, size_t size) {
  iree_hal_device_info_t* infos = NULL;
  iree_host_size_t found = 0;
  const iree_status_t status = query_devices(name, &found, &infos);
  if (index < found)
    snprintf(text, size, "%.*s", (int)infos[index].path.size, infos[index].path.data);
  iree_allocator_free(iree_allocator_system(), infos);
  return ci_error_of(status);
}

static iree_status_t create(iree_hal_driver_t* driver, size_t index, iree_hal_device_t** out) {
  const iree_allocator_t host = iree_allocator_system();
  iree_async_proactor_pool_t* pool = NULL;
  IREE_RETURN_IF_ERROR(iree_async_proactor_pool_create(
      iree_numa_node_count(), NULL, iree_async_proactor_pool_options_default(), host, &pool));
  iree_hal_device_create_params_t params = iree_hal_device_create_params_default();
  params.proactor_pool = pool;
  iree_status_t status = iree_hal_driver_create_device_by_ordinal(driver, index, 0, NULL, &params,
                                                                 host, out);
  iree_async_proactor_pool_release(pool);
  return status;
}

// The VM module through which programs reach the device.
static iree_status_t create_hal_module(iree_hal_device_t* device, iree_vm_module_t** out) {
  const iree_allocator_t host = iree_allocator_system();
  iree_vm_instance_t* instance = NULL;
  IREE_RETURN_IF_ERROR(ci_instance(&instance));
  iree_async_frontier_tracker_t* tracker = NULL;
  IREE_RETURN_IF_ERROR(iree_async_frontier_tracker_create(
      iree_async_frontier_tracker_options_default(), host, &tracker));
  iree_hal_device_group_t* group = NULL;
  iree_status_t status = iree_hal_device_group_create_from_device(device, tracker, host, &group);
  iree_async_frontier_tracker_release(tracker);
  IREE_RETURN_IF_ERROR(status);
  status = iree_hal_module_create(instance, iree_hal_module_device_policy_default(), group,
                                  IREE_HAL_MODULE_FLAG_NONE, iree_hal_module_debug_sink_null(), host,
                                  out);
  iree_hal_device_group_release(group);
  return status;
}

// The first of the caches that goes with the device's heaps.
static iree_status_t set_cache(iree_hal_device_t* device, const char* const* caches, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const iree_string_view_t spec = iree_make_cstring_view(caches[i]);
    const iree_status_t status = iree_hal_configure_allocator_from_specs(1, &spec, device);
    if (iree_status_is_ok(status) || i + 1 == count) return status;
    iree_status_ignore(status);
  }
  return iree_ok_status();
}

static iree_status_t open(const char* name, size_t index, const char* const* caches, size_t cache_count,
                          int workers, iree_hal_device_t** device, iree_vm_module_t** module) {
  if (workers > 0) {
    IREE_RETURN_IF_ERROR(set_workers(workers));
  }
  iree_hal_driver_t* driver = NULL;
  IREE_RETURN_IF_ERROR(find_driver(name, &driver));
  iree_status_t status = create(driver, index, device);
  iree_hal_driver_release(driver);
  IREE_RETURN_IF_ERROR(status);
  IREE_RETURN_IF_ERROR(set_cache(*device, caches, cache_count));
  return create_hal_module(*device, module);
}

ci_error* ci_open_device(const char* name, size_t index, bool is_host, const char* const* caches,
                         size_t cache_count, int workers, ci_device** out) {
  iree_hal_device_t* device = NULL;
  iree_vm_module_t* module = NULL;
  iree_status_t status = open(name, index, caches, cache_count, workers, &device, &module);
  if (!iree_status_is_ok(status)) {
    iree_hal_device_release(device);
    return ci_error_of(status);
  }
  ci_device* made = malloc(sizeof(*made));
  if (made == NULL) abort();
  made->device = device;
  made->hal_module = module;
  made->is_host = is_host;
  *out = made;
  return NULL;
}

void ci_trim_device(ci_device* device) {
  iree_status_ignore(iree_hal_allocator_trim(iree_hal_device_allocator(device->device)));
}
