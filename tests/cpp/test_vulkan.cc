// A device whose memory is not the host's: Vulkan.  Exit code 77 where there is none.
#include <fstream>

#include "check.hpp"

using namespace calque;

int main(int, char** words) {
  artifacts() = words[1];
  Device device;
  try {
    device = Device::open("vulkan");
  } catch (const Error& error) {
    CHECK(error.code() == Code::unavailable);
    return 77;
  }
  CHECK(device.platform() == "vulkan" && device.name() == "vulkan:0");
  const Module module = load("for_vulkan", "vulkan");
  const Function add = module["add"];
  alignas(64) static float memory[16] = {1, 2, 3, 4};
  const Array x = Array::wrap(Span<float>(memory, 4), {4}, nullptr, device);  // a copy, here
  Array y = x;
  for (int i = 0; i < 10; ++i) y = add(y, x)[0];
  memory[0] = 100;
  CHECK((y.to_vector<float>() == std::vector<float>{11, 22, 33, 44}) && y.is_ready());
  CHECK_ERROR(device, ({"y lives on cpu:0, the module on vulkan:0", "argument 1 is y"}),
              add(x, Array::from_host(std::vector<float>(4), {4})));
  CHECK_ERROR(artifact, ({"is compiled for cpu, and vulkan:0 is a vulkan device"}),
              load("add", "vulkan"));
  // A shader of the user's, in an artifact that was made where glslang is.
  if (std::ifstream(artifacts() + "/kernel_for_vulkan.vmfb"))
    CHECK((load("kernel_for_vulkan", "vulkan")["kernel"](x)[0].to_vector<float>() ==
           std::vector<float>{4, 6.5f, 9, 11.5f}));
  // Code for subgroups of 16 is refused where they are smaller (lavapipe's are 8).
  try {
    load("for_mali", "vulkan");
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(error.code() == Code::artifact && error.fix().find("--target vulkan:") != error.fix().npos);
    CHECK(what.find("the artifact needs what vulkan:0 (") != what.npos &&
          what.find(") lacks: ") != what.npos && what.find("compiled for vulkan:valhall)") != what.npos);
    std::printf("%s\n", what.c_str());
    return 0;
  }
  std::printf("vulkan:0 has what vulkan:valhall asks for\n");
  return 0;
}
