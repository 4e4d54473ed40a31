#include "artifact/json.hpp"

namespace calque::artifact {

namespace {

constexpr int kDeepest = 512;

const char* name_of(Json::Kind kind) {
  static const char* const names[] = {"null",     "a boolean", "an integer", "a real number",
                                      "a string", "an array",  "an object"};
  return names[static_cast<int>(kind)];
}

[[noreturn]] void raise_kind(const char* wanted, Json::Kind kind) {
  throw Unreadable(std::string("not ") + wanted + " but " + name_of(kind));
}

void append_utf8(std::string& text, std::uint32_t point) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6);
    put(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3f));
    put(0x80 | (point >> 6 & 0x3f));
    put(0x80 | (point & 0x3f));
  }
}

}  // namespace

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Json document() {
    Json value = this->value(0);
    skip();
    if (at_ != text_.size()) fail("something follows the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Unreadable(std::string(what) + " at " + std::to_string(at_));
  }

  int peek() const { return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : -1; }

  void skip() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }

  bool take(char wanted) {
    if (peek() != static_cast<unsigned char>(wanted)) return false;
    ++at_;
    return true;
  }

  void expect(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) fail("no JSON");
    at_ += word.size();
  }

  bool is_digit() const { return peek() >= '0' && peek() <= '9'; }

  Json value(int depth) {
    skip();
    Json made;
    switch (peek()) {
      case 'n':
        expect("null");
        return made;
      case 't':
        expect("true");
        made.kind_ = Json::Kind::boolean;
        made.boolean_ = true;
        return made;
      case 'f':
        expect("false");
        made.kind_ = Json::Kind::boolean;
        return made;
      case '"':
        made.kind_ = Json::Kind::string;
        made.string_ = string();
        return made;
      case '[':
        return array(depth);
      case '{':
        return object(depth);
      default:
        return number();
    }
  }

  Json array(int depth) {
    if (depth == kDeepest) fail("arrays are too deep");
    ++at_;
    Json made;
    made.kind_ = Json::Kind::array;
    skip();
    if (take(']')) return made;
    do {
      made.array_.push_back(value(depth + 1));
      skip();
    } while (take(','));
    if (!take(']')) fail("an array does not end");
    return made;
  }

  Json object(int depth) {
    if (depth == kDeepest) fail("objects are too deep");
    ++at_;
    Json made;
    made.kind_ = Json::Kind::object;
    skip();
    if (take('}')) return made;
    do {
      skip();
      if (peek() != '"') fail("a member has no name");
      std::string name = string();
      skip();
      if (!take(':')) fail("a member has no value");
      made.object_.emplace_back(std::move(name), value(depth + 1));
      skip();
    } while (take(','));
    if (!take('}')) fail("an object does not end");
    return made;
  }

  Json number() {
    const std::size_t start = at_;
    const bool negative = take('-');
    Json made;
    made.kind_ = Json::Kind::integer;
    if (!is_digit()) fail("no JSON");
    bool fits = true;
    std::uint64_t magnitude = 0;
    if (!take('0'))
      for (; is_digit(); ++at_) {
        const auto digit = static_cast<std::uint64_t>(peek() - '0');
        fits = fits && magnitude <= (UINT64_MAX - digit) / 10;
        magnitude = magnitude * 10 + digit;
      }
    if (take('.')) {
      made.kind_ = Json::Kind::real;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      made.kind_ = Json::Kind::real;
      ++at_;
      if (!take('+')) take('-');
      digits();
    }
    const std::uint64_t largest = std::uint64_t{INT64_MAX} + (negative ? 1 : 0);
    if (made.kind_ == Json::Kind::real || !fits || magnitude > largest) {
      made.kind_ = Json::Kind::real;  // also an integer of more than 64 bits; nobody reads these
      made.string_ = text_.substr(start, at_ - start);
      return made;
    }
    made.integer_ = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
    return made;
  }

  void digits() {
    if (!is_digit()) fail("a number has no digits");
    while (is_digit()) ++at_;
  }

  std::string string() {
    ++at_;
    std::string made;
    for (;;) {
      const int byte = peek();
      if (byte < 0) fail("a string does not end");
      if (byte < 0x20) fail("a control character in a string");
      if (byte == '"') break;
      if (byte == '\\') {
        escape(made);
      } else if (byte < 0x80) {
        made.push_back(static_cast<char>(byte));
        ++at_;
      } else {
        utf8(made);
      }
    }
    ++at_;
    return made;
  }

  void escape(std::string& made) {
    ++at_;
    static constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    const int letter = peek();
    if (letter < 0) fail("a string does not end");
    ++at_;
    if (letter != 'u') {
      const std::size_t found = letters.find(static_cast<char>(letter));
      if (found == std::string_view::npos) fail("an unknown escape");
      made.push_back(meant[found]);
      return;
    }
    std::uint32_t point = four_digits();
    if (point >= 0xdc00 && point < 0xe000) fail("a lone surrogate");
    if (point >= 0xd800 && point < 0xdc00) {
      if (!take('\\') || !take('u')) fail("a lone surrogate");
      const std::uint32_t low = four_digits();
      if (low < 0xdc00 || low >= 0xe000) fail("a lone surrogate");
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(made, point);
  }

  std::uint32_t four_digits() {
    std::uint32_t made = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const int c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) fail("an escape without four digits");
      made = made << 4 | static_cast<std::uint32_t>(digit);
    }
    return made;
  }

  void utf8(std::string& made) {
    const std::size_t size = character(text_.substr(at_));
    if (size == 0) fail("no UTF-8");
    made.append(text_.substr(at_, size));
    at_ += size;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// The shortest form, no surrogate, at most U+10FFFF.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (first < 0xc2 || first > 0xf4 || text.size() <= more) return 0;
  std::uint32_t point = first & (0x3fu >> more);
  for (std::size_t i = 1; i <= more; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
    point = point << 6 | (byte(i) & 0x3fu);
  }
  static constexpr std::uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
  const bool is_one =
      point >= smallest[more] && point <= 0x10ffff && (point < 0xd800 || point >= 0xe000);
  return is_one ? more + 1 : 0;
}

Json Json::parse(std::string_view text) { return Reader(text).document(); }

bool Json::boolean() const {
  if (kind_ != Kind::boolean) raise_kind("a boolean", kind_);
  return boolean_;
}

std::int64_t Json::integer() const {
  if (kind_ != Kind::integer) raise_kind("an integer", kind_);
  return integer_;
}

const std::string& Json::string() const {
  if (kind_ != Kind::string) raise_kind("a string", kind_);
  return string_;
}

const std::vector<Json>& Json::array() const {
  if (kind_ != Kind::array) raise_kind("an array", kind_);
  return array_;
}

const std::vector<std::pair<std::string, Json>>& Json::object() const {
  if (kind_ != Kind::object) raise_kind("an object", kind_);
  return object_;
}

const Json* Json::find(std::string_view name) const {
  const auto& members = object();
  for (auto member = members.rbegin(); member != members.rend(); ++member)
    if (member->first == name) return &member->second;
  return nullptr;
}

const Json& Json::at(std::string_view name) const {
  const Json* found = find(name);
  if (found == nullptr) throw Unreadable("no '" + std::string(name) + "'");
  return *found;
}

}  // namespace calque::artifact
