// Files that are whole, but whose records are not true (fixture.py, lies): refused, or their calls run or
// raise an Error; no memory but the arrays' own is read.
#include <filesystem>

#include "check.hpp"

using namespace calque;

namespace {

Array ones(const Parameter& parameter) {
  Shape shape;
  std::size_t size = size_of(parameter.dtype);
  for (const Dim& dim : parameter.shape) {
    shape.push_back(dim.is_dynamic() ? 4 : std::min<std::int64_t>(dim.size, 2000));
    size *= static_cast<std::size_t>(shape.back());
  }
  const std::vector<std::uint8_t> memory(size, 1);
  return Array::copy_bytes(memory.data(), size, parameter.dtype, shape);
}

}  // namespace

int main(int, char** words) {
  int refused = 0, raised = 0, ran = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(words[1]) + "/lies")) {
    std::vector<std::uint8_t> sum(1);
    try {
      const Module module = Module::load(entry.path().string());
      for (const Signature& signature : module.functions()) {
        try {
          std::vector<Array> arguments;
          for (const Parameter& argument : signature.arguments) arguments.push_back(ones(argument));
          for (const Array& result : module[signature.name].call(arguments)) {
            if (result.dtype() != DType::float32) continue;
            for (const float value : result.view<float>()) sum[0] ^= value > 0;
          }
          ++ran;
        } catch (const Error&) {
          ++raised;
        }
      }
    } catch (const Error& error) {
      CHECK(error.code() == Code::artifact && !error.fix().empty());
      ++refused;
    }
  }
  std::printf("%d refused, %d raised, %d ran\n", refused, raised, ran);
  CHECK(refused > 0 && raised > 0 && ran > 0);
  return 0;
}
