#pragma once
// Calls of a trainer with another number of arguments than any has, or with a file as an option.

#include <cstddef>
#include <type_traits>
#include <vector>

#include <fulgurite/diagnose/argument_rules.hpp>
#include <fulgurite/diagnose/call_rules.hpp>
#include <fulgurite/diagnose/member_sentences.hpp>
#include <fulgurite/diagnose/subject.hpp>
#include <fulgurite/loop/ckpt_path.hpp>
#include <fulgurite/loop/names.hpp>

namespace fulgurite::judge {

/// Each is refused in a sentence. `M`: the trainer's model.
template <class M>
class OtherCalls {
  using Option = refusal::CkptPathOption;

 public:
  template <class Model, bool Fine = false>
  void fit(Model&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
  }
  template <class Model, class Data, bool Fine = false>
  void fit(Model&&, Data&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
  }
  template <class Model, class Data, class Val, bool Fine = false>
  void fit(Model&&, Data&&, Val&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
  }
  template <class Model, class Data, bool Fine = false>
  std::vector<std::vector<MetricValue>> validate(Model&&, Data&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
    return {};
  }
  template <class Model, class Data, bool Fine = false>
  std::vector<std::vector<MetricValue>> test(Model&&, Data&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
    return {};
  }
  template <class Model, class Data, bool Fine = false>
  std::vector<std::vector<refusal::Nothing>> predict(Model&&, Data&&, Option) {
    static_assert(Fine, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
    return {};
  }

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
    requires(sizeof...(Args) != 2 && !loop::names_file<Args...> &&
             !(std::is_same_v<std::remove_cvref_t<Args>, DiscardPredictions> || ...))
  std::vector<std::vector<refusal::Nothing>> predict(Args&&...) {
    static_cast<void>(CallRules<Args...>::template judge<true>());
    return {};
  }
};

}  // namespace fulgurite::judge
