#include "infrastructure/dashboard/dashboard.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/tracking/report/page.h"
#include "infrastructure/tracking/report/page_data.h"

namespace chorus::inline dashboard {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr auto kHeartbeat = std::chrono::seconds(15);

/// Takes as long for a wrong token as for a right one.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

}  // namespace

Dashboard::Dashboard(DashboardOptions options) : options_(std::move(options)) {
  if (!fs::is_directory(options_.folder)) {
    throw DataError(fmt::format("{}: no such folder; name the folder that has the runs", options_.folder.string()));
  }
  (void)page_html("{}", true);  // says now what is missing
  if (options_.token.empty()) options_.token = random_token();
  look();
  server_ = std::make_unique<HttpServer>(options_.port, [this](const HttpRequest& request) { return handle(request); });
  watcher_ = std::thread([this] { watch(); });
}

Dashboard::~Dashboard() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  server_.reset();
  watcher_.join();
}

std::string Dashboard::address() const {
  return fmt::format("http://127.0.0.1:{}/#token={}", server_->port(), options_.token);
}

void Dashboard::watch() {
  while (true) {
    const auto begin = std::chrono::steady_clock::now();
    bool any = false;
    try {
      any = look();
    } catch (const std::exception& error) {
      Log("dashboard").warning("{}", error.what());
    }
    if (any) changed_.notify_all();
    // A folder that takes long to read is read less often.
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const std::chrono::duration<double> pause(std::max(options_.seconds, 4 * took.count()));
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, pause, [this] { return ending_; })) return;
  }
}

bool Dashboard::look() {
  const std::vector<fs::path> folders = find_runs({options_.folder});
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = change_;
  std::map<std::string, fs::path> found;
  for (const fs::path& folder : folders) {
    found.emplace(folder.lexically_relative(options_.folder.lexically_normal()).string(), folder);
  }
  for (auto at = runs_.begin(); at != runs_.end();) {
    if (found.contains(at->first)) {
      ++at;
      continue;
    }
    gone_[at->first] = ++change_;
    at = runs_.erase(at);
  }
  const std::size_t points = points_per_curve(found.size());
  for (const auto& [id, folder] : found) {
    auto at = runs_.find(id);
    try {
      if (at == runs_.end()) {
        auto view = std::make_unique<RunView>(folder, id);
        at = runs_.emplace(id, Shown{std::move(view), 0, {}}).first;
        at->second.view->set_label(id == "." ? at->second.view->name() : id);
        gone_.erase(id);
      }
      if (!at->second.view->refresh() && at->second.change > 0) continue;
      at->second.change = ++change_;
      at->second.json = at->second.view->json(points);
    } catch (const Error& error) {
      Log("dashboard").debug("{}", error.what());
    }
  }
  return change_ != before;
}

HttpResponse Dashboard::handle(const HttpRequest& request) {
  if (request.path == "/control") {
    if (request.method == "POST") return control(request);
    return {.status = 405, .body = "POST it.\n"};
  }
  if (request.method != "GET") return {.status = 405, .body = "GET it.\n"};
  if (request.path == "/") return page();
  if (request.path == "/events") {
    HttpResponse response{.type = "text/event-stream"};
    response.stream = [this](const HttpSend& send) { stream(send); };
    return response;
  }
  return {.status = 404, .body = "There is nothing here.\n"};
}

HttpResponse Dashboard::page() {
  std::string data;
  {
    const std::lock_guard lock(mutex_);
    std::vector<RunView*> runs;
    for (auto& [id, shown] : runs_) runs.push_back(shown.view.get());
    data = page_data(runs, {.title = options_.folder.string(), .version = options_.version, .live = true});
  }
  HttpResponse response{.body = page_html(data, true), .type = "text/html; charset=utf-8"};
  response.headers.emplace_back("Content-Security-Policy", page_policy(true) + "; frame-ancestors 'none'");
  return response;
}

HttpResponse Dashboard::control(const HttpRequest& request) {
  const auto header = [&](const char* name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? std::string() : found->second;
  };
  const std::string origin = header("origin");
  if (!same(header("x-chorus-token"), options_.token) || (!origin.empty() && origin != "http://" + header("host"))) {
    return {.status = 403, .body = "the token is missing or wrong; open the address that chorus dashboard printed"};
  }
  const Json order = Json::parse(request.body, nullptr, false);
  if (!order.is_object() || !order.contains("run") || !order["run"].is_string() || !order.contains("action") ||
      !order["action"].is_string()) {
    return {.status = 400, .body = "the order names no run and action"};
  }
  fs::path folder;
  {
    const std::lock_guard lock(mutex_);
    const auto found = runs_.find(order["run"].get<std::string>());
    if (found == runs_.end()) return {.status = 404, .body = "there is no such run"};
    folder = found->second.view->folder();
  }
  try {
    return {.body = control_run(folder, order["action"].get<std::string>())};
  } catch (const Error& error) {
    return {.status = 400, .body = error.what()};
  }
}

void Dashboard::stream(const HttpSend& send) {
  std::uint64_t sent = 0;
  while (true) {
    std::string text;
    {
      std::unique_lock lock(mutex_);
      const bool any = changed_.wait_for(lock, kHeartbeat, [&] { return ending_ || change_ > sent; });
      if (ending_) return;
      for (const auto& [id, shown] : runs_) {
        if (shown.change > sent) text += "event: run\ndata: " + shown.json + "\n\n";
      }
      for (const auto& [id, change] : gone_) {
        if (change > sent)
          text += "event: gone\ndata: " + Json(id).dump(-1, ' ', true, Json::error_handler_t::replace) + "\n\n";
      }
      sent = change_;
      if (!any) text = ": still here\n\n";
    }
    if (!send(text)) return;
  }
}

}  // namespace chorus::inline dashboard
