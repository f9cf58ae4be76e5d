#pragma once
// The bodies of loop/callbacks.hpp.

#include <algorithm>
#include <charconv>
#include <system_error>
#include <tuple>

#include <fulgurite/core/error.hpp>
#include <fulgurite/loop/callbacks.hpp>

namespace fulgurite::loop {

FULGURITE_BODY std::string key_with_type(std::string key, std::string_view type) {
  auto const is_of_a_name = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (key.starts_with(type) && (key.size() == type.size() || !is_of_a_name(key[type.size()]))) return key;
  return std::move(key) + " (" + std::string(type) + ")";
}

/// Appends a number to a name that is known. That occurs with types of the same name in two namespaces.
FULGURITE_BODY std::string numbered(std::set<std::string>& known, std::string const& key) {
  auto name = key;
  for (int n = 2; !known.insert(name).second; ++n) name = key + " #" + std::to_string(n);
  return name;
}

FULGURITE_BODY std::vector<std::string> names_of_callbacks(Callbacks callbacks) {
  std::vector<std::string> all;
  std::set<std::string> known;
  for (auto const& callback : callbacks) all.push_back(numbered(known, callback.state_key()));
  return all;
}

FULGURITE_BODY std::set<std::string> each_remembering(Callbacks callbacks,
                                                      FunctionRef<void(AnyCallback const&, std::string const&)> f) {
  std::set<std::string> known;
  for (auto const& callback : callbacks)
    if (callback.table->save != nullptr && callback.table->load != nullptr)
      f(callback, numbered(known, callback.state_key()));
  return known;
}

FULGURITE_BODY void refuse_equal_keys(Callbacks callbacks) {
  std::map<std::string, bool> keys;  // true: the key comes from state_key()
  for (auto const& callback : callbacks) {
    if (callback.table->save == nullptr) continue;
    bool const is_said = callback.table->says_key;
    auto const [at, is_new] = keys.try_emplace(callback.state_key(), is_said);
    if (is_new || (!is_said && !at->second)) continue;
    throw Error("fulgurite.callback.state_key",
                "two callbacks keep their states under the key '" + at->first +
                    "', and each would take up the other's where their order changes: let state_key() of one of them "
                    "say what makes it another");
  }
}

FULGURITE_BODY void end_if_asked(Callbacks callbacks) {
  for (auto const& [callback, table, given] : callbacks)
    if (table->end_if_asked != nullptr) table->end_if_asked(callback);
}

FULGURITE_BODY void finalize_loggers(Callbacks callbacks, Status status) {
  for (auto const& [callback, table, given] : callbacks)
    if (table->finalize != nullptr) table->finalize(callback, status);
}

FULGURITE_BODY void expect_rows(Callbacks callbacks, long rows) {
  for (auto const& [callback, table, given] : callbacks)
    if (table->expect_again != nullptr) table->expect_again(callback, rows);
}

FULGURITE_BODY void refuse_two_timers(Callbacks callbacks) {
  for (auto const& [callback, table, given] : callbacks)
    if (table->limits_time != nullptr && table->limits_time(callback))
      throw Error("fulgurite.options.two_timers",
                  "max_time and a Timer with a limit both end the run: leave one of them out");
}

FULGURITE_BODY void refuse_output(Callbacks callbacks, std::size_t added) {
  AnyCallback const* last = nullptr;
  for (auto const& callback : callbacks)
    if (callback.table->is_for_output && callback.given + added < callbacks.size() &&
        (last == nullptr || last->given < callback.given))
      last = &callback;
  if (last != nullptr)
    throw Error("fulgurite.options.barebones",
                "barebones runs the loop alone, and there is a " + std::string(last->table->type) + ": leave it out");
}

FULGURITE_BODY std::string idle_in_dev_run(Callbacks callbacks) {
  std::vector<AnyCallback const*> idle;
  for (auto const& callback : callbacks)
    if (callback.table->is_inert_in_dev_run) idle.push_back(&callback);
  sort_seldom(idle, [](auto const* a, auto const* b) { return a->given < b->given; });
  std::string text;
  for (auto const* callback : idle) text.append(text.empty() ? "; idle: " : ", ").append(callback->table->type);
  return text;
}

FULGURITE_BODY CheckpointSearch checkpoint_search(Callbacks callbacks, TrainerOptions const& options,
                                                  std::string_view model) {
  CheckpointSearch search{options.default_root_dir.path(), std::string(model)};
  for (auto const& [callback, table, given] : callbacks) {
    if (table->knows_runs && !search.runs) search.runs.emplace();
    if (table->earlier_runs != nullptr)
      for (auto& folder : table->earlier_runs(callback, options)) search.runs->push_back(std::move(folder));
  }
  return search;
}

FULGURITE_BODY std::vector<std::filesystem::path>
newest_first(std::vector<std::filesystem::path> const& files,
             FunctionRef<std::int64_t(std::filesystem::path const&)> steps_of) {
  namespace fs = std::filesystem;
  struct Found {
    fs::file_time_type written;
    fs::path file;
    std::int64_t steps = -1;
  };
  std::vector<Found> found;
  for (auto const& file : files) {
    std::error_code missing;
    auto const written = fs::last_write_time(file, missing);
    if (!missing) found.push_back({written, file});
  }
  sort_seldom(found,
              [](Found const& a, Found const& b) { return std::tie(a.written, a.file) > std::tie(b.written, b.file); });
  auto const same = [](Found const& a, Found const& b) {
    std::error_code unknown;
    return a.file == b.file || (a.written == b.written && fs::equivalent(a.file, b.file, unknown));
  };
  std::vector<fs::path> ordered;
  for (auto from = found.begin(); from != found.end();) {
    auto const to = std::find_if(from, found.end(), [&](Found const& one) { return one.written != from->written; });
    std::vector<Found> equal;
    for (; from != to; ++from)
      if (std::ranges::none_of(equal, [&](Found const& one) { return same(one, *from); })) equal.push_back(*from);
    if (equal.size() > 1)
      for (auto& one : equal) one.steps = steps_of(one.file);
    sort_seldom(equal,
                [](Found const& a, Found const& b) { return std::tie(a.steps, a.file) > std::tie(b.steps, b.file); });
    for (auto& one : equal) ordered.push_back(std::move(one.file));
  }
  return ordered;
}

FULGURITE_BODY long number_of(std::filesystem::path const& file) {
  auto const stem = file.stem().string();
  long number = -1;
  auto const* const last = stem.data() + stem.size();
  auto const* const first = stem.data() + stem.find_last_not_of("0123456789") + 1;
  return first != last && std::from_chars(first, last, number).ec == std::errc{} ? number : -1;
}

FULGURITE_BODY std::vector<std::filesystem::path> last_checkpoints(Callbacks callbacks, CheckpointSearch const& search,
                                                                   bool of_those_that_resume) {
  std::vector<std::filesystem::path> files;
  for (auto const& [callback, table, given] : callbacks)
    if (table->last_checkpoints != nullptr && (!of_those_that_resume || table->resumes_fit))
      for (auto& file : table->last_checkpoints(callback, search)) files.push_back(std::move(file));
  return files;
}

FULGURITE_BODY std::vector<std::filesystem::path> hpc_checkpoints(Callbacks callbacks, CheckpointSearch const& search,
                                                                  bool of_requeued) {
  std::vector<std::filesystem::path> files;
  for (auto const& [callback, table, given] : callbacks) {
    if (table->hpc_checkpoints == nullptr) continue;
    if (of_requeued && (table->resumes_hpc == nullptr || !table->resumes_hpc(callback))) continue;
    for (auto& file : table->hpc_checkpoints(callback, search)) {
      std::error_code none;
      if (std::filesystem::exists(file, none)) files.push_back(std::move(file));
    }
  }
  sort_seldom(files, [](auto const& a, auto const& b) {
    auto const of_a = number_of(a), of_b = number_of(b);
    return of_a != of_b ? of_a > of_b : a > b;
  });
  return files;
}

FULGURITE_BODY std::filesystem::path best_checkpoint(Callbacks callbacks) {
  std::filesystem::path best;
  bool asked = false;
  for (auto const& [callback, table, given] : callbacks) {
    if (table->best_model_path == nullptr) continue;
    asked = true;
    if (best.empty()) best = table->best_model_path(callback);
  }
  if (best.empty())
    throw Error("fulgurite.resume.no_best",
                asked
                    ? "CkptPath{\"best\"}: no best file was written yet; name a file, or call fit first"
                    : "CkptPath{\"best\"} asks a ModelCheckpoint, and this trainer has none: name a file, or add one");
  return best;
}

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

FULGURITE_BODY OwnAction OwnActions::begin_saving() {
  return begin(action::action_of<action::Plain<"save_checkpoint", RunPart::saving>>());
}

}  // namespace fulgurite::loop
