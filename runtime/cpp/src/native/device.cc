#include <sched.h>

#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "artifact/cuda.hpp"
#include "native/internal.hpp"

namespace calque {

namespace native {

namespace {

const char* kUnavailable =
    "install the driver (libcuda.so, or a Vulkan 1.3 loader and driver), and build calque with an IREE "
    "runtime that has it.";

// Worker threads of the CPU, where the environment says how many.
int workers() {
  const char* text = std::getenv("CALQUE_CPU_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end != '\0' || count < 1 || count > 1024)
    throw Error(Code::unavailable,
                std::string("CALQUE_CPU_THREADS is ") + text + ", not a number of threads.",
                "opening the CPU", "set it to a number from 1 to 1024, or unset it.");
  return static_cast<int>(count);
}

// How IREE keeps memory that was given back, the best first; runtime/device.py has the same and says why.
std::vector<std::string> caches_of(const std::string& platform, std::size_t index) {
  if (platform == "cpu") return {"caching:*=*;512mib;4096"};
  if (platform != "cuda") return {};
  constexpr std::uint64_t kCard = std::uint64_t{8} << 30;  // of one that does not say
  const std::uint64_t total = artifact::cuda_memory(index);
  const std::string own = "caching:device_local=*;" +
                          std::to_string((total != 0 ? total : kCard) / 4 * 3 >> 20) + "mib;1024";
  return {own + ",host_cached=*;256mib;64", own, "caching"};
}

std::size_t count_devices(const std::string& platform) {
  if (platform == "cpu") return 1;
  std::size_t count = 0;
  if (ci_error* error = ci_count_devices(platform.c_str(), &count))
    throw Error(Code::unavailable,
                "Unable to initialize backend '" + platform + "': " + text_of(error), "", kUnavailable);
  if (count == 0)
    throw Error(Code::unavailable,
                "Unable to initialize backend '" + platform + "': no device found.", "",
                "check that the driver sees the device (nvidia-smi, vulkaninfo).");
  return count;
}

// The queues of a device, made once.
Queues& shared_queues(const std::string& platform, std::size_t index) {
  static auto* lock = new std::mutex();
  static auto* made = new std::map<std::pair<std::string, std::size_t>, Queues*>();
  std::lock_guard<std::mutex> guard(*lock);
  Queues*& found = (*made)[{platform, index}];
  if (found == nullptr) found = new Queues(platform, index);
  return *found;
}

}  // namespace

ci_device* Queues::opened(std::atomic<ci_device*>& device, const std::string& driver) {
  ci_device* found = device.load(std::memory_order_acquire);
  if (found != nullptr) return found;
  detail::check_not_forked();
  static auto* lock = new std::mutex();
  std::lock_guard<std::mutex> guard(*lock);
  found = device.load(std::memory_order_relaxed);
  if (found != nullptr) return found;
  const bool is_cpu = driver_ == "cpu";
  detail::watch_forks();
  const std::vector<std::string> caches = caches_of(driver_, index_);
  std::vector<const char*> texts;
  for (const std::string& cache : caches) texts.push_back(cache.c_str());
  if (ci_error* error = ci_open_device(driver.c_str(), index_, is_cpu, texts.data(), texts.size(),
                                       is_cpu ? workers() : 0, &found))
    throw Error(Code::unavailable, "Unable to initialize backend '" + driver_ + "': " + text_of(error),
                "", kUnavailable);
  device.store(found, std::memory_order_release);
  return found;
}

ci_device* Queues::inline_queue() {
  return driver_ == "cpu" ? opened(sync_, "local-sync") : queue();
}

ci_device* Queues::queue() { return opened(task_, driver_ == "cpu" ? "local-task" : driver_); }

std::string Queues::path() const {
  char text[128] = "";
  if (ci_error* error = ci_path_of_device(driver_.c_str(), index_, text, sizeof text)) ci_free_error(error);
  return text;
}

// IREE's texts name places in its sources: "runtime/src/iree/vm/context.c:92: NOT_FOUND; ...".
std::string text_of(ci_error* error, bool* out_of_memory) {
  if (out_of_memory != nullptr) *out_of_memory = error->out_of_memory;
  const std::string text = error->text;
  ci_free_error(error);
  std::string made;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find_first_of(" \n", at);
    if (end == text.npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    std::size_t dot = word.find(".c:");
    if (dot == word.npos) dot = word.find(".h:");
    const bool is_place = dot != word.npos && word.back() == ':' && word.find('/') != word.npos;
    if (!is_place) made += word;
    if (end < text.size() && !is_place) made.push_back(text[end]);
    at = end + 1;
  }
  while (!made.empty() && std::isspace(static_cast<unsigned char>(made.back()))) made.pop_back();
  return made;
}

void check(ci_error* error, const std::string& where) {
  if (error == nullptr) return;
  bool out_of_memory = false;
  const std::string text = text_of(error, &out_of_memory);
  if (!out_of_memory) throw Error(Code::execution, text, where);
  throw Error(Code::out_of_memory, "RESOURCE_EXHAUSTED: out of memory on the device: " + text, where,
              "release arrays that are no longer needed, compile the function to take arguments over "
              "(calque compile --donate), or use smaller batches.");
}

}  // namespace native

namespace backend {

void yield() noexcept { sched_yield(); }

void open(std::string_view uri, detail::DeviceImpl& device) {
  detail::check_not_forked();
  const std::string text(uri), where = "Device::open(\"" + text + "\")";
  const std::size_t colon = text.find(':');
  std::string platform = text.substr(0, colon);
  std::string number = colon == text.npos ? "" : text.substr(colon + 1);
  if (number.rfind("//", 0) == 0) number.erase(0, 2);
  std::size_t index = 0;
  for (const char c : number) {
    if (c < '0' || c > '9' || index > 1'000'000)
      throw Error(Code::unavailable, "'" + text + "' names no device.", where,
                  "write cpu, cuda, vulkan, or one of several as cuda:1.");
    index = 10 * index + static_cast<std::size_t>(c - '0');
  }
  if (platform == "gpu") platform = "cuda";
  if (platform.empty()) platform = "cpu";
  if (platform != "cpu" && platform != "cuda" && platform != "vulkan")
    throw Error(Code::unavailable, "Unknown backend " + platform + ": no such platform.", where,
                "choose cpu, cuda or vulkan.");
  std::size_t count = 0;
  try {
    count = native::count_devices(platform);
  } catch (const Error& error) {
    const std::string message = error.what();
    throw Error(Code::unavailable, message.substr(0, message.find("\n  ")), where, error.fix());
  }
  if (index >= count)
    throw Error(Code::unavailable,
                "there is no device " + text + ": " + platform + " has " + std::to_string(count) + ".",
                where, "open " + platform + ":" + std::to_string(count - 1) + " or one before it.");
  device.name = platform + ":" + std::to_string(index);
  device.platform = platform;
  device.is_host = platform == "cpu";
  device.state.queues = &native::shared_queues(platform, index);
  // Both now: a CPU driver's making registers types of the VM, which no other thread may use meanwhile.
  device.state.queues->inline_queue();
  device.state.queues->queue();
}

}  // namespace backend

}  // namespace calque
