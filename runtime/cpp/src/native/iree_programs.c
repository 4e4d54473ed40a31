// Modules, archives, calls.
#include <iree/io/file_handle.h>
#include <iree/io/formats/parser_registry.h>
#include <iree/io/parameter_index.h>
#include <iree/io/parameter_index_provider.h>
#include <iree/modules/hal/types.h>
#include <iree/modules/io/parameters/module.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "native/iree_internal.h"

enum { kAlignment = 64 };  // of a module's bytes

// iree/vm/bytecode/module.h needs generated headers that IREE's install rules leave out (3.12.0.dev).
IREE_API_EXPORT iree_status_t iree_vm_bytecode_module_create(
    iree_vm_instance_t* instance, int flags, iree_const_byte_span_t archive_contents,
    iree_allocator_t archive_allocator, iree_allocator_t allocator, iree_vm_module_t** out_module);

static iree_string_view_t string_of(ci_text text) {
  return iree_make_string_view(text.data, text.size);
}

// ---- modules

static iree_status_t free_aligned(void* self, iree_allocator_command_t command, const void* params,
                                  void** pointer) {
  (void)self;
  (void)params;
  if (command != IREE_ALLOCATOR_COMMAND_FREE) return iree_status_from_code(IREE_STATUS_UNIMPLEMENTED);
  free(*pointer);
  return iree_ok_status();
}

ci_error* ci_load_module(const void* data, size_t size, ci_module** out) {
  iree_vm_instance_t* instance = NULL;
  iree_status_t status = ci_instance(&instance);
  if (!iree_status_is_ok(status)) return ci_error_of(status);
  void* copy = aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  if (copy == NULL)
    return ci_error_of(iree_make_status(IREE_STATUS_RESOURCE_EXHAUSTED, "no memory for the module"));
  memcpy(copy, data, size);
  const iree_allocator_t free_copy = {NULL, free_aligned};
  iree_vm_module_t* made = NULL;
  status = iree_vm_bytecode_module_create(instance, 0,
                                          iree_make_const_byte_span(copy, size), free_copy,
                                          iree_allocator_system(), &made);
  if (!iree_status_is_ok(status)) free(copy);
  *out = (ci_module*)made;
  return ci_error_of(status);
}

void ci_release_module(ci_module* module) { iree_vm_module_release(module_of(module)); }

// ---- archives

struct ci_archive {
  iree_io_parameter_index_t* index;
  iree_io_parameter_provider_t* provider;
};

static iree_status_t open_archive(const char* path, const char* scope, ci_archive* archive) {
  const iree_allocator_t host = iree_allocator_system();
  const iree_string_view_t name = iree_make_cstring_view(path);
  IREE_RETURN_IF_ERROR(iree_io_parameter_index_create(host, &archive->index));
  iree_io_file_handle_t* file = NULL;
  IREE_RETURN_IF_ERROR(iree_io_file_handle_open(IREE_IO_FILE_MODE_READ, name, host, &file));
  iree_status_t status = iree_io_parse_file_index(name, file, archive->index, host);
  iree_io_file_handle_release(file);
  IREE_RETURN_IF_ERROR(status);
  return iree_io_parameter_index_provider_create(
      iree_make_cstring_view(scope), archive->index,
      IREE_IO_PARAMETER_INDEX_PROVIDER_DEFAULT_MAX_CONCURRENT_OPERATIONS, host, &archive->provider);
}

ci_error* ci_open_archive(const char* path, const char* scope, ci_archive** out) {
  ci_archive* made = calloc(1, sizeof(*made));
  if (made == NULL) abort();
  iree_status_t status = open_archive(path, scope, made);
  if (!iree_status_is_ok(status)) {
    ci_release_archive(made);
    made = NULL;
  }
  *out = made;
  return ci_error_of(status);
}

void ci_release_archive(ci_archive* archive) {
  iree_io_parameter_provider_release(archive->provider);
  iree_io_parameter_index_release(archive->index);
  free(archive);
}

bool ci_find_array(ci_archive* archive, ci_text name, uint64_t* bytes) {
  const iree_io_parameter_index_entry_t* entry = NULL;
  iree_status_t status = iree_io_parameter_index_lookup(archive->index, string_of(name), &entry);
  const bool found = iree_status_is_ok(status) && entry != NULL;
  iree_status_ignore(status);
  if (found) *bytes = entry->length;
  return found;
}

