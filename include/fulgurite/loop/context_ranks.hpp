#pragma once
// What a context says of the processes that train one model together.

#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/tell.hpp>
#include <fulgurite/loop/context_place.hpp>
#include <fulgurite/loop/shared_decisions.hpp>

namespace fulgurite::loop {

/// With one process each of these is its own answer.
template <class R>
class RanksContext : public PlaceContext<R> {
  using Base = PlaceContext<R>;

 public:
  // Not inherited: the compiler would need the whole State before a model's configure_optimizers(ctx) is known.
  explicit constexpr RanksContext(State<R>& state) : Base(state) {}

  using typename Base::Asks;

  /// How many processes there are; `rank()` counts them from 0.
  int world() const {
    if constexpr (shares<R>) return state_->parts.strategy.world();
    else return 1;
  }
  /// A line on stdout, or several, of rank 0 alone. On a terminal it comes out above a progress bar.
  void print(std::string_view line) const {
    asked(Asks::warn);
    if (speaks_for_all(*state_)) fulgurite::tell(stdout, std::string(line) + "\n");
  }
  /// The numbers that each rank gives, in the order of ranks. Every rank has to come here, each as often as the others:
  /// never inside of an `if (ctx.rank() == 0)`, or in a step of an evaluation, of which ranks may have different
  /// numbers.
  std::vector<std::vector<double>> all_gather(std::span<double const> mine) const {
    asked(Asks::optimizers);
    std::vector<std::vector<double>> all;
    if constexpr (shares<R>) {
      std::string bytes(mine.size_bytes(), '\0');
      if (!mine.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
      for (auto const& one : state_->parts.strategy.gather(std::move(bytes))) {
        auto& numbers = all.emplace_back(one.size() / sizeof(double));
        if (!one.empty()) std::memcpy(numbers.data(), one.data(), one.size());
      }
    } else {
      all.emplace_back(mine.begin(), mine.end());
    }
    return all;
  }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  std::vector<Number> all_gather(Number mine) const {
    auto const number = static_cast<double>(mine);
    std::vector<Number> all;
    for (auto const& one : all_gather(std::span<double const>(&number, 1)))
      all.push_back(static_cast<Number>(one.front()));
    return all;
  }

  /// Rank 0's text for all: what was looked up outside of the program, such as the name of a folder. Every rank asks.
  std::string of_first_rank(std::string mine) const { return loop::of_first_rank(*state_, std::move(mine)); }
  /// Whether a moment in `seconds_now()` has come, by rank 0's clock. Every rank asks after each step, and as long as
  /// no moment has come that somebody asks for, that costs no message.
  bool has_come(double moment) const { return asked(Asks::seconds), loop::has_come(*state_, moment); }
  /// The signal by which the run ends, 0: none. `mine`: what has come to this process; the others hear of it with the
  /// next step's gradients, and then all of them get it at the end of the same batch.
  int signal_of_all(int mine) const {
    if constexpr (shares<R>) {
      if (mine != 0) state_->shared.signal = mine;
      return state_->shared.ends_by;
    } else {
      return mine;
    }
  }
  /// The same where all ranks meet, such as in teardown.
  int signal_here(int mine) const { return shared_signal(*state_, mine); }

 protected:
  using Base::asked;
  using Base::state_;
};

}  // namespace fulgurite::loop
