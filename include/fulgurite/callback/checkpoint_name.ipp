#pragma once
// The bodies of callback/checkpoint_name.hpp.

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/terminal.hpp>

namespace fulgurite::checkpointing {

FULGURITE_BODY bool Timing::by_epoch(int epoch) const {
  return rhythm_.epochs >= 1 && (epoch + 1) % rhythm_.epochs == 0;
}

FULGURITE_BODY Rhythm checked(ModelCheckpointOptions const& options, bool watches) {
  auto const refuse = [](std::string const& why) {
    throw Error("fulgurite.callback.checkpoint_options", "ModelCheckpoint: " + why);
  };
  if (options.save_top_k < -1) refuse("save_top_k is -1 (all), 0 (none) or a count");
  if (!watches && options.save_top_k > 1)
    refuse("save_top_k = " + std::to_string(options.save_top_k) + " needs a metric to rank by");
  if (options.save_last.kind == SaveLast::link && options.save_top_k != 0 && options.filename == "last" &&
      !options.enable_version_counter)
    refuse("a link called last cannot lead to a file called last: give another filename, or leave "
           "enable_version_counter on");
  auto const& time = options.train_time_interval;
  Rhythm const rhythm{options.every_n_train_steps.value_or(0),
                      options.every_n_epochs.value_or(options.every_n_train_steps || time ? 0 : 1),
                      time ? std::optional(time->count()) : std::nullopt};
  if (rhythm.steps < 0 || rhythm.epochs < 0 || (time && !(time->count() >= 0)))
    refuse("every_n_train_steps, every_n_epochs and train_time_interval are not negative");
  if ((rhythm.steps > 0) + (rhythm.epochs > 0) + time.has_value() > 1)
    refuse("give one of every_n_train_steps, every_n_epochs and train_time_interval: use two ModelCheckpoints for two "
           "rhythms, and derive a type for the second if both watch the same metric, or none");
  return rhythm;
}

[[noreturn]] FULGURITE_BODY void refuse_name(std::string const& why) {
  throw Error("fulgurite.callback.checkpoint_name", "a checkpoint's filename: " + why);
}

/// In an outline of a name: stands for the value of a field, which has no '/'.
inline constexpr char any_value = '\0';

/// True if the text may be a name of that outline.
FULGURITE_BODY bool matches(std::string_view outline, std::string_view text) {
  if (outline.empty()) return text.empty();
  if (outline.front() != any_value)
    return !text.empty() && text.front() == outline.front() && matches(outline.substr(1), text.substr(1));
  for (std::size_t taken = 0; taken <= text.size(); ++taken) {
    if (matches(outline.substr(1), text.substr(taken))) return true;
    if (taken != text.size() && text[taken] == '/') return false;
  }
  return false;
}

FULGURITE_BODY Name::Format parsed(std::string_view text) {
  Name::Format format;
  auto const* at = text.data();
  auto const* const end = at + text.size();
  if (at != end && *at == '0') format.zeros = true;
  if (auto const [next, error] = std::from_chars(at, end, format.width); error == std::errc{}) at = next;
  if (at != end && *at == '.') {
    int digits = -1;
    at = std::from_chars(at + 1, end, digits).ptr;
    if (digits < 0 || digits > 40) refuse_name("'" + std::string(text) + "' has no number of digits, as in {x:.2f}");
    format.digits = digits;
  }
  if (at != end && std::string_view("deEfFgG").find(*at) != std::string_view::npos) format.kind = *at++;
  if (at != end || format.width < 0 || format.width > 40 || (format.kind == 'd' && format.digits))
    refuse_name("'" + std::string(text) + "' is not a format like 02d, .2f, .3e or g");
  return format;
}

FULGURITE_BODY std::string formatted(Name::Value value, Name::Format const& format) {
  std::string out;
  if (value.whole && (format.kind == '\0' || format.kind == 'd') && !format.digits) {
    out = std::to_string(static_cast<long long>(value.number));
  } else if (format.kind == '\0' && !format.digits) {
    out = exact_number(value.number);
    if (out.find_first_of(".en") == std::string::npos) out += ".0";
  } else {
    char const kind = format.kind == '\0' || format.kind == 'd' ? 'g' : format.kind;
    out = report::formatted("%." + std::to_string(format.digits.value_or(6)) + kind, value.number);
  }
  auto const width = static_cast<std::size_t>(format.width);
  if (out.size() < width)
    out.insert(format.zeros && out.front() == '-' ? 1 : 0, width - out.size(), format.zeros ? '0' : ' ');
  return out;
}

FULGURITE_BODY std::string why_no_name(std::string const& name, std::string const& extension,
                                       std::filesystem::path const& folder) {
  auto const holds_nul = [](std::string_view text) { return text.find('\0') != text.npos; };
  if (holds_nul(name) || holds_nul(extension) || holds_nul(folder.native()))
    return "it holds a NUL, at which the system would cut it off";
  std::filesystem::path const path(name);
  if (!path.has_filename()) return "it is empty, or ends in a folder: a file needs a name";
  if (extension.find('/') != extension.npos)
    return "its ending '" + extension + "' leads into another folder: begin it with a dot, as .safetensors";
  if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
    return "'" + name + "' leads out of the folder: name the folder in .dirpath";
  return {};
}

FULGURITE_BODY std::string name_of_run(std::string const& prefix, std::string_view model) {
  std::string name = prefix + "_";
#ifdef __GLIBC__
  name += program_invocation_short_name;
  name += "_";
#endif
  return name += model;
}

FULGURITE_BODY std::vector<std::filesystem::path> files_of(std::filesystem::path const& folder,
                                                           std::string const& extension) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  auto const skips = std::filesystem::directory_options::skip_permission_denied;  // else the listing would end there
  for (std::filesystem::recursive_directory_iterator at(folder, skips, none), end; !none && at != end;
       at.increment(none))
    if (at->path().filename().string().ends_with(extension) && at->is_regular_file(none)) files.push_back(at->path());
  return files;
}

