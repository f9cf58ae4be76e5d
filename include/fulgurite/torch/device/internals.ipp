#pragma once
// The bodies of torch/device/internals.hpp.

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <thread>

#include <ATen/DeviceAccelerator.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>

#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY Marked::Marked(Matmul how) : guard_(now().included_, (now().excluded_ - both) | marks_of(how)) {}

FULGURITE_BULK_BODY c10::DispatchKeySet Marked::marks_of(Matmul how) {
  return how == Matmul::certified ? both
         : how == Matmul::faster  ? c10::DispatchKeySet(product_mark)
         : how == Matmul::fastest ? c10::DispatchKeySet(other_product_mark)
                                  : c10::DispatchKeySet();
}

FULGURITE_BULK_BODY void swap_memory(c10::StorageImpl& a, c10::StorageImpl& b) {
  std::swap(a._mutable_data_ptr_no_checks(), b._mutable_data_ptr_no_checks());
}

FULGURITE_BULK_BODY AutocastScope::AutocastScope(at::DeviceType device, at::ScalarType type)
    : device_(device),
      enabled_(at::autocast::is_autocast_enabled(device)),
      type_(at::autocast::get_autocast_dtype(device)) {
  at::autocast::set_autocast_dtype(device, type);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::increment_nesting();
}

FULGURITE_BULK_BODY AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_);
  at::autocast::set_autocast_dtype(device_, type_);
}

FULGURITE_BULK_BODY NoGradScope::~NoGradScope() {
  auto const accelerator = at::getAccelerator();
  if (at::autocast::is_autocast_enabled(at::kCPU) || (accelerator && at::autocast::is_autocast_enabled(*accelerator)))
    at::autocast::clear_cache();
}

FULGURITE_BULK_BODY EvaluationScope::EvaluationScope(torch::nn::Module& model, bool now)
    : model_(model), training_(model.is_training()), children_(model.modules(false)) {
  flags_.reserve(children_.size());
  for (auto const& child : children_) flags_.push_back(child->is_training());
  if (now) model.eval();
}

FULGURITE_BULK_BODY EvaluationScope::~EvaluationScope() {
  if (model_.is_training() != training_) model_.train(training_);
  for (std::size_t i = 0; i != children_.size(); ++i)
    if (children_[i]->is_training() != flags_[i]) children_[i]->train(flags_[i]);
}

FULGURITE_BULK_BODY BuffersKept::~BuffersKept() {
  at::NoGradGuard const no_graph;
  for (auto& [buffer, copy] : kept_) buffer.copy_(copy);
}

FULGURITE_BULK_BODY void BuffersKept::keep(std::vector<at::Tensor> buffers) {
  at::NoGradGuard const no_graph;
  for (auto& buffer : buffers)
    if (buffer.defined()) kept_.emplace_back(buffer, buffer.clone());
}

FULGURITE_BULK_BODY void run_in_this_thread(int others) {
  static std::mutex one_at_a_time;
  std::lock_guard const lock(one_at_a_time);
  at::get_num_threads();  // a thread's first call of this sets its number to the default; if it came later, it would
                          // undo the next line
  at::set_num_threads(1);
  std::thread([others] { at::set_num_threads(others); }).join();
}

