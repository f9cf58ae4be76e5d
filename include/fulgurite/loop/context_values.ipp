#pragma once
// The bodies of loop/context_values.hpp.

#include <fulgurite/loop/context_values.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY bool WatchedValue::is_newer_than(long before) const {
  return value && (logged == unknown || logged != before);
}

}  // namespace fulgurite::loop
