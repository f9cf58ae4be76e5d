#pragma once
// Copies of the tensors in a saved state, where the tensors are: a few operations of the tensor library for all of
// them.

#include <map>
#include <vector>

#include <fulgurite/checkpoint/archive_tree.hpp>

namespace fulgurite {

/// Which tensors of a state are copied.
enum class Copied : bool {
  all,          ///< so that no later change reaches the state
  written_soon  ///< without those that a load writes to last: the state is for going back where it fails before
};

/// Puts copies in the place of handles. Each library copies its own at once, on their devices; bytes of a handle that
/// belongs to none are fetched.
inline void keep_tensors(ArchiveNode& tree, Copied which = Copied::all) {
  std::map<SavedTensor::Keep, std::vector<SavedTensor*>> by_library;
  each_tensor(tree, [&](ArchiveTensor& one) {
    if (which == Copied::written_soon && one.tensor.is_written_last()) return;
    if (auto const keep = one.tensor.keep()) by_library[keep].push_back(&one.tensor);
    else one.tensor = one.tensor.owned();
  });
  for (auto const& [keep, handles] : by_library) keep(handles);
}

}  // namespace fulgurite
