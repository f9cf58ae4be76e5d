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

  Switches();
  FULGURITE_COPIES(Switches);

  void state(auto& archive);
};

/// What a run has switched off and on since it began.
struct Switched {
  Switches off{}, on{};

  Switched();
  FULGURITE_COPIES(Switched);

  bool nothing() const;
  void state(auto& archive);
};

/// Tells what a program has switched from what the hooks of its run have, which is the state of the run. Call it at
/// each change between the program's code and hooks.
class SwitchHistory {
 public:
  SwitchHistory();
  FULGURITE_COPIES(SwitchHistory);

  /// What was switched since the last call is the program's choice.
  void program_ends(Switches const& now);
  /// What was switched since the last call was switched by hooks.
  void hooks_end(Switches const& now) { last_ = now; }
  /// What hooks have made different from the program's choice, for a file.
  Switched changed(Switches const& now) const;
  /// Returns what has to be off when a file is loaded. What the file does not name is set as the program chose.
  Switches resumed(Switched const& file) const;
  /// The program chose as that of the file did, for a fit that does not call the hooks in which it may have.
  void choose_as(Switched const& file);
  /// What was switched off at the last call.
  Switches const& last() const { return last_; }

 private:
  Switches choice_{};  ///< what the program has off
  Switches last_{};
};

/// Part of a run's state: what is switched off in its model, and by whom.
struct ModelSwitches {
  /// The model of an evaluation that is running, and its modules that were in eval mode before.
  struct Evaluated {
    void* model = nullptr;
    std::vector<std::string> modules{};
  };
  SwitchHistory history{};
  void* model = nullptr;  ///< the model of `history`
  /// True while a fit opens, until on_train_start has returned. What hooks freeze by then counts as the program's
  /// choice, except in the sanity check.
  bool by_program = false;
  Switched made_with{};  ///< what hooks of earlier fits had switched when the optimizers were made
  Evaluated evaluated{};
};

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/core/switches.ipp>
#endif
