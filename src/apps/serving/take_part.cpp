#include "apps/serving/take_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "apps/experiment/machine.h"
#include "apps/serving/hosted_client.h"
#include "apps/serving/transport_end.h"
#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/device/torch_runtime.h"
#include "core/files/files.h"
#include "core/ports/fleet.h"
#include "infrastructure/remote/client_service.h"

namespace chorus::inline serving {
namespace {

namespace fs = std::filesystem;

constexpr double kLook = 0.2;                          // seconds between looks at `stop`
constexpr double kShortestPause = 0.2, kLongest = 30;  // seconds between two connections that came to nothing

/// One client works at a time: a few requests, and no more bytes than one frame may have.
constexpr ClientServiceLimits kLimits{.frames = 64, .bytes = 2047ULL << 20U};

/// What a frame says, for the owner's log.
std::string description_of(const Frame& frame) {
  if (const auto* hello = std::get_if<HelloFrame>(&frame)) {
    std::string examples;
    for (const RosterEntry& entry : hello->clients) {
      examples += entry.examples ? fmt::format(" {:g}", *entry.examples) : " not stated";
    }
    return "introduction: number of training examples:" + examples;
  }
  if (const auto* reply = std::get_if<ReplyFrame>(&frame)) {
    if (!reply->reply.ok()) return "refusal or failure: " + reply->reply.failure;
    std::string text = "reply:";
    for (const auto& [name, tensor] : reply->reply.body.tensors) {
      text += fmt::format(" {} ({} elements)", name, tensor.numel());
    }
    for (const auto& [name, number] : reply->reply.body.numbers) text += fmt::format(" {}={:g}", name, number);
    for (const auto& [name, words] : reply->reply.body.texts) text += fmt::format(" {} ({} bytes)", name, words.size());
    return text;
  }
  if (const auto* control = std::get_if<ControlFrame>(&frame)) {
    return control->topic == kWantTopic ? "files of the model that are missing here"
                                        : control->topic + ": " + control->text;
  }
  return "confirmation";
}

class Participant {
 public:
  explicit Participant(const JoinRequest& request)
      : request_(request), end_(FleetOffices::make("x509")->client_end(request.identity)) {
    if (!request.policy.empty()) {
      const auto document = ConfigDocument::read(request.policy);
      if (const std::string kind = document.kind("policy"); kind != "policy") {
        throw ConfigError(
            fmt::format("{}: kind: {} is no policy; it must be 'kind: policy'", request.policy.string(), kind));
      }
      policy_ = document.load<Policy>();
    }
    for (const auto& files : {request.data, request.test}) {
      for (const std::string& file : files) {
        if (!fs::exists(file)) throw DataError(fmt::format("{} does not exist", file));
      }
    }
    DataConfig reading;
    ConfigDocument::parse("", "--data-set", request.data_settings).fill([&](ConfigVisitor& visitor) {
      reading.describe(visitor);
    });
    check_transport(request.transport, end_);
    egress_.emplace(request.identity / "egress.jsonl");
    name_ = FleetOffices::make("x509")->identity(request.identity).value().name;
  }

  void run() {
    Log("client").info("{} takes part in what {} runs; Ctrl-C ends this", name_, end_.address);
    std::mt19937 jitter{std::random_device{}()};
    double pause = kShortestPause;
    while (!stopped()) {
      const auto transport = connect_to(request_.transport, end_);
      finished_ = false;
      const bool heard = visit(*transport);
      if (finished_ && request_.once) return;
      if (const std::string why = transport->refusal(); !why.empty()) {
        throw WorldError(fmt::format("{} does not accept {}: {}", end_.address, name_, why));
      }
      if (heard) pause = kShortestPause;
      wait(pause * std::uniform_real_distribution<>(0.5, 1.0)(jitter));
      pause = std::min(pause * 2, kLongest);
    }
  }

