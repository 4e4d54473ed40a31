// IREE's C runtime as this backend uses it, in plain C types: the iree_*.c files include IREE's headers,
// nobody else does.
//
// Functions give null, or what went wrong (freed with ci_free_error).  Objects of IREE are counted by
// it: `out` parameters are owned, given back with the release function of their kind.  Devices, and
// what belongs to them, live as long as the process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ci_error {
  bool out_of_memory;
  char* text;  // IREE's words; of the same allocation
} ci_error;
void ci_free_error(ci_error* error);

typedef struct ci_device ci_device;        // an IREE device, and its HAL module
typedef struct ci_view ci_view;            // a buffer view
typedef struct ci_semaphore ci_semaphore;  // at 1 a value is there
typedef struct ci_module ci_module;        // a compiled module, not yet on a device
typedef struct ci_program ci_program;      // one on a device
typedef struct ci_archive ci_archive;      // a parameter archive

// ---- devices (iree_devices.c)

// How many devices a driver has ("vulkan", "cuda").
ci_error* ci_count_devices(const char* driver, size_t* count);

// The name by which a driver finds its index-th device again, with a zero behind, cut to `size`.
ci_error* ci_path_of_device(const char* driver, size_t index, char* text, size_t size);

// The index-th device of a driver.  `is_host`: its memory is the host's, which maps it.  `caches`: how IREE
// keeps idle memory for the next buffer of its size; the first that the device's heaps allow, or none.
// `workers`: threads of "local-task", 0 for one a core; looked at for the first such device.
ci_error* ci_open_device(const char* driver, size_t index, bool is_host, const char* const* caches,
                         size_t cache_count, int workers, ci_device** out);

// Gives memory that lies idle back.
void ci_trim_device(ci_device* device);

// ---- arrays (iree_arrays.c)

typedef struct ci_type {
  int dtype;  // the number of a calque::DType
  size_t rank;
  const int64_t* dims;
} ci_type;

// A copy of `bytes` bytes of host memory, which are what the type needs.  Of a GPU's memory, which the host
// does not see, it is made on the queue and waited for.
ci_error* ci_copy_in(ci_device* device, const void* data, size_t bytes, ci_type type, ci_view** out);

// Memory of so many bytes, with nothing in it yet.
ci_error* ci_allocate(ci_device* device, size_t bytes, ci_type type, ci_view** out);

// Host memory itself (of a host device); `release(keep)` when nobody reads it any more.
ci_error* ci_import(ci_device* device, const void* data, size_t bytes, ci_type type,
                    void (*release)(void* keep), void* keep, ci_view** out);

void ci_retain_view(ci_view* view);
void ci_release_view(ci_view* view);

size_t ci_view_rank(const ci_view* view);
void ci_view_dims(const ci_view* view, int64_t* dims);
size_t ci_view_bytes(const ci_view* view);
size_t ci_element_bits(const ci_view* view);

// Where the bytes of a view are: the allocation, and the place in it.
typedef struct ci_place {
  const void* allocation;
  uint64_t offset, bytes;
} ci_place;
ci_place ci_view_place(const ci_view* view);

// The bytes of a view on a host device.  Unmapping gives the memory back to the view alone.
typedef struct ci_mapping ci_mapping;
ci_error* ci_map(ci_view* view, const void** data, ci_mapping** out);
void ci_unmap(ci_mapping* mapping);

// A copy of what `wait` (or null) makes, there when `done` is at 1: on the device, or where ci_map finds it.
ci_error* ci_copy(ci_device* device, ci_view* view, ci_semaphore* wait, ci_semaphore* done,
                  bool to_host, ci_view** out);

ci_error* ci_create_semaphore(ci_device* device, ci_semaphore** out);
void ci_retain_semaphore(ci_semaphore* semaphore);
void ci_release_semaphore(ci_semaphore* semaphore);
// Is it at 1?  An error is the failure of what should have signalled it.
ci_error* ci_query(ci_semaphore* semaphore, bool* reached);
// The same as soon as it is, or has failed, or after so many nanoseconds.
ci_error* ci_wait(ci_semaphore* semaphore, int64_t nanoseconds, bool* reached);

// ---- programs (iree_programs.c)

typedef struct ci_text {
  const char* data;
  size_t size;
} ci_text;

// From a copy of the bytes of a .vmfb.
ci_error* ci_load_module(const void* data, size_t size, ci_module** out);
void ci_release_module(ci_module* module);

// An archive and what is in it: the bytes of an array, or false where it has none of that name.
ci_error* ci_open_archive(const char* path, const char* scope, ci_archive** out);
void ci_release_archive(ci_archive* archive);
bool ci_find_array(ci_archive* archive, ci_text name, uint64_t* bytes);

// A module on a device, ready to be called; `archive` may be null.
ci_error* ci_create_program(ci_device* device, ci_module* module, ci_archive* archive,
                            ci_program** out);
void ci_release_program(ci_program* program);

// A function of a program that takes views and two fences, and gives views.
typedef struct ci_function {
  void* module;
  uint16_t linkage, ordinal;
} ci_function;
ci_error* ci_find_function(const ci_module* module, ci_text name, ci_function* out,
                           size_t* arguments, size_t* results);

// Calls it, behind `waits`; `storage` (or null): the memory in which it works, behind its arguments.  Results are there when `done` is at 1, or at once where that is null (of a
// device that runs programs within the call, without waits).
ci_error* ci_invoke(ci_program* program, ci_function function, ci_view* const* arguments,
                    size_t argument_count, ci_view* storage, ci_semaphore* const* waits,
                    size_t wait_count, ci_semaphore* done, ci_view** results, size_t result_count);

#ifdef __cplusplus
}
#endif
