// Tables of text: fields, types, what is learned from training rows; windows in time; pictures in folders.
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/data/image_folder.hpp>
#include <fulgurite/data/loader.hpp>
#include <fulgurite/data/sampler.hpp>
#include <fulgurite/data/table.hpp>
#include <fulgurite/logger/tensorboard_logger.hpp>

#include "checkpoint_folder.hpp"
#include "data_testing.hpp"
#include <zlib.h>

using namespace fulgurite::data;
using data_test::refusal, data_test::sentence;

namespace {

CsvFile csv(std::string text, CsvOptions options = {}) { return CsvReader{"t.csv", options}.read(std::move(text)); }
std::vector<std::string> fields(CsvFile const& file) { return {file.fields.begin(), file.fields.end()}; }
using Texts = std::vector<std::string>;

void write(std::filesystem::path const& path, std::string const& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}
Image png(std::string const& file) {
  return PngReader{std::span(reinterpret_cast<std::uint8_t const*>(file.data()), file.size()), "p.png"}.read();
}
Image netpbm(std::string const& file) {
  return read_netpbm(std::span(reinterpret_cast<std::uint8_t const*>(file.data()), file.size()), "p.pgm");
}

}  // namespace

TEST_CASE("csv: fields, quotes, line ends of every kind, and lines as they are counted in the file") {
  auto const file = csv("\xEF\xBB\xBFname,\"a, b\"\r\n\"x \"\"y\"\"\",1\r\n\r\n\"two\nlines\",\n,\"\"");
  CHECK(file.columns == Texts{"name", "a, b"});
  CHECK(fields(file) == Texts{"x \"y\"", "1", "", "", "two\nlines", "", "", ""});
  CHECK(file.lines == std::vector<std::size_t>{2, 3, 4, 6});
  CHECK(fields(csv("1;2\n3;4\n", {.separator = ';', .header = false})) == Texts{"1", "2", "3", "4"});
  CHECK(csv("1;2\n", {.separator = ';', .header = false}).columns == Texts{"0", "1"});
  auto const copy = [] {
    auto const first = csv("a\nkept\n");
    return first;
  }();
  CHECK(copy.field(0, 0) == "kept");
}

TEST_CASE("csv: an empty line is a row without values, so that no other row moves") {
  CHECK(fields(csv("load\n1\n2\n\n4\n")) == Texts{"1", "2", "", "4"});
  CHECK(csv("load\n1\n2\n\n4\n").lines == std::vector<std::size_t>{2, 3, 4, 5});
  CHECK(fields(csv("load\n\n2\r\n\r\n\n")) == Texts{"", "2", "", ""});
  CHECK(fields(csv("\n1\n", {.header = false})) == Texts{"", "1"});
  CHECK(fields(csv("\n\nload\n1\n")) == Texts{"1"});  // before the header there are no rows
  CHECK(fields(csv("a,b\n1,2\n\n3,4\n\n\n")) == Texts{"1", "2", "", "", "3", "4"});  // at the end: no rows of two
  auto const table = typed(csv("x,kind\n1,a\n\n3,b\n"));
  REQUIRE(table.rows() == 3);
  CHECK(table.column("x").is_missing(1));
  CHECK(table.column("kind").is_missing(1));
  CHECK(typed(csv("load\n1\n\n3\n")).column("load").is_missing(1));
}

TEST_CASE("csv: empty lines never become more fields than the file has bytes, but for those of a small file") {
  auto const header = [](int columns) {
    std::string names = "0";
    for (int i = 1; i != columns; ++i) names += "," + std::to_string(i);
    return names + "\n";
  };
  std::string const row(4095, ',');
  CHECK(sentence([&] { csv(header(4096) + std::string(1 << 20, '\n') + row + "\n"); }) ==
        "[fulgurite.data.csv] t.csv: line 2 is empty, and so are many others: as rows of 4096 columns they would be "
        "more fields than the file has bytes; remove the empty lines");
  CHECK(csv(header(4096) + std::string(255, '\n') + row).rows() == 256);
  CHECK(refusal([&] { csv(header(4096) + std::string(257, '\n') + row); }) == "fulgurite.data.csv");
  // Here and there: each is a few, all of them are too many.
  std::string apart = header(4096);
  for (int i = 0; i != 300; ++i) apart += "\n\n" + row + "\n";
  CHECK(refusal([&] { csv(apart); }) == "fulgurite.data.csv");
  CHECK(csv("x\n" + std::string(1 << 21, '\n')).rows() == std::size_t{1} << 21);
}

