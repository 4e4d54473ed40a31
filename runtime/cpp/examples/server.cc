// Prices options by Monte Carlo for clients on loopback: server price.vmfb [port]
//
// A line "spot strike rate volatility years" is answered by "price error".  With port 0 the program
// is its own clients, compares their answers with Black and Scholes, and ends.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "calque/runtime.hpp"

namespace {

std::string answer(const calque::Function& price, const std::string& line) {
  static std::atomic<std::int32_t> seed{0};
  float x[5];
  if (std::sscanf(line.c_str(), "%f %f %f %f %f", &x[0], &x[1], &x[2], &x[3], &x[4]) != 5)
    return "error: write spot strike rate volatility years\n";
  using calque::Array;
  try {
    const std::vector<Array> results =
        price(Array::scalar(seed++), Array::scalar(x[0]), Array::scalar(x[1]), Array::scalar(x[2]),
              Array::scalar(x[3]), Array::scalar(x[4]));
    return std::to_string(results[0].item<float>()) + " " +
           std::to_string(results[1].item<float>()) + "\n";
  } catch (const calque::Error& error) {
    return std::string("error: ") + name_of(error.code()) + "\n";
  }
}

// Lines of a connection, until it is closed.
bool read_line(int connection, std::string& pending, std::string& line) {
  std::size_t end;
  while ((end = pending.find('\n')) == std::string::npos) {
    char buffer[512];
    const ssize_t size = read(connection, buffer, sizeof buffer);
    if (size <= 0 || pending.size() > 4096) return false;
    pending.append(buffer, static_cast<std::size_t>(size));
  }
  line = pending.substr(0, end);
  pending.erase(0, end + 1);
  return true;
}

void serve(int connection, const calque::Function& price) {
  std::string pending, line;
  while (read_line(connection, pending, line)) {
    const std::string text = answer(price, line);
    if (write(connection, text.data(), text.size()) != static_cast<ssize_t>(text.size())) break;
  }
  close(connection);
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

double black_scholes(double spot, double strike, double rate, double volatility, double years) {
  const auto normal = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
  const double deviation = volatility * std::sqrt(years);
  const double d = (std::log(spot / strike) + (rate + volatility * volatility / 2) * years) / deviation;
  return spot * normal(d) - strike * std::exp(-rate * years) * normal(d - deviation);
}

// Asks for ten prices; how many are wrong?
int client(int port, int number) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(port);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 10;
  int wrong = 0;
  std::string pending, line;
  for (int i = 0; i < 10; ++i) {
    const double strike = 80 + 5 * i + number;
    const std::string text = "100 " + std::to_string(strike) + " 0.03 0.2 1.5\n";
    float price = 0, error = 0;
    if (write(connection, text.data(), text.size()) < 0 || !read_line(connection, pending, line) ||
        std::sscanf(line.c_str(), "%f %f", &price, &error) != 2) {
      ++wrong;
      continue;
    }
    // Five standard errors: one answer in two million lies outside by chance.
    wrong += std::abs(price - black_scholes(100, strike, 0.03, 0.2, 1.5)) > 5 * error || error > 0.2f;
  }
  close(connection);
  return wrong;
}

}  // namespace

int main(int count, char** words) try {
  if (count < 2) {
    std::fprintf(stderr, "usage: server price.vmfb [port]\n");
    return 2;
  }
  const calque::Function price = calque::Module::load(words[1])["price"];
  const int wanted = count > 2 ? std::atoi(words[2]) : 8787;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(wanted);
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener, 16) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("server");
    return 1;
  }
  const int port = ntohs(address.sin_port);
  std::printf("answering on 127.0.0.1:%d\n", port);
  std::fflush(stdout);
  std::thread([listener, price] {
    for (int connection; (connection = accept(listener, nullptr, nullptr)) >= 0;)
      std::thread(serve, connection, price).detach();
  }).detach();
  if (wanted != 0) {
    pause();  // until it is killed
    return 0;
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back([&wrong, port, i] { wrong += client(port, i); });
  for (std::thread& thread : clients) thread.join();
  std::printf("40 prices, %d wrong\n", wrong.load());
  return wrong == 0 ? 0 : 1;
} catch (const calque::Error& error) {
  std::fprintf(stderr, "server: %s\n", error.what());
  return 1;
}
