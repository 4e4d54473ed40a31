#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "native/internal.hpp"

namespace calque {

namespace native {

namespace {

using backend::Buffer;
using detail::Access;
using detail::ArrayImpl;
using detail::FunctionImpl;

ArrayImpl& impl(const Array& array) { return *Access::impl(array); }

Array array_of(Buffer buffer, DType dtype, Shape shape, const Device& device, bool ready) {
  auto made = std::make_shared<ArrayImpl>();
  made->buffer = std::move(buffer);
  made->dtype = dtype;
  made->shape = std::move(shape);
  made->device = device;
  made->ready.store(ready, std::memory_order_relaxed);
  return Access::handle<Array>(std::move(made));
}

// What a queued call takes of the queue's pool.
std::size_t queued_bytes(const artifact::Record& record) {
  return record.call.transients ? 0 : record.call.transient_bytes;
}

bool overlap(const ci_place& a, const ci_place& b) {
  return a.allocation == b.allocation && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// One call, from checked and claimed arguments to results.
class Call {
 public:
  Call(const FunctionImpl& function, Span<const Array> arguments, const artifact::Sizes& sizes,
       backend::CallReservation& reservation, detail::Borrows& borrows)
      : function_(function), record_(function.record()), device_(function.module->device),
        arguments_(arguments), sizes_(sizes), reservation_(reservation), borrows_(borrows) {}

  std::vector<Array> run() {
    results_.resize(record_.results.size());
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const artifact::Result& result = record_.results[i];
      if (result.origin == artifact::Origin::argument) results_[i] = again(impl(arguments_[result.position]));
      if (result.origin == artifact::Origin::empty) results_[i] = empty(result, i);
    }
    if (record_.computed == 0) {
      take_over();
    } else {
      gather();
      take_over();
      invoke();
      wrap();
    }
    return std::move(results_);
  }

 private:
  // The array of another handle: the same memory, also when the first is given up.
  Array again(ArrayImpl& array) const {
    return array_of(array.buffer, array.dtype, array.shape, device_, array.ready);
  }

  Shape shape_of(const artifact::Result& result, std::size_t index) const {
    if (!function_.dynamic) return function_.results[index];
    Shape made;
    for (const artifact::Size& size : result.shape) {
      artifact::Wide value = size.number;
      try {
        if (size.expression) value = size.expression->evaluate(sizes_);
      } catch (const artifact::Undefined&) {
        value = -1;
      }
      if (value < 0 || value > INT64_MAX)
        throw Error(Code::shape, "the size " + size.text() + " of a result does not exist.", where(),
                    "pass arrays of other sizes.");
      made.push_back(static_cast<std::int64_t>(value));
    }
    return made;
  }

  Array empty(const artifact::Result& result, std::size_t index) const {
    Shape shape = shape_of(result, index);
    if (std::find(shape.begin(), shape.end(), 0) == shape.end())
      throw Error(Code::artifact, "a result that nothing computes has elements.", where(),
                  "compile the artifact again; its description is wrong.");
    Buffer buffer = backend::copied(nullptr, 0, result.dtype, shape, device_);
    return array_of(std::move(buffer), result.dtype, std::move(shape), device_, true);
  }

  std::string where() const { return record_.name + " on " + device_.name(); }

  // The views to pass, what they wait for, and who reads memory that stays.
  void gather() {
    const std::size_t count = record_.passed.size();
    views_.reserve(count + record_.call.output_buffers.size());
    for (const std::size_t i : record_.passed) {
      ArrayImpl& array = impl(arguments_[i]);
      if (is_given(i)) {
        views_.push_back(hand_over(array));
        continue;
      }
      views_.push_back(array.buffer.view.get());
      readers_.push_back({array.buffer.view.get(), array.buffer.memory.get()});
      add_wait(array);
      if (is_taken(array)) {  // by its place among other arguments; dropped before the call
        held_.push_back(array.buffer.view);
        held_memory_.push_back(array.buffer.memory);
      }
    }
  }

  bool is_taken(const ArrayImpl& array) const {
    const std::vector<std::size_t>& taken = borrows_.taken();
    return std::any_of(taken.begin(), taken.end(),
                       [&](std::size_t i) { return &impl(arguments_[i]) == &array; });
  }

  void add_wait(ArrayImpl& array) {
    if (array.ready.load(std::memory_order_acquire)) return;
    if (!array.buffer.fence || is_over(array.buffer.fence)) {
      array.ready.store(true, std::memory_order_release);
    } else {
      waits_.push_back(array.buffer.fence);
    }
  }

  static bool is_over(const Semaphore& fence) {
    bool reached = false;
    if (ci_error* error = ci_query(fence.get(), &reached)) ci_free_error(error);
    return reached;  // a failed one is waited for, so that its failure comes through
  }

  // May the program write to this argument?  Not to one that it also returns as it is.
  bool is_given(std::size_t i) const {
    return record_.donated[i] &&
           std::none_of(record_.results.begin(), record_.results.end(), [&](auto& result) {
             return result.origin == artifact::Origin::argument && result.position == i;
           });
  }

  // The memory itself where nobody else sees it, else a copy.
  ci_view* hand_over(ArrayImpl& array) {
    add_wait(array);
    const auto same = [&](std::size_t i) { return &impl(arguments_[i]) == &array; };
    const bool once = std::count_if(record_.passed.begin(), record_.passed.end(), same) == 1;
    const bool alone = array.buffer.memory.use_count() == 1;
    std::atomic_thread_fence(std::memory_order_acquire);  // of what others read before they let go
    if (once && alone && array.buffer.memory->is_owned()) {
      for (Semaphore& reader : array.buffer.memory->unfinished_readers())
        waits_.push_back(std::move(reader));
      held_.push_back(array.buffer.view);
    } else {
      const Buffer copy = copy_of(array);
      if (copy.fence) waits_.push_back(copy.fence);
      held_.push_back(copy.view);
    }
    return held_.back().get();
  }

  // What the call takes over is gone from here on, also if the call fails.
  void take_over() {
    borrows_.done();
    for (const std::size_t i : borrows_.taken()) backend::drop(impl(arguments_[i]));
  }

  // Memory for the results that the program writes where it is told to.  It is ours: what the pool of
  // a queue gives is lost when much of it is kept (InFlightCalls).
  void add_output_buffers(Queues& queues) {
    for (const artifact::OutputBuffer& written : record_.call.output_buffers) {
      const artifact::Result& result = record_.results[written.result];
      ci_view* view = nullptr;
      check(ci_allocate(queues.inline_queue(), written.bytes,
                        type_of(result.dtype, function_.results[written.result]), &view),
            where());
      held_.push_back(View(view));
      views_.push_back(view);
    }
  }

  // Memory in which the program works: this call's own, which the queue holds until it is over.
  ci_view* storage(Queues& queues) {
    if (!record_.call.transients) return nullptr;
    const std::size_t bytes = std::max<std::size_t>(function_.state.storage, 1);
    ci_view* view = nullptr;
    check(ci_allocate(queues.inline_queue(), bytes,
                      type_of(DType::uint8, {static_cast<std::int64_t>(bytes)}), &view),
          where());
    held_.push_back(View(view));
    return view;
  }

  void invoke() {
    Queues& queues = queues_of(device_);
    const bool run_inline = reservation_.run_inline;
    if (run_inline && record_.call.must_run_inline) {
      for (const Semaphore& wait : waits_) wait_for(wait, HUGE_VAL, where());
      waits_.clear();
    }
    std::vector<ci_semaphore*> waits;
    for (const Semaphore& wait : waits_) waits.push_back(wait.get());
    computed_.resize(record_.computed);
    std::vector<ci_view*> made(record_.computed);
    const bool in_place = run_inline && waits.empty();
    ci_program* program = in_place ? function_.state.variant->on_inline_queue(queues)
                                   : function_.state.variant->on_queue(queues);
    if (in_place) {
      reservation_.slot.reset();
    } else {  // without a slot yet: to be run inline, but readers of what is handed over are under way
      if (!reservation_.slot)
        reservation_.slot.emplace(queues.in_flight(), queued_bytes(record_), function_.state.result_bytes);
      ci_semaphore* done = nullptr;
      check(ci_create_semaphore(queues.queue(), &done), where());
      done_ = Semaphore(done);
    }
    add_output_buffers(queues);
    ci_error* error = ci_invoke(program, function_.state.function, views_.data(), views_.size(),
                                storage(queues), waits.data(), waits.size(), done_.get(), made.data(),
                                made.size());
    if (error != nullptr) {
      raise_failure_of_waits(error);
      check(error, where());
    }
    if (reservation_.slot) reservation_.slot->hold_until(done_);
    for (std::size_t i = 0; i < made.size(); ++i) computed_[i].view = View(made[i]);
    if (done_)
      for (const Reader& reader : readers_) reader.memory->note_reader(done_);
  }

  // A queue refuses failed waits at once, in words of its own: theirs are better.
  void raise_failure_of_waits(ci_error* error) const {
    try {
      for (const Semaphore& wait : waits_) is_reached(wait, where());
    } catch (...) {
      ci_free_error(error);
      throw;
    }
  }

  // Results may be an argument's memory, or each other's: then they share its Memory.
  void note_memory() {
    std::vector<std::pair<ci_place, std::shared_ptr<Memory>>> seen;
    for (const Reader& reader : readers_)
      seen.emplace_back(ci_view_place(reader.view), reader.memory->shared_from_this());
    for (Buffer& buffer : computed_) {
      const ci_place place = ci_view_place(buffer.view.get());
      const auto found = std::find_if(seen.begin(), seen.end(),
                                      [&](const auto& other) { return overlap(place, other.first); });
      buffer.memory = found != seen.end() ? found->second : std::make_shared<Memory>(true);
      buffer.fence = done_;
      seen.emplace_back(place, buffer.memory);
    }
  }

  void wrap() {
    note_memory();
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const artifact::Result& result = record_.results[i];
      if (result.origin != artifact::Origin::computed) continue;
      const Buffer& buffer = computed_[result.position];
      Shape shape = function_.dynamic ? dims_of(buffer) : function_.results[i];
      check_type(result, shape, buffer);
      results_[i] = array_of(buffer, result.dtype, std::move(shape), device_, !done_);
    }
    computed_.clear();
  }

