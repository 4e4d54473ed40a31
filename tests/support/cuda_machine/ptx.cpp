#include "ptx.h"

#include <cstdlib>
#include <cstring>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace ptx {
namespace {

int Align(int n, int to) { return (n + to - 1) / to * to; }

int SizeOf(const std::string& type) {
  if (type == "pred") return 1;
  if (type == "f16x2" || type == "bf16x2") return 4;
  std::string digits;
  for (char c : type) if (isdigit(c)) digits += c;
  if (type == "bf16") digits = "16";
  if (digits.empty()) throw std::runtime_error("no size of ." + type);
  return atoi(digits.c_str()) / 8;
}

std::string Strip(const std::string& s) {
  size_t a = s.find_first_not_of(" \t\n"), b = s.find_last_not_of(" \t\n");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

std::vector<std::string> Split(const std::string& s, char by) {  // not within brackets
  std::vector<std::string> out;
  int depth = 0;
  std::string now;
  for (char c : s) {
    if (c == '{' || c == '[' || c == '(') depth++;
    if (c == '}' || c == ']' || c == ')') depth--;
    if (c == by && depth == 0) {
      out.push_back(Strip(now));
      now.clear();
    } else {
      now += c;
    }
  }
  if (!Strip(now).empty()) out.push_back(Strip(now));
  return out;
}

// A variable of some memory: .shared .align 16 .b8 name[64] (= {...})
struct Variable { std::string space, type, name; int align = 1, count = 1; std::string values; };

bool ReadVariable(std::string s, Variable* v) {
  static const std::regex form(
      R"((?:\.(?:visible|extern|weak|common)\s+)*\.(shared|const|global|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)\s*(?:\[\s*(\d*)\s*\])?\s*(?:=\s*([\s\S]*))?)");
  std::smatch m;
  if (!std::regex_match(s, m, form)) return false;
  v->space = m[1], v->type = m[3], v->name = m[4];
  v->align = m[2].matched ? atoi(m[2].str().c_str()) : SizeOf(v->type);
  v->count = m[5].matched ? atoi(m[5].str().c_str()) : 1;
  v->values = m[6].matched ? Strip(m[6].str()) : "";
  return true;
}

class Reader {
 public:
  explicit Reader(Module* module) : module_(module) {}

  void ModuleVariable(const Variable& v) {
    if (v.space == "shared") {  // (of every entry; dynamic where it has no size)
      shared_ = Align(shared_, v.align);
      symbols_[v.name] = shared_;
      if (v.count) shared_ += v.count * SizeOf(v.type);
      return;
    }
    int size = SizeOf(v.type);
    std::vector<uint8_t> bytes(v.count * size + v.align);
    module_->memory.push_back(std::move(bytes));
    auto& kept = module_->memory.back();
    uint64_t at = reinterpret_cast<uint64_t>(kept.data());
    at = (at + v.align - 1) / v.align * v.align;
    auto* to = reinterpret_cast<uint8_t*>(at);
    if (!v.values.empty()) {
      std::string list = v.values;
      if (list[0] == '{') list = list.substr(1, list.size() - 2);
      int i = 0;
      for (const auto& word : Split(list, ',')) {
        uint64_t bits = Number(word);
        memcpy(to + i++ * size, &bits, size);
      }
    }
    symbols_[v.name] = at;
  }

  void ReadEntry(const std::string& name, const std::string& parameters, const std::string& body) {
    auto entry = std::make_shared<Entry>();
    entry->name = name;
    registers_.clear(), labels_.clear();
    auto outer = symbols_;
    int outer_shared = shared_, offset = 0;
    for (const auto& p : Split(parameters, ',')) {
      static const std::regex form(R"([\s\S]*?\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)[\s\S]*?([\w$]+)\s*(?:\[\d+\])?)");
      std::smatch m;
      if (!std::regex_match(p, m, form)) throw std::runtime_error("parameter: " + p);
      int size = SizeOf(m[1]);
      offset = Align(offset, size);
      entry->parameters.push_back({m[2], size, offset});
      symbols_[m[2]] = offset;
      offset += size;
    }
    std::vector<std::pair<std::string, std::string>> lines;  // guard and text
    std::vector<std::string> statements = Statements(body);
    int position = 0;
    std::vector<std::string> kept;
    for (auto s : statements) {
      while (true) {  // labels before it
        static const std::regex label(R"(^([\w$]+):\s*([\s\S]*)$)");
        std::smatch m;
        if (!std::regex_match(s, m, label) || s.substr(0, s.find(':')).find('.') != std::string::npos) break;
        labels_[m[1]] = position;
        s = Strip(m[2]);
      }
      if (s.empty()) continue;
      if (s[0] == '.') {
        Directive(s, entry.get());
        continue;
      }
      kept.push_back(s);
      position++;
    }
    for (const auto& s : kept) entry->code.push_back(ReadInstruction(s));
    Instruction end;
    end.words = {"ret"}, end.op = "ret";
    entry->code.push_back(end);
    entry->registers = registers_.size();
    entry->shared = shared_, entry->local = local_;
    module_->entries[name] = entry;
    symbols_ = outer, shared_ = outer_shared, local_ = 0;
  }

 private:
  static std::vector<std::string> Statements(const std::string& body) {
    // braces of scopes are left out, those of vectors stay
    std::vector<std::string> out;
    std::string now;
    int depth = 0;
    for (size_t i = 0; i < body.size(); i++) {
      char c = body[i];
      if (c == '{' && Strip(now).empty()) continue;
      if (c == '}' && depth == 0) continue;
      if (c == '{') depth++;
      if (c == '}') depth--;
      if (c == ';') {
        out.push_back(Strip(now));
        now.clear();
      } else {
        now += c;
      }
    }
    return out;
  }

  void Directive(const std::string& s, Entry*) {
    std::smatch m;
    static const std::regex reg(R"(\.reg\s+\.(\w+)\s+([\s\S]*))");
    if (std::regex_match(s, m, reg)) {
      for (auto name : Split(m[2], ',')) {
        size_t at = name.find('<');
        if (at == std::string::npos) {
          Register(name);
          continue;
        }
        int count = atoi(name.c_str() + at + 1);
        for (int i = 0; i < count; i++) Register(name.substr(0, at) + std::to_string(i));
      }
      return;
    }
    Variable v;
    if (ReadVariable(s, &v)) {
      if (v.space == "shared") return ModuleVariable(v);
      local_ = Align(local_, v.align);
      symbols_[v.name] = local_;
      local_ += v.count * SizeOf(v.type);
      return;
    }
    if (s.compare(0, 7, ".pragma") && s.compare(0, 4, ".loc") && s.compare(0, 8, ".section"))
      throw std::runtime_error("directive: " + s);
  }

  int Register(const std::string& name) {
    auto found = registers_.find(name);
    if (found != registers_.end()) return found->second;
    int n = registers_.size();
    return registers_[name] = n;
  }

  static uint64_t Number(const std::string& s) {
    bool negative = s[0] == '-';
    std::string t = negative ? s.substr(1) : s;
    uint64_t bits;
    if (!t.compare(0, 2, "0f") || !t.compare(0, 2, "0F") || !t.compare(0, 2, "0d") ||
        !t.compare(0, 2, "0D"))
      return strtoull(t.c_str() + 2, nullptr, 16);
    bits = strtoull(t.c_str(), nullptr, 0);
    return negative ? 0 - bits : bits;
  }

  Operand ReadOperand(const std::string& s) {
    Operand o;
    if (s[0] == '{') {
      o.kind = Kind::kVector;
      for (const auto& part : Split(s.substr(1, s.size() - 2), ',')) o.parts.push_back(ReadOperand(part));
      return o;
    }
    if (s[0] == '[') {
      std::string inner = Strip(s.substr(1, s.size() - 2));
      size_t plus = inner.find('+');
      Operand base = ReadOperand(Strip(inner.substr(0, plus)));
      o.kind = Kind::kAddress;
      o.reg = base.kind == Kind::kRegister ? base.reg : -1;
      o.bits = base.kind == Kind::kNumber ? base.bits : 0;
      if (plus != std::string::npos) o.bits += Number(Strip(inner.substr(plus + 1)));
      return o;
    }
    if (s == "_") return o;
    auto reg = registers_.find(s);
    if (reg != registers_.end()) {
      o.kind = Kind::kRegister, o.reg = reg->second;
      return o;
    }
    static const std::map<std::string, int> special = {
        {"%tid.x", kTid}, {"%tid.y", kTid + 1}, {"%tid.z", kTid + 2}, {"%ntid.x", kNtid},
        {"%ntid.y", kNtid + 1}, {"%ntid.z", kNtid + 2}, {"%ctaid.x", kCtaid},
        {"%ctaid.y", kCtaid + 1}, {"%ctaid.z", kCtaid + 2}, {"%nctaid.x", kNctaid},
        {"%nctaid.y", kNctaid + 1}, {"%nctaid.z", kNctaid + 2}, {"%laneid", kLane},
        {"%warpid", kWarp}, {"%clock", kClock}, {"%clock64", kClock}};
    auto sp = special.find(s);
    if (sp != special.end()) {
      o.kind = Kind::kSpecial, o.reg = sp->second;
      return o;
    }
    auto symbol = symbols_.find(s);
    if (symbol != symbols_.end()) {
      o.kind = Kind::kNumber, o.bits = symbol->second;
      return o;
    }
    auto label = labels_.find(s);
    if (label != labels_.end()) {
      o.kind = Kind::kLabel, o.reg = label->second;
      return o;
    }
    if (isdigit(s[0]) || s[0] == '-') {
      o.kind = Kind::kNumber, o.bits = Number(s);
      return o;
    }
    throw std::runtime_error("operand: " + s);
  }

  Instruction ReadInstruction(const std::string& line) {
    Instruction i;
    std::string s = line;
    if (s[0] == '@') {
      size_t space = s.find_first_of(" \t");
      std::string name = s.substr(1, space - 1);
      i.negated = name[0] == '!';
      i.guard = Register(i.negated ? name.substr(1) : name);
      s = Strip(s.substr(space));
    }
    size_t space = s.find_first_of(" \t");
    std::string word = s.substr(0, space);
    std::stringstream parts(word);
    std::string part;
    while (std::getline(parts, part, '.')) {
      size_t colon = part.find("::");
      i.words.push_back(colon == std::string::npos ? part : part.substr(0, colon));
    }
    i.op = i.words[0];
    i.type = i.words.back();
    if (i.words.size() > 2) i.from = i.words[i.words.size() - 2];
    for (const auto& w : i.words) {
      if (w == "v2") i.width = 2;
      if (w == "v4") i.width = 4;
    }
    if (space != std::string::npos) {
      std::string rest = Strip(s.substr(space));
      for (auto operand : Split(rest, ',')) {
        size_t bar = operand.find('|');  // d|p of shfl and setp
        if (bar != std::string::npos) {
          i.operands.push_back(ReadOperand(Strip(operand.substr(0, bar))));
          i.operands.push_back(ReadOperand(Strip(operand.substr(bar + 1))));
        } else {
          i.operands.push_back(ReadOperand(operand));
        }
      }
    }
    try {
      i.size = SizeOf(i.type);
    } catch (const std::runtime_error&) {
      i.size = 0;
    }
    return i;
  }

  Module* module_;
  std::map<std::string, int> registers_, labels_;
  std::map<std::string, uint64_t> symbols_;
  int shared_ = 0, local_ = 0;
};

}  // namespace

std::shared_ptr<Module> Parse(const std::string& source) {
  std::string text = std::regex_replace(source, std::regex(R"(//[^\n]*)"), "");
  auto module = std::make_shared<Module>();
  module->memory.reserve(1000);
  Reader reader(module.get());
  size_t at = 0;
  std::string now;
  while (at < text.size()) {
    size_t stop = text.find_first_of(";{", at);
    if (stop == std::string::npos) break;
    std::string head = Strip(text.substr(at, stop - at));
    size_t entry = head.find(".entry");
    if (text[stop] == '{' && entry != std::string::npos) {
      int depth = 1;
      size_t end = stop + 1;
      for (; depth; end++) depth += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
      static const std::regex form(R"([\s\S]*\.entry\s+([\w$]+)\s*(?:\(([\s\S]*?)\))?\s*(?:\.\w[^(]*)?)");
      std::smatch m;
      if (!std::regex_match(head, m, form)) throw std::runtime_error("entry: " + head);
      reader.ReadEntry(m[1], m[2], text.substr(stop + 1, end - stop - 2));
      at = end;
      continue;
    }
    if (text[stop] == '{') {  // the values of a variable
      stop = text.find(';', stop);
      head = Strip(text.substr(at, stop - at));
    }
    size_t last = head.rfind("\n.");  // .version and the like end with their line
    if (last != std::string::npos && head.find('{') == std::string::npos) head = Strip(head.substr(last));
    if (head.find('{') != std::string::npos) head = head.substr(head.rfind("\n.", head.find('{')) == std::string::npos ? 0 : head.rfind("\n.", head.find('{')) + 1);
    Variable v;
    if (ReadVariable(Strip(head), &v)) reader.ModuleVariable(v);
    at = stop + 1;
  }
  return module;
}

}  // namespace ptx
