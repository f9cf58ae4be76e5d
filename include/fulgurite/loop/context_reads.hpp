#pragma once
// What a training step asks its context for. A strategy that replays steps compares it before each replay.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fulgurite::loop {

/// One question to a context. Those up to `comparable` have a number for an answer, which can be compared and set; the
/// others have answers that change at any time, or ask the trainer to do something.
enum class Question : std::uint8_t {
  global_step,
  skipped_steps,
  logged_steps,
  current_epoch,
  batch_idx,
  batch_size,
  is_last_batch,
  accumulating,
  stop_requested,
  accumulate_grad_batches,
  num_training_batches,
  estimated_steps,
  comparable,
  value = comparable,
  optimizers,
  seconds,
  request_stop,
  log_scalars,
  log_dynamic,
  request_checkpoint,
  accumulate,
  request_statistics_pass,
  set_log_dir,
  warn,
  outcome,
  count
};
inline constexpr std::size_t comparable_questions = static_cast<std::size_t>(Question::comparable);

/// As the user calls it.
constexpr std::string_view name_of(Question question) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(Question::count)> names{"global_step",
                                                                                          "skipped_steps",
                                                                                          "logged_steps",
                                                                                          "current_epoch",
                                                                                          "batch_idx",
                                                                                          "batch_size",
                                                                                          "is_last_batch",
                                                                                          "accumulating",
                                                                                          "stop_requested",
                                                                                          "accumulate_grad_batches",
                                                                                          "num_training_batches",
                                                                                          "estimated_steps",
                                                                                          "value",
                                                                                          "optimizers",
                                                                                          "seconds_now",
                                                                                          "request_stop",
                                                                                          "log_scalars",
                                                                                          "log_dynamic",
                                                                                          "request_checkpoint",
                                                                                          "accumulate",
                                                                                          "request_statistics_pass",
                                                                                          "set_log_dir",
                                                                                          "warn",
                                                                                          "outcome"};
  return names[static_cast<std::size_t>(question)];
}

/// A set of questions.
class Questions {
 public:
  constexpr void add(Question question) { bits_ |= std::uint32_t{1} << static_cast<unsigned>(question); }
  constexpr bool has(Question question) const { return (bits_ >> static_cast<unsigned>(question) & 1U) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool within(Questions const& other) const { return (bits_ & ~other.bits_) == 0; }
  template <class F>
  constexpr void each(F&& f) const {
    for (unsigned i = 0; bits_ >> i != 0; ++i)
      if ((bits_ >> i & 1U) != 0) f(static_cast<Question>(i));
  }

 private:
  std::uint32_t bits_ = 0;
};
/// In place of them where no strategy asks.
struct NoQuestions {
  static constexpr void add(Question) {}
};

/// Questions with the answers that a step was given.
struct Answers {
  Questions asked = {};
  std::array<std::int64_t, comparable_questions> numbers = {};
};

/// f(question) for those that can be compared.
template <class F>
constexpr void each_comparable(Questions const& asked, F&& f) {
  asked.each([&](Question question) {
    if (question < Question::comparable) f(question);
  });
}

}  // namespace fulgurite::loop
