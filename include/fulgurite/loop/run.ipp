#pragma once
// The bodies of loop/run.hpp.

#include <algorithm>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/loop/run.hpp>

namespace fulgurite::loop {

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

FULGURITE_BULK_BODY void Warnings::once(std::string_view identifier, std::string_view sentence, bool aloud) {
  for (auto const& said : said_)
    if (is_of(said, identifier)) return;
  say(identifier, sentence, aloud);
}

FULGURITE_BULK_BODY void Warnings::each(std::string_view identifier, std::string_view sentence, bool aloud) {
  for (auto const& said : said_)
    if (is_of(said, identifier) && std::string_view(said).substr(identifier.size() + 3) == sentence) return;
  say(identifier, sentence, aloud);
}

FULGURITE_BULK_BODY bool Warnings::is_of(std::string_view said, std::string_view identifier) {
  return said.substr(1).starts_with(identifier) && said.substr(identifier.size() + 1).starts_with(']');
}

FULGURITE_BULK_BODY void Warnings::say(std::string_view identifier, std::string_view sentence, bool aloud) {
  auto& said = said_.emplace_back("[");
  said.append(identifier).append("] ").append(sentence);
  if (aloud) fulgurite::print_lines(stderr, "warning: " + said + "\n");
}

}  // namespace fulgurite::loop

namespace fulgurite {

FULGURITE_BULK_BODY double RehearsedStep::loss() const {
  return loss_ ? loss_() : std::numeric_limits<double>::quiet_NaN();
}

FULGURITE_BULK_BODY void RehearsedStep::set_batch(long place, long size, std::function<double()> loss) {
  batch_idx_ = place;
  batch_size_ = size;
  loss_ = std::move(loss);
}

}  // namespace fulgurite

namespace fulgurite::loop {

FULGURITE_BULK_BODY NotRestored::NotRestored(char const* why)
    : Error("fulgurite.tuner.put_back",
            std::string("what a trial run has changed could not be restored, so the run is not as it was before: "
                        "resume from a file of it, or start it again; ") +
                why) {}

}  // namespace fulgurite::loop

namespace fulgurite {

void Progress::state(auto& archive) {
  archive("epoch", epoch)("batch", batch)("global_step", global_step)("skipped_steps", skipped_steps)(
      "logged_steps", logged_steps)("total_batches", total_batches)("window_start", window_start)(
      "window_end", window_end)("left_out", left_out)("cut_short", cut_short);
}
FULGURITE_STATE(Progress)

}  // namespace fulgurite

namespace fulgurite::loop {

void SafePoint::state(auto& archive) {
  archive("at", at)("last", last)("counts", counts)("accumulating", accumulating)("left_early", left_early);
  archive("began", began)("parts", parts)("observed", observed);
}
FULGURITE_STATE(SafePoint)

FULGURITE_BODY FinishedValues::FinishedValues(std::size_t metrics)
    : counted(metrics), logged(metrics), results(metrics) {}

FULGURITE_BULK_BODY FinishedValues::FinishedValues(FinishedValues const&) = default;

FULGURITE_BULK_BODY FinishedValues& FinishedValues::operator=(FinishedValues const&) = default;

FULGURITE_BULK_BODY FinishedValues::~FinishedValues() = default;

FULGURITE_BODY void FinishedValues::forget() {
  std::ranges::fill(results, Figures{});
  for (auto& of_loader : loader_results) std::ranges::fill(of_loader, Figures{});
}

FULGURITE_BODY void FinishedValues::set_loaders(std::size_t loaders) {
  loader_results.assign(loaders, AllFigures(results.size()));
}

FULGURITE_BODY RunCore::RunCore(Asked what, ProgramCalls const& of_program)
    : RunPlace{.asked = std::move(what), .values = FinishedValues(of_program.metrics.size())},
      keeps_questions(of_program.keeps_questions),
      program(&of_program) {}

FULGURITE_BULK_BODY RunCore::~RunCore() = default;

FULGURITE_BODY void RunCore::begin_fit(bool has_validation) {
  facts = {};
  facts.has_validation = has_validation && !asked.options.limit_val_batches.none();
  due = {};
  clock.earlier = 0;
  clock.training_began.reset();
  made.outcome.ended_by.clear();
  loading.resuming = loading.training_is_open = loading.validation_is_open = false;
  point = {};
}

FULGURITE_BODY void RunCore::warn(std::string_view identifier, std::string_view sentence) {
  said.once(identifier, sentence, aloud(identifier));
}

FULGURITE_BODY void RunCore::warn_each(std::string_view identifier, std::string_view sentence) {
  said.each(identifier, sentence, aloud(identifier));
}

FULGURITE_BODY void end_alone_if_asked(RunCore const& run, Callbacks callbacks) {
  if (!run.program->is_distributed) end_if_asked(callbacks);
}

FULGURITE_BODY double RunCore::training_seconds() const {
  double const now = clock.training_began ? Seconds(asked.options.now() - *clock.training_began).count() : 0.0;
  return clock.earlier + now;
}

FULGURITE_BODY bool RunCore::aloud(std::string_view identifier) const {
  return rank() == 0 && !asked.options.silence.has(identifier);
}

}  // namespace fulgurite::loop
