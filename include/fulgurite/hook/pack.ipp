#pragma once
// The bodies of hook/pack.hpp.

#include <atomic>

#include <fulgurite/hook/pack.hpp>

namespace fulgurite::action {

FULGURITE_BULK_BODY std::size_t new_id() {
  static std::atomic<std::size_t> next{0};
  return next++;
}

FULGURITE_BODY std::string name_of(std::string_view role, std::string_view type, std::string_view what) {
  std::string all = "[";
  (all += role) += ']';
  (all += type) += '.';
  return all += what;
}

}  // namespace fulgurite::action
