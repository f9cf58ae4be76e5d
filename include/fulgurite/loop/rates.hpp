#pragma once
// The learning rates of a run's optimizers as one list.

#include <cstddef>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <fulgurite/loop/rehearsal_plan.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

template <class R>
class RatesOf final : public LearningRates {
 public:
  explicit RatesOf(State<R>& run) : run_(run) {}

  std::vector<double> now() const override {
    std::vector<double> all;
    each([&](auto& optimizer, auto&) {
      for (std::size_t g = 0; g != optimizer.groups(); ++g) all.push_back(optimizer.lr(g));
    });
    return all;
  }
  std::vector<double> initial() const override {
    std::vector<double> all;
    each([&](auto& optimizer, auto& scheduler) {
      for (std::size_t g = 0; g != optimizer.groups(); ++g) all.push_back(scheduler.initial(g));
    });
    return all;
  }
  void set(std::span<double const> rates) override {
    each([&, i = std::size_t{0}](auto& optimizer, auto&) mutable {
      for (std::size_t g = 0; g != optimizer.groups(); ++g) optimizer.set_lr(g, rates[i++]);
    });
  }
  void begin_from(std::span<double const> rates) override {
    each([&, i = std::size_t{0}](auto& optimizer, auto& scheduler) mutable {
      scheduler.begin_from(rates.subspan(i, optimizer.groups()));
      i += optimizer.groups();
    });
  }

 private:
  template <class F>
  void each(F&& f) const {
    auto& all = *run_.parts.optimizers;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(std::get<I>(all.optimizers), std::get<I>(all.schedulers)), ...);
    }(std::make_index_sequence<std::tuple_size_v<decltype(all.optimizers)>>{});
  }

  State<R>& run_;
};

}  // namespace fulgurite::loop
