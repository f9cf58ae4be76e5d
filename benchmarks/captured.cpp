// The same with steps that are recorded once and replayed (P5).

#include <fulgurite/torch/capture/captured.hpp>

#include "fitted.hpp"
#include "our_set.hpp"

namespace bench {

Loops captured_loops(fulgurite::Matmul products) {
  using namespace fulgurite;
  using Strategy = decltype(Captured{SingleDevice{cpu}});
  return fitted_loops<Ours, Strategy>(
      [=] { return Captured{SingleDevice{cpu, products}}; }, our_digits,
      [](Loop& loop, Strategy const& strategy) {
        loop.note = [report = strategy.report()] {
          auto const count = [](long n, char const* what) { return std::to_string(n) + " " + what; };
          std::string text = count(report->replayed, "steps replayed, ") + count(report->checked, "checked, ") +
                             count(report->eager, "eager for good");
          for (auto const& reason : report->reasons) text += "; eager: " + reason;
          return text;
        };
      });
}

}  // namespace bench
