#pragma once
// What is fuzzed: readers of files that strangers may have made. A target takes any bytes; it may throw an Error of
// ours and nothing else. No header of LibTorch is included, so that an input costs some microseconds.
//   libFuzzer runs one of them for as long as it is told (tools/dev fuzz), tests/unit/checkpoint_fuzz.cpp all of them
//   for a moment. Each has a good input in seeds.hpp.

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/callback/checkpoint_name.hpp>
#include <fulgurite/callback/signals.hpp>
#include <fulgurite/checkpoint/pickle.hpp>
#include <fulgurite/checkpoint/pt_file.hpp>
#include <fulgurite/checkpoint/safetensors.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/place.hpp>
#include <fulgurite/logger/journal.hpp>

#include "../unit/checkpoint_pt_bytes.hpp"
#include "data_targets.hpp"
#include "memory_file.hpp"

namespace fuzz {

/// Opens a file of weights and reads each of its tensors. Returns whether it was a good one.
template <class File>
bool weights(std::string_view bytes) {
  MemoryFile const memory(bytes);
  try {
    File const file(memory.path());
    for (auto const& entry : file.entries()) {
      std::vector<std::byte> into(
          static_cast<std::size_t>(*fulgurite::safetensors::bytes_of(entry.dtype, entry.shape)));
      // A tensor is never larger than the file that holds it: whoever makes room for it is safe.
      if (into.size() > bytes.size() || file.find(entry.name) == nullptr) std::abort();
      file.read(entry, into);
    }
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

inline bool safetensors(std::string_view bytes) { return weights<fulgurite::SafetensorsFile>(bytes); }
inline bool pt(std::string_view bytes) { return weights<fulgurite::PtFile>(bytes); }

/// A file whose checksums are right, so that what the pickle claims of its tensors is met.
inline bool pt_pickle(std::string_view bytes) {
  return pt(pt_bytes::zip_of({{"m/data.pkl", std::string(bytes)}, {"m/data/0", std::string(24, 'x')}}));
}

inline bool pickle(std::string_view bytes) {
  try {
    fulgurite::pickle::read(bytes, "fuzz");
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

inline bool state_text(std::string_view bytes) {
  try {
    fulgurite::from_text(bytes);
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

/// A table of logged rows to which a logger adds some: what is read of it is written so that it is read again.
inline bool csv_table(std::string_view bytes) {
  MemoryFile const memory(bytes);
  try {
    fulgurite::FileDescriptor const table(::open(memory.path().c_str(), O_RDONLY | O_CLOEXEC));
    fulgurite::logger::CsvReader in(table.number(), "fuzz");
    std::vector<std::string> cells, again;
    while (in.next(cells)) {
      MemoryFile const row(fulgurite::logger::csv_row(cells));
      fulgurite::FileDescriptor const opened(::open(row.path().c_str(), O_RDONLY | O_CLOEXEC));
      fulgurite::logger::CsvReader once_more(opened.number(), "fuzz");
      if (!once_more.next(again) || again != cells || once_more.next(again)) std::abort();
    }
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

/// The template of checkpoint files' names: one that is taken makes names that stay in the folder, whatever values it
/// is filled with.
inline bool file_name(std::string_view bytes) {
  using namespace fulgurite;
  try {
    ModelCheckpointOptions options;
    options.filename = std::string(bytes);
    for (bool const names : {true, false})
      for (double const value : {0.0, -1.5, 1e300, -1e-300}) {
        options.auto_insert_metric_name = names;
        checkpointing::Name const pattern(options);
        for (bool const whole : {true, false}) {
          if (whole && !(value > -1e9 && value < 1e9)) continue;
          auto const text = pattern.filled([&](auto const&) { return checkpointing::Name::Value{value, whole}; });
          if (names && !checkpointing::why_no_name(text, options.extension).empty()) std::abort();
        }
      }
    return true;
  } catch (Error const&) { return false; }
}

/// What SLURM says of a job, a line each: its id, its name, the id of its array, its place there. What becomes a name
/// of files and an argument of scontrol has digits alone.
inline bool slurm_environment(std::string_view bytes) {
  constexpr std::array<std::string_view, 4> names{"SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_ARRAY_JOB_ID",
                                                  "SLURM_ARRAY_TASK_ID"};
  std::array<std::string, names.size()> values;
  for (auto& value : values) {
    auto const line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
    value = std::string(line);
  }
  auto const job = fulgurite::slurm::job([&](std::string_view name) -> char const* {
    auto const place = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    return values[place].empty() ? nullptr : values[place].c_str();
  });
  if (!job) return false;
  if (job->name.empty() || job->name.find_first_not_of("0123456789_") != std::string::npos) std::abort();
  if (job->task.find_first_not_of("0123456789") != std::string::npos) std::abort();
  return true;
}

/// The variables of torchrun, SLURM and MPI, a line each as NAME=VALUE: a rank lies among the ranks, and their store
/// has a host and a port.
inline bool launcher_environment(std::string_view bytes) {
  std::vector<std::pair<std::string, std::string>> variables;
  while (!bytes.empty()) {
    auto const line = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
    auto const name = line.substr(0, line.find('='));
    variables.emplace_back(name, line.substr(std::min(line.size(), name.size() + 1)));
  }
  auto const variable = [&](std::string_view name) -> char const* {
    for (auto const& [its, value] : variables)
      if (its == name) return value.c_str();
    return nullptr;
  };
  try {
    auto const place = fulgurite::distributed::Environment(variable).place();
    if (!place) return false;
    if (place->rank < 0 || place->rank >= place->world || place->local_rank < 0) std::abort();
    if (place->local_rank >= place->local_world || place->local_world > place->world) std::abort();
    if (place->port < 0 || place->port > 65535) std::abort();
    if (place->host.empty() && !place->agent_has_store) std::abort();
    return true;
  } catch (fulgurite::Error const&) { return false; }
}

}  // namespace fuzz
