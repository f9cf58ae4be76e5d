#pragma once
// Weights for Python: a file that torch.load reads.

#include <filesystem>

#include <fulgurite/checkpoint/pt_writer.hpp>
#include <fulgurite/torch/weights/parameters.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite {

/// Writes parameters and buffers of a model, or of a part of one, for Python:
///   save_pt(model, "weights.pt");            // C++
///   net.load_state_dict(torch.load("weights.pt"))  # Python
/// The file is replaced as a whole, or stays as it was.
template <class Model>
void save_pt(Model& model, std::filesystem::path const& path) {
  if constexpr (libtorch::PartOfModel<Model>)
    write_pt(path, [&](auto&& f) { libtorch::each_weight(libtorch::module_of(model), f); });
  else write_pt(path, [&](auto&& f) { libtorch::each_weight(model, f); });
}

}  // namespace fulgurite
