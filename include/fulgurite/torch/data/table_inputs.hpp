#pragma once
// The features of rows as a model was trained to see them, which a second program restores from a checkpoint.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/data/table_encoding.hpp>
#include <fulgurite/torch/data/buffers.hpp>

namespace fulgurite::data {

/// What predictions need of a table: how its columns become features, which classes the target has, and how its file is
/// read. A TableModule is one; `data_state<data::TableInputs>("last.safetensors")` restores it without the table.
class TableInputs {
 public:
  TableInputs() = default;
  TableInputs(TableEncoding encoding, std::vector<std::string> classes, TableReading reading)
      : encoding_(std::move(encoding)), classes_(std::move(classes)), reading_(std::move(reading)) {}

  /// The names of the features, and of the classes where the target has some.
  std::vector<std::string> features() const { return encoding_.features(); }
  std::vector<std::string> const& classes() const { return classes_; }
  TableEncoding const& encoding() const { return encoding_; }

  /// The features of other rows: float32, rows x features. The target's column may be missing, and other columns are
  /// not read. Errors: those of read_csv, typed and TableEncoding::encode.
  FULGURITE_BULK torch::Tensor inputs(Table const& rows) const {
    LoadingMode const mode;
    torch::Tensor made =
        torch::empty({static_cast<std::int64_t>(rows.rows()), static_cast<std::int64_t>(encoding_.width())});
    encoding_.encode(rows, made.mutable_data_ptr<float>());
    return made;
  }
  FULGURITE_BULK torch::Tensor inputs(std::filesystem::path const& file) const {
    auto const text = read_csv(file, reading_.csv());
    return inputs(typed(text, encoding_.types_of(text, reading_.missing)));
  }

  /// Loading into one that knows its columns, these have to be the same. Error [fulgurite.data.table_changed].
  void state(auto& archive) {
    archive("classes", classes_);
    archive.child("reading", reading_);
    archive.child("encoding", encoding_);
  }

 protected:
  TableEncoding encoding_;
  std::vector<std::string> classes_;
  TableReading reading_;
};

}  // namespace fulgurite::data
