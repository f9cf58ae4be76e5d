#pragma once
// One loader among several that are read side by side, and how far it has been read.

#include <concepts>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/data/batches.hpp>

namespace fulgurite::data {

/// The type of a loader's batches, as a value.
template <class L>
using BatchOf = std::remove_cvref_t<decltype(*std::begin(std::declval<L&>()))>;

/// One of the combined loaders and its position. `L` is a reference where the loader was given by std::ref.
template <class L>
class CombinedPart {
 public:
  using Loader = std::remove_reference_t<L>;

  explicit CombinedPart(L loader) : loader_(std::forward<L>(loader)) {}

  Loader& loader() { return loader_; }
  Loader const& loader() const { return loader_; }
  bool ended() const { return ended_; }  ///< at least once in this epoch

  /// The batches of one pass, after the limit; negative where the number is not known.
  long size() const {
    if constexpr (SizedLoader<Loader>) {
      auto const all = static_cast<long>(const_cast<Loader&>(loader_).size());
      return part_ < 1 ? static_cast<long>(static_cast<double>(all) * part_) : all;
    } else {
      return -1;
    }
  }
  void limit(double part) { part_ = part; }

  /// Begins pass `number` at its batch `first`. `ended` says whether earlier passes of this epoch were completed.
  void open(long number, long first, bool ended) {
    at_.reset();
    if constexpr (requires { loader_.set_epoch(number); }) loader_.set_epoch(number);
    if constexpr (requires { loader_.resume_at(first); }) loader_.resume_at(first);
    at_.emplace(std::begin(loader_));
    number_ = number;
    taken_ = first;
    ended_ = ended;
    if constexpr (!requires { loader_.resume_at(first); })
      for (; first > 0 && *at_ != std::end(loader_); --first) ++*at_;
    fresh_ = true;
  }
  void close() {
    at_.reset();
    ended_ = true;
  }
  void again() { open(number_ + 1, 0, true); }

  /// Takes the next batch of this pass; false where there is none.
  bool take(std::optional<BatchOf<L>>& into) {
    if (!at_) return false;
    bool const limited = part_ < 1 && taken_ == size();  // what lies behind a limit is not read
    if (!limited && !std::exchange(fresh_, false)) ++*at_;
    if (limited || !(*at_ != std::end(loader_))) return close(), false;
    ++taken_;
    decltype(auto) batch = **at_;
    // Loaders of this library hold a batch for us alone, so it can be moved; elsewhere it may be the user's own.
    if constexpr (std::derived_from<Loader, Batches<Loader, BatchOf<L>>> || !std::is_reference_v<decltype(batch)>)
      into.emplace(std::move(batch));
    else into.emplace(batch);
    return true;
  }

 private:
  L loader_;
  std::optional<decltype(std::begin(std::declval<Loader&>()))> at_{};
  double part_ = 1;
  long number_ = 0, taken_ = 0;
  bool fresh_ = false, ended_ = false;
};

}  // namespace fulgurite::data
