#pragma once
// Texts for the folder of a run that say what the program was and where it ran; a report shows them.

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <sys/utsname.h>
#include <unistd.h>

#include <fulgurite/checkpoint/host_name.hpp>
#include <fulgurite/core/cold.hpp>
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

/// Puts describe.txt, options.txt and system.txt beside a run's rows. They are for people, so the disk is not waited
/// for, and what cannot be written is left out.
FULGURITE_COLD void put_notes(std::filesystem::path const& folder, std::string const& program,
                              std::string const& options) {
  std::ofstream(folder / "describe.txt", std::ios::binary) << program;
  std::ofstream(folder / "options.txt", std::ios::binary) << options;
  std::ofstream(folder / "system.txt", std::ios::binary) << system_text();
}

}  // namespace fulgurite::report
