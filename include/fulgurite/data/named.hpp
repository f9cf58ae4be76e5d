#pragma once
// An evaluation loader with a name, by which its values are told from those of other loaders.

#include <functional>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/concept/waited.hpp>
#include <fulgurite/core/fixed_string.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite::data {

/// Refers to a loader that belongs to somebody else, and is a loader itself.
template <class L>
class Borrowed {
 public:
  static constexpr bool batches_stay_valid = BatchesStayValid<L>;
  static constexpr bool wraps_loaders = true;  ///< what is missing in the loader is missing here
  static constexpr bool shards_itself = ShardsItself<L>;

  explicit Borrowed(L& loader) : loader_(&loader) {}

  L& get() const { return *loader_; }
  auto begin() const { return std::begin(get()); }
  auto end() const { return std::end(get()); }
  auto size() const
    requires SizedLoader<L>
  {
    return get().size();
  }
  void set_epoch(long epoch) const
    requires requires(L& loader) { loader.set_epoch(epoch); }
  {
    get().set_epoch(epoch);
  }
  void resume_at(long batch) const
    requires requires(L& loader) { loader.resume_at(batch); }
  {
    get().resume_at(batch);
  }
  long batch_size() const
    requires SettableBatchSize<L>
  {
    return loop::batch_size_of(get());
  }
  void set_batch_size(long size) const
    requires SettableBatchSize<L>
  {
    loop::set_batch_size_of(get(), size);
  }
  void shard(int rank, int world, bool training) const
    requires ShardableLoader<L>
  {
    loop::shard_of(get(), rank, world, training);
  }
  auto share() const
    requires requires(L const& loader) { loader.share(); }
  {
    return get().share();
  }
  auto in_order(bool on) const
    requires KeepsOrder<L>
  {
    return get().in_order(on);
  }
  void limit_each(double part) const
    requires requires(L& loader) { loader.limit_each(part); }
  {
    get().limit_each(part);
  }
  Waited waited() const
    requires TellsWaiting<L>
  {
    return get().waited();
  }
  template <class Archive>
    requires Stateful<L, Archive>
  void state(Archive& archive) const {
    get().state(archive);
  }

 private:
  L* loader_;
};

/// The loader that `named` makes: the one it was given, with a name.
template <FixedString Name, class L>
class Named : public L {
 public:
  static constexpr std::string_view loader_name = Name.view();
  explicit Named(L loader) : L(std::move(loader)) {}
};

/// Names evaluation loaders: `std::tuple{data::named<"clean">(std::move(clean)),
/// data::named<"noisy">(std::ref(noisy))}`. Their metrics are then called `val_loss/clean` and `val_loss/noisy` instead
/// of `val_loss/dataloader_idx_0` and `_1`. The loader is moved in, or borrowed by std::ref.
template <FixedString Name, class L>
auto named(L loader) {
  using Given = std::unwrap_reference_t<L>;  // a reference where std::ref was given
  using Kept = std::conditional_t<std::is_reference_v<Given>, Borrowed<std::remove_reference_t<Given>>, L>;
  return Named<Name, Kept>(Kept(std::move(loader)));
}

}  // namespace fulgurite::data
