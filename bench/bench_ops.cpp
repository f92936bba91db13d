// Speed of every op of the CPU backend. Matrix products: GFLOP/s and the share of the machine's
// peak, with OpenBLAS beside. The others: GB/s of what the op must read and write, and the share of
// the triad's bandwidth. Peak, triad and peer are measured between the calls, and the shares are
// medians over such pairs.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cxxopts.hpp>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend/ops.h"
#include "bench/probe.h"
#include "cpu/cpu_backend.h"
#include "tools/parse_options.h"
#include "tools/program.h"
#if FLYWHEEL_HAVE_OPENBLAS
#include <cblas.h>
#endif

namespace flywheel::bench {
namespace {

// Threads of a pool go on spinning after a call, OpenBLAS's for 2^26 cycles, and would take a core
// from those of the next.
constexpr std::chrono::milliseconds kPoolSpins(1);
constexpr std::chrono::milliseconds kPeerSpins(40);

struct Work {
  double amount;    // 1e9 floating-point operations or bytes
  bool is_compute;  // measured against the peak, else against the triad
};

class Bench {
 public:
  Bench(int threads, double budget, std::string only)
      : backend_(make_cpu_backend(threads)),
        pool_(threads),
        probe_(pool_),
        budget_(budget),
        only_(std::move(only)) {}

  Backend& backend() { return *backend_; }
  const nlohmann::json& results() const { return results_; }
  const MachineProbe& probe() const { return probe_; }
  void release() { memory_.clear(); }

  TensorView tensor(Shape shape, DType dtype = DType::F32, float value = 0.5F) {
    memory_.push_back(backend_->allocate(shape.elements() * size_of(dtype), "benchmark"));
    const TensorView view(memory_.back()->data(), dtype, shape);
    if (dtype == DType::F32) ops::fill(*backend_, {.x = view, .value = value});
    return view;
  }
  bool wanted(const std::string& name) const { return name.find(only_) != std::string::npos; }

