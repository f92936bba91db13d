#include "report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "plot/chart.h"
#include "report/html.h"
#include "train/console.h"
#include "train/tables.h"

namespace flywheel {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Field = double MetricPoint::*;

constexpr std::size_t kSamplesShown = 12;

std::string number(double value, int digits = 4) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "-";
}

std::string duration(double hours) {
  const auto minutes = static_cast<std::int64_t>(std::lround(hours * 60));
  return minutes < 60 ? fmt::format("{:.1f} min", hours * 60)
                      : fmt::format("{}h{:02}m", minutes / 60, minutes % 60);
}

// One row a property, one column a run.
Rows table_of(
    const std::vector<RunRecord>& runs,
    const std::vector<std::pair<std::string, std::function<std::string(const RunRecord&)>>>&
        properties) {
  Rows rows{{""}};
  for (const RunRecord& run : runs) rows[0].push_back(run.name);
  for (const auto& [name, value] : properties) {
    std::vector<std::string>& row = rows.emplace_back(1, name);
    for (const RunRecord& run : runs) row.push_back(value(run));
  }
  return rows;
}

const MetricPoint* best_validation(const RunRecord& run) {
  const auto best =
      std::min_element(run.validation.begin(), run.validation.end(),
                       [](const MetricPoint& a, const MetricPoint& b) { return a.loss < b.loss; });
  return best == run.validation.end() ? nullptr : &*best;
}

std::string describe_validation(const MetricPoint* point) {
  if (point == nullptr) return "-";
  return fmt::format("{} (perplexity {}) at step {}", number(point->loss),
                     number(std::exp(point->loss)), point->step);
}

double median(const RunRecord& run, Field field) {
  std::vector<double> values;
  for (const MetricPoint& point : run.train) {
    if (std::isfinite(point.*field)) values.push_back(point.*field);
  }
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

ModelCost cost_of(const RunRecord& run) {
  return Transformer::cost(run.config.model, run.config.data.sequence_length);
}

std::string summary(const std::vector<RunRecord>& runs) {
  return html_table(table_of(
      runs,
      {{"steps",
        [](const RunRecord& run) {
          return fmt::format("{} of {}", run.train.back().step,
                             run.config.train.max_steps.value_or(0));
        }},
       {"tokens", [](const RunRecord& run) { return human_count(run.train.back().tokens); }},
       {"training time", [](const RunRecord& run) { return duration(run.train.back().hours); }},
       {"last training loss", [](const RunRecord& run) { return number(run.train.back().loss); }},
       {"last validation loss",
        [](const RunRecord& run) {
          return describe_validation(run.validation.empty() ? nullptr : &run.validation.back());
        }},
       {"best validation loss",
        [](const RunRecord& run) { return describe_validation(best_validation(run)); }},
       {"tokens/s, median",
        [](const RunRecord& run) { return number(median(run, &MetricPoint::tokens_per_second)); }},
       {"MFU, median",
        [](const RunRecord& run) {
          const double share = median(run, &MetricPoint::mfu);
          return std::isfinite(share) ? number(100 * share, 3) + "%" : "unknown";
        }},
       {"parameters",
        [](const RunRecord& run) {
          return human_count(static_cast<double>(cost_of(run).parameters));
        }},
       {"mean visible keys", [](const RunRecord& run) {
          return fmt::format("{:.1f}", cost_of(run).mean_visible_keys);
        }}}));
}

// A curve of each run, `y` against `x`; validation losses dashed.
Chart curves(const std::vector<RunRecord>& runs, const std::string& title, Field x,
             const std::string& x_label, Field y, double scale = 1) {
  Chart chart{.title = title,
              .x_label = x_label,
              .y_label = "",
              .log_y = y == &MetricPoint::loss || y == &MetricPoint::gradient_norm,
              .short_x = x == &MetricPoint::tokens,
              .series = {}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto add = [&](const std::string& name, const std::vector<MetricPoint>& points,
                         bool dashed) {
      Series series{.title = name, .points = {}, .dashed = dashed, .color = static_cast<int>(i)};
      for (const MetricPoint& point : points)
        series.points.emplace_back(point.*x, scale * (point.*y));
      chart.series.push_back(std::move(series));
    };
    const bool loss = y == &MetricPoint::loss;
    const std::string name = runs.size() > 1 ? runs[i].name : "";
    add(loss ? name + " training" : name, runs[i].train, false);
    if (loss) add(name + " validation", runs[i].validation, true);
  }
  return chart;
}

std::string charts(const std::vector<RunRecord>& runs) {
  const std::vector<Chart> all{
      curves(runs, "loss", &MetricPoint::tokens, "tokens", &MetricPoint::loss),
      curves(runs, "loss", &MetricPoint::hours, "hours of training", &MetricPoint::loss),
      curves(runs, "learning rate", &MetricPoint::tokens, "tokens", &MetricPoint::learning_rate),
      curves(runs, "gradient norm", &MetricPoint::tokens, "tokens", &MetricPoint::gradient_norm),
      curves(runs, "tokens/s", &MetricPoint::tokens, "tokens", &MetricPoint::tokens_per_second),
      curves(runs, "MFU in %", &MetricPoint::tokens, "tokens", &MetricPoint::mfu, 100)};
  std::string markup = "<div class=\"charts\">\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    markup += "<div>" + chart_in_page(all[i], fmt::format("chart{}", i)) + "</div>\n";
  }
  return markup + "</div>\n";
}

