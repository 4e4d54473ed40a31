// A child process for a test, which may hang without hanging the test.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "check.hpp"

// The exit code of `body` in a child; 1000 where it hangs.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    body();
    std::exit(0);  // with everything that runs at a program's end
  }
  int status = 0;
  for (int i = 0; i < 3000; ++i) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    CHECK(ended >= 0);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return 1000;
}
