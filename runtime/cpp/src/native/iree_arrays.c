// Buffer views and semaphores.
#include <stdlib.h>
#include <string.h>

#include "native/iree_internal.h"

static const iree_hal_memory_type_t kDeviceLocal = IREE_HAL_MEMORY_TYPE_DEVICE_LOCAL;
static const iree_hal_buffer_usage_t kMapped =
    IREE_HAL_BUFFER_USAGE_DEFAULT | IREE_HAL_BUFFER_USAGE_MAPPING;

// In the order of calque::DType.
static const iree_hal_element_type_t kElements[] = {
    IREE_HAL_ELEMENT_TYPE_BOOL_8,           IREE_HAL_ELEMENT_TYPE_SINT_8,
    IREE_HAL_ELEMENT_TYPE_SINT_16,          IREE_HAL_ELEMENT_TYPE_SINT_32,
    IREE_HAL_ELEMENT_TYPE_SINT_64,          IREE_HAL_ELEMENT_TYPE_UINT_8,
    IREE_HAL_ELEMENT_TYPE_UINT_16,          IREE_HAL_ELEMENT_TYPE_UINT_32,
    IREE_HAL_ELEMENT_TYPE_UINT_64,          IREE_HAL_ELEMENT_TYPE_FLOAT_16,
    IREE_HAL_ELEMENT_TYPE_BFLOAT_16,        IREE_HAL_ELEMENT_TYPE_FLOAT_32,
    IREE_HAL_ELEMENT_TYPE_FLOAT_64,         IREE_HAL_ELEMENT_TYPE_COMPLEX_FLOAT_64,
    IREE_HAL_ELEMENT_TYPE_COMPLEX_FLOAT_128,
    // from here on a program sees bytes: eight floats of 8 bits, one of 4, int2, int4, uint2, uint4
    IREE_HAL_ELEMENT_TYPE_UINT_8,           IREE_HAL_ELEMENT_TYPE_UINT_8,
    IREE_HAL_ELEMENT_TYPE_UINT_8,           IREE_HAL_ELEMENT_TYPE_UINT_8,
    IREE_HAL_ELEMENT_TYPE_UINT_8,           IREE_HAL_ELEMENT_TYPE_UINT_8,
    IREE_HAL_ELEMENT_TYPE_UINT_8,           IREE_HAL_ELEMENT_TYPE_UINT_8,
    IREE_HAL_ELEMENT_TYPE_UINT_8,           IREE_HAL_ELEMENT_TYPE_SINT_8,
    IREE_HAL_ELEMENT_TYPE_SINT_8,           IREE_HAL_ELEMENT_TYPE_UINT_8,
    IREE_HAL_ELEMENT_TYPE_UINT_8};

static iree_hal_buffer_params_t params_of(iree_hal_memory_type_t type,
                                          iree_hal_buffer_usage_t usage) {
  iree_hal_buffer_params_t params = {0};
  params.type = type;
  params.usage = usage;
  return params;
}

// `buffer` is consumed.
static iree_status_t create_view(iree_hal_buffer_t* buffer, ci_type type, ci_view** out) {
  iree_hal_dim_t stored[16] = {0};
  iree_hal_dim_t* dims = stored;
  if (type.rank > IREE_ARRAYSIZE(stored)) {
    dims = malloc(type.rank * sizeof(*dims));
    if (dims == NULL) abort();
  }
  for (size_t i = 0; i < type.rank; ++i) dims[i] = (iree_hal_dim_t)type.dims[i];
  iree_hal_buffer_view_t* view = NULL;
  iree_status_t status =
      iree_hal_buffer_view_create(buffer, type.rank, dims, kElements[type.dtype],
                                  IREE_HAL_ENCODING_TYPE_DENSE_ROW_MAJOR, iree_allocator_system(), &view);
  if (dims != stored) free(dims);
  iree_hal_buffer_release(buffer);
  *out = (ci_view*)view;
  return status;
}

