#include "support/forked_ranks.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <stdexcept>

#include "core/temporary_folder.h"

namespace flywheel::test {
namespace {

struct Child {
  pid_t process = -1;
  int output = -1;
};

void set_variables(std::int64_t rank, std::int64_t ranks, int port, const std::string& folder) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", std::to_string(port).c_str(), 1);
  setenv("TMPDIR", folder.c_str(), 1);
}

// The first byte says whether the body came to its end.
std::string run_body(std::int64_t rank, const std::function<std::string(std::int64_t)>& body) {
  try {
    return "+" + body(rank);
  } catch (const std::exception& error) {
    return std::string("-") + error.what();
  }
}

[[noreturn]] void run_child(int output, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(output, text.data() + done, text.size() - done);
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  _exit(0);
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = read(file, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  close(file);
  return text;
}

}  // namespace

std::vector<RankOutcome> run_forked_ranks(std::int64_t ranks,
                                          const std::function<std::string(std::int64_t)>& body) {
  const TemporaryFolder folder;
  const int port = free_port();
  std::vector<Child> children;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    const pid_t process = fork();
    if (process == 0) {
      close(ends[0]);
      set_variables(rank, ranks, port, folder.path().string());
      run_child(ends[1], run_body(rank, body));
    }
    close(ends[1]);
    children.push_back({process, ends[0]});
  }
  std::vector<RankOutcome> outcomes;
  for (const Child& child : children) {
    const std::string text = read_all(child.output);
    waitpid(child.process, nullptr, 0);
    const bool ended = !text.empty();
    outcomes.push_back({ended ? text.substr(1) : "", !ended || text[0] == '-'});
  }
  return outcomes;
}

int free_port() {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(file, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  close(file);
  return ntohs(address.sin_port);
}

}  // namespace flywheel::test
