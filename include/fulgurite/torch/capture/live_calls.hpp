#pragma once
// Which calls of a recorded step a replay runs again, and the counts of a tape.

#include <cstddef>
#include <unordered_set>
#include <vector>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/frozen.hpp>
#include <fulgurite/torch/capture/listing.hpp>
#include <fulgurite/torch/capture/recorder.hpp>

namespace fulgurite::libtorch::capture {

/// Counts that describe a tape to a person.
struct TapeFacts {
  std::size_t recorded = 0, replayed = 0, views = 0, constants = 0, dead = 0, out_forms = 0, direct = 0;
  std::size_t products = 0;  ///< of the replayed, those that a kernel of ours computes
  std::size_t small = 0;     ///< of the replayed, those that are functions on few numbers instead of operators
  std::size_t bytes = 0;     ///< kept for what the step computes
};

/// All that are not known to be without effect.
FULGURITE_BULK std::vector<bool> live_calls(std::vector<Call> const& calls, std::vector<at::Tensor> const& leaving,
                                            Listing const& listing, TapeFacts& facts) {
  std::unordered_set<Storage> needed;
  for (auto const& tensor : leaving) needed.insert(storage_of(tensor));
  auto const touches = [&](Stack const& values) {
    bool any = false;
    each_tensor_of(values, [&](at::Tensor const& tensor) {
      any = any || needed.contains(storage_of(tensor)) || listing.role(tensor).kind != Role::Kind::made;
    });
    return any;
  };
  std::vector<bool> alive(calls.size());
  for (std::size_t i = calls.size(); i-- > 0;) {
    auto const& call = calls[i];
    auto const name = call.name();
    if (listing.view[i]) {
      ++facts.views;
      continue;
    }
    bool const factory = is_empty_factory(name) || is_constant_factory(name);
    bool const pure = (call.op.hasTag(at::Tag::pointwise) || factory ||
                       one_of(name, {"aten::fill_", "aten::zero_", "aten::copy_"})) &&
                      !call.op.hasTag(at::Tag::nondeterministic_seeded);
    bool const unseen = !touches(call.out) && !(call.op.schema().is_mutable() && touches(call.in));
    if (is_empty_factory(name) || (pure && unseen)) {
      ++facts.dead;
      continue;
    }
    alive[i] = true;
    each_tensor_of(call.in, [&](at::Tensor const& tensor) { needed.insert(storage_of(tensor)); });
  }
  return alive;
}

}  // namespace fulgurite::libtorch::capture
