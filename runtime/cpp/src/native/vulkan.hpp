// What a Vulkan device has: asked of the Vulkan loader.  runtime/vulkan.py asks the same.
#pragma once

#include <string>

#include "artifact/vulkan.hpp"

namespace calque::native {

// The device that IREE names by a path (GPU-..., with its UUID); null where nothing can be known of it: no
// loader, an old one, no such device.  Asked once a process.
const artifact::VulkanDevice* vulkan_device(const std::string& path);

}  // namespace calque::native