TEST_CASE("csv: what is not sound is an Error with the file and the line, and any bytes are safe") {
  CHECK(sentence([] { csv("a,b\n1,2\n3\n"); }) ==
        "[fulgurite.data.csv] t.csv: line 3 has 1 fields, and the table has 2 columns: mend the line");
  CHECK(sentence([] { csv("a,b\n\"1,2\n"); }).find("line 2 opens a quote that does not end") != std::string::npos);
  CHECK(sentence([] { csv("a,b\n\"1\"x,2\n"); }).find("line 2 has text behind the quote") != std::string::npos);
  CHECK(sentence([] { csv("a,a\n1,2\n"); }).find("line 1 names two columns 'a'") != std::string::npos);
  CHECK(sentence([] { csv("a,b\n"); }).find("line 2 is the end, and there was no row") != std::string::npos);
  CHECK(refusal([] { csv("a,b,c\n", {.most_columns = 2}); }) == "fulgurite.data.csv");
  probe::Folder const folder;
  write(folder.path / "t.csv", "a\n12345678\n");
  CHECK(refusal([&] { read_csv(folder.path / "t.csv", {.most_bytes = 9}); }) == "fulgurite.data.csv");
  CHECK(read_csv(folder.path / "t.csv").rows() == 1);
  auto const as_the_table = reading_of({}, {.separator = ';', .most_bytes = 9, .most_columns = 2}).csv();
  CHECK((as_the_table.separator == ';' && as_the_table.most_bytes == 9 && as_the_table.most_columns == 2));
  Random random{3};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::uint64_t i = random.below(20); i > 0; --i) text += "a,\"\n\r1 "[random.below(7)];
    try {
      auto const file = csv(text);
      CHECK(file.fields.size() == file.rows() * file.columns.size());
    } catch (fulgurite::Error const& error) { CHECK(error.identifier() == "fulgurite.data.csv"); }
  }
}

TEST_CASE("a table: numbers where all are, categories else or where told; missing values in both") {
  auto const file = csv("area,zip,kind\n 1.5,8001,b\nNA,8002,\n-2e1,8001,a\n");
  auto const table = typed(file, {.categories = {"zip"}});
  CHECK(table.column("area").numbers[0] == 1.5);
  CHECK(table.column("area").is_missing(1));
  CHECK(table.column("area").numbers[2] == -20);
  CHECK(table.column("zip").labels == Texts{"8001", "8002"});
  CHECK(table.column("kind").values == std::vector<long>{1, -1, 0});
  CHECK(typed(file).column("zip").is_number);
  auto const spaced = typed(csv("x,kind\n1 , a\n NA, ?\n , \n 2,a \n"));  // as R and SQL write columns of one width
  CHECK(spaced.column("x").is_number);
  CHECK(spaced.column("x").is_missing(1));
  CHECK(spaced.column("x").is_missing(2));
  CHECK(spaced.column("kind").labels == Texts{"a"});
  CHECK(spaced.column("kind").values == std::vector<long>{0, -1, -1, 0});
  CHECK(typed(file, {.leave_out = {"kind", "zip"}}).columns.size() == 1);
  CHECK(sentence([&] { static_cast<void>(typed(file, {.leave_out = {}, .missing = {}})); }) ==
        "[fulgurite.data.column_type] t.csv: line 3 has 'NA' in the column 'area', where 2 of 3 values are numbers: "
        "mend the line, or name the column in .categories, or the value in .missing");
  CHECK(typed(file, {.categories = {"area"}, .missing = {}}).column("area").labels == Texts{"-2e1", "1.5", "NA"});
  CHECK(typed(csv("id\n1\nb1\nb2\n")).column("id").is_number == false);
  CHECK(refusal([&] { static_cast<void>(typed(csv("id\n1\nb1\n\n?\n"))); }) == "fulgurite.data.column_type");
  CHECK(sentence([&] { table.column("prize"); }) ==
        "[fulgurite.data.column] t.csv: there is no column 'prize': it has area, zip, kind; name one of them");
  CHECK(refusal([&] { static_cast<void>(typed(file, {.categories = {"zap"}})); }) == "fulgurite.data.column");
}

