#pragma once
// DistributedDataParallel whose processes keep a part of the optimizers' state each: ZeRO's first stage.

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <fulgurite/distributed/distributed_data_parallel.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/torch/optim/arena_part.hpp>

namespace fulgurite {

namespace distributed {

/// What the optimizers of a tuple keep, gathered in rank 0 while it lives. Made by every rank.
template <class Optimizers>
class WholeState {
 public:
  WholeState(Optimizers& optimizers, int rank) : optimizers_(&optimizers) {
    each([&](auto& one) { one.gather_state(rank == 0); });
  }
  ~WholeState() {
    if (optimizers_) each([](auto& one) { one.drop_gathered(); });
  }
  WholeState(WholeState&& other) noexcept : optimizers_(std::exchange(other.optimizers_, nullptr)) {}
  WholeState& operator=(WholeState&&) = delete;

 private:
  template <class F>
  void each(F&& f) {
    auto const one = [&](auto& optimizer) {
      if constexpr (requires { optimizer.drop_gathered(); }) f(optimizer);
    };
    std::apply([&](auto&... all) { (one(all), ...); }, *optimizers_);
  }

  Optimizers* optimizers_;
};

}  // namespace distributed

/// `ShardedDataParallel{{.devices = 2}}`, with the options of DistributedDataParallel: where the moments of an
/// optimizer are too much for each process to keep all of them. Each of k keeps one part of k, updates the parameters
/// of that part, and receives those of the others. Steps, files and what may go wrong are those of
/// DistributedDataParallel, to the bit; over the wire go the parameters beside the gradients.
///
/// Weights and gradients are whole in each process, so that clipping, hooks and callbacks see all of them. A file has
/// all of the state, and is gone on with by any number of processes, and by one, with this strategy or another.
/// Optimizers are those of fulgurite::optim, but LBFGS.
struct ShardedDataParallel : DistributedDataParallel {
  static constexpr bool shards_state = true;

  /// Once the optimizers of a fit are made, before they keep anything. Every rank calls it.
  template <class Optimizers>
  void share_state(Optimizers& optimizers) {
    auto& all = group();
    auto const one = [&](auto& optimizer) {
      if constexpr (requires { optimizer.kept_numbers(); }) {
        optimizer.keep_part({rank(), world(), [&all](at::Tensor const& flat) {
                               if (flat.numel() != 0) all.all_gather(flat, "gathering parts of all ranks");
                             }});
      }
    };
    std::apply([&](auto&... each) { (one(each), ...); }, optimizers);
  }
  /// While the returned object lives, rank 0 has all that the optimizers keep, as a file holds it.
  template <class Optimizers>
  [[nodiscard]] distributed::WholeState<Optimizers> whole_state(Optimizers& optimizers) {
    return {optimizers, rank()};
  }

  /// What describe(trainer) prints of a strategy's work.
  std::vector<std::string> account() const {
    auto lines = DistributedDataParallel::account();
    if (distributed::Group::is_open()) {
      auto const& traffic = group().traffic();
      lines.push_back(std::to_string(traffic.all_gathers) + " all-gathers of parameters and states, " +
                      std::to_string(traffic.all_gather_bytes) + " bytes in all");
    }
    return lines;
  }
};

}  // namespace fulgurite
