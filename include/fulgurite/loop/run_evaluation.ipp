#pragma once
// The bodies of loop/run_evaluation.hpp.

#include <fulgurite/loop/run_evaluation.hpp>

namespace fulgurite::loop {

FULGURITE_BULK_BODY void NoRates::set(std::span<double const> rates) { check_rates(rates.size(), 0); }

FULGURITE_BULK_BODY void NoRates::begin_from(std::span<double const> rates) { check_rates(rates.size(), 0); }

}  // namespace fulgurite::loop
