#pragma once
// The bodies of callback/simple_profiler.hpp.

#include <utility>

#include <fulgurite/callback/simple_profiler.hpp>
#include <fulgurite/callback/watch.hpp>
#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite {

FULGURITE_BODY SimpleProfiler::SimpleProfiler(SimpleProfilerOptions options) : options_(std::move(options)) {
  if (options_.filename.find('/') != std::string::npos)
    throw Error("fulgurite.callback.profiler_filename",
                "SimpleProfiler: filename = '" + options_.filename + "' has a '/': give the folder as dirpath");
}

FULGURITE_BODY SimpleProfiler::Running::Running(SimpleProfiler& profiler, ProfiledAction const& action)
    : profiler_(&profiler), action_(&action), outside_(std::exchange(profiler.inside_, 0)), began_(Clock::now()) {}

FULGURITE_BODY SimpleProfiler::Running::~Running() {
  auto const took = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began_).count();
  profiler_->add(*action_, took);
  profiler_->inside_ = outside_ + took;
}

FULGURITE_BODY SimpleProfiler::Running SimpleProfiler::profile_action(ProfiledAction const& action) {
  if (action.id >= tallies_.size()) [[unlikely]]
    tallies_.resize(action.id + 1);
  return Running(*this, action);
}

FULGURITE_BODY void SimpleProfiler::setup() {
  tallies_.assign(tallies_.size(), {});
  inside_ = 0;
  began_ = Clock::now();
  runs_ = true;
}

FULGURITE_BODY void SimpleProfiler::add(ProfiledAction const& action, std::int64_t took) {
  auto& tally = tallies_[action.id];
  tally.action = &action;
  tally.calls += action.counts;
  tally.total += took;
  tally.own += took - inside_;
  if (took > tally.longest) tally.longest = took;
}

FULGURITE_BODY void SimpleProfiler::on_exception(Context& ctx) {
  if (runs_) print(ctx, ", until it failed");
}

FULGURITE_BODY void SimpleProfiler::print(Context& ctx, std::string_view how) {
  runs_ = false;
  result_ = {.total = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began_).count()};
  for (auto const& one : tallies_)
    if (one.action)
      result_.spent.push_back({one.action->name, one.action->part, one.calls, one.total, one.own, one.longest});
  auto const stage = run_output::name_of(ctx.stage());
  if (options_.stream && ctx.rank() == 0) {
    std::string text = "SimpleProfiler: ";
    text += stage;
    text += how;
    auto const columns = report::text_columns(options_.stream, 0);
    text += '\n' + result_.table(options_.row_limit, columns) + report::wrapped(result_.sentence(), columns);
    fulgurite::print_lines(options_.stream, text);
    std::fflush(options_.stream);
  }
  if (options_.filename.empty() || ctx.dev_run()) return;
  auto const folder = run_output::folder(ctx, options_.dirpath);
  std::string name(stage);
  name += '-' + options_.filename;
  if (ctx.rank() != 0) name += '-' + std::to_string(ctx.rank());
  write_durably(folder / (name + ".txt"), result_.table() + result_.sentence() + '\n');
  write_durably(folder / (name + ".csv"), report::profile_csv(result_));
}

}  // namespace fulgurite
