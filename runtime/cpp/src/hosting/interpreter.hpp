// The hosted interpreter: started once, never ended; its lock, its references, its errors.
//
// Only the files of src/ include this (and with it Python.h).
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <string>
#include <utility>

#include "calque/error.hpp"
#include "fork.hpp"

namespace calque::python {

// Can the interpreter be entered?  False before `hosting()`, after a host's own Py_Finalize, and in a
// forked child, where a thread that is gone may have its lock.
inline bool is_alive() noexcept { return !detail::is_forked() && Py_IsInitialized() != 0; }

// Holds the interpreter's lock.  A thread's state is kept from its first use to the thread's end:
// making one costs more than a call.
class Lock {
 public:
  Lock();
  ~Lock() { PyGILState_Release(state_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  PyGILState_STATE state_;
};

// A reference that is owned.  Given back under the lock, from any thread; after the interpreter's
// end not at all.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && is_alive()) {
      Lock lock;
      Py_DECREF(object_);
    }
  }
  PyObject* get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// The functions of calque.runtime.hosting, and the type of `memory_object`.
struct Hosting {
  PyObject *open_device, *load_artifact, *bind, *shapes, *from_memory, *view, *wait, *report;
  PyObject* memory_type;
};

// Starts the interpreter at the first call (or joins the one that runs) and imports calque.runtime.
// Error (host) says why it cannot; the next call tries again.
const Hosting& hosting();

// Throws the Python exception that is set, as an Error.  Under the lock.
[[noreturn]] void raise_pending(const std::string& where);

// `object`, or raise_pending where it is null.
inline Ref checked(PyObject* object, const std::string& where) {
  if (object == nullptr) raise_pending(where);
  return Ref(object);
}

// Gives way to other threads, with the lock if this thread holds it.
void yield() noexcept;

// UTF-8 text of a str.
std::string text_of(PyObject* text);

// An object with the buffer protocol over memory of the host's, which holds `keep`.  Under the lock.
Ref memory_object(const void* data, std::size_t bytes, std::shared_ptr<const void> keep);

}  // namespace calque::python
