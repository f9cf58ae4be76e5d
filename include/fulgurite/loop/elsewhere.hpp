#pragma once
// Options of Lightning's Trainer that are written elsewhere here: each is refused in a sentence that says where.

#include <cstdint>

#include <fulgurite/diagnose/member_sentences.hpp>

namespace fulgurite::elsewhere {

enum class Place : std::uint8_t { strategy, precision, optimization, callbacks, left_out, call };

/// What such a member is initialized with where a program does not name it.
struct Unset {};
inline constexpr Unset unset{};

/// The type of such a member. It takes any value, to refuse it. `Which` makes each a type of its own, so that none
/// takes room.
template <Place place, int Which>
struct Option {
  constexpr Option(Unset) {}
  template <Place written = place, class... Values>
  constexpr Option(Values const&...) {
    constexpr bool no_strategy = written != Place::strategy, no_precision = written != Place::precision,
                   no_optimization = written != Place::optimization, no_callback = written != Place::callbacks,
                   no_default = written != Place::left_out, no_file = written != Place::call;
    static_assert(no_strategy, "[fulgurite.options.strategy] devices and processes are an argument beside the options: "
                               "write make_trainer<Net>(TrainerOptions{...}, SingleDevice{cuda(0)}), or "
                               "DistributedDataParallel{.devices = 2}");
    static_assert(no_precision, "[fulgurite.options.precision] the precision is an argument beside the options: write "
                                "make_trainer<Net>(TrainerOptions{...}, Bf16Mixed{}), or Fp16Mixed{}");
    static_assert(no_optimization, "[fulgurite.options.optimization] accumulation and clipping are an argument beside "
                                   "the options: write make_trainer<Net>(TrainerOptions{...}, "
                                   "Automatic{.accumulate_grad_batches = 4, .clip = ClipNorm{1.0}})");
    static_assert(no_callback, "[fulgurite.options.callbacks] callbacks, loggers and profilers are arguments beside "
                               "the options: write make_trainer<Net>(TrainerOptions{...}, EarlyStopping{Net::loss}, "
                               "CSVLogger{}, SimpleProfiler{})");
    static_assert(no_default, "[fulgurite.options.left_out] what make_trainer adds is left out by an argument beside "
                              "the options: write make_trainer<Net>(TrainerOptions{...}, NoProgressBar{}), "
                              "NoCheckpoints{} or NoModelSummary{}");
    static_assert(no_file, FULGURITE_SENTENCE_TRAINER_CKPT_PATH);
  }
};

template <int Which>
using Strategy = Option<Place::strategy, Which>;
using Precision = Option<Place::precision, 0>;
template <int Which>
using Optimization = Option<Place::optimization, Which>;
template <int Which>
using Callbacks = Option<Place::callbacks, Which>;
template <int Which>
using LeftOut = Option<Place::left_out, Which>;
template <int Which>
using Call = Option<Place::call, Which>;

}  // namespace fulgurite::elsewhere
