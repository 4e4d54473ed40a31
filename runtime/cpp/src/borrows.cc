#include <algorithm>

#include "impl.hpp"
#include "text.hpp"

namespace calque::detail {

Borrows::Borrows(const FunctionImpl& function, Span<const Array> arguments)
    : function_(function), arguments_(arguments) {
  try {
    if (function.donates) take();
    for (; shared_ < arguments.size(); ++shared_)
      if (!is_taken(shared_) && !impl(shared_).claim.share()) raise_deleted(shared_);
  } catch (...) {
    release(false);
    throw;
  }
}

ArrayImpl& Borrows::impl(std::size_t i) const { return *Access::impl(arguments_[i]); }

bool Borrows::is_taken(std::size_t i) const {
  const auto same = [&](std::size_t k) { return &impl(k) == &impl(i); };
  return std::any_of(taken_.begin(), taken_.end(), same) ||
         std::any_of(gone_.begin(), gone_.end(), same);
}

void Borrows::take() {
  taken_.reserve(arguments_.size());
  gone_.reserve(arguments_.size());
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (!function_.record().donated[i] || is_taken(i)) continue;
    if (!impl(i).claim.take()) raise_deleted(i);
    taken_.push_back(i);
  }
}

// Leaves an argument taken when this ends.
std::vector<std::size_t>::iterator Borrows::forget(std::vector<std::size_t>::iterator i) noexcept {
  gone_.push_back(*i);  // reserved in take()
  return taken_.erase(i);
}

void Borrows::release(bool consumed) noexcept {
  while (shared_ > 0)
    if (!is_taken(--shared_)) impl(shared_).claim.unshare();
  if (!consumed)
    for (const std::size_t i : taken_) impl(i).claim.untake();
  taken_.clear();
}

void Borrows::raise_deleted(std::size_t i) const {
  detail::raise_deleted(impl(i), context(function_.signature(), i));
}

}  // namespace calque::detail