  static Shape dims_of(const Buffer& buffer) {
    Shape shape(ci_view_rank(buffer.view.get()));
    ci_view_dims(buffer.view.get(), shape.data());
    return shape;
  }

  // Records that lie are found out before anybody reads beyond the memory.
  void check_type(const artifact::Result& result, const Shape& shape, const Buffer& buffer) const {
    std::size_t bytes = size_of(result.dtype);
    bool fits = shape.size() == result.shape.size();
    for (const std::int64_t size : shape)
      fits = fits && size >= 0 &&
             !__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes);
    if (fits && bytes == ci_view_bytes(buffer.view.get()) &&
        ci_element_bits(buffer.view.get()) == 8 * size_of(result.dtype))
      return;
    throw Error(Code::artifact,
                detail::describe(result.dtype, shape) + " has other bytes than the " +
                    std::to_string(ci_view_bytes(buffer.view.get())) + " that the program gave.",
                where(), "compile the artifact again; its description is wrong.");
  }

  const FunctionImpl& function_;
  const artifact::Record& record_;
  const Device& device_;
  Span<const Array> arguments_;
  const artifact::Sizes& sizes_;
  backend::CallReservation& reservation_;
  detail::Borrows& borrows_;
  std::vector<ci_view*> views_;
  std::vector<View> held_;  // of memory that was handed over, copied, or made for results
  std::vector<Semaphore> waits_;
  struct Reader {
    ci_view* view;
    Memory* memory;
  };
  std::vector<Reader> readers_;  // arguments whose memory stays
  std::vector<std::shared_ptr<Memory>> held_memory_;
  Semaphore done_;  // none: the program ran within the call
  std::vector<Buffer> computed_;
  std::vector<Array> results_;
};

}  // namespace

}  // namespace native

backend::CallReservation::CallReservation(const detail::FunctionImpl& function,
                                          Span<const Array> arguments, const artifact::Sizes& sizes) {
  detail::check_not_forked();
  if (function.record().computed == 0) return;
  const artifact::CallSpec& call = function.record().call;
  run_inline = native::is_host(function.module->device) && (call.must_run_inline || call.runs_inline(sizes));
  const auto is_there = [](const Array& array) {
    return native::impl(array).ready.load(std::memory_order_relaxed);
  };
  if (run_inline && (call.must_run_inline || std::all_of(arguments.begin(), arguments.end(), is_there))) return;
  slot.emplace(native::queues_of(function.module->device).in_flight(),
               native::queued_bytes(function.record()), function.state.result_bytes);
}

std::vector<Array> backend::call(const detail::FunctionImpl& function, Span<const Array> arguments,
                                 const artifact::Sizes& sizes, CallReservation& reservation,
                                 detail::Borrows& borrows) {
  return native::Call(function, arguments, sizes, reservation, borrows).run();
}

}  // namespace calque
