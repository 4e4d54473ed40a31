#include "artifact/features.hpp"

namespace calque::artifact {

const Json& features() {
  static const auto* table = new Json(Json::parse(
#include "features.inc"  // made of runtime/features.json by CMakeLists.txt
      ));
  return *table;
}

}  // namespace calque::artifact
