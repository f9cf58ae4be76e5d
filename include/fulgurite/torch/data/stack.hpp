#pragma once
// For data::Loader with LibTorch: samples of tensors become batches of tensors, and workers leave the processor to the
// training loop.

#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/data/batch.hpp>
#include <fulgurite/torch/data/pinned.hpp>
#include <fulgurite/torch/device/one_thread.hpp>

namespace fulgurite::data {

/// Collates by `torch::stack`: tensors to a tensor, `{data, target}` to a `Batch`, pairs and tuples member by member.
/// `Loader loader{dataset, {.batch_size = 32, .workers = 2, .on_worker_start = one_thread_each()}, Stack{}};`
class Stack {
  template <class Sample>
  auto column(std::vector<Sample>& samples, auto member) const {
    using Member = std::remove_reference_t<decltype(member(samples.front()))>;
    std::vector<Member> values;
    values.reserve(samples.size());
    for (auto& sample : samples) values.push_back(std::move(member(sample)));
    return (*this)(std::move(values));
  }

 public:
  torch::Tensor operator()(std::vector<torch::Tensor> samples) const { return torch::stack(samples); }

  FULGURITE_BULK Batch operator()(std::vector<Batch> samples) const {
    return {column(samples, [](Batch& s) -> auto& { return s.data; }),
            column(samples, [](Batch& s) -> auto& { return s.target; })};
  }

  template <class A, class B>
  auto operator()(std::vector<std::pair<A, B>> samples) const {
    return std::pair{column(samples, [](auto& s) -> auto& { return s.first; }),
                     column(samples, [](auto& s) -> auto& { return s.second; })};
  }

  template <class... Ts>
  auto operator()(std::vector<std::tuple<Ts...>> samples) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple{column(samples, [](auto& s) -> auto& { return std::get<I>(s); })...};
    }(std::index_sequence_for<Ts...>());
  }

  /// What a Loader with `.pin_memory` asks for.
  void can_pin() const { refuse_pinning_without_gpu(); }
  template <class Made>
  void pin(Made& batch) const {
    pin_in_place(batch);
  }
};

/// For `.on_worker_start`: tensor operations in a worker run in the worker's thread alone, and those of the training
/// loop keep their threads. Call it in the thread that trains.
inline std::function<void()> one_thread_each() {
  int const others = torch::get_num_threads();  // this also fixes the number for the calling thread
  return [others] { libtorch::run_in_this_thread(others); };
}

}  // namespace fulgurite::data