  void measure(const std::string& name, Work work, const std::function<void()>& op,
               const std::function<void()>& peer = {}) {
    std::function<double()> timed_peer;
    if (peer) {
      timed_peer = [&] {
        const Stopwatch watch;
        peer();
        const double seconds = watch.seconds();
        rest(kPeerSpins);
        return seconds;
      };
    }
    const PairedTiming timing = paired_timing(
        op, work.amount, [&] { return sample(work.is_compute); }, budget_, timed_peer);
    const double rate = work.amount / timing.best_seconds;
    const char* const unit = work.is_compute ? "GFLOP/s" : "GB/s";
    nlohmann::json row{{"op", name},
                       {"milliseconds", timing.best_seconds * 1e3},
                       {"unit", unit},
                       {"rate", rate},
                       {"share", timing.share}};
    std::string line = fmt::format("{:<44} {:>9.3f} ms {:>8.1f} {:<8} {:>5.2f}", name,
                                   timing.best_seconds * 1e3, rate, unit, timing.share);
    if (peer) {
      row["over_openblas"] = timing.over_peer;
      line += fmt::format("  {:>5.2f} x OpenBLAS", timing.over_peer);
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
    results_.push_back(std::move(row));
  }

 private:
  // With the pools of op and probe at rest before and after.
  double sample(bool compute) {
    rest(kPoolSpins);
    const double rate = compute ? probe_.sample_peak() : probe_.sample_triad();
    rest(kPoolSpins);
    return rate;
  }
  void rest(std::chrono::milliseconds spins) const {
    if (pool_.size() > 1) std::this_thread::sleep_for(spins);
  }

  std::unique_ptr<Backend> backend_;
  ThreadPool pool_;
  MachineProbe probe_;
  double budget_;
  std::string only_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  nlohmann::json results_ = nlohmann::json::array();
};

std::function<void()> openblas_product([[maybe_unused]] const Matmul& m) {
#if FLYWHEEL_HAVE_OPENBLAS
  return [m] {
    const auto size = [](std::int64_t n) { return static_cast<blasint>(n); };
    cblas_sgemm(CblasRowMajor, m.transpose_a ? CblasTrans : CblasNoTrans,
                m.transpose_b ? CblasTrans : CblasNoTrans, size(m.out.shape[0]),
                size(m.out.shape[1]), size(m.a.shape[m.transpose_a ? 0 : 1]), 1.0F, m.a.f32(),
                size(m.a.stride(0)), m.b.f32(), size(m.b.stride(0)), m.accumulate ? 1.0F : 0.0F,
                m.out.f32(), size(m.out.stride(0)));
  };
#else
  return {};
#endif
}

// The three products of a linear layer from `in` to `out` features.
void measure_linear(Bench& bench, const std::string& layer, std::int64_t in, std::int64_t out) {
  constexpr std::int64_t T = 2048;
  for (const std::string which : {"forward", "dgrad", "wgrad"}) {
    const std::string name = fmt::format("matmul {} {}x{}x{} {}", layer, T, out, in, which);
    if (!bench.wanted(name)) continue;
    const TensorView x = bench.tensor({T, in});
    const TensorView y = bench.tensor({T, out});
    const TensorView w = bench.tensor({out, in});
    Matmul product;
    if (which == "forward") {
      product.out = y, product.a = x, product.b = w, product.transpose_b = true;
    } else if (which == "dgrad") {
      product.out = x, product.a = y, product.b = w;
    } else {
      product.out = w, product.a = y, product.b = x;
      product.transpose_a = product.accumulate = true;
    }
    bench.measure(
        name, {2e-9 * static_cast<double>(T * in * out), true},
        [&] { ops::matmul(bench.backend(), product); }, openblas_product(product));
    bench.release();
  }
}

void measure_model(Bench& bench, std::int64_t d, std::int64_t f, std::int64_t vocabulary) {
  measure_linear(bench, "qkv", d, 3 * d);
  measure_linear(bench, "proj", d, d);
  measure_linear(bench, "gate_up", d, 2 * f);
  measure_linear(bench, "down", f, d);
  measure_linear(bench, "head", d, vocabulary);
}

// `bytes`: read and written for each of the T x d elements.
void measure_stream(Bench& bench, const std::string& name, double bytes,
                    const std::function<std::function<void()>()>& make, std::int64_t elements) {
  if (!bench.wanted(name)) return;
  const std::function<void()> op = make();
  bench.measure(name, {bytes * 1e-9 * static_cast<double>(elements), false}, op);
  bench.release();
}

void measure_streams(Bench& bench) {
  constexpr std::int64_t T = 16384;
  constexpr std::int64_t d = 1024;
  Backend& backend = bench.backend();
  const auto activations = [&](std::int64_t factor = 1) { return bench.tensor({T, factor * d}); };
  const auto vector = [&](std::int64_t n) { return bench.tensor({n}); };
  const auto stream = [&](const std::string& name, double bytes, const auto& args, const auto& op) {
    measure_stream(
        bench, name, bytes,
        [&] { return std::function<void()>([&backend, op, a = args()] { op(backend, a); }); },
        T * d);
  };

  stream(
      "rms_norm_forward", 8,
      [&] {
        return RmsNormForward{activations(), vector(T), activations(), vector(d)};
      },
      ops::rms_norm_forward);
  stream(
      "add_rms_norm_forward", 16,
      [&] {
        return AddRmsNormForward{activations(), activations(), vector(T),
                                 activations(), activations(), vector(d)};
      },
      ops::add_rms_norm_forward);
  stream(
      "rms_norm_backward", 16,
      [&] {
        return RmsNormBackward{activations(), vector(d), activations(), activations(),
                               vector(T),     vector(d), true};
      },
      ops::rms_norm_backward);
  stream(
      "layer_norm_forward", 8,
      [&] {
        return LayerNormForward{activations(), vector(T), vector(T),
                                activations(), vector(d), vector(d)};
      },
      ops::layer_norm_forward);
  stream(
      "layer_norm_backward", 16,
      [&] {
        return LayerNormBackward{activations(), vector(d), vector(d), activations(), activations(),
                                 vector(T),     vector(T), vector(d), true};
      },
      ops::layer_norm_backward);
  stream(
      "swiglu_forward", 12,
      [&] {
        return SwigluForward{activations(), activations(2)};
      },
      ops::swiglu_forward);
  stream(
      "swiglu_backward", 20,
      [&] {
        const TensorView gate_up = activations(2);
        return SwigluBackward{gate_up, activations(), gate_up};
      },
      ops::swiglu_backward);
  stream(
      "gelu_forward", 8,
      [&] {
        return GeluForward{activations(), activations()};
      },
      ops::gelu_forward);
  stream(
      "gelu_backward", 12,
      [&] {
        const TensorView x = activations();
        return GeluBackward{x, activations(), x};
      },
      ops::gelu_backward);
  const auto heads = [&] { return bench.tensor({T, 16, d / 16}); };
  stream(
      "gate_mix_forward", 12,
      [&] {
        return GateMixForward{heads(), heads(), heads(), bench.tensor({T, 32})};
      },
      ops::gate_mix_forward);
  stream(
      "gate_mix_backward", 20,
      [&] {
        const TensorView dout = heads();
        return GateMixBackward{dout,    heads(), bench.tensor({T, 32}), dout,
                               heads(), heads(), bench.tensor({T, 32})};
      },
      ops::gate_mix_backward);
  stream(
      "split_heads_forward", 3 * 8,
      [&] {
        SplitHeadsForward args;
        args.q = heads(), args.k = heads(), args.v = heads(), args.qkv = activations(3);
        args.cos = bench.tensor({T, 32}), args.sin = bench.tensor({T, 32});
        args.positions = bench.tensor({T}, DType::I32);
        return args;
      },
      ops::split_heads_forward);
  stream(
      "split_heads_backward", 3 * 8,
      [&] {
        SplitHeadsBackward args;
        args.dq = heads(), args.dk = heads(), args.dv = heads(), args.dqkv = activations(3);
        args.cos = bench.tensor({T, 32}), args.sin = bench.tensor({T, 32});
        args.positions = bench.tensor({T}, DType::I32);
        return args;
      },
      ops::split_heads_backward);
  stream(
      "bias_backward", 4,
      [&] {
        return BiasBackward{vector(d), activations()};
      },
      ops::bias_backward);
  stream(
      "add", 12,
      [&] {
        return Add{activations(), activations(), activations()};
      },
      ops::add);
  stream(
      "scale", 8,
      [&] {
        return Scale{activations(), 1.0F};
      },
      ops::scale);
  stream(
      "fill", 4,
      [&] {
        return Fill{activations(), 1.0F};
      },
      ops::fill);
  stream(
      "copy", 8,
      [&] {
        return Copy{activations(), activations()};
      },
      ops::copy);
  stream(
      "sum_of_squares", 4,
      [&] {
        return SumOfSquares{bench.tensor({1}, DType::F64), activations()};
      },
      ops::sum_of_squares);
  stream(
      "adamw_step", 28,
      [&] {
        return AdamWStep{.param = vector(T * d),
                         .m = vector(T * d),
                         .v = vector(T * d),
                         .grad = vector(T * d),
                         .clip = vector(1),
                         .step = 10};
      },
      ops::adamw_step);

  constexpr std::int64_t kVocabulary = 50304;
  constexpr std::int64_t kRows = 512;
  measure_stream(
      bench, "cross_entropy", 8,
      [&] {
        return std::function<void()>(
            [&backend, a = CrossEntropy{.losses = bench.tensor({kRows}),
                                        .most_likely = {},
                                        .logits = bench.tensor({kRows, kVocabulary}),
                                        .targets = bench.tensor({kRows}, DType::I32),
                                        .vocab_size = kVocabulary,
                                        .gradient_scale = 1.0F}] {
              ops::cross_entropy(backend, a);
            });
      },
      kRows * kVocabulary);
  const auto ids = [&] {
    const TensorView view = bench.tensor({T}, DType::I32);
    for (std::int64_t i = 0; i < T; ++i)
      view.i32()[i] = static_cast<std::int32_t>(i * 7919 % kVocabulary);
    return view;
  };
  stream(
      "embedding_forward", 8,
      [&] {
        return EmbeddingForward{activations(), ids(), bench.tensor({kVocabulary, d}), {}, {}};
      },
      ops::embedding_forward);
  stream(
      "embedding_backward", 12,
      [&] {
        return EmbeddingBackward{bench.tensor({kVocabulary, d}), {}, activations(), ids(), {}};
      },
      ops::embedding_backward);
}

void run(const cxxopts::ParseResult& options, const std::string& command) {
  limit_vectors(options["vectors"].as<std::string>());
  const int threads = options["threads"].as<int>();
  Bench bench(threads, options["budget"].as<double>(), options["only"].as<std::string>());
  fmt::print("{}\n", bench.backend().description());
#if FLYWHEEL_HAVE_OPENBLAS
  openblas_set_num_threads(threads == 0 ? available_cores() : threads);
  fmt::print("OpenBLAS core {} (OPENBLAS_CORETYPE=SkylakeX or Haswell chooses another)\n",
             openblas_get_corename());
  if (threads != 1 && std::getenv("OPENBLAS_THREAD_TIMEOUT") == nullptr) {
    fmt::print("OpenBLAS's idle threads spin beside ours: OPENBLAS_THREAD_TIMEOUT=4 stops that\n");
  }
#endif
  measure_streams(bench);
  measure_model(bench, 256, 704, 4096);
  measure_model(bench, 1024, 2816, 50304);
  fmt::print("peak {:.1f} GFLOP/s, triad {:.1f} GB/s (the best samples)\n",
             bench.probe().peak_gflops(), bench.probe().triad_gb_per_second());
  if (options.count("json") == 0) return;
  const nlohmann::json report{{"command", command},
                              {"machine", bench.backend().description()},
                              {"peak_gflops", bench.probe().peak_gflops()},
                              {"triad_gb_per_second", bench.probe().triad_gb_per_second()},
                              {"results", bench.results()}};
  std::ofstream(options["json"].as<std::string>()) << report.dump(2) << "\n";
}

}  // namespace
}  // namespace flywheel::bench

int main(int argc, char** argv) {
  cxxopts::Options options("bench_ops", "Speed of the CPU backend's ops");
  options.add_options()("threads", "Threads; 0: all cores",
                        cxxopts::value<int>()->default_value("0"))(
      "only", "Ops whose name contains this", cxxopts::value<std::string>()->default_value(""))(
      "budget", "Seconds for each row", cxxopts::value<double>()->default_value("0.3"))(
      "vectors", flywheel::bench::kVectorsHelp,
      cxxopts::value<std::string>()->default_value("all"))(
      "json", "Also write the results to this file", cxxopts::value<std::string>())("help",
                                                                                    "This text");
  return flywheel::run_program("bench_ops", argc, argv, [&](int count, char** arguments) {
    const auto parsed = flywheel::parse_options(options, count, arguments);
    if (parsed.count("help") > 0) {
      fmt::print("{}\n", options.help());
      return 0;
    }
    std::string command;
    for (int i = 0; i < count; ++i) {
      command += (i > 0 ? " " : "") + std::string(arguments[i]);
    }
    flywheel::bench::run(parsed, command);
    return 0;
  });
}
