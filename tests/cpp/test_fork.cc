// A child forked after calque was used gets an error, where it would hang; before, a fork does no harm.
#include <atomic>

#include "child.hpp"

using namespace calque;

namespace {

void run() {
  const Function add = load("add")["add"];
  const Array x = Array::from_host(std::vector<float>{1, 2, 3, 4}, {4});
  CHECK(add(x, x)[0].view<float>()[3] == 8);
}

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  CHECK(in_child(run) == 0);
  const Module module = load("add");
  const Function add = module["add"];
  const Array kept = Array::from_host(std::vector<float>{1, 2, 3, 4}, {4});
  std::atomic<bool> stop{false};
  std::thread busy([&] {  // whose lock a child would never get
    while (!stop) add(kept, kept)[0].block_until_ready();
  });
  for (int i = 0; i < 5; ++i)
    CHECK(in_child([&] {
            CHECK_ERROR(execution, ({"this process was forked", "Fix: "}), Array::scalar(1.0f));
            CHECK_ERROR(execution, ({"this process was forked"}), add(kept, kept));
            CHECK_ERROR(execution, ({"this process was forked"}), module["add"](kept, kept));
            CHECK_ERROR(execution, ({"this process was forked"}), load("add"));
            { const Array gone = kept; }
          }) == 0);
  stop = true;
  busy.join();
  run();
  return 0;
}
