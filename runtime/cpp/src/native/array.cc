#include <algorithm>
#include <cmath>
#include <cstring>

#include "native/internal.hpp"

namespace calque {

namespace native {

namespace {

std::string where_waiting(const detail::ArrayImpl& array) {
  return "waiting for a " + detail::describe(array.dtype, array.shape) + " on " + array.device.name();
}

void release_keep(void* keep) { delete static_cast<std::shared_ptr<const void>*>(keep); }

// What a View holds: the memory, and where it is mapped.
struct Mapped {
  std::shared_ptr<Memory> memory;
  View view;
  ci_mapping* mapping = nullptr;
  ~Mapped() {
    if (mapping != nullptr) ci_unmap(mapping);
  }
};

// The value of an array whose memory is not the host's, by way of memory of ours: drivers may refuse to
// copy into any other (lavapipe wants whole pages).
void copy_out(detail::ArrayImpl& array, void* target, std::size_t bytes) {
  const std::string where =
      "copying a " + detail::describe(array.dtype, array.shape) + " from " + array.device.name();
  ci_device* queue = queues_of(array.device).queue();
  ci_semaphore* semaphore = nullptr;
  check(ci_create_semaphore(queue, &semaphore), where);
  const Semaphore done(semaphore);
  ci_view* view = nullptr;
  check(ci_copy(queue, array.buffer.view.get(), nullptr, semaphore, true, &view), where);
  Mapped copy;
  copy.view = View(view);
  wait_for(done, HUGE_VAL, where, true);
  const void* data = nullptr;
  check(ci_map(view, &data, &copy.mapping), where);
  std::memcpy(target, data, bytes);
}

}  // namespace

void Memory::note_reader(const Semaphore& done) {
  std::lock_guard<std::mutex> guard(lock_);
  if (!readers_.empty() && readers_.back().get() == done.get()) return;  // f(x, x)
  readers_.push_back(done);
  // Looking at 16, 32, 64, ... of them only: a constant cost per call, however many are under way.
  const std::size_t size = readers_.size();
  if (size >= 16 && (size & (size - 1)) == 0)
    readers_.erase(std::remove_if(readers_.begin(), readers_.end(), is_settled), readers_.end());
}

std::vector<Semaphore> Memory::unfinished_readers() {
  std::lock_guard<std::mutex> guard(lock_);
  std::vector<Semaphore> made;
  for (const Semaphore& reader : readers_)
    if (!is_settled(reader)) made.push_back(reader);
  return made;
}

backend::Buffer copy_of(detail::ArrayImpl& array) {
  if (is_host(array.device) && array.ready) {  // at once, so that a program with little work stays in place
    std::shared_ptr<void> hold;
    const Span<const std::uint8_t> bytes = backend::view(array, hold);
    return backend::copied(bytes.data(), bytes.size(), array.dtype, array.shape, array.device);
  }
  const std::string where = "copying a " + detail::describe(array.dtype, array.shape);
  Queues& queues = queues_of(array.device);
  backend::Buffer made;
  ci_view* view = nullptr;
  ci_semaphore* done = nullptr;
  check(ci_create_semaphore(queues.queue(), &done), where);
  made.fence = Semaphore(done);
  const Semaphore& wait = array.buffer.fence;
  check(ci_copy(queues.queue(), array.buffer.view.get(), array.ready ? nullptr : wait.get(), done,
                false, &view),
        where);
  made.view = View(view);
  made.memory = std::make_shared<Memory>(true);
  array.buffer.memory->note_reader(made.fence);
  return made;
}

}  // namespace native

namespace backend {

using detail::ArrayImpl;

Buffer copied(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
              const Device& device) {
  detail::check_not_forked();
  ci_view* view = nullptr;
  native::check(ci_copy_in(native::queues_of(device).inline_queue(), data, bytes,
                           native::type_of(dtype, shape), &view),
                "copying " + detail::describe(dtype, shape) + " to " + device.name());
  return {native::View(view), {}, std::make_shared<native::Memory>(true)};
}

Buffer wrapped(const void* data, std::size_t bytes, DType dtype, const Shape& shape,
               std::shared_ptr<const void> keep, const Device& device) {
  if (!native::is_host(device) || bytes == 0) return copied(data, bytes, dtype, shape, device);
  detail::check_not_forked();
  auto* kept = new std::shared_ptr<const void>(std::move(keep));
  ci_view* view = nullptr;
  native::check(ci_import(native::queues_of(device).inline_queue(), data, bytes,
                          native::type_of(dtype, shape), native::release_keep, kept, &view),
                "Array::wrap");
  return {native::View(view), {}, std::make_shared<native::Memory>(false)};
}

bool is_ready(ArrayImpl& array) {
  const native::Sharing sharing(array, "Array::is_ready");
  if (!array.buffer.fence) return true;
  bool reached = false;
  if (ci_error* error = ci_query(array.buffer.fence.get(), &reached)) ci_free_error(error);
  return reached;
}

bool wait(ArrayImpl& array, double seconds) {
  native::Semaphore fence;
  {
    const native::Sharing sharing(array, "Array::wait_for");
    fence = array.buffer.fence;
  }
  return !fence ||
         native::wait_for(fence, seconds, native::where_waiting(array), !native::is_host(array.device));
}

Span<const std::uint8_t> view(ArrayImpl& array, std::shared_ptr<void>& hold) {
  const std::size_t bytes = array.nbytes();
  if (bytes == 0) return {};
  ci_view* view = array.buffer.view.get();
  if (ci_view_bytes(view) != bytes) return {nullptr, ci_view_bytes(view)};
  if (!native::is_host(array.device)) {
    std::shared_ptr<void> copy(std::aligned_alloc(Array::alignment, (bytes + 63) / 64 * 64), std::free);
    if (copy == nullptr) throw std::bad_alloc();
    native::copy_out(array, copy.get(), bytes);
    hold = std::move(copy);
    return {static_cast<const std::uint8_t*>(hold.get()), bytes};
  }
  auto mapped = std::make_shared<native::Mapped>();
  mapped->memory = array.buffer.memory;
  mapped->view = array.buffer.view;
  const void* data = nullptr;
  native::check(ci_map(view, &data, &mapped->mapping), "Array::view");
  hold = std::move(mapped);
  return {static_cast<const std::uint8_t*>(data), bytes};
}

void drop(ArrayImpl& array) { array.buffer = Buffer(); }

}  // namespace backend

}  // namespace calque
