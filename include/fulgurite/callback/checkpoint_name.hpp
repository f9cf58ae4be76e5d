#pragma once
// What the files of a ModelCheckpoint are called: a template, filled with the epoch, the step and metrics.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fulgurite/callback/checkpoint_folder.hpp>
#include <fulgurite/callback/file_name.hpp>
#include <fulgurite/callback/model_checkpoint_options.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>

namespace fulgurite::checkpointing {

/// The name of a file, without version and extension. The Error [fulgurite.callback.checkpoint_name] says, when the
/// callback is made, where a file of such a name would not lie in the folder, and when a run is set up, which field has
/// no value.
class Name {
 public:
  explicit Name(ModelCheckpointOptions const& options) : template_(options.filename, options.auto_insert_metric_name) {
    auto const example =
        options.filename.empty() ? options.filename : template_.text([](auto&) { return FileName::Value{}; });
    if (auto const why = why_no_name(example, options.extension, options.dirpath); !why.empty())
      throw Error("fulgurite.callback.checkpoint_name", "a checkpoint's file name: " + why);
  }

  /// Whether the names contain values of metrics.
  bool tells_metrics() const {
    bool any = false;
    template_.each_field([&](std::string const& field) { any = any || !is_count(field); });
    return any;
  }

  /// Whether the run has a value for each field.
  void check(auto& ctx) const {
    template_.each_field([&](std::string const& field) {
      if (is_count(field)) return;
      bool declared = false;
      ctx.each_metric([&](auto const& metric, auto const&) { declared = declared || metric.name() == field; });
      if (!declared || template_.wants_whole(field))
        throw Error("fulgurite.callback.checkpoint_name",
                    "ModelCheckpoint: {" + field + "} in the file name " +
                        (declared ? "is a metric, not a whole number: write {" + field + ":.2f}"
                                  : "is neither epoch, step nor a metric of the model"));
    });
  }

  /// All files in the folder, and in those below it that such names make. Other folders there are of others.
  FULGURITE_COLD std::vector<std::filesystem::path> files_in(std::filesystem::path const& folder,
                                                             std::string const& extension) const {
    auto files = files_of(folder, extension);
    std::erase_if(files, [&](std::filesystem::path const& file) {
      auto const below = file.parent_path().lexically_relative(folder);
      return below != "." && !below.empty() && !template_.may_lie_in(below.generic_string());
    });
    return files;
  }

  /// The name at this moment, with that epoch, and `value_of(metric)` for the metrics, which is the same on all ranks.
  /// A metric without a value is 0.
  std::string text(auto& ctx, int epoch, auto&& value_of) const {
    return template_.text([&](std::string const& field) -> FileName::Value {
      if (field == "epoch") return {static_cast<double>(epoch), true};
      if (field == "step") return {static_cast<double>(ctx.global_step()), true};
      FileName::Value found;
      ctx.each_metric([&](auto const& metric, auto const&) {
        if (metric.name() != field) return;
        if (std::optional<double> const value = value_of(metric)) found = {*value, false};
      });
      return found;
    });
  }

 private:
  static bool is_count(std::string const& field) { return field == "epoch" || field == "step"; }

  FileName template_;
};

}  // namespace fulgurite::checkpointing
