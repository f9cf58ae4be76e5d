#pragma once
// Texts for the folder of a run that say what the program was and where it ran; a report shows them.

#include <filesystem>
#include <string>
#include <thread>

#include <sys/utsname.h>
#include <unistd.h>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/checkpoint/host_name.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/report/describe.hpp>
#include <fulgurite/report/numbers.hpp>

namespace fulgurite::report {

/// This machine and this program's compiler, in a few lines.
FULGURITE_COLD std::string system_text() {
  std::string text = "host      " + file::host_name() + "\n";
  utsname system{};
  if (::uname(&system) == 0)
    text += std::string("system    ") + system.sysname + " " + system.release + " " + system.machine + "\n";
  text += "cores     " + std::to_string(std::thread::hardware_concurrency()) + "\n";
  double const bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  text += "memory    " + bytes_text(static_cast<std::int64_t>(bytes)) + "\n";
  text += std::string("compiler  ") +
#if defined(__clang__)
          "clang " __clang_version__;
#else
          "g++ " __VERSION__;
#endif
  return text + "\n";
}

/// Writes describe.txt, the program that the trainer's types make, and system.txt into the folder of its last run:
///   report::write_notes(trainer, trainer.callback<CSVLogger>().log_dir());
template <class Trainer>
void write_notes(Trainer const& trainer, std::filesystem::path const& folder) {
  write_durably(folder / "describe.txt", describe(trainer));
  write_durably(folder / "system.txt", system_text());
}

}  // namespace fulgurite::report
