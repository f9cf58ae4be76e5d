#pragma once
// The bodies of report/describe.hpp.

#include <algorithm>
#include <cstddef>

#include <fulgurite/core/text.hpp>
#include <fulgurite/report/describe.hpp>

namespace fulgurite {

FULGURITE_BODY std::string field_text(Limit const& limit) {
  if (limit.all()) return "all";
  return limit.kind == Limit::Kind::batches ? std::to_string(limit.batches) + " batches"
                                            : exact_number(limit.part) + " of it";
}

FULGURITE_BODY std::string field_text(ValidationInterval const& every) {
  if (every.kind == ValidationInterval::Kind::time) return reflect::field_text(every.time);
  if (every.epoch_end()) return "the epoch's end";
  return every.kind == ValidationInterval::Kind::batches ? std::to_string(every.batches) + " batches"
                                                         : exact_number(every.part) + " of an epoch";
}

FULGURITE_BODY std::string field_text(Clip const& clip) {
  if (clip.kind == Clip::Kind::none) return "none";
  return (clip.kind == Clip::Kind::norm ? "norm " : "value ") + exact_number(clip.limit);
}

FULGURITE_BODY std::string field_text(RootFolder const& folder) { return folder.path().string(); }

FULGURITE_BODY std::string field_text(NonFinite what) {
  return what == NonFinite::stop ? "stop" : what == NonFinite::skip ? "skip" : "ignore";
}

FULGURITE_BODY std::string field_text(Silence const& silence) {
  auto const all = listed(silence.all());
  return all.empty() ? "none" : all;
}

}  // namespace fulgurite

namespace fulgurite::report {

FULGURITE_BODY std::string first_column(std::string_view name) {
  std::string line = "  ";
  line += name;
  line.resize(std::max<std::size_t>(line.size() + 1, 24), ' ');
  return line;
}

FULGURITE_BODY std::string options_text(TrainerOptions const& options, Automatic const* how) {
  using reflect::field_text;
  std::string text;
  auto const add = [&](std::string_view name, auto const& value) {
    ((text += name) += " = ").append(field_text(value)) += '\n';
  };
  each_option(options, add);
  if (how != nullptr) {
    add("accumulate_grad_batches", how->accumulate_grad_batches);
    add("clip", how->clip);
    add("tbptt", how->tbptt);
  }
  return text;
}

FULGURITE_BODY std::string program_text(Description const& description, TrainerOptions const& o, Automatic const* how,
                                        std::span<bool const> idle) {
  std::string text(description.write(TextBuilder()).size, '\0');
  description.write(TextBuilder(text.data()));
  text += "\noptions\n";
  auto const say = [&](std::string const& line) { text += "  " + line + "\n"; };
  auto const number = [](auto const& n) { return n && *n >= 0 ? std::to_string(*n) : std::string("no limit"); };
  if (o.fast_dev_run != 0) {
    std::string names;
    for (std::size_t i = 0; i != idle.size(); ++i)
      if (idle[i]) (names += ' ') += description.callbacks[i];
    say("fast_dev_run = " + std::to_string(o.fast_dev_run) + ": idle are" + (names.empty() ? " none" : names));
  }
  if (o.barebones) say("barebones: nothing is logged, no sanity check");
  if (o.overfit_batches) say("overfit_batches: the same first batches in every epoch, in order");
  say("epochs: " + number(o.max_epochs) + ", steps: " + number(o.max_steps) +
      (o.max_time ? ", seconds: " + std::to_string(o.max_time->count()) : ""));
  if (how != nullptr) {
    say("batches a step: " + std::to_string(how->accumulate_grad_batches));
    if (how->clip.kind != fulgurite::Clip::Kind::none)
      say(std::string("gradients limited by ") + (how->clip.kind == fulgurite::Clip::Kind::norm ? "norm " : "value ") +
          std::to_string(how->clip.limit));
    if (how->tbptt != 0) say("batches cut along time, every " + std::to_string(how->tbptt) + " steps");
  }
  auto const loop_off = [&](Limit const& limit, char const* what) {
    if (limit.none()) say(std::string(what) + ": off, its limit is 0");
  };
  loop_off(o.limit_train_batches, "training");
  loop_off(o.limit_val_batches, "validation");
  loop_off(o.limit_test_batches, "test");
  loop_off(o.limit_predict_batches, "predict");
  if (o.num_sanity_val_steps == 0) say("sanity check: off, num_sanity_val_steps is 0");
  if (o.log_every_n_steps == 0) say("rows of steps: off, log_every_n_steps is 0");
  return text;
}

}  // namespace fulgurite::report
