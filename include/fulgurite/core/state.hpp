#pragma once
// Which objects carry state that a checkpoint must hold, and how they say so.

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace fulgurite {

/// `using Stateless = ByChoice;` says on purpose that a struct's members are configuration, or may be lost.
struct ByChoice {};

/// Both saves and loads: `void state(auto& archive) { archive("best", best)("bad", bad).option("patience", patience);
/// }`. A value is state, and loading sets it. An option is what the program gives: a file holds it too, loading never
/// sets it, and a fit that resumes from a file with other options warns once and lists them all.
template <class T, class Archive>
concept Stateful = requires(T& object, Archive& archive) { object.state(archive); };

/// It says, by `using Stateless = ByChoice`, that a checkpoint may forget its members.
template <class T>
concept DeclaredStateless = requires { typename T::Stateless; };

/// Stands in for an archive where only the presence of `state` is asked.
struct ArchiveProbe {
  static constexpr bool loading = false;
  template <class V>
  ArchiveProbe& operator()(std::string_view, V&&) {
    return *this;
  }
  template <class V>
  ArchiveProbe& option(std::string_view, V const&) {
    return *this;
  }
  template <class V>
  ArchiveProbe& option(std::string_view, V const&, V&) {
    return *this;
  }
  template <class V>
  ArchiveProbe& tensor(std::string_view, V&&) {
    return *this;
  }
  template <class V>
  ArchiveProbe& child(std::string_view, V&&) {
    return *this;
  }
};

/// Loading, the saved state has no entry of that name: an older one, or one of a program with fewer parts.
template <class Archive>
bool lacks(Archive const& archive, std::string_view name) {
  if constexpr (requires { archive.has(name); }) return !archive.has(name);
  else return false;
}

/// Loading, calls write() when all of the state is known to fit; at once in an archive that does not wait for it.
template <class Archive, class Write>
void commit(Archive const& archive, Write&& write) {
  if constexpr (requires { archive.commit(write); }) archive.commit(std::forward<Write>(write));
  else write();
}

/// Loading, entries that nobody asks for may be left out: those of a program with more parts. Anywhere else such an
/// entry means that the file does not fit.
template <class Archive>
void leave_out_others(Archive const& archive) {
  if constexpr (requires { archive.leave_out_others(); }) archive.leave_out_others();
}

/// Loading, the options so far that are not those of the saved state: a sentence each. Saving, none.
template <class Archive>
std::vector<std::string> differences(Archive const& archive) {
  if constexpr (requires { archive.differences(); }) return archive.differences();
  else return {};
}

/// Nothing of it can be forgotten by a checkpoint: it has `state`, no members at all, or says that it needs none.
template <class T>
concept Remembers = std::is_empty_v<T> || (std::is_polymorphic_v<T> && sizeof(T) == sizeof(void*)) ||
                    DeclaredStateless<T> || Stateful<T, ArchiveProbe>;

}  // namespace fulgurite
