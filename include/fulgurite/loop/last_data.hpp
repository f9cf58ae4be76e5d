#pragma once
// The data module of a trainer's last fit, for validate(model) and test(model).

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/evaluation_kind.hpp>
#include <fulgurite/loop/names.hpp>

namespace fulgurite::loop {

/// Borrowed, with what evaluates on it: the trainer's type does not tell the module's.
template <class Trainer, class M>
class LastData {
 public:
  using Results = std::vector<std::vector<MetricValue>>;

  /// `Validates`, `Tests`: the module has the loaders, and the model the step that takes their batches.
  template <bool Validates, bool Tests, class Module>
  void remember(Module& module) {
    module_ = const_cast<void*>(static_cast<void const*>(std::addressof(module)));
    validate_ = test_ = nullptr;
    if constexpr (Validates)
      validate_ = [](Trainer& trainer, M& model, void* data) {
        return trainer.validate(model, *static_cast<Module*>(data));
      };
    if constexpr (Tests)
      test_ = [](Trainer& trainer, M& model, void* data) { return trainer.test(model, *static_cast<Module*>(data)); };
  }
  void forget() { *this = {}; }

  template <class Kind>
  Results evaluate(Trainer& trainer, M& model) const {
    constexpr bool tests = std::is_same_v<Kind, Testing>;
    auto const evaluate = tests ? test_ : validate_;
    if (evaluate) return evaluate(trainer, model, module_);
    std::string const verb = tests ? "test" : "validate";
    std::string why = verb;
    why += "(model) takes the data module of the last fit, and ";
    why += module_ ? "that one has no " + std::string(tests ? "test" : "val") + "_dataloader(), or the model no " +
                         (tests ? "test" : "validation") + "_step for it"
                   : std::string("there was no fit with one that is still a variable");
    throw Error("fulgurite.trainer.no_data", why + ": pass the data, trainer." + verb + "(model, data)");
  }

 private:
  using Evaluate = Results (*)(Trainer&, M&, void*);
  void* module_ = nullptr;
  Evaluate validate_ = nullptr, test_ = nullptr;
};

}  // namespace fulgurite::loop
