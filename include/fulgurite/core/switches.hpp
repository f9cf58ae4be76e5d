#pragma once
// What is switched off in a model: which parameters receive no gradient, and which modules are in eval mode; and what
// of that the hooks of a run have changed.

#include <string>
#include <vector>

#include <fulgurite/core/body.hpp>

namespace fulgurite {

/// What is switched off in a model, or some of it, by sorted names: parameters that receive no gradient, and modules in
/// eval mode, of which the model itself has the empty name.
struct Switches {
  std::vector<std::string> parameters{}, modules{};

  void state(auto& archive);
};

/// What a run has switched off and on since it began.
struct Switched {
  Switches off{}, on{};

  bool nothing() const;
  void state(auto& archive);
};

/// Tells what a program has switched from what the hooks of its run have, which is the state of the run. It is given
/// what is switched off whenever one of them ends and the other begins.
class SwitchHistory {
 public:
  /// What was switched since the last call is the program's choice.
  void program_ends(Switches const& now);
  /// What was switched since the last call was switched by hooks.
  void hooks_end(Switches const& now) { last_ = now; }
  /// What hooks have made different from the program's choice, for a file.
  Switched changed(Switches const& now) const;
  /// Returns what has to be off after a file was loaded. What the file does not name becomes the program's choice.
  Switches resume(Switches const& now, Switched const& file);
  /// What was switched off at the last call.
  Switches const& last() const { return last_; }

 private:
  // The program's choice. What it has off as the file does is in one of them alone: the next file names it, too, since
  // a hook of the program may have switched it because of what was loaded.
  Switches off_{}, perhaps_off_{};
  Switches last_{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/switches.ipp>
#endif
