// A Python without calque: the error names it, and what to install.  (Its folder is the second word.)
#include "check.hpp"

using namespace calque;

int main(int, char** words) {
  setenv("CALQUE_PYTHON", words[2], 1);
  unsetenv("PYTHONPATH");
  for (int i = 0; i < 2; ++i)  // the second try fails as the first did
    CHECK_ERROR(host, ({"calque.runtime cannot be imported: No module named", words[2],
                        "python -m pip install ./runtime"}),
                Device::open("cpu"));
  return 0;
}
