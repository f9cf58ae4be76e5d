#pragma once
// What a model or a data module says of its own settings, so that loggers and files can tell how a run was made.

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

/// A named setting of a run: `{"lr", 1e-3}`, `{"optimizer", std::string("adam")}`, `{"layers", std::int64_t{4}}`.
using Hyperparameter = std::pair<std::string, std::variant<bool, std::int64_t, double, std::string>>;

/// Collects settings in the order in which they are named. A model, a data module, or its member `hparams`, says which:
///
///   struct Settings {
///     double lr = 1e-3;
///     int layers = 4;
///     void hyperparameters(auto& list) const { list("lr", lr)("layers", layers); }
///   };
///   struct Net { Settings hparams; ... };
class HyperparameterList {
 public:
  /// A name again with another value is an Error: two places would tell two stories of one run.
  template <class V>
  HyperparameterList& operator()(std::string_view name, V const& value) {
    constexpr bool number = std::is_arithmetic_v<V>, text = std::convertible_to<V const&, std::string_view>;
    static_assert(number || text || std::is_enum_v<V>,
                  "[fulgurite.logger.hyperparameter] a hyper-parameter is a number, a truth value, an enum or a text: "
                  "convert it to one of these");
    if constexpr (std::same_as<V, bool>) add(name, value);
    else if constexpr (std::is_floating_point_v<V>) add(name, static_cast<double>(value));
    else if constexpr (number || std::is_enum_v<V>) add(name, static_cast<std::int64_t>(value));
    else if constexpr (text) add(name, std::string(std::string_view(value)));
    return *this;
  }

  /// What an object declares; one that declares nothing adds nothing.
  template <class T>
  HyperparameterList& of(T const& object) {
    if constexpr (requires { object.hyperparameters(*this); }) object.hyperparameters(*this);
    else if constexpr (requires { object.hparams.hyperparameters(*this); }) object.hparams.hyperparameters(*this);
    return *this;
  }

  std::vector<Hyperparameter> const& all() const { return all_; }

 private:
  FULGURITE_COLD void add(std::string_view name, Hyperparameter::second_type value) {
    for (auto const& [known, before] : all_) {
      if (known != name) continue;
      if (before == value) return;
      throw Error(
          "fulgurite.logger.hyperparameter_twice",
          "the hyper-parameter '" + std::string(name) +
              "' has one value in one place and another in another (model, data module): name them differently");
    }
    all_.emplace_back(name, std::move(value));
  }

  std::vector<Hyperparameter> all_{};
};

/// What these declare, together: `hyperparameters(model)`, `hyperparameters(model, data)`.
template <class... Ts>
std::vector<Hyperparameter> hyperparameters(Ts const&... objects) {
  HyperparameterList list;
  (list.of(objects), ...);
  return list.all();
}

}  // namespace fulgurite
