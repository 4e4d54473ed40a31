#include "hosting/interpreter.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

namespace calque::python {

namespace {

// `import calque.runtime` would run calque/__init__ first, the whole frontend, where that is
// installed.  A bare package stands in for it during the import.  (Without the frontend calque is a
// namespace, and nothing needs to stand in.)
constexpr const char* kImport = R"(
def load():
    import importlib, importlib.util, sys, types
    if "calque" in sys.modules:
        return importlib.import_module("calque.runtime.hosting")
    spec = importlib.util.find_spec("calque")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("No module named 'calque'")
    bare = types.ModuleType("calque")
    bare.__path__ = list(spec.submodule_search_locations)
    sys.modules["calque"] = bare
    try:
        return importlib.import_module("calque.runtime.hosting")
    finally:
        del sys.modules["calque"]
)";

std::string executable() {
  const char* chosen = std::getenv("CALQUE_PYTHON");
  return chosen != nullptr && *chosen != '\0' ? chosen : CALQUE_PYTHON_EXECUTABLE;
}

std::string version() {
  return std::to_string(PY_MAJOR_VERSION) + "." + std::to_string(PY_MINOR_VERSION);
}

const char* kFix =
    "set CALQUE_PYTHON to a Python with calque-runtime (python -m pip install ./runtime in the "
    "sources of calque), of the version this library is built with: ";

// Extension modules (NumPy's, IREE's) find libpython's functions among the global symbols only; a
// host that loaded this library with dlopen(RTLD_LOCAL) has hidden them.
void show_symbols() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&Py_IsInitialized), &info) != 0 && info.dli_fname != nullptr)
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

void start() {
  const std::string path = executable();
  if (access(path.c_str(), X_OK) != 0)
    throw Error(Code::host, "there is no Python at " + path + ".", "starting the interpreter",
                kFix + version() + ".");
  show_symbols();
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;  // Ctrl-C is the host's
  config.parse_argv = 0;
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, path.c_str());
  if (!PyStatus_Exception(status))
    status = PyConfig_SetBytesString(&config, &config.executable, path.c_str());
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status))
    throw Error(Code::host,
                std::string("the interpreter does not start: ") +
                    (status.err_msg != nullptr ? status.err_msg : "no reason given"),
                path, kFix + version() + ".");
  PyEval_SaveThread();
}

PyObject* import_hosting() {
  Ref scope(PyDict_New());
  if (!scope || PyDict_SetItemString(scope.get(), "__builtins__", PyEval_GetBuiltins()) != 0)
    return nullptr;
  Ref ran(PyRun_String(kImport, Py_file_input, scope.get(), scope.get()));
  return ran ? PyObject_CallNoArgs(PyDict_GetItemString(scope.get(), "load")) : nullptr;
}

std::string pending_text() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref held_type(type), held_value(value), held_trace(trace);
  Ref text(value != nullptr ? PyObject_Str(value) : nullptr);
  if (text) return text_of(text.get());
  PyErr_Clear();
  return "unknown error";
}

struct MemoryObject {
  PyObject_HEAD
  void* data;
  Py_ssize_t bytes;
  std::shared_ptr<const void>* keep;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto* memory = reinterpret_cast<MemoryObject*>(self);
  return PyBuffer_FillInfo(view, self, memory->data, memory->bytes, 0, flags);
}

void free_memory_object(PyObject* self) {
  std::shared_ptr<const void>* keep = reinterpret_cast<MemoryObject*>(self)->keep;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
  Py_BEGIN_ALLOW_THREADS  // what the caller does when it is let go is its own affair
  delete keep;
  Py_END_ALLOW_THREADS
}

PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(free_memory_object)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr},
};
PyType_Spec memory_spec = {"calque.HostMemory", sizeof(MemoryObject), 0, Py_TPFLAGS_DEFAULT,
                           memory_slots};