// ---- calls


ci_error* ci_create_program(ci_device* device, ci_module* module, ci_archive* archive,
                            ci_program** out) {
  const iree_allocator_t host = iree_allocator_system();
  iree_vm_instance_t* instance = NULL;
  iree_status_t status = ci_instance(&instance);
  iree_vm_module_t* modules[3] = {device->hal_module};
  iree_host_size_t count = 1;
  iree_vm_module_t* parameters = NULL;
  if (iree_status_is_ok(status) && archive != NULL) {
    status = iree_io_parameters_module_create(instance, 1, &archive->provider, host, &parameters);
    modules[count++] = parameters;
  }
  modules[count++] = module_of(module);
  iree_vm_context_t* context = NULL;
  if (iree_status_is_ok(status))
    status = iree_vm_context_create_with_modules(instance, IREE_VM_CONTEXT_FLAG_NONE, count, modules,
                                                 host, &context);
  iree_vm_module_release(parameters);
  *out = (ci_program*)context;
  return ci_error_of(status);
}

void ci_release_program(ci_program* program) {
  iree_vm_context_release((iree_vm_context_t*)program);
}

ci_error* ci_find_function(const ci_module* module, ci_text name, ci_function* out, size_t* arguments,
                           size_t* results) {
  iree_vm_function_t function;
  iree_status_t status = iree_vm_module_lookup_function_by_name(
      module_of(module), IREE_VM_FUNCTION_LINKAGE_EXPORT, string_of(name), &function);
  iree_string_view_t taken, given;
  if (iree_status_is_ok(status)) {
    const iree_vm_function_signature_t signature = iree_vm_function_signature(&function);
    status = iree_vm_function_call_get_cconv_fragments(&signature, &taken, &given);
  }
  if (!iree_status_is_ok(status)) return ci_error_of(status);
  for (size_t i = 0; i < taken.size + given.size; ++i)
    if ((i < taken.size ? taken.data[i] : given.data[i - taken.size]) != IREE_VM_CCONV_TYPE_REF &&
        !(given.size == 1 && given.data[0] == IREE_VM_CCONV_TYPE_VOID))
      return ci_error_of(iree_make_status(IREE_STATUS_INVALID_ARGUMENT,
                                          "the function takes or gives more than arrays"));
  out->module = function.module;
  out->linkage = function.linkage;
  out->ordinal = function.ordinal;
  *arguments = taken.size;
  *results = given.size == 1 && given.data[0] == IREE_VM_CCONV_TYPE_VOID ? 0 : given.size;
  return NULL;
}

// A fence without semaphores is reached before anyone asks and takes a signal without a word, so one
// serves all calls that run in place.
static iree_status_t no_fence(iree_vm_ref_t* out) {
  static iree_hal_fence_t* shared = NULL;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  iree_hal_fence_t* fence = __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
  if (fence == NULL) {
    iree_status_t status = iree_ok_status();
    pthread_mutex_lock(&lock);
    if (shared == NULL) {
      status = iree_hal_fence_create(0, iree_allocator_system(), &fence);
      if (iree_status_is_ok(status)) __atomic_store_n(&shared, fence, __ATOMIC_RELEASE);
    }
    fence = shared;
    pthread_mutex_unlock(&lock);
    IREE_RETURN_IF_ERROR(status);
  }
  *out = iree_hal_fence_retain_ref(fence);
  return iree_ok_status();
}

// A fence that is reached when all semaphores are at 1.
static iree_status_t join(ci_semaphore* const* semaphores, size_t count, iree_vm_ref_t* out) {
  if (count == 0) return no_fence(out);
  iree_hal_fence_t* fence = NULL;
  IREE_RETURN_IF_ERROR(iree_hal_fence_create(count, iree_allocator_system(), &fence));
  iree_status_t status = iree_ok_status();
  for (size_t i = 0; i < count && iree_status_is_ok(status); ++i)
    status = iree_hal_fence_insert(fence, semaphore_of(semaphores[i]), 1);
  if (iree_status_is_ok(status)) {
    *out = iree_hal_fence_move_ref(fence);
  } else {
    iree_hal_fence_release(fence);
  }
  return status;
}

