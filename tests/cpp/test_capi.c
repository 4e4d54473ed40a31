/* The C interface, from C: values, signatures, errors.  test_capi FOLDER */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calque/calque.h"

static int failures = 0;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

static void good(calque_error* error, int line) {
  if (error == NULL) return;
  fprintf(stderr, "line %d: %s: %s\n", line, calque_error_code(error), calque_error_message(error));
  exit(1);
}
#define GOOD(call) good(call, __LINE__)

/* An error of a code, whose message has these words and says how to mend it. */
static void refused(calque_error* error, const char* code, const char* words, int line) {
  if (error == NULL || strcmp(calque_error_code(error), code) != 0 ||
      strstr(calque_error_message(error), words) == NULL ||
      strstr(calque_error_message(error), "Fix: ") == NULL) {
    fprintf(stderr, "line %d: %s: %s\n", line, calque_error_code(error), calque_error_message(error));
    ++failures;
  }
  calque_error_free(error);
}
#define REFUSED(call, code, words) refused(call, code, words, __LINE__)

/* A session: a call, its state, a file and back. */
static void sessions(const char* folder) {
  char path[4096];
  calque_module* module = NULL;
  calque_session *session = NULL, *other = NULL;
  calque_array *x = NULL, *rate = NULL, *results[2] = {NULL, NULL}, *count = NULL, *odd = NULL;
  const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8}, half = 0.5f;
  const int64_t shape[2] = {4, 2};
  const calque_array* arguments[2];
  float loss = 0;
  int32_t got = 0;
  snprintf(path, sizeof path, "%s/trainer.vmfb", folder);
  GOOD(calque_module_load(path, NULL, NULL, &module));
  GOOD(calque_session_open(module, &session));
  GOOD(calque_session_open(module, &other));
  CHECK(calque_session_count(session) == 4 && strcmp(calque_session_name(session, 0), "count") == 0);
  CHECK(calque_session_name(session, 4) == NULL && calque_session_count(NULL) == 0);
  GOOD(calque_array_from_host(values, sizeof values, "float32", shape, 2, NULL, &x));
  GOOD(calque_array_from_host(&half, sizeof half, "float32", NULL, 0, NULL, &rate));
  arguments[0] = x, arguments[1] = rate;
  GOOD(calque_session_call(session, "step", arguments, 2, results, 2));
  GOOD(calque_array_read(results[0], &loss, sizeof loss));
  CHECK(loss == 108.0f);
  snprintf(path, sizeof path, "capi.safetensors");
  GOOD(calque_session_save(session, path));
  GOOD(calque_session_restore(other, path));
  GOOD(calque_session_read(other, "count", &count));
  GOOD(calque_array_read(count, &got, sizeof got));
  CHECK(got == 1);
  GOOD(calque_session_write(session, "count", count));
  REFUSED(calque_session_write(session, "count", rate), "dtype", "count must be int32[]");
  REFUSED(calque_session_read(session, "c", &odd), "not_found", "no leaf 'c'");
  REFUSED(calque_session_call(session, "step", arguments, 1, results, 2), "arity", "besides the state");
  REFUSED(calque_session_call(session, "step", arguments, 2, results, 1), "arity", "has 2 results");
  REFUSED(calque_session_call(session, "walk", arguments, 2, results, 2), "not_found", "no function 'walk'");
  REFUSED(calque_session_open(NULL, &session), "invalid_argument", "module is NULL");
  REFUSED(calque_session_restore(session, "nowhere.irpa"), "artifact", "no archive");
  calque_array_free(results[0]), calque_array_free(results[1]), calque_array_free(count);
  calque_array_free(x), calque_array_free(rate);
  calque_session_free(session), calque_session_free(other), calque_session_free(NULL);
  calque_module_free(module);
}

int main(int count, char** words) {
  char path[4096];
  calque_device* device = NULL;
  calque_module* module = NULL;
  calque_function* add = NULL;
  calque_array *x = NULL, *y = NULL, *result = NULL, *odd = NULL;
  const float values[4] = {1, 2, 3, 4};
  const int64_t shape[1] = {4}, other[1] = {2};
  float got[4] = {0, 0, 0, 0};
  int ready = 0;
  if (count < 2) return 2;
  snprintf(path, sizeof path, "%s/add.vmfb", words[1]);
  CHECK(calque_version() == CALQUE_VERSION);
  GOOD(calque_device_open("cpu", &device));
  CHECK(strcmp(calque_device_name(device), "cpu:0") == 0);
  GOOD(calque_module_load(path, device, NULL, &module));
  CHECK(calque_module_count(module) == 1);
  CHECK(strcmp(calque_module_name(module, 0), "add") == 0 && calque_module_name(module, 1) == NULL);
  GOOD(calque_module_function(module, "add", &add));
  calque_module_free(module); /* the function keeps what it needs */
  CHECK(strstr(calque_function_signature(add), "\"name\":\"add\"") != NULL);
  CHECK(calque_function_arguments(add) == 2 && calque_function_results(add) == 1);

  GOOD(calque_array_from_host(values, sizeof values, "float32", shape, 1, device, &x));
  GOOD(calque_array_from_host(values, sizeof values, "float32", shape, 1, NULL, &y));
  const calque_array* given[2] = {x, y};
  GOOD(calque_function_call(add, given, 2, &result, 1));
  GOOD(calque_array_wait(result, -1, NULL));
  GOOD(calque_array_wait(result, 0, &ready));
  CHECK(ready == 1);
  CHECK(strcmp(calque_array_dtype(result), "float32") == 0 && calque_array_rank(result) == 1);
  CHECK(calque_array_shape(result)[0] == 4 && calque_array_bytes(result) == sizeof got);
  GOOD(calque_array_read(result, got, sizeof got));
  CHECK(got[0] == 2 && got[1] == 4 && got[3] == 8);

  REFUSED(calque_device_open("tpu", &device), "unavailable", "tpu");
  REFUSED(calque_device_open(NULL, &device), "invalid_argument", "uri is NULL");
  REFUSED(calque_module_load("/nowhere.vmfb", device, NULL, &module), "artifact", "cannot read /nowhere.vmfb");
  REFUSED(calque_module_load_bytes("no artifact", 11, device, NULL, &module), "artifact", "not a .vmfb");
  REFUSED(calque_module_function(NULL, "add", &add), "invalid_argument", "module is NULL");
  REFUSED(calque_array_from_host(values, sizeof values, "float31", shape, 1, device, &odd), "dtype", "float31");
  REFUSED(calque_array_from_host(values, 8, "float32", shape, 1, device, &odd), "shape", "16");
  REFUSED(calque_array_read(result, got, 4), "shape", "has 16 bytes, not 4");
  REFUSED(calque_function_call(add, given, 2, &odd, 2), "arity", "has 1 results");
  REFUSED(calque_function_call(add, given, 1, &odd, 1), "arity", "2 arguments");
  given[1] = NULL;
  REFUSED(calque_function_call(add, given, 2, &odd, 1), "invalid_argument", "argument 1 is NULL");
  GOOD(calque_array_from_host(values, 8, "float32", other, 1, device, &odd));
  given[1] = odd;
  REFUSED(calque_function_call(add, given, 2, &y, 1), "shape", "float32[4]");

  calque_array_free(x), calque_array_free(y), calque_array_free(odd), calque_array_free(result);
  calque_array_free(NULL), calque_error_free(NULL), calque_module_free(NULL);
  calque_function_free(add), calque_device_free(device);
  sessions(words[1]);
  return failures != 0;
}
