// A program may end with everything alive: arrays in globals, a computation under way, a thread's own
// array; the exit code is 0.
#include <thread>

#include "check.hpp"

using namespace calque;

namespace {

Array kept;
std::vector<Array>* leaked = nullptr;
thread_local Array of_thread;

}  // namespace

int main(int, char** words) {
  artifacts() = words[1];
  static const Module module = load("slow");
  static const Function slow = module["slow"];
  static const Device device = Device::open("cpu");
  const std::vector<float> zeros(512 * 512);
  kept = slow(Array::from_host(zeros, {512, 512}))[0];
  leaked = new std::vector<Array>{kept};
  for (int i = 0; i < 20; ++i) leaked->push_back(slow(leaked->back())[0]);
  static const View<float> view = Array::scalar(1.0f).view<float>();
  of_thread = Array::scalar(2.0f);
  std::thread([] { of_thread = Array::scalar(3.0f); }).join();
  CHECK(!leaked->back().is_ready());
  return 0;
}
