#pragma once
// LibTorch's own schedulers in the place of a schedule. Their state cannot be read, so a checkpoint keeps what has
// moved them.

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

namespace libtorch {

/// Makes a scheduler of LibTorch for an optimizer of LibTorch. It lies on the heap, since it can neither be assigned
/// nor made empty.
template <class Factory>
class MadeScheduler {
 public:
  using Made = std::remove_cvref_t<std::invoke_result_t<Factory&, torch::optim::Optimizer&>>;

  explicit MadeScheduler(Factory factory) : factory_(std::move(factory)) {}
  void attach(torch::optim::Optimizer& optimizer) {
    optimizer_ = &optimizer;
    again();
  }
  void again() {
    if (optimizer_) made_.reset(new Made(factory_(*optimizer_)));
  }
  Made* operator->() const { return made_.get(); }
  explicit operator bool() const { return made_ != nullptr; }

 private:
  Factory factory_;
  torch::optim::Optimizer* optimizer_ = nullptr;
  std::unique_ptr<Made> made_;
};

}  // namespace libtorch

/// What `torch_schedule` makes.
template <class Factory>
class TorchSchedule {
 public:
  static constexpr bool sets_rates = true, replays_moves = true;

  explicit TorchSchedule(Factory factory) : scheduler_(std::move(factory)) {}
  void attach(auto& optimizer) { scheduler_.attach(optimizer.raw()); }
  void move(auto&) {
    scheduler_->step();
    ++moves_;
  }

  /// Loading moves a new scheduler as often as the saved one was moved. It begins at the initial rates, which the
  /// caller has set.
  void state(auto& archive) {
    archive("moves", moves_);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
      scheduler_.again();
      for (long move = 0; scheduler_ && move != moves_; ++move) scheduler_->step();
    }
  }

 private:
  libtorch::MadeScheduler<Factory> scheduler_;
  long moves_ = 0;
};

/// A torch::optim::LRScheduler moves the rates: `return scheduled(torch::optim::SGD(parameters(), 0.1),
/// torch_schedule([](auto& optimizer) { return torch::optim::StepLR(optimizer, 10, 0.5); }));`
/// The function receives the torch::optim::Optimizer. When its state is read back it is moved as often as it had been.
/// Mind that LibTorch's StepLR lowers the rate one move later than Python's does; schedule::Step is as Python's.
template <class Factory>
TorchSchedule<Factory> torch_schedule(Factory factory) {
  return TorchSchedule<Factory>(std::move(factory));
}

/// What `torch_plateau` makes.
template <class M, class Factory>
class TorchPlateau {
 public:
  using Watches = MetricTypes<M>;
  static constexpr bool sets_rates = true, replays_moves = true;

  TorchPlateau(M metric, Factory factory, bool strict)
      : metric_(metric), scheduler_(std::move(factory)), strict_(strict) {}
  M metric() const { return metric_; }
  bool strict() const { return strict_; }
  void attach(auto& optimizer) { scheduler_.attach(optimizer.raw()); }
  void observe(double value, auto&) {
    seen_.push_back(static_cast<float>(value));
    scheduler_->step(seen_.back());
  }

  void state(auto& archive) {
    archive("seen", seen_);
    if constexpr (std::remove_cvref_t<decltype(archive)>::loading) {
      scheduler_.again();
      if (scheduler_)
        for (float const value : seen_) scheduler_->step(value);
    }
  }

 private:
  [[no_unique_address]] M metric_;
  libtorch::MadeScheduler<Factory> scheduler_;
  std::vector<float> seen_;
  bool strict_;
};

/// The same for torch::optim::ReduceLROnPlateauScheduler, which watches a metric: `torch_plateau(Net::val_loss,
/// [](auto& optimizer) { return torch::optim::ReduceLROnPlateauScheduler(optimizer); })`. A checkpoint holds every
/// value that it has seen; schedule::ReduceOnPlateau needs three numbers, and counts in double.
template <class M, class Factory>
TorchPlateau<M, Factory> torch_plateau(M metric, Factory factory, bool strict = true) {
  return {metric, std::move(factory), strict};
}

}  // namespace fulgurite
