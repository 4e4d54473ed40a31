#include "artifact/program.hpp"

#include <algorithm>
#include <set>

#include "artifact/bytecode.hpp"
#include "artifact/elf.hpp"
#include "artifact/flatbuffer.hpp"
#include "artifact/json.hpp"

namespace calque::artifact {

namespace {

constexpr std::size_t kAlignment = 64;           // of read-only data
constexpr std::size_t kRegisters = 0x4000;       // that a function may have of a kind, fewer than
constexpr std::size_t kMostState = 1 << 24;      // bytes of a module's variables
constexpr std::size_t kDeepestSource = 4096;     // locations within each other
constexpr std::size_t kDescriptor = 20;

[[noreturn]] void fail(const std::string& what) { throw Unreadable(what); }

const std::vector<TableSchema>& schema() {
  static const auto* made = new std::vector<TableSchema>{
      {"Attribute", {"string", "string"}},
      {"Type", {"string"}},
      {"Signature", {"string", "[Attribute]"}},
      {"Dependency", {"string", "4", "4"}},
      {"Import", {"string", "Signature", "4"}},
      {"Export", {"string", "4"}},
      {"Uncompressed", {}},
      {"ReadOnly", {"1", "Uncompressed", "[1]", "8", "8"}},
      {"Writable", {"4"}},
      {"State", {"4", "4"}},
      {"Module", {"string", "4", "4", "[Attribute]", "[Type]", "[Dependency]", "[Import]", "[Export]",
                  "[Signature]", "[ReadOnly]", "[Writable]", "State", "[20]", "4", "[1]", "Sources"}},
      {"Sources", {"[1]", "[?]", "[Places]"}},
      {"Places", {"string", "[8]"}},
      {"?", {"CallSite", "Line", "Fused", "Named"}},
      {"CallSite", {"4", "4"}},
      {"Line", {"string", "4", "4"}},
      {"Fused", {"string", "[4]"}},
      {"Named", {"string", "4"}}};
  return *made;
}

std::string decoded(std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t size = character(rest);
    if (size == 0) fail("a text is not UTF-8");
    rest.remove_prefix(size);
  }
  return std::string(text);
}

// A name, which is there.
std::string text_of(const Field& field, const char* of) {
  if (field.bytes.empty()) fail(std::string(of) + " has no name");
  return decoded(field.text());
}

// The FlatBuffer, and where the read-only data behind it begin.
Bytes tables_of(Bytes part, std::size_t& behind) {
  std::size_t start = 0;
  if (part.size() >= 4 && number_at(part, 0, 4) == 0x04034b50) {  // a ZIP's local header
    if (part.size() < 30) fail("its header is cut");
    start = 30 + number_at(part, 26, 2) + number_at(part, 28, 2);
  }
  if (start + 4 > part.size()) fail("its header is longer than it");
  const std::size_t size = number_at(part, start, 4);
  start += 4;
  if (size < 8 || size > part.size() - start) fail("its tables are longer than it");
  behind = (start + size + kAlignment - 1) / kAlignment * kAlignment;
  return part_of(part, start, size);
}

// Of two attributes of one name the first counts, as in IREE.
std::shared_ptr<const Attributes> attributes_of(const Field& signature) {
  Attributes made;
  for (const Field& attribute : signature.items[1].items) {
    std::string key = text_of(attribute.items[0], "an attribute");
    made.emplace(std::move(key), decoded(attribute.items[1].text()));
  }
  return std::make_shared<const Attributes>(std::move(made));
}

std::vector<CodeOfFunction> descriptors(Bytes table, std::size_t count) {
  if (table.size() != kDescriptor * count) fail("functions and their descriptions differ in number");
  std::vector<CodeOfFunction> made;
  for (std::size_t at = 0; at < table.size(); at += kDescriptor) {
    const auto start = static_cast<std::int32_t>(number_at(table, at, 4));
    const auto size = static_cast<std::int32_t>(number_at(table, at + 4, 4));
    const auto small = [&](std::size_t offset) {
      return static_cast<std::int16_t>(number_at(table, at + offset, 2));
    };
    const int blocks = small(14), numbers = small(16), references = small(18);
    if (start < 0 || size <= 0 || blocks <= 0 || numbers < 0 || references < 0 ||
        static_cast<std::size_t>(references) >= kRegisters)
      fail("a function's code is described in an impossible way");
    made.push_back({static_cast<std::size_t>(start), static_cast<std::size_t>(size),
                    static_cast<std::size_t>(numbers), static_cast<std::size_t>(references)});
  }
  return made;
}

// Read-only data are inside the file; those that are native code can be loaded.
void check_constants(Bytes part, std::size_t behind, const std::vector<Field>& constants) {
  for (const Field& constant : constants) {
    if (constant.items[0].number > 1) fail("its data are written in an unknown way");
    Bytes data = constant.items[2].bytes;
    if (!constant.items[2].present) {
      const std::uint64_t offset = constant.items[3].number, size = constant.items[4].number;
      if (behind > part.size() || offset > part.size() - behind ||
          size > part.size() - behind - offset)
        fail("its data are outside");
      data = part_of(part, behind + offset, size);
    }
    if (is_elf(data)) check_elf(data);
  }
}

// Source locations are made of earlier ones: IREE writes them, where a call fails, by calling itself for
// each.
void check_sources(const Field& sources) {
  if (!sources.present) return;
  const std::vector<Field>& locations = sources.items[1].items;
  std::vector<std::size_t> depth(locations.size(), 1);
  for (std::size_t i = 0; i < locations.size(); ++i) {
    const Field& location = locations[i];
    const auto take = [&](std::uint64_t inner) {
      if (inner >= i) fail("a source location is made of itself");
      depth[i] = std::max(depth[i], depth[inner] + 1);
    };
    if (location.number == 1) {
      take(location.items[0].number);
      take(location.items[1].number);
    } else if (location.number == 3) {
      const Bytes inner = location.items[1].bytes;
      for (std::size_t at = 0; at < inner.size(); at += 4) take(number_at(inner, at, 4));
    } else if (location.number == 4 && location.items[1].present) {
      take(location.items[1].number);
    }
    if (depth[i] > kDeepestSource) fail("a source location is made of too many");
  }
  for (const Field& function : sources.items[2].items)
    for (std::size_t at = 0; at < function.items[1].bytes.size(); at += 8)
      if (number_at(function.items[1].bytes, at + 4, 4) >= locations.size())
        fail("a source location is named that there is not");
}

Program read(Bytes part) {
  std::size_t behind = 0;
  const Field module = read_flatbuffer(tables_of(part, behind), schema(), "Module", "IREE");
  const auto items = [&](std::size_t i) -> const std::vector<Field>& { return module.items[i].items; };
  const std::vector<Field>&types = items(4), &imports = items(6), &signatures = items(8);
  text_of(module.items[0], "the module");
  for (const Field& type : types) text_of(type.items[0], "a type");
  Program made;
  Bytecode code;
  for (const Field& import : imports) {
    text_of(import.items[0], "a function that it calls");
    if (!import.items[1].present) fail("a function that it calls has no type");
    code.imports.push_back(import.items[1].items[0].text());
  }
  for (const Field& signature : signatures) code.signatures.push_back(signature.items[0].text());
  std::set<std::string> names;
  std::map<std::uint64_t, std::shared_ptr<const Attributes>> attributes;  // of each function once
  for (const Field& exported : items(7)) {
    const std::string name = text_of(exported.items[0], "a function");
    const std::uint64_t ordinal = exported.items[1].number;
    if (ordinal >= signatures.size() || !names.insert(name).second)
      fail("the function " + name + " is there twice, or nowhere");
    std::shared_ptr<const Attributes>& said = attributes[ordinal];
    if (said == nullptr) said = attributes_of(signatures[ordinal]);
    made.functions.push_back({name, said});
  }
  if (module.items[11].present) {
    const std::vector<Field>& state = module.items[11].items;
    code.variables = state[0].number;
    if (state[0].number > kMostState || state[1].number > kMostState / 16)
      fail("its variables take too much memory");
  }
  code.version = static_cast<std::uint32_t>(module.items[13].number);
  code.data = module.items[14].bytes;
  code.functions = descriptors(module.items[12].bytes, signatures.size());
  code.types = types.size();
  check_code(code);
  check_sources(module.items[15]);
  check_constants(part, behind, items(9));
  for (const Field& dependency : items(5))
    made.depends_on.push_back(text_of(dependency.items[0], "a module that it calls"));
  return made;
}

}  // namespace

std::string_view ProgramFunction::attribute(std::string_view wanted) const {
  const auto found = attributes->find(wanted);
  return found == attributes->end() ? std::string_view() : std::string_view(found->second);
}

Program read_program(Bytes part, const std::string& source) {
  try {
    return read(part);
  } catch (const Unreadable& error) {
    throw Error(Code::artifact, std::string("the artifact is damaged: ") + error.what() + ".", source,
                "copy it again, or compile it again.");
  }
}

}  // namespace calque::artifact
