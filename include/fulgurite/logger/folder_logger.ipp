#pragma once
// The bodies of logger/folder_logger.hpp.

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fulgurite/logger/folder_logger.hpp>

namespace fulgurite::report {

FULGURITE_BODY std::string system_text() {
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

FULGURITE_BODY void put_notes(std::filesystem::path const& folder, std::string const& program,
                              std::string const& options) {
  std::ofstream(folder / "describe.txt", std::ios::binary) << program;
  std::ofstream(folder / "options.txt", std::ios::binary) << options;
  std::ofstream(folder / "system.txt", std::ios::binary) << system_text();
}

}  // namespace fulgurite::report

namespace fulgurite::logger {

/// The next number; throws if there is none.
FULGURITE_BODY long version_after(long number, std::filesystem::path const& root) {
  if (number == std::numeric_limits<long>::max())
    throw Error("fulgurite.logger.version",
                (root / ("version_" + std::to_string(number))).string() +
                    " is there, and no number is above it: rename that folder, or give the logger a version");
  return number + 1;
}

FULGURITE_BODY void each_version(std::filesystem::path const& root,
                                 FunctionRef<void(long, std::filesystem::path const&)> f) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    auto const name = entry->path().filename().string();
    constexpr std::string_view prefix = "version_";
    long number = -1;
    auto const* const last = name.data() + name.size();
    if (!name.starts_with(prefix) || std::from_chars(name.data() + prefix.size(), last, number).ptr != last) continue;
    f(number, entry->path());
  }
}

/// One above the highest version_N in `root`; 0 if there is none. Gaps are not filled.
FULGURITE_BODY long next_version(std::filesystem::path const& root) {
  long next = 0;
  each_version(root, [&](long number, std::filesystem::path const&) {
    if (number >= next) next = version_after(number, root);
  });
  return next;
}

FULGURITE_BODY std::filesystem::path claim_version(std::filesystem::path const& root, long number) {
  for (;; number = version_after(number, root)) {
    auto folder = root / ("version_" + std::to_string(number));
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) file::fail("fulgurite.file.write", "make the folder", folder, errno);
  }
}

FULGURITE_BODY std::filesystem::path new_version(std::filesystem::path const& root) {
  file::make_folders(root);
  return claim_version(root, next_version(root));
}

FULGURITE_BODY VersionLock::VersionLock(std::filesystem::path const& folder, std::string_view name)
    : path_(folder / name) {
  while (!descriptor_) {
    FileDescriptor opened(::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!opened) file::fail("fulgurite.file.write", "lock", path_, errno);
    if (file::try_lock(opened.number()) == file::Lock::taken)
      throw Error("fulgurite.logger.version_in_use",
                  "another logger writes into " + folder.string() + " now (" + owner(opened.number()) +
                      "): give this one another version, or none, so that it gets one of its own");
    // The previous owner may have removed the file between the two calls.
    if (file::leads_to(path_, opened.number())) descriptor_ = std::move(opened);
  }
  // The text is for people. The lock is the kernel's, so it does not matter if the text cannot be written.
  if (::ftruncate(descriptor_.number(), 0) == 0)
    file::write_all(descriptor_.number(), "process " + std::to_string(::getpid()) + " on " + file::host_name());
}

FULGURITE_BODY VersionLock::~VersionLock() {
  if (holds()) ::unlink(path_.c_str());
}

FULGURITE_BODY bool VersionLock::holds() const { return descriptor_ && file::leads_to(path_, descriptor_.number()); }

