#pragma once
// What the compiler knows of a fact: yes, no, or "ask at run time".

#include <cstdint>

namespace fulgurite {

/// A trait such as `Strategy::on_gpu`. With `at_run_time` a rule becomes an early exception instead of a compile error.
enum class Known : std::uint8_t { no, yes, at_run_time };

}  // namespace fulgurite
