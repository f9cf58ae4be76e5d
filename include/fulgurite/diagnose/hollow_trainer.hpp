#pragma once
// What stands in for a trainer that the compiler has refused.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/diagnose/subject.hpp>
#include <fulgurite/loop/names.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/outcome.hpp>
#include <fulgurite/loop/progress.hpp>

namespace fulgurite {

/// What a trainer holds, if it is well-formed. A refused one is hollow: it declares the interface, so that nothing else
/// is reported.
template <bool Sound, class M, class S, class P, class O, class... Cs>
class TrainerBody {
 public:
  struct Run {
    using Model = M;
  };
  template <class... Args>
  TrainerBody(Args&&...) {}
  template <class... Args>
  void fit(Args&&...) {}
  template <class... Args>
  std::vector<std::vector<MetricValue>> validate(Args&&...) {
    return {};
  }
  template <class... Args>
  std::vector<std::vector<MetricValue>> test(Args&&...) {
    return {};
  }
  template <class... Args>
  std::vector<std::vector<refusal::Nothing>> predict(Args&&...) {
    return {};
  }
  void save_checkpoint(std::filesystem::path const&) {}
  refusal::Nothing snapshot() { return {}; }
  template <class From>
  void restore(From const&) {}
  template <class... Args>
  void search(Args&&...) {}
  template <class Kind, class... Args>
  void search_evaluation(Args&&...) {}
  void set_options(TrainerOptions const&) {}
  void set_optimization(O const&) {}
  TrainerOptions const& given_options() const;
  template <class T>
  T& callback();
  template <template <class...> class T>
  typename refusal::Only<T, Cs...>::type& callback();
  template <class Metric>
  std::optional<double> value(Metric const&) const {
    return {};
  }
  Progress const& progress() const;
  std::vector<std::string> const& warnings() const;
  Outcome const& outcome() const;
  TrainerOptions const& options() const;
  O const& optimization() const;
  S const& strategy() const;
};

}  // namespace fulgurite
