#pragma once
// The bodies of callback/pruning_masks.hpp.

#include <fulgurite/callback/pruning_masks.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite {

FULGURITE_BULK_BODY bool PruningChoice::operator()(std::string_view name) const {
  auto const any = [](auto const& list, std::string_view wanted) {
    for (auto const& one : list)
      if (one == wanted) return true;
    return false;
  };
  return parameters.empty() ? any(parameter_names, name.substr(name.rfind('.') + 1)) : any(parameters, name);
}

void SavedMask::state(auto& archive) { archive("name", name)("bits", bits)("initial", initial); }
FULGURITE_STATE(SavedMask)

}  // namespace fulgurite

namespace fulgurite::pruning {

FULGURITE_BULK_BODY SavedTensor pack(std::span<std::uint8_t const> mask) {
  std::vector<std::byte> bytes((mask.size() + 7) / 8);
  for (std::size_t i = 0; i != mask.size(); ++i)
    if (mask[i] != 0) bytes[i / 8] |= std::byte{1} << (i % 8);
  auto const size = static_cast<std::int64_t>(bytes.size());
  return {"U8", {size}, std::move(bytes)};
}

FULGURITE_BULK_BODY std::vector<std::uint8_t> unpack(SavedTensor const& bits, std::size_t size) {
  std::vector<std::uint8_t> mask(size);
  bits.read([&](SavedTensor::Bytes bytes) {
    for (std::size_t i = 0; i != size; ++i) mask[i] = std::to_integer<std::uint8_t>(bytes[i / 8] >> (i % 8)) & 1U;
  });
  return mask;
}

FULGURITE_BODY void refuse(std::string_view name) {
  throw Error("fulgurite.callback.pruning_state",
              "the saved masks do not fit '" + std::string(name) +
                  "': resume with the model and the ModelPruning options that were saved");
}

FULGURITE_BULK_BODY SavedMask const& find(std::vector<SavedMask> const& saved, std::string_view name, std::size_t size,
                                          bool with_initial) {
  for (auto const& one : saved)
    if (one.name == name && one.bits.size() == (size + 7) / 8 && (one.initial || !with_initial)) return one;
  refuse(name);
}

}  // namespace fulgurite::pruning