// A GPU's memory is not mapped: CUDA would give managed memory (runtime/memory.py).  Where there is no more,
// the cache gives up its blocks.
static iree_status_t allocate(ci_device* device, size_t bytes, iree_hal_buffer_t** out) {
  iree_hal_allocator_t* allocator = iree_hal_device_allocator(device->device);
  const iree_hal_buffer_params_t params =
      params_of(kDeviceLocal, device->is_host ? kMapped : IREE_HAL_BUFFER_USAGE_DEFAULT);
  iree_status_t status = iree_hal_allocator_allocate_buffer(allocator, params, bytes, out);
  if (iree_status_is_ok(status)) return status;
  iree_status_ignore(status);
  IREE_RETURN_IF_ERROR(iree_hal_allocator_trim(allocator));
  return iree_hal_allocator_allocate_buffer(allocator, params, bytes, out);
}

// Memory of the host's that the device sees; where both have one memory (lavapipe) it counts as the
// device's.  `read`: by the host, whose caches take part in it then (page-locked memory without them is read
// at some 100 MB/s).
static iree_status_t allocate_staging(ci_device* device, size_t bytes, bool read,
                                      iree_hal_buffer_t** out) {
  iree_hal_allocator_t* allocator = iree_hal_device_allocator(device->device);
  const iree_hal_buffer_usage_t usage =
      IREE_HAL_BUFFER_USAGE_TRANSFER | IREE_HAL_BUFFER_USAGE_MAPPING;
  const iree_hal_memory_type_t seen =
      IREE_HAL_MEMORY_TYPE_HOST_LOCAL | IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE;
  iree_status_t status = iree_hal_allocator_allocate_buffer(
      allocator, params_of(read ? seen | IREE_HAL_MEMORY_TYPE_HOST_CACHED : seen, usage), bytes, out);
  if (iree_status_is_ok(status)) return status;
  iree_status_ignore(status);
  return iree_hal_allocator_allocate_buffer(
      allocator,
      params_of(IREE_HAL_MEMORY_TYPE_HOST_VISIBLE | IREE_HAL_MEMORY_TYPE_HOST_COHERENT |
                    IREE_HAL_MEMORY_TYPE_DEVICE_VISIBLE,
                usage),
      bytes, out);
}

static iree_hal_semaphore_list_t list_of(iree_hal_semaphore_t** semaphore, uint64_t* value) {
  iree_hal_semaphore_list_t list = iree_hal_semaphore_list_empty();
  if (*semaphore != NULL) {
    list.count = 1;
    list.semaphores = semaphore;
    list.payload_values = value;
  }
  return list;
}

static iree_status_t queue_copy(ci_device* device, iree_hal_buffer_t* source, iree_hal_buffer_t* target,
                                iree_device_size_t bytes, iree_hal_semaphore_t* wait,
                                iree_hal_semaphore_t* done) {
  uint64_t one = 1, other = 1;
  return iree_hal_device_queue_copy(device->device, IREE_HAL_QUEUE_AFFINITY_ANY, list_of(&wait, &one),
                                    list_of(&done, &other), source, 0, target, 0, bytes,
                                    IREE_HAL_COPY_FLAG_NONE);
}

// Bytes of the host's into memory that it does not see.
static iree_status_t send(ci_device* device, const void* data, iree_hal_buffer_t* buffer, size_t bytes) {
  iree_hal_buffer_t* stage = NULL;
  IREE_RETURN_IF_ERROR(allocate_staging(device, bytes, false, &stage));
  iree_hal_semaphore_t* done = NULL;
  iree_status_t status = iree_hal_buffer_map_write(stage, 0, data, bytes);
  if (iree_status_is_ok(status))
    status = iree_hal_semaphore_create(device->device, IREE_HAL_QUEUE_AFFINITY_ANY, 0,
                                       IREE_HAL_SEMAPHORE_FLAG_DEFAULT, &done);
  if (iree_status_is_ok(status)) status = queue_copy(device, stage, buffer, bytes, NULL, done);
  if (iree_status_is_ok(status))
    status = iree_hal_semaphore_wait(done, 1, iree_infinite_timeout(), IREE_ASYNC_WAIT_FLAG_NONE);
  iree_hal_semaphore_release(done);
  iree_hal_buffer_release(stage);
  return status;
}

