#pragma once
// A batch that is cut along time and was left between two of its slices: how many were stepped on, and the model's
// state behind them.

#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fulgurite/core/state.hpp>
#include <fulgurite/loop/recurrent.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

/// What a file can hold of a Hidden: tensors, numbers, whatever has `state(archive)`, and tuples, pairs, arrays and
/// vectors of those.
template <class Backend, class T>
inline constexpr bool hidden_is_kept =
    Backend::template is_value<T> || Stateful<T, ArchiveProbe> || std::is_arithmetic_v<T>;
template <class Backend, class T>
inline constexpr bool hidden_is_kept<Backend, std::vector<T>> = hidden_is_kept<Backend, T>;
template <class Backend, class T>
  requires(!Backend::template is_value<T> && !Stateful<T, ArchiveProbe> && requires { std::tuple_size<T>::value; })
inline constexpr bool hidden_is_kept<Backend, T> = []<std::size_t... I>(std::index_sequence<I...>) {
  return (hidden_is_kept<Backend, std::tuple_element_t<I, T>> && ...);
}(std::make_index_sequence<std::tuple_size_v<T>>());

/// One part of a Hidden. A tensor that is loaded gets the device of `beside`.
template <class Backend, class Archive, class T>
void fold_hidden(Archive& archive, std::string const& name, T& part, typename Backend::Value const& beside) {
  if constexpr (Backend::template is_value<T>) {
    if constexpr (Archive::loading) {
      if (lacks(archive, name)) return;  // it was no tensor at all
      auto saved = Backend::saved(beside);
      archive.tensor(name, saved);
      part = Backend::made_from(saved, beside);
    } else if (part.defined()) {
      archive.tensor(name, Backend::saved(part));
    }
  } else if constexpr (Stateful<T, ArchiveProbe>) {
    archive.child(name, part);
  } else if constexpr (std::is_arithmetic_v<T>) {
    archive(name, part);
  } else {
    archive.child(name, [&](auto& inner) {
      auto one = [&, at = 0](auto& element) mutable {
        fold_hidden<Backend>(inner, std::to_string(at++), element, beside);
      };
      if constexpr (requires { std::tuple_size<T>::value; }) {
        std::apply([&](auto&... all) { (one(all), ...); }, part);
      } else {
        // Which of them are tensors that are there. A list is as long as its text: a number of elements could say
        // anything, in a file of a stranger's.
        std::vector<bool> there;
        for (auto const& element : part) {
          if constexpr (requires { element.defined(); }) there.push_back(element.defined());
          else there.push_back(true);
        }
        inner("there", there);
        part.resize(there.size());
        for (auto& element : part) one(element);
      }
    });
  }
}

/// Nothing where no batch is open.
template <class R, class Archive>
void fold_slices(State<R>& run, Archive& archive) {
  if constexpr (Recurrent<typename R::Model>) {
    using Backend = typename R::Backend;
    auto& carried = run.carried;
    if constexpr (Archive::loading) {
      carried.slices = 0;
      if (lacks(archive, "slices")) return;
      carried.hidden.reset();
    } else if (carried.slices == 0) {
      return;
    }
    if constexpr (hidden_is_kept<Backend, typename R::Model::Hidden>) {
      auto const weights = Backend::weights(*run.parts.model);
      if (weights.empty()) return;
      archive.child("slices", [&](auto& inner) {
        inner("stepped", carried.slices);
        bool given = carried.hidden.has_value();
        inner("given", given);
        if (!given) return;
        if (!carried.hidden) carried.hidden.emplace();
        fold_hidden<Backend>(inner, "hidden", *carried.hidden, weights.front());
      });
    } else {
      run.warn(
          "fulgurite.resume.hidden",
          "the run was left between two slices of a batch, and a file cannot hold the model's Hidden: the batch is "
          "done again with all of its slices; give Hidden a state(archive)");
    }
  }
}

}  // namespace fulgurite::loop