TEST_CASE("a table: one sign before a number, and tabs around values as spaces around them") {
  for (char const* text : {"+-5", "++5", "-+5", "+", "+ 5", "1e999", "5 5", "5\t5"})
    CHECK_FALSE(typing::number_of(text).has_value());
  CHECK(typing::number_of("\t+5 \t") == 5);
  CHECK(typing::number_of("-5\t") == -5);
  auto const table = typed(csv("x,kind\n1\t,a\t\n\t 2,\ta\n\t,\tNA\n"));
  REQUIRE(table.column("x").is_number);
  CHECK(table.column("x").numbers[1] == 2);
  CHECK(table.column("x").is_missing(2));
  CHECK(table.column("kind").labels == Texts{"a"});
  CHECK(table.column("kind").is_missing(2));
  CHECK(refusal([] { static_cast<void>(typed(csv("x\n1\n+-5\n3\n"))); }) == "fulgurite.data.column_type");
}

TEST_CASE("a category that is missing in all rows of another file is zero in all of its features") {
  auto const table = typed(csv("x,kind,y\n1,a,0\n3,b,0\n"));
  std::vector<std::size_t> const train{0, 1};
  TableEncoding const encoding(table, train, "y");
  for (auto const& types : {TableTypes{}, TableTypes{.categories = {"kind"}}}) {
    std::vector<float> rows(2 * encoding.width(), 7);
    encoding.encode(typed(csv("x,kind\n1,\n3,NA\n"), types), rows.data());
    CHECK(rows == std::vector<float>{-1, 0, 0, 1, 0, 0});
  }
  std::vector<float> one(encoding.width());
  CHECK(refusal([&] { encoding.encode(typed(csv("x,kind\n1,8001\n")), one.data()); }) == "fulgurite.data.column_type");
  auto const file = csv("note,kind,x\nold,,1\nnew,,NA\n");  // as its columns are to be read; others are left out
  auto const types = encoding.types_of(file, {"", "NA"});
  CHECK(types.categories == Texts{"kind"});
  CHECK(types.leave_out == Texts{"note"});
}

TEST_CASE("numbers that a float cannot hold are scaled as doubles, or refused with their line and column") {
  auto const learned = [](std::vector<double> const& all) {
    return standardization_of(all.size(), [&](std::size_t i) { return all[i]; });
  };
  auto const large = learned({0, 2e170});
  CHECK(large.mean == 1e170);
  CHECK(large(2e170) == 1);
  CHECK(large(0) == -1);
  auto const largest = learned({1.7e308, 1.7e308, -1.7e308, -1.7e308});
  CHECK(largest.mean == 0);
  CHECK(largest(1.7e308) == 1);
  CHECK(learned({1.7e308, 1.7e308})(-1.7e308) < -1e308);
  CHECK(learned({1e-200, 3e-200})(3e-200) > 0.9999);

  auto const table = typed(csv("x,y\n0,0\n2e170,0\n1e170,0\n"));
  std::vector<std::size_t> const train{0, 1};
  TableEncoding const encoding(table, train, "y");
  std::vector<float> rows(3);
  encoding.encode(table, rows.data());
  CHECK(rows == std::vector<float>{-1, 1, 0});
  TableEncoding const small(typed(csv("x,y\n0,0\n2,0\n")), train, "y");
  CHECK(
      sentence([&] { small.encode(table, rows.data()); }) ==
      "[fulgurite.data.too_large] t.csv: line 3 has 2e+170 in the column 'x', which as it is given to the model would "
      "be beyond the largest float, 3.4e38: mend the value, or give the column in another unit");
}