Hosting import_all() {
  Lock lock;
  Ref module(import_hosting());
  if (!module)
    throw Error(Code::host, "calque.runtime cannot be imported: " + pending_text() + ".",
                "the Python at " + executable(), kFix + version() + ".");
  const auto get = [&](const char* name) {
    PyObject* function = PyObject_GetAttrString(module.get(), name);  // held for ever
    if (function == nullptr)
      throw Error(Code::host, "this calque.runtime is of another version: " + pending_text() + ".",
                  "the Python at " + executable(),
                  "install the calque-runtime of the same version as this library.");
    return function;
  };
  PyObject* type = PyType_FromSpec(&memory_spec);
  if (type == nullptr)
    throw Error(Code::host, "a type cannot be made: " + pending_text() + ".", "the interpreter");
  return {get("open_device"), get("load_artifact"), get("bind"), get("shapes"), get("from_memory"),
          get("view"), get("wait"), get("report"), type};
}

Code code_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Code::invalid_argument); ++i)
    if (name == name_of(static_cast<Code>(i))) return static_cast<Code>(i);
  return Code::host;
}

// A thread's state, from its first use of the interpreter to its end.
class ThreadState {
 public:
  ThreadState() : fresh_(PyGILState_GetThisThreadState() == nullptr) {
    if (!fresh_) return;
    state_ = PyGILState_Ensure();
    PyEval_SaveThread();
  }
  ~ThreadState() {
    if (!fresh_ || !is_alive()) return;
    PyEval_RestoreThread(PyGILState_GetThisThreadState());
    PyGILState_Release(state_);
  }

 private:
  bool fresh_;
  PyGILState_STATE state_{};
};

}  // namespace

Lock::Lock() {
  static thread_local ThreadState kept;
  (void)kept;
  state_ = PyGILState_Ensure();
}

const Hosting& hosting() {
  detail::check_not_forked();
  static std::mutex mutex;
  static Hosting functions;
  static std::atomic<bool> ready{false};
  if (!ready.load(std::memory_order_acquire)) {
    // A thread of Python's own comes with the lock: it must not wait here with it.
    PyThreadState* mine = Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
    std::exception_ptr failure;
    {
      std::lock_guard<std::mutex> guard(mutex);
      try {
        if (!ready.load(std::memory_order_relaxed)) {
          if (!Py_IsInitialized()) start();
          functions = import_all();
          detail::watch_forks();
          ready.store(true, std::memory_order_release);
        }
      } catch (...) {
        failure = std::current_exception();
      }
    }
    if (mine != nullptr) PyEval_RestoreThread(mine);
    if (failure) std::rethrow_exception(failure);
  }
  if (!is_alive())
    throw Error(Code::host, "the interpreter has ended.", "",
                "end it (Py_Finalize) after the last use of calque, or not at all.");
  return functions;
}

void raise_pending(const std::string& where) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref held_type(type), held_value(value), held_trace(trace);
  if (value == nullptr) throw Error(Code::host, "unknown error", where);
  Ref parts(PyObject_CallOneArg(hosting().report, value));
  if (!parts) throw Error(Code::host, pending_text(), where);
  const auto part = [&](Py_ssize_t i) { return text_of(PyTuple_GET_ITEM(parts.get(), i)); };
  const std::string context = part(2);
  throw Error(code_of(part(0)), part(1), context.empty() ? where : context, part(3));
}

void yield() noexcept {
  PyThreadState* mine = is_alive() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
  std::this_thread::yield();
  if (mine != nullptr) PyEval_RestoreThread(mine);
}

std::string text_of(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data != nullptr) return std::string(data, static_cast<std::size_t>(size));
  PyErr_Clear();  // lone surrogates: names of files that are not UTF-8
  Ref bytes(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  return bytes ? PyBytes_AS_STRING(bytes.get()) : "?";
}

Ref memory_object(const void* data, std::size_t bytes, std::shared_ptr<const void> keep) {
  auto* type = reinterpret_cast<PyTypeObject*>(hosting().memory_type);
  auto* self = PyObject_New(MemoryObject, type);
  if (self == nullptr) raise_pending("calque.HostMemory");
  self->data = const_cast<void*>(data);
  self->bytes = static_cast<Py_ssize_t>(bytes);
  self->keep = new std::shared_ptr<const void>(std::move(keep));
  return Ref(reinterpret_cast<PyObject*>(self));
}

}  // namespace calque::python
