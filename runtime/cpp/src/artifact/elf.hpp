// ELF files as IREE's loader takes them: is every place that it reads or writes inside?  runtime/elf.py
// says what is looked at; what is wrong is Unreadable.
#pragma once

#include "artifact/container.hpp"

namespace calque::artifact {

bool is_elf(Bytes data);
void check_elf(Bytes data);

}  // namespace calque::artifact