static iree_status_t copy_in(ci_device* device, const void* data, size_t bytes, ci_type type,
                             ci_view** out) {
  iree_hal_buffer_t* buffer = NULL;
  IREE_RETURN_IF_ERROR(allocate(device, bytes, &buffer));
  iree_status_t status = iree_ok_status();
  if (bytes != 0)
    status = device->is_host ? iree_hal_device_transfer_h2d(device->device, data, buffer, 0, bytes,
                                                            IREE_HAL_TRANSFER_BUFFER_FLAG_DEFAULT,
                                                            iree_infinite_timeout())
                             : send(device, data, buffer, bytes);
  if (iree_status_is_ok(status)) return create_view(buffer, type, out);
  iree_hal_buffer_release(buffer);
  return status;
}

ci_error* ci_copy_in(ci_device* device, const void* data, size_t bytes, ci_type type, ci_view** out) {
  return ci_error_of(copy_in(device, data, bytes, type, out));
}

ci_error* ci_allocate(ci_device* device, size_t bytes, ci_type type, ci_view** out) {
  iree_hal_buffer_t* buffer = NULL;
  iree_status_t status = allocate(device, bytes, &buffer);
  return ci_error_of(iree_status_is_ok(status) ? create_view(buffer, type, out) : status);
}

typedef struct keeper {
  void (*release)(void* keep);
  void* keep;
} keeper;

static void IREE_API_PTR release_keeper(void* user_data, iree_hal_buffer_t* buffer) {
  (void)buffer;
  keeper* kept = user_data;
  kept->release(kept->keep);
  free(kept);
}

ci_error* ci_import(ci_device* device, const void* data, size_t bytes, ci_type type,
                    void (*release)(void* keep), void* keep, ci_view** out) {
  keeper* kept = malloc(sizeof(*kept));
  if (kept == NULL) abort();
  kept->release = release;
  kept->keep = keep;
  iree_hal_external_buffer_t memory = {0};
  memory.type = IREE_HAL_EXTERNAL_BUFFER_TYPE_HOST_ALLOCATION;
  memory.size = bytes;
  memory.handle.host_allocation.ptr = (void*)data;  // programs write to donated arguments only
  const iree_hal_buffer_release_callback_t callback = {release_keeper, kept};
  iree_hal_buffer_t* buffer = NULL;
  iree_status_t status = iree_hal_allocator_import_buffer(
      iree_hal_device_allocator(device->device), params_of(kDeviceLocal, kMapped), &memory, callback,
      &buffer);
  if (!iree_status_is_ok(status)) {
    release_keeper(kept, NULL);
    return ci_error_of(status);
  }
  return ci_error_of(create_view(buffer, type, out));
}

void ci_retain_view(ci_view* view) { iree_hal_buffer_view_retain(view_of(view)); }
void ci_release_view(ci_view* view) { iree_hal_buffer_view_release(view_of(view)); }

size_t ci_view_rank(const ci_view* view) { return iree_hal_buffer_view_shape_rank(view_of(view)); }

void ci_view_dims(const ci_view* view, int64_t* dims) {
  for (size_t i = 0; i < ci_view_rank(view); ++i)
    dims[i] = (int64_t)iree_hal_buffer_view_shape_dim(view_of(view), i);
}

size_t ci_view_bytes(const ci_view* view) { return iree_hal_buffer_view_byte_length(view_of(view)); }

size_t ci_element_bits(const ci_view* view) {
  return iree_hal_element_bit_count(iree_hal_buffer_view_element_type(view_of(view)));
}

