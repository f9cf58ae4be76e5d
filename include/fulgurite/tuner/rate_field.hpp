#pragma once
// Where a model keeps its learning rate.

#include <concepts>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <utility>

namespace fulgurite::tune {

/// The types in which a model may keep its learning rate.
template <class T>
inline constexpr bool is_rate = std::is_same_v<T, double> || std::is_same_v<T, float>;
/// The member of a model that is meant where none is named: `lr`, else `learning_rate`.
template <class M>
concept HasLr = requires(M& model) { model.lr; };
/// The second of these names.
template <class M>
concept HasLearningRate = requires(M& model) { model.learning_rate; };

/// `&Net::rate`; a function, `[](Net& net) -> double& { return net.options.rate; }`; nullptr: nowhere; not given: the
/// model's `lr`, or its `learning_rate`. The type is double or float.
template <class Model>
class RateField {
 public:
  template <class M = Model>
  RateField() {
    static_assert(HasLr<M> || HasLearningRate<M>,
                  "[fulgurite.tuner.no_field] the model has neither `lr` nor `learning_rate` to put the rate into: say "
                  "where by .update = &Net::rate, or .update = nullptr to have the result alone");
    if constexpr (HasLr<M>) use([](M& model) -> decltype(auto) { return (model.lr); });
    else if constexpr (HasLearningRate<M>) use([](M& model) -> decltype(auto) { return (model.learning_rate); });
  }
  RateField(std::nullptr_t) {}
  template <class T, class Owner>
    requires std::derived_from<Model, Owner>
  RateField(T Owner::* field) {
    use([field](Model& model) -> decltype(auto) { return (model.*field); });
  }
  template <class F>
    requires std::invocable<F&, Model&> && (!std::is_member_pointer_v<F>)
  RateField(F of) {
    use(std::move(of));
  }

  void set(Model& model, double rate) const {
    if (set_) set_(model, rate);
  }

 private:
  template <class F>
  void use(F of) {
    using Got = decltype(of(std::declval<Model&>()));
    constexpr bool fine = std::is_lvalue_reference_v<Got> && is_rate<std::remove_reference_t<Got>>;
    static_assert(fine, "[fulgurite.tuner.field_type] a learning rate is put into a member of type double or float: "
                        "give it that type, and a function that finds it returns a reference, [](Net& net) -> double& "
                        "{ ... }");
    if constexpr (fine)
      set_ = [of = std::move(of)](Model& model, double rate) mutable {
        of(model) = static_cast<std::remove_reference_t<Got>>(rate);
      };
  }

  std::function<void(Model&, double)> set_ = nullptr;
};

}  // namespace fulgurite::tune