FULGURITE_BODY std::string VersionLock::owner(int descriptor) {
  std::string text(256, '\0');
  auto const count = file::read_at(descriptor, std::as_writable_bytes(std::span(text)), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text.empty() ? "it has just begun" : text;
}

FULGURITE_BODY ChosenFolder::ChosenFolder(std::string_view owner, std::string_view lock, std::filesystem::path save_dir,
                                          FolderOptions options)
    : owner_(owner), lock_(lock), save_dir_(std::move(save_dir)), options_(std::move(options)) {
  auto const name = std::filesystem::path(options_.name).lexically_normal();
  if (name.has_root_path() || (!name.empty() && *name.begin() == "..") || options_.name.find('\0') != std::string::npos)
    throw Error("fulgurite.logger.name",
                owner_ + ": the name '" + options_.name.substr(0, options_.name.find('\0')) +
                    "' leads out of save_dir: give a folder below it, and the rest of the way as save_dir");
  if (options_.version && *options_.version < 0)
    throw Error("fulgurite.logger.version",
                owner_ + ": version = " + std::to_string(*options_.version) + ": versions begin with 0");
}

/// True for two names of one folder.
FULGURITE_BODY bool is_same_folder(std::filesystem::path const& a, std::filesystem::path const& b) {
  std::error_code missing;
  return a == b || std::filesystem::equivalent(a, b, missing);
}

FULGURITE_BODY bool ChosenFolder::choose(Context& ctx,
                                         FunctionRef<std::filesystem::path(std::filesystem::path const&)> make) {
  auto const earlier = std::exchange(continued_, {});
  before_.reset();
  is_resumed_ = false;
  if (ctx.rank() != 0 || ctx.dev_run() || ctx.options().barebones) return false;
  auto const root = root_of(ctx.options());
  if (!earlier.empty() && !options_.version) go_on_in(ctx, earlier, root);
  if (!folder_.empty()) return true;
  if (options_.version) {
    folder_ = root / ("version_" + std::to_string(*options_.version));
    file::make_folders(folder_);
    return true;
  }
  // A logger of another kind, listed before this one, may have made the run's folder where this one would.
  std::error_code missing;
  auto const& shared = ctx.log_dir();
  bool const may_share = !shared.empty() && is_same_folder(shared.parent_path(), root) &&
                         !std::filesystem::exists(shared / lock_, missing);
  folder_ = may_share ? shared : make(root);
  return true;
}

FULGURITE_BODY void ChosenFolder::do_not_continue() {
  if (before_) folder_ = *before_;
  end();
  is_resumed_ = false;
}

FULGURITE_BODY void ChosenFolder::end() {
  continued_.clear();
  before_.reset();
}

FULGURITE_BODY bool ChosenFolder::is(std::filesystem::path const& folder) const {
  return is_same_folder(folder, folder_);
}

FULGURITE_BODY std::filesystem::path ChosenFolder::root_of(TrainerOptions const& options) const {
  return ((save_dir_.empty() ? options.default_root_dir.path() : save_dir_) / options_.name).lexically_normal();
}

FULGURITE_BODY void ChosenFolder::go_on_in(Context& ctx, std::filesystem::path const& folder,
                                           std::filesystem::path const& root) {
  before_ = folder_;
  std::error_code missing;
  bool const is_there = std::filesystem::is_directory(folder, missing);
  if (is_there && is_same_folder(folder.parent_path(), root)) {
    is_resumed_ = true;
    folder_ = folder;
    return;
  }
  folder_.clear();
  ctx.warn_each("fulgurite.logger.new_folder",
                owner_ + ": the run that is resumed was logged in " + folder.string() +
                    (is_there ? ", which is not in " + root.string() : std::string(", which is not there")) +
                    ": its further rows are written to a new folder");
}

FULGURITE_BODY std::string prefixed(std::string const& prefix, std::string_view name) {
  std::string text = prefix;
  if (!prefix.empty()) text += '-';
  return text += name;
}

FULGURITE_BODY void with_cells(std::span<Scalar const> row, long step, std::string const& prefix,
                               FunctionRef<void(std::vector<Cell> const&)> f) {
  std::vector<std::string> names;
  names.reserve(row.size());  // the cells refer to them
  std::vector<Cell> cells{{"step", static_cast<double>(step), true}};
  for (auto const& scalar : row) {
    bool const counter = scalar.name == "epoch";
    if (scalar.name == "step") {  // as in Lightning, a metric of that name replaces the axis
      cells.front() = {"step", scalar.value, false};
      continue;
    }
    names.push_back(counter ? std::string(scalar.name) : prefixed(prefix, scalar.name));
    cells.push_back({names.back(), scalar.value, counter});
  }
  f(cells);
}

FULGURITE_BODY std::string hparams_yaml(std::span<Hyperparameter const> parameters) {
  if (parameters.empty()) return "{}\n";
  std::string text;
  for (auto const& [name, value] : parameters)
    text += report::yaml(name) + ": " +
            setting_text(
                value, [](double number) { return report::yaml(number); },
                [](std::string_view words) { return report::yaml(words); }) +
            "\n";
  return text;
}

}  // namespace fulgurite::logger
