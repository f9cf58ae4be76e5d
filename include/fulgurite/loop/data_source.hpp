#pragma once
// Where a run takes its batches from: loaders given to fit, a data module, or the model itself. Loaders are asked for
// once, when needed.

#include <concepts>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <fulgurite/hook/call.hpp>

namespace fulgurite {

/// Says on purpose that a validation_step has no loader, or a validation loader no step: `trainer.fit(model, data,
/// NoValidation{})`.
struct NoValidation {};

/// In the place of a data module where loaders were given directly.
struct NoModule {};

namespace loop {

/// Keeps what a loader factory returned: the object, or a pointer where it returned a reference.
template <class Returned>
class Kept {
 public:
  template <class Make>
  auto& get(Make&& make) {
    if (!kept_) {
      if constexpr (std::is_reference_v<Returned>) kept_ = &make();
      else kept_.emplace(make());
    }
    return *kept_;
  }
  void drop() {
    kept_ = {};
    fresh_ = true;
  }
  /// True once for each time that a loader was asked for.
  bool is_fresh() { return std::exchange(fresh_, false); }

 private:
  bool fresh_ = true;
  std::conditional_t<std::is_reference_v<Returned>, std::remove_reference_t<Returned>*,
                     std::optional<std::remove_reference_t<Returned>>>
      kept_{};
};

template <class T>
inline constexpr bool is_tuple = false;
template <class... Ts>
inline constexpr bool is_tuple<std::tuple<Ts...>> = true;

/// One evaluation loader, or a tuple of them, as a tuple of references.
template <class L>
auto as_tuple(L& loaders) {
  if constexpr (is_tuple<std::remove_const_t<L>>)
    return std::apply([](auto&... l) { return std::tuple<decltype(l)...>(l...); }, loaders);
  else return std::tuple<L&>(loaders);
}

/// Loaders handed to the trainer.
template <class Train, class Eval>
struct GivenLoaders {
  static constexpr bool trains = !std::is_same_v<std::remove_const_t<Train>, NoModule>;
  template <class Hook>
  static constexpr bool evaluates =
      !std::is_same_v<std::remove_const_t<Eval>, NoModule> && !std::is_same_v<std::remove_const_t<Eval>, NoValidation>;
  Train& given_train;
  Eval& given_eval;
  NoModule none{};
  bool train_is_fresh = true, eval_is_fresh = true;

  auto& module() { return none; }
  /// The same as it was before any loader was asked for.
  GivenLoaders anew() { return {given_train, given_eval}; }
  bool is_train_fresh() { return std::exchange(train_is_fresh, false); }
  template <class Hook>
  bool is_fresh() {
    return std::exchange(eval_is_fresh, false);
  }
  auto& train() { return given_train; }
  template <class Hook>
  auto evaluation() {
    return as_tuple(given_eval);
  }
};

/// It has that function, and the function returns something.
template <class Hook, class Module>
consteval bool gives_loader() {
  if constexpr (Hook::template accepts<Module>) return !std::is_void_v<decltype(Hook::call(std::declval<Module&>()))>;
  else return false;
}

/// A data module, or a model that has the loaders itself; `Validates` is false where NoValidation was said.
template <class Module, bool Validates>
struct ModuleLoaders {
  template <class Hook>
  static consteval bool returns() {
    return gives_loader<Hook, Module>();
  }
  static constexpr bool trains = returns<hook::train_dataloader>();
  template <class Hook>
  static constexpr bool evaluates = returns<Hook>() && (Validates || !std::is_same_v<Hook, hook::val_dataloader>);

  Module& from;

  explicit ModuleLoaders(Module& data) : from(data) {}
  Module& module() { return from; }
  /// The same as it was before any loader was asked for.
  ModuleLoaders anew() { return ModuleLoaders(from); }
  bool is_train_fresh() { return train_.is_fresh(); }
  template <class Hook>
  bool is_fresh() {
    return slot<Hook>()->is_fresh();
  }
  /// The next call asks for the loader anew (reload_dataloaders_every_n_epochs).
  void reload_training() { train_.drop(); }
  void reload_validation() { val_.drop(); }
  auto& train() {
    return train_.get([this]() -> decltype(auto) { return from.train_dataloader(); });
  }
  template <class Hook>
  auto evaluation() {
    return as_tuple(slot<Hook>()->get([this]() -> decltype(auto) { return Hook::call(from); }));
  }

 private:
  struct Nothing {};
  template <class Hook>
  static auto returned() {
    if constexpr (returns<Hook>()) return std::type_identity<decltype(Hook::call(std::declval<Module&>()))>{};
    else return std::type_identity<Nothing>{};
  }
  template <class Hook>
  using Returned = typename decltype(returned<Hook>())::type;

  template <class Hook>
  auto* slot() {
    if constexpr (std::is_same_v<Hook, hook::val_dataloader>) return &val_;
    else if constexpr (std::is_same_v<Hook, hook::test_dataloader>) return &test_;
    else return &predict_;
  }

  Kept<Returned<hook::train_dataloader>> train_;
  Kept<Returned<hook::val_dataloader>> val_;
  Kept<Returned<hook::test_dataloader>> test_;
  Kept<Returned<hook::predict_dataloader>> predict_;
};

}  // namespace loop
}  // namespace fulgurite
