#pragma once
// The learning rates of a run's optimizers as one list.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/rehearsal_plan.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// Error [fulgurite.tuner.rates] where each group has not its rate.
inline void check_rates(std::size_t given, std::size_t groups) {
  if (given != groups)
    throw Error("fulgurite.tuner.rates", std::to_string(given) + " rates were given to " + std::to_string(groups) +
                                             " parameter groups: a plan sets one for each, as rates().now() lists them "
                                             "(more where a callback has added groups, none in an evaluation)");
}

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
    check_rates(rates.size(), now().size());
    each([&, i = std::size_t{0}](auto& optimizer, auto&) mutable {
      for (std::size_t g = 0; g != optimizer.groups(); ++g) optimizer.set_lr(g, rates[i++]);
    });
  }
  void begin_from(std::span<double const> rates) override {
    check_rates(rates.size(), now().size());
    each([&, i = std::size_t{0}](auto& optimizer, auto& scheduler) mutable {
      scheduler.begin_from(rates.subspan(i, optimizer.groups()));
      i += optimizer.groups();
    });
  }

 private:
  template <class F>
  void each(F&& f) const {
    run_.parts.optimizers->each_with_first(f);
  }

  State<R>& run_;
};

}  // namespace fulgurite::loop
