#include "infrastructure/transport/mqtt/mqtt_mailbox.h"

#include <MQTTAsync.h>
#include <fmt/format.h>

#include <chrono>

#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline transport_mqtt {
namespace {

constexpr int kAtLeastOnce = 1;
constexpr std::size_t kMostUnderWay = 8U << 20U;  // bytes that the broker has not acknowledged
constexpr int kMostMessages = 65'535;
constexpr double kFlushSeconds = 5;
constexpr const char* kUp = "chorus/up/";
constexpr const char* kDown = "chorus/down/";

struct Sent {
  MqttMailbox* mailbox;
  std::size_t bytes;
};

void on_connected(void* context, char*) { static_cast<MqttMailbox*>(context)->connected(); }
void on_lost(void* context, char*) { static_cast<MqttMailbox*>(context)->lost(); }
int on_arrived(void* context, char* topic, int length, MQTTAsync_message* message) {
  auto* mailbox = static_cast<MqttMailbox*>(context);
  mailbox->arrived(
      length > 0 ? std::string(topic, static_cast<std::size_t>(length)) : std::string(topic),
      std::string(static_cast<const char*>(message->payload), static_cast<std::size_t>(message->payloadlen)));
  MQTTAsync_freeMessage(&message);
  MQTTAsync_free(topic);
  return 1;
}
void on_sent(void* context, MQTTAsync_successData*) {
  const std::unique_ptr<Sent> sent(static_cast<Sent*>(context));
  sent->mailbox->sent(sent->bytes);
}
void on_not_sent(void* context, MQTTAsync_failureData*) {
  const std::unique_ptr<Sent> sent(static_cast<Sent*>(context));
  sent->mailbox->sent(sent->bytes);
}

}  // namespace

MqttMailbox::MqttMailbox(MqttMailboxInput input) : input_(std::move(input)) {
  const MqttConfig& config = input_.config;
  const bool secure = !config.certificate.empty();
  const std::string uri = fmt::format("{}://{}", secure ? "ssl" : "tcp", config.address);
  MQTTAsync_createOptions creation = MQTTAsync_createOptions_initializer;
  creation.sendWhileDisconnected = 1;
  creation.maxBufferedMessages = kMostMessages;
  if (MQTTAsync_createWithOptions(&client_, uri.c_str(), ("chorus-" + input_.name).c_str(), MQTTCLIENT_PERSISTENCE_NONE,
                                  nullptr, &creation) != MQTTASYNC_SUCCESS) {
    throw WorldError(fmt::format("no connection to the broker at {} can be made", config.address));
  }
  MQTTAsync_setCallbacks(client_, this, on_lost, on_arrived, nullptr);
  MQTTAsync_setConnected(client_, this, on_connected);
}

void MqttMailbox::open(Receive receive) {
  receive_ = std::move(receive);
  thread_ = std::thread([this] { deliver(); });
  const MqttConfig& config = input_.config;
  MQTTAsync_connectOptions options = MQTTAsync_connectOptions_initializer;
  options.keepAliveInterval = static_cast<int>(config.keepalive);
  options.cleansession = 0;
  options.automaticReconnect = 1;
  options.minRetryInterval = 1;
  options.maxRetryInterval = std::max(1, static_cast<int>(config.retry));
  options.connectTimeout = 10;
  MQTTAsync_willOptions will = MQTTAsync_willOptions_initializer;
  will.topicName = input_.will_topic.c_str();
  will.qos = kAtLeastOnce;
  will.payload.len = static_cast<int>(input_.will.size());
  will.payload.data = input_.will.data();
  if (!input_.will.empty()) options.will = &will;
  MQTTAsync_SSLOptions tls = MQTTAsync_SSLOptions_initializer;
  tls.trustStore = config.authority.c_str();
  tls.keyStore = config.certificate.c_str();
  tls.privateKey = config.key.c_str();
  tls.enableServerCertAuth = 1;
  tls.verify = 0;  // the certificate names a role, not a host; its authority is the fleet's own
  tls.disableDefaultTrustStore = 1;
  tls.sslVersion = MQTT_SSL_VERSION_DEFAULT;  // TLS 1.2 or 1.3
  if (!config.certificate.empty()) options.ssl = &tls;
  options.context = this;
  options.onFailure = [](void* context, MQTTAsync_failureData* data) {
    Log("transport")
        .warning("the broker cannot be reached, trying again{}{}",
                 data != nullptr && data->message != nullptr ? ": " : "",
                 data != nullptr && data->message != nullptr ? data->message : "");
    static_cast<MqttMailbox*>(context)->lost();
  };
  if (MQTTAsync_connect(client_, &options) != MQTTASYNC_SUCCESS) {
    Log("transport").warning("the broker at {} cannot be reached", config.address);
  }
}