FULGURITE_BODY bool inside(std::filesystem::path const& folder, std::filesystem::path const& file) {
  auto const whole = [](std::filesystem::path const& path) {
    return std::filesystem::absolute(path).lexically_normal();
  };
  auto const relative = whole(file).lexically_relative(whole(folder));
  return !relative.empty() && *relative.begin() != "..";
}

FULGURITE_BODY bool is_behind(std::filesystem::path const& last, std::filesystem::path const& file) {
  namespace fs = std::filesystem;
  std::error_code none, unknown;
  auto const written = fs::last_write_time(file, none);
  if (none) return false;
  auto const of_last = fs::last_write_time(last, none);
  bool const is_other_link = fs::is_symlink(last, unknown) && !fs::equivalent(last, file, unknown);
  return none || of_last < written || (of_last == written && is_other_link);
}

FULGURITE_BODY void make_room(CheckpointFiles& files, std::filesystem::path const& folder,
                              std::filesystem::path const& file) {
  if (!inside(folder, file) || !files.give_up(file)) return;
  std::error_code full;
  for (auto around = file.parent_path();
       inside(folder, around) && !std::filesystem::equivalent(folder, around, full) && !full;
       around = around.parent_path())
    if (std::filesystem::is_symlink(around, full) || !std::filesystem::remove(around, full)) return;
}

FULGURITE_BODY Name::Name(ModelCheckpointOptions const& options) : insert_names_(options.auto_insert_metric_name) {
  for (std::string_view pattern = options.filename; !pattern.empty();) {
    auto const open = pattern.find_first_of("{}");
    parts_.push_back({std::string(pattern.substr(0, open)), {}, {}});
    if (open == std::string_view::npos) break;
    auto const close = pattern.find_first_of("{}", open + 1);
    bool const paired = pattern[open] == '{' && close != std::string_view::npos && pattern[close] == '}';
    if (!paired) refuse_name("'" + std::string(pattern) + "': braces come in pairs");
    auto const field = pattern.substr(open + 1, close - open - 1);
    auto const colon = field.find(':');
    auto& part = parts_.back();
    part.field = field.substr(0, colon);
    if (part.field.empty()) refuse_name("a field needs a name, as in {epoch}");
    if (colon != std::string_view::npos) part.format = parsed(field.substr(colon + 1));
    pattern.remove_prefix(close + 1);
  }
  auto const example = filled([](auto&) { return Value{}; });
  if (auto const why = why_no_name(example, options.extension, options.dirpath); !why.empty()) refuse_name(why);
}

FULGURITE_BODY std::string Name::filled(FunctionRef<Value(std::string const&)> value_of) const {
  std::string out;
  for (auto const& part : parts_) {
    out += part.literal;
    if (part.field.empty()) continue;
    if (insert_names_) out += part.field + "=";
    out += formatted(value_of(part.field), part.format);
  }
  return out;
}

