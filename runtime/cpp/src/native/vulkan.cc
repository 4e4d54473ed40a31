// Own declarations of what is asked of the loader, from the specification of Vulkan: its structures are
// read by their places, since only a few fields of each are of interest.
#include "native/vulkan.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <map>

#include "artifact/features.hpp"

namespace calque::native {

namespace {

using artifact::VulkanDevice;
using Handle = void*;
using Function = void (*)();
using Lookup = Function (*)(Handle, const char*);  // vkGetInstanceProcAddr

struct Application {
  std::int32_t type = 0;
  const void* next = nullptr;
  const char* name = "calque";
  std::uint32_t version = 0;
  const char* engine = "calque";
  std::uint32_t engine_version = 0, api = 1u << 22 | 3u << 12;  // 1.3 is what is asked about
};
struct InstanceInfo {
  std::int32_t type = 1;
  const void* next = nullptr;
  std::uint32_t flags = 0;
  const Application* application = nullptr;
  std::uint32_t layers = 0;
  const char* const* layer_names = nullptr;
  std::uint32_t extensions = 0;
  const char* const* extension_names = nullptr;
};
struct Extension {
  char name[256];
  std::uint32_t version;
};
struct Matrix {  // VkCooperativeMatrixPropertiesKHR
  std::int32_t type = 1000506001;
  void* next = nullptr;
  std::uint32_t m, n, k, a, b, c, result, saturating, scope;
};

// A structure that extends a query: 32-bit fields behind the head, all zero until it is filled.
struct Chained {
  std::int32_t type;
  Chained* next = nullptr;
  alignas(8) std::uint32_t fields[272] = {};