TEST_CASE("what turns a table into numbers is learned from training rows alone, and is a state") {
  auto const table = typed(csv("x,kind,y,full\n1,a,0,5\n3,b,0,5\n,b,0,5\n1000,c,0,7\n"));
  std::vector<std::size_t> const train{0, 1, 2};
  TableEncoding encoding(table, train, "y");
  CHECK(encoding.features() == Texts{"x", "x is missing", "kind = a", "kind = b", "full"});
  std::vector<float> rows(4 * encoding.width());
  encoding.encode(table, rows.data());
  CHECK(rows == std::vector<float>{-1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 998, 0, 0, 0, 2});
  CHECK(encoding.columns()[0].standard.mean == 2);
  CHECK(encoding.columns()[0].standard.deviation == 1);

  auto const saved = fulgurite::state_text(encoding);
  std::vector<std::size_t> const others{1, 2, 0};
  TableEncoding same(typed(csv("x,kind,y,full\n7,a,0,5\n8,b,0,5\n,b,0,5\n")), others, "y");
  fulgurite::load_state_text(same, saved);
  CHECK(same.columns()[0].standard.mean == 2);
  TableEncoding fewer(table, std::vector<std::size_t>{0, 1}, "y");
  CHECK(refusal([&] { fulgurite::load_state_text(fewer, saved); }) == "fulgurite.data.table_changed");
  CHECK(sentence([&] { encoding.encode(typed(csv("x,kind,full\n1,a,5\nmuch,b,5\nmore,b,5\n")), rows.data()); }) ==
        "[fulgurite.data.column_type] t.csv: line 3 has 'much' in the column 'x', which held numbers in training: mend "
        "the line");
  CHECK(refusal([&] { encoding.encode(typed(csv("x,kind,full\n1,2,5\n")), rows.data()); }) ==
        "fulgurite.data.column_type");
  CHECK(sentence([&] { static_cast<void>(encoding.types_of(csv("x,full,height\n1,5,2\n"), {})); }) ==
        "[fulgurite.data.column] t.csv: there is no column 'kind', which the table had in training: it has x, full, "
        "height; add the column");
}

TEST_CASE("a column that is the same everywhere, but for rounding, is not blown up by its deviation") {
  auto const learned = [](std::vector<double> const& all) {
    return standardization_of(all.size(), [&](std::size_t i) { return all[i]; });
  };
  auto const same = learned({0.1, 0.1, std::nan(""), 0.1});
  CHECK(same.mean == 0.1);
  CHECK(same.deviation == 1);
  CHECK(learned({0.3, 0.1 + 0.2, 0.3}).deviation == 1);
  CHECK(learned({1e-30, 3e-30}).deviation < 2e-30);
  CHECK(learned({-1, 1}).deviation == 1);
}

TEST_CASE("windows: no time step is in windows of both parts, and none that fits is left out") {
  for (long length : {1, 3}) {
    for (long horizon : {1, 2}) {
      for (long stride : {1, 2, 5}) {
        auto const parts = split_windows(40, {length, horizon, stride}, 0.25);
        std::set<std::size_t> seen, validated;
        auto const collect = [&](auto const& windows, auto& steps) {
          for (auto const i : windows)
            for (long t = 0; t != length + horizon; ++t)
              steps.insert(i * static_cast<std::size_t>(stride) + static_cast<std::size_t>(t));
        };
        collect(parts.train, seen);
        collect(parts.validation, validated);
        CHECK(*seen.rbegin() < 30);
        CHECK(*validated.begin() >= 30);
        CHECK(*validated.rbegin() < 40);
        CHECK(static_cast<long>(parts.train.size()) == (30 - length - horizon) / stride + 1);
      }
    }
  }
  CHECK(split_windows(10, {3, 1, 1}, 0).validation.empty());
  CHECK(sentence([] { split_windows(20, {6, 2, 1}, 0.25); }) ==
        "[fulgurite.data.windows] of 20 time steps 15 are to train on and 5 to validate on, and a window needs 8 "
        "(.length + .horizon): shorten it, or give another share to .validation");
  CHECK(refusal([] { split_windows(20, {0, 2, 1}, 0.25); }) == "fulgurite.data.windows");
}

