#pragma once
// The bodies of torch/data/image_folder.hpp.

#include <algorithm>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/data/image_folder.hpp>

namespace fulgurite::data {

FULGURITE_BULK_BODY ImageInputs::ImageInputs(std::vector<std::string> classes, ImageFolderOptions const& options)
    : classes_(std::move(classes)), channels_(options.channels), height_(options.height), width_(options.width) {
  if ((channels_ != 1 && channels_ != 3) || height_ < 0 || width_ < 0 || (height_ == 0) != (width_ == 0))
    throw Error("fulgurite.data.image_size",
                ".channels must be 1 or 3, got " + std::to_string(channels_) +
                    ", and .height and .width must be both above 0, or both left out, got " + std::to_string(height_) +
                    " and " + std::to_string(width_));
}

FULGURITE_BULK_BODY torch::Tensor ImageInputs::tensor(Image read) const {
  LoadingMode const mode;
  auto const channels = static_cast<std::size_t>(channels_);
  Image const image = with_channels(std::move(read), channels);
  auto const rows = static_cast<std::int64_t>(image.rows), columns = static_cast<std::int64_t>(image.columns);
  torch::Tensor pixels = torch::empty({rows, columns, channels_}, torch::kByte);
  std::copy(image.pixels.begin(), image.pixels.end(), pixels.mutable_data_ptr<std::uint8_t>());
  torch::Tensor made = pixels.permute({2, 0, 1}).to(torch::kFloat).contiguous().div_(255);
  if (height_ != 0 && (rows != height_ || columns != width_))
    made = at::_upsample_bilinear2d_aa(made.unsqueeze(0), {height_, width_}, false).squeeze(0);
  return made;
}

FULGURITE_BULK_BODY torch::Tensor ImageInputs::inputs(std::filesystem::path const& file) const {
  return tensor(read_image(file)).unsqueeze(0);
}

FULGURITE_BODY void ImageInputs::refuse_change(std::vector<std::string> const& saved) const {
  throw Error("fulgurite.data.classes_changed", "the folders are the classes " + listed(classes_) +
                                                    ", and the checkpoint was trained on " + listed(saved) +
                                                    ": give folders of the same names, or restore the classes alone by "
                                                    "data_state<data::ImageInputs>(checkpoint)");
}

FULGURITE_BULK_BODY std::string ImageInputs::size_text() const {
  return std::to_string(channels_) + " channels, and " +
         (height_ == 0 ? std::string("keep the size of their files")
                       : "are resized to " + std::to_string(height_) + " x " + std::to_string(width_));
}

FULGURITE_BODY void ImageInputs::refuse_size(ImageInputs const& saved) const {
  throw Error("fulgurite.data.size_changed",
              "the pictures have " + size_text() + ", and those that the checkpoint was trained on have " +
                  saved.size_text() +
                  ": give the same .channels, .height and .width, or restore those of the checkpoint by "
                  "data_state<data::ImageInputs>(checkpoint)");
}

FULGURITE_BULK_BODY ImageTensors::ImageTensors(std::filesystem::path const& root, ImageFolderOptions const& options)
    : files_(std::make_shared<ImageFolder const>(root)), inputs_(files_->classes(), options) {}

FULGURITE_BULK_BODY Batch ImageTensors::get(std::size_t i) const {
  LoadingMode const mode;
  auto [read, label] = files_->get(i);
  return {inputs_.tensor(std::move(read)), torch::tensor(static_cast<std::int64_t>(label))};
}

void ImageInputs::state(auto& archive) {
  auto saved = *this;
  archive("classes", saved.classes_)("channels", saved.channels_)("height", saved.height_)("width", saved.width_);
  if (!classes_.empty() && !saved.classes_.empty()) {
    if (saved.classes_ != classes_) refuse_change(saved.classes_);
    if (saved.size_text() != size_text()) refuse_size(saved);
  }
  *this = std::move(saved);
}
FULGURITE_STATE(ImageInputs)

}  // namespace fulgurite::data