FULGURITE_BULK_BODY void make_current(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

FULGURITE_BULK_BODY at::Tensor to_device(at::Tensor const& tensor, at::Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  bool const overlaps = !device.is_cpu() && tensor.device().is_cpu() && tensor.is_pinned();
  return tensor.to(tensor.options().device(device), overlaps);
}

/// True if a message of LibTorch means that there was not enough memory. LibTorch has an exception type for this on
/// GPUs only; its CPU allocator, the CUDA runtime and NVIDIA's libraries report it in words.
FULGURITE_BULK_BODY bool means_out_of_memory(std::string_view text) {
  static constexpr std::array<std::string_view, 11> words{
      "DefaultCPUAllocator: can't allocate memory",
      "DefaultCPUAllocator: not enough memory",
      "CUDA out of memory",
      "CUDA error: out of memory",
      "CUDA driver error: out of memory",
      "CUBLAS_STATUS_ALLOC_FAILED",
      "CUSOLVER_STATUS_ALLOC_FAILED",
      "CUDNN_STATUS_ALLOC_FAILED",
      "DEVICE_ALLOCATION_FAILED",  // cuDNN 9, after the error's name
      "HOST_ALLOCATION_FAILED",
      // Older versions of cuDNN report this if no algorithm's workspace fits into memory.
      "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.",
  };
  for (auto const& word : words)
    if (text.find(word) != text.npos) return true;
  return false;
}

FULGURITE_BULK_BODY bool out_of_memory(std::exception const& error) {
  return dynamic_cast<c10::OutOfMemoryError const*>(&error) != nullptr || means_out_of_memory(error.what());
}

/// The current allocator of a GPU; null for the CPU.
FULGURITE_BULK_BODY c10::DeviceAllocator* device_allocator(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return allocator != nullptr && allocator->initialized() ? allocator : nullptr;
}

FULGURITE_BULK_BODY void free_caches(c10::Device device) {
  if (auto* const allocator = device_allocator(device)) allocator->emptyCache();
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

FULGURITE_BULK_BODY std::optional<double> peak_memory(c10::Device device) {
  auto* const allocator = device_allocator(device);
  if (allocator == nullptr) return std::nullopt;
  auto const known = allocator->getDeviceStats(device.index());
  return static_cast<double>(
      known.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak);
}

FULGURITE_BULK_BODY void restart_peak_memory(c10::Device device) {
  if (auto* const allocator = device_allocator(device)) allocator->resetPeakStats(device.index());
}

FULGURITE_BODY std::vector<std::pair<std::string, double>> device_stats(c10::Device device) {
  std::vector<std::pair<std::string, double>> stats;
  if (device.is_cpu()) return stats;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator == nullptr || !allocator->initialized()) return stats;
  auto const known = allocator->getDeviceStats(device.index());
  auto const add = [&](std::string const& name, c10::CachingAllocator::StatArray const& of) {
    auto const& all = of[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    stats.emplace_back(name + ".all.current", static_cast<double>(all.current));
    stats.emplace_back(name + ".all.peak", static_cast<double>(all.peak));
  };
  add("allocation", known.allocation);
  add("segment", known.segment);
  add("allocated_bytes", known.allocated_bytes);
  add("reserved_bytes", known.reserved_bytes);
  add("active_bytes", known.active_bytes);
  add("inactive_split_bytes", known.inactive_split_bytes);
  stats.emplace_back("num_alloc_retries", static_cast<double>(known.num_alloc_retries));
  stats.emplace_back("num_ooms", static_cast<double>(known.num_ooms));
  return stats;
}

FULGURITE_BULK_BODY void synchronize(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

FULGURITE_BULK_BODY void on_threads(std::int64_t n, c10::function_ref<void(std::int64_t)> f) {
  if (n == 1 || at::get_num_threads() == 1 || at::in_parallel_region()) {
    for (std::int64_t i = 0; i != n; ++i) f(i);
    return;
  }
  at::TensorBase const places = at::detail::empty_cpu({n}, at::kByte);
  auto const* const begin = static_cast<char const*>(places.const_data_ptr());
  auto walk = at::TensorIterator::borrowing_nullary_op(places);
  // The overload with rows: LibTorch wraps the one without in a copy of the pointers, for which g++ 12 warns at -O2
  // that it may be read before it is written.
  walk.for_each(
      [&](char** data, std::int64_t const* strides, std::int64_t size, std::int64_t rows) {
        for (std::int64_t row = 0; row != rows; ++row) {
          char const* const first = data[0] + row * strides[1];
          for (std::int64_t i = 0; i != size; ++i) f(first + i * strides[0] - begin);
        }
      },
      1);
}

FULGURITE_BULK_BODY void in_parts(std::int64_t n, c10::function_ref<void(std::int64_t, std::int64_t)> f) {
  constexpr std::int64_t least = at::internal::GRAIN_SIZE, multiple = 1024;
  auto const threads = n <= least ? 1 : std::min<std::int64_t>(at::get_num_threads(), (n + least - 1) / least);
  if (threads == 1) return f(0, n);
  auto const each = ((n + threads - 1) / threads + multiple - 1) / multiple * multiple;
  on_threads((n + each - 1) / each, [&](std::int64_t i) { f(i * each, std::min(n, (i + 1) * each)); });
}

}  // namespace fulgurite::libtorch
