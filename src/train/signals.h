#pragma once

namespace flywheel {

// While an object lives, SIGINT and SIGTERM ask the program to stop at a good moment. One that
// comes a second later or more ends it at once (exit code 130); a sooner one is the same request,
// since `timeout` and launchers signal a program and then its process group. One object at a time.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();  // default behaviour again
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool requested() const;
  const char* signal_name() const;  // of the request
};

}  // namespace flywheel