MqttMailbox::~MqttMailbox() {
  {
    // What was posted goes out first.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(connected_ ? kFlushSeconds : 0.0),
                      [this] { return under_way_ == 0; });
    closing_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  MQTTAsync_disconnectOptions options = MQTTAsync_disconnectOptions_initializer;
  options.timeout = 500;
  MQTTAsync_disconnect(client_, &options);
  for (int i = 0; i < 50 && MQTTAsync_isConnected(client_) != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  MQTTAsync_destroy(&client_);
}

void MqttMailbox::post(const std::string& to, std::string bytes) {
  const std::string topic = to == kMqttServer ? kUp + input_.name : kDown + to;
  {
    std::unique_lock lock(mutex_);
    if (std::this_thread::get_id() != thread_.get_id()) {
      changed_.wait(lock, [this] { return under_way_ < kMostUnderWay || closing_; });
    }
    under_way_ += bytes.size();
  }
  MQTTAsync_message message = MQTTAsync_message_initializer;
  message.payload = bytes.data();
  message.payloadlen = static_cast<int>(bytes.size());
  message.qos = kAtLeastOnce;
  MQTTAsync_responseOptions response = MQTTAsync_responseOptions_initializer;
  auto waiting = std::make_unique<Sent>(Sent{this, bytes.size()});
  response.context = waiting.get();
  response.onSuccess = on_sent;
  response.onFailure = on_not_sent;
  if (MQTTAsync_sendMessage(client_, topic.c_str(), &message, &response) == MQTTASYNC_SUCCESS) {
    (void)waiting.release();  // freed by on_sent
  } else {
    sent(bytes.size());
  }
}

bool MqttMailbox::wait_until_connected(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return connected_; });
}

void MqttMailbox::arrived(std::string topic, std::string bytes) {
  Letter letter;
  letter.bytes = std::move(bytes);
  const std::string_view up = kUp;
  if (topic.starts_with(up)) {
    letter.from = topic.substr(up.size());
    // The broker lets a name be used by the owner of its certificate only.
    if (!input_.config.certificate.empty()) letter.identity = letter.from;
  }
  const std::lock_guard lock(mutex_);
  inbox_.push_back(std::move(letter));
  changed_.notify_all();
}

void MqttMailbox::connected() {
  for (const std::string& topic : input_.topics) {
    MQTTAsync_responseOptions response = MQTTAsync_responseOptions_initializer;
    (void)MQTTAsync_subscribe(client_, topic.c_str(), kAtLeastOnce, &response);
  }
  const std::lock_guard lock(mutex_);
  connected_ = true;
  changed_.notify_all();
}

void MqttMailbox::lost() {
  const std::lock_guard lock(mutex_);
  connected_ = false;
  changed_.notify_all();
}

void MqttMailbox::sent(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  under_way_ -= std::min(bytes, under_way_);
  changed_.notify_all();
}

void MqttMailbox::deliver() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !inbox_.empty(); });
    if (closing_) return;
    Letter letter = std::move(inbox_.front());
    inbox_.pop_front();
    lock.unlock();
    receive_(std::move(letter));
    lock.lock();
  }
}

}  // namespace chorus::inline transport_mqtt
