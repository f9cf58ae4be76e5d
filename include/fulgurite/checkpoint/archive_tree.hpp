#pragma once
// Saved state in memory: named values, tensors and children.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fulgurite/checkpoint/saved_tensor.hpp>

namespace fulgurite {

struct ArchiveNode;
struct ArchiveEntry;

/// Named values in the order in which they were added. A look-up takes logarithmic time, so that an object may have any
/// number of entries.
class ArchiveObject {
 public:
  inline ArchiveNode const* find(std::string_view name) const;  ///< nullptr where there is none of that name
  inline ArchiveNode* change(std::string_view name);            ///< the same, to be changed
  inline ArchiveNode* add(std::string_view name);               ///< an empty entry; nullptr where there is one already
  template <class F>
  void each(F&& f);  ///< f(ArchiveNode&) for all entries, in their order
  inline bool empty() const;
  inline ArchiveEntry const* begin() const;
  inline ArchiveEntry const* end() const;

 private:
  std::vector<ArchiveEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

/// A tensor, and its full name in the state: "callbacks.EarlyStopping.values[3]".
struct ArchiveTensor {
  std::string name;
  SavedTensor tensor;
};

/// One value: nothing (an empty optional), a scalar, a list, an object with named entries, or a tensor.
/// Integers are `int64_t` wherever they fit, `uint64_t` only above.
struct ArchiveNode {
  using List = std::vector<ArchiveNode>;
  using Object = ArchiveObject;
  enum class Read : std::uint8_t { no, yes, need_not };
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List, Object, ArchiveTensor>
      value;
  mutable Read read = Read::no;  ///< of an entry: whether something was loaded from it

  /// An entry of an object, or nullptr.
  ArchiveNode const* find(std::string_view name) const {
    auto const* entries = std::get_if<Object>(&value);
    return entries == nullptr ? nullptr : entries->find(name);
  }
  inline bool holds_nothing() const;  ///< an object without entries, or no value at all
};

/// A named value of an object.
struct ArchiveEntry {
  std::string name;
  ArchiveNode node;
};

inline ArchiveNode const* ArchiveObject::find(std::string_view name) const {
  auto const found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second].node;
}
inline ArchiveNode* ArchiveObject::change(std::string_view name) {
  auto const found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second].node;
}
inline ArchiveNode* ArchiveObject::add(std::string_view name) {
  if (!places_.emplace(name, entries_.size()).second) return nullptr;
  return &entries_.emplace_back(ArchiveEntry{std::string(name), {}}).node;
}
template <class F>
void ArchiveObject::each(F&& f) {
  for (auto& entry : entries_) f(entry.node);
}
inline bool ArchiveObject::empty() const { return entries_.empty(); }
inline ArchiveEntry const* ArchiveObject::begin() const { return entries_.data(); }
inline ArchiveEntry const* ArchiveObject::end() const { return entries_.data() + entries_.size(); }

inline bool ArchiveNode::holds_nothing() const {
  auto const* const object = std::get_if<Object>(&value);
  return object == nullptr ? std::holds_alternative<std::monostate>(value) : object->empty();
}

namespace archive {
/// Where the present value of an option stands that a run may move, beside what the program gave.
inline std::string moved_name(std::string_view option) { return std::string(option) + " now"; }
}  // namespace archive

/// f(ArchiveNode&) for what stands directly below a node.
template <class F>
void each_child(ArchiveNode& node, F&& f) {
  if (auto* const list = std::get_if<ArchiveNode::List>(&node.value))
    for (auto& item : *list) f(item);
  if (auto* const object = std::get_if<ArchiveNode::Object>(&node.value)) object->each(f);
}
/// f(ArchiveTensor&) for each tensor of a tree, in the order in which they were saved.
template <class F>
void each_tensor(ArchiveNode& node, F&& f) {
  if (auto* const one = std::get_if<ArchiveTensor>(&node.value)) f(*one);
  each_child(node, [&](ArchiveNode& child) { each_tensor(child, f); });
}

}  // namespace fulgurite
