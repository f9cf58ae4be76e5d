#pragma once
// The names under which the participants of a run keep their states in its files.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/type_name.hpp>

namespace fulgurite::loop {

/// It says itself under which key its state is kept.
template <class C>
concept SaysKey = requires(C const& participant) { std::string(participant.state_key()); };

/// A key, and the type behind it unless it begins with that: a state is never taken up by another type.
FULGURITE_COLD std::string key_with_type(std::string key, std::string_view type) {
  auto const is_of_a_name = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (key.starts_with(type) && (key.size() == type.size() || !is_of_a_name(key[type.size()]))) return key;
  return std::move(key) + " (" + std::string(type) + ")";
}

/// Under which name a participant's state is kept: what its `state_key()` says, with its type; else the name of its
/// type.
template <class C>
std::string state_key_of(C const& participant) {
  if constexpr (SaysKey<C>) return key_with_type(participant.state_key(), type_name<C>());
  else return std::string(type_name<C>());
}

/// Tells names apart that are equal, by their number. Those are types of one name: two namespaces may have one each.
class NumberedNames {
 public:
  FULGURITE_COLD std::string name(std::string const& key) {
    auto name = key;
    for (int n = 2; !known_.insert(name).second; ++n) name = key + " #" + std::to_string(n);
    return name;
  }
  std::set<std::string> const& known() const { return known_; }

 private:
  std::set<std::string> known_;
};

/// f(callback, name) for each callback that keeps a state in such an archive.
template <class Archive, class Pack, class F>
std::set<std::string> each_remembering(Pack& pack, F&& f) {
  NumberedNames names;
  pack.each([&](auto& callback) {
    if constexpr (Stateful<std::remove_reference_t<decltype(callback)>, Archive>)
      f(callback, names.name(state_key_of(callback)));
  });
  return names.known();
}

/// Some callback of the pack says its key, and it is not alone.
template <class Pack>
inline constexpr bool any_says_key = false;
template <template <class...> class Pack, class... Cs>
inline constexpr bool any_says_key<Pack<Cs...>> = sizeof...(Cs) > 1 && (SaysKey<Cs> || ...);

/// Keys of callbacks, and whether they have said them.
class SaidKeys {
 public:
  FULGURITE_COLD void add(std::string const& key, bool is_said) {
    auto const [at, is_new] = keys_.try_emplace(key, is_said);
    if (is_new) return;
    if (!is_said && !at->second) return;
    throw Error("fulgurite.callback.state_key",
                "two callbacks keep their states under the key '" + key +
                    "', and each would take up the other's where their order changes: let state_key() of one of them "
                    "say what makes it another");
  }

 private:
  std::map<std::string, bool> keys_;
};

/// Callbacks of one key, where one of them has said it, could take up each other's states.
template <class Pack>
void refuse_equal_keys(Pack& pack) {
  if constexpr (any_says_key<Pack>) {
    SaidKeys keys;
    pack.each([&]<class C>(C& callback) {
      if constexpr (Stateful<C, ArchiveProbe>) keys.add(state_key_of(callback), SaysKey<C>);
    });
  }
}

}  // namespace fulgurite::loop
