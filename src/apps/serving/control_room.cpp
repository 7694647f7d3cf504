#include "apps/serving/control_room.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/console/log.h"
#include "core/files/files.h"

namespace chorus::inline serving {
namespace {

constexpr const char* kJsonType = "application/json";
constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

nlohmann::json number_or_null(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); }

}  // namespace

ControlRoom::ControlRoom(const std::filesystem::path& socket, const std::string& metrics, std::filesystem::path pause)
    : pause_(std::move(pause)) {
  status_.score = status_.loss = std::nan("");
  commands_ = std::make_unique<HttpServer>("unix:" + socket.string(),
                                           [this](const HttpRequest& request) { return answer(request); });
  if (!metrics.empty()) {
    pages_ = std::make_unique<HttpServer>(metrics, [this](const HttpRequest& request) { return page(request); });
  }
}

bool ControlRoom::paused() const {
  std::error_code ignored;
  return std::filesystem::exists(pause_, ignored);
}

HttpResponse ControlRoom::answer(const HttpRequest& request) {
  const bool post = request.method == "POST";
  if (post && request.path == "/pause") {
    write_file(pause_, "");
    Log("serve").info("asked to pause after this round");
    return {200, "pauses after this round; `chorus pause --end` lets it go on\n"};
  }
  if (post && request.path == "/continue") {
    std::error_code ignored;
    std::filesystem::remove(pause_, ignored);
    Log("serve").info("asked to continue");
    return {200, "continues\n"};
  }
  if (post && (request.path == "/stop" || request.path == "/stop_now")) {
    stops_ = std::max<int>(stops_, request.path == "/stop" ? 1 : 2);
    Log("serve").info("asked to stop {}", request.path == "/stop" ? "after this round" : "at once");
    return {200, request.path == "/stop" ? "stops after this round\n" : "stops\n"};
  }
  if (request.method == "GET" && request.path == "/status") return {200, status_json() + "\n", kJsonType};
  return page(request);
}

// For anybody who reaches the port: numbers, and no client's name.
HttpResponse ControlRoom::page(const HttpRequest& request) {
  if (request.method != "GET") return {404, "there is no such page\n"};
  if (request.path == "/metrics") return {200, metrics_text(), kPrometheusType};
  if (request.path == "/healthz") return {200, "ok\n"};
  return {404, "there is no such page\n"};
}

std::string ControlRoom::status_json() const {
  const std::lock_guard lock(mutex_);
  nlohmann::json clients = nlohmann::json::array();
  for (const RosterEntry& entry : status_.clients) {
    const auto doing = status_.doing.find(entry.name);
    const std::string state = doing == status_.doing.end() ? (entry.alive ? "joined" : "gone") : doing->second;
    clients.push_back({{"id", entry.id},
                       {"name", entry.name},
                       {"examples", entry.examples ? nlohmann::json(*entry.examples) : nlohmann::json()},
                       {"connected", entry.alive || state == kResting},
                       {"state", state}});
  }
  return nlohmann::json{{"run", status_.run},
                        {"state", paused() && status_.state != "finished" ? "paused" : status_.state},
                        {"waiting_for", status_.waiting_for},
                        {"round", status_.round},
                        {"rounds", status_.rounds},
                        {"needed", status_.needed},
                        {"metric", status_.metric},
                        {"score", number_or_null(status_.score)},
                        {"loss", number_or_null(status_.loss)},
                        {"round_seconds", status_.round_seconds},
                        {"bytes_down", status_.traffic.down},
                        {"bytes_up", status_.traffic.up},
                        {"repeated_rounds", status_.retries},
                        {"refusals", status_.refusals},
                        {"clients", clients}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ControlRoom::metrics_text() const {
  const std::lock_guard lock(mutex_);
  const auto connected =
      std::count_if(status_.clients.begin(), status_.clients.end(), [](const RosterEntry& e) { return e.alive; });
  std::string text;
  const auto add = [&](const char* name, const char* type, const char* help, double value) {
    if (std::isnan(value)) return;
    text += fmt::format("# HELP chorus_{0} {1}\n# TYPE chorus_{0} {2}\nchorus_{0} {3}\n", name, help, type, value);
  };
  add("round", "gauge", "Last round that is done", static_cast<double>(status_.round));
  add("rounds", "gauge", "Rounds of the whole run", static_cast<double>(status_.rounds));
  add("clients_connected", "gauge", "Clients that can be asked", static_cast<double>(connected));
  add("clients_known", "gauge", "Clients that have taken part in this process",
      static_cast<double>(status_.clients.size()));
  add("clients_refusing", "gauge", "Clients that refuse the job", static_cast<double>(status_.refusals.size()));
  add("bytes_sent_total", "counter", "Bytes of requests", static_cast<double>(status_.traffic.down));
  add("bytes_received_total", "counter", "Bytes of replies", static_cast<double>(status_.traffic.up));
  add("repeated_rounds_total", "counter", "Rounds that had too few replies", static_cast<double>(status_.retries));
  add("round_seconds", "gauge", "Duration of the last round", status_.round_seconds);
  add("train_loss", "gauge", "Mean training loss of the last round", status_.loss);
  add("score", "gauge", "The score that decides, of the last evaluation", status_.score);
  add("paused", "gauge", "1 while the server is paused", paused() ? 1 : 0);
  add("idle_seconds", "gauge", "Since something happened",
      std::chrono::duration<double>(std::chrono::steady_clock::now() - alive_).count());
  return text;
}

}  // namespace chorus::inline serving
