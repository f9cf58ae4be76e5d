#pragma once
// The bodies of loop/callbacks.hpp.

#include <algorithm>

#include <fulgurite/loop/callbacks.hpp>

namespace fulgurite::loop {

FULGURITE_BODY std::string key_with_type(std::string key, std::string_view type) {
  auto const is_of_a_name = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (key.starts_with(type) && (key.size() == type.size() || !is_of_a_name(key[type.size()]))) return key;
  return std::move(key) + " (" + std::string(type) + ")";
}

/// Appends a number to a name that is known. That occurs with types of the same name in two namespaces.
FULGURITE_BODY std::string numbered(std::set<std::string>& known, std::string const& key) {
  auto name = key;
  for (int n = 2; !known.insert(name).second; ++n) name = key + " #" + std::to_string(n);
  return name;
}

FULGURITE_BODY std::vector<std::string> names_of_callbacks(Callbacks callbacks) {
  std::vector<std::string> all(callbacks.size());
  auto known = each_remembering(callbacks, [&](AnyCallback const& callback, std::string const& name) {
    all[static_cast<std::size_t>(&callback - callbacks.data())] = name;
  });
  for (std::size_t i = 0; i != all.size(); ++i)
    if (all[i].empty()) all[i] = numbered(known, callbacks[i].state_key());
  return all;
}

FULGURITE_BODY std::string name_of_callback(Callbacks callbacks, void const* part) {
  auto const address = [](void const* object) { return reinterpret_cast<std::uintptr_t>(object); };
  AnyCallback const* found = nullptr;
  for (auto const& callback : callbacks) {
    auto const begin = address(callback.object), size = callback.table->size;
    if (address(part) < begin || address(part) - begin >= std::max<std::size_t>(size, 1)) continue;
    // An empty callback shares its address with others, and a small one may lie in the padding of one before it.
    if (found == nullptr || std::pair(size != 0, begin) > std::pair(found->table->size != 0, address(found->object)))
      found = &callback;
  }
  if (found == nullptr) return {};
  return names_of_callbacks(callbacks)[static_cast<std::size_t>(found - callbacks.data())];
}

FULGURITE_BODY std::set<std::string> each_remembering(Callbacks callbacks,
                                                      FunctionRef<void(AnyCallback const&, std::string const&)> f) {
  std::set<std::string> known;
  for (auto const& callback : callbacks)
    if (callback.table->save != nullptr && callback.table->load != nullptr)
      f(callback, numbered(known, callback.state_key()));
  return known;
}

FULGURITE_BODY void end_if_asked(Callbacks callbacks) {
  for (auto const& [callback, table, given] : callbacks)
    if (table->end_if_asked != nullptr) table->end_if_asked(callback);
}

FULGURITE_BODY void finalize_loggers(Callbacks callbacks, Status status) {
  for (auto const& [callback, table, given] : callbacks)
    if (table->finalize != nullptr) table->finalize(callback, status);
}

FULGURITE_BODY void expect_rows(Callbacks callbacks, long rows) {
  for (auto const& [callback, table, given] : callbacks)
    if (table->expect_again != nullptr) table->expect_again(callback, rows);
}

FULGURITE_BULK_BODY OwnAction OwnActions::begin(std::string_view name) {
  if (open_ == nullptr) return {};
  auto at = actions_.find(name);
  if (at == actions_.end()) {
    at = actions_.emplace(std::string(name), ProfiledAction{.id = action::new_id(), .part = RunPart::own}).first;
    at->second.name = at->first.c_str();
  }
  return OwnAction(open_(pack_, at->second));
}

FULGURITE_BODY OwnAction OwnActions::begin(ProfiledAction const& action) {
  return open_ == nullptr ? OwnAction() : OwnAction(open_(pack_, action));
}

FULGURITE_BODY OwnAction OwnActions::begin_saving() {
  return begin(action::action_of<action::Plain<"save_checkpoint", RunPart::saving>>());
}

}  // namespace fulgurite::loop
