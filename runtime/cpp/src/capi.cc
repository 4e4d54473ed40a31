// calque/calque.h: every function is a C++ one behind `guarded`, which turns exceptions into errors.
#include "calque/calque.h"

#include <cstring>
#include <new>

#include "calque/runtime.hpp"
#include "impl.hpp"

struct calque_error {
  std::string code, message;
};
struct calque_device {
  calque::Device device;
};
struct calque_module {
  calque::Module module;
};
struct calque_function {
  calque::Function function;
};
struct calque_array {
  calque::Array array;
  std::string dtype;
};

struct calque_session {
  calque::Session session;
};

namespace {

using calque::Code;
using calque::Error;

calque_error out_of_memory{"out_of_memory", "there is no memory left"};

calque_error* error_of(const char* code, const char* message) noexcept {
  try {
    return new calque_error{code, message};
  } catch (const std::bad_alloc&) {
    return &out_of_memory;
  }
}

template <class Body>
calque_error* guarded(Body body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return error_of(name_of(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return &out_of_memory;
  } catch (const std::exception& error) {
    return error_of("execution", error.what());
  } catch (...) {
    return error_of("execution", "something was thrown that is no error");
  }
}

void require(const void* pointer, const char* name, const char* where) {
  if (pointer == nullptr)
    throw Error(Code::invalid_argument, std::string(name) + " is NULL.", where,
                "give what the function of its kind has made.");
}

calque::Device device_of(const calque_device* device) {
  return device == nullptr ? calque::Device::open() : device->device;
}

calque_array* handle_of(calque::Array array) {
  const char* dtype = name_of(array.dtype());
  return new calque_array{std::move(array), dtype};
}

calque::DType dtype_of_name(const char* name, const char* where) {
  for (int i = 0; i <= static_cast<int>(calque::DType::uint4); ++i)
    if (std::strcmp(name, name_of(static_cast<calque::DType>(i))) == 0) return static_cast<calque::DType>(i);
  throw Error(Code::dtype, "'" + std::string(name) + "' is no type.", where,
              "write NumPy's name of it: float32, int8, bool.");
}

std::vector<calque::Array> arrays_of(const calque_array* const* handles, std::size_t count, const char* where) {
  if (count != 0) require(handles, "arguments", where);
  std::vector<calque::Array> made;
  for (std::size_t i = 0; i < count; ++i) {
    require(handles[i], ("argument " + std::to_string(i)).c_str(), where);
    made.push_back(handles[i]->array);
  }
  return made;
}

void check_room(const std::string& name, std::size_t count, calque_array** results, std::size_t room,
                const char* where) {
  if (room != count)
    throw Error(Code::arity,
                name + " has " + std::to_string(count) + " results, and there is room for " +
                    std::to_string(room) + ".",
                where, "give a place for each.");
  if (count != 0) require(results, "results", where);
}

void give(std::vector<calque::Array> made, calque_array** results) {
  std::vector<std::unique_ptr<calque_array>> handles;  // all of them, or none
  for (calque::Array& array : made) handles.emplace_back(handle_of(std::move(array)));
  for (std::size_t i = 0; i < handles.size(); ++i) results[i] = handles[i].release();
}

}  // namespace

extern "C" {

int calque_version(void) noexcept { return CALQUE_VERSION; }

const char* calque_error_code(const calque_error* error) noexcept {
  return error == nullptr ? "" : error->code.c_str();
}
const char* calque_error_message(const calque_error* error) noexcept {
  return error == nullptr ? "" : error->message.c_str();
}
void calque_error_free(calque_error* error) noexcept {
  if (error != &out_of_memory) delete error;
}

calque_error* calque_device_open(const char* uri, calque_device** out) noexcept {
  return guarded([&] {
    require(uri, "uri", "calque_device_open");
    require(out, "out", "calque_device_open");
    *out = new calque_device{calque::Device::open(uri)};
  });
}
const char* calque_device_name(const calque_device* device) noexcept {
  return device == nullptr ? "" : device->device.name().c_str();
}
void calque_device_free(calque_device* device) noexcept { delete device; }

calque_error* calque_module_load(const char* path, const calque_device* device, const char* parameters,
                                 calque_module** out) noexcept {
  return guarded([&] {
    require(path, "path", "calque_module_load");
    require(out, "out", "calque_module_load");
    *out = new calque_module{calque::Module::load(std::string(path), device_of(device),
                                                  parameters == nullptr ? "" : parameters)};
  });
}
calque_error* calque_module_load_bytes(const void* data, size_t bytes, const calque_device* device,
                                       const char* parameters, calque_module** out) noexcept {
  return guarded([&] {
    require(data, "data", "calque_module_load_bytes");
    require(out, "out", "calque_module_load_bytes");
    *out = new calque_module{calque::Module::load(
        calque::Span<const std::uint8_t>(static_cast<const std::uint8_t*>(data), bytes), device_of(device),
        parameters == nullptr ? "" : parameters)};
  });
}
void calque_module_free(calque_module* module) noexcept { delete module; }
size_t calque_module_count(const calque_module* module) noexcept {
  return module == nullptr ? 0 : module->module.functions().size();
}
const char* calque_module_name(const calque_module* module, size_t index) noexcept {
  return index < calque_module_count(module) ? module->module.functions()[index].name.c_str() : nullptr;
}

calque_error* calque_module_function(const calque_module* module, const char* name,
                                     calque_function** out) noexcept {
  return guarded([&] {
    require(module, "module", "calque_module_function");
    require(name, "name", "calque_module_function");
    require(out, "out", "calque_module_function");
    *out = new calque_function{module->module.function(name)};
  });
}
void calque_function_free(calque_function* function) noexcept { delete function; }
const char* calque_function_signature(const calque_function* function) noexcept {
  return function == nullptr ? "" : function->function.signature().record.c_str();
}
size_t calque_function_arguments(const calque_function* function) noexcept {
  return function == nullptr ? 0 : function->function.signature().arguments.size();
}
size_t calque_function_results(const calque_function* function) noexcept {
  return function == nullptr ? 0 : function->function.signature().results.size();
}

calque_error* calque_function_call(const calque_function* function, const calque_array* const* arguments,
                                   size_t argument_count, calque_array** results,
                                   size_t result_count) noexcept {
  return guarded([&] {
    const char* where = "calque_function_call";
    require(function, "function", where);
    const std::size_t count = function->function.signature().results.size();
    check_room(function->function.signature().name, count, results, result_count, where);
    const std::vector<calque::Array> given = arrays_of(arguments, argument_count, where);
    give(function->function.call(calque::Span<const calque::Array>(given.data(), given.size())), results);
  });
}

calque_error* calque_array_from_host(const void* data, size_t bytes, const char* dtype, const int64_t* shape,
                                     size_t rank, const calque_device* device, calque_array** out) noexcept {
  return guarded([&] {
    const char* where = "calque_array_from_host";
    require(dtype, "dtype", where);
    require(out, "out", where);
    if (bytes != 0) require(data, "data", where);
    if (rank != 0) require(shape, "shape", where);
    const calque::Shape sizes = rank == 0 ? calque::Shape() : calque::Shape(shape, shape + rank);
    *out = handle_of(calque::Array::copy_bytes(data, bytes, dtype_of_name(dtype, where), sizes,
                                               device_of(device)));
  });
}
const char* calque_array_dtype(const calque_array* array) noexcept {
  return array == nullptr ? "" : array->dtype.c_str();
}
size_t calque_array_rank(const calque_array* array) noexcept {
  return array == nullptr ? 0 : array->array.shape().size();
}
const int64_t* calque_array_shape(const calque_array* array) noexcept {
  return array == nullptr ? nullptr : array->array.shape().data();
}
size_t calque_array_bytes(const calque_array* array) noexcept {
  return array == nullptr ? 0 : array->array.nbytes();
}

calque_error* calque_array_wait(const calque_array* array, double seconds, int* ready) noexcept {
  return guarded([&] {
    require(array, "array", "calque_array_wait");
    bool there = true;
    if (seconds >= 0) {
      there = array->array.wait_for(std::chrono::duration<double>(seconds));
    } else {
      array->array.block_until_ready();
    }
    if (ready != nullptr) *ready = there;
  });
}
calque_error* calque_array_read(const calque_array* array, void* target, size_t bytes) noexcept {
  return guarded([&] {
    const char* where = "calque_array_read";
    require(array, "array", where);
    if (bytes != array->array.nbytes())
      throw Error(Code::shape,
                  array->array.describe() + " has " + std::to_string(array->array.nbytes()) +
                      " bytes, not " + std::to_string(bytes) + ".",
                  where, "give memory of calque_array_bytes.");
    std::shared_ptr<void> hold;
    const void* data = calque::detail::Access::read(array->array, hold);
    if (bytes == 0) return;
    require(target, "target", where);
    std::memcpy(target, data, bytes);
  });
}
void calque_array_free(calque_array* array) noexcept { delete array; }

calque_error* calque_session_open(const calque_module* module, calque_session** out) noexcept {
  return guarded([&] {
    require(module, "module", "calque_session_open");
    require(out, "out", "calque_session_open");
    *out = new calque_session{calque::Session(module->module)};
  });
}
calque_error* calque_session_call(calque_session* session, const char* function,
                                  const calque_array* const* arguments, size_t argument_count,
                                  calque_array** results, size_t result_count) noexcept {
  return guarded([&] {
    const char* where = "calque_session_call";
    require(session, "session", where);
    require(function, "function", where);
    std::size_t count = 0;  // of results that are not the state's
    for (const calque::Signature& signature : session->session.module().functions()) {
      if (signature.name != function) continue;
      for (const calque::Parameter& result : signature.results) count += result.state.empty();
      check_room(signature.name, count, results, result_count, where);
      break;
    }
    const std::vector<calque::Array> given = arrays_of(arguments, argument_count, where);
    give(session->session.call(function, calque::Span<const calque::Array>(given.data(), given.size())),
         results);
  });
}
size_t calque_session_count(const calque_session* session) noexcept {
  return session == nullptr ? 0 : session->session.leaves().size();
}
const char* calque_session_name(const calque_session* session, size_t index) noexcept {
  return index < calque_session_count(session) ? session->session.leaves()[index].path.c_str() : nullptr;
}
calque_error* calque_session_read(const calque_session* session, const char* name,
                                  calque_array** out) noexcept {
  return guarded([&] {
    require(session, "session", "calque_session_read");
    require(name, "name", "calque_session_read");
    require(out, "out", "calque_session_read");
    *out = handle_of(session->session.read(name));
  });
}
calque_error* calque_session_write(calque_session* session, const char* name,
                                   const calque_array* value) noexcept {
  return guarded([&] {
    require(session, "session", "calque_session_write");
    require(name, "name", "calque_session_write");
    require(value, "value", "calque_session_write");
    session->session.write(name, value->array);
  });
}
calque_error* calque_session_save(const calque_session* session, const char* path) noexcept {
  return guarded([&] {
    require(session, "session", "calque_session_save");
    require(path, "path", "calque_session_save");
    session->session.save(path);
  });
}
calque_error* calque_session_restore(calque_session* session, const char* path) noexcept {
  return guarded([&] {
    require(session, "session", "calque_session_restore");
    require(path, "path", "calque_session_restore");
    session->session.restore(path);
  });
}
void calque_session_free(calque_session* session) noexcept { delete session; }

}  // extern "C"
