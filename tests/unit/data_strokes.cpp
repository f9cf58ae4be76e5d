#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <fulgurite/data/mnist_files.hpp>

using namespace fulgurite::data;

TEST_CASE("drawn digits depend on the seed and their place alone") {
  auto const few = draw_digits(20, 3), many = draw_digits(30, 3), other = draw_digits(20, 4);
  CHECK(few.size() == 20);
  CHECK(few.pixels.size() == 20 * 784);
  CHECK(std::equal(few.pixels.begin(), few.pixels.end(), many.pixels.begin()));
  CHECK(few.pixels != other.pixels);
  CHECK(few.labels[13] == 3);
}

TEST_CASE("every drawn digit is different, has ink, soft edges, and keeps off the border") {
  std::set<DigitImage> all;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    Random random{1, i};
    DigitImage const image = draw_digit(i % 10, random);
    all.insert(image);
    int ink = 0, soft = 0, border = 0;  // real digits touch the border too, now and then
    for (std::size_t p = 0; p < image.size(); ++p) {
      ink += image[p] > 0;
      soft += image[p] > 0 && image[p] < 180;
      border += image[p] > 0 && (p < 28 || p >= 28 * 27 || p % 28 == 0 || p % 28 == 27);
    }
    CAPTURE(i);
    CHECK(ink > 25);
    CHECK(ink < 400);
    CHECK(soft > 10);
    CHECK(border < 20);
  }
  CHECK(all.size() == 1000);
}

TEST_CASE("digits of a kind look alike: their mean tells most of them, but not all") {
  auto const train = draw_digits(2000, 1), test = draw_digits(500, 2);
  std::vector<double> means(10 * 784);
  for (std::size_t i = 0; i < train.pixels.size(); ++i)
    means[train.labels[i / 784] * 784U + i % 784] += train.pixels[i] / 200.0;
  int right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    std::array<double, 10> apart{};
    for (std::size_t k = 0; k < 7840; ++k) apart.at(k / 784) += std::pow(means[k] - test.pixels[784 * i + k % 784], 2);
    right += std::ranges::min_element(apart) - apart.begin() == test.labels[i];
  }
  CHECK(right > 300);
  CHECK(right < 490);
}

TEST_CASE("distance to a segment") {
  CHECK(distance({0, 1}, {-1, 0}, {1, 0}) == 1);
  CHECK(distance({4, 4}, {-1, 0}, {1, 0}) == 5);
  CHECK(distance({3, 4}, {0, 0}, {0, 0}) == 5);
}
