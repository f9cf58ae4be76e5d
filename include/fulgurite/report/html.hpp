#pragma once
// One page about one run or several: curves, hyper-parameters, best values, where the time went.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/report/plot.hpp>
#include <fulgurite/report/profile.hpp>
#include <fulgurite/report/run_folder.hpp>

namespace fulgurite::report::html_page {

// The parts of a page about runs: its style, comparisons, figures, matrices, shares of time.

// The style of a report, and the script that shows the values under the pointer. Nothing is fetched from elsewhere.

inline constexpr std::string_view style = R"(
:root{color-scheme:light dark;--ground:#fff;--text:#24292f;--faint:#57606a;--line:#d8dee4;--mark:#fff3c4;
--best:#15803d;--heat:#3b82c4}
@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--text:#e6edf3;--faint:#8b949e;--line:#30363d;
--mark:#4b3b10;--best:#56d364}}
body{margin:0 auto;padding:24px;max-width:1520px;background:var(--ground);color:var(--text);
font:14px/1.5 system-ui,sans-serif}
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:36px 0 10px}p{color:var(--faint);margin:4px 0}
table{border-collapse:collapse}th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--line);text-align:left;
vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}tr.differs td{background:var(--mark)}
td.best{color:var(--best);font-weight:600}
th:first-child,td:first-child{padding-left:6px}
td small{display:block;color:var(--faint);font-weight:400;white-space:nowrap}
.matrix td,.matrix th{padding:4px 10px}
.wide{overflow-x:auto}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));
gap:16px}
.plot{position:relative}.plot svg{width:100%;height:auto;display:block}
.tip{position:absolute;pointer-events:none;background:var(--ground);border:1px solid var(--line);
border-radius:6px;padding:4px 8px;font-size:12px;white-space:pre;display:none}
.bar{display:flex;height:22px;border-radius:6px;overflow:hidden;margin:6px 0}.bar span{min-width:1px}
.p0{background:#c2410c}.p1{background:#a16207}.p2{background:#0b5cad}.p3{background:#3b82c4}
.p4{background:#0e7490}.p5{background:#8b2fc9}
.p6{background:#15803d}.p7{background:#db2777}.p8{background:#64748b}.p9{background:#9f1239}
.p10{background:#65a30d}.p11{background:#a8b0b8}
.key{display:inline-block;width:10px;height:10px;border-radius:3px;margin:0 5px 0 0}
.keys span.k{margin-right:16px;white-space:nowrap}
.run{display:inline-block;width:22px;border-top:3px solid;margin-right:8px;vertical-align:middle}
.dashedrun{border-top-style:dashed}
pre{overflow-x:auto;background:color-mix(in srgb,var(--text) 5%,transparent);padding:12px;border-radius:6px;
font-size:12px;line-height:1.4}
summary{cursor:pointer}
@media (max-width:640px){body{padding:16px}th,td{padding-right:10px}
td:first-child{min-width:110px;overflow-wrap:anywhere}.plot svg{overflow:visible}
.plot text{font-size:19px}.plot .title{font-size:24px}.plot .legend{font-size:16px}}
)";

/// Each plot is followed by its values as JSON: the ends of the x axis, and each curve. The position of the frame is
/// read from the SVG itself.
inline constexpr std::string_view script = R"(
for (const plot of document.querySelectorAll('.plot')) {
  const svg = plot.querySelector('svg'), tip = plot.querySelector('.tip');
  const data = JSON.parse(plot.querySelector('script').textContent);
  const frame = svg.querySelector('.frame').getAttribute('d').match(/-?[\d.]+/g).map(Number);
  const side = svg.querySelectorAll('.frame')[1].getAttribute('d').match(/-?[\d.]+/g).map(Number);
  const [left, bottom, right] = frame, top = side[1];
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  line.setAttribute('class', 'frame'); line.style.display = 'none'; svg.append(line);
  const hide = () => { tip.style.display = line.style.display = 'none'; };
  plot.addEventListener('pointerleave', hide);
  plot.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), scale = 720 / box.width;
    const px = (event.clientX - box.left) * scale, py = (event.clientY - box.top) * scale;
    if (px < left || px > right || py < top || py > bottom) return hide();
    const x = data.x0 + (px - left) / (right - left) * (data.x1 - data.x0);
    let at = null;
    for (const c of data.curves) for (const v of c.x) if (at === null || Math.abs(v - x) < Math.abs(at - x)) at = v;
    if (at === null) return hide();
    const rows = [];
    for (const c of data.curves) {
      let near = -1;
      for (let i = 0; i < c.x.length; ++i) if (near < 0 || Math.abs(c.x[i] - at) < Math.abs(c.x[near] - at)) near = i;
      if (near < 0) continue;
      const value = c.y[near] === null ? 'nan' : Number(c.y[near].toPrecision(6));
      rows.push(c.name + '  ' + value + (c.x[near] === at ? '' : '  at ' + c.x[near]));
    }
    tip.textContent = 'step ' + at + '\n' + rows.join('\n');
    tip.style.display = 'block';
    const cx = left + (at - data.x0) / (data.x1 - data.x0) * (right - left);
    line.setAttribute('d', 'M' + cx + ' ' + top + 'V' + bottom); line.style.display = '';
    const wide = tip.offsetWidth, over = cx / scale + 12 + wide > box.width;
    tip.style.left = (over ? cx / scale - 12 - wide : cx / scale + 12) + 'px'; tip.style.top = (py / scale + 12) + 'px';
  });
}
)";

