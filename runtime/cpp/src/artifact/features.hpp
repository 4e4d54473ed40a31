// Names of what code may use: runtime/features.json, which runtime/features.py reads and explains.
#pragma once

#include "artifact/json.hpp"

namespace calque::artifact {

const Json& features();

}  // namespace calque::artifact
