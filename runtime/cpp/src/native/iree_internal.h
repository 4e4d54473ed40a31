// What the iree_*.c files share.
#pragma once

#include <iree/base/api.h>
#include <iree/hal/api.h>
#include <iree/vm/api.h>

#include "native/iree.h"

struct ci_device {
  iree_hal_device_t* device;
  iree_vm_module_t* hal_module;
  bool is_host;  // its memory is the host's
};

// Handles that are IREE's own objects.
static inline iree_hal_buffer_view_t* view_of(const ci_view* view) {
  return (iree_hal_buffer_view_t*)view;
}
static inline iree_hal_semaphore_t* semaphore_of(ci_semaphore* semaphore) {
  return (iree_hal_semaphore_t*)semaphore;
}
static inline iree_vm_module_t* module_of(const ci_module* module) {
  return (iree_vm_module_t*)module;
}

// The error of a status, which is consumed; null for one that is well.
ci_error* ci_error_of(iree_status_t status);

// The process's VM instance, in which the types of the HAL are known.
iree_status_t ci_instance(iree_vm_instance_t** out);
