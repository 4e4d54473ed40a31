/* The C interface of calque::runtime: for C, and for languages that call C.
 *
 * Every function that can fail returns NULL, or an error that calque_error_free lets go of.  No exception
 * and no C++ type crosses.  Handles are opaque, each let go of by the function of its kind (NULL is fine
 * there); whatever they need stays alive with them.  Functions may be called from any thread, also with the
 * same handles at once.
 *
 * calque_version says what a library is: programs that were built against one of version n run with those
 * of any later n, whose functions and codes are more, not others. */
#ifndef CALQUE_CALQUE_H_
#define CALQUE_CALQUE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(CALQUE_BUILDING)
#define CALQUE_C_API __declspec(dllexport)
#else
#define CALQUE_C_API __declspec(dllimport)
#endif
#else
#define CALQUE_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#define CALQUE_NOEXCEPT noexcept
#else
#define CALQUE_NOEXCEPT
#endif

#define CALQUE_VERSION 2  /* 2: sessions */

typedef struct calque_error calque_error;
typedef struct calque_device calque_device;
typedef struct calque_module calque_module;
typedef struct calque_function calque_function;
typedef struct calque_array calque_array;
typedef struct calque_session calque_session;

/* The version of the library, CALQUE_VERSION when it was built. */
CALQUE_C_API int calque_version(void) CALQUE_NOEXCEPT;

/* ---- errors: a code ("shape", "artifact", ... as in calque/error.hpp) and a message in up to three lines:
 * what, "  In ..." where, "  Fix: ..." how to mend it.  Texts live as long as the error. */
CALQUE_C_API const char* calque_error_code(const calque_error* error) CALQUE_NOEXCEPT;
CALQUE_C_API const char* calque_error_message(const calque_error* error) CALQUE_NOEXCEPT;
CALQUE_C_API void calque_error_free(calque_error* error) CALQUE_NOEXCEPT;

/* ---- devices: "cpu", "cuda:1", "vulkan" */
CALQUE_C_API calque_error* calque_device_open(const char* uri, calque_device** out) CALQUE_NOEXCEPT;
CALQUE_C_API const char* calque_device_name(const calque_device* device) CALQUE_NOEXCEPT;
CALQUE_C_API void calque_device_free(calque_device* device) CALQUE_NOEXCEPT;

/* ---- artifacts: a file, or its bytes, which may go when this returns.  `parameters` is the archive of its
 * weights, NULL for the one beside the file. */
CALQUE_C_API calque_error* calque_module_load(const char* path, const calque_device* device,
                                              const char* parameters, calque_module** out) CALQUE_NOEXCEPT;
CALQUE_C_API calque_error* calque_module_load_bytes(const void* data, size_t bytes,
                                                    const calque_device* device, const char* parameters,
                                                    calque_module** out) CALQUE_NOEXCEPT;
CALQUE_C_API void calque_module_free(calque_module* module) CALQUE_NOEXCEPT;

/* How many functions there are, and the name of one (NULL behind the last), as long as the module lives. */
CALQUE_C_API size_t calque_module_count(const calque_module* module) CALQUE_NOEXCEPT;
CALQUE_C_API const char* calque_module_name(const calque_module* module, size_t index) CALQUE_NOEXCEPT;

CALQUE_C_API calque_error* calque_module_function(const calque_module* module, const char* name,
                                                  calque_function** out) CALQUE_NOEXCEPT;
CALQUE_C_API void calque_function_free(calque_function* function) CALQUE_NOEXCEPT;

/* What the artifact says of a function: its record, JSON, with "args" and "results" (path, dtype, shape),
 * "donated", "target", ... as long as the function's handle lives. */
CALQUE_C_API const char* calque_function_signature(const calque_function* function) CALQUE_NOEXCEPT;
CALQUE_C_API size_t calque_function_arguments(const calque_function* function) CALQUE_NOEXCEPT;
CALQUE_C_API size_t calque_function_results(const calque_function* function) CALQUE_NOEXCEPT;

/* Call it.  `results` has room for `result_count` handles, which must be as many as it has results; they
 * may be pending.  Donated arguments are deleted, their handles remain yours. */
CALQUE_C_API calque_error* calque_function_call(const calque_function* function,
                                                const calque_array* const* arguments,
                                                size_t argument_count, calque_array** results,
                                                size_t result_count) CALQUE_NOEXCEPT;

/* ---- arrays: `dtype` is NumPy's name, "float32"; `bytes` what the shape needs, in C order. */
CALQUE_C_API calque_error* calque_array_from_host(const void* data, size_t bytes, const char* dtype,
                                                  const int64_t* shape, size_t rank,
                                                  const calque_device* device,
                                                  calque_array** out) CALQUE_NOEXCEPT;
CALQUE_C_API const char* calque_array_dtype(const calque_array* array) CALQUE_NOEXCEPT;
CALQUE_C_API size_t calque_array_rank(const calque_array* array) CALQUE_NOEXCEPT;
CALQUE_C_API const int64_t* calque_array_shape(const calque_array* array) CALQUE_NOEXCEPT;
CALQUE_C_API size_t calque_array_bytes(const calque_array* array) CALQUE_NOEXCEPT;

/* Wait for the value; at most so many seconds where they are not negative, and `*ready` (which may be NULL)
 * says whether it is there. */
CALQUE_C_API calque_error* calque_array_wait(const calque_array* array, double seconds,
                                             int* ready) CALQUE_NOEXCEPT;
/* Wait and copy the value; `bytes` must be calque_array_bytes. */
CALQUE_C_API calque_error* calque_array_read(const calque_array* array, void* target,
                                             size_t bytes) CALQUE_NOEXCEPT;
CALQUE_C_API void calque_array_free(calque_array* array) CALQUE_NOEXCEPT;

/* ---- sessions: the state of an artifact of an `aot.Module` by name, and calls of its functions with it
 * (calque/session.hpp).  Arguments and results are the function's own, without those of the state. */
CALQUE_C_API calque_error* calque_session_open(const calque_module* module,
                                               calque_session** out) CALQUE_NOEXCEPT;
CALQUE_C_API calque_error* calque_session_call(calque_session* session, const char* function,
                                               const calque_array* const* arguments, size_t argument_count,
                                               calque_array** results, size_t result_count) CALQUE_NOEXCEPT;
/* How many leaves the state has, and the name of one (NULL behind the last), as long as the session lives. */
CALQUE_C_API size_t calque_session_count(const calque_session* session) CALQUE_NOEXCEPT;
CALQUE_C_API const char* calque_session_name(const calque_session* session, size_t index) CALQUE_NOEXCEPT;
/* A copy of a leaf, and setting one to a copy of an array of its type. */
CALQUE_C_API calque_error* calque_session_read(const calque_session* session, const char* name,
                                               calque_array** out) CALQUE_NOEXCEPT;
CALQUE_C_API calque_error* calque_session_write(calque_session* session, const char* name,
                                                const calque_array* value) CALQUE_NOEXCEPT;
/* The whole state, to a .safetensors file and from one. */
CALQUE_C_API calque_error* calque_session_save(const calque_session* session,
                                               const char* path) CALQUE_NOEXCEPT;
CALQUE_C_API calque_error* calque_session_restore(calque_session* session, const char* path) CALQUE_NOEXCEPT;
CALQUE_C_API void calque_session_free(calque_session* session) CALQUE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif  /* CALQUE_CALQUE_H_ */
