#include "infrastructure/hub/hub.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/http/http_server.h"
#include "infrastructure/hub/digest.h"
#include "tests/support.h"

namespace chorus::inline hub {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

/// A hub with one model, on this machine. Counts what is asked.
class SmallHub {
 public:
  SmallHub() : server_(0, [this](const HttpRequest& request) { return answer(request); }) {}

  std::string address() const { return fmt::format("http://127.0.0.1:{}", server_.port()); }
  void add(const std::string& path, const std::string& content, bool large = false) {
    write_file(scratch_ / "x", content);
    const std::string id = large ? sha256_of_file(scratch_ / "x") : git_name_of_file(scratch_ / "x");
    json item = {{"rfilename", path}, {"size", content.size()}, {"blobId", large ? std::string(40, '0') : id}};
    if (large) item["lfs"] = {{"sha256", id}, {"size", content.size()}};
    siblings_.push_back(item);
    files_[path] = content;
  }
  void damage(const std::string& path, const std::string& content) { files_[path] = content; }

  std::map<std::string, int> asked;          ///< by path
  std::map<std::string, std::string> range;  ///< the newest Range header
  std::string token;                         ///< of the newest request
  bool ranges = true;

 private:
  HttpResponse answer(const HttpRequest& request) {
    const auto header = [&](const char* name) {
      const auto found = request.headers.find(name);
      return found == request.headers.end() ? std::string() : found->second;
    };
    token = header("authorization");
    if (request.path == "/api/models/org/tiny/revision/main") {
      return {.body = json({{"sha", kCommit}, {"siblings", siblings_}}).dump(), .type = "application/json"};
    }
    const std::string base = fmt::format("/org/tiny/resolve/{}/", kCommit);
    if (!request.path.starts_with(base) || !files_.contains(request.path.substr(base.size()))) return {.status = 404};
    const std::string path = request.path.substr(base.size());
    ++asked[path];
    range[path] = header("range");
    HttpResponse response{.body = files_[path], .type = "application/octet-stream"};
    std::size_t begin = 0;
    if (ranges && std::sscanf(range[path].c_str(), "bytes=%zu-", &begin) == 1) {
      response.status = 206;
      response.headers.emplace_back(
          "Content-Range", fmt::format("bytes {}-{}/{}", begin, response.body.size() - 1, response.body.size()));
      response.body = response.body.substr(begin);
    }
    return response;
  }

  TemporaryFolder scratch_;
  json siblings_ = json::array();
  std::map<std::string, std::string> files_;
  HttpServer server_;
};

class HubTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v curl >/dev/null") != 0) GTEST_SKIP() << "curl is missing";
    hub_.add("config.json", "{\"model_type\": \"bert\"}");
    hub_.add("vocab.txt", "a\nb\n");
    hub_.add("model.safetensors", std::string(300000, 'w'), true);
    hub_.add("pytorch_model.bin", "the same again", true);
    hub_.add("tf_model.h5", "not for us", true);
    hub_.add("onnx/model.onnx", "nor this", true);
    hub_.add("1_Pooling/config.json", "{}");
    hub_.add("README.md", "card");
    options_.endpoint = hub_.address();
    options_.cache = folder_ / "hub";
  }
  static std::string text_of(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  fs::path blobs() const { return folder_ / "hub" / "models--org--tiny" / "blobs"; }

  TemporaryFolder folder_;
  SmallHub hub_;
  HubOptions options_;
};

