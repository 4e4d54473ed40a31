#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>

#include "artifact/archive.hpp"
#include "artifact/container.hpp"
#include "artifact/cuda.hpp"
#include "artifact/json.hpp"
#include "artifact/program.hpp"
#include "artifact/target.hpp"
#include "native/internal.hpp"
#include "native/vulkan.hpp"

namespace calque {

namespace native {

namespace {

constexpr const char* kScope = "calque";      // under which modules ask for their parameters
constexpr const char* kCallbacks = "py";      // the module that programs with callbacks call
constexpr std::size_t kTrimEvery = 64;        // programs loaded: new ones want other sizes of memory

// The Error for what IREE says about a module that it cannot load.
[[noreturn]] void raise_load(ci_error* error, const std::string& source) {
  const std::string text = text_of(error);
  const auto has = [&](const char* word) { return text.find(word) != text.npos; };
  std::string fix = "compile it again here, for a target this machine has.";
  if (has("bytecode version mismatch") || has("signature mismatch")) {
    fix = "compile it again with the compiler of the same minor version as the IREE runtime that calque "
          "is built with.";
  } else if (has("FlatBuffer") || has("flatbuffer") || has("archive") || has("header")) {
    fix = "give a .vmfb file written by `calque compile`; this one is damaged or another kind.";
  } else if (has("no executable") || has("UNAVAILABLE") || has("INCOMPATIBLE")) {
    fix = "compile it for this device (calque compile --target ...).";
  }
  throw Error(Code::artifact, "the compiled program cannot be loaded: " + text, source, fix);
}

void check_load(ci_error* error, const std::string& source) {
  if (error != nullptr) raise_load(error, source);
}

std::vector<std::uint8_t> read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  std::vector<std::uint8_t> made;
  for (std::size_t count = 1; file != nullptr && count != 0;) {
    const std::size_t before = made.size();
    made.resize(before + std::max<std::size_t>(before, 1 << 16));
    count = std::fread(made.data() + before, 1, made.size() - before, file.get());
    made.resize(before + count);
  }
  if (file == nullptr || std::ferror(file.get()) != 0)
    throw Error(Code::artifact, "cannot read " + path + ": " + std::strerror(errno) + ".", "",
                "check the path.");
  return made;
}

// A function of a part, and what it says of itself.
struct Described {
  artifact::Record record;
  std::string entry;
  std::size_t storage;  // bytes of the memory in which it works
  std::shared_ptr<Variant> variant;
};

void read_part(artifact::Bytes part, const std::string& source, std::vector<Described>& made) {
  if (!artifact::looks_like_vmfb(part))
    throw Error(Code::artifact, "not a .vmfb: the file does not begin as one.", source,
                "give a file written by `calque compile`.");
  const artifact::Program program = artifact::read_program(part, source);  // before IREE sees it
  std::vector<const artifact::ProgramFunction*> described;
  std::vector<artifact::Record> records;
  for (const artifact::ProgramFunction& function : program.functions) {
    const std::string_view text = function.attribute(artifact::kRecordKey);
    if (text.empty()) continue;
    records.push_back(artifact::parse_record(text));
    described.push_back(&function);
  }
  if (records.empty())
    throw Error(Code::artifact,
                "the .vmfb does not describe itself (no function has a calque.signature).", source,
                "compile it with `calque compile` or calque.export, or copy it again.");
  const auto& asked = program.depends_on;
  if (std::find(asked.begin(), asked.end(), kCallbacks) != asked.end())
    throw Error(Code::artifact,
                records.back().name + " calls Python functions (callbacks), and there is no Python here.",
                source, "take the callbacks out, or compute what they give before or after.");
  ci_module* module = nullptr;
  check_load(ci_load_module(part.data(), part.size(), &module), source);
  const auto variant = std::make_shared<Variant>(module);
  for (std::size_t i = 0; i < records.size(); ++i) {
    artifact::Record& record = records[i];
    artifact::check_declaration(record, described[i]->attribute(artifact::kDeclarationKey));
    const std::size_t storage =
        record.call.transients
            ? artifact::storage_bytes(record, described[i]->attribute(artifact::kStorageKey))
            : 0;
    made.push_back({std::move(record), described[i]->name, storage, variant});
  }
}

bool ends_in(const std::string& text, const char* end) {
  const std::string_view tail(end);
  return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

// The file beside another that ends in .irpa.
std::string beside(const std::string& path) {
  const std::size_t slash = path.rfind('/'), dot = path.rfind('.');
  const std::size_t start = slash == path.npos ? 0 : slash + 1;
  return (dot != path.npos && dot > start ? path.substr(0, dot) : path) + ".irpa";
}

// What is in an archive; Error (artifact) where it cannot be read.
artifact::Archive look_into(const std::string& path, const std::string& source) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about = {};
  void* memory = MAP_FAILED;
  if (file >= 0 && fstat(file, &about) == 0 && about.st_size > 0)
    memory = mmap(nullptr, static_cast<std::size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  if (file >= 0) close(file);
  const char* fix = "copy it again, or write it again.";
  if (memory == MAP_FAILED)
    throw Error(Code::artifact, path + " cannot be read: it is empty, or no file.", source, fix);
  const std::shared_ptr<void> mapped(
      memory, [size = static_cast<std::size_t>(about.st_size)](void* at) { munmap(at, size); });
  try {
    return artifact::read_archive({static_cast<const std::uint8_t*>(memory),
                                   static_cast<std::size_t>(about.st_size)},
                                  path.substr(path.rfind('.')));
  } catch (const artifact::Unreadable& error) {
    throw Error(Code::artifact, path + " cannot be read: " + error.what() + ".", source, fix);
  }
}

std::shared_ptr<ci_archive> open_archive(const std::string& path,
                                         const std::vector<const artifact::StoredArray*>& wanted,
                                         const std::string& source) {
  if (!ends_in(path, ".irpa") && !ends_in(path, ".safetensors") && !ends_in(path, ".gguf"))
    throw Error(Code::artifact, path + " is no parameter archive.", source,
                "give a file that ends in .irpa, .safetensors, .gguf.");
  if (!std::ifstream(path).good())
    throw Error(Code::artifact,
                "the artifact reads its parameters from an archive, and there is no " + path + ".",
                source,
                "put the archive beside the artifact under its name, or name it (Module::load(..., "
                "parameters)).");
  const artifact::Archive entries = look_into(path, source);  // before IREE reads it
  ci_archive* opened = nullptr;
  if (ci_error* error = ci_open_archive(path.c_str(), kScope, &opened))
    throw Error(Code::artifact, path + " cannot be read: " + text_of(error) + ".", source,
                "copy it again, or write it again.");
  std::shared_ptr<ci_archive> archive(opened, ci_release_archive);
  const char* fix = "give the archive that was written with this artifact.";
  for (const artifact::StoredArray* array : wanted) {
    std::uint64_t bytes = 0;
    if (!ci_find_array(opened, {array->name.data(), array->name.size()}, &bytes))
      throw Error(Code::artifact,
                  path + " has no parameter " + array->name + " (" +
                      detail::describe(array->dtype, array->shape) + ").",
                  source, fix);
    if (bytes != array->bytes)
      throw Error(Code::artifact,
                  "parameter " + array->name + " of " + path + " has " + std::to_string(bytes) +
                      " bytes, the artifact wants " + std::to_string(array->bytes) + ".",
                  source, fix);
    const auto known = entries.find(array->name);
    if (known == entries.end() || !known->second.type) continue;
    const artifact::ArrayType& type = *known->second.type;
    if (type.dtype != array->dtype || type.shape != array->shape)
      throw Error(Code::artifact,
                  "parameter " + array->name + " of " + path + " is " +
                      detail::describe(type.dtype, type.shape) + ", the artifact wants " +
                      detail::describe(array->dtype, array->shape) + ".",
                  source, "give arrays of the types it was compiled for, or compile it again with these.");
  }
  return archive;
}

// Bytes of the results that are new memory for sure: those it is given for them.
std::size_t result_bytes(const artifact::Record& record) {
  std::size_t sum = 0;
  for (const artifact::OutputBuffer& written : record.call.output_buffers) sum += written.bytes;
  return sum;
}

}  // namespace

// Whether two functions have one name and arguments of the same shapes.
bool has_same_arguments(const artifact::Record& a, const artifact::Record& b) {
  if (a.name != b.name || a.arguments.size() != b.arguments.size()) return false;
  for (std::size_t i = 0; i < a.arguments.size(); ++i) {
    const std::vector<artifact::Size>&x = a.arguments[i].shape, &y = b.arguments[i].shape;
    if (x.size() != y.size()) return false;
    for (std::size_t k = 0; k < x.size(); ++k)
      if (x[k].text() != y[k].text()) return false;
  }
  return true;
}

Variant::~Variant() {
  for (ci_program* program : {sync_.load(), task_.load()})
    if (program != nullptr) ci_release_program(program);
  ci_release_module(module_);
}

ci_program* Variant::load(std::atomic<ci_program*>& program, ci_device* device) {
  // One at a time: every load of IREE's writes what the CPU can do to the same place.
  static auto* lock = new std::mutex();
  static std::size_t loads = 0;
  std::lock_guard<std::mutex> guard(*lock);
  ci_program* found = program.load(std::memory_order_relaxed);
  if (found != nullptr) return found;
  if (++loads % kTrimEvery == 0) ci_trim_device(device);
  check_load(ci_create_program(device, module_, archive_.get(), &found), "");
  program.store(found, std::memory_order_release);
  return found;
}

}  // namespace native

namespace backend {

void load(const std::string* path, Span<const std::uint8_t> bytes, const std::string& parameters,
          detail::ModuleImpl& module) {
  detail::check_not_forked();
  std::vector<std::uint8_t> file;
  if (path != nullptr) {
    file = native::read_file(*path);
    bytes = Span<const std::uint8_t>(file.data(), file.size());
  }
  const std::string source = path != nullptr ? *path : std::to_string(bytes.size()) + " bytes";
  std::vector<native::Described> described;
  for (const artifact::Bytes part : artifact::split(bytes, source))
    native::read_part(part, source, described);
  std::vector<const artifact::StoredArray*> wanted;
  for (const native::Described& each : described)
    for (const artifact::StoredArray& array : each.record.parameters) wanted.push_back(&array);
  if (!wanted.empty()) {
    const auto archive = native::open_archive(
        parameters.empty() ? native::beside(source) : parameters, wanted, source);
    for (const native::Described& each : described)
      if (!each.record.parameters.empty()) each.variant->read_from(archive);
  }
  artifact::Place place{module.device.name(), module.device.platform(), nullptr};
  if (place.platform == "vulkan")
    place.vulkan = native::vulkan_device(native::queues_of(module.device).path());
  if (place.platform == "cuda") {
    place.cuda = artifact::cuda_driver();
    place.capability = artifact::cuda_capability(native::queues_of(module.device).index());
  }
  // Functions in the order in which they are met first, of each its forms: of those with the same
  // argument shapes, one; those of any size first (runtime/variants.py).
  std::vector<bool> done(described.size());
  for (std::size_t i = 0; i < described.size(); ++i) {
    if (done[i]) continue;
    std::vector<std::size_t> forms;
    std::optional<Error> failed;
    for (std::size_t k = i; k < described.size(); ++k) {
      if (done[k] || described[k].record.name != described[i].record.name) continue;
      std::vector<const artifact::Record*> variants;
      std::vector<std::size_t> indices;
      for (std::size_t m = k; m < described.size(); ++m) {
        if (done[m] || !native::has_same_arguments(described[m].record, described[k].record)) continue;
        done[m] = true;
        variants.push_back(&described[m].record);
        indices.push_back(m);
      }
      try {
        forms.push_back(indices[artifact::choose(variants, place, source)]);
      } catch (const Error& error) {
        if (!failed) failed = error;
      }
    }
    if (forms.empty()) throw *failed;
    std::stable_partition(forms.begin(), forms.end(),
                          [&](std::size_t k) { return described[k].record.is_dynamic(); });
    for (const std::size_t chosen : forms) {
      module.state.variants.push_back(described[chosen].variant);
      module.state.entries.push_back(described[chosen].entry);
      module.state.storage.push_back(described[chosen].storage);
      module.records.push_back(described[chosen].record);
    }
  }
}

void bind(detail::FunctionImpl& function) {
  const ModuleState& module = function.module->state;
  const artifact::Record& record = function.record();
  function.state.variant = module.variants[function.index];
  if (record.computed == 0) return;  // every result is an argument or empty: nothing is called
  const std::string& name = module.entries[function.index];
  const ci_text entry = {name.data(), name.size()};
  ci_module* const loaded = function.state.variant->module();
  std::size_t arguments = 0, results = 0;
  native::check_load(
      ci_find_function(loaded, entry, &function.state.function, &arguments, &results), record.name);
  const std::size_t passed =
      record.passed.size() + record.call.output_buffers.size() + record.call.transients;
  if (arguments != passed + 2 || results != record.computed)  // two fences
    throw Error(Code::artifact,
                "the artifact's description of " + record.name + " is not true: the function takes " +
                    std::to_string(arguments) + " references and gives " + std::to_string(results) + ".",
                record.name, "compile it again; the file was written by something else or is damaged.");
  function.state.storage = module.storage[function.index];
  function.state.result_bytes = native::result_bytes(record) + function.state.storage;
}

}  // namespace backend

}  // namespace calque