 private:
  bool stopped() const { return request_.stop && request_.stop(); }
  void wait(double seconds) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!stopped() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(seconds, kLook)));
    }
  }

  /// One connection, until it ends. False: the server never said anything.
  bool visit(ClientTransport& transport) {
    bool heard = false;
    while (!stopped()) {
      const auto frame = next_control(transport);
      if (!frame) break;
      heard = true;
      if (frame->topic == kFinishedTopic) finished_ = true;
      if (frame->topic != kJobTopic) continue;
      if (!prepare(transport, *frame)) continue;
      ClientServiceHooks hooks;
      hooks.control = [this](const ControlFrame& said) { hear(said); };
      hooks.asked = [this](const CohortFrame& cohort) { expect(cohort); };
      hooks.withheld = [this](std::size_t bytes) { return client_->withheld(bytes); };
      hooks.sending = [this](const Frame& sent, const FrameBytes& bytes) { record(sent, bytes); };
      hooks.stop = [this] { return stopped(); };
      hooks.states_sizes = !client_->sums_only();
      ClientService(transport, *client_, hooks, kLimits).run();
      break;
    }
    return heard;
  }

  /// Nothing: the connection has ended, or somebody stopped this.
  std::optional<ControlFrame> next_control(ClientTransport& transport) {
    while (!stopped()) {
      const auto bytes = transport.receive(kLook);
      if (!bytes && !transport.connected()) return std::nullopt;
      if (!bytes) continue;
      auto frame = decode_frame(*bytes);
      if (!frame.ok()) {
        Log("client").error("the server cannot be understood: {}", frame.failure().message);
        return std::nullopt;
      }
      if (auto* control = std::get_if<ControlFrame>(&frame.value())) return std::move(*control);
    }
    return std::nullopt;
  }

  void record(const Frame& frame, const FrameBytes& bytes) {
    Egress entry;
    entry.what = description_of(frame);
    entry.server = end_.address;
    entry.run = hex_of(run_);
    if (client_) entry.ledgers = client_->ledgers();
    entry.round = client_ ? client_->round() : 0;
    entry.bytes = bytes.size();
    entry.digest = sha256_hex(bytes.parts());
    entry.time = std::time(nullptr);
    egress_->append(entry);
  }
  bool tell(ClientTransport& transport, const ControlFrame& frame) {
    FrameBytes bytes = encode_frame(frame);
    record(frame, bytes);
    return transport.send(std::move(bytes));
  }

  void hear(const ControlFrame& frame) {
    if (frame.topic == kFinishedTopic) {
      finished_ = true;
      Log("client").info("the run has ended");
    }
  }
  void expect(const CohortFrame& cohort) {
    if (!cohort.members.empty()) client_->expect(cohort.number, cohort.members.front().kept);
  }

  /// Whether this client is ready for the job. The server hears why not.
  bool prepare(ClientTransport& transport, const ControlFrame& frame) {
    std::string refusal;
    try {
      Job job = parse_job(frame.text);
      run_ = job.run;
      if (client_ && to_json(client_->job()) == to_json(job)) return true;
      client_.reset();
      HostedClientInput input{.job = job,
                              .folder = request_.identity,
                              .data = request_.data,
                              .test = request_.test,
                              .data_settings = request_.data_settings,
                              .device = request_.device,
                              .end = end_,
                              .policy = policy_,
                              .egress = *egress_,
                              .stop = request_.stop};
      const ExperimentConfig config = HostedClient::config_for(input);
      std::vector<std::string> files;  // with those of --data-set
      for (const auto& some : {config.data.train, config.data.validation, config.data.test}) {
        files.insert(files.end(), some.begin(), some.end());
      }
      refusal = refusal_of_job(policy_, config, files);
      if (refusal.empty()) {
        if (!fetch(transport, job)) return false;
        use_kernels_of(config.federation);
        client_ = std::make_unique<HostedClient>(std::move(input));
        Log("client").info("ready: client {} of the run, {:g} training examples; {}", job.client,
                           client_->roster().size_of(job.client), what_the_server_sees(config));
        return true;
      }
      Log("client").warning("refuses the job: {}", refusal);
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {  // LibTorch's and the allocator's, too: a server must not end this process
      Log("client").error("cannot take part: {}; waits for the server's next run, Ctrl-C ends this", error.what());
      refusal = "its data or its model does not fit the job; its own log says why";
    }
    (void)tell(transport, {kRefuseTopic, refusal, ""});
    return false;
  }

  /// Gets the files of the model that are not here yet. False: the connection has ended.
  bool fetch(ClientTransport& transport, const Job& job) {
    const fs::path folder = job_folder(request_.identity, job);
    std::map<std::string, std::vector<const JobFile*>> missing;
    for (const JobFile& file : job.files) {
      const fs::path path = folder / file.place / file.name;
      if (!fs::exists(path) || fs::file_size(path) != file.size) missing[file.digest].push_back(&file);
    }
    if (missing.empty()) return true;
    nlohmann::json digests = nlohmann::json::array();
    for (const auto& entry : missing) digests.push_back(entry.first);
    if (!tell(transport, {kWantTopic, digests.dump(), ""})) return false;
    Log("client").info("gets {} files of the model", missing.size());
    while (!missing.empty()) {
      const auto frame = next_control(transport);
      if (!frame) return false;
      const auto wanted = frame->topic == kFileTopic ? missing.find(frame->text) : missing.end();
      if (wanted == missing.end()) continue;
      if (fingerprint(frame->data).hex() != frame->text) throw DataError("a file of the model was damaged on the way");
      for (const JobFile* file : wanted->second) {
        if (frame->data.size() != file->size) throw DataError("a file of the model has another size than was said");
        fs::create_directories(folder / file->place);
        write_file(folder / file->place / file->name, frame->data);
      }
      missing.erase(wanted);
    }
    return true;
  }

  const JoinRequest& request_;
  FleetEnd end_;
  std::string name_;
  Policy policy_;
  std::optional<EgressLog> egress_;
  std::unique_ptr<HostedClient> client_;
  std::uint64_t run_ = 0;
  bool finished_ = false;
};

}  // namespace

void take_part(const JoinRequest& request) {
  const TorchThreads one(1);
  Participant(request).run();
}

}  // namespace chorus::inline serving