ci_place ci_view_place(const ci_view* view) {
  const iree_hal_buffer_t* buffer = iree_hal_buffer_view_buffer(view_of(view));
  ci_place place = {iree_hal_buffer_allocated_buffer(buffer), iree_hal_buffer_byte_offset(buffer),
                    iree_hal_buffer_byte_length(buffer)};
  return place;
}

struct ci_mapping {
  iree_hal_buffer_mapping_t mapping;
};

ci_error* ci_map(ci_view* view, const void** data, ci_mapping** out) {
  ci_mapping* made = malloc(sizeof(*made));
  if (made == NULL) abort();
  iree_status_t status = iree_hal_buffer_map_range(
      iree_hal_buffer_view_buffer(view_of(view)), IREE_HAL_MAPPING_MODE_SCOPED,
      IREE_HAL_MEMORY_ACCESS_READ, 0, ci_view_bytes(view), &made->mapping);
  if (!iree_status_is_ok(status)) {
    free(made);
    return ci_error_of(status);
  }
  *data = made->mapping.contents.data;
  *out = made;
  return NULL;
}

void ci_unmap(ci_mapping* mapping) {
  iree_status_ignore(iree_hal_buffer_unmap_range(&mapping->mapping));
  free(mapping);
}

ci_error* ci_copy(ci_device* device, ci_view* view, ci_semaphore* wait, ci_semaphore* done,
                  bool to_host, ci_view** out) {
  iree_hal_buffer_t* source = iree_hal_buffer_view_buffer(view_of(view));
  const iree_device_size_t bytes = ci_view_bytes(view);
  iree_hal_buffer_t* target = NULL;
  iree_status_t status =
      to_host ? allocate_staging(device, bytes, true, &target) : allocate(device, bytes, &target);
  if (!iree_status_is_ok(status)) return ci_error_of(status);
  status = queue_copy(device, source, target, bytes, semaphore_of(wait), semaphore_of(done));
  iree_hal_buffer_view_t* made = NULL;
  if (iree_status_is_ok(status))
    status = iree_hal_buffer_view_create_like(target, view_of(view), iree_allocator_system(), &made);
  iree_hal_buffer_release(target);
  *out = (ci_view*)made;
  return ci_error_of(status);
}

ci_error* ci_create_semaphore(ci_device* device, ci_semaphore** out) {
  iree_hal_semaphore_t* made = NULL;
  iree_status_t status =
      iree_hal_semaphore_create(device->device, IREE_HAL_QUEUE_AFFINITY_ANY, 0,
                                IREE_HAL_SEMAPHORE_FLAG_DEFAULT, &made);
  *out = (ci_semaphore*)made;
  return ci_error_of(status);
}

void ci_retain_semaphore(ci_semaphore* semaphore) {
  iree_hal_semaphore_retain(semaphore_of(semaphore));
}
void ci_release_semaphore(ci_semaphore* semaphore) {
  iree_hal_semaphore_release(semaphore_of(semaphore));
}

ci_error* ci_query(ci_semaphore* semaphore, bool* reached) {
  uint64_t value = 0;
  iree_status_t status = iree_hal_semaphore_query(semaphore_of(semaphore), &value);
  *reached = iree_status_is_ok(status) && value >= 1;
  return ci_error_of(status);
}

ci_error* ci_wait(ci_semaphore* semaphore, int64_t nanoseconds, bool* reached) {
  iree_status_t waited =
      iree_hal_semaphore_wait(semaphore_of(semaphore), 1, iree_make_timeout_ns(nanoseconds),
                              IREE_ASYNC_WAIT_FLAG_NONE);
  const bool timed_out = iree_status_is_deadline_exceeded(waited);
  ci_error* failed = ci_query(semaphore, reached);  // a wait has the code of a failure, not its words
  if (failed == NULL && !*reached && !timed_out) return ci_error_of(waited);
  iree_status_ignore(waited);
  return failed;
}
