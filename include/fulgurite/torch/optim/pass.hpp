#pragma once
// Runs an update rule over a stretch of flat buffers: block by block if the CPU kernels of LibTorch are known to the
// bit, else as operators.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>

#include <fulgurite/torch/optim/arena.hpp>
#include <fulgurite/torch/optim/block.hpp>

namespace fulgurite::libtorch {

/// One pass: each block is read, updated and written while it is in the cache.
/// `apart`: the gradient lies where backward has made it, and was not added to zero.
template <bool Fused, class T, std::size_t N, class Rule>
[[gnu::always_inline]] inline void blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                          std::array<T*, N> const& states, std::size_t size) {
  auto& scratch = Scratch<T>::of_thread();
  for (std::size_t from = 0; from < size; from += Scratch<T>::most) {
    auto const length = std::min(size - from, Scratch<T>::most);
    scratch.clear();
    auto const block = [&](T* data) __attribute__((always_inline)) {
      return Block<T, Fused>(data == nullptr ? nullptr : data + from, length, scratch);
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) __attribute__((always_inline)) {
      auto const gradient = block(gradients);
      rule(block(parameters), apart ? gradient.plus_zero() : gradient, block(states[I])...);
    }(std::make_index_sequence<N>{});
  }
}

#if defined(__x86_64__)
/// This is compiled for the processors for which LibTorch has kernels with fused multiply-add, whatever the rest of the
/// program is compiled for.
template <class T, std::size_t N, class Rule>
[[gnu::target("avx2,fma"), gnu::noinline]] void fused_blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                                             std::array<T*, N> const& states, std::size_t size) {
  blocks<true>(rule, parameters, gradients, apart, states, size);
}
template <class T, std::size_t N, class Rule>
[[gnu::noinline]] void plain_blocks(Rule const& rule, T* parameters, T* gradients, bool apart,
                                    std::array<T*, N> const& states, std::size_t size) {
  blocks<false>(rule, parameters, gradients, apart, states, size);
}

/// Whether LibTorch computes with its AVX2 or AVX-512 kernels, which ATEN_CPU_CAPABILITY=default forbids.
inline bool libtorch_fuses() {
  static bool const fuses = at::get_cpu_capability().starts_with("AVX");
  return fuses;
}
#endif

template <class T, std::size_t N, class Rule>
void in_blocks([[maybe_unused]] Rule const& rule, [[maybe_unused]] Arena::Run const& run,
               [[maybe_unused]] Arena::Buffer const& buffer) {
#if defined(__x86_64__)
  auto const data = [&](at::Tensor const& flat, std::int64_t first = 0) {
    return flat.defined() ? static_cast<T*>(flat.mutable_data_ptr()) + (run.begin - first) : nullptr;
  };
  std::array<T*, N> states{};
  for (std::size_t s = 0; s != N; ++s) states[s] = data(buffer.states[s], buffer.states_begin);
  auto const size = static_cast<std::size_t>(run.end - run.begin);
  bool const apart = run.gradient != nullptr;
  auto* const gradients = apart ? static_cast<T*>(run.gradient->mutable_data_ptr()) : data(buffer.gradients);
  if (libtorch_fuses()) fused_blocks<T, N>(rule, data(buffer.parameters), gradients, apart, states, size);
  else plain_blocks<T, N>(rule, data(buffer.parameters), gradients, apart, states, size);
#endif
}

/// The same rule as operators of LibTorch, one for each line: for GPUs, and for other element types and processors.
template <std::size_t N, class Rule>
void as_operators(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  auto const part = [&](at::Tensor const& flat, std::int64_t first = 0) {
    return flat.defined() ? flat.narrow(0, run.begin - first, run.end - run.begin) : at::Tensor();
  };
  auto const gradient = [&] {
    if (!run.gradient) return part(buffer.gradients);
    return run.gradient->as_strided({run.end - run.begin}, {1}).add(0);  // as it would have been added to zero
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    rule(part(buffer.parameters), gradient(), part(buffer.states[I], buffer.states_begin)...);
  }(std::make_index_sequence<N>{});
}

/// Whether blocks are the faster way. Operators use LibTorch's threads, which blocks do not, and for a long stretch
/// that gains more from four threads on than the cache does.
inline bool prefers_blocks(Arena::Run const& run, at::Tensor const& flat) {
#if defined(__x86_64__)
  return flat.is_cpu() && (run.end - run.begin < (std::int64_t{1} << 18) || at::get_num_threads() < 4);
#else
  return false;
#endif
}

template <std::size_t N, class Rule>
void pass(Rule const& rule, Arena::Run const& run, Arena::Buffer const& buffer) {
  auto const type = buffer.parameters.scalar_type();
  if (type == at::kFloat && prefers_blocks(run, buffer.parameters)) in_blocks<float, N>(rule, run, buffer);
  else if (type == at::kDouble && prefers_blocks(run, buffer.parameters)) in_blocks<double, N>(rule, run, buffer);
  else as_operators<N>(rule, run, buffer);
}

}  // namespace fulgurite::libtorch