FULGURITE_BODY bool Name::may_lie_in(std::string_view folder) const {
  std::string all;
  for (auto const& part : parts_) {
    all += part.literal;
    if (part.field.empty()) continue;
    if (insert_names_) all += part.field + "=";
    all += any_value;
  }
  auto const last = all.rfind('/');
  return last != std::string::npos && matches(std::string_view(all).substr(0, last), folder);
}

FULGURITE_BODY bool Name::Part::is_metric() const { return !field.empty() && field != "epoch" && field != "step"; }

FULGURITE_BODY bool Name::has_metrics() const { return std::ranges::any_of(parts_, &Part::is_metric); }

FULGURITE_BODY std::vector<std::filesystem::path> Name::files_in(std::filesystem::path const& folder,
                                                                 std::string const& extension) const {
  auto files = files_of(folder, extension);
  std::erase_if(files, [&](std::filesystem::path const& file) {
    auto const below = file.parent_path().lexically_relative(folder);
    return below != "." && !below.empty() && !may_lie_in(below.generic_string());
  });
  return files;
}

void Timing::state(auto& archive) {
  archive("step_looked_at", looked_);
  if (rhythm_.seconds) archive("waited", waited_);
}
FULGURITE_STATE(Timing)

FULGURITE_BODY void Timing::begin(Context const& ctx, bool is_resumed) {
  if (!is_resumed) waited_ = 0;
  time_checked_ = ctx.seconds_now() - waited_;
  looked_ = ctx.global_step();
  if (rhythm_.seconds) static_cast<void>(ctx.has_come(time_checked_ + *rhythm_.seconds));  // registers the deadline
}

FULGURITE_BULK_BODY void Timing::look(Context const& ctx) {
  if (rhythm_.seconds) waited_ = ctx.seconds_now() - time_checked_;
}

FULGURITE_BULK_BODY bool Timing::by_steps(Context const& ctx) {
  look(ctx);
  long const before = std::exchange(looked_, ctx.global_step());
  return rhythm_.steps >= 1 && before / rhythm_.steps != looked_ / rhythm_.steps;
}

FULGURITE_BULK_BODY bool Timing::by_time(Context const& ctx) {
  if (!rhythm_.seconds) return false;
  if (!ctx.has_come(time_checked_ + *rhythm_.seconds)) return false;
  time_checked_ = ctx.seconds_now();
  waited_ = 0;
  return true;
}

FULGURITE_BODY bool Timing::by_flushed_step(Context const& ctx) {
  if (!watch::in_fit(ctx) || ctx.accumulating() || looked_ == ctx.global_step()) return false;
  return by_steps(ctx) || by_time(ctx);
}

FULGURITE_BODY void Name::check(Context const& ctx) const {
  for (auto const& part : parts_) {
    if (!part.is_metric()) continue;
    bool declared = false;
    std::string_view of_loaders;  // the metric whose value of one loader the field names
    ctx.each_metric([&](DeclaredMetric const& metric, auto const&) {
      declared = declared || metric.name == part.field;
      if (part.field.starts_with(std::string(metric.name) + "/") && metric.name.size() > of_loaders.size())
        of_loaders = metric.name;
    });
    if (declared && part.format.kind != 'd') continue;
    throw Error("fulgurite.callback.checkpoint_name",
                "ModelCheckpoint: {" + part.field + "} in the file name " +
                    (declared ? "is a metric, not a whole number: write {" + part.field + ":.2f}"
                     : !of_loaders.empty()
                         ? "is no metric; the value of one loader has no name of its own here: write {" +
                               std::string(of_loaders) +
                               "}, the mean over all loaders, or that loader's value where ModelCheckpoint watches "
                               ".of(\"" +
                               part.field.substr(of_loaders.size() + 1) + "\")"
                         : "is neither epoch, step nor a metric of the model"));
  }
}

FULGURITE_BODY std::string Name::text(Context const& ctx, int epoch, WatchedMetric const& watched) const {
  return filled([&](std::string const& field) -> Value {
    if (field == "epoch") return {static_cast<double>(epoch), true};
    if (field == "step") return {static_cast<double>(ctx.global_step()), true};
    Value found;
    ctx.each_metric([&](DeclaredMetric const& metric, auto const&) {
      if (metric.name != field) return;
      WatchedMetric const mean(metric.name);
      if (auto const value = ctx.shared_value(metric.name == watched.name ? watched : mean)) found = {*value, false};
    });
    return found;
  });
}

}  // namespace fulgurite::checkpointing
