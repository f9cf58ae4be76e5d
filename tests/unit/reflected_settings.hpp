#pragma once
// Settings that are named once, for tests of report/reflected.hpp: the naming stands in the global namespace.

#include <cstdint>
#include <string>
#include <tuple>

#include <fulgurite/report/reflected.hpp>

namespace reflected_settings {

enum class Kind : std::uint8_t { small, large };
struct Settings {
  double lr = 1e-3;
  int layers = 4;
  bool bias = true;
  Kind kind = Kind::large;
  std::string optimizer = "adam";
  static constexpr auto ranges = std::tuple(fulgurite::reflect::within(&Settings::lr, 0.0, 1.0),
                                            fulgurite::reflect::at_least(&Settings::layers, 1));
  void hyperparameters(auto& list) const { fulgurite::reflect::list(*this, list); }
  void state(auto& archive) { fulgurite::reflect::state(*this, archive); }
};

}  // namespace reflected_settings

BOOST_HANA_ADAPT_STRUCT(reflected_settings::Settings, lr, layers, bias, kind, optimizer);
