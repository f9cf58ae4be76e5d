#pragma once
// The bodies of logger/journal.hpp.

#include <array>
#include <cerrno>
#include <span>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fulgurite/core/text.hpp>
#include <fulgurite/logger/journal.hpp>

namespace fulgurite::logger {

FULGURITE_BULK_BODY std::string utf8_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    auto const bytes = utf8::length(text, at);
    if (bytes == 0) out += "\xEF\xBF\xBD";
    else out += text.substr(at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  return out;
}

FULGURITE_BULK_BODY std::string csv_row(std::vector<std::string> const& cells) {
  std::string line;
  for (auto const& cell : cells) {
    if (&cell != cells.data()) line += ',';
    if (cell.find_first_of(",\"\n\r") == std::string::npos) {
      line += cell;
      continue;
    }
    line += '"';
    for (char const c : cell) (line += c) += c == '"' ? "\"" : "";
    line += '"';
  }
  return line + '\n';
}

FULGURITE_BULK_BODY bool CsvReader::next(std::vector<std::string>& cells) {
  cells.assign(1, "");
  int c = take();
  if (c < 0) return false;
  bool inside = false;
  for (; c >= 0; c = take()) {
    if (inside && c == '"' && peek() == '"') cells.back() += static_cast<char>(take());
    else if (c == '"') inside = !inside;
    else if (inside) cells.back() += static_cast<char>(c);
    else if (c == ',') cells.emplace_back();
    else if (c == '\r' && peek() == '\n') continue;
    else if (c == '\n') return true;
    else cells.back() += static_cast<char>(c);
  }
  if (inside)
    throw Error("fulgurite.file.read", "cannot read " + window_.path().string() +
                                           ", to which rows are to be added: it ends inside a quoted cell");
  return true;
}

FULGURITE_BULK_BODY int CsvReader::peek() {
  if (read_.empty()) {
    read_ = window_.from(offset_);
    offset_ += read_.size();
  }
  return read_.empty() ? -1 : static_cast<unsigned char>(read_.front());
}

FULGURITE_BODY int CsvReader::take() {
  int const c = peek();
  if (c >= 0) read_.remove_prefix(1);
  return c;
}

FULGURITE_BODY FileWindow::FileWindow(int descriptor, std::filesystem::path path)
    : descriptor_(descriptor), path_(std::move(path)) {}

FULGURITE_BULK_BODY std::string_view FileWindow::at(std::uint64_t offset, std::size_t count) {
  if (offset < begin_ || offset + count > begin_ + filled_) {
    begin_ = offset;
    filled_ = 0;
    bytes_.resize(std::max<std::size_t>(count, 65536));
    auto const read = file::read_at(descriptor_, std::as_writable_bytes(std::span(bytes_)), offset);
    if (read < 0) file::fail("fulgurite.file.read", "read", path_, errno);
    filled_ = static_cast<std::size_t>(read);
  }
  auto const skipped = static_cast<std::size_t>(offset - begin_);
  return std::string_view(bytes_.data(), filled_).substr(std::min(skipped, filled_), count);
}

FULGURITE_BODY std::string_view FileWindow::from(std::uint64_t offset) {
  bool const inside = offset >= begin_ && offset < begin_ + filled_;
  return at(offset, inside ? static_cast<std::size_t>(begin_ + filled_ - offset) : 65536);
}

FULGURITE_BODY GrowingFile::GrowingFile(std::filesystem::path path) : path_(std::move(path)) { open(); }

FULGURITE_BODY bool GrowingFile::open() {
  FileDescriptor opened(::open(path_.c_str(), O_RDWR | O_APPEND | O_NONBLOCK | O_CLOEXEC));
  if (!opened && errno == ENOENT) return false;
  constexpr std::string_view cure = "; rows are to be added to it: move it away, or log into another folder";
  struct stat status{};
  if (!opened || ::fstat(opened.number(), &status) != 0) file::fail("fulgurite.file.read", "read", path_, errno, cure);
  if (!S_ISREG(status.st_mode))
    throw Error("fulgurite.file.read",
                "cannot read " + path_.string() + ": this is not a regular file" + std::string(cure));
  descriptor_ = std::move(opened);
  size_ = static_cast<std::uint64_t>(status.st_size);
  return true;
}

FULGURITE_BODY void GrowingFile::require_ours() {
  struct stat here{};
  struct stat there{};
  bool const is_there = ::stat(path_.c_str(), &there) == 0;
  if (!is_there && errno != ENOENT && errno != ENOTDIR)
    file::fail("fulgurite.file.write", "append a row to", path_, errno);
  if (!descriptor_ && !is_there) return;
  bool const ours = descriptor_ && ::fstat(descriptor_.number(), &here) == 0 &&
                    static_cast<std::uint64_t>(here.st_size) == size_ &&
                    (!is_there || (here.st_dev == there.st_dev && here.st_ino == there.st_ino));
  if (!ours)
    throw Error("fulgurite.logger.table_changed",
                path_.string() +
                    " was written to or replaced by another program while rows were added to it, and is left alone: "
                    "give each run a version of its own, and edit copies");
  if (is_there) return;
  DurableFile out(path_);
  std::array<std::byte, 65536> block;
  for (std::uint64_t at = 0; at < size_; at += block.size()) {
    auto const part =
        std::span(block).first(static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), size_ - at)));
    if (file::read_at(descriptor_.number(), part, at) != static_cast<ssize_t>(part.size()))
      file::fail("fulgurite.file.read", "read the rows of", path_, errno);
    out.write(part);
  }
  out.commit();
  open();
}

FULGURITE_BODY void GrowingFile::append(std::string_view piece) {
  if (!descriptor_) {
    write_durably(path_, piece);
    open();
    return;
  }
  int const error = file::write_all(descriptor_.number(), piece);
  if (error == 0) {
    size_ += piece.size();
    return;
  }
  // Part of a row would be joined to the next one, so the file is cut; if even that fails, nothing more can be done.
  if (::ftruncate(descriptor_.number(), static_cast<off_t>(size_)) != 0) errno = 0;
  file::fail("fulgurite.file.write", "append a row to", path_, error);
}

FULGURITE_BODY void GrowingFile::cut(std::uint64_t size) {
  if (size >= size_) return;
  if (::ftruncate(descriptor_.number(), static_cast<off_t>(size)) != 0)
    file::fail("fulgurite.file.write", "drop rows of", path_, errno);
  size_ = size;
  sync();
}

FULGURITE_BODY void GrowingFile::sync() const {
  if (descriptor_ && ::fdatasync(descriptor_.number()) != 0)
    file::fail("fulgurite.file.write", "make durable the rows of", path_, errno);
}

FULGURITE_BULK_BODY std::uint64_t end_of_data(FileWindow& window, std::uint64_t at, std::uint64_t size) {
  std::uint64_t end = at;
  while (at < size) {
    auto const bytes = window.at(at, 65536);
    if (bytes.empty()) break;
    auto const last = bytes.find_last_not_of('\0');
    if (last != std::string_view::npos) end = at + last + 1;
    at += bytes.size();
  }
  return end;
}

}  // namespace fulgurite::logger
