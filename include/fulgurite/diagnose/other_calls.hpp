#pragma once
// Calls of a trainer with another number of arguments than any has.

#include <cstddef>
#include <vector>

#include <fulgurite/diagnose/argument_rules.hpp>
#include <fulgurite/diagnose/call_rules.hpp>
#include <fulgurite/diagnose/subject.hpp>
#include <fulgurite/loop/ckpt_path.hpp>
#include <fulgurite/loop/names.hpp>

namespace fulgurite::judge {

/// Each is refused in the same sentence. `M`: the trainer's model.
template <class M>
class OtherCalls {
 public:
  template <class... Args>
    requires(sizeof...(Args) == 0 || (sizeof...(Args) > 3 && !loop::names_file<Args...>))
  void fit(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
  }
  template <class... Args>
    requires(sizeof...(Args) != 2 && !loop::names_file<Args...> && !is_model<M, Args...>)
  std::vector<std::vector<MetricValue>> validate(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
    return {};
  }
  template <class... Args>
    requires(sizeof...(Args) != 2 && !loop::names_file<Args...> && !is_model<M, Args...>)
  std::vector<std::vector<MetricValue>> test(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
    return {};
  }
  template <class... Args>
    requires(sizeof...(Args) != 2 && sizeof...(Args) != 3 && !loop::names_file<Args...>)
  std::vector<std::vector<refusal::Nothing>> predict(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
    return {};
  }
};

}  // namespace fulgurite::judge