TEST_CASE("a picture of each kind is read as it was written; a damaged one is an Error with its name") {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < 5 * 7 * 4; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 37 % 256));
  for (std::size_t channels = 1; channels <= 4; ++channels) {
    auto const part = std::span(pixels).first(5 * 7 * channels);
    auto const image = png(fulgurite::logger::png_file(part, {5, 7, channels}));
    CHECK(image.rows == 5);
    CHECK(image.columns == 7);
    CHECK(image.channels == channels);
    CHECK(std::ranges::equal(image.pixels, part));
  }
  auto const ppm = netpbm("P6 # colours\n2 1\n255\nabcdef");
  CHECK(ppm.channels == 3);
  CHECK(std::string(ppm.pixels.begin(), ppm.pixels.end()) == "abcdef");
  CHECK(with_channels(ppm, 1).pixels == std::vector<std::uint8_t>{98, 101});
  CHECK(with_channels(netpbm("P5 1 1 255\nx"), 3).pixels == std::vector<std::uint8_t>{'x', 'x', 'x'});
  for (char const* wrong : {"P5 1 1 255", "P5 2 1 255\nx", "P5 1 1 65535\nxx", "P5 0 1 255\n", "P5 70000 1 255\nx",
                            "P5 -1 1 255\nx", "P4 1 1 255\nx", "P5", "P6 65000 65000 255\nx"})
    CHECK(refusal([&] { netpbm(wrong); }) == "fulgurite.data.image");

  auto const whole = fulgurite::logger::png_file(std::span(pixels).first(35), {5, 7, 1});
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    REQUIRE(refusal([&] { png(whole.substr(0, cut)); }) == "fulgurite.data.image");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    REQUIRE(refusal([&] { png(damaged); }) == "fulgurite.data.image");
  }
  // Each filter, by hand: a line of 2 grey pixels with filter f, after a line 10 20.
  for (auto const& [filter, bytes, expected] : {std::tuple{1, std::string{3, 4}, std::vector<std::uint8_t>{3, 7}},
                                                {2, {3, 4}, {13, 24}},
                                                {3, {3, 4}, {8, 18}},
                                                {4, {3, 4}, {13, 24}}}) {
    std::string lines{0, 10, 20};
    lines += static_cast<char>(filter);
    lines += bytes;
    std::string packed(100, '\0');
    uLongf size = packed.size();
    ::compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<Bytef const*>(lines.data()),
               lines.size());
    packed.resize(size);
    using fulgurite::logger::big_endian, fulgurite::logger::png_chunk;
    auto const header = [&](char kind) {
      return "\x89PNG\r\n\x1a\n" +
             png_chunk("IHDR", big_endian(2) + big_endian(2) + '\x08' + kind + std::string(3, '\0'));
    };
    auto const image = png(header('\0') + png_chunk("IDAT", packed) + png_chunk("IEND", ""));
    CHECK(std::vector(image.pixels.begin() + 2, image.pixels.end()) == expected);
    auto const palette = header('\x03') + png_chunk("PLTE", std::string(3 * 25, 'p')) + png_chunk("IDAT", packed);
    CHECK(png(palette + png_chunk("IEND", "")).pixels == std::vector<std::uint8_t>(12, 'p'));
    CHECK(refusal([&] { png(header('\x03') + png_chunk("IDAT", packed) + png_chunk("IEND", "")); }) ==
          "fulgurite.data.image");
  }
}

TEST_CASE("pictures in folders: classes and files in the order of their names, read when asked for") {
  probe::Folder const folder;
  write(folder.path / "dog" / "b" / "2.PGM", "P5 1 1 255\nd");
  write(folder.path / "dog" / "1.ppm", "P6 1 1 255\nDOG");
  write(folder.path / "cat" / "x.pgm", "P5 1 1 255\nc");
  write(folder.path / "cat" / "notes.txt", "none");
  write(folder.path / ".hidden" / "x.pgm", "no picture");
  write(folder.path / "list.txt", "none");
  ImageFolder const images(folder.path);
  CHECK(images.classes() == Texts{"cat", "dog"});
  REQUIRE(images.size() == 3);
  CHECK(images.get(0).image.pixels == std::vector<std::uint8_t>{'c'});
  CHECK(images.get(1).label == 1);
  CHECK(images.get(1).image.channels == 3);
  CHECK(images.get(2).image.pixels == std::vector<std::uint8_t>{'d'});
  write(folder.path / "cat" / "x.pgm", "P5 1 1 255");
  Loader loader{std::cref(images), {.workers = 2}};
  CHECK(sentence([&] { loader.begin(); }).find("x.pgm: at byte") != std::string::npos);
  CHECK(refusal([&] { ImageFolder(folder.path / "none"); }) == "fulgurite.data.image_folder");
  CHECK(refusal([&] { ImageFolder(folder.path / "dog"); }) == "fulgurite.data.image_folder");
  std::filesystem::create_directories(folder.path / "empty");
  CHECK(sentence([&] { ImageFolder{folder.path}; }).find("empty: no file in it ends in .png") != std::string::npos);
  write(folder.path / "empty" / "a.JPG", "a photograph");
  write(folder.path / "cat" / "b.jpg", "a photograph");
  write(folder.path / "cat" / "b.webp", "a photograph");
  CHECK(sentence([&] { ImageFolder{folder.path}; }) ==
        "[fulgurite.data.image_folder] " + folder.path.string() +
            ": files end in .jpg (2), .webp (1), and PNG, PGM and PPM can be read: convert them, or take them away");
  for (char const* name : {"empty/a.JPG", "cat/b.jpg", "cat/b.webp"}) std::filesystem::remove(folder.path / name);
  write(folder.path / "empty" / "a.png", "P5 1 1 255");
  CHECK(refusal([&] { ImageFolder(folder.path).get(3); }) == "fulgurite.data.image");
}

