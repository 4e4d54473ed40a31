// Sizes that are known at the call only, as a record writes them: "b", "2*b + 1", "floordiv(b, 2)",
// and constraints such as b >= 8.  runtime/dims.py reads the same texts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace calque::artifact {

// Products of four variables fit (a variable has 31 bits); what does not is Undefined.
__extension__ typedef __int128 Wide;

using Sizes = std::map<std::string, std::int64_t, std::less<>>;

// The value of an expression does not exist (division by zero) or is beyond 128 bits.
struct Undefined : std::exception {
  const char* what() const noexcept override { return "a size that does not exist"; }
};

// A size as an expression of variables: sums of products of powers, and calls of floordiv, mod, max
// and min.
class Expression {
 public:
  static Expression parse(std::string_view text);  // Unreadable

  const std::string& text() const { return text_; }
  const std::vector<std::string>& variables() const { return variables_; }

  // Undefined; all variables must be known.
  Wide evaluate(const Sizes& sizes) const;

  // factor * variable + offset, where the text is that.
  struct Linear {
    std::string variable;
    std::int64_t factor, offset;
  };
  const std::optional<Linear>& linear() const { return linear_; }

 private:
  friend class DimParser;
  enum class Op { number, variable, add, subtract, negate, multiply, power, floordiv, mod, max, min };
  struct Step {  // of a stack machine
    Op op;
    std::int64_t number = 0;  // a number, the index of a variable, an exponent
  };
  std::string text_;
  std::vector<Step> steps_;
  std::vector<std::string> variables_;
  std::optional<Linear> linear_;
};

// A size of an axis: a number, or an expression.
struct Size {
  std::int64_t number = 0;
  std::optional<Expression> expression;
  std::string text() const { return expression ? expression->text() : std::to_string(number); }
};

// Whether a size is what is expected; a variable that is met first takes its value.
enum class Fit { no, yes, unknown };  // unknown: variables are not known yet
Fit fits(std::int64_t size, const Size& expected, Sizes& sizes);

// left >= right, left <= right or left == right, at every call.
struct Constraint {
  std::string sign;
  Expression left, right;
  static Constraint parse(std::string_view sign, std::string_view left, std::string_view right);
  bool holds(const Sizes& sizes) const;  // Undefined
  std::string text() const { return left.text() + " " + sign + " " + right.text(); }
};

}  // namespace calque::artifact