  explicit Chained(std::int32_t number) : type(number) {}
  const char* bytes(std::size_t offset) const { return reinterpret_cast<const char*>(this) + offset; }
  std::uint32_t at(std::size_t offset) const {
    std::uint32_t value;
    std::memcpy(&value, bytes(offset), sizeof value);
    return value;
  }
};
static_assert(offsetof(Chained, fields) == 16 && sizeof(Matrix) == 56 && sizeof(Extension) == 260 &&
                  sizeof(InstanceInfo) == 64 && sizeof(Application) == 48,
              "the specification's layout on machines of 64 bits");

constexpr std::int32_t kFeatures = 1000059000, kProperties = 1000059001, kIdentity = 1000071004,
                       kSubgroups = 1000094000, kSubgroupSizes = 1000225000;
// Places in VkPhysicalDeviceProperties2.
constexpr std::size_t kApi = 16, kName = 36, kLimits = 312, kMemory = kLimits + 216,
                      kCounts = kLimits + 220, kThreads = kLimits + 232, kSizes = kLimits + 236;
constexpr std::uint32_t kCompute = 0x20, kArithmetic = 0x4, kShuffles = 0x30;

void link(Chained& first, std::initializer_list<Chained*> others) {
  Chained* last = &first;
  for (Chained* other : others) last = last->next = other;
}

class Loader {
 public:
  static const Loader* opened() {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen("libvulkan.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;  // (it stays: drivers do not like to be unloaded)
    const auto lookup = reinterpret_cast<Lookup>(dlsym(library, "vkGetInstanceProcAddr"));
    if (lookup == nullptr) return nullptr;
    auto* made = new Loader(lookup);
    const auto create = made->function<std::int32_t(const InstanceInfo*, const void*, Handle*)>(
        "vkCreateInstance");
    const Application application;
    InstanceInfo info;
    info.application = &application;
    if (create != nullptr && create(&info, nullptr, &made->instance_) == 0) return made;
    delete made;
    return nullptr;
  }
  ~Loader() {
    if (instance_ == nullptr) return;
    if (const auto destroy = function<void(Handle, const void*)>("vkDestroyInstance"))
      destroy(instance_, nullptr);
  }

  template <class Signature>
  Signature* function(const char* name) const {
    return reinterpret_cast<Signature*>(lookup_(instance_, name));
  }

  // What a function of Vulkan's lists: it is asked for the number, then for the things.
  template <class Thing, class Call>
  static std::vector<Thing> listed(Call call) {
    std::uint32_t count = 0;
    if (call(&count, static_cast<Thing*>(nullptr)) < 0) return {};
    std::vector<Thing> things(count);
    if (count == 0 || call(&count, things.data()) < 0) return {};
    things.resize(count);
    return things;
  }

  // Every device by its UUID, in hexadecimal.
  std::map<std::string, VulkanDevice> devices() const {
    std::map<std::string, VulkanDevice> made;
    const auto enumerate = function<std::int32_t(Handle, std::uint32_t*, Handle*)>(
        "vkEnumeratePhysicalDevices");
    if (enumerate == nullptr) return made;
    for (const Handle handle : listed<Handle>([&](std::uint32_t* count, Handle* handles) {
           return enumerate(instance_, count, handles);
         })) {
      VulkanDevice device;
      const std::string uuid = describe(handle, device);
      if (!uuid.empty()) made.emplace(uuid, std::move(device));
    }
    return made;
  }

 private:
  explicit Loader(Lookup lookup) : lookup_(lookup) {}

  // Its UUID; empty for a device of Vulkan 1.0, which these questions are not for.
  std::string describe(Handle handle, VulkanDevice& device) const {
    const auto properties_of = function<void(Handle, Chained*)>("vkGetPhysicalDeviceProperties2");
    const auto features_of = function<void(Handle, Chained*)>("vkGetPhysicalDeviceFeatures2");
    const auto extensions_of = function<std::int32_t(Handle, const char*, std::uint32_t*, Extension*)>(
        "vkEnumerateDeviceExtensionProperties");
    if (properties_of == nullptr || features_of == nullptr || extensions_of == nullptr) return "";
    std::set<std::string> extensions;
    for (const Extension& extension :
         listed<Extension>([&](std::uint32_t* count, Extension* list) {
           return extensions_of(handle, nullptr, count, list);
         }))
      extensions.insert(extension.name);

    Chained properties(kProperties), identity(kIdentity), subgroups(kSubgroups), range(kSubgroupSizes);
    properties_of(handle, &properties);
    const std::uint32_t api = properties.at(kApi);
    const std::int64_t version = (api >> 22 & 0x7f) == 1 ? api >> 12 & 0x3ff : 99;
    if (version < 1) return "";
    const bool has_range = version >= 3 || extensions.count("VK_EXT_subgroup_size_control") != 0;
    link(properties, {&identity, &subgroups});
    if (has_range) subgroups.next = &range;
    properties_of(handle, &properties);
    device.name = properties.bytes(kName);
    device.spirv = {1, version >= 3                                ? 6u
                       : version == 2                              ? 5u
                       : extensions.count("VK_KHR_spirv_1_4") != 0 ? 4u
                                                                   : 3u};
    device.smallest = has_range ? range.fields[0] : subgroups.fields[0];
    device.largest = has_range ? range.fields[1] : subgroups.fields[0];
    if ((subgroups.fields[1] & kCompute) != 0) {
      if ((subgroups.fields[2] & kArithmetic) == kArithmetic) device.has.insert("subgroup arithmetic");
      if ((subgroups.fields[2] & kShuffles) == kShuffles) device.has.insert("subgroup shuffles");
    }
    device.memory = properties.at(kMemory);
    device.threads = properties.at(kThreads);
    for (std::size_t i = 0; i < 3; ++i) {
      device.sizes[i] = properties.at(kSizes + 4 * i);
      device.counts[i] = properties.at(kCounts + 4 * i);
    }
    for (const auto& [name, row] : artifact::features().at("vulkan_switches").object()) {
      const std::vector<artifact::Json>& place = row.array();  // structure, field, version, extension
      if (version < place[2].integer() && extensions.count(place[3].string()) == 0) continue;
      Chained first(kFeatures), more(static_cast<std::int32_t>(place[0].integer()));
      const bool is_first = more.type == kFeatures;
      if (!is_first) link(first, {&more});
      features_of(handle, &first);
      if ((is_first ? first : more).fields[place[1].integer()] != 0) device.has.insert(name);
    }
    if (device.has.count("cooperativeMatrix") != 0) find_matrices(handle, device);
    std::string uuid;
    for (std::size_t i = 0; i < 16; ++i) {
      const auto byte = static_cast<unsigned char>(identity.bytes(16)[i]);
      uuid += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    }
    return uuid;
  }

  void find_matrices(Handle handle, VulkanDevice& device) const {
    static const char* const components[] = {"f16", "f32", "f64", "i8", "i16", "i32", "i64"};
    const auto matrices_of = function<std::int32_t(Handle, std::uint32_t*, Matrix*)>(
        "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    if (matrices_of == nullptr) return;
    for (const Matrix& one : listed<Matrix>([&](std::uint32_t* count, Matrix* list) {
           return matrices_of(handle, count, list);
         })) {
      if (one.scope != 3 || one.saturating != 0 || one.a != one.b || one.c != one.result) continue;
      if (one.a > 6 || one.c > 6) continue;
      device.matrices.insert(std::string(components[one.c]) + "_" + std::to_string(one.m) + "x" +
                             std::to_string(one.n) + "x" + std::to_string(one.k) + "_" +
                             components[one.a]);
    }
  }

  const Lookup lookup_;
  Handle instance_ = nullptr;
};

}  // namespace

const VulkanDevice* vulkan_device(const std::string& path) {
  static const auto* devices = [] {
    auto* made = new std::map<std::string, VulkanDevice>();
    if (const Loader* loader = Loader::opened()) {
      *made = loader->devices();
      delete loader;
    }
    return made;
  }();
  std::string digits;
  for (char c : path) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) digits += c;
  }
  for (const auto& [uuid, device] : *devices)
    if (digits.find(uuid) != digits.npos) return &device;
  return nullptr;
}

}  // namespace calque::native