TEST_CASE("pictures in folders: hidden files are left out, links are followed, others are refused when listed") {
  namespace fs = std::filesystem;
  probe::Folder const folder;
  auto const root = folder.path / "pets", elsewhere = folder.path / "elsewhere";
  for (char const* name : {"cat/1.pgm", "cat/b/2.pgm", "dog/1.pgm"}) write(root / name, "P5 1 1 255\nx");
  write(root / "cat" / ".ipynb_checkpoints" / "1-checkpoint.pgm", "P5 1 1 255\nx");
  write(root / "cat" / "._0.pgm", "Mac OS X");
  write(root / "dog" / ".hidden.jpg", "a photograph");
  write(root / "dog" / "notes.txt", "P5 stands for grey");
  CHECK(ImageFolder(root).size() == 3);
  for (char const* name : {"7.pgm", "c/8.pgm"}) write(elsewhere / name, "P5 1 1 255\nx");
  fs::create_directory_symlink(elsewhere, root / "dog" / "more");
  fs::create_directory_symlink(elsewhere, root / "eel");
  ImageFolder const linked(root);
  REQUIRE(linked.size() == 7);
  CHECK(linked.classes() == Texts{"cat", "dog", "eel"});
  CHECK(linked.path(3) == root / "dog" / "more" / "7.pgm");
  CHECK(linked.path(4) == root / "dog" / "more" / "c" / "8.pgm");
  fs::remove(root / "eel");

  auto const refused = [&](std::string const& name, std::string const& bytes) {
    write(root / "dog" / name, bytes);
    auto const said = sentence([&] { ImageFolder{root}; });
    fs::remove(root / "dog" / name);
    return said;
  };
  using std::string_literals::operator""s;
  for (auto const& [name, bytes] : {std::pair{"a.jfif"s, "\xFF\xD8\xFF\xE0"s},
                                    {"a.jpe", "a photograph"},
                                    {"a.dat", "\xFF\xD8\xFF\xE0"},
                                    {"a.gif", "GIF89a"},
                                    {"a.pnm", "P6 1 1 255\nxyz"}})
    CHECK(refused(name, bytes) == "[fulgurite.data.image_folder] " + root.string() + ": files end in " +
                                      fs::path(name).extension().string() +
                                      " (1), and PNG, PGM and PPM can be read: convert them, or take them away");
  for (auto const& bytes : {""s, "GIF89a"s, "P"s})
    CHECK(refused("a.png", bytes).find("a.png: it cannot be opened, or does not begin as a PNG") != std::string::npos);
  fs::create_symlink(folder.path / "gone.pgm", root / "dog" / "9.pgm");
  CHECK(sentence([&] { ImageFolder{root}; }).find("9.pgm: this link leads nowhere") != std::string::npos);
  fs::remove(root / "dog" / "9.pgm");
  fs::create_symlink("9.pgm", root / "dog" / "9.pgm");
  CHECK(sentence([&] { ImageFolder{root}; }).find("9.pgm: this cannot be looked at (") != std::string::npos);
  fs::remove(root / "dog" / "9.pgm");
  fs::create_symlink("itself", root / "itself");
  CHECK(sentence([&] { ImageFolder{root}; }).find("itself: this cannot be looked at (") != std::string::npos);
  CHECK(refusal([&] { ImageFolder{root / "itself"}; }) == "fulgurite.data.image_folder");
  fs::remove(root / "itself");
  fs::create_directory_symlink(root / "dog", root / "dog" / "round");
  CHECK(sentence([&] { ImageFolder{root}; }).find("round: this link leads to a folder that it is in") !=
        std::string::npos);
}
