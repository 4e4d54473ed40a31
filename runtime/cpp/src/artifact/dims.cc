#include "artifact/dims.hpp"

#include <algorithm>

#include "artifact/json.hpp"

namespace calque::artifact {

namespace {

constexpr std::int64_t kLargest = 0x7fffffff;  // of a variable: the compiler counted on it
constexpr std::int64_t kLargestExponent = 64;
constexpr int kDeepest = 50;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::vector<std::string> tokens_of(std::string_view text) {
  std::vector<std::string> made;
  for (std::size_t i = 0; i < text.size();) {
    if (is_space(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    if (is_digit(text[i])) {
      while (end < text.size() && is_digit(text[end])) ++end;
    } else if (is_name_start(text[i])) {
      while (end < text.size() && (is_name_start(text[end]) || is_digit(text[end]))) ++end;
    }
    made.emplace_back(text.substr(i, end - i));
    i = end;
  }
  return made;
}

Wide add(Wide a, Wide b) {
  Wide made;
  if (__builtin_add_overflow(a, b, &made)) throw Undefined();
  return made;
}

Wide subtract(Wide a, Wide b) {
  Wide made;
  if (__builtin_sub_overflow(a, b, &made)) throw Undefined();
  return made;
}

Wide multiply(Wide a, Wide b) {
  Wide made;
  if (__builtin_mul_overflow(a, b, &made)) throw Undefined();
  return made;
}

Wide power(Wide base, std::int64_t exponent) {
  Wide made = 1;
  for (std::int64_t i = 0; i < exponent; ++i) made = multiply(made, base);
  return made;
}

// Rounded down, as Python does.
Wide floordiv(Wide a, Wide b) {
  if (b == 0) throw Undefined();
  if (b == -1) return subtract(0, a);  // the smallest number has no opposite
  const Wide quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Wide mod(Wide a, Wide b) { return subtract(a, multiply(floordiv(a, b), b)); }

}  // namespace

class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text), tokens_(tokens_of(text)) {
    made_.text_ = text;
  }

  Expression whole() {
    sum();
    if (at_ != tokens_.size()) fail();
    made_.linear_ = linear();
    return std::move(made_);
  }

 private:
  using Op = Expression::Op;

  [[noreturn]] void fail() const {
    throw Unreadable("'" + std::string(text_) + "' is no dimension");
  }

  std::string peek() const { return at_ < tokens_.size() ? tokens_[at_] : ""; }

  std::string take() {
    if (at_ == tokens_.size()) fail();
    return tokens_[at_++];
  }

  void expect(std::string_view wanted) {
    if (take() != wanted) fail();
  }

  void put(Op op, std::int64_t number = 0) { made_.steps_.push_back({op, number}); }

  void sum() {
    const bool negative = peek() == "-";
    if (negative) take();
    product();
    if (negative) put(Op::negate);
    while (peek() == "+" || peek() == "-") {
      const Op op = take() == "+" ? Op::add : Op::subtract;
      product();
      put(op);
    }
  }

  void product() {
    power();
    while (peek() == "*") {
      take();
      power();
      put(Op::multiply);
    }
  }

  void power() {
    atom();
    if (peek() != "^") return;
    take();
    const std::string token = take();
    const std::int64_t exponent = is_digit(token[0]) ? number(token) : kLargestExponent + 1;
    if (exponent > kLargestExponent) fail();  // a damaged record
    put(Op::power, exponent);
  }

  void atom() {
    const std::string token = take();
    if (is_digit(token[0])) return put(Op::number, number(token));
    if (!is_name_start(token[0])) fail();
    if (peek() != "(") return put(Op::variable, variable(token));
    static const std::map<std::string, Op> calls = {
        {"floordiv", Op::floordiv}, {"mod", Op::mod}, {"max", Op::max}, {"min", Op::min}};
    const auto call = calls.find(token);
    if (++depth_ > kDeepest || call == calls.end()) fail();
    expect("(");
    sum();
    expect(",");
    sum();
    expect(")");
    --depth_;
    put(call->second);
  }

  std::int64_t number(const std::string& token) const {
    std::int64_t made = 0;
    for (const char c : token)
      if (__builtin_mul_overflow(made, 10, &made) || __builtin_add_overflow(made, c - '0', &made))
        fail();
    return made;
  }

  std::int64_t variable(const std::string& name) {
    auto& names = made_.variables_;
    const auto found = std::find(names.begin(), names.end(), name);
    const std::int64_t index = found - names.begin();
    if (found == names.end()) names.push_back(name);
    return index;
  }

  // "b", "2*b", "- b + 1", "- 2*b - 1": by the tokens, and as the frontend writes the spaces.
  std::optional<Expression::Linear> linear() const {
    std::size_t i = 0;
    const auto is = [&](const char* wanted) { return i < tokens_.size() && tokens_[i] == wanted; };
    const auto at_number = [&] { return i < tokens_.size() && is_digit(tokens_[i][0]); };
    Expression::Linear made{"", 1, 0};
    std::string spelled;
    if (is("-")) {
      made.factor = -1;
      spelled = "- ";
      ++i;
    }
    if (at_number()) {
      const std::int64_t factor = number(tokens_[i]);
      spelled += tokens_[i] + "*";
      made.factor *= factor;
      ++i;
      if (factor == 0 || !is("*")) return std::nullopt;
      ++i;
    }
    if (i == tokens_.size() || !is_name_start(tokens_[i][0])) return std::nullopt;
    made.variable = tokens_[i];
    spelled += tokens_[i++];
    if (is("+") || is("-")) {
      const bool negative = is("-");
      spelled += " " + tokens_[i++] + " ";
      if (!at_number()) return std::nullopt;
      made.offset = negative ? -number(tokens_[i]) : number(tokens_[i]);
      spelled += tokens_[i++];
    }
    if (i != tokens_.size() || spelled != text_) return std::nullopt;
    return made;
  }

  std::string_view text_;
  std::vector<std::string> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Expression made_;
};

Expression Expression::parse(std::string_view text) { return DimParser(text).whole(); }

Wide Expression::evaluate(const Sizes& sizes) const {
  std::vector<Wide> stack;
  stack.reserve(steps_.size());
  for (const Step& step : steps_) {
    if (step.op == Op::number) {
      stack.push_back(step.number);
      continue;
    }
    if (step.op == Op::variable) {
      const auto found = sizes.find(variables_[static_cast<std::size_t>(step.number)]);
      if (found == sizes.end()) throw Undefined();
      stack.push_back(found->second);
      continue;
    }
    const Wide last = stack.back();
    if (step.op == Op::negate) {
      stack.back() = subtract(0, last);
      continue;
    }
    if (step.op == Op::power) {
      stack.back() = power(last, step.number);
      continue;
    }
    stack.pop_back();
    Wide& first = stack.back();
    switch (step.op) {
      case Op::add: first = add(first, last); break;
      case Op::subtract: first = subtract(first, last); break;
      case Op::multiply: first = multiply(first, last); break;
      case Op::floordiv: first = floordiv(first, last); break;
      case Op::mod: first = mod(first, last); break;
      case Op::max: first = std::max(first, last); break;
      default: first = std::min(first, last); break;
    }
  }
  return stack.back();
}

Fit fits(std::int64_t size, const Size& expected, Sizes& sizes) {
  if (!expected.expression) return size == expected.number ? Fit::yes : Fit::no;
  const Expression& expression = *expected.expression;
  try {
    if (const auto& linear = expression.linear()) {
      const auto known = sizes.find(linear->variable);
      if (known != sizes.end())
        return Wide{linear->factor} * known->second + linear->offset == size ? Fit::yes : Fit::no;
      const Wide rest = Wide{size} - linear->offset, value = rest / linear->factor;
      if (rest % linear->factor != 0 || value < 0 || value > kLargest) return Fit::no;
      sizes.emplace(linear->variable, static_cast<std::int64_t>(value));
      return Fit::yes;
    }
    for (const std::string& name : expression.variables())
      if (sizes.find(name) == sizes.end()) return Fit::unknown;
    return expression.evaluate(sizes) == size ? Fit::yes : Fit::no;
  } catch (const Undefined&) {
    return Fit::no;
  }
}

Constraint Constraint::parse(std::string_view sign, std::string_view left, std::string_view right) {
  if (sign != ">=" && sign != "<=" && sign != "==")
    throw Unreadable("'" + std::string(sign) + "' is no comparison");
  return {std::string(sign), Expression::parse(left), Expression::parse(right)};
}

bool Constraint::holds(const Sizes& sizes) const {
  const Wide a = left.evaluate(sizes), b = right.evaluate(sizes);
  return sign == ">=" ? a >= b : sign == "<=" ? a <= b : a == b;
}

}  // namespace calque::artifact
