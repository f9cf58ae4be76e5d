#pragma once
// Actions that a program names itself, where a profiler watches.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <fulgurite/core/action.hpp>

namespace fulgurite {

/// What `ctx.profile("name")` returns: the action lasts as long as it lives. Empty where no profiler watches.
class OwnAction {
 public:
  struct Held {
    Held() = default;
    Held(Held const&) = delete;
    Held& operator=(Held const&) = delete;
    virtual ~Held() = default;
  };
  OwnAction() = default;
  explicit OwnAction(std::unique_ptr<Held> held) : held_(std::move(held)) {}

 private:
  std::unique_ptr<Held> held_{};
};

namespace loop {

/// Part of a run's state: how contexts, which do not know the callbacks, reach the profilers among them.
class OwnActions {
 public:
  /// The pack of the run to come.
  template <class Pack>
  void told_to(Pack& pack) {
    if constexpr (Pack::profiles) {
      pack_ = &pack;
      open_ = [](void* to, ProfiledAction const& action) -> std::unique_ptr<OwnAction::Held> {
        struct Held : OwnAction::Held {
          Held(Pack& p, ProfiledAction const& a) : watched(p.watch(a)) {}
          decltype(std::declval<Pack&>().watch(std::declval<ProfiledAction const&>())) watched;
        };
        return std::make_unique<Held>(*static_cast<Pack*>(to), action);
      };
    }
  }
  OwnAction begin(std::string_view name) {
    if (open_ == nullptr) return {};
    auto at = actions_.find(name);
    if (at == actions_.end()) {
      at = actions_.emplace(std::string(name), ProfiledAction{.id = action::new_id(), .part = RunPart::own}).first;
      at->second.name = at->first.c_str();
    }
    return OwnAction(open_(pack_, at->second));
  }

 private:
  void* pack_ = nullptr;
  std::unique_ptr<OwnAction::Held> (*open_)(void*, ProfiledAction const&) = nullptr;
  std::map<std::string, ProfiledAction, std::less<>> actions_{};
};

}  // namespace loop
}  // namespace fulgurite
