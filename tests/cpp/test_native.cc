// What only the native backend can promise: no Python in the process, a number of worker threads, values
// that a forked child can read (test_fork.cc has what both backends promise).
#include <dlfcn.h>
#include <filesystem>

#include "child.hpp"

using namespace calque;

namespace {

int workers() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    std::getline(file, name);
    count += name.rfind("iree-worker", 0) == 0;
  }
  return count;
}

void run(const char* name, std::int64_t n) {
  const Function function = load(name)[name];
  const Array x = Array::from_host(std::vector<float>(static_cast<std::size_t>(n * n)), {n, n});
  CHECK(function(x, x)[0].view<float>()[0] == 0);
}

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  CHECK(dlsym(RTLD_DEFAULT, "Py_IsInitialized") == nullptr);
  for (const char* text : {"0", "many", "-1", "99999"})
    CHECK(in_child([&] {
            setenv("CALQUE_CPU_THREADS", text, 1);
            CHECK_ERROR(unavailable, ({"not a number of threads", "Fix: "}), Device::open("cpu"));
          }) == 0);
  for (const int count : {1, 3})
    CHECK(in_child([&] {
            setenv("CALQUE_CPU_THREADS", std::to_string(count).c_str(), 1);
            run("step", 256);
            for (int i = 0; i < 500 && workers() != count; ++i) usleep(10'000);  // until they have names
            CHECK(workers() == count);
          }) == 0);
  run("step", 256);
  const Array kept = Array::scalar(1.0f);
  CHECK(in_child([&] {
          CHECK(kept.item<float>() == 1);  // what is there can be read
        }) == 0);
  run("step", 256);
  return 0;
}
