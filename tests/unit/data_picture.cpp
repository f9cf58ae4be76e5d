#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "../../examples/helpers/picture.hpp"

using namespace example;

TEST_CASE("images are laid out in a grid") {
  std::vector<float> const images{0, 1, 0.5F, 2, -1, 0, 0, 1};  // two of 2 x 2
  Picture const picture = grid(images, 2, 2, 5);
  CHECK(picture.width == 7);
  CHECK(picture.height == 4);
  CHECK(picture.pixels == std::vector<std::uint8_t>{64, 64,  64,  64, 64, 64,  64, 64, 0,  255, 64, 0,  0,  64,
                                                    64, 128, 255, 64, 0,  255, 64, 64, 64, 64,  64, 64, 64, 64});
  CHECK(grid(images, 2, 2, 1).height == 7);
  CHECK(grid(images, 2, 2, 2, -1, 1).pixels[8] == 128);
}

TEST_CASE("a PNG has its chunks, their checksums, and the lines of the picture") {
  Picture const picture{2, 3, {1, 2, 3, 4, 5, 6}};
  std::string const file = png(picture);
  CHECK(file.substr(0, 8) == "\x89PNG\r\n\x1a\n");
  auto const number = [&](std::size_t at) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<unsigned char>(file[at + i]);
    return n;
  };
  std::string kinds, packed;
  for (std::size_t at = 8; at < file.size(); at += number(at) + 12) {
    std::string const body = file.substr(at + 4, number(at) + 4);
    kinds += body.substr(0, 4) + " ";
    CHECK(number(at + 8 + number(at)) ==
          crc32(0, reinterpret_cast<Bytef const*>(body.data()), static_cast<uInt>(body.size())));
    if (body.starts_with("IDAT")) packed = body.substr(4);
  }
  CHECK(kinds == "IHDR IDAT IEND ");
  CHECK(number(16) == 2);
  CHECK(number(20) == 3);
  std::vector<Bytef> lines(9);
  uLongf length = lines.size();
  REQUIRE(uncompress(lines.data(), &length, reinterpret_cast<Bytef const*>(packed.data()),
                     static_cast<uLong>(packed.size())) == Z_OK);
  CHECK(lines == std::vector<Bytef>{0, 1, 2, 0, 3, 4, 0, 5, 6});
}

TEST_CASE("pictures are written to files, or it is said that they are not") {
  auto const path = std::filesystem::temp_directory_path() / ("fulgurite_picture_" + std::to_string(::getpid()));
  write_pgm(path, {2, 1, {7, 8}});
  CHECK(std::filesystem::file_size(path) == 11 + 2);
  write_png(path, {2, 1, {7, 8}});
  CHECK(std::filesystem::file_size(path) > 50);
  std::filesystem::remove(path);
  CHECK_THROWS(write_png("/no/such/folder/picture.png", {2, 1, {7, 8}}));
}
