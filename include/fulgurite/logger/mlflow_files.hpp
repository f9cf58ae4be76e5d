#pragma once
// Names, addresses and descriptions as MLflow's file store has them.

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/cold.hpp>

namespace fulgurite::logger::mlflow {

/// The name of a metric or a setting as the path of its file: what MLflow does not take becomes an underscore.
FULGURITE_COLD std::string file_name(std::string_view name) {
  constexpr std::string_view others = "_-. :/";
  std::string out, part;
  auto const end_part = [&] {
    bool const special = part.empty() || part == "." || part == "..";
    out += special ? std::string("_") : part;
    part.clear();
  };
  for (char const c : name) {
    bool const letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (c == '/') {
      end_part();
      out += c;
    } else {
      part += letter || others.find(c) != std::string_view::npos ? c : '_';
    }
  }
  end_part();
  return out;
}

/// A text in YAML, between single quotes.
FULGURITE_COLD std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char const c : text) {
    if (c == '\'') out += c;
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "'";
}

/// The address of a folder.
FULGURITE_COLD std::string address(std::filesystem::path const& folder) {
  constexpr char digits[] = "0123456789ABCDEF";
  constexpr std::string_view plain = "-._~/";
  std::string out = "file://";
  for (char const c : std::filesystem::absolute(folder).lexically_normal().string()) {
    auto const code = static_cast<unsigned char>(c);
    bool const letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter || plain.find(c) != std::string_view::npos) out += c;
    else ((out += '%') += digits[code >> 4]) += digits[code & 15];
  }
  return out;
}

/// The number of an experiment: 0 for "Default", as MLflow has it, else made of the name, so that all runs of a name
/// meet in one folder.
FULGURITE_COLD std::string experiment_number(std::string_view name) {
  if (name == "Default") return "0";
  std::uint64_t sum = 14695981039346656037U;  // FNV-1a
  for (char const c : name) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return std::to_string(100'000'000'000'000'000U + sum % 900'000'000'000'000'000U);  // 18 digits
}

/// Makes a folder whose name, 32 hexadecimal digits, no other run has.
FULGURITE_COLD std::filesystem::path claim_run(std::filesystem::path const& experiment) {
  std::random_device random;
  for (;;) {
    std::string name;
    while (name.size() < 32) name += "0123456789abcdef"[random() % 16];
    auto folder = experiment / name;
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) file::fail("fulgurite.file.write", "make the folder", folder, errno);
  }
}

}  // namespace fulgurite::logger::mlflow
