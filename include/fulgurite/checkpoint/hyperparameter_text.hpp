#pragma once
// The hyper-parameters of a run as text in the metadata of its files.

#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <fulgurite/checkpoint/archive_text.hpp>
#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/hyperparameters.hpp>

namespace fulgurite {

/// The entry of the metadata that holds them, where a run has any.
inline constexpr char const* hyperparameters_key = "hyperparameters";

/// `{"lr":0.001,"layers":4,"optimizer":"adam"}`, in the order in which they were declared, in the words of saved state:
/// a number that is no integer has a point or an exponent, and what JSON cannot say is an object ("$bits", "$bytes").
FULGURITE_COLD std::string hyperparameter_text(std::span<Hyperparameter const> all) {
  ArchiveNode tree{ArchiveNode::Object{}};
  for (auto const& [name, value] : all) {
    auto* const entry = name.starts_with('$') ? nullptr : std::get<ArchiveNode::Object>(tree.value).add(name);
    if (entry == nullptr)
      throw Error("fulgurite.checkpoint.hyperparameter",
                  "'" + name +
                      "' cannot be the name of a hyper-parameter in a file: it begins with '$', or is there "
                      "twice");
    std::visit(
        [&]<class T>(T const& now) {
          if constexpr (std::is_same_v<T, HyperparameterValues>) {
            ArchiveNode::List list;
            for (auto const& one : now) std::visit([&](auto const& v) { list.emplace_back().value = v; }, one);
            entry->value = std::move(list);
          } else entry->value = now;
        },
        value);
  }
  return to_text(tree);
}

}  // namespace fulgurite
