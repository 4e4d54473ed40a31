// A process that runs Python already: the library joins it, whoever holds the interpreter's lock.
#include <Python.h>

#include <thread>

#include "check.hpp"

using namespace calque;

int main(int, char** words) {
  artifacts() = words[1];
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  PyConfig_SetBytesString(&config, &config.executable, CALQUE_PYTHON_EXECUTABLE);
  CHECK(!PyStatus_Exception(Py_InitializeFromConfig(&config)));
  PyConfig_Clear(&config);
  const std::vector<float> four = {1, 2, 3, 4};
  // This thread holds the lock; others that come at the same time must get through.
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const Function add = load("add")["add"];
      const Array x = Array::from_host(four, {4});
      for (int i = 0; i < 100; ++i) CHECK(add(x, x)[0].view<float>()[3] == 8);
    });
  {
    const Function add = load("add")["add"];
    const Array x = Array::from_host(four, {4});
    const Array y = add(x, x)[0];
    CHECK(y.view<float>()[2] == 6);
    CHECK(PyGILState_Check() == 1);
    Py_BEGIN_ALLOW_THREADS
    for (std::thread& thread : threads) thread.join();
    Py_END_ALLOW_THREADS
    CHECK(PyRun_SimpleString("import sys\nassert 'calque.runtime' in sys.modules\n"
                             "assert not any(m.startswith('calque.lowering') or "
                             "m.startswith('iree.compiler') for m in sys.modules)\n") == 0);
    // The frontend, if it is there, can be imported afterwards.
    if (std::getenv("CALQUE_TEST_FRONTEND") != nullptr)
      CHECK(PyRun_SimpleString("import calque.numpy as jnp, calque\n"
                               "assert float(jnp.ones(3).sum()) == 3.0\n"
                               "assert calque.runtime.load\n") == 0);
  }
  static Array kept = Array::from_host(four, {4});  // outlives the interpreter
  CHECK(Py_FinalizeEx() == 0);
  CHECK_ERROR(host, ({"the interpreter has ended"}), Array::from_host(four, {4}));
  return 0;
}
