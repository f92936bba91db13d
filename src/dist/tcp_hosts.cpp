#include "dist/tcp_hosts.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "dist/socket.h"

namespace flywheel {
namespace {

using Clock = std::chrono::steady_clock;
using State = Socket::State;
using std::chrono::seconds;

// How long it may take to find out who is missing, and what the others grant rank 0 beyond its own
// deadline, so that it finds out first.
constexpr seconds kPatience{2};
constexpr seconds kGrace{5};

// What a process says first.
struct Greeting {
  std::array<char, 8> magic{'f', 'l', 'y', 'w', 'h', 'e', 'e', 'l'};
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

struct Frame {
  enum class Kind : char {
    Values = 'v',   // of a rank, to rank 0
    Sums = 's',     // the answer
    GivesUp = 'g',  // a rank does
    AllGiveUp = 'a',
    Missing = 'm',  // the ranks that are
  };
  Kind kind = Kind::Values;
  std::int32_t count = 0;  // of doubles that follow
};

class TcpHosts final : public HostCommunicator {
 public:
  TcpHosts(const Launch& launch, std::chrono::milliseconds timeout)
      : rank_(launch.rank),
        ranks_(launch.ranks),
        timeout_(timeout),
        links_(rank_ == 0 ? static_cast<std::size_t>(ranks_) : 1) {
    const Deadline deadline = Clock::now() + timeout_;
    rank_ == 0 ? accept_all(launch, deadline) : greet(launch, deadline);
  }

  std::int64_t rank() const override { return rank_; }
  std::int64_t ranks() const override { return ranks_; }
  void sum(std::span<double> values) override {
    const Deadline deadline = Clock::now() + timeout_;
    if (rank_ != 0) {
      send(0, Frame::Kind::Values, values, deadline);
      receive(0, Frame::Kind::Sums, values, deadline + kGrace);
      return;
    }
    std::vector<double> theirs(values.size());
    for (std::size_t r = 1; r < links_.size(); ++r) {
      receive(r, Frame::Kind::Values, theirs, deadline);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += theirs[i];
    }
    for (std::size_t r = 1; r < links_.size(); ++r) send(r, Frame::Kind::Sums, values, deadline);
  }

  bool alarm() override {
    return std::any_of(links_.begin(), links_.end(), [](const Socket& link) {
      if (!link.valid()) return false;
      char first = 0;
      const State state = link.peek(first);
      const auto kind = static_cast<Frame::Kind>(first);
      return state == State::Gone || (state == State::Done && (kind == Frame::Kind::GivesUp ||
                                                               kind == Frame::Kind::AllGiveUp));
    });
  }

 private:
  void greet(const Launch& launch, Deadline deadline) {
    links_[0] = Socket::connect(launch.address, launch.port, deadline);
    const Greeting greeting{.rank = static_cast<std::int32_t>(rank_),
                            .ranks = static_cast<std::int32_t>(ranks_)};
    links_[0].send(&greeting, sizeof greeting, deadline);
  }

  void accept_all(const Launch& launch, Deadline deadline) {
    const Socket listener = Socket::listen(launch.port);
    for (std::int64_t here = 1; here < ranks_;) {
      Socket link = listener.accept(deadline);
      if (!link.valid()) fail_at_start();
      Greeting greeting;
      const State state =
          link.receive(&greeting, sizeof greeting, std::min(deadline, Clock::now() + kGrace));
      if (state != State::Done || greeting.magic != Greeting{}.magic) continue;  // a stranger
      require(greeting.ranks == ranks_ && greeting.rank > 0 && greeting.rank < ranks_,
              ErrorKind::Config,
              "a process says that it is rank {} of {}, rank 0 that there are {}", greeting.rank,
              greeting.ranks, ranks_);
      Socket& place = links_[static_cast<std::size_t>(greeting.rank)];
      require(!place.valid(), ErrorKind::Config, "two processes say that they are rank {}",
              greeting.rank);
      place = std::move(link);
      ++here;
    }
  }

  [[noreturn]] void fail_at_start() const {
    std::string missing;
    for (std::size_t r = 1; r < links_.size(); ++r) {
      if (!links_[r].valid()) missing += fmt::format(" {}", r);
    }
    fail(ErrorKind::Comm, "rank 0: the start has waited {} s for rank{}", timeout_.count() / 1000,
         missing);
  }

  // Failures show when an answer does not come.
  void send(std::size_t link, Frame::Kind kind, std::span<const double> values,
            Deadline deadline) const {
    const Frame frame{.kind = kind, .count = static_cast<std::int32_t>(values.size())};
    links_[link].send(&frame, sizeof frame, deadline);
    links_[link].send(values.data(), values.size_bytes(), deadline);
  }

  void receive(std::size_t link, Frame::Kind kind, std::span<double> values, Deadline deadline) {
    Frame frame;
    State state = links_[link].receive(&frame, sizeof frame, deadline);
    if (state == State::Done && frame.kind == kind) {
      require(frame.count == std::ssize(values), ErrorKind::Comm,
              "rank {} sums {} values, but rank {} {}: they do not run the same program or config",
              rank_, values.size(), link, frame.count);
      state = links_[link].receive(values.data(), values.size_bytes(), deadline);
      if (state == State::Done) return;
    }
    give_up(state == State::Late ? fmt::format("sum has waited {} s", timeout_.count() / 1000)
                                 : "sum waits");
  }

  std::vector<std::int64_t> find_missing() override {
    const Deadline deadline = Clock::now() + kPatience;
    if (rank_ != 0) return ask_first_rank(deadline + kGrace);
    for (std::size_t r = 1; r < links_.size(); ++r) send(r, Frame::Kind::AllGiveUp, {}, deadline);
    std::vector<double> missing;
    for (std::size_t r = 1; r < links_.size(); ++r) {
      Frame frame;  // whatever it says, the rank has come to a call
      const State state = links_[r].receive(&frame, sizeof frame, deadline);
      if (state != State::Done) missing.push_back(static_cast<double>(r));
    }
    for (std::size_t r = 1; r < links_.size(); ++r) {
      send(r, Frame::Kind::Missing, missing, Clock::now() + kPatience);
    }
    return {missing.begin(), missing.end()};
  }

  std::vector<std::int64_t> ask_first_rank(Deadline deadline) {
    send(0, Frame::Kind::GivesUp, {}, deadline);
    Frame frame;
    std::vector<double> values;
    while (links_[0].receive(&frame, sizeof frame, deadline) == State::Done) {
      values.resize(static_cast<std::size_t>(frame.count));
      links_[0].receive(values.data(), values.size() * sizeof(double), deadline);
      if (frame.kind == Frame::Kind::Missing) return {values.begin(), values.end()};
    }
    return {0};
  }

  std::int64_t rank_;
  std::int64_t ranks_;
  std::chrono::milliseconds timeout_;
  std::vector<Socket> links_;  // of rank 0: to each rank, its own invalid; of others: to rank 0
};

}  // namespace

std::unique_ptr<HostCommunicator> join_hosts(const Launch& launch,
                                             std::chrono::milliseconds timeout) {
  return std::make_unique<TcpHosts>(launch, timeout);
}

}  // namespace flywheel
