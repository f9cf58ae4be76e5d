#pragma once
// What the loops say while a program runs: errors and warnings whose sentences depend on no type of the program, so
// that each of them is compiled once. What a compiler says stands in diagnose.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

// Of ctx.log.

[[noreturn]] void refuse_log_place(std::string_view name, bool by_step);
[[noreturn]] void refuse_no_rows(std::string_view name, long batch);
[[noreturn]] void refuse_no_size(std::string_view name);

// Of loaders that end too early, and of batches that are none.

/// The epoch that a resumed run is in has fewer batches than it has trained on.
[[noreturn]] void refuse_short(long consumed, long had);
/// A loader has ended before the number of batches that its size() promised.
[[noreturn]] void throw_short(long promised, long had);
[[noreturn]] void refuse_empty_epoch(int epoch);
void warn_of_left_out(Warn warn, long batch, int epoch);

// Of a training loop that waits for its data while processors are idle.

/// The number of processors that were idle in a pass during which the loop waited for a quarter of the time; 0 for
/// passes shorter than 5 s, or if no processor was idle. `processors`: those of the machine.
int idle_while_waiting(Waited const& waited, unsigned processors);
/// Warns if there were some.
void advise_on_waiting(RunCore& run, Waited const& waited);

// Of values that are not finite.

std::string place_of_batch(long batch, int epoch, bool no_rows);
/// `buffer`: the part of the sentence about a buffer that holds a nan, or nothing.
[[noreturn]] void refuse_update(std::string const& what, std::string const& where, long step,
                                std::string const& buffer);
void warn_of_skipped(Warn warn, std::string const& what, std::string const& where, std::string const& buffer);
[[noreturn]] void refuse_non_finite(long from, long to);

// Of what is done between two fits.

/// Gives one warning for all options of the program that differ from those of the file.
void warn_of_options(std::vector<std::string> const& differences, Warn warn);
/// Throws [fulgurite.trainer.open_fit] if the run is not between two fits.
void refuse_open(RunCore const& run, std::string const& what);

// Of batches that are cut along time.

/// Throws [fulgurite.options.tbptt] unless a slice length is given exactly for a model that declares Hidden
/// (`recurrent`), and with windows of one batch.
void check_slices(bool recurrent, int tbptt, int window);

// Of trial runs.

/// Throws [fulgurite.tuner.steps] unless a trial run has a step.
void check_steps(RehearsalPlan const& plan);
/// Throws [fulgurite.tuner.rates] unless there is one rate for each group.
void check_rates(std::span<double const> rates, std::size_t groups);

}  // namespace fulgurite::loop

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/loop/sentences.ipp>
#endif
