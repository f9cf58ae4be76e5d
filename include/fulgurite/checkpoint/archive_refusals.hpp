#pragma once
// What an archive that saves and one that loads refuse alike. Each function is consteval, so that its sentence comes
// where it is called, before errors of what follows.

#include <fulgurite/checkpoint/archive_values.hpp>
#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/state.hpp>

namespace fulgurite::archive {

/// Does not compile unless `archive.tensor` can take a T. The answer, so that nothing else is said of a wrong one.
template <class T>
consteval bool takes_tensor() {
  constexpr bool known = ArchivedTensor<T>;
  static_assert(known, "[fulgurite.checkpoint.tensor] archive.tensor takes a tensor of a library that specialises "
                       "fulgurite::TensorState: give other values to archive(name, value)");
  return known;
}

/// Does not compile unless a T says what is kept of it, or that nothing is.
template <class T>
consteval void require_state() {
  constexpr bool remembers = Remembers<T>;  // a bool: the concept's own explanation would bury the sentence
  static_assert(remembers, "[fulgurite.checkpoint.no_state] an archived object needs `void state(auto& archive)`, "
                           "or `using Stateless = ByChoice;`");
}

/// Does not compile unless a T is a value that an archive knows.
template <class T>
consteval void require_value() {
  static_assert(archivable<T>,
                "[fulgurite.checkpoint.value] an archive takes numbers, strings, paths, durations, tensors, "
                "optionals and vectors: give other types `void state(auto& archive)`");
}

}  // namespace fulgurite::archive
