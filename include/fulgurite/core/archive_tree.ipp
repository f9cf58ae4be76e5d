#pragma once
// The bodies of core/archive_tree.hpp.

#include <fulgurite/core/archive_tree.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY SavedTensor::SavedTensor() = default;
FULGURITE_BULK_BODY SavedTensor::SavedTensor(SavedTensor const&) = default;
FULGURITE_BULK_BODY SavedTensor& SavedTensor::operator=(SavedTensor const&) = default;
FULGURITE_MOVES_BODY(SavedTensor);

FULGURITE_BODY SavedTensor::SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, Fetch fetch)
    : dtype_(dtype), shape_(std::move(shape)), fetch_(std::move(fetch)) {
  auto const size = safetensors::bytes_of(dtype_, shape_);
  if (!size) refuse("a file cannot hold a tensor of type '" + dtype_ + "' and that shape");
  size_ = *size;
}

FULGURITE_BODY SavedTensor::SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape,
                                        std::vector<std::byte> bytes)
    : SavedTensor(dtype, std::move(shape), Fetch{}) {
  if (bytes.size() != size_)
    refuse("a tensor of " + std::to_string(size_) + " bytes was given " + std::to_string(bytes.size()));
  own_ = std::make_shared<std::vector<std::byte> const>(std::move(bytes));
}

FULGURITE_BODY SavedTensor::SavedTensor(std::string_view dtype, std::vector<std::int64_t> shape, Fetch fetch,
                                        std::any of, Keep how)
    : SavedTensor(dtype, std::move(shape), std::move(fetch)) {
  tensor_ = std::move(of);
  keep_ = how;
}

FULGURITE_BODY void SavedTensor::read(FunctionRef<void(Bytes)> f) const {
  if (own_) f(Bytes(*own_));
  else if (fetch_) fetch_(f);
  else f(Bytes{});
}

FULGURITE_BODY SavedTensor SavedTensor::owned() const {
  if (!fetch_) return *this;
  std::vector<std::byte> bytes;
  read([&](Bytes now) { bytes.assign(now.begin(), now.end()); });
  return {dtype_, shape_, std::move(bytes)};
}

FULGURITE_BODY SavedTensor SavedTensor::written_last() && {
  written_last_ = true;
  return std::move(*this);
}

FULGURITE_BODY std::string SavedTensor::description() const {
  std::string text;
  for (auto const extent : shape_) (text += text.empty() ? "" : ", ") += std::to_string(extent);
  return dtype_ + " [" + text + "]";
}

FULGURITE_BODY ArchiveNode const* ArchiveObject::find(std::string_view name) const {
  auto const found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second].node;
}

FULGURITE_BODY ArchiveNode* ArchiveObject::change(std::string_view name) {
  auto const found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second].node;
}

FULGURITE_BODY ArchiveNode* ArchiveObject::add(std::string_view name) {
  if (!places_.emplace(name, entries_.size()).second) return nullptr;
  return &entries_.emplace_back(ArchiveEntry{std::string(name), {}}).node;
}

FULGURITE_BODY ArchiveEntry const* ArchiveObject::end() const { return entries_.data() + entries_.size(); }

FULGURITE_BULK_BODY ArchiveNode::ArchiveNode() = default;
FULGURITE_BODY ArchiveNode::ArchiveNode(Value of) : value(std::move(of)) {}
FULGURITE_BULK_BODY ArchiveNode::ArchiveNode(ArchiveNode const&) = default;
FULGURITE_BULK_BODY ArchiveNode& ArchiveNode::operator=(ArchiveNode const&) = default;
FULGURITE_MOVES_BODY(ArchiveNode);

FULGURITE_BODY ArchiveNode const* ArchiveNode::find(std::string_view name) const {
  auto const* entries = std::get_if<Object>(&value);
  return entries == nullptr ? nullptr : entries->find(name);
}

FULGURITE_BODY bool ArchiveNode::holds_nothing() const {
  auto const* const object = std::get_if<Object>(&value);
  return object == nullptr ? std::holds_alternative<std::monostate>(value) : object->empty();
}

FULGURITE_BODY std::string archive::moved_name(std::string_view option) { return std::string(option) + " now"; }

}  // namespace fulgurite
