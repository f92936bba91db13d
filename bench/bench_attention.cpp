// Speed of the CPU attention kernels by pattern, length, head size and threads, beside the
// machine's peak of fused multiply-adds measured between the calls. Work counts visible pairs only:
// 4 D floating-point operations a pair forward, 10 D backward. Times are the best, shares the
// median over calls.

#include <fmt/format.h>

#include <algorithm>
#include <cxxopts.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attention/counts.h"
#include "bench/probe.h"
#include "cpu/attention.h"
#include "cpu/memory.h"
#include "tools/parse_options.h"
#include "tools/program.h"

namespace flywheel::bench {
namespace {

struct Setting {
  AttentionPattern pattern;
  std::int64_t length;
  std::int64_t head_size;
  int threads;

  std::int64_t heads() const { return threads * (length >= 8192 ? 1 : 4); }
};

struct Timing {
  PairedTiming forward{};
  PairedTiming backward{};

  double seconds() const { return forward.best_seconds + backward.best_seconds; }
};

// A head-major [T, H, D] tensor with its memory, in huge pages as the backend's.
struct Heads {
  cpu::Memory memory;
  TensorView view;

  Heads(const Setting& setting, std::uint32_t which)
      : memory(setting.length * setting.heads() * setting.head_size * size_of(DType::F32),
               "benchmark"),
        view(TensorView::heads_first(memory.data(), DType::F32, setting.length, setting.heads(),
                                     setting.head_size)) {
    const RandomSequence random(1, RandomStream::kInitialization, which);
    const auto elements = static_cast<std::size_t>(memory.bytes() / size_of(DType::F32));
    for (std::size_t i = 0; i < elements; ++i) {
      view.f32()[i] = static_cast<float>(random.uniform(i) * 2 - 1);
    }
  }
};

class AttentionBench {
 public:
  AttentionBench(double budget, nlohmann::json& results) : budget_(budget), results_(results) {}

  void run(const Setting& setting, ThreadPool& pool, MachineProbe& probe) {
    const auto tokens = static_cast<std::int32_t>(setting.length);
    AttentionPlan plan(setting.pattern, cpu::kAttentionTile, tokens, 1);
    const std::vector<std::int32_t> cu_seqlens{0, tokens};
    plan.prepare(cu_seqlens, PermutationKey{1});
    const Heads q(setting, 0), k(setting, 1), v(setting, 2), dout(setting, 3);
    Heads out(setting, 4), dq(setting, 5), dk(setting, 6), dv(setting, 7);
    std::vector<float> lse(static_cast<std::size_t>(tokens * setting.heads()));
    const TensorView lse_view(lse.data(), DType::F32, Shape{setting.heads(), tokens});
    const float scale = 0.125F;
    const double mean_keys = mean_visible_keys(plan);
    const double pairs =
        mean_keys * static_cast<double>(setting.length * setting.heads() * setting.head_size);
    const auto sample = [&] { return probe.sample_peak(); };
    Timing timing;
    timing.forward = paired_timing(
        [&] {
          cpu::attention_forward({out.view, lse_view, q.view, k.view, v.view, &plan, scale}, pool,
                                 workspace_);
        },
        4e-9 * pairs, sample, budget_);
    timing.backward = paired_timing(
        [&] {
          cpu::attention_backward({.dq = dq.view,
                                   .dk = dk.view,
                                   .dv = dv.view,
                                   .dout = dout.view,
                                   .out = out.view,
                                   .lse = lse_view,
                                   .q = q.view,
                                   .k = k.view,
                                   .v = v.view,
                                   .plan = &plan,
                                   .scale = scale},
                                  pool, workspace_);
        },
        10e-9 * pairs, sample, budget_);
    report(setting, timing, mean_keys, pairs);
  }