// The settings of several runs in a table, differences first.

/// Values by name, of one run; empty if unknown.
using Values = std::vector<std::pair<std::string, std::string>>;

/// A name, its value in each run, and whether they differ: a run whose values are unknown does not count as different.
struct Compared {
  std::string name;
  std::vector<std::string> values;
  bool differs = false;
};

std::vector<Compared> compared(std::vector<Values> const& runs);

/// A table of the differences, with `heads` for its columns; equal values follow once, collapsed. For a single run one
/// table has all values, collapsed if `folded`.
std::string comparison(std::string_view title, std::string const& heads, std::vector<Values> const& runs,
                       bool folded = false);

// One plot on a page: its SVG, and its numbers for the script that shows them.

/// The curves as a drawing, and the values that the script shows under the pointer.
std::string figure(Plot const& one);

// A matrix of counts on a page, with its last values.

/// Rows are labels, columns are predictions. The larger a cell's share of its row, the darker it is.
std::string table_of(Matrix const& matrix);

// Where the time of a run went, as a page shows it.

/// A bar of shares, a sentence, and all actions in a collapsed table.
std::string shares(Profile const& profile);

}  // namespace fulgurite::report::html_page

namespace fulgurite::report {

// The best value of a metric's curve: whether the smallest or the largest is best.

/// True if the smallest value is best, as for metrics that count errors. The words of a name are separated by '/', '.',
/// '_' and '-': "answers" does not contain "wer".
bool smaller_is_better(std::string_view name);

/// The best value of a curve, its step, and the last value.
struct BestValue {
  double value = 0, last = 0;
  double step = 0;
  bool any = false;
};

// Names for runs that are shown together: the parts in which their paths differ.

/// A short name for each run, and the common part of all paths, `runs/*/version_0`, in which a star stands for the
/// name; empty if they have nothing in common.
struct RunNames {
  std::vector<std::string> names{};
  std::string common{};
};

namespace run_names {

using Parts = std::vector<std::string>;

Parts parts_of(std::filesystem::path const& path);
std::string joined(Parts const& parts);

}  // namespace run_names

/// A single path is its own name.
RunNames names_of_runs(std::vector<std::filesystem::path> const& paths);

namespace html_page {

/// Writes the page once: `Page(runs).take()`.
class Page {
 public:
  explicit Page(std::vector<RunFolder> const& runs);
  std::string take() { return std::move(made_); }

 private:
  std::string run_key(std::size_t run) const;
  void cell(std::string_view text);

  /// The headers of a table's columns, one for each run, and the end of that row.
  std::string columns() const;

  void head();

  /// All metrics, in the order in which the runs have them.
  std::vector<std::string> metrics() const;
  Curve const* curve_of(std::size_t run, std::string_view metric) const;

  /// For one run, a plot for each kind of metric. For several, a plot for each metric, in which each run keeps its
  /// colour.
  void curves();
  /// A cell with a best value. Its step and the last value are on a line of their own, since a table of several runs
  /// has narrow columns.
  void value(BestValue const& one, bool wins);
  void best();

  /// Confusion matrices, each with its last values.
  void matrices();

  /// Hyper-parameters, the trainer's options, the program and the machine.
  void settings();
  static std::string note_of(RunFolder const& run, std::string_view file);

  /// The results of a SimpleProfiler: a bar of shares, and the actions with the longest own times.
  void times();
  /// Texts in the runs' folders. A text that is the same in all runs is shown once.
  void notes();

  std::vector<RunFolder> const& runs_;
  std::vector<std::vector<Curve>> curves_{};  ///< of each run, without the cells of matrices
  std::vector<std::vector<Matrix>> matrices_{};
  std::vector<std::string> names_{};
  std::string common_{};
  std::string made_{};
};

}  // namespace html_page

/// A page about the runs in these folders, which loggers have written (metrics.csv or metrics.jsonl, hparams.yaml):
///   report::write_html("report.html", {"lightning_logs/version_3", "lightning_logs/version_4"});
/// It has curves, best values and confusion matrices; a comparison of hyper-parameters, the trainer's options, the
/// program and the machine, differences first; where the time went (from a SimpleProfiler with a filename); and the
/// texts in the folders (describe.txt, config.toml). Runs are named by the parts in which their paths differ. The page
/// is one file and needs no network. A folder that contains runs' folders stands for all of them. Throws
/// [fulgurite.report.no_run] if there is no run.
std::string html(std::vector<std::filesystem::path> const& folders);
/// Writes the page to a file, atomically.
inline void write_html(std::filesystem::path const& file, std::vector<std::filesystem::path> const& folders) {
  write_durably(file, html(folders));
}

}  // namespace fulgurite::report

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/report/html.ipp>
#endif
