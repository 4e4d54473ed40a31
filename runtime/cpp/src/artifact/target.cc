#include "artifact/target.hpp"

#include <sys/utsname.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "artifact/cuda.hpp"
#include "artifact/features.hpp"

namespace calque::artifact {

namespace {

std::string machine() {
  utsname name;
  const std::string found = uname(&name) == 0 ? name.machine : "";
  return found == "AMD64" ? "x86_64" : found == "arm64" ? "aarch64" : found;
}

std::string platform_of(const std::string& backend) {
  return backend == "llvm-cpu" ? "cpu" : backend == "vulkan-spirv" ? "vulkan" : backend;
}

std::string joined(const std::vector<std::string>& words) {
  std::string made;
  for (const std::string& word : words) made += (made.empty() ? "" : ", ") + word;
  return made;
}

void check_vulkan(const Target& target, const Place& place, const std::string& source) {
  if (place.vulkan == nullptr) return;
  const std::string missing = joined(missing_on(*place.vulkan, target.features));
  if (missing.empty()) return;
  const std::string& there = place.vulkan->name;
  throw Error(Code::artifact,
              "the artifact needs what " + place.device + " (" + there + ") lacks: " + missing +
                  " (it is compiled for " + (target.name.empty() ? "another device" : target.name) +
                  (target.arch.empty() ? "" : ", " + target.arch) + ").",
              source, "compile it for this device: calque compile --target " +
                  std::string(there.find("llvmpipe") != there.npos ? "vulkan:lavapipe." : "vulkan:host."));
}

void check_cuda(const Target& target, const Place& place, const std::string& source) {
  const std::string missing = missing_on_cuda(target.features, place.cuda, place.capability);
  if (missing.empty()) return;
  throw Error(Code::artifact,
              "the program needs what " + place.device + " lacks: " + missing + ".", source,
              "compile it for this card and driver (calque compile --target cuda:host), or install a newer "
              "driver; a kernel of your own with an older CUDA.");
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

const std::set<std::string>& cpu_flags() {
  static const auto* flags = [] {
    auto* made = new std::set<std::string>();
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
      const std::size_t colon = line.find(':');
      std::istringstream words(colon == line.npos ? "" : line.substr(colon + 1));
      made->insert(std::istream_iterator<std::string>(words), {});
      break;
    }
    return made;
  }();
  return *flags;
}

std::vector<std::string> missing_features(const std::vector<std::string>& needed,
                                          const std::set<std::string>& present) {
  std::vector<std::string> made;
  if (present.empty()) return made;
  for (const std::string& feature : needed) {
    const Json* name = features().at("cpu").find(feature);  // the kernel's
    if (name != nullptr && present.count(name->string()) == 0) made.push_back(feature);
  }
  return made;
}

void check_target(const Target& target, const Place& place, const std::string& source) {
  const std::string &device = place.device, &platform = place.platform;
  if (target.backend.empty()) return;
  const std::string wanted = platform_of(target.backend);
  if (wanted != platform)
    throw Error(Code::artifact,
                "the artifact is compiled for " + wanted + ", and " + device + " is a " + platform +
                    " device.",
                source,
                "load it for Device::open(\"" + wanted + "\"), or compile it for " + platform + ".");
  if (wanted == "vulkan") check_vulkan(target, place, source);
  if (wanted == "cuda") check_cuda(target, place, source);
  if (wanted != "cpu") return;
  const std::string here = machine();
  if (!target.arch.empty() && target.arch != here)
    throw Error(Code::artifact,
                "the artifact is compiled for " + target.arch + ", this machine is " + here + ".",
                source, "compile it for this machine (calque compile --target cpu:" + here + ").");
  const std::string missing = joined(missing_features(target.features, cpu_flags()));
  if (!missing.empty())
    throw Error(Code::artifact,
                "the artifact needs CPU features that this machine lacks: " + missing +
                    " (it is compiled for " + (target.cpu.empty() ? "another CPU" : target.cpu) +
                    ").",
                source, "compile it for an older level (calque compile --target cpu:x86-64-v3, or v2).");
}

std::size_t choose(const std::vector<const Record*>& forms, const Place& place,
                   const std::string& source) {
  constexpr auto none = static_cast<std::size_t>(-1);
  std::size_t best = none;
  std::pair<std::size_t, int> most{0, 0};
  std::string reasons;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    try {
      check_target(forms[i]->target, place, source);
    } catch (const Error& error) {
      if (forms.size() == 1) throw;
      const std::string& name = forms[i]->target.name;
      reasons += (reasons.empty() ? "" : "; ") + (name.empty() ? "?" : name) + ": " +
                 first_line(error.what());
      continue;
    }
    const std::vector<std::string>& features = forms[i]->target.features;
    const std::pair<std::size_t, int> asked{features.size(), capability_of(features)};
    if (best == none || asked > most) {
      best = i;
      most = asked;
    }
  }
  if (best == none)
    throw Error(Code::artifact,
                "no form of " + forms[0]->name + " runs on " + place.device + ": " + reasons, source,
                "compile it for this device, too (calque compile --target ...).");
  return best;
}

}  // namespace calque::artifact