TEST(HubDigest, IsThatOfOtherPrograms) {
  const TemporaryFolder folder;
  write_file(folder / "a", "hello\n");
  // sha256sum, git hash-object
  EXPECT_EQ(sha256_of_file(folder / "a"), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
  EXPECT_EQ(git_name_of_file(folder / "a"), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST_F(HubTest, AModelIsPutIntoTheCacheOnce) {
  options_.token = "hf_secret";
  const HubModel model = get_model("org/tiny", "main", options_);
  EXPECT_EQ(model.fetched, 4U);
  EXPECT_EQ(hub_.token, "Bearer hf_secret");
  EXPECT_EQ(text_of(model.folder / "vocab.txt"), "a\nb\n");
  EXPECT_EQ(fs::file_size(model.folder / "model.safetensors"), 300000U);
  EXPECT_TRUE(fs::exists(model.folder / "1_Pooling" / "config.json"));
  EXPECT_FALSE(fs::exists(model.folder / "pytorch_model.bin")) << "the weights are there once";
  EXPECT_EQ(model.folder, folder_ / "hub" / "models--org--tiny" / "snapshots" / kCommit);
  EXPECT_EQ(text_of(folder_ / "hub" / "models--org--tiny" / "refs" / "main"), kCommit);
  EXPECT_TRUE(fs::is_symlink(model.folder / "vocab.txt"));
  const auto asked = hub_.asked;
  EXPECT_EQ(get_model("org/tiny", "main", options_).fetched, 0U);
  EXPECT_EQ(hub_.asked, asked) << "nothing was downloaded again";
}

TEST_F(HubTest, WithoutANetworkTheCacheIsUsed) {
  get_model("org/tiny", "main", options_);
  options_.endpoint = "http://127.0.0.1:1";
  const HubModel again = get_model("org/tiny", "main", options_);
  EXPECT_TRUE(again.offline);
  EXPECT_TRUE(fs::exists(again.folder / "config.json"));
  EXPECT_THAT(message_of<WorldError>([&] { get_model("org/other", "main", options_); }),
              HasSubstr("cannot be reached"));
}

TEST_F(HubTest, AnInterruptedFileContinues) {
  const std::string whole(300000, 'w');
  fs::create_directories(blobs());
  write_file(folder_ / "w", whole);
  const std::string id = sha256_of_file(folder_ / "w");
  write_file(blobs() / (id + ".incomplete"), whole.substr(0, 100000));
  const HubModel model = get_model("org/tiny", "main", options_);
  EXPECT_EQ(hub_.range["model.safetensors"], "bytes=100000-");
  EXPECT_EQ(text_of(model.folder / "model.safetensors"), whole);
}

TEST_F(HubTest, AServerThatCannotContinueStartsAgain) {
  hub_.ranges = false;
  const std::string whole(300000, 'w');
  fs::create_directories(blobs());
  write_file(folder_ / "w", whole);
  write_file(blobs() / (sha256_of_file(folder_ / "w") + ".incomplete"), whole.substr(0, 100000));
  EXPECT_EQ(text_of(get_model("org/tiny", "main", options_).folder / "model.safetensors"), whole);
}

TEST_F(HubTest, DamageIsNoticedAndNotKept) {
  hub_.damage("model.safetensors", std::string(299999, 'w') + "x");
  EXPECT_THAT(message_of<WorldError>([&] { get_model("org/tiny", "main", options_); }), HasSubstr("its checksum"));
  hub_.damage("model.safetensors", "short");
  EXPECT_THAT(message_of<WorldError>([&] { get_model("org/tiny", "main", options_); }), HasSubstr("its size"));
  for (const auto& entry : fs::directory_iterator(blobs())) EXPECT_FALSE(entry.path().extension() == ".incomplete");
  hub_.damage("model.safetensors", std::string(300000, 'w'));
  EXPECT_EQ(fs::file_size(get_model("org/tiny", "main", options_).folder / "model.safetensors"), 300000U);
}

TEST(HubListingTest, NamesOutsideTheFolderAreRefused) {
  const auto listing = [](const std::string& path) {
    return json({{"sha", kCommit}, {"siblings", {{{"rfilename", path}, {"blobId", std::string(40, 'a')}}}}}).dump();
  };
  for (const char* path : {"../x", "/etc/passwd", "a/../../x", "a//b", "", ".", "a\\b", "a\nb"}) {
    EXPECT_THAT(message_of<DataError>([&] { parse_listing(listing(path), "here"); }), HasSubstr("outside")) << path;
  }
  for (const char* text : {"", "[]", "{}", "{\"sha\": \"x\", \"siblings\": []}", "{\"sha\": 3}"}) {
    EXPECT_THAT(message_of<DataError>([&] { parse_listing(text, "here"); }), HasSubstr("here: is not")) << text;
  }
  EXPECT_EQ(parse_listing(listing("a/b"), "here").files.size(), 1U);
  EXPECT_THAT(message_of<DataError>([&] { needed_files(parse_listing(listing("a.txt"), "here"), "org/x"); }),
              HasSubstr("no weights"));
}

TEST(HubNames, ThatAreNoneAreRefused) {
  HubOptions options;
  for (const char* name : {"", "../x", "a/b/c", "-x", "/a", "a b", "a/"}) {
    EXPECT_THAT(message_of<ConfigError>([&] { get_model(name, "main", options); }), HasSubstr("is not")) << name;
  }
}

}  // namespace
}  // namespace chorus::inline hub