 private:
  void report(const Setting& setting, const Timing& timing, double mean_keys, double pairs) {
    const std::string pattern(name_of_enum(setting.pattern.kind));
    const double forward = 4e-9 * pairs / timing.forward.best_seconds;
    const double backward = 10e-9 * pairs / timing.backward.best_seconds;
    const auto per_head = static_cast<double>(setting.heads());
    Timing& full = full_[{setting.length, setting.head_size, setting.threads}];
    if (setting.pattern.kind == AttentionKind::Full) full = timing;
    const double speedup_forward = full.forward.best_seconds / timing.forward.best_seconds;
    const double speedup_both = full.seconds() / timing.seconds();
    fmt::print(
        "{:5} {:6} {:4} {:2}  {:9.3f} {:8.1f} {:5.2f}  {:9.3f} {:8.1f} {:5.2f}  {:6.1f} {:6.1f}\n",
        pattern, setting.length, setting.head_size, setting.threads,
        timing.forward.best_seconds * 1e3 / per_head, forward, timing.forward.share,
        timing.backward.best_seconds * 1e3 / per_head, backward, timing.backward.share,
        speedup_forward, speedup_both);
    std::fflush(stdout);
    results_.push_back({{"pattern", pattern},
                        {"length", setting.length},
                        {"head_size", setting.head_size},
                        {"threads", setting.threads},
                        {"heads", setting.heads()},
                        {"mean_visible_keys", mean_keys},
                        {"forward_ms", timing.forward.best_seconds * 1e3},
                        {"backward_ms", timing.backward.best_seconds * 1e3},
                        {"forward_gflops", forward},
                        {"backward_gflops", backward},
                        {"forward_share_of_peak", timing.forward.share},
                        {"backward_share_of_peak", timing.backward.share},
                        {"speedup_forward", speedup_forward},
                        {"speedup_both", speedup_both}});
  }

  double budget_;
  nlohmann::json& results_;
  cpu::AttentionWorkspace workspace_;
  std::map<std::array<std::int64_t, 3>, Timing> full_;
};

void run_all(const cxxopts::ParseResult& options) {
  limit_vectors(options["vectors"].as<std::string>());
  nlohmann::json results = nlohmann::json::array();
  AttentionBench bench(options.count("quick") > 0 ? 0.02 : 0.2, results);
  AttentionPattern swa{AttentionKind::Swa};
  AttentionPattern sa{AttentionKind::Sa};
  AttentionPattern moba{AttentionKind::Moba};
  swa.window = sa.window = options["window"].as<std::int64_t>();
  moba.top_k = 2;
  moba.block = std::max<std::int64_t>(swa.window / moba.top_k, 1);
  fmt::print(
      "pattern length  D threads, forward: ms a head, GFLOP/s, share of peak; backward: the "
      "same; speed-up over full: forward, both (moba: without the choice of blocks in GFLOP/s)\n");
  for (const int threads : options["threads"].as<std::vector<int>>()) {
    ThreadPool pool(threads);
    MachineProbe probe(pool);
    for (int i = 0; i < 20; ++i) probe.sample_peak();
    for (const std::int64_t size : options["head-size"].as<std::vector<std::int64_t>>()) {
      for (const std::int64_t length : options["length"].as<std::vector<std::int64_t>>()) {
        for (const AttentionPattern& pattern : {AttentionPattern{}, swa, sa, moba}) {
          bench.run({pattern, length, size, threads}, pool, probe);
        }
      }
    }
    fmt::print("peak of {} thread(s): {:.1f} GFLOP/s\n", threads, probe.peak_gflops());
  }
  if (options.count("json") > 0) {
    std::ofstream(options["json"].as<std::string>()) << results.dump(2) << "\n";
  }
}

}  // namespace
}  // namespace flywheel::bench

int main(int argc, char** argv) {
  cxxopts::Options options("bench_attention", "Speed of the CPU attention kernels");
  options.add_options()(
      "length", "Sequence lengths",
      cxxopts::value<std::vector<std::int64_t>>()->default_value("1024,2048,8192"))(
      "head-size", "Head sizes", cxxopts::value<std::vector<std::int64_t>>()->default_value("64"))(
      "threads", "Numbers of threads", cxxopts::value<std::vector<int>>()->default_value("1,2"))(
      "window", "Window of swa, sa and moba (two blocks)",
      cxxopts::value<std::int64_t>()->default_value("256"))(
      "vectors", flywheel::bench::kVectorsHelp,
      cxxopts::value<std::string>()->default_value("all"))("quick", "Shorter measurements")(
      "json", "Also write the results to this file", cxxopts::value<std::string>())("help",
                                                                                    "This text");
  return flywheel::run_program("bench_attention", argc, argv, [&](int count, char** arguments) {
    const auto parsed = flywheel::parse_options(options, count, arguments);
    if (parsed.count("help") > 0) {
      fmt::print("{}\n", options.help());
      return 0;
    }
    flywheel::bench::run_all(parsed);
    return 0;
  });
}
