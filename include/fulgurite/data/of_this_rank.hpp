#pragma once
// A loader of which each process makes its own part.

#include <functional>
#include <type_traits>
#include <utility>

#include <fulgurite/data/named.hpp>

namespace fulgurite::data {

/// The loader that `of_this_rank` makes.
template <class L>
class OfThisRank : public L {
 public:
  static constexpr bool shards_itself = true;
  explicit OfThisRank(L loader) : L(std::move(loader)) {}
};

/// Says of a loader that cannot be shared out between processes that each of them was given its own part already:
/// `trainer.fit(net, data::of_this_rank(my_batches(rank)))`. The loader is moved in, or borrowed by std::ref. Said of a
/// loader that is the same in every process, all of them train on the same batches.
template <class L>
auto of_this_rank(L loader) {
  using Given = std::unwrap_reference_t<L>;
  using Kept = std::conditional_t<std::is_reference_v<Given>, Borrowed<std::remove_reference_t<Given>>, L>;
  return OfThisRank<Kept>(Kept(std::move(loader)));
}

}  // namespace fulgurite::data