std::string evaluations(const std::vector<RunRecord>& runs) {
  Rows rows{{"run", "attention", "task", "metric", "value", "mean visible keys", "file"}};
  for (const RunRecord& run : runs) {
    for (const EvaluationEntry& entry : run.evaluations) {
      for (const auto& [metric, value] : entry.metrics) {
        rows.push_back({run.name, entry.attention, entry.task, metric, number(value, 5),
                        entry.mean_visible_keys > 0 ? number(entry.mean_visible_keys) : "-",
                        entry.file});
      }
    }
  }
  if (rows.size() > 1) return html_table(rows);
  return "<p>No results: <code>evaluate --output_path RUN/results</code> puts them where this page "
         "finds them.</p>\n";
}

// The latest ones.
std::string samples(const std::vector<RunRecord>& runs) {
  std::string markup;
  for (const RunRecord& run : runs) {
    const std::size_t first = run.samples.size() - std::min(run.samples.size(), kSamplesShown);
    if (!run.samples.empty()) markup += fmt::format("<h3>{}</h3>\n", escaped(run.name));
    for (std::size_t i = first; i < run.samples.size(); ++i) {
      const TextSample& sample = run.samples[i];
      markup += fmt::format("<p>step {}</p>\n<blockquote><b>{}</b>{}</blockquote>\n", sample.step,
                            escaped(sample.prompt), escaped(sample.text));
    }
  }
  if (!markup.empty()) return markup;
  return "<p>None: <code>samples.every</code> of the config is 0.</p>\n";
}

// All keys of all runs, in the order of the config.
std::string configs(const std::vector<RunRecord>& runs) {
  Rows rows{{"key"}};
  std::map<std::string, std::size_t> place;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    rows[0].push_back(runs[r].name);
    for (const auto& [key, value] : runs[r].values) {
      const auto [row, is_new] = place.emplace(key, rows.size());
      if (is_new) {
        rows.emplace_back(1 + runs.size(), "-");
        rows.back()[0] = key;
      }
      rows[row->second][1 + r] = value;
    }
  }
  return "<details" + std::string(runs.size() == 1 ? "" : " open") + "><summary>every key" +
         (runs.size() > 1 ? ", differences marked" : "") + "</summary>\n" + html_table(rows, true) +
         "</details>\n";
}

std::string memory(const std::vector<RunRecord>& runs) {
  std::string markup;
  for (const RunRecord& run : runs) {
    markup += fmt::format(
        "<h3>{}</h3>\n<pre>{}</pre>\n<details><summary>parameters</summary>"
        "<pre>{}</pre></details>\n",
        escaped(run.name), escaped(memory_table(run.config)),
        escaped(parameter_table(run.config.model)));
  }
  return markup;
}

}  // namespace

std::string report_page(const std::vector<RunRecord>& runs) {
  std::string names;
  for (const RunRecord& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  std::string body = fmt::format("<h1>{}</h1>\n", escaped(names));
  body +=
      "<nav><a href=\"#summary\">Summary</a><a href=\"#curves\">Curves</a>"
      "<a href=\"#evaluation\">Evaluation</a><a href=\"#samples\">Samples</a>"
      "<a href=\"#config\">Config</a><a href=\"#memory\">Memory</a></nav>\n";
  body += html_section("summary", "Summary", summary(runs));
  body += html_section("curves", "Curves", charts(runs));
  body += html_section("evaluation", "Evaluation", evaluations(runs));
  body += html_section("samples", "Samples", samples(runs));
  body += html_section("config", "Config", configs(runs));
  body += html_section("memory", "Memory and parameters", memory(runs));
  return html_page(names, body);
}

}  // namespace flywheel
