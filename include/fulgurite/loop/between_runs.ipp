#pragma once
// The bodies of loop/between_runs.hpp.

#include <fulgurite/loop/between_runs.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY void NoRates::set(std::span<double const> rates) { check_rates(rates.size(), 0); }

FULGURITE_BULK_BODY void NoRates::begin_from(std::span<double const> rates) { check_rates(rates.size(), 0); }

}  // namespace fulgurite::loop