static iree_status_t push_all(iree_vm_list_t* list, ci_view* const* arguments, size_t count,
                              ci_view* storage, ci_semaphore* const* waits, size_t wait_count,
                              ci_semaphore* done) {
  for (size_t i = 0; i < count; ++i) {
    iree_vm_ref_t reference = iree_hal_buffer_view_retain_ref(view_of(arguments[i]));
    IREE_RETURN_IF_ERROR(iree_vm_list_push_ref_move(list, &reference));
  }
  if (storage != NULL) {
    iree_vm_ref_t reference =
        iree_hal_buffer_retain_ref(iree_hal_buffer_view_buffer(view_of(storage)));
    IREE_RETURN_IF_ERROR(iree_vm_list_push_ref_move(list, &reference));
  }
  iree_vm_ref_t before = iree_vm_ref_null(), after = iree_vm_ref_null();
  IREE_RETURN_IF_ERROR(join(waits, wait_count, &before));
  IREE_RETURN_IF_ERROR(iree_vm_list_push_ref_move(list, &before));
  IREE_RETURN_IF_ERROR(join(&done, done != NULL ? 1 : 0, &after));
  return iree_vm_list_push_ref_move(list, &after);
}

static iree_status_t take_all(iree_vm_list_t* list, ci_view** results, size_t count) {
  if (iree_vm_list_size(list) != count)
    return iree_make_status(IREE_STATUS_INTERNAL, "the program gave %zu results instead of %zu",
                            iree_vm_list_size(list), count);
  for (size_t i = 0; i < count; ++i) {
    iree_hal_buffer_view_t* view =
        iree_vm_list_get_ref_deref(list, i, iree_hal_buffer_view_type());
    if (view == NULL)
      return iree_make_status(IREE_STATUS_INTERNAL, "result %zu of the program is no array", i);
    iree_hal_buffer_view_retain(view);
    results[i] = (ci_view*)view;
  }
  return iree_ok_status();
}

// A list in `storage` where it is large enough for so many, else one of its own.
static iree_status_t make_list(iree_byte_span_t storage, size_t count, iree_vm_list_t** out) {
  const iree_vm_type_def_t any = iree_vm_make_undefined_type_def();
  if (iree_vm_list_storage_size(&any, count) <= storage.data_length)
    return iree_vm_list_initialize(storage, &any, count, out);
  return iree_vm_list_create(any, count, iree_allocator_system(), out);
}

static void free_list(iree_byte_span_t storage, iree_vm_list_t* list) {
  if (list == NULL) return;
  if ((void*)list == (void*)storage.data) {
    iree_vm_list_deinitialize(list);
  } else {
    iree_vm_list_release(list);
  }
}

ci_error* ci_invoke(ci_program* program, ci_function function, ci_view* const* arguments,
                    size_t argument_count, ci_view* storage, ci_semaphore* const* waits,
                    size_t wait_count, ci_semaphore* done, ci_view** results, size_t result_count) {
  const iree_vm_function_t callee = {function.module, function.linkage, function.ordinal};
  iree_alignas(iree_max_align_t) uint8_t memory[2][512];
  const iree_byte_span_t before = iree_make_byte_span(memory[0], sizeof(memory[0]));
  const iree_byte_span_t after = iree_make_byte_span(memory[1], sizeof(memory[1]));
  iree_vm_list_t *inputs = NULL, *outputs = NULL;
  iree_status_t status = make_list(before, argument_count + (storage != NULL) + 2, &inputs);
  if (iree_status_is_ok(status)) status = make_list(after, result_count, &outputs);
  if (iree_status_is_ok(status))
    status = push_all(inputs, arguments, argument_count, storage, waits, wait_count, done);
  if (iree_status_is_ok(status))
    status = iree_vm_invoke((iree_vm_context_t*)program, callee, IREE_VM_INVOCATION_FLAG_NONE, NULL,
                            inputs, outputs, iree_allocator_system());
  memset(results, 0, result_count * sizeof(*results));
  if (iree_status_is_ok(status)) status = take_all(outputs, results, result_count);
  if (!iree_status_is_ok(status))
    for (size_t i = 0; i < result_count; ++i)
      if (results[i] != NULL) ci_release_view(results[i]);
  free_list(before, inputs);
  free_list(after, outputs);
  return ci_error_of(status);
}
