// The interpreter is not there: an error that says what to do; then, with the right one, all works.
#include "check.hpp"

using namespace calque;

int main(int, char** words) {
  artifacts() = words[1];
  setenv("CALQUE_PYTHON", "/nowhere/python3", 1);
  CHECK_ERROR(host, ({"there is no Python at /nowhere/python3", "Fix: set CALQUE_PYTHON",
                      "calque-runtime"}),
              Device::open("cpu"));
  unsetenv("CALQUE_PYTHON");
  setenv("CALQUE_CPU_THREADS", "1", 1);
  const Array x = Array::scalar(1.0f);
  CHECK(x.item<float>() == 1);
  return 0;
}
